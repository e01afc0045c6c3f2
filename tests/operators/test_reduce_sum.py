"""ReduceSum and its transpose, BroadcastLike."""

from __future__ import annotations

import firelu
import numpy as np
import pytest
import reference
from checks import assert_same_bits, widen
from hypothesis import given
from hypothesis import strategies as st
from strategies import arrays, dtypes, shapes


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
        results.append([firelu.run_operator("ReduceSum", x, axes=axes) for axes in ([], [0], [1])])
    np.testing.assert_allclose(results[0][0], x.sum(dtype=np.float64), rtol=1e-4)
    for result in results[1:]:
        for first, other in zip(results[0], result, strict=True):
            assert_same_bits(first, other)


def test_bad_calls():
    a, b = np.zeros((2, 3), np.float32), np.zeros((2, 4), np.float32)
    for error, call in [
        (firelu.ArgumentError, lambda: firelu.run_operator("ReduceSum", a, axes=[2])),
        (firelu.ArgumentError, lambda: firelu.run_operator("ReduceSum", a, axes=[0, 0])),
        (firelu.ShapeError, lambda: firelu.run_operator("ReduceSum", a, b)),
        (firelu.ShapeError, lambda: firelu.run_operator("BroadcastLike", a, b)),
    ]:
        with pytest.raises(error):
            call()
