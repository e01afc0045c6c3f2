"""Ctrl-C in long work: answered, its latency measured and printed, the next call works."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import firelu
import numpy as np
import pytest
from record import record

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc, forks or sends signals")

LATENCIES: dict[str, float] = {}


@pytest.fixture(scope="module", autouse=True)
def _record():
    yield
    if LATENCIES:
        slowest = max(LATENCIES, key=LATENCIES.get)
        # A busy machine answers later: the number means little without what else ran.
        load = f"{os.getloadavg()[0]:.1f} on {os.cpu_count()} processors"
        longest = round(LATENCIES[slowest], 3)
        record("interrupts", longest_seconds=longest, operator=slowest, measured=len(LATENCIES), load=load)


def wide(shape, dtype=np.float16):
    """An array of any size over one number: reading it costs no memory."""
    return np.broadcast_to(np.ones((), dtype), shape)


OUT = np.empty(1 << 27, np.float16)
ROUGH = np.random.default_rng(0).standard_normal((48, 48)).astype(np.float32)
WORK = {
    "LeakyRelu": lambda: firelu.leaky_relu(wide(1 << 27), out=OUT),
    "FusedLeakyReluGradient": lambda: firelu.fused_leaky_relu_gradient(
        wide((1, 64, 1 << 21)), wide((1, 64, 1 << 21)), out=(OUT.reshape(1, 64, 1 << 21), None)
    ),
    "ReduceSum": lambda: firelu.run_operator("ReduceSum", wide((1 << 12, 1 << 17))),
    "ReduceSum columns": lambda: firelu.run_operator("ReduceSum", np.zeros((1 << 20, 1 << 7), np.float16), axes=[0]),
    "UpFirDn2d": lambda: firelu.upfirdn2d(wide((64, 512, 512)), ROUGH),
    "UpFirDn2d, one plane": lambda: firelu.upfirdn2d(wide((1, 2048, 2048)), ROUGH),
    "UpFirDn2dGradient": lambda: firelu.upfirdn2d_gradient(wide((64, 512, 512)), ROUGH, (64, 559, 559)),
    "UpFirDn2dKernelGradient": lambda: firelu.upfirdn2d_kernel_gradient(
        wide((64, 559, 559)), wide((64, 512, 512)), (48, 48)
    ),
}


def repeat(work):
    while True:
        work()


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", WORK)
def test_an_interrupt_is_answered(name, threads, num_threads):
    num_threads(threads)
    before = firelu.get_cpu_level()
    firelu.set_cpu_level("native")
    sent = []

    def interrupt():
        sent.append(time.perf_counter())
        os.kill(os.getpid(), signal.SIGINT)

    timer = threading.Timer(0.15, interrupt)
    timer.start()
    try:
        # Work that is over too soon is done again until the signal comes.
        with pytest.raises(KeyboardInterrupt):
            repeat(WORK[name])
        answered = time.perf_counter()
    finally:
        firelu.set_cpu_level(before)
        timer.cancel()
        timer.join()
    LATENCIES[f"{name}, {threads} threads"] = answered - sent[0]
    np.testing.assert_array_equal(firelu.leaky_relu(np.float32([-2]), 0.5), [-1])


def test_a_handler_of_the_users_own():
    code = """
import os, signal, threading, numpy, firelu
class Alarm(Exception): pass
def handler(*_): raise Alarm("mine")
signal.signal(signal.SIGUSR1, handler)
threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGUSR1)).start()
x = numpy.zeros(1 << 26, numpy.float16)
try:
    while True: firelu.leaky_relu(x, out=x)
except Alarm as error:
    print("caught", error)
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert result.stdout.strip() == "caught mine", result.stderr
