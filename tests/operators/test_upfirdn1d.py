"""upfirdn1d: a view of the two-dimensional operator along any axis of any array."""

from __future__ import annotations

import firelu
import numpy as np
import pytest
import reference
from checks import assert_same_bits
from hypothesis import assume, given
from hypothesis import strategies as st
from strategies import arrays, dtypes
from upfirdn2d_checks import assert_within, magnitudes

RULES = ["constant", "edge", "reflect", "symmetric", "wrap"]


def along_rows(x, axis):
    return np.moveaxis(x, axis, -1)[..., None, :]


@given(
    data=st.data(),
    shape=st.lists(st.integers(1, 6), min_size=1, max_size=4).map(tuple),
    taps=st.integers(1, 8),
    factors=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    pad=st.tuples(st.integers(-2, 9), st.integers(-2, 9)),
    border=st.sampled_from(RULES),
    flip_kernel=st.booleans(),
    dtype=dtypes,
)
def test_any_axis_of_any_array(data, shape, taps, factors, pad, border, flip_kernel, dtype):
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    wide = shape[axis] * factors[0]
    assume(wide + sum(pad) >= taps and min(wide + pad[0], wide + pad[1]) >= 0)
    x = data.draw(arrays(shape, dtype, special=False))
    kernel = np.random.default_rng(taps).standard_normal(taps)
    rest = {"flip_kernel": flip_kernel, "gain": 2.0, "border": border}
    y = firelu.upfirdn1d(x, kernel, *factors, pad, axis=axis, **rest)
    arguments = {"up": (factors[0], 1), "down": (factors[1], 1), "pad": (*pad, 0, 0), **rest}
    expected = reference.upfirdn2d(along_rows(x, axis), kernel[None], **arguments)
    magnitude = magnitudes(along_rows(x, axis), kernel[None], arguments)
    assert (y.dtype, y.ndim) == (x.dtype, x.ndim)
    assert_within(np.asarray(along_rows(y, axis)), expected, magnitude, taps)
    out = np.empty_like(y)
    assert firelu.upfirdn1d(x, kernel, *factors, pad, axis=axis, out=out, **rest) is out
    assert_same_bits(out, y)


def test_memory_order_is_kept_and_nothing_is_copied():
    x = np.ones((4, 64, 32), np.float32)
    for order in [(0, 1, 2), (2, 1, 0), (1, 2, 0)]:
        view = np.ascontiguousarray(x.transpose(order)).transpose(np.argsort(order))
        for axis in range(3):
            y = firelu.upfirdn1d(view, [1, 1], axis=axis)
            assert np.argsort(y.strides).tolist() == np.argsort(view.strides).tolist()


def test_empty_arrays():
    assert firelu.upfirdn1d(np.ones((0, 5)), [1, 1], border="edge", pad=1).shape == (0, 6)
    assert firelu.upfirdn1d(np.ones((5, 0, 2)), [1, 1], border="wrap", pad=1, axis=0).shape == (6, 0, 2)
    with pytest.raises(firelu.ShapeError, match="takes at least one sample"):
        firelu.upfirdn1d(np.ones((5, 0)), [1, 1], border="wrap", pad=1)


def test_tensors_along_their_last_axes_have_gradients():
    rng = np.random.default_rng(1)
    for shape, axis in [((5,), 0), ((3, 5), -1), ((3, 5), 0), ((2, 3, 5), 1)]:
        x = firelu.Tensor(rng.standard_normal(shape), requires_grad=True)
        kernel = firelu.Tensor(rng.standard_normal(3), requires_grad=True)
        y = firelu.upfirdn1d(x, kernel, 2, pad=(2, 1), axis=axis, border="reflect")
        expected = firelu.upfirdn1d(x.numpy(), kernel.numpy(), 2, pad=(2, 1), axis=axis, border="reflect")
        np.testing.assert_allclose(y.numpy(), expected, atol=1e-12)
        dx, dk = firelu.grad(y, [x, kernel], firelu.Tensor(expected))
        # Of a linear map, <y, Ax> = <A'y, x>.
        for gradient, value in [(dx, x), (dk, kernel)]:
            np.testing.assert_allclose((gradient.numpy() * value.numpy()).sum(), (expected**2).sum())
    with pytest.raises(firelu.ArgumentError, match="upfirdn1d: axis: got 0, takes one of the last two axes"):
        firelu.upfirdn1d(firelu.Tensor(np.ones((2, 3, 4))), [1.0], axis=0)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"axis": 2}, firelu.ArgumentError, r"upfirdn1d: axis: got 2, takes an axis of \(2, 5\)"),
        ({"axis": 0.5}, firelu.ArgumentError, "upfirdn1d: axis: got 0.5"),
        (
            {"pad": (1, 2, 3)},
            firelu.ArgumentError,
            r"upfirdn1d: pad: got \(1, 2, 3\), takes an int or \(before, after\)",
        ),
        ({"up": (1, 2)}, firelu.ArgumentError, r"upfirdn1d: up: got \(1, 2\), takes an int"),
        ({"down": 0}, firelu.ArgumentError, "down_x: got 0"),
        ({"kernel": np.ones((2, 2))}, firelu.ShapeError, r"upfirdn1d: kernel: got \(2, 2\), takes \(K,\)"),
        ({"border": "mirror"}, firelu.ArgumentError, 'border: got "mirror"'),
        ({"out": np.zeros(3)}, firelu.ShapeError, r"upfirdn1d: out: got \(3,\)"),
        ({"out": [3]}, firelu.ShapeError, r"upfirdn1d: out: got \[3\]"),
        ({"x": np.float32(1.0)}, firelu.ArgumentError, r"upfirdn1d: axis: got -1, takes an axis of \(\)"),
    ],
)
def test_refusals(change, error, message):
    with pytest.raises(error, match=message):
        firelu.upfirdn1d(**{"x": np.ones((2, 5)), "kernel": [1.0, 1.0], **change})
