"""Border rules of UpFirDn2d and its gradients: against numpy.pad, against each other, on every path."""

from __future__ import annotations

import functools
import itertools

import firelu
import numpy as np
import pytest
import reference
from checks import assert_same_bits, widen
from hypothesis import assume, given
from hypothesis import strategies as st
from strategies import DTYPES, arrays, dtypes
from upfirdn2d_checks import assert_within, magnitudes, operator_arguments

RULES = ["edge", "reflect", "symmetric", "wrap"]
ALIASES = {"zeros": "constant", "replicate": "edge", "circular": "wrap"}
SEPARABLE = np.outer([1.0, 3, 3, 1], [1, 2, 3, 1]) / 49
RADIAL = np.random.default_rng(0).standard_normal((4, 4))


@st.composite
def calls(draw, most_length=14, most_pad=40):
    """A call that has an output, with padding of any sign and beyond the picture's length."""
    leading = tuple(draw(st.lists(st.integers(1, 3), max_size=2)))
    lengths = draw(st.integers(1, most_length)), draw(st.integers(1, most_length))
    taps = draw(st.integers(1, 13)), draw(st.integers(1, 13))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    separable = np.outer(rng.standard_normal(taps[0]), rng.standard_normal(taps[1]))
    kernel = separable if draw(st.booleans()) else rng.standard_normal(taps)
    factors, pads = st.integers(1, 4), st.integers(-3, 8) | st.integers(-3, most_pad)
    arguments = {
        "up": (draw(factors), draw(factors)),
        "down": (draw(factors), draw(factors)),
        "pad": tuple(draw(pads) for _ in range(4)),
        "flip_kernel": draw(st.booleans()),
        "gain": draw(st.sampled_from([1.0, 4.0, -0.5])),
        "border": draw(st.sampled_from(RULES)),
    }
    for size, up, pair, count in [
        (lengths[1], arguments["up"][0], arguments["pad"][:2], taps[1]),
        (lengths[0], arguments["up"][1], arguments["pad"][2:], taps[0]),
    ]:
        wide = size * up
        assume(wide + pair[0] >= 0 and wide + pair[1] >= 0 and wide + sum(pair) >= count)
    return (*leading, *lengths), kernel.astype(draw(st.sampled_from([np.float32, np.float64]))), arguments


@given(data=st.data(), call=calls(), dtype=dtypes)
def test_padding_is_that_of_numpy(data, call, dtype):
    shape, kernel, arguments = call
    x = data.draw(arrays(shape, dtype, special=False))
    y = firelu.upfirdn2d(x, kernel, **arguments)
    expected = reference.upfirdn2d(x, kernel, **arguments)
    assert (y.dtype, y.shape) == (x.dtype, expected.shape)
    assert_within(y, expected, magnitudes(x, kernel, arguments), kernel.size)
    assert_same_bits(y, firelu.upfirdn2d(np.ascontiguousarray(x), kernel, **arguments))


@given(data=st.data(), call=calls(most_length=9, most_pad=20), dtype=dtypes)
def test_gradients_are_the_reference(data, call, dtype):
    shape, kernel, arguments = call
    x = data.draw(arrays(shape, dtype, special=False))
    y_shape = reference.upfirdn2d(x, kernel, **arguments).shape
    dy = data.draw(arrays(y_shape, dtype, special=False))
    dx = firelu.upfirdn2d_gradient(dy, kernel, shape, **arguments)
    assert (dx.dtype, dx.shape) == (dtype, shape)
    absolute = {**arguments, "gain": abs(arguments["gain"])}
    magnitude = reference.upfirdn2d_gradient(np.abs(widen(dy)), np.abs(widen(kernel)), x, **absolute)
    # A sample may stand for many: each output adds up to as many terms as it has taps.
    terms = kernel.size + y_shape[-1] * y_shape[-2]
    assert_within(dx, reference.upfirdn2d_gradient(dy, kernel, x, **arguments), magnitude, terms)
    assert_same_bits(dx, firelu.upfirdn2d_gradient(np.ascontiguousarray(dy), kernel, shape, **arguments))

    dk = firelu.run_operator("UpFirDn2dKernelGradient", x, dy, kernel, **operator_arguments(arguments))
    magnitude = reference.upfirdn2d_kernel_gradient(np.abs(widen(x)), np.abs(widen(dy)), kernel, **absolute)
    # Registers add up a bounded number of products before these go into float64 sums.
    epsilon = 2.0**-48 if dtype.name == "float64" and dk.dtype == np.float64 else 2.0**-20
    error = np.abs(dk - reference.upfirdn2d_kernel_gradient(x, dy, kernel, **arguments))
    assert (error <= epsilon * magnitude + 1e-30).all()


def picture(dtype, channels_last, shape=(2, 5, 203, 191)):
    x = np.random.default_rng(3).standard_normal(shape).astype(dtype)
    return np.ascontiguousarray(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2) if channels_last else x


#: Factors and padding; the picture is large enough for a middle and for rims that are cut into windows.
FORMS = [(1, 1, (2, 1)), (2, 1, (2, 1)), (1, 2, (5, 6)), (2, 2, 2), (3, 1, 3), (1, 1, (30, -3)), (1, 5, (9, 8))]


@functools.cache
def defined(dtype, separable, form, border):
    """The call's arguments, its result by the definition, and its magnitudes: the same for every level and layout."""
    up, down, pad = form
    x, kernel = picture(dtype, False), SEPARABLE if separable else RADIAL
    pads = (pad,) * 4 if isinstance(pad, int) else pad * 2
    arguments = {"up": (up, up), "down": (down, down), "pad": pads, "flip_kernel": False, "gain": 1.0}
    arguments["border"] = border
    return reference.upfirdn2d(x, kernel, **arguments), magnitudes(x, kernel, arguments)


def quick_half(name, *lists):
    """Every combination; each second one takes part in the full run alone."""
    combinations = list(itertools.product(*(range(len(values)) for values in lists)))
    marks = [pytest.mark.full if sum(places) % 2 else () for places in combinations]
    values = [[values[place] for values, place in zip(lists, places, strict=True)] for places in combinations]
    return pytest.mark.parametrize(
        name, [pytest.param(*each, marks=mark) for each, mark in zip(values, marks, strict=True)]
    )


@quick_half("border, dtype", RULES, DTYPES)
@pytest.mark.parametrize("channels_last", [False, True], ids=["planes", "channels last"])
def test_large_pictures_on_every_level_and_any_number_of_threads(border, dtype, channels_last, num_threads, cpu_level):
    x = picture(dtype, channels_last)
    for kernel in (SEPARABLE, RADIAL):
        for up, down, pad in FORMS:
            results = []
            for threads in (1, 3):
                num_threads(threads)
                y = firelu.upfirdn2d(x, kernel, up, down, pad, border=border)
                dx = firelu.upfirdn2d_gradient(y, kernel, x.shape, up, down, pad, border=border)
                dk = firelu.upfirdn2d_kernel_gradient(x, y, (4, 4), up, down, pad, border=border)
                results.append((y, dx, dk))
            for first, other in zip(*results, strict=True):
                assert_same_bits(first, other)
            y, dx, dk = results[0]
            assert_within(y, *defined(dtype, kernel is SEPARABLE, (up, down, pad), border), 16)
            # <Ax, y> = <x, A'y>, and = <K, C(x, y)>: sums of so many terms agree to a few of their roundings.
            dots = [(widen(a) * widen(b)).sum() for a, b in [(y, y), (x, dx), (kernel, dk)]]
            tolerance = {"float64": 1e-12, "float32": 1e-5}.get(dtype.name, 2e-2)
            np.testing.assert_allclose(dots[1:], dots[0], rtol=tolerance)


@pytest.mark.parametrize("border", RULES)
def test_sizes_around_windows_and_lines(border, cpu_level):
    """Widths beyond a strip, rims of one column, and pictures that are nothing but border."""
    rng = np.random.default_rng(7)
    kernel = np.outer(rng.standard_normal(12), rng.standard_normal(12))
    for shape in [(3, 5000), (1, 2, 5000), (700, 3), (40, 7, 9), (1, 1), (2, 300, 5), (600, 33), (3, 16, 16, 16)]:
        x = rng.standard_normal(shape)
        for up, down in [(1, 1), (2, 1), (1, 2), (2, 2)]:
            arguments = {"up": (up, up), "down": (down, down), "pad": (9, 8, 7, 12), "border": border}
            y = firelu.upfirdn2d(x, kernel, **arguments)
            expected = reference.upfirdn2d(x, kernel, **arguments)
            np.testing.assert_allclose(y, expected, atol=1e-10)
            dy, other = rng.standard_normal(y.shape), rng.standard_normal(shape)
            dx = firelu.upfirdn2d_gradient(dy, kernel, shape, **arguments)
            forward = reference.upfirdn2d(other, kernel, **arguments)
            np.testing.assert_allclose((forward * dy).sum(), (other * dx).sum(), atol=1e-8)


def test_half_gradients_are_rounded_once():
    """What is added up is not rounded before: a sum of a thousandth beside a thousand survives in float16."""
    dy = np.array([[2.0**-11 * 1.5] * 2 + [1.0] + [0.0] * 4], np.float16)
    dx = firelu.upfirdn2d_gradient(dy, np.ones((1, 1)), (1, 5), pad=(2, 0, 0, 0), border="edge")
    # 1 + 3 * 2^-11 rounds to 1 + 2^-9; each term alone rounds to 1 + 2^-10, and the second to that again.
    assert dx[0, 0] == np.float16(1.0 + 3 * 2.0**-11)


@pytest.mark.parametrize("border", RULES)
def test_strided_outputs_and_non_temporal_stores(border):
    x = picture(np.float32, False, (1, 3, 120, 150))
    arguments = {"pad": (6, 7), "border": border}
    expected = firelu.upfirdn2d(x, SEPARABLE, **arguments)
    out = np.zeros((*expected.shape[:-1], 2 * expected.shape[-1]), np.float32)[..., ::2]
    assert firelu.upfirdn2d(x, SEPARABLE, out=out, **arguments) is out
    assert_same_bits(np.ascontiguousarray(out), expected)
    dx = firelu.upfirdn2d_gradient(expected, SEPARABLE, x.shape, **arguments)
    wide = np.zeros((*x.shape[:-1], 3 * x.shape[-1]), np.float32)[..., ::3]
    firelu.upfirdn2d_gradient(expected, SEPARABLE, x.shape, out=wide, **arguments)
    assert_same_bits(np.ascontiguousarray(wide), dx)
    firelu.set_non_temporal_bytes(1 << 16)
    try:
        assert firelu.get_non_temporal_bytes() == 1 << 16
        assert_same_bits(firelu.upfirdn2d(x, SEPARABLE, **arguments), expected)
        assert_same_bits(firelu.upfirdn2d_gradient(expected, SEPARABLE, x.shape, **arguments), dx)
    finally:
        firelu.set_non_temporal_bytes(None)


@pytest.mark.parametrize("border", RULES)
def test_without_padding_there_is_no_border(border):
    x = picture(np.float32, False, (2, 3, 40, 50))
    for up, down, pad in [(1, 1, 0), (1, 2, -1), (2, 1, -2)]:
        y = firelu.upfirdn2d(x, SEPARABLE, up, down, pad)
        assert_same_bits(firelu.upfirdn2d(x, SEPARABLE, up, down, pad, border=border), y)
        dx = firelu.upfirdn2d_gradient(y, SEPARABLE, x.shape, up, down, pad)
        assert_same_bits(firelu.upfirdn2d_gradient(y, SEPARABLE, x.shape, up, down, pad, border=border), dx)


@pytest.mark.parametrize(("alias", "rule"), ALIASES.items())
def test_torchs_names_mean_the_same(alias, rule):
    x = picture(np.float32, False, (1, 1, 9, 9))
    y = firelu.upfirdn2d(x, SEPARABLE, pad=2, border=rule)
    assert_same_bits(firelu.upfirdn2d(x, SEPARABLE, pad=2, border=alias), y)
    assert not np.array_equal(y, firelu.upfirdn2d(x, SEPARABLE, pad=2, border="reflect"))


def test_a_call_kept_ready_is_not_that_of_another_rule():
    x = picture(np.float32, False, (1, 1, 6, 6))
    for _ in range(3):
        for border in ["constant", *RULES]:
            pads = {"pad": (2, 1, 2, 1), "border": border}
            expected = reference.upfirdn2d(x, SEPARABLE, **pads)
            np.testing.assert_allclose(firelu.upfirdn2d(x, SEPARABLE, **pads), expected, atol=1e-5)


def test_refusals():
    x = np.ones((2, 5, 5))
    with pytest.raises(firelu.ArgumentError, match='UpFirDn2d: border: got "mirror", takes "constant", "edge"'):
        firelu.upfirdn2d(x, SEPARABLE, border="mirror")
    with pytest.raises(firelu.ArgumentError, match="UpFirDn2d: border: got 1, takes"):
        firelu.upfirdn2d(x, SEPARABLE, border=1)
    # numpy.pad extends no empty axis but with zeros.
    for shape in [(2, 0, 5), (2, 5, 0)]:
        assert firelu.upfirdn2d(np.ones(shape), SEPARABLE, pad=9).shape[0] == 2
        with pytest.raises(firelu.ShapeError, match="is 0, takes at least one sample where border is"):
            firelu.upfirdn2d(np.ones(shape), SEPARABLE, pad=9, border="edge")
    assert firelu.upfirdn2d(np.ones((0, 5, 5)), SEPARABLE, pad=9, border="edge").shape == (0, 20, 20)


def test_a_schema_tells_its_choices():
    for name in ("UpFirDn2d", "UpFirDn2dGradient", "UpFirDn2dKernelGradient"):
        argument = firelu.schema(name).args[-1]
        assert (argument.name, argument.type, argument.default) == ("border", "str", "constant")
        assert argument.choices == ["constant", *RULES]
    assert firelu.schema("LeakyRelu").args[0].choices is None


def test_explanations_name_the_border():
    x = np.zeros((1, 300, 300), np.float32)
    names = {"pad_x0": 2, "pad_x1": 1, "pad_y0": 2, "pad_y1": 1}
    plain = firelu.schema("UpFirDn2d").explain(x, SEPARABLE, **names)
    assert "border" not in plain
    explained = firelu.schema("UpFirDn2d").explain(x, SEPARABLE, **names, border="reflect")
    assert "border reflect: 4 part(s) in windows that reach outside" in explained
    assert plain.split(";")[0] == explained.split(";")[0]
    small = firelu.schema("UpFirDn2d").explain(x[:, :4, :4], SEPARABLE, **names, border="wrap")
    assert "in windows alone; border wrap" in small


def test_positions_far_apart_take_no_longer_than_the_outputs():
    """Outputs far from each other and from the picture: nothing walks through what lies between them."""
    far = 1 << 30
    x, kernel = np.array([[1.0, 2.0, 4.0]]), np.ones((1, 1))
    for border in RULES:
        arguments = {"down": (far, 1), "pad": (far, far, 0, 0), "border": border}
        y = firelu.upfirdn2d(x, kernel, **arguments)
        middle = {"edge": 1.0, "reflect": x[0, (far % 4) % 3], "wrap": x[0, -far % 3]}
        assert y.shape == (1, 3)
        assert y[0, 1] == 1.0
        assert y[0, 0] == middle.get(border, y[0, 0])
        dx = firelu.upfirdn2d_gradient(y, kernel, x.shape, **arguments)
        assert (dx * x).sum() == (y * y).sum()


def test_pictures_helpers_pass_the_rule_on():
    x = picture(np.float64, False, (1, 2, 12, 14))
    kernel = firelu.make_kernel([1, 3, 3, 1])
    for border in RULES:
        ones = np.ones_like(x)
        for function in (firelu.filter2d, firelu.upsample2d, firelu.downsample2d):
            # A picture of one brightness keeps it up to its edges.
            np.testing.assert_allclose(function(ones, kernel, border=border), 1.0, rtol=1e-6)
        expected = reference.upfirdn2d(x, kernel, pad=(2, 1, 2, 1), border=border)
        np.testing.assert_allclose(firelu.filter2d(x, kernel, border=border), expected)


def test_tensors_differentiate_any_order():
    rng = np.random.default_rng(5)
    for border in RULES:
        x = firelu.Tensor(rng.standard_normal((3, 4)), requires_grad=True)
        kernel = firelu.Tensor(rng.standard_normal((2, 3)), requires_grad=True)
        arguments = {"up": (2, 1), "down": (1, 2), "pad": (3, 2, 5, 1), "border": border}
        y = firelu.nn.functional.upfirdn2d(x, kernel, **arguments)
        dx, dk = firelu.grad(y * y, [x, kernel], create_graph=True)
        dy = 2 * y.numpy()
        expected = reference.upfirdn2d_gradient(dy, kernel.numpy(), x.numpy(), **arguments)
        np.testing.assert_allclose(dx.numpy(), expected, atol=1e-12)
        (ddx,) = firelu.grad(dk, [x])
        step, direction = 1e-6, rng.standard_normal(x.shape)

        def total(at, kernel=kernel, arguments=arguments):
            y = reference.upfirdn2d(at, kernel.numpy(), **arguments)
            return reference.upfirdn2d_kernel_gradient(at, 2 * y, kernel.numpy(), **arguments).sum()

        slope = (total(x.numpy() + step * direction) - total(x.numpy() - step * direction)) / (2 * step)
        np.testing.assert_allclose((ddx.numpy() * direction).sum(), slope, rtol=1e-5)
