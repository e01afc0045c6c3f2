"""What `import firelu` does not do: load torch, start threads, touch a GPU."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


def run(script: str) -> str:
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_import_loads_numpy_and_nothing_else_of_weight():
    script = """
import sys
import numpy
import numpy.typing
before = set(sys.modules)
import firelu
print(*sorted({name.partition(".")[0] for name in set(sys.modules) - before if not name.startswith("firelu")}))
"""
    allowed = set(sys.stdlib_module_names)
    assert set(run(script).split()) <= allowed


@pytest.mark.skipif(
    not Path("/proc/self/task").exists(), reason="threads are counted in /proc, which this system lacks"
)
def test_import_starts_no_thread():
    script = """
import os
import numpy
before = len(os.listdir("/proc/self/task"))
import firelu
firelu.leaky_relu(numpy.ones(8, dtype=numpy.float32))
print(len(os.listdir("/proc/self/task")) - before)
"""
    assert run(script) == "0\n"


@pytest.mark.skipif(
    not Path("/proc/self/maps").exists(), reason="libraries are read from /proc, which this system lacks"
)
def test_import_loads_no_gpu_driver():
    script = """
import firelu
print("libcuda" in open("/proc/self/maps").read())
"""
    assert run(script) == "False\n"


def test_the_command_line_loads_no_drawing_library_to_print_help():
    script = """
import sys
from firelu.cli import main
try:
    main(["--help"])
except SystemExit:
    pass
print([name for name in ("matplotlib", "PIL", "scipy", "torch", "firelu.demo") if name in sys.modules])
"""
    assert run(script).splitlines()[-1] == "[]"
