"""Forks, spawns, sub-interpreters, exits with work in flight, many threads, limits of every kind."""

from __future__ import annotations

import concurrent.futures
import multiprocessing
import os
import subprocess
import sys
import threading

import firelu
import numpy as np
import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc, forks or sends signals")

X = np.linspace(-1, 1, 1 << 20, dtype=np.float32).reshape(4, 512, 512)
K = np.outer([1, 3, 3, 1], [1, 3, 3, 1]).astype(np.float32) / 64


def mixed(x=X):
    """One call of every family, as a number of its own."""
    y = firelu.fused_leaky_relu(firelu.leaky_relu(x, 0.3), None, 0.2, 1.0, axis=0)
    y = firelu.upfirdn2d(y, K, up=2, down=2, pad=(2, 1))
    dx, db = firelu.fused_leaky_relu_gradient(y, y, axis=0)
    dk = firelu.upfirdn2d_kernel_gradient(x, y[:, :509, :509], K.shape)
    return [float(part.sum(dtype=np.float64)) for part in (y, dx, db, dk)]


def run_python(code, timeout=120, **environment):
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=timeout, env={**os.environ, **environment}
    )


def work(connection):
    connection.send(mixed())


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
def test_children_of_a_busy_parent(method):
    # The parent computes in other threads while it forks: the pool and its locks may be in any state.
    expected = mixed()
    stop = threading.Event()

    def busy():
        while not stop.is_set():
            mixed()

    threads = [threading.Thread(target=busy) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        context = multiprocessing.get_context(method)
        for _ in range(3):
            receiver, sender = context.Pipe(duplex=False)
            process = context.Process(target=work, args=(sender,))
            process.start()
            assert receiver.poll(120), "the child hangs"
            assert receiver.recv() == expected
            process.join()
            assert process.exitcode == 0
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_a_child_of_a_child():
    code = """
import os, numpy, firelu
x = numpy.ones(1 << 22, numpy.float32)
firelu.set_num_threads(2)
for depth in range(3):
    assert firelu.leaky_relu(x).sum(dtype=float) == 1 << 22
    child = os.fork()
    if child:
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        os._exit(0)
print("deepest", firelu.leaky_relu(x)[0], flush=True)
os._exit(0)
"""
    result = run_python(code)
    assert (result.returncode, result.stdout.strip()) == (0, "deepest 1.0"), result.stderr


def test_a_sub_interpreter_computes_or_is_refused():
    code = """
try:
    import _xxsubinterpreters as interpreters
except ImportError:
    import _interpreters as interpreters
import numpy, firelu
identity = interpreters.create()
source = "import numpy, firelu; assert firelu.leaky_relu(numpy.float32([-2]), 0.5)[0] == -1"
try:
    problem = interpreters.run_string(identity, source)
except Exception as error:
    problem = error
print("works" if problem is None else f"refused {type(problem).__name__}: {problem}")
interpreters.destroy(identity)
assert firelu.leaky_relu(numpy.float32([-2]), 0.5)[0] == -1
"""
    result = run_python(code)
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith(("works", "refused"))
    if result.stdout.startswith("refused"):
        assert "ImportError" in result.stdout or "interpreter" in result.stdout.lower()


@pytest.mark.parametrize("threads", [1, 2])
def test_exit_with_work_in_flight(threads):
    code = f"""
import threading, time, numpy, firelu
firelu.set_num_threads({threads})
x = numpy.ones((8, 1024, 1024), numpy.float16)
k = numpy.ones((24, 24), numpy.float32)
k[0, 0] = 2
def loop():
    while True:
        firelu.upfirdn2d(x, k)
        firelu.leaky_relu(x)
for _ in range(3):
    threading.Thread(target=loop, daemon=True).start()
time.sleep(0.5)
print("leaving", flush=True)
"""
    result = run_python(code)
    assert (result.returncode, result.stdout.strip()) == (0, "leaving"), result.stderr
    assert result.stderr == ""


def test_sixty_four_threads_of_mixed_calls():
    expected = mixed()
    with concurrent.futures.ThreadPoolExecutor(64) as pool:
        for result in pool.map(lambda _: mixed(), range(128)):
            assert result == expected


def test_threads_that_change_the_settings_meanwhile():
    expected = mixed()
    before, stop = firelu.get_num_threads(), threading.Event()

    def change():
        while not stop.is_set():
            for threads in (1, 2, 5, 8):
                firelu.set_num_threads(threads)
                firelu.set_cache_limit(threads << 22)
                firelu.empty_cache()

    changer, limit = threading.Thread(target=change), firelu.memory_stats()["limit"]
    changer.start()
    try:
        for _ in range(30):
            assert mixed() == expected
    finally:
        stop.set()
        changer.join()
        firelu.set_num_threads(before)
        firelu.set_cache_limit(limit)


def test_the_number_of_operating_system_threads_is_bounded():
    code = """
import concurrent.futures, os, numpy, firelu
firelu.set_num_threads(3)
x = numpy.ones(1 << 22, numpy.float32)
firelu.leaky_relu(x)
alone = len(os.listdir("/proc/self/task"))
with concurrent.futures.ThreadPoolExecutor(16) as pool:
    list(pool.map(lambda _: firelu.leaky_relu(x), range(64)))
    print(alone - 1, len(os.listdir("/proc/self/task")) - 16 - 1)
"""
    result = run_python(code)
    assert result.returncode == 0, result.stderr
    alone, crowded = map(int, result.stdout.split())
    # numpy starts no threads for this; a call has two helpers, and sixteen callers share them.
    assert crowded <= alone + 2, result.stdout


def test_affinity_and_the_environment():
    code = "import firelu; print(firelu.get_num_threads())"
    assert run_python(code, FIRELU_NUM_THREADS="5").stdout.strip() == "5"
    one = "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n" + code
    assert run_python(one, FIRELU_NUM_THREADS="").stdout.strip() == "1"
    for rubbish in ("0", "-1", "1e3", "99999999999999999999", "\u00e9"):
        assert run_python(code, FIRELU_NUM_THREADS=rubbish).returncode == 0


CGROUPS = {
    "/sys/fs/cgroup/cgroup.controllers": ("/sys/fs/cgroup", "cpu.max", "100000 100000"),
    "/sys/fs/cgroup/cpu/cpu.cfs_quota_us": ("/sys/fs/cgroup/cpu", "cpu.cfs_quota_us", "100000"),
}


def test_a_cgroup_limit_is_honoured():
    # Either version of cgroups: one processor's time in each period.
    found = [CGROUPS[mark] for mark in CGROUPS if os.path.exists(mark)]
    if not found:
        pytest.skip("this system has no cgroup hierarchy")
    root, name, limit = found[0]
    group = f"{root}/firelu-test-{os.getpid()}"
    try:
        os.mkdir(group)
    except OSError as error:
        pytest.skip(f"no cgroup can be made here: {error}")
    try:
        try:
            with open(f"{group}/{name}", "w") as file:
                file.write(limit)
        except OSError as error:
            pytest.skip(f"no cgroup can be limited here: {error}")
        code = f"""
import os
with open("{group}/cgroup.procs", "w") as file:
    file.write(str(os.getpid()))
import firelu
print(firelu.get_num_threads())
"""
        result = run_python(code, FIRELU_NUM_THREADS="")
        assert result.stdout.strip() == "1", result.stderr
    finally:
        os.rmdir(group)


MEMORY = """
import resource, numpy, firelu
{prepare}
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + ({spare} << 20), resource.RLIM_INFINITY))
for _ in range(3):
    try:
        {call}
        print("computed")
    except MemoryError as error:
        print("refused", "allocate" in str(error) or "memory" in str(error).lower())
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
{call}
print("works again", firelu.leaky_relu(numpy.float32([-2]), 0.5)[0])
"""

LIMITED = {
    "output": ("x = numpy.ones(1 << 26, numpy.float32)", "firelu.leaky_relu(x)", 64),
    "sums": (
        "x = numpy.broadcast_to(numpy.float32(1), (8200, 1 << 17))",
        "firelu.run_operator('ReduceSum', x, axes=[0])",
        1,
    ),
    "kernel": (
        "x = numpy.ones((1, 1), numpy.float32); k = numpy.broadcast_to(numpy.float32(1), (2048, 2048))",
        "firelu.upfirdn2d(x, k, pad=(2047, 0))",
        8,
    ),
    "half sums": ("x = [numpy.ones(1 << 24, numpy.float16)] * 6", "firelu.run_operator('Sum', *x)", 48),
    "tensor": ("x = numpy.ones(1 << 26, numpy.float32)", "firelu.Tensor(x)", 64),
}


@pytest.mark.parametrize("name", LIMITED)
def test_out_of_memory_everywhere(name):
    prepare, call, spare = LIMITED[name]
    code = MEMORY.format(prepare=prepare, call=call, spare=spare)
    result = run_python(code, timeout=250, MALLOC_ARENA_MAX="1")
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[-1] == "works again -1.0"
    assert set(lines[:-1]) == {"refused True"}, lines
