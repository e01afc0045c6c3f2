"""Several host threads on one device: kernels are loaded once, memory and streams are nobody's alone."""

import threading
from concurrent.futures import ThreadPoolExecutor

import firelu
import numpy as np

THREADS, ROUNDS = 6, 4
TAPS = firelu.make_kernel([1, 3, 3, 1])


def work(device, seed):
    """Use operators, their gradients and memory of several sizes; give the results."""
    generator = np.random.default_rng(seed)
    shape = (1, 2, 8 + seed % 3, 16)
    x = firelu.Tensor(generator.normal(size=shape), dtype="float32", device=device, requires_grad=True)
    b = firelu.Tensor(generator.normal(size=2), dtype="float32", device=device, requires_grad=True)
    k = firelu.Tensor(TAPS, dtype="float32", device=device)
    y = firelu.nn.functional.upfirdn2d(firelu.nn.functional.fused_leaky_relu(x, b), k, up=1 + seed % 2, pad=(2, 1))
    y.sum().backward()
    return [np.asarray(t.to("cpu")) for t in (y, x.grad, b.grad)]


def test_threads_that_share_a_device_compute_what_one_does():
    """All begin at once, so that some load a kernel that others ask for."""
    start = threading.Barrier(THREADS)

    def run(seed):
        start.wait()
        return [work("cuda:0", seed) for _ in range(ROUNDS)]

    with ThreadPoolExecutor(THREADS) as pool:
        found = list(pool.map(run, range(THREADS)))
    for seed, rounds in enumerate(found):
        expected = work("cpu", seed)
        for results in rounds:
            for have, want in zip(results, expected, strict=True):
                np.testing.assert_allclose(have, want, rtol=1e-5, atol=1e-5)
        for results in rounds[1:]:
            assert all(np.array_equal(a, b) for a, b in zip(results, rounds[0], strict=True))


def test_memory_goes_from_one_thread_to_another():
    """What one thread has computed another reads without waiting: the default stream is one for all."""
    x = firelu.Tensor(np.linspace(-1, 1, 4096), dtype="float32", device="cuda:0")
    for _ in range(8):
        made = []
        thread = threading.Thread(target=lambda made=made: made.append(firelu.run_operator("LeakyRelu", x, alpha=0.5)))
        thread.start()
        thread.join()
        twice = firelu.run_operator("Add", made[0], made.pop())
        expected = np.linspace(-1, 1, 4096).astype(np.float32)
        expected = np.where(expected > 0, expected, expected * np.float32(0.5)) * 2
        assert np.array_equal(np.asarray(twice.to("cpu")), expected)
