"""Sum, Add, Sub, Mul, ReduceSum and BroadcastLike."""

from __future__ import annotations

import firelu
import numpy as np
import pytest
import reference
from checks import assert_rounds_to, assert_same_bits, widen
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import mutually_broadcastable_shapes
from strategies import arrays, dtypes, shapes


@pytest.mark.parametrize("name", ["Add", "Sub", "Mul"])
@given(data=st.data(), dtype=dtypes, pair=mutually_broadcastable_shapes(num_shapes=2, max_dims=4, max_side=5))
def test_binary_operators_broadcast_as_numpy_does(name, data, dtype, pair):
    a, b = (data.draw(arrays(shape, dtype, special=False)) for shape in pair.input_shapes)
    result = firelu.run_operator(name, a, b)
    assert (result.shape, result.dtype) == (pair.result_shape, dtype)
    assert_rounds_to(result, getattr(reference, name.lower())(a, b))
    assert_same_bits(result, firelu.run_operator(name, np.ascontiguousarray(a), np.ascontiguousarray(b)))


@given(data=st.data(), shape=shapes, dtype=dtypes, count=st.integers(1, 4))
def test_sum(data, shape, dtype, count):
    inputs = [data.draw(arrays(shape, dtype, special=False)) for _ in range(count)]
    result = firelu.run_operator("Sum", *inputs)
    expected = reference.sum(*inputs)
    magnitude = reference.sum(*(np.abs(widen(x)) for x in inputs))
    epsilon = {2: 2.0**-7, 4: 2.0**-22, 8: 2.0**-50}[dtype.itemsize]
    with np.errstate(over="ignore"):
        rounded = widen(expected.astype(dtype))
    finite = np.isfinite(rounded)
    assert (np.abs(widen(result)[finite] - rounded[finite]) <= epsilon * magnitude[finite] + 1e-7).all()


@given(data=st.data(), shape=shapes, dtype=dtypes, keepdims=st.booleans())
def test_reduce_sum_and_its_transpose(data, shape, dtype, keepdims):
    x = data.draw(arrays(shape, dtype, special=False))
    axes = data.draw(st.lists(st.sampled_from(range(len(shape))), unique=True)) if shape else []
    result = firelu.run_operator("ReduceSum", x, axes=axes, keepdims=keepdims)
    expected = reference.reduce_sum(x, axes, keepdims)
    assert result.shape == expected.shape
    magnitude = reference.reduce_sum(np.abs(widen(x)), axes, keepdims)
    epsilon = {2: 2.0**-7, 4: 2.0**-20, 8: 2.0**-48}[dtype.itemsize]
    with np.errstate(over="ignore"):
        rounded = widen(expected.astype(dtype))
    finite = np.isfinite(rounded)
    assert (np.abs(widen(result)[finite] - rounded[finite]) <= epsilon * magnitude[finite] + 1e-7).all()


def test_reduce_sum_to_a_shape_and_back():
    x = np.arange(24, dtype=np.float64).reshape(2, 3, 4)
    like = np.zeros((3, 1))
    summed = firelu.run_operator("ReduceSum", x, like)
    np.testing.assert_array_equal(summed, x.sum(axis=(0, 2))[:, None])
    repeated = firelu.run_operator("BroadcastLike", summed, x)
    np.testing.assert_array_equal(repeated, reference.broadcast_like(summed, x))
    mean = firelu.run_operator("ReduceSum", x, scale=1 / x.size)
    np.testing.assert_allclose(mean, x.mean())


def test_bits_do_not_depend_on_threads(num_threads, cpu_level):
    x = np.random.default_rng(0).standard_normal((64, 100_003)).astype(np.float32)
    results = []
    for threads in (1, 2, 3, 8):
        num_threads(threads)
        results.append(
            [firelu.run_operator("ReduceSum", x, axes=axes) for axes in ([], [0], [1])]
            + [firelu.run_operator("Add", x, x[:1])]
        )
    np.testing.assert_allclose(results[0][0], x.sum(dtype=np.float64), rtol=1e-4)
    for result in results[1:]:
        for first, other in zip(results[0], result, strict=True):
            assert_same_bits(first, other)


def test_bad_calls():
    a, b = np.zeros((2, 3), np.float32), np.zeros((2, 4), np.float32)
    for error, call in [
        (firelu.ShapeError, lambda: firelu.run_operator("Add", a, b)),
        (firelu.ShapeError, lambda: firelu.run_operator("Sum", a, b)),
        (firelu.DTypeError, lambda: firelu.run_operator("Mul", a, a.astype(np.float64))),
        (firelu.ArgumentError, lambda: firelu.run_operator("Sum")),
        (firelu.ArgumentError, lambda: firelu.run_operator("ReduceSum", a, axes=[2])),
        (firelu.ArgumentError, lambda: firelu.run_operator("ReduceSum", a, axes=[0, 0])),
        (firelu.ShapeError, lambda: firelu.run_operator("ReduceSum", a, b)),
        (firelu.ShapeError, lambda: firelu.run_operator("BroadcastLike", a, b)),
    ]:
        with pytest.raises(error):
            call()
