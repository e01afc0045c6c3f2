"""The kernel's gradient on every layout that its loops treat in their own way, against float64."""

from __future__ import annotations

import firelu
import numpy as np
import pytest
import reference

RNG = np.random.default_rng(0)


def rows_backwards(x):
    return np.ascontiguousarray(x[..., ::-1, :])[..., ::-1, :]


def columns_apart(x):
    return np.repeat(x, 2, axis=-1)[..., ::2]


def planes_apart(x):
    return np.concatenate([x, x], axis=1)[:, : x.shape[1]]


def rows_off_the_item(x):
    """Rows that are no whole number of elements apart, as a field of a record has them."""
    record = np.zeros(x.shape[:-1], [("row", x.dtype, x.shape[-1:]), ("byte", np.uint8)])
    record["row"] = x
    return record["row"]


def channels_last(x):
    return np.ascontiguousarray(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)


LAYOUTS = [np.ascontiguousarray, rows_backwards, columns_apart, planes_apart, rows_off_the_item, channels_last]
#: Factors: outputs are multiplied as they stand, or phase by phase; inputs are repeated, split or neither.
FACTORS = [(1, 1), (2, 1), (4, 1), (3, 1), (1, 2), (1, 3), (2, 3), (4, 2), ((2, 1), (1, 2)), ((1, 4), 1)]


def check(x, dy, taps, arguments, dtype):
    result = firelu.upfirdn2d_kernel_gradient(x, dy, taps, **arguments)
    wide, kernel = [x.astype(np.float64), dy.astype(np.float64)], np.zeros(taps)
    expected = reference.upfirdn2d_kernel_gradient(*wide, kernel, **arguments)
    magnitude = reference.upfirdn2d_kernel_gradient(*map(np.abs, wide), kernel, **arguments)
    # A place of a register adds up at most 128 products.
    bound = (132 * (2.0**-53 if dtype == np.float64 else 2.0**-24)) * magnitude
    assert (np.abs(result - expected) <= bound).all()


@pytest.mark.parametrize("factors", FACTORS, ids=str)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64], ids=lambda dtype: dtype.__name__)
def test_every_layout_is_the_reference(cpu_level, dtype, factors):
    up, down = (factor if isinstance(factor, tuple) else (factor, factor) for factor in factors)
    for taps, pad in (
        ((4, 4), (2, 1, 2, 1)),
        ((5, 3), (-1, 3, 4, -2)),
        ((12, 12), (6, 5, 6, 5)),
        ((1, 7), (3, 3, 0, 0)),
    ):
        arguments = {"up": up, "down": down, "pad": pad, "flip_kernel": False, "gain": 1.0}
        for shape in ((2, 3, 9, 16), (1, 5, 17, 37)):
            x = RNG.standard_normal(shape).astype(dtype)
            y = firelu.upfirdn2d(x, np.ones(taps), **arguments)
            dy = RNG.standard_normal(y.shape).astype(dtype)
            for layout in LAYOUTS:
                check(layout(x), layout(dy), taps, arguments, dtype)
            check(channels_last(x), dy, taps, arguments, dtype)


@pytest.mark.parametrize("factors", [(1, 1), (2, 1), (1, 2), (3, 1)], ids=str)
def test_wide_and_high_planes_are_the_reference(cpu_level, factors):
    """More columns than a strip has, more rows than a band has, more planes than are multiplied at once."""
    arguments = {
        "up": (factors[0],) * 2,
        "down": (factors[1],) * 2,
        "pad": (2, 1, 2, 1),
        "flip_kernel": False,
        "gain": 1.0,
    }
    for shape in ((1, 1, 7, 2500), (1, 2, 700, 66), (3, 120, 8, 8), (1, 150, 3, 16)):
        x = RNG.standard_normal(shape, np.float32)
        dy = RNG.standard_normal(firelu.upfirdn2d(x, np.ones((4, 4)), **arguments).shape, np.float32)
        check(x, dy, (4, 4), arguments, np.float32)


@pytest.mark.parametrize("up", [1, 2, 4])
def test_what_is_not_finite_stays_with_the_taps_that_meet_it(cpu_level, up):
    """The corner of the input meets no output through the taps that would reach outside."""
    corner, taps = np.zeros((1, 40, 12, 40), np.float32), (3 * up, 3 * up)
    corner[0, 0, 0, 0] = 1
    dy = np.ones((1, 40, 12 * up - taps[0] + 1, 40 * up - taps[1] + 1), np.float32)
    met = reference.upfirdn2d_kernel_gradient(corner, dy, np.zeros(taps), up=(up, up)) != 0
    x = np.where(corner == 1, np.float32(np.inf), np.float32(1))
    result = firelu.upfirdn2d_kernel_gradient(x, dy, taps, up=up)
    assert met.any()
    assert not met.all()
    np.testing.assert_array_equal(np.isfinite(result), ~met)
