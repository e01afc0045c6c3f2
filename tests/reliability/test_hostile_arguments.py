"""Arguments, names and definitions of every kind, for every operator."""

from __future__ import annotations

import json

import firelu
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from record import Tally

REFUSALS = (firelu.FireluError, TypeError, ValueError, MemoryError, OverflowError)
TALLY = Tally("hostile_arguments")
NUMBERS = st.integers() | st.floats() | st.booleans()
ANYTHING = st.none() | NUMBERS | st.text("ab1_.é\0", max_size=5) | st.lists(NUMBERS, max_size=4) | st.binary(max_size=3)


@pytest.fixture(scope="module", autouse=True)
def _record():
    yield
    TALLY.record()


@given(data=st.data(), name=st.sampled_from(firelu.operators()))
def test_any_arguments(data, name):
    schema = firelu.schema(name)
    names = [argument.name for argument in schema.args]
    chosen = data.draw(st.dictionaries(st.sampled_from([*names, "slope", "out_", ""]), ANYTHING, max_size=4))
    inputs = [np.ones((1, 1, 2, 2), np.float32) for _ in schema.inputs]
    # Enormous paddings that are taken would fill the memory: their shapes are looked at first.
    kinds = [(x.shape, x.dtype) for x in inputs]
    inferred = TALLY.attempt(schema.infer, kinds, allowed=REFUSALS, **chosen)
    if inferred is None or any(np.prod([float(n) for n in shape]) > 1e6 for shape, _ in inferred):
        return
    assert TALLY.attempt(firelu.run_operator, name, *inputs, **chosen) is not None


PADS = st.sampled_from([0, 1, -1, 2, 10**5, -(10**5), 2**31, 2**62, -(2**62), 2**63 - 1, -(2**63), 2**63, 10**30])
FACTORS = st.sampled_from([1, 2, 3, 1000, 2**31 - 1, 2**31, 2**62, 0, -1, 10**30])


@given(pad=st.tuples(PADS, PADS, PADS, PADS), up=st.tuples(FACTORS, FACTORS), down=st.tuples(FACTORS, FACTORS))
@settings(max_examples=300)
def test_enormous_and_negative_paddings(pad, up, down):
    x, k = np.ones((1, 3, 3), np.float32), np.ones((2, 2), np.float32)
    schema = firelu.schema("UpFirDn2d")
    arguments = dict(zip(("pad_x0", "pad_x1", "pad_y0", "pad_y1"), pad, strict=True))
    arguments |= {"up_x": up[0], "up_y": up[1], "down_x": down[0], "down_y": down[1]}
    inferred = TALLY.attempt(schema.infer, [(x.shape, x.dtype), (k.shape, k.dtype)], allowed=REFUSALS, **arguments)
    if inferred is None:
        with pytest.raises(REFUSALS):
            firelu.upfirdn2d(x, k, up=up, down=down, pad=pad)
        return
    [(shape, _)] = inferred
    wide = [3 * u + p0 + p1 for u, p0, p1 in ((up[1], pad[2], pad[3]), (up[0], pad[0], pad[1]))]
    expected = tuple((w - 2) // d + 1 for w, d in zip(wide, (down[1], down[0]), strict=True))
    assert shape == (1, *expected)
    if shape[1] * shape[2] < 10**6:
        y = TALLY.attempt(firelu.upfirdn2d, x, k, up=up, down=down, pad=pad)
        assert y.shape == shape


def test_a_kernel_of_a_hundred_thousand_taps():
    rng = np.random.default_rng(0)
    row = rng.standard_normal((1, 100_000)).astype(np.float32)
    x = rng.standard_normal((1, 2, 100_002)).astype(np.float32)
    y = firelu.upfirdn2d(x, row)
    expected = [[np.dot(x[0, i, j : j + 100_000].astype(np.float64), row[0, ::-1]) for j in range(3)] for i in range(2)]
    np.testing.assert_allclose(y[0], expected, rtol=1e-4, atol=2e-2)
    square = np.full((320, 320), 1 / 102_400, np.float32)
    np.testing.assert_allclose(firelu.upfirdn2d(np.ones((321, 321), np.float32), square), np.ones((2, 2)), rtol=1e-4)
    gradient = firelu.upfirdn2d_kernel_gradient(x, np.ones((1, 2, 3), np.float32), (1, 100_000))
    assert gradient.shape == (1, 100_000)
    assert np.isfinite(gradient).all()


def test_a_kernel_larger_than_memory_is_a_memory_error():
    huge = np.broadcast_to(np.float32(1), (1 << 20, 1 << 20))
    with pytest.raises(MemoryError):
        firelu.upfirdn2d(np.ones((1, 1), np.float32), huge, pad=((1 << 20) - 1, 0))
    one = np.ones((1, 1), np.float32)
    with pytest.raises(MemoryError):
        firelu.upfirdn2d_kernel_gradient(one, one, huge.shape, pad=((1 << 20) - 1, 0))


@given(st.text('{}[]":,operatinus01.\0é ', max_size=40) | st.binary(max_size=20).map(lambda b: b.decode("latin1")))
def test_any_text_as_a_definition(text):
    assert TALLY.attempt(firelu.OperatorDef.from_json, text, allowed=firelu.ArgumentError) is None or json.loads(text)


VALUES = st.recursive(
    ANYTHING, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", max_size=3), inner)
)
FIELDS = st.dictionaries(st.sampled_from(["operator", "inputs", "outputs", "args", "device", "name", "extra"]), VALUES)


@given(fields=FIELDS)
def test_any_json_as_a_definition(fields):
    text = json.dumps(fields, default=str)
    definition = TALLY.attempt(firelu.OperatorDef.from_json, text, allowed=firelu.ArgumentError)
    if definition is not None:
        TALLY.attempt(firelu.get_gradient_defs, definition, ["g"] * len(definition.outputs), allowed=REFUSALS)


@pytest.mark.parametrize("text", ["[" * 200_000, '{"a":' * 200_000, '{"operator": "' + "x" * 10**6 + '"}'])
def test_deep_and_long_json(text):
    with pytest.raises(firelu.ArgumentError) as caught:
        firelu.OperatorDef.from_json(text)
    assert len(str(caught.value)) < 10_000


@pytest.mark.skipif(not hasattr(firelu, "add_gradient_operators"), reason="this build has no nets")
def test_a_deep_net_and_its_backward_net():
    depth = 20_000
    net = [firelu.create_operator("LeakyRelu", [f"b{i}"], [f"b{i + 1}"], alpha=0.999) for i in range(depth)]
    workspace = firelu.Workspace()
    workspace.feed("b0", np.float32([-1.0, 2.0]))
    workspace.run(net)
    backward = firelu.add_gradient_operators(net, {f"b{depth}": "g"})
    backward = backward[0] if isinstance(backward, tuple) else backward
    workspace.feed("g", np.float32([1.0, 1.0]))
    workspace.run(backward)
    np.testing.assert_allclose(workspace.fetch("b0_grad"), [0.999**depth, 1.0], rtol=2e-3)


@pytest.mark.skipif("requires_grad" not in dir(firelu.Tensor), reason="this build has no autograd")
def test_a_deep_tape():
    t = firelu.Tensor([-1.0, 2.0], requires_grad=True)
    y = t
    for _ in range(20_000):
        y = y + 1.0
    y.sum().backward()
    np.testing.assert_array_equal(t.grad.numpy(), [1.0, 1.0])
    del y
