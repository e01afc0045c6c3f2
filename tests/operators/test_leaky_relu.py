from __future__ import annotations

import firelu
import ml_dtypes
import numpy as np
import pytest
import reference
from checks import assert_rounds_to, assert_same_bits, widen
from hypothesis import given
from hypothesis import strategies as st
from strategies import DTYPES, arrays, dtypes, shapes

slopes = st.sampled_from([0.0, 0.01, 0.2, 1.0, -0.5, 3.0]) | st.floats(-4, 4, width=32)


@pytest.fixture(params=DTYPES, ids=lambda dtype: dtype.name)
def dtype(request):
    return request.param


@given(data=st.data(), shape=shapes, dtype=dtypes, alpha=slopes)
def test_forward_is_the_reference(data, shape, dtype, alpha):
    x = data.draw(arrays(shape, dtype))
    y = firelu.run_operator("LeakyRelu", x, alpha=alpha)
    assert (y.dtype, y.shape) == (x.dtype, x.shape)
    with np.errstate(invalid="ignore"):
        assert_rounds_to(y, reference.leaky_relu(widen(x), alpha))
    assert_same_bits(y, firelu.leaky_relu(np.ascontiguousarray(x), alpha))


@given(data=st.data(), shape=shapes, dtype=dtypes, alpha=slopes)
def test_gradient_is_the_reference(data, shape, dtype, alpha):
    sign, dy = data.draw(arrays(shape, dtype)), data.draw(arrays(shape, dtype))
    dx = firelu.run_operator("LeakyReluGradient", sign, dy, alpha=alpha)
    with np.errstate(invalid="ignore"):
        assert_rounds_to(dx, reference.leaky_relu_gradient(widen(sign), widen(dy), alpha))
    contiguous = firelu.leaky_relu_gradient(np.ascontiguousarray(sign), np.ascontiguousarray(dy), alpha)
    assert_same_bits(dx, contiguous)


@given(data=st.data(), shape=shapes, dtype=dtypes)
def test_every_level_gives_the_same_bits(data, shape, dtype):
    x = data.draw(arrays(shape, dtype))
    before = firelu.get_cpu_level()
    try:
        results = []
        for level in firelu.cpu_levels():
            firelu.set_cpu_level(level)
            results.append(np.nan_to_num(widen(firelu.leaky_relu(x, 0.2)), nan=7.0))
    finally:
        firelu.set_cpu_level(before)
    for result in results[1:]:
        assert_same_bits(results[0], result)


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_every_half_precision_input(name, cpu_level):
    dtype = np.dtype(name if name == "float16" else ml_dtypes.bfloat16)
    x = np.arange(1 << 16, dtype=np.uint16).view(dtype)
    with np.errstate(invalid="ignore"):
        wide = x.astype(np.float32)
        expected = np.where(wide > 0, wide, np.float32(0.2) * wide).astype(dtype)
    y = firelu.leaky_relu(x, 0.2)
    nan = np.isnan(wide)
    np.testing.assert_array_equal(np.isnan(y.astype(np.float32)), nan)
    assert_same_bits(y[~nan], expected[~nan])


def test_the_values_of_the_documents():
    x = np.array([-1.0, 0.0, 1.0, 2.0], np.float32)
    np.testing.assert_array_equal(firelu.leaky_relu(x), np.float32([-0.01, 0, 1, 2]))
    y = firelu.leaky_relu(np.array([-1.0, 0.0, 2.0]), 0.1)
    np.testing.assert_allclose(firelu.leaky_relu_gradient(y, np.ones(3), 0.1), [0.1, 0.1, 1.0])


def test_out_and_in_place(dtype, cpu_level):
    x = np.linspace(-3, 3, 1001).astype(dtype)
    expected = firelu.leaky_relu(x, 0.2)
    out = np.empty_like(x)
    assert firelu.leaky_relu(x, 0.2, out=out) is out
    assert_same_bits(out, expected)
    strided = np.zeros(2002, dtype)[::2]
    firelu.leaky_relu(x, 0.2, out=strided)
    assert_same_bits(strided, expected)
    same = x.copy()
    assert firelu.leaky_relu(same, 0.2, out=same) is same
    assert_same_bits(same, expected)
    gradient = firelu.leaky_relu_gradient(expected, x, 0.2)
    firelu.leaky_relu_gradient(expected, x, 0.2, out=x)
    assert_same_bits(x, gradient)


def test_memory_order_is_kept(dtype):
    x = np.zeros((2, 3, 4, 5), dtype)
    channels_last = np.ascontiguousarray(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    assert firelu.leaky_relu(channels_last).strides == channels_last.strides
    assert firelu.leaky_relu(x).flags.c_contiguous
    assert firelu.leaky_relu(np.asfortranarray(x)).flags.f_contiguous
    assert firelu.leaky_relu(x[:, ::2]).flags.c_contiguous


@pytest.mark.parametrize("elements", [1 << 20, (1 << 22) + 13])
def test_large_arrays_for_every_number_of_threads(elements, dtype, num_threads, cpu_level):
    x = np.random.default_rng(0).standard_normal(elements).astype(dtype)
    expected = reference.leaky_relu(x, 0.2)
    results = []
    for threads in (1, 2, 3, 8):
        num_threads(threads)
        results.append(firelu.leaky_relu(x, 0.2))
        # An output that does not begin at a cache line takes the unaligned head and tail.
        shifted = np.empty(elements + 3, dtype)[3:]
        results.append(firelu.leaky_relu(x, 0.2, out=shifted))
    assert_rounds_to(results[0], expected)
    for result in results[1:]:
        assert_same_bits(results[0], result)


def test_lists_scalars_and_foreign_byte_order():
    np.testing.assert_array_equal(firelu.leaky_relu([[-1.0, 2.0]], 0.5), [[-0.5, 2.0]])
    assert firelu.leaky_relu(np.float64(-2.0), 0.5) == -1.0
    swapped = np.array([-1.0, 2.0]).astype(">f4")
    result = firelu.leaky_relu(swapped, 0.5)
    assert result.dtype == np.float32
    np.testing.assert_array_equal(result, [-0.5, 2.0])


def test_tensors_in_tensors_out():
    t = firelu.Tensor([[-1.0, 2.0]])
    y = firelu.leaky_relu(t, 0.5)
    assert isinstance(y, firelu.Tensor)
    assert (y.shape, y.dtype, y.device, len(y)) == ((1, 2), "float32", "cpu", 1)
    np.testing.assert_array_equal(y.numpy(), [[-0.5, 2.0]])
    np.testing.assert_array_equal(np.asarray(y), [[-0.5, 2.0]])
    assert "-0.5" in repr(y)
