"""Gradients of every operator against central differences in float64, of first, second and third order."""

from __future__ import annotations

import firelu
import numpy as np
import pytest
import reference

STEP = 1e-4
X = (2, 3, 4)
IMAGE = (1, 2, 5, 4)


def numbers(shape, seed):
    """Numbers that stay away from zero, where leaky ReLU has a corner."""
    rng = np.random.default_rng(seed)
    return rng.uniform(0.2, 1.0, shape) * rng.choice([-1.0, 1.0], shape)


def filters():
    settings = [
        (1, 1, (0, 0, 0, 0), (2, 3), False, 1.0),
        (2, 1, (2, 1, 1, 2), (3, 2), True, 4.0),
        (1, 2, (1, 1, 2, 0), (3, 3), False, 0.5),
        (3, 2, (1, 2, 3, 1), (4, 3), True, 1.0),
        (2, 3, (-1, 2, 1, -1), (2, 2), False, 2.0),
    ]
    for up, down, (x0, x1, y0, y1), (kh, kw), flip, gain in settings:
        args = {"up_x": up, "up_y": up, "down_x": down, "down_y": down, "pad_x0": x0, "pad_x1": x1}
        args |= {"pad_y0": y0, "pad_y1": y1, "flip_kernel": flip, "gain": gain}
        out = ((5 * up + y0 + y1 - kh) // down + 1, (4 * up + x0 + x1 - kw) // down + 1)
        yield "UpFirDn2d", [IMAGE, (kh, kw)], args
        yield "UpFirDn2dGradient", [(1, 2, *out), (kh, kw), IMAGE], args
        yield "UpFirDn2dKernelGradient", [IMAGE, (1, 2, *out), (kh, kw)], args


def activations():
    for act in reference.ACTIVATIONS:
        for clamp, axis in ((None, 1), (0.45, 2)):
            args = {"act": act, "clamp": clamp, "axis": axis, "gain": 1.2}
            for bias in ((X[axis],), None):
                yield "BiasAct", [X, bias], args
                yield "BiasActGradient", [X, X, bias], args
        yield "BiasActGradient", [X, X, (3,)], {"act": act, "order": 3}
    for alpha in (0.2, 0.0, -0.3):
        yield "LeakyRelu", [X], {"alpha": alpha}
        yield "LeakyReluGradient", [X, X], {"alpha": alpha}
        for scale, axis in ((1.4, 1), (-0.7, 2)):
            args = {"alpha": alpha, "scale": scale, "axis": axis}
            bias = (X[axis],)
            yield "FusedLeakyRelu", [X, bias], args
            yield "FusedLeakyRelu", [X, None], args
            for inputs in ([X, X, bias], [X, X, None], [X, None, bias]):
                yield "FusedLeakyReluGradient", inputs, args


def waves():
    for beta, axis in (((X[1],), 1), (None, 2)):
        args, alpha = {"logscale": True, "axis": axis}, (X[axis],)
        yield "Snake", [X, alpha, beta], args
        yield "SnakeGradient", [X, X, alpha, beta], args
        for orders in ({"order_x": 2}, {"order_x": 0, "order_alpha": 1}):
            yield "SnakeDerivative", [X, X, alpha, beta], args | orders


def filtered():
    args = {"up_x": 2, "down_x": 2, "down_y": 2, "pad_x0": 2, "pad_x1": 1, "border": "reflect"}
    args |= {"down_pad_x0": 1, "down_border": "edge", "up_gain": 1.5}
    for act in ("swish", "softplus"):
        yield "FilteredAct", [(1, 2, 4, 3), (2, 3), (1, 2), (2,)], args | {"act": act}
        yield (
            "FilteredActGradient",
            [(1, 2, 4, 3), (2, 3), (1, 2), (2,), None, None, (1, 2, 2, 4)],
            args | {"act": act},
        )
    snake = args | {"act": "snake", "logscale": True}
    for beta in ((2,), None):
        numbers_of = [(2,), (2,), beta]
        yield "FilteredAct", [(1, 2, 4, 3), (2, 3), (1, 2), *numbers_of], snake
        yield "FilteredActGradient", [(1, 2, 4, 3), (2, 3), (1, 2), *numbers_of, (1, 2, 2, 4)], snake


def examples():
    """Yield what the schemas show of every operator."""
    for name in firelu.operators():
        for shapes, args in firelu.schema(name).examples:
            yield name, shapes, args


CASES = [
    *examples(),
    ("Add", [X, (4,)], {}),
    ("Sub", [X, (3, 1)], {}),
    ("Sub", [(1,), X], {}),
    ("Mul", [X, X], {}),
    ("Mul", [(2, 1, 4), (3, 1)], {}),
    ("ReduceSum", [X], {}),
    ("ReduceSum", [X], {"axes": [0, -1], "scale": 0.5}),
    ("ReduceSum", [X], {"axes": [1], "keepdims": True}),
    ("ReduceSum", [X, (3, 1)], {}),
    ("BroadcastLike", [(3, 1), X], {"scale": 2.0}),
    ("BroadcastLike", [(3,), X], {"axes": [0, 2]}),
    *activations(),
    *waves(),
    *filtered(),
    *filters(),
]


def dot(tensor, seed):
    return (tensor * numbers(tensor.shape, seed)).sum()


def total(parts):
    parts = list(parts)
    return sum(parts[1:], start=parts[0])


def differentiated(operator, arrays, args, order):
    """Give the scalar to differentiate once more, and the leaves."""
    leaves = [None if array is None else firelu.Tensor(array, requires_grad=True) for array in arrays]
    outputs = firelu.run_operator(operator, *leaves, **args)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    value = total(dot(output, 100 + index) for index, output in enumerate(outputs))
    value = value * value
    present = [leaf for leaf in leaves if leaf is not None]
    for step in range(1, order):
        found = firelu.grad(value, present, create_graph=True)
        value = total(dot(gradient, 10 * step + index) for index, gradient in enumerate(found))
    return value, present


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize(("operator", "shapes", "args"), CASES, ids=[case[0] for case in CASES])
def test_central_differences(operator, shapes, args, order):
    arrays = [None if shape is None else numbers(shape, 7 + index) for index, shape in enumerate(shapes)]
    if operator == "FusedLeakyRelu" and arrays[1] is not None:
        arrays[1] *= 0.1  # Smaller than any x, so that sums stay away from the corner as well.
    value, leaves = differentiated(operator, arrays, args, order)
    found = firelu.grad(value, leaves)
    rng = np.random.default_rng(order)
    for place, gradient in zip([i for i, a in enumerate(arrays) if a is not None], found, strict=True):
        for element in rng.choice(arrays[place].size, min(6, arrays[place].size), replace=False):

            def at(step, place=place, element=element):
                moved = [None if array is None else array.copy() for array in arrays]
                moved[place].flat[element] += step
                return differentiated(operator, moved, args, order)[0].item()

            # Five points: what oscillates has large derivatives of the third order, which two points would show.
            numeric = (8 * (at(STEP) - at(-STEP)) - (at(2 * STEP) - at(-2 * STEP))) / (12 * STEP)
            analytic = gradient.numpy().flat[element]
            assert abs(analytic - numeric) <= 1e-6 * (1 + abs(numeric))


def test_every_operator_has_a_case():
    built_in = {name for name in firelu.operators() if not name.startswith(("Test", "Doc"))}
    assert {case[0] for case in CASES} == built_in


def test_the_families_close_on_themselves():
    op = firelu.create_operator

    def targets(name, inputs, outputs):
        definitions, _ = firelu.get_gradient_defs(op(name, inputs, outputs), [f"d{o}" for o in outputs])
        return sorted(definition.operator for definition in definitions)

    assert targets("LeakyReluGradient", ["Y", "dY"], ["dX"]) == ["LeakyReluGradient"]
    assert targets("FusedLeakyReluGradient", ["Y", "dY", "B"], ["dX", "dB"]) == ["FusedLeakyReluGradient"]
    family = {"UpFirDn2d", "UpFirDn2dGradient", "UpFirDn2dKernelGradient"}
    assert set(targets("UpFirDn2d", ["X", "K"], ["Y"])) == family - {"UpFirDn2d"}
    assert set(targets("UpFirDn2dGradient", ["dY", "K", "X"], ["dX"])) == family - {"UpFirDn2dGradient"}
    assert set(targets("UpFirDn2dKernelGradient", ["X", "dY", "K"], ["dK"])) == family - {"UpFirDn2dKernelGradient"}


@pytest.mark.parametrize(
    "first",
    [
        ("LeakyRelu", ["X"], {"alpha": 0.3}),
        ("FusedLeakyRelu", ["X", "B"], {"axis": 0}),
        ("Add", ["X", "W"], {}),
        ("Sub", ["W", "X"], {}),
        ("Sum", ["X", "W"], {}),
        ("LeakyReluGradient", ["W", "X"], {"alpha": 0.3}),
    ],
    ids=lambda case: case[0],
)
def test_in_place_forms(first):
    op, (name, inputs, args) = firelu.create_operator, first
    net = [op(name, inputs, ["X"], **args), op("Mul", ["X", "X"], ["Y"])]
    backward = firelu.add_gradient_operators(net, {"Y": "dY"}, inputs=["X"])
    second = firelu.add_gradient_operators(net + backward, {"X_grad": "V"}, inputs=["X"])
    blobs = {"W": numbers(4, 1), "dY": numbers(4, 2), "V": numbers(4, 3), "B": 0.1 * numbers(4, 4)}

    def run(x):
        ws = firelu.Workspace()
        for blob, value in {**blobs, "X": x}.items():
            ws.feed(blob, value)
        ws.run(net + backward + second)
        return ws

    x = numbers(4, 5)
    ws = run(x)
    once, twice = ws.fetch("X_grad"), ws.fetch(second.gradients["X"])
    for element in range(4):
        high, low = run(x + STEP * np.eye(4)[element]), run(x - STEP * np.eye(4)[element])
        for analytic, blob, weight in ((once, "Y", "dY"), (twice, "X_grad", "V")):
            numeric = (high.fetch(blob) - low.fetch(blob)) @ blobs[weight] / (2 * STEP)
            assert abs(analytic[element] - numeric) <= 1e-6 * (1 + abs(numeric))


def test_strided_memory_gives_the_gradients_of_dense_memory():
    wide = numbers((3, 8, 8, 2), 1)
    strided = firelu.from_dlpack(wide.transpose(0, 3, 1, 2)[:, :, ::2])  # Channels last, every other row.
    assert not strided.numpy().flags.c_contiguous
    dense = firelu.Tensor(np.ascontiguousarray(strided.numpy()))
    kernel, bias, weights = numbers((3, 3), 2), numbers(2, 3), numbers((3, 2, 2, 6), 4)
    gradients = []
    for x in (strided, dense):
        x.requires_grad = True
        k, b = (firelu.Tensor(values, requires_grad=True) for values in (kernel, bias))
        out = firelu.nn.functional.fused_leaky_relu(firelu.nn.functional.upfirdn2d(x, k), b)
        first = firelu.grad(out, [x, k, b], firelu.Tensor(weights), create_graph=True)
        gradients.append([*first, *firelu.grad(total((g * g).sum() for g in first), [x, k, b])])
    for one, other in zip(*gradients, strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-12, atol=1e-12)
