"""FilteredAct: its definition step by step, the same bits as its parts, every derivative, refusals."""

from __future__ import annotations

import firelu
import numpy as np
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st

ACTS = ["linear", "relu", "lrelu", "tanh", "sigmoid", "elu", "selu", "softplus", "swish"]
BORDERS = ["constant", "edge", "reflect", "symmetric", "wrap"]
RNG = np.random.default_rng(7)


def named(arguments):
    """The arguments as the registry spells them."""
    spread = {}
    for name, value in arguments.items():
        if name in ("up", "down"):
            spread[f"{name}_x"], spread[f"{name}_y"] = value
        elif name.endswith("pad"):
            spread |= {f"{name}_{at}": number for at, number in zip(("x0", "x1", "y0", "y1"), value, strict=True)}
        elif value is not None:
            spread[name] = value
    return spread


@st.composite
def calls(draw):
    factor, tap, pad = st.integers(1, 4), st.integers(1, 7), st.integers(0, 6)
    up, down = (draw(factor), draw(factor)), (draw(factor), draw(factor))
    taps = [(draw(tap), draw(tap)) for _ in range(2)]
    arguments = {
        "act": draw(st.sampled_from([*ACTS, "snake"])),
        "up": up,
        "down": down,
        "pad": tuple(draw(pad) for _ in range(4)),
        "down_pad": tuple(draw(pad) for _ in range(4)),
        "alpha": 0.3,
        "gain": 1.25,
        "clamp": draw(st.sampled_from([None, 0.5, 2.0])),
        "flip_kernel": draw(st.booleans()),
        "up_gain": 2.0,
        "border": draw(st.sampled_from(BORDERS)),
        "down_border": draw(st.sampled_from(BORDERS)),
        "logscale": draw(st.booleans()),
    }
    shape = (draw(st.integers(1, 2)), 2, draw(st.integers(1, 9)), draw(st.integers(1, 40)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    separable = draw(st.booleans())

    def kernel(size):
        if separable:
            return np.outer(rng.standard_normal(size[0]), rng.standard_normal(size[1]))
        return rng.standard_normal(size)

    snake = arguments["act"] == "snake"
    numbers = [rng.standard_normal(2) if draw(st.booleans()) else None]
    numbers += [rng.uniform(0.5, 2.0, 2), rng.uniform(0.5, 2.0, 2) if draw(st.booleans()) else None] if snake else []
    return rng.standard_normal(shape), [kernel(size) for size in taps], numbers, arguments


@settings(max_examples=150, deadline=None)
@given(calls())
def test_every_call_is_its_definition(call):
    x, kernels, numbers, arguments = call
    try:
        expected = reference.filtered_act(x, *kernels, *numbers, **arguments)
    except ValueError:
        return  # Nothing is left after padding and cropping.
    if 0 in expected.shape:
        return
    got = firelu.run_operator("FilteredAct", x, *kernels, *numbers, **named(arguments))
    np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-9 * max(1.0, np.abs(expected).max()))


def parts(x, fu, fd, bias, act, **arguments):
    """The same call, one operator after the other."""
    if bias is not None:
        x = x + bias[:, None, None]
    up = {name: value for name, value in arguments.items() if name.startswith("up_") and name != "up_gain"}
    pads = {name: value for name, value in arguments.items() if name.startswith("pad_")}
    wide = firelu.run_operator("UpFirDn2d", x, fu, **up, **pads)
    middle = firelu.run_operator("BiasAct", wide, act=act, alpha=0.3, gain=1.5, clamp=2.0)
    down = {name: value for name, value in arguments.items() if name.startswith("down_")}
    return wide, firelu.run_operator("UpFirDn2d", middle, fd, **down)


LAYER = {"up_x": 2, "up_y": 2, "down_x": 2, "down_y": 2, "pad_x0": 9, "pad_x1": 8, "pad_y0": 9, "pad_y1": 8}
TAPS = firelu.make_kernel(np.hanning(14)[1:-1])
# Not a product of two rows of taps: no operator may choose which way to filter first.
FULL = (TAPS + np.eye(12) / 12).astype(np.float32)


@pytest.mark.parametrize("level", firelu.cpu_levels())
@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_bits_are_those_of_the_parts(level, act, dtype):
    x = RNG.standard_normal((2, 3, 40, 150)).astype(dtype)
    bias, taps = RNG.standard_normal(3).astype(dtype), FULL.astype(dtype)
    before = firelu.get_cpu_level()
    firelu.set_cpu_level(level)
    try:
        wide, expected = parts(x, taps, taps, bias, act, **LAYER)
        settings_ = {"act": act, "alpha": 0.3, "gain": 1.5, "clamp": 2.0}
        got = firelu.run_operator("FilteredAct", x, taps, taps, bias, **LAYER, **settings_)
        np.testing.assert_array_equal(got, expected)
        dy = RNG.standard_normal(got.shape).astype(dtype)
        dx, db, *_ = firelu.run_operator(
            "FilteredActGradient", x, taps, taps, bias, None, None, dy, **LAYER, **settings_
        )
        g = firelu.run_operator("UpFirDn2dGradient", dy, taps, wide, down_x=2, down_y=2)
        m = firelu.run_operator("BiasActGradient", wide, g, **settings_)[0]
        up = {name: value for name, value in LAYER.items() if not name.startswith("down_")}
        expected = firelu.run_operator("UpFirDn2dGradient", m, taps, x, **up)
        np.testing.assert_array_equal(dx, expected)
        np.testing.assert_array_equal(db, firelu.run_operator("ReduceSum", expected, axes=[0, 2, 3]))
    finally:
        firelu.set_cpu_level(before)


@pytest.mark.parametrize("border", BORDERS)
@pytest.mark.parametrize("beyond", [1, 5, 9, 23])
def test_the_way_down_may_read_what_lies_outside_alone(border, beyond):
    """Places outside stand for some inside, and between these two lie others that stand for others still."""
    x, taps = RNG.standard_normal((1, 2, 6, 8)), RNG.standard_normal((3, 3))
    for side in (1, -1):
        pads = [-(8 + beyond), 8 + beyond + 4][::side]
        down = {"down_pad_x0": pads[0], "down_pad_x1": pads[1], "down_border": border}
        got = firelu.run_operator("FilteredAct", x, np.ones((1, 1)), taps, act="tanh", gain=1.0, **down)
        wide = np.tanh(x)
        expected = firelu.run_operator("UpFirDn2d", wide, taps, pad_x0=pads[0], pad_x1=pads[1], border=border)
        np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("act", [*ACTS, "snake"])
@pytest.mark.parametrize("border", BORDERS)
def test_the_gradient_against_differences(act, border):
    x, up, down = RNG.standard_normal((1, 2, 4, 7)), RNG.standard_normal((3, 4)), RNG.standard_normal((2, 3))
    x += 0.05 * np.sign(x)  # Away from the corner of some activations.
    arguments = {
        "act": act, "up": (2, 1), "down": (3, 2), "pad": (3, 2, 1, 1), "down_pad": (1, 2, 0, 1), "border": border,
        "down_border": border,
    }  # fmt: skip
    numbers = [None, RNG.uniform(0.5, 1, 2), RNG.uniform(0.5, 1, 2)] if act == "snake" else [None, None, None]
    given_numbers = dict(zip(("bias", "alphas", "betas"), numbers, strict=True))
    y = reference.filtered_act(x, up, down, **given_numbers, **arguments)
    dy = RNG.standard_normal(y.shape)
    spelt = named(arguments | {"gain": 1.0})
    got = firelu.run_operator("FilteredActGradient", x, up, down, *numbers, dy, **spelt)[0]
    expected = reference.filtered_act_gradient(x, up, down, dy, **given_numbers, **arguments)
    if act in ("relu", "lrelu"):
        # Samples that a step carries over the corner have no derivative there.
        assert np.median(np.abs(got - expected)) < 1e-6
    else:
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_bits_do_not_depend_on_threads(threads):
    x = RNG.standard_normal((1, 4, 70, 300)).astype(np.float32)
    alphas, dy = np.ones(4, np.float32), None
    before = firelu.get_num_threads()
    results = []
    for count in (1, threads):
        firelu.set_num_threads(count)
        y = firelu.run_operator("FilteredAct", x, TAPS, TAPS, None, alphas, act="snake", **LAYER)
        dy = np.ones_like(y) if dy is None else dy
        gradient = firelu.run_operator(
            "FilteredActGradient", x, TAPS, TAPS, None, alphas, None, dy, act="snake", **LAYER
        )
        results.append([y, *gradient])
    firelu.set_num_threads(before)
    for one, other in zip(*results, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_strides_and_out(dtype):
    x = RNG.standard_normal((2, 3, 20, 24)).astype(dtype)
    expected = firelu.filtered_act(x, TAPS, TAPS, up=2, down=2, pad=11)
    for other in (
        np.asfortranarray(x),
        x.transpose(0, 2, 3, 1).copy().transpose(0, 3, 1, 2),
        x[:, :, ::-1][:, :, ::-1],
    ):
        np.testing.assert_array_equal(firelu.filtered_act(other, TAPS, TAPS, up=2, down=2, pad=11), expected)
    out = np.empty((*expected.shape[:-1], 2 * expected.shape[-1]), dtype)[..., ::2]
    assert firelu.filtered_act(x, TAPS, TAPS, up=2, down=2, pad=11, out=out) is out
    np.testing.assert_array_equal(out, expected)


def test_a_signal_keeps_its_length_and_a_constant_its_value():
    alpha, beta = np.array([0.5, 1.0]), np.array([1.0, 2.0])
    x = np.full((3, 2, 50), 0.7)
    for ratio in (1, 2, 3, 4):
        y = firelu.filtered_snake(x, alpha, beta, ratio=ratio)
        expected = 0.7 + np.sin(alpha * 0.7) ** 2 / (beta + 1e-9)
        # From a ratio of three on the phases of Kaiser's filter do not sum alike.
        close = 1e-6 if ratio < 3 else 1e-3
        np.testing.assert_allclose(y, np.broadcast_to(expected[:, None], x.shape), rtol=close)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"act": "gelu"}, "act"),
        ({"clamp": -1.0}, "clamp"),
        ({"bias": np.zeros(3)}, r"B: got \(3,\), takes \(2,\)"),
        ({"bias": np.zeros(2), "axis": 3}, "axis"),
        ({"border": "mirror"}, "border"),
        ({"pad": -5}, "takes at least"),
    ],
)
def test_refusals_name_what_is_wrong(arguments, text):
    with pytest.raises(firelu.FireluError, match=text):
        firelu.filtered_act(np.zeros((1, 2, 4, 4)), TAPS, None, up=2, **({"pad": 4} | arguments))
    with pytest.raises(firelu.FireluError, match="SnakeAlpha"):
        firelu.run_operator("FilteredAct", np.zeros((1, 2, 4, 4)), TAPS[:1, :1], TAPS[:1, :1], act="snake")
