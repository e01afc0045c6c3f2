"""Small calls are prepared once: whatever was called before, a call gives what it gives in a fresh thread."""

from __future__ import annotations

import concurrent.futures
import itertools
import threading

import firelu
import numpy as np
import pytest
from checks import assert_same_bits

X = np.random.default_rng(0).standard_normal((1, 3, 8, 8)).astype(np.float32)
K = np.outer([1, 3, 3, 1], [1, 2, 3, 1]).astype(np.float32) / 16
LAST = np.ascontiguousarray(X.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
BASE = {"x": X, "kernel": K, "pad": (2, 1)}


def changed(kernel: np.ndarray, bits: int) -> np.ndarray:
    kernel = kernel.copy()
    kernel.view(np.uint32)[1, 2] ^= bits
    return kernel


# Each differs from the base in one part of what a preparation depends on.
OTHERS = {
    "tap": {"kernel": changed(K, 1)},
    "sign": {"kernel": changed(K, 1 << 31)},
    "kernel strides": {"kernel": K.T},
    "kernel backwards": {"kernel": K[::-1, ::-1]},
    "kernel shape": {"kernel": K.reshape(2, 8), "pad": (4, 4)},
    "kernel type": {"kernel": K.view(np.float16)},
    "kernel of doubles": {"kernel": K.astype(np.float64) + 1e-12},
    "large kernel": {"kernel": np.ones((17, 16), np.float32), "pad": (9, 9)},
    "largest kept kernel": {"kernel": np.ones((16, 16), np.float32), "pad": (9, 9)},
    "flip": {"flip_kernel": True},
    "gain": {"gain": 2.0},
    "gain of zero": {"gain": 0.0},
    "gain of minus zero": {"gain": -0.0},
    "up": {"up": 2},
    "up along x": {"up": (2, 1)},
    "down": {"down": 2},
    "down along y": {"down": (1, 2)},
    "pad": {"pad": (1, 2)},
    "pad along y": {"pad": (2, 1, 1, 2)},
    "type": {"x": X.astype(np.float64)},
    "half": {"x": X.astype(np.float16)},
    "shape": {"x": X[:, :, :7]},
    "as many elements": {"x": X.reshape(1, 3, 4, 16)},
    "fewer dimensions": {"x": X[0]},
    "channels last": {"x": LAST},
    "columns backwards": {"x": X[..., ::-1]},
    "transposed": {"x": X.transpose(0, 1, 3, 2)},
    "many": {"x": np.tile(X, (64, 1, 1, 1))},
}


def run(case: dict) -> np.ndarray:
    return firelu.upfirdn2d(**case)


def fresh(call, *arguments):
    """Give what a thread gives that has called nothing before."""
    results: list = []
    thread = threading.Thread(target=lambda: results.append(call(*arguments)))
    thread.start()
    thread.join()
    return results[0]


def assert_same(one: np.ndarray, two: np.ndarray) -> None:
    assert (one.shape, one.strides) == (two.shape, two.strides)
    assert_same_bits(one, two)


@pytest.mark.parametrize("name", OTHERS)
def test_two_calls_in_turn(name, cpu_level):
    cases = [BASE, {**BASE, **OTHERS[name]}]
    expected = [fresh(run, case) for case in cases]
    for _, place in itertools.product(range(3), range(2)):
        assert_same(run(cases[place]), expected[place])


def test_more_calls_than_are_kept():
    cases = [{**BASE, **other} for other in OTHERS.values()]
    expected = [fresh(run, case) for case in cases]
    for place in np.random.default_rng(1).integers(len(cases), size=500):
        assert_same(run(cases[place]), expected[place])


def test_a_kernel_that_is_written_to():
    kernel = K.copy()
    for step in range(20):
        kernel[step % 4, step % 3] += np.float32(0.25)
        case = {**BASE, "kernel": kernel}
        assert_same(run(case), fresh(run, {**case, "kernel": kernel.copy()}))


def test_a_call_and_its_adjoint():
    # With these lengths both have the same shapes and arguments.
    k, pad = K[:3, :3], (1, 1)
    forward, backward = fresh(firelu.upfirdn2d, X, k, 1, 1, pad), fresh(gradient, k, pad)
    for _ in range(3):
        assert_same(firelu.upfirdn2d(X, k, pad=pad), forward)
        assert_same(gradient(k, pad), backward)


def gradient(k, pad):
    return firelu.upfirdn2d_gradient(X, k, X.shape, pad=pad)


def test_outputs_with_other_strides():
    wide = np.full((1, 3, 8, 16), 7, np.float32)
    outputs = [np.empty_like(X), wide[..., ::2], wide[..., 8:], LAST.copy("K"), np.empty_like(X)[:, :, ::-1]]
    for out in outputs * 3:
        assert firelu.upfirdn2d(**BASE, out=out) is out
        np.testing.assert_array_equal(out, fresh(run, BASE))
        out[...] = 7
    assert (wide == 7).all()


def test_nothing_is_left_of_the_last_input(cpu_level):
    for other in OTHERS.values():
        case = {**BASE, **other}
        expected = fresh(run, case)
        for value in (np.nan, np.inf, 1e30):
            with np.errstate(all="ignore"):
                run({**case, "x": np.full_like(case["x"], value)})
            assert_same(run(case), expected)


def test_a_level_that_changes():
    before = firelu.get_cpu_level()
    cases = [{**BASE, **other} for other in OTHERS.values()]
    expected = {}
    try:
        for level in firelu.cpu_levels():
            firelu.set_cpu_level(level)
            expected[level] = [fresh(run, case) for case in cases]
        for place, case in enumerate(cases):
            for level in firelu.cpu_levels() * 3:
                firelu.set_cpu_level(level)
                assert_same(run(case), expected[level][place])
    finally:
        firelu.set_cpu_level(before)


def test_threads_do_not_share():
    cases = [{**BASE, **other} for other in OTHERS.values()]
    expected = [fresh(run, case) for case in cases]

    def work(seed: int) -> None:
        for place in np.random.default_rng(seed).integers(len(cases), size=200):
            assert_same(run(cases[place]), expected[place])

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(16)))
