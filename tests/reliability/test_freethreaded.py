"""A free-threaded Python: the import switches the GIL on, and threads at once lose nothing.

Every Python runs the threads of `test_threads_hostile.py`; this needs a free-threaded one (`make test-freethreaded`).
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig

import pytest

pytestmark = pytest.mark.skipif(
    not sysconfig.get_config_var("Py_GIL_DISABLED"), reason="this Python has a GIL: make test-freethreaded"
)


def run_python(code):
    # Python warns of the module that switches the GIL on, unless the environment has said whether it is on.
    command = [sys.executable, "-W", "ignore", "-c", code]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHON_GIL"}
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


def test_importing_firelu_switches_the_gil_on():
    assert run_python("import sys, firelu; print(sys._is_gil_enabled())") == "True"


# All threads use one leaf, one workspace, one operator and one name in the registry, with calls that keep the
# interpreter (few elements) and calls that let go of it.
AT_ONCE = """
import threading, numpy, firelu
from firelu import create_operator as op

COUNT, TURNS = 8, 100
leaf = firelu.Tensor(numpy.ones(20_000, numpy.float32), requires_grad=True)
small = firelu.Tensor(numpy.ones(4, numpy.float32), requires_grad=True)
ws = firelu.Workspace()
ws.feed("C", [0.0])
ws.feed("ONE", [1.0])
net = [op("Add", ["C", "ONE"], ["D"]), op("Sum", ["D"], ["C"])]
failures, start = [], threading.Barrier(COUNT)

def work(index):
    x = numpy.full(8, -1, numpy.float32)
    large = numpy.full(1 << 18, -1, numpy.float32)
    for turn in range(TURNS):
        (leaf * leaf).sum().backward()
        (small * small).sum().backward()
        ws.run(net)
        firelu.register_operator("Shared", lambda x: x + 1, ["X"], ["Y"], replace=True)
        assert firelu.run_operator("Shared", x)[0] == 0
        slope = (COUNT * turn + index) % 127 / 128
        assert firelu.leaky_relu(x, slope)[0] == numpy.float32(-slope)
        assert (firelu.leaky_relu(large, slope) == numpy.float32(-slope)).all()
        own = f"Own{index}_{turn}"
        firelu.register_operator(own, lambda x: x, ["X"], ["Y"])
        assert own in firelu.operators()

def run(index):
    try:
        start.wait()
        work(index)
    except BaseException as failure:
        failures.append(failure)

threads = [threading.Thread(target=run, args=(index,)) for index in range(COUNT)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
if failures:
    raise failures[0]
whole = 2 * COUNT * TURNS
print((leaf.grad.numpy() == whole).all(), (small.grad.numpy() == whole).all(), ws.fetch("C").item() == COUNT * TURNS)
"""


def test_a_leaf_a_workspace_and_the_registry_serve_threads_at_once():
    assert run_python(AT_ONCE) == "True True True"
