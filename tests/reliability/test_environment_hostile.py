"""What surrounds a call: memory that is not there, a thread's rounding mode, environment variables."""

from __future__ import annotations

import os
import subprocess
import sys

import firelu
import numpy as np
import pytest

linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc, or changes what Linux lets a process have")


def run_python(code, *options, timeout=120, **environment):
    cleared = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    return subprocess.run(
        [sys.executable, *options, "-c", code],
        capture_output=True,
        text=True,
        timeout=timeout,
        env={**cleared, **environment},
    )


HUGE = """
import signal, numpy, firelu
signal.alarm(60)  # Ends a call that touches what it was promised.
z = numpy.lib.stride_tricks.as_strided(numpy.ones(1, numpy.float32), (2**40,), (0,))
image = numpy.lib.stride_tricks.as_strided(numpy.ones(1, numpy.float32), (1, 2**10, 2**10), (0, 0, 0))
calls = [
    lambda: firelu.leaky_relu(z),
    lambda: firelu.Tensor(z),
    lambda: firelu.run_operator("Sum", z, z),
    lambda: firelu.upfirdn2d(image, numpy.ones((1, 1), numpy.float32), up=2**10),
    lambda: firelu.upfirdn2d(image, numpy.ones((1, 1), numpy.float32), pad=(2**20, 0)),
]
for call in calls:
    try:
        call()
    except MemoryError as error:
        print("allocate" in str(error))
lines = open("/proc/self/status").read().splitlines()
print(next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) < 1 << 20)
print(firelu.leaky_relu(numpy.float32([-2]), 0.5)[0])
"""


@linux
def test_memory_that_no_system_has_is_refused_before_a_page_is_touched():
    result = run_python(HUGE)
    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == ["True"] * 6 + ["-1.0"]


AVAILABLE = """
import numpy, firelu
lines = open("/proc/meminfo").read().splitlines()
fields = {line.split(":")[0]: int(line.split()[1]) << 10 for line in lines}
# More than there is and less than the machine has, which Linux would promise.
size = (fields["MemAvailable"] + fields["SwapFree"] + fields["MemTotal"] + fields["SwapTotal"]) // 2
z = numpy.lib.stride_tricks.as_strided(numpy.ones(1, numpy.float32), (size // 4,), (0,))
try:
    firelu.leaky_relu(z)
except MemoryError as error:
    print("refused")
"""


@linux
def test_memory_that_others_use_is_refused_too():
    # A process that touches what it is promised is ended: the first to go is this child.
    prepare = "open('/proc/self/oom_score_adj', 'w').write('1000')\n"
    result = run_python(prepare + AVAILABLE)
    assert (result.returncode, result.stdout.strip()) == (0, "refused"), result.stderr


@linux
def test_the_limit_of_a_control_group_is_asked():
    root, limit = "/sys/fs/cgroup", "memory.max"
    if os.path.exists(f"{root}/memory/memory.limit_in_bytes"):  # the first version's
        root, limit = f"{root}/memory", "memory.limit_in_bytes"
    group = f"{root}/firelu-memory-{os.getpid()}"
    try:
        os.mkdir(group)
    except OSError as error:
        pytest.skip(f"no control group can be made here: {error}")
    try:
        try:
            # Never made here: a folder without it is no control group.
            with open(f"{group}/{limit}", "r+") as file:
                file.write(str(512 << 20))
        except OSError as error:
            pytest.skip(f"no control group's memory can be limited here: {error}")
        code = f"""
import os
with open("{group}/cgroup.procs", "w") as file:
    file.write(str(os.getpid()))
import numpy, firelu
x = numpy.broadcast_to(numpy.float32(1), (1 << 28,))
try:
    firelu.leaky_relu(x)
except MemoryError:
    print("refused", firelu.leaky_relu(x[: 1 << 24]).shape)
"""
        result = run_python(code)
        assert (result.returncode, result.stdout.strip()) == (0, "refused (16777216,)"), result.stderr
    finally:
        os.rmdir(group)


ROUNDING = """
import ctypes, ctypes.util, hashlib, platform, sys, numpy, firelu
libm = ctypes.CDLL(ctypes.util.find_library("m"))
mode = sys.argv[1]
rng = numpy.random.default_rng(0)
image = rng.standard_normal((8, 256, 256)).astype(numpy.float32)
kernel = numpy.outer([1, 3, 3, 1], [1, 3, 3, 1]).astype(numpy.float32) / 61
odd = rng.standard_normal((5, 5)).astype(numpy.float32)
def flat():
    yield firelu.upfirdn2d(image, kernel, up=2, pad=(2, 1))
    yield firelu.upfirdn2d(image, odd, pad=(2, 2))
    yield firelu.upfirdn2d_kernel_gradient(image, image[:, :252, :252], (5, 5))
    yield firelu.leaky_relu(image, 0.3)
    yield firelu.fused_leaky_relu(image, numpy.full(8, 0.1, numpy.float32), axis=0)
    yield firelu.run_operator("ReduceSum", image)
# Threads begin with the mode of who starts them: the helpers are there before the mode is another.
for threads in (2, 3):
    firelu.set_num_threads(threads)
    list(flat())
if mode == "upward":
    upward = {"x86_64": 0x800, "aarch64": 0x400000}[platform.machine()]
    assert libm.fesetround(upward) == 0
hashes = set()
for threads in (3, 2, 3, 1, 2, 3):
    firelu.set_num_threads(threads)
    for _ in range(3):
        hashes.add(hashlib.sha256(b"".join(numpy.ascontiguousarray(y).tobytes() for y in flat())).hexdigest())
libm.fesetround(0)
print(len(hashes), hashes.pop())
"""


@linux
def test_helpers_round_as_their_caller_does():
    results = {}
    for mode in ("nearest", "upward"):
        result = subprocess.run([sys.executable, "-c", ROUNDING, mode], capture_output=True, text=True, timeout=250)
        assert result.returncode == 0, result.stderr
        count, results[mode] = result.stdout.split()
        assert count == "1", mode
    assert results["nearest"] != results["upward"]


def test_helpers_flush_subnormals_as_their_caller_does(num_threads):
    torch = pytest.importorskip("torch")
    x = np.full(1 << 22, -1e-38, np.float32)
    # Threads begin with the mode of who starts them: the helpers are there before the mode is another.
    num_threads(4)
    firelu.leaky_relu(x)
    assert torch.set_flush_denormal(True)
    try:
        for threads in (4, 4, 4, 2, 1):
            num_threads(threads)
            flushed = np.count_nonzero(firelu.leaky_relu(x, 1e-4).view(np.uint32) & 0x7FFFFFFF)
            assert flushed == 0, threads
    finally:
        torch.set_flush_denormal(False)
    assert np.count_nonzero(firelu.leaky_relu(x, 1e-4)) == x.size


VARIABLES = {
    "FIRELU_NUM_THREADS": (["abc", "-1", "0", "1000000000", "1e3", "2.0"], "threads from 1 to 1024"),
    "FIRELU_CPU_LEVEL": (["foo", "AVX2", "0"], "a level that this processor has"),
    "FIRELU_CACHE_BYTES": (["1e3", "-1", "1 GiB"], "a whole number of bytes"),
}


@pytest.mark.parametrize("variable", VARIABLES)
def test_a_variable_that_is_not_understood_is_told(variable):
    values, takes = VARIABLES[variable]
    code = "import firelu; from firelu import _firelu; print(_firelu.environment_problems())"
    for value in values:
        result = run_python(code, **{variable: value})
        assert result.returncode == 0, result.stderr
        assert result.stderr.count("RuntimeWarning") == 1
        for text in (result.stderr, result.stdout):
            assert f'{variable}: got "{value}", takes' in text
            assert takes in text
        assert run_python(code, "-W", "error", **{variable: value}).returncode != 0
    for fine in {"FIRELU_NUM_THREADS": "2", "FIRELU_CPU_LEVEL": "native", "FIRELU_CACHE_BYTES": "0"}[variable], "":
        result = run_python(code, "-W", "error", **{variable: fine})
        assert (result.returncode, result.stdout.strip()) == (0, "[]"), result.stderr


def test_where_the_number_of_threads_comes_from():
    code = "import firelu; from firelu import _firelu; print(firelu.get_num_threads(), _firelu.num_threads_source())"

    def told(prepare="", **environment):
        return run_python(prepare + code, **environment).stdout.strip()

    assert told(FIRELU_NUM_THREADS="3", OMP_NUM_THREADS="5") == "3 FIRELU_NUM_THREADS"
    assert told(OMP_NUM_THREADS="5") == "5 OMP_NUM_THREADS"
    assert told(OMP_NUM_THREADS="4,2") == "4 OMP_NUM_THREADS"
    assert told(OMP_NUM_THREADS="99999999") == "1024 OMP_NUM_THREADS"
    assert told(FIRELU_NUM_THREADS="many", OMP_NUM_THREADS="5") == "5 OMP_NUM_THREADS"
    assert told("import firelu; firelu.set_num_threads(7)\n") == "7 set_num_threads"
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    assert told().endswith(" affinity and cgroup limits")
    assert int(told(OMP_NUM_THREADS="rubbish").split()[0]) <= processors


@linux
def test_an_affinity_that_is_narrowed_later_is_not_followed():
    """The number of threads is asked for once; the page on reliability says so."""
    code = """
import os, firelu
before = firelu.get_num_threads()
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
print(before - firelu.get_num_threads())
"""
    result = run_python(code, FIRELU_NUM_THREADS="")
    assert (result.returncode, result.stdout.strip()) == (0, "0"), result.stderr
