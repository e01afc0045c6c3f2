"""Sum, Add, Sub and Mul."""

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


def test_bits_do_not_depend_on_threads(num_threads, cpu_level):
    x = np.random.default_rng(0).standard_normal((64, 100_003)).astype(np.float32)
    results = []
    for threads in (1, 2, 3, 8):
        num_threads(threads)
        results.append(firelu.run_operator("Add", x, x[:1]))
    for result in results[1:]:
        assert_same_bits(results[0], result)


def test_bad_calls():
    a, b = np.zeros((2, 3), np.float32), np.zeros((2, 4), np.float32)
    for error, call in [
        (firelu.ShapeError, lambda: firelu.run_operator("Add", a, b)),
        (firelu.ShapeError, lambda: firelu.run_operator("Sum", a, b)),
        (firelu.DTypeError, lambda: firelu.run_operator("Mul", a, a.astype(np.float64))),
        (firelu.ArgumentError, lambda: firelu.run_operator("Sum")),
    ]:
        with pytest.raises(error):
            call()
