"""One-dimensional kernels: the outer product is as exact as what is computed with it."""

from __future__ import annotations

import firelu
import ml_dtypes
import numpy as np
import pytest

TAPS = [1e-4, 3e-4, 300.0, 77.7]
NAMES = ["float16", "bfloat16", "float32", "float64"]
DTYPES = {name: np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name) for name in NAMES}


def single_one(dtype) -> np.ndarray:
    picture = np.zeros((7, 7), dtype)
    picture[3, 3] = 1
    return picture


def close(result, exact, dtype) -> None:
    """A rounding for each of the products, and one for the result."""
    of = ml_dtypes.finfo(dtype)
    with np.errstate(over="ignore"):
        expected = exact.astype(dtype).astype(np.float64)
    tolerance = 4 * float(of.eps)
    np.testing.assert_allclose(result.astype(np.float64), expected, rtol=tolerance, atol=float(of.smallest_subnormal))


@pytest.mark.parametrize("taps", NAMES)
@pytest.mark.parametrize("picture", NAMES)
def test_taps_are_multiplied_in_the_type_that_is_computed_in(taps, picture):
    stored = np.array(TAPS).astype(DTYPES[taps])
    exact = np.multiply.outer(stored.astype(np.float64), stored.astype(np.float64))
    x = single_one(DTYPES[picture])
    result = firelu.upfirdn2d(x, stored)
    assert result.dtype == DTYPES[picture]
    close(result, exact, DTYPES[picture])
    # The transposed filter of a single one is the kernel turned around.
    gradient = firelu.upfirdn2d_gradient(x[3:4, 3:4], stored, (4, 4))
    close(gradient, exact[::-1, ::-1], DTYPES[picture])


@pytest.mark.parametrize("taps", NAMES)
@pytest.mark.parametrize("picture", NAMES)
def test_taps_of_tensors_are_multiplied_alike_and_have_a_gradient(taps, picture):
    stored = np.array([0.1, 0.7, -0.3]).astype(DTYPES[taps])
    x = np.random.default_rng(0).standard_normal((2, 6, 6)).astype(DTYPES[picture])
    kernel = firelu.Tensor(stored, requires_grad=True)
    result = firelu.upfirdn2d(firelu.Tensor(x), kernel)
    np.testing.assert_array_equal(result.numpy(), firelu.upfirdn2d(x, stored))
    result.sum().backward()
    assert kernel.grad.dtype == taps
    wide = firelu.Tensor(stored.astype(np.float64), requires_grad=True)
    firelu.upfirdn2d(firelu.Tensor(x.astype(np.float64)), wide).sum().backward()
    tolerance = 16 * float(max(ml_dtypes.finfo(DTYPES[taps]).eps, np.finfo("f4").eps * (picture != "float64")))
    np.testing.assert_allclose(
        kernel.grad.numpy().astype(np.float64), wide.grad.numpy(), rtol=tolerance, atol=tolerance
    )


def test_tensors_of_tiny_and_huge_half_taps():
    for taps in (np.array([1e-4, 3e-4], np.float16), np.array([300.0, 1.0], np.float16)):
        result = firelu.upfirdn2d(firelu.Tensor(np.ones((4, 4), np.float32)), firelu.Tensor(taps)).numpy()
        np.testing.assert_allclose(result, np.float64(taps.astype(np.float64).sum() ** 2), rtol=1e-6)


def test_whole_numbers_are_taken_from_a_list_alone():
    assert firelu.upfirdn2d(np.ones((4, 4), np.float32), [1, 2]).tolist() == [[9.0] * 3] * 3
    with pytest.raises(firelu.DTypeError, match="UpFirDn2d: K: got int64"):
        firelu.upfirdn2d(np.ones((4, 4), np.float32), np.array([1, 2]))


@pytest.mark.parametrize("down", [1, 3])
@pytest.mark.parametrize("axis", [0, 1])
def test_a_tap_that_the_gain_makes_infinite_leaves_alone_what_it_does_not_meet(axis, down):
    """Where it meets the padding there may be NaN, but not in a line of inserted zeros, which meets no tap."""
    taps = np.array([2e38, 0.5], np.float32)
    pads = [0, 0, 3, 3] if axis == 0 else [3, 3, 0, 0]
    up, down = ((2, 1), (down, 1)) if axis == 0 else ((1, 2), (1, down))
    result = firelu.upfirdn2d(
        np.ones((5, 5), np.float32), np.expand_dims(taps, 1 - axis), up=up, down=down, pad=pads, gain=4.0
    )
    lines = result if axis == 1 else result.T
    assert not np.isfinite(lines[0]).all()
    np.testing.assert_array_equal(lines[1::2], 0)
