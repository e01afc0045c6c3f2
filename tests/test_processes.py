"""Threads, fork, interrupts and the interpreter's lock."""

from __future__ import annotations

import concurrent.futures
import multiprocessing
import os
import signal
import subprocess
import sys
import threading

import firelu
import numpy as np
import pytest

BIG = np.linspace(-1, 1, 1 << 22, dtype=np.float32)


def run_python(code: str, **environment: str) -> str:
    result = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, **environment},
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


def slow_work(planes):
    """Much arithmetic on little memory: the input is one number."""
    kernel = np.random.default_rng(0).standard_normal((48, 48)).astype(np.float32)
    return firelu.upfirdn2d(np.broadcast_to(np.float32(1), (planes, 512, 512)), kernel)


def test_the_interpreter_is_released_while_a_kernel_runs(num_threads):
    # While the call runs, another thread wakes up again and again; with the lock held it could not. It keeps nothing
    # but a number: a busy machine may take long for the call.
    num_threads(1)
    stopped, woken = threading.Event(), 0

    def wake():
        nonlocal woken
        while not stopped.wait(0.001):
            woken += 1

    waker = threading.Thread(target=wake)
    waker.start()
    before = woken
    slow_work(16)
    after = woken
    stopped.set()
    waker.join()
    assert after - before > 10


def child(connection, x):
    connection.send(float(firelu.leaky_relu(x, 0.5).sum(dtype=np.float64)))


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
def test_children_compute(method, num_threads):
    num_threads(2)
    expected = float(firelu.leaky_relu(BIG, 0.5).sum(dtype=np.float64))
    context = multiprocessing.get_context(method)
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=child, args=(sender, BIG))
    process.start()
    assert receiver.poll(60), "the child hangs"
    assert receiver.recv() == expected
    process.join()
    assert process.exitcode == 0


def test_many_threads_at_once():
    expected = firelu.leaky_relu(BIG, 0.3)
    with concurrent.futures.ThreadPoolExecutor(64) as pool:
        for result in pool.map(lambda _: firelu.leaky_relu(BIG, 0.3), range(64)):
            np.testing.assert_array_equal(result, expected)


def test_the_number_of_threads():
    code = "import firelu; print(firelu.get_num_threads())"
    assert run_python(code, FIRELU_NUM_THREADS="3") == "3"
    assert run_python("import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n" + code) == "1"
    for bad in ("0", "-2", "many"):
        assert run_python(code, FIRELU_NUM_THREADS=bad) == str(len(os.sched_getaffinity(0)))
    with pytest.raises(firelu.ArgumentError):
        firelu.set_num_threads(0)


def take_part(barrier):
    """Give the worker what its tasks wait at, so that no worker gets two of them."""
    global AT_ONCE
    AT_ONCE = barrier


def helping_threads(_):
    """Compute while the other workers do, and count the threads of firelu's own that this process has by now."""
    AT_ONCE.wait(60)
    y = firelu.leaky_relu(BIG, 0.5)
    firelu.upfirdn2d(y.reshape(1, 4, 1024, 1024), np.ones((4, 4), np.float32), pad=(2, 1))
    count = 0
    for thread in os.listdir("/proc/self/task"):
        with open(f"/proc/self/task/{thread}/comm") as name:
            count += name.read().startswith("firelu-")
    return os.getpid(), count


@pytest.mark.skipif(sys.platform != "linux", reason="threads are counted in /proc, which this system lacks")
@pytest.mark.parametrize("threads", [1, 2])
def test_workers_follow_omp_num_threads(threads, monkeypatch):
    # Helpers wait for work as long as their process lives, so that their number is how many were ever busy. With 2 each
    # worker has one: what is counted can be other than none.
    monkeypatch.setenv("OMP_NUM_THREADS", str(threads))
    monkeypatch.delenv("FIRELU_NUM_THREADS", raising=False)
    context, workers = multiprocessing.get_context("spawn"), 4
    with concurrent.futures.ProcessPoolExecutor(workers, context, take_part, (context.Barrier(workers),)) as pool:
        counted = dict(pool.map(helping_threads, range(workers)))
    assert list(counted.values()) == [threads - 1] * workers


def test_import_starts_no_thread_and_imports_no_torch():
    code = "import os, sys, numpy, firelu; print(len(os.listdir('/proc/self/task')), 'torch' in sys.modules)"
    baseline = run_python("import os, numpy; print(len(os.listdir('/proc/self/task')))")
    assert run_python(code) == f"{baseline} False"


def test_an_interrupt_stops_long_work(num_threads):
    before = firelu.get_cpu_level()
    firelu.set_cpu_level("native")
    num_threads(1)
    timer = threading.Timer(0.1, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            slow_work(256)
    finally:
        firelu.set_cpu_level(before)
    timer.join()
    np.testing.assert_array_equal(firelu.leaky_relu(np.float32([-1.0]), 0.5), [-0.5])


def test_out_of_memory_is_a_memory_error_and_the_next_call_works():
    code = """
import resource, numpy, firelu
x = numpy.zeros(1 << 26, numpy.float32)
y = firelu.leaky_relu(x)
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (64 << 20), resource.RLIM_INFINITY))
try:
    firelu.leaky_relu(x)
except MemoryError as error:
    print("refused", "bytes" in str(error))
del y
print(firelu.leaky_relu(x).shape, firelu.leaky_relu(x[:4]).tolist())
"""
    assert run_python(code).splitlines() == ["refused True", "(67108864,) [0.0, 0.0, 0.0, 0.0]"]
