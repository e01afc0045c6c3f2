"""BiasAct and its gradient: values, layouts, in place, pinned edge cases, derivatives."""

from __future__ import annotations

import firelu
import ml_dtypes
import numpy as np
import pytest
import reference

ACTS = list(reference.ACTIVATIONS)
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
DTYPES = [np.dtype("float16"), BFLOAT16, np.dtype("float32"), np.dtype("float64")]
#: The relative error of one rounding.
UNIT = {np.dtype("float16"): 2**-11, BFLOAT16: 2**-8, np.dtype("float32"): 2**-24, np.dtype("float64"): 2**-53}
LAMBDA, A = 1.0507009873554805, 1.6732632423543773


def numbers(shape, dtype, seed=0):
    return np.random.default_rng(seed).normal(0, 2, shape).astype(dtype)


def close(got, expected, dtype, scale=1.0):
    """Eight roundings of the type computed in and one of the type stored; near zero those of the terms."""
    compute = UNIT[np.dtype("float64") if dtype == np.float64 else np.dtype("float32")]
    allowed = (8 * compute + UNIT[dtype]) * np.maximum(np.abs(expected), scale * 1e-3) + 1e-7 * UNIT[dtype]
    assert got.dtype == dtype
    np.testing.assert_array_less(np.abs(got.astype(np.float64) - expected), allowed + 1e-300)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("act", ACTS)
def test_values_and_gradients_follow_the_definition(act, dtype):
    x, dy, bias = numbers((3, 5, 7, 9), dtype), numbers((3, 5, 7, 9), dtype, 1), numbers(5, dtype, 2)
    for given in (None, bias):
        # In the type computed in the sum is rounded before the activation sees it.
        t = x if given is None else (x.astype(_compute(dtype)) + bias.astype(_compute(dtype))[:, None, None])
        for settings in ({}, {"alpha": 0.3, "gain": -1.7, "clamp": 1.1}):
            close(firelu.bias_act(x, given, act, **settings), reference.bias_act(t, None, act, **settings), dtype, 10)
            dx, db = firelu.bias_act_gradient(x, dy, given, act, **settings)
            expected, sums = reference.bias_act_gradient(t, dy, None, act, **settings)
            away = np.ones(x.shape, bool)
            if "clamp" in settings:
                y = reference.bias_act(t, None, act, alpha=0.3, gain=-1.7)
                away = np.abs(np.abs(y) - 1.1) > 1e-4
            # The derivative of swish is a sum of terms of the size of dy, one of which changes its sign.
            close(dx[away], expected[away], dtype, 4000 if act == "swish" else 100)
            assert db.dtype == dtype
            bound = (70 * UNIT[np.dtype(_compute(dtype))] + UNIT[dtype]) * np.abs(expected).sum(axis=(0, 2, 3))
            np.testing.assert_array_less(
                np.abs(db.astype(np.float64) - sums)[away.all(axis=(0, 2, 3))], (bound + 1e-6)[away.all(axis=(0, 2, 3))]
            )


def _compute(dtype):
    return np.float64 if dtype == np.float64 else np.float32


@pytest.mark.parametrize("act", ACTS)
def test_layouts_axes_out_and_in_place_have_the_bits_of_a_contiguous_call(act):
    for dtype in DTYPES:
        x, bias = numbers((3, 6, 5, 40), dtype), numbers(6, dtype, 1)
        whole = firelu.bias_act(x, bias, act, clamp=2.0)
        last = np.ascontiguousarray(np.moveaxis(x, 1, -1))
        assert np.moveaxis(firelu.bias_act(last, bias, act, clamp=2.0, axis=-1), -1, 1).tobytes() == whole.tobytes()
        sliced = np.repeat(x, 2, axis=3)[..., ::2]
        assert np.ascontiguousarray(firelu.bias_act(sliced, bias, act, clamp=2.0)).tobytes() == whole.tobytes()
        assert np.ascontiguousarray(firelu.bias_act(x[::-1], bias, act, clamp=2.0))[::-1].tobytes() == whole.tobytes()
        out = np.empty_like(x)
        assert firelu.bias_act(x, bias, act, clamp=2.0, out=out) is out
        assert out.tobytes() == whole.tobytes()
        copied = x.copy()
        firelu.bias_act(copied, bias, act, clamp=2.0, out=copied)
        assert copied.tobytes() == whole.tobytes()
        dy = numbers(x.shape, dtype, 2)
        dx, db = firelu.bias_act_gradient(x, dy, bias, act, clamp=2.0)
        parts = firelu.bias_act_gradient(sliced, np.repeat(dy, 2, axis=3)[..., ::2], bias, act, clamp=2.0)
        assert [np.ascontiguousarray(part).tobytes() for part in parts] == [dx.tobytes(), db.tobytes()]
        moved = firelu.bias_act_gradient(
            last, np.ascontiguousarray(np.moveaxis(dy, 1, -1)), bias, act, clamp=2.0, axis=-1
        )
        assert np.moveaxis(moved[0], -1, 1).tobytes() == dx.tobytes()
        pair = (dy.copy(), np.empty(6, dtype))
        firelu.bias_act_gradient(x, pair[0], bias, act, clamp=2.0, out=pair)
        assert [part.tobytes() for part in pair] == [dx.tobytes(), db.tobytes()]


@pytest.mark.parametrize("act", ACTS)
def test_parts_of_a_row_have_the_bits_of_the_row(act):
    x = numbers(133, np.float32)
    whole = firelu.bias_act(x, None, act)
    for start in range(40):
        assert firelu.bias_act(x[start:], None, act).tobytes() == whole[start:].tobytes()


@pytest.fixture
def small_cache():
    """A last-level cache that small arrays exceed."""
    firelu.set_non_temporal_bytes(1 << 16)
    yield
    firelu.set_non_temporal_bytes(None)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("settings", [{}, {"gain": 1.3, "clamp": 2.0}], ids=["plain", "scaled"])
@pytest.mark.parametrize("act", ["lrelu", "tanh"])
def test_rows_past_the_caches_have_the_same_bits_wherever_they_start(small_cache, cpu_level, act, settings, dtype):
    x, bias = numbers((2, 3, 4001), dtype), numbers(3, dtype, 1)
    # Each channel alone is so small that it is not streamed.
    parts = [firelu.bias_act(x[:1, i : i + 1], bias[i : i + 1], act, **settings) for i in range(3)]
    parts += [firelu.bias_act(x[1:, i : i + 1], bias[i : i + 1], act, **settings) for i in range(3)]
    expected = b"".join(part.tobytes() for part in parts)
    for offset in (0, 1, 9):
        memory = np.full(x.nbytes + 256, 0x5A, np.uint8)
        start = -memory.ctypes.data % 64 + 64 + offset * dtype.itemsize
        out = memory[start : start + x.nbytes].view(dtype).reshape(x.shape)
        firelu.bias_act(x, bias, act, out=out, **settings)
        assert out.tobytes() == expected
        assert (memory[:start] == 0x5A).all()
        assert (memory[start + x.nbytes :] == 0x5A).all()


def test_derivatives_at_the_corners():
    at_zero = {"relu": 0.0, "lrelu": 0.3, "elu": 1.0, "selu": LAMBDA}
    for act, slope in at_zero.items():
        for zero in (0.0, -0.0):
            dx, _ = firelu.bias_act_gradient(np.full((1, 1), zero), np.ones((1, 1)), None, act, alpha=0.3, gain=1.0)
            assert dx == slope


def test_the_clamp():
    x = np.array([[-3.0, -2.0, 0.5, 2.0, 3.0]])
    for act, gain in (("linear", 1.0), ("lrelu", 1.0)):
        assert np.abs(firelu.bias_act(x, None, act, gain=gain, alpha=1.0, clamp=2.0)).max() == 2.0
        dx, _ = firelu.bias_act_gradient(x, np.ones_like(x), None, act, gain=gain, alpha=1.0, clamp=2.0)
        # Where the result has just that size, the gradient passes.
        assert dx.tolist() == [[0.0, 1.0, 1.0, 1.0, 0.0]]
    assert firelu.bias_act(x, None, "linear", clamp=0).tolist() == [[-0.0, -0.0, 0.0, 0.0, 0.0]]


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_special_values(act, dtype):
    x = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0], dtype)
    y = firelu.bias_act(x, None, act, gain=1.0).astype(np.float64)
    assert np.isnan(y[0])
    expected = {
        "linear": (np.inf, -np.inf), "relu": (np.inf, 0.0), "lrelu": (np.inf, -np.inf), "tanh": (1.0, -1.0),
        "sigmoid": (1.0, 0.0), "elu": (np.inf, -1.0), "selu": (np.inf, -LAMBDA * A), "softplus": (np.inf, 0.0),
        "swish": (np.inf, 0.0),
    }[act]  # fmt: skip
    np.testing.assert_allclose(y[1:3], expected, rtol=2 * UNIT[dtype])
    if act not in ("sigmoid", "softplus"):
        assert y[3] == y[4] == 0
        assert act == "relu" or np.signbit(y[4]), "the sign of zero is kept"
    assert np.isnan(firelu.bias_act(x, None, act, clamp=1.0).astype(np.float64)[0])


@pytest.mark.parametrize("act", ACTS)
def test_float64_against_long_double(act):
    """Long double has more bits, and shows the errors of float64: two units of the last place at most."""
    if np.finfo(np.longdouble).nmant <= 52:
        pytest.skip("long double is float64 here")
    t = np.concatenate(
        [np.linspace(-40, 40, 20_001), np.geomspace(1e-300, 1e-3, 2000), -np.geomspace(1e-300, 1e-3, 2000)]
    )
    y = firelu.bias_act(t, None, act, gain=1.0, alpha=0.25)
    exact = reference.ACTIVATIONS[act][0](t.astype(np.longdouble), np.longdouble(0.25))
    spacing = np.spacing(np.abs(y)).astype(np.longdouble)
    assert np.abs((y - exact) / spacing).max() <= 2


def test_only_lrelu_reads_alpha_and_negative_slopes_take_the_sign_of_x():
    x = np.array([[-2.0, 3.0]])
    for act in set(ACTS) - {"lrelu"}:
        assert firelu.bias_act(x, None, act, alpha=7.0).tolist() == firelu.bias_act(x, None, act).tolist()
    assert firelu.bias_act(x, None, "lrelu", alpha=-0.5, gain=1.0).tolist() == [[1.0, 3.0]]
    dx, _ = firelu.bias_act_gradient(x, np.ones_like(x), None, "lrelu", alpha=-0.5, gain=1.0)
    assert dx.tolist() == [[-0.5, 1.0]]


def test_bad_calls_are_refused_by_name():
    x = np.zeros((2, 3))
    for error, match, call in [
        (
            firelu.ArgumentError,
            'BiasAct: act: got "gelu", takes "linear", "relu"',
            lambda: firelu.bias_act(x, None, "gelu"),
        ),
        (firelu.ArgumentError, "clamp: got -1", lambda: firelu.bias_act(x, clamp=-1)),
        (firelu.ArgumentError, "gain: got NaN", lambda: firelu.bias_act(x, gain=float("nan"))),
        (firelu.ArgumentError, "axis", lambda: firelu.bias_act(x, np.zeros(3), axis=2)),
        (firelu.ShapeError, "B: got", lambda: firelu.bias_act(x, np.zeros(2))),
        (firelu.ShapeError, "dY: got", lambda: firelu.bias_act_gradient(x, np.zeros((3, 2)))),
        (firelu.ArgumentError, "axis: got 2", lambda: firelu.bias_act_gradient(x, x, axis=2)),
        (firelu.ArgumentError, "order: got 25", lambda: firelu.run_operator("BiasActGradient", x, x, order=25)),
    ]:
        with pytest.raises(error, match=match):
            call()


def test_definitions_keep_none_and_texts():
    op = firelu.create_operator("BiasAct", ["X", "B"], ["Y"], act="swish", clamp=None, gain=2.0)
    assert firelu.OperatorDef.from_json(op.to_json()) == op
    [gradient], names = firelu.get_gradient_defs(op, ["dY"])
    assert (gradient.operator, gradient.inputs, names) == ("BiasActGradient", ["X", "dY", "B"], ["X_grad", "B_grad"])
    in_place = firelu.create_operator("BiasAct", ["X"], ["X"], act="relu")
    with pytest.raises(firelu.ArgumentError, match="in place"):
        firelu.get_gradient_defs(in_place, ["dX"])
    linear = firelu.create_operator("BiasActGradient", ["X", "dY"], ["dX"], act="lrelu")
    operators, names = firelu.get_gradient_defs(linear, ["ddX"])
    assert ([each.operator for each in operators], names) == (["BiasActGradient"], [None, "dY_grad"])


def test_every_level_agrees_within_the_last_places():
    x = numbers((4, 5, 301), np.float32)
    before = firelu.get_cpu_level()
    try:
        results = {}
        for level in firelu.cpu_levels():
            firelu.set_cpu_level(level)
            results[level] = [firelu.bias_act(x, None, act) for act in ACTS]
    finally:
        firelu.set_cpu_level(before)
    fused = [level for level in results if level != "native"]
    for level in fused:
        assert [y.tobytes() for y in results[level]] == [y.tobytes() for y in results[fused[0]]]
    for y, other in zip(results["native"], results[firelu.cpu_levels()[-1]], strict=True):
        np.testing.assert_allclose(y, other, rtol=3e-7, atol=1e-40)
