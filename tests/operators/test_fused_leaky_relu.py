from __future__ import annotations

import firelu
import numpy as np
import pytest
import reference
from checks import assert_same_bits, widen
from hypothesis import given
from hypothesis import strategies as st
from strategies import DTYPES, arrays, dtypes

slopes = st.sampled_from([0.0, 0.2, 1.0, -0.5])
scales = st.sampled_from([2**0.5, 1.0, -0.5])
shapes = st.lists(st.integers(0, 6), min_size=1, max_size=4).map(tuple)
HALF = {"float16", "bfloat16"}


def tolerance(dtype):
    """What rounding x + b, the products and the result may cost, relative to the magnitudes."""
    return {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-21, "float64": 2.0**-50}[dtype.name]


@given(data=st.data(), shape=shapes, dtype=dtypes, alpha=slopes, scale=scales)
def test_forward_is_the_reference(data, shape, dtype, alpha, scale):
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    bias_dtype = data.draw(st.sampled_from([dtype, np.dtype(np.float32)] if dtype.name in HALF else [dtype]))
    x = data.draw(arrays(shape, dtype, special=False))
    bias = data.draw(st.none() | arrays((shape[axis],), bias_dtype, special=False))
    y = firelu.fused_leaky_relu(x, bias, alpha, scale, axis=axis)
    assert (y.dtype, y.shape) == (x.dtype, x.shape)
    expected = reference.fused_leaky_relu(widen(x), None if bias is None else widen(bias), alpha, scale, axis)
    magnitude = np.abs(widen(x)) + (0 if bias is None else np.abs(widen(bias)).max(initial=0))
    with np.errstate(over="ignore"):
        rounded = widen(expected.astype(dtype))
    finite = np.isfinite(rounded)
    error = np.abs(widen(y)[finite] - rounded[finite])
    assert (error <= tolerance(dtype) * (magnitude[finite] * 2 + 2.0**-20)).all()


@given(data=st.data(), shape=shapes, dtype=dtypes, alpha=slopes)
def test_strides_do_not_matter(data, shape, dtype, alpha):
    x, dy = data.draw(arrays(shape, dtype)), data.draw(arrays(shape, dtype))
    plain = np.ascontiguousarray
    assert_same_bits(firelu.fused_leaky_relu(x, None, alpha), firelu.fused_leaky_relu(plain(x), None, alpha))
    dx, db = firelu.fused_leaky_relu_gradient(x, dy, alpha, axis=0)
    dx_plain, db_plain = firelu.fused_leaky_relu_gradient(plain(x), plain(dy), alpha, axis=0)
    assert_same_bits(dx, dx_plain)
    assert dx.shape == shape
    assert db.shape == shape[:1]
    np.testing.assert_allclose(widen(db), widen(db_plain), rtol=tolerance(dtype) * 4, atol=1e-2)


@given(data=st.data(), shape=shapes, dtype=dtypes, alpha=slopes, scale=scales)
def test_gradients_are_the_reference(data, shape, dtype, alpha, scale):
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    y, dy = data.draw(arrays(shape, dtype, special=False)), data.draw(arrays(shape, dtype, special=False))
    bias = data.draw(st.none() | arrays((shape[axis],), dtype, special=False))
    dx, db = firelu.run_operator("FusedLeakyReluGradient", y, dy, bias, alpha=alpha, scale=scale, axis=axis)
    wide = None if bias is None else widen(bias)
    expected_dx, expected_db = reference.fused_leaky_relu_gradient(widen(y), widen(dy), wide, alpha, scale, axis)
    magnitude = np.abs(widen(dy)).max(initial=0) + (0 if bias is None else np.abs(wide).max(initial=0))
    with np.errstate(over="ignore"):
        rounded_dx, rounded_db = widen(expected_dx.astype(dtype)), widen(expected_db.astype(dtype))
    for got, want, count in [(dx, rounded_dx, 1), (db, rounded_db, dy.size + 1)]:
        finite = np.isfinite(want)
        assert (np.abs(widen(got)[finite] - want[finite]) <= tolerance(dtype) * (magnitude * 3 * count + 1e-6)).all()


def test_the_defaults():
    x = np.array([[-1.0, 2.0]])
    np.testing.assert_allclose(firelu.fused_leaky_relu(x, np.array([0.5, 0.5])), [[-0.1 * 2**0.5, 2.5 * 2**0.5]])
    schema = firelu.schema("FusedLeakyRelu")
    assert {a.name: a.default for a in schema.args} == {"alpha": 0.2, "scale": 2**0.5, "axis": 1}
    assert [i.name for i in schema.inputs] == ["X", "B"]
    assert [i.name for i in firelu.schema("FusedLeakyReluGradient").inputs][:3] == ["Y", "dY", "B"]
    assert schema.allow_inplace == [("X", "Y")]


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("channels_last", [False, True])
def test_bits_do_not_depend_on_threads(dtype, channels_last, num_threads, cpu_level):
    rng = np.random.default_rng(1)
    y, dy = (rng.standard_normal((3, 7, 250, 301)).astype(dtype) for _ in range(2))
    if channels_last:
        y, dy = (np.ascontiguousarray(a.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2) for a in (y, dy))
    bias = rng.standard_normal(7).astype(dtype)
    results = []
    for threads in (1, 2, 3, 8):
        num_threads(threads)
        results.append((firelu.fused_leaky_relu(y, bias), *firelu.fused_leaky_relu_gradient(y, dy)))
    expected_dx, expected_db = reference.fused_leaky_relu_gradient(widen(y), widen(dy))
    np.testing.assert_allclose(widen(results[0][2]), expected_db, rtol=2.0**-7, atol=0.5)
    np.testing.assert_allclose(widen(results[0][1]), expected_dx, rtol=2.0**-7, atol=1e-3)
    for result in results[1:]:
        for first, other in zip(results[0], result, strict=True):
            assert_same_bits(first, other)


def test_in_place_and_out():
    x = np.random.default_rng(2).standard_normal((2, 3, 5)).astype(np.float32)
    bias = np.float32([0.1, -0.2, 0.3])
    expected = firelu.fused_leaky_relu(x, bias)
    same = x.copy()
    assert firelu.fused_leaky_relu(same, bias, out=same) is same
    assert_same_bits(same, expected)
    dy = np.ones_like(x)
    dx, db = firelu.fused_leaky_relu_gradient(expected, dy)
    out = (dy, np.empty(3, np.float32))
    result = firelu.fused_leaky_relu_gradient(expected, dy, out=out)
    assert result[0] is dy
    assert result[1] is out[1]
    assert_same_bits(dy, dx)
    assert_same_bits(out[1], db)


def test_bad_calls():
    x, bias = np.zeros((2, 3, 4), np.float32), np.zeros(3, np.float32)
    for error, call in [
        (firelu.ShapeError, lambda: firelu.fused_leaky_relu(x, bias[:2])),
        (firelu.ShapeError, lambda: firelu.fused_leaky_relu(x, bias[None])),
        (firelu.DTypeError, lambda: firelu.fused_leaky_relu(x, bias.astype(np.float64))),
        (firelu.ArgumentError, lambda: firelu.fused_leaky_relu(x, bias, axis=3)),
        (firelu.ArgumentError, lambda: firelu.fused_leaky_relu(x, bias, axis=1.5)),
        (firelu.ArgumentError, lambda: firelu.fused_leaky_relu(np.float32(1.0), bias)),
        (firelu.ArgumentError, lambda: firelu.run_operator("FusedLeakyReluGradient", x)),
        (firelu.ShapeError, lambda: firelu.fused_leaky_relu_gradient(x, x[:1])),
        (firelu.ArgumentError, lambda: firelu.fused_leaky_relu_gradient(x[0, 0], x[0, 0])),
        (firelu.ArgumentError, lambda: firelu.fused_leaky_relu_gradient(x, x, out=np.zeros_like(x))),
    ]:
        with pytest.raises(error, match="FusedLeakyRelu"):
            call()
