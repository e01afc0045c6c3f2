"""The pool of output memory: recycled, limited, emptied."""

from __future__ import annotations

import gc
import subprocess
import sys
from pathlib import Path

import firelu
import numpy as np
import pytest

X = np.zeros(5 << 20, np.float32)


@pytest.fixture(autouse=True)
def _restore_limit():
    limit = firelu.memory_stats()["limit"]
    yield
    firelu.set_cache_limit(limit)


def address(array):
    return array.__array_interface__["data"][0]


def test_freed_memory_serves_the_next_call():
    firelu.empty_cache()
    before = firelu.memory_stats()
    y = firelu.leaky_relu(X)
    first = address(y)
    assert firelu.memory_stats()["in_use"] - before["in_use"] >= y.nbytes
    del y
    assert firelu.memory_stats()["cached"] >= X.nbytes
    assert address(firelu.leaky_relu(X)) == first
    assert firelu.memory_stats()["recycled"] > before["recycled"]


def test_views_keep_the_memory():
    y = firelu.leaky_relu(X - 1, 0.5)
    view = y[:10]
    del y
    gc.collect()
    for _ in range(3):
        firelu.leaky_relu(X)
    np.testing.assert_array_equal(view, np.full(10, -0.5, np.float32))


def test_the_limit_is_kept_and_the_cache_empties():
    firelu.set_cache_limit(0)
    assert firelu.memory_stats()["cached"] == 0
    firelu.leaky_relu(X)
    assert firelu.memory_stats()["cached"] == 0
    firelu.set_cache_limit(1 << 30)
    firelu.leaky_relu(X)
    assert firelu.memory_stats()["cached"] >= X.nbytes
    firelu.empty_cache()
    assert firelu.memory_stats()["cached"] == 0


def test_repeated_calls_do_not_grow():
    firelu.empty_cache()
    for _ in range(50):
        firelu.leaky_relu(X)
    stats = firelu.memory_stats()
    assert stats["cached"] <= 3 * X.nbytes
    assert stats["in_use"] == 0


CHAIN = """
import sys
import numpy as np
import firelu
from firelu.nn import functional

def memory(kind):
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(kind))

BLOCK = 64 << 20
firelu.set_cache_limit(0)  # What is freed goes back to the system, so that its figures are the tape's.
kernel = np.full((4, 4), 1 / 16, np.float32)
call = {
    "leaky_relu": functional.leaky_relu,
    "upfirdn2d": lambda x: functional.upfirdn2d(x, kernel, pad=(2, 1)),
}[sys.argv[1]]
call(firelu.Tensor(np.ones((1, 1024, 1024), np.float32), requires_grad=True)).backward()  # Threads have started.
x = firelu.Tensor(np.ones((16, 1024, 1024), np.float32), requires_grad=True)
start = memory("VmRSS")
out = x
for _ in range(100):
    out = call(out)
kept = memory("VmRSS") - start
out.backward()
print(kept / BLOCK, (memory("VmHWM") - start) / BLOCK, (memory("VmRSS") - start) / BLOCK)
"""


def free_memory():
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable"))


# Blocks of 64 MiB beside x. Kept: every output, whose sign the gradient reads, or the result alone where it reads only
# a shape. On the way back the ones it starts from and the first gradient come on top, or the gradient before and the
# new one. What stays is the result and x's gradient.
@pytest.mark.parametrize(
    ("operator", "kept", "peak"),
    [pytest.param("leaky_relu", 100, 102, marks=pytest.mark.full), ("upfirdn2d", 1, 3)],
)
@pytest.mark.skipif(not Path("/proc/meminfo").exists(), reason="memory is read from /proc, which this system lacks")
def test_a_chain_of_a_hundred_operators_on_64_mib_keeps_what_its_tape_needs(operator, kept, peak):
    if free_memory() < (peak + 8) * (64 << 20):
        pytest.skip(f"{peak} blocks of 64 MiB do not fit into the free memory")
    done = subprocess.run([sys.executable, "-c", CHAIN, operator], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    measured = [float(blocks) for blocks in done.stdout.split()]
    # A quarter of a block is more than stacks and tables take.
    assert measured == pytest.approx([kept, peak, 2], abs=0.25)


FILTERED = """
import torch
import firelu
from firelu.torch import filtered_lrelu

def memory(kind):
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(kind))

firelu.set_cache_limit(0)
taps = torch.hann_window(14)[1:-1] / 6.5

def run(x):
    dy = torch.ones_like(x)
    start = memory("VmRSS")
    y = filtered_lrelu(x, taps, taps, up=2, down=2, padding=[11, 10, 11, 10])
    assert y.shape == x.shape
    y.backward(dy)
    return start

run(torch.ones(1, 64, 32, 32, requires_grad=True))  # Threads have started.
x = torch.ones(1, 64, 256, 256, requires_grad=True)
start = run(x)
print((memory("VmHWM") - start) / x.nbytes)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc, which this system lacks")
def test_a_filtered_activation_keeps_nothing_of_the_upsampled_size():
    pytest.importorskip("torch")
    done = subprocess.run([sys.executable, "-c", FILTERED], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    # The result and x's gradient, 16 MiB each, and 4 MiB; what is upsampled would be 64 MiB.
    assert 1.75 < float(done.stdout) <= 2.25
