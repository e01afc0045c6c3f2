from __future__ import annotations

import firelu
import numpy as np
import pytest
import reference
from checks import assert_same_bits, widen
from hypothesis import assume, given
from hypothesis import strategies as st
from strategies import DTYPES, arrays, dtypes
from upfirdn2d_checks import assert_within, magnitudes, operator_arguments

SEPARABLE = np.outer([1.0, 3, 3, 1], [1, 3, 3, 1]) / 64


FEW_TAPS = st.integers(1, 6)


@st.composite
def calls(draw, most_rows=12, most_columns=12, taps=FEW_TAPS, most_factor=4):
    """A call that has an output: shape, kernel, and arguments as the reference takes them."""
    leading = tuple(draw(st.lists(st.integers(0, 3), max_size=2)))
    height, width = draw(st.integers(1, most_rows)), draw(st.integers(1, most_columns))
    taps = draw(taps), draw(taps)
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    separable = draw(st.booleans())
    kernel = rng.standard_normal(taps)
    if separable:
        kernel = np.outer(rng.standard_normal(taps[0]), rng.standard_normal(taps[1]))
    kernel = kernel.astype(draw(st.sampled_from([np.float32, np.float64, np.float16])))
    factors = st.integers(1, most_factor)
    arguments = {
        "up": (draw(factors), draw(factors)),
        "down": (draw(factors), draw(factors)),
        "pad": tuple(draw(st.integers(-3, 6)) for _ in range(4)),
        "flip_kernel": draw(st.booleans()),
        "gain": draw(st.sampled_from([1.0, 4.0, -0.5])),
    }
    for size, up, pads, count in [
        (width, arguments["up"][0], arguments["pad"][:2], taps[1]),
        (height, arguments["up"][1], arguments["pad"][2:], taps[0]),
    ]:
        wide = size * up
        assume(wide + pads[0] >= 0 and wide + pads[1] >= 0 and wide + sum(pads) >= count)
    return (*leading, height, width), kernel, arguments


@given(data=st.data(), call=calls(), dtype=dtypes)
def test_forward_is_the_reference(data, call, dtype):
    shape, kernel, arguments = call
    x = data.draw(arrays(shape, dtype, special=False))
    y = firelu.upfirdn2d(x, kernel, **arguments)
    expected = reference.upfirdn2d(x, kernel, **arguments)
    assert (y.dtype, y.shape) == (x.dtype, expected.shape)
    assert_within(y, expected, magnitudes(x, kernel, arguments), kernel.size)
    assert_same_bits(y, firelu.upfirdn2d(np.ascontiguousarray(x), kernel, **arguments))


@given(
    call=calls(40, 90, taps=st.sampled_from([5, 7, 8, 9, 12, 13, 16, 17]), most_factor=2),
    dtype=dtypes,
    channels_last=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_long_kernels_are_the_reference(call, dtype, channels_last, seed):
    """Rows of many registers, whose sums share their loads, and the ends of such rows."""
    shape, kernel, arguments = call
    x = np.random.default_rng(seed).standard_normal(shape).astype(dtype)
    if channels_last and len(shape) > 2:
        x = np.moveaxis(np.ascontiguousarray(np.moveaxis(x, -3, -1)), -1, -3)
    y = firelu.upfirdn2d(x, kernel, **arguments)
    terms = sum(kernel.shape) if np.linalg.matrix_rank(widen(kernel)) == 1 else kernel.size
    assert_within(y, reference.upfirdn2d(x, kernel, **arguments), magnitudes(x, kernel, arguments), terms)
    assert_same_bits(y, firelu.upfirdn2d(np.ascontiguousarray(x), kernel, **arguments))


@pytest.mark.parametrize("taps", [(5, 5), (6, 1), (9, 9), (12, 12), (13, 1), (13, 12), (1, 13), (17, 3)])
@pytest.mark.parametrize(("up", "down"), [(1, 1), (2, 1), (1, 2), (2, 3), (4, 2)])
def test_long_kernels_at_every_phase(taps, up, down, cpu_level):
    """With an odd number of taps the phases of an upsampled row have different numbers of terms."""
    rng = np.random.default_rng(taps)
    kernel = np.outer(rng.standard_normal(taps[0]), rng.standard_normal(taps[1])).astype(np.float32)
    for before, after, width in [(6, 5, 40), (5, 6, 41), (0, 7, 19), (-3, 2, 64)]:
        x = rng.standard_normal((2, 30, width), np.float32)
        factors = {"up": (up, up), "down": (down, down)}
        arguments = factors | {"pad": (before, after) * 2, "flip_kernel": False, "gain": 1.0}
        for dtype in (np.float32, np.float16):
            values = x.astype(dtype)
            y = firelu.upfirdn2d(values, kernel, **arguments)
            expected = reference.upfirdn2d(values, kernel, **arguments)
            assert_within(y, expected, magnitudes(values, kernel, arguments), sum(taps))


@given(data=st.data(), call=calls(), dtype=dtypes)
def test_gradients_are_the_reference(data, call, dtype):
    shape, kernel, arguments = call
    x = data.draw(arrays(shape, dtype, special=False))
    y_shape = reference.upfirdn2d(x, kernel, **arguments).shape
    dy = data.draw(arrays(y_shape, dtype, special=False))
    dx = firelu.upfirdn2d_gradient(dy, kernel, shape, **arguments)
    assert (dx.dtype, dx.shape) == (dtype, shape)
    absolute = {**arguments, "gain": abs(arguments["gain"])}
    magnitude = reference.upfirdn2d_gradient(np.abs(widen(dy)), np.abs(widen(kernel)), x, **absolute)
    assert_within(dx, reference.upfirdn2d_gradient(dy, kernel, x, **arguments), magnitude, kernel.size)

    dk = firelu.run_operator("UpFirDn2dKernelGradient", x, dy, kernel, **operator_arguments(arguments))
    assert (dk.dtype, dk.shape) == (kernel.dtype, kernel.shape)
    magnitude = reference.upfirdn2d_kernel_gradient(np.abs(widen(x)), np.abs(widen(dy)), kernel, **absolute)
    expected = reference.upfirdn2d_kernel_gradient(x, dy, kernel, **arguments)
    epsilon = {"float64": 2.0**-48, "float32": 2.0**-20, "float16": 2.0**-10}[dk.dtype.name]
    if dtype.name != "float64":
        epsilon = max(epsilon, 2.0**-20)
    finite = np.isfinite(widen(dk))
    assert (np.abs(widen(dk) - expected)[finite] <= (epsilon * magnitude + 1e-7)[finite]).all()


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.name)
@pytest.mark.parametrize(("up", "down", "pad"), [(1, 1, (2, 1)), (2, 1, (2, 1)), (1, 2, (1, 1)), (2, 2, 2), (3, 1, 3)])
@pytest.mark.parametrize("channels_last", [False, True])
def test_bits_do_not_depend_on_threads(dtype, up, down, pad, channels_last, num_threads, cpu_level):
    x = np.random.default_rng(3).standard_normal((2, 5, 203, 191)).astype(dtype)
    if channels_last:
        x = np.ascontiguousarray(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    results = []
    for threads in (1, 2, 3, 8):
        num_threads(threads)
        y = firelu.upfirdn2d(x, SEPARABLE, up, down, pad)
        dx = firelu.upfirdn2d_gradient(y, SEPARABLE, x.shape, up, down, pad)
        results.append((y, dx, firelu.upfirdn2d_kernel_gradient(x, y, (4, 4), up, down, pad)))
    pads = (pad,) * 4 if isinstance(pad, int) else pad * 2
    arguments = {"up": (up, up), "down": (down, down), "pad": pads, "flip_kernel": False, "gain": 1.0}
    assert_within(
        results[0][0],
        reference.upfirdn2d(x, SEPARABLE, **arguments),
        magnitudes(x, SEPARABLE, arguments),
        16,
    )
    if channels_last:
        assert results[0][0].strides[1] == dtype.itemsize
    for result in results[1:]:
        for first, other in zip(results[0], result, strict=True):
            assert_same_bits(first, other)


def test_scipys_upfirdn_agrees():
    signal = pytest.importorskip("scipy.signal")
    rng = np.random.default_rng(4)
    x, taps = rng.standard_normal((5, 37)), rng.standard_normal(7)
    rows = signal.upfirdn(taps, x, up=3, down=2, axis=-1)
    kernel = taps[None, :]
    # scipy pads the full convolution: taps - 1 before, and after the last sample's own zeros are left out.
    y = firelu.upfirdn2d(x, kernel, up=(3, 1), down=(2, 1), pad=(6, 6 - 2, 0, 0))
    np.testing.assert_allclose(y, rows[:, : y.shape[1]], atol=1e-12)
    assert y.shape == rows.shape


def test_out_strided_and_zero_sizes():
    x = np.random.default_rng(5).standard_normal((2, 3, 9, 11)).astype(np.float32)
    expected = firelu.upfirdn2d(x, SEPARABLE, up=2, pad=(2, 1))
    out = np.zeros((*expected.shape[:-1], 2 * expected.shape[-1]), np.float32)[..., ::2]
    assert firelu.upfirdn2d(x, SEPARABLE, up=2, pad=(2, 1), out=out) is out
    assert_same_bits(np.ascontiguousarray(out), expected)
    assert firelu.upfirdn2d(np.zeros((0, 3, 8, 8)), SEPARABLE, pad=(2, 1)).shape == (0, 3, 8, 8)
    assert firelu.upfirdn2d(x[0, 0], SEPARABLE, pad=(2, 1)).shape == (9, 11)


def test_one_dimensional_kernels_are_outer_products():
    x = np.random.default_rng(6).standard_normal((1, 8, 8))
    taps = np.array([1.0, 2.0, 1.0])
    assert_same_bits(firelu.upfirdn2d(x, taps, pad=1), firelu.upfirdn2d(x, np.outer(taps, taps), pad=1))
    with pytest.raises(firelu.ArgumentError, match="quadratic"):
        firelu.upfirdn2d_kernel_gradient(x, x, (3,), pad=1)
    with pytest.raises(firelu.ShapeError):
        firelu.run_operator("UpFirDn2d", x, taps)


def test_kernel_helpers():
    kernel = firelu.make_kernel([1, 3, 3, 1])
    assert (kernel.dtype, kernel.shape, float(kernel.sum())) == (np.float32, (4, 4), 1.0)
    np.testing.assert_allclose(firelu.make_kernel([[1, 2]], normalize=False, gain=3.0), [[3, 6]])
    flat = np.ones((1, 1, 16, 16), np.float32)
    for taps in ([1, 3, 3, 1], [1, 2, 1], [1, 1], [1]):
        kernel = firelu.make_kernel(taps)
        for factor in (2, 3):
            if factor == 2 and taps != [1]:  # both phases have the same sum
                up = firelu.upsample2d(flat, kernel, factor)
                assert up.shape == (1, 1, 16 * factor, 16 * factor)
                np.testing.assert_allclose(up[..., 6:-6, 6:-6], 1, rtol=1e-6)
            down = firelu.downsample2d(flat, kernel, factor)
            assert down.shape == (1, 1, 16 // factor, 16 // factor)
            np.testing.assert_allclose(down[..., 2:-2, 2:-2], 1, rtol=1e-6)
        assert firelu.filter2d(flat, kernel).shape == flat.shape
    assert firelu.upsample2d(flat, firelu.make_kernel([1, 3, 3, 1]), (2, 1)).shape == (1, 1, 16, 32)
    for bad in ([], [[[1]]], [1, -1], ["a"], [float("nan")]):
        with pytest.raises(firelu.FireluError):
            firelu.make_kernel(bad)


def test_bad_calls():
    x = np.zeros((1, 8, 8), np.float32)
    for error, call in [
        (firelu.ShapeError, lambda: firelu.upfirdn2d(x[0, 0], SEPARABLE)),
        (firelu.ShapeError, lambda: firelu.upfirdn2d(x, np.zeros((2, 2, 2)))),
        (firelu.ShapeError, lambda: firelu.upfirdn2d(x, np.zeros((9, 1)))),
        (firelu.ShapeError, lambda: firelu.upfirdn2d(x, np.zeros((0, 3)))),
        (firelu.ArgumentError, lambda: firelu.upfirdn2d(x, SEPARABLE, up=0)),
        (firelu.ArgumentError, lambda: firelu.upfirdn2d(x, SEPARABLE, down=-1)),
        (firelu.ArgumentError, lambda: firelu.upfirdn2d(x, SEPARABLE, up=(1, 2, 3))),
        (firelu.ArgumentError, lambda: firelu.upfirdn2d(x, SEPARABLE, pad=(1, 2, 3))),
        (firelu.ArgumentError, lambda: firelu.upfirdn2d(x, SEPARABLE, pad=1.5)),
        (firelu.ArgumentError, lambda: firelu.upfirdn2d(x, SEPARABLE, gain=float("nan"))),
        (firelu.DTypeError, lambda: firelu.upfirdn2d(x, np.ones((2, 2), np.int64))),
        (firelu.DTypeError, lambda: firelu.upfirdn2d(x.astype(int), SEPARABLE)),
        (firelu.ShapeError, lambda: firelu.upfirdn2d_gradient(x, SEPARABLE, (1, 9, 9))),
        (firelu.ShapeError, lambda: firelu.upfirdn2d_gradient(x, SEPARABLE, (-1, 9, 9))),
        (firelu.ArgumentError, lambda: firelu.upfirdn2d(x, SEPARABLE, pad=(2, 1), out=x)),
    ]:
        with pytest.raises(error):
            call()


def test_a_kernel_may_be_a_list():
    x = np.arange(60, dtype=np.float32).reshape(1, 1, 6, 10)
    taps = np.array([1, 3, 3, 1], np.float32)
    expected = firelu.upfirdn2d(x, np.outer(taps, taps), pad=(2, 1))
    np.testing.assert_array_equal(firelu.upfirdn2d(x, [1, 3, 3, 1], pad=(2, 1)), expected)
    np.testing.assert_array_equal(firelu.upfirdn2d(x, np.outer(taps, taps).astype(int).tolist(), pad=(2, 1)), expected)
    with pytest.raises(firelu.ShapeError, match=r"UpFirDn2d: K: .*rows of one length"):
        firelu.upfirdn2d(x, [[1], [1, 2]])
    # An array of integers may be a mistake; nothing says that it was meant as numbers.
    with pytest.raises(firelu.DTypeError, match="UpFirDn2d: K: got int64"):
        firelu.upfirdn2d(x, np.ones((2, 2), np.int64))
