"""Infinities, NaNs and overflow in upfirdn2d: only the outputs that they enter are touched."""

from __future__ import annotations

import firelu
import ml_dtypes
import numpy as np
import pytest

DTYPES = [np.float16, ml_dtypes.bfloat16, np.float32, np.float64]
LAYOUTS = {
    "planar": lambda x: x,
    "channels last": lambda x: np.ascontiguousarray(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2),
    "strided": lambda x: np.repeat(x, 2, axis=3)[..., ::2],
    "backwards": lambda x: np.ascontiguousarray(x[..., ::-1])[..., ::-1],
}
RANK_ONE = np.outer([1.0, 2.0, 1.0], [1.0, 3.0, 2.0])
ROUGH = RANK_ONE + np.eye(3)


def places(height, width, value, up, pad):
    """Give where one sample reaches, by a net of ones over it."""
    x = np.zeros((1, 9, height, width))
    x[value] = 1
    return firelu.upfirdn2d(x, np.ones((3, 3)), up=up, pad=pad) != 0


@pytest.fixture(params=LAYOUTS)
def layout(request):
    return LAYOUTS[request.param]


@pytest.mark.parametrize("kernel", [RANK_ONE, ROUGH], ids=["rank one", "rough"])
@pytest.mark.parametrize("up", [1, 2])
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)
@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_a_sample_that_is_not_finite(cpu_level, layout, dtype, up, kernel, value):
    x = np.ones((1, 9, 6, 7), dtype)
    expected = firelu.upfirdn2d(layout(x), kernel, up=up, pad=(2, 1))
    at = (0, 4, 2, 3)
    x[at] = value
    got = firelu.upfirdn2d(layout(x), kernel, up=up, pad=(2, 1)).astype(np.float64)
    reached = places(6, 7, at, up, (2, 1))
    assert np.array_equal(got[reached], np.full(reached.sum(), value), equal_nan=True)
    np.testing.assert_array_equal(got[~reached], expected.astype(np.float64)[~reached])


@pytest.mark.parametrize("up", [1, 2])
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)
@pytest.mark.parametrize("tap", [np.inf, -np.inf, np.nan])
def test_a_tap_that_is_not_finite(cpu_level, layout, dtype, up, tap):
    # Correlated, so that output (i, j) has its tap (1, 0) at (i + 1 - 2, j - 2) of the upsampled picture.
    x, kernel = np.ones((1, 9, 6, 7), dtype), RANK_ONE.copy()
    expected = firelu.upfirdn2d(layout(x), kernel, up=up, pad=(2, 1), flip_kernel=True).astype(np.float64)
    kernel[1, 0] = tap
    got = firelu.upfirdn2d(layout(x), kernel, up=up, pad=(2, 1), flip_kernel=True).astype(np.float64)
    rows, columns = np.indices(got.shape[2:]) + np.array([-1, -2])[:, None, None]
    on_samples = (rows % up == 0) & (columns % up == 0)
    inside = on_samples & (rows >= 0) & (rows < 6 * up) & (columns >= 0) & (columns < 7 * up)
    for plane, finite in zip(got[0], expected[0], strict=True):
        assert np.array_equal(plane[inside], np.full(inside.sum(), tap), equal_nan=True)
        # Where the tap meets an inserted zero it adds nothing; at the padding the result may be NaN.
        np.testing.assert_allclose(plane[~on_samples], finite[~on_samples], rtol=1e-2)
        padding = on_samples & ~inside
        kept = padding & ~np.isnan(plane)
        np.testing.assert_allclose(plane[kept], finite[kept], rtol=1e-2)


@pytest.mark.parametrize("kernel", [RANK_ONE, ROUGH], ids=["rank one", "rough"])
@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float32, np.float64], ids=lambda dtype: np.dtype(dtype).name)
def test_an_overflow_touches_only_its_own_outputs(cpu_level, layout, dtype, kernel):
    x = np.ones((1, 9, 6, 7), dtype)
    expected = firelu.upfirdn2d(layout(x), kernel, pad=(2, 1)).astype(np.float64)
    at, largest = (0, 4, 2, 3), ml_dtypes.finfo(dtype).max
    x[at] = largest
    got = firelu.upfirdn2d(layout(x), kernel, pad=(2, 1)).astype(np.float64)
    reached = places(6, 7, at, 1, (2, 1))
    np.testing.assert_array_equal(got[~reached], expected[~reached])
    # A tap of one leaves the largest number what it is; larger ones pass it.
    assert (np.isinf(got[reached]) | np.isnan(got[reached]) | (got[reached] >= np.float64(largest) / 2)).all()
