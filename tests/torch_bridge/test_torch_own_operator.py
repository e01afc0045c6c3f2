"""An operator that a user registers in Python is a torch operator too, with its gradient."""

from __future__ import annotations

import subprocess
import sys

import firelu
import firelu.torch
import numpy as np
import pytest
import torch


def make_square_gradient(op, output_gradients):
    x, dy, dx = op.inputs[0], output_gradients[0], op.inputs[0] + "_grad"
    if dy is None:  # a gradient of zero
        return [], [None]
    steps = [
        firelu.create_operator("Mul", [x, dy], ["half"]),
        firelu.create_operator("Sum", ["half", "half"], [dx]),
    ]
    return steps, [dx]


@pytest.fixture(scope="module")
def square():
    firelu.register_operator("TestTorchSquare", lambda x: x * x, ["X"], ["Y"], gradient=make_square_gradient)
    return firelu.torch.register("TestTorchSquare")


def test_values_and_derivatives(square):
    assert square is torch.ops.firelu.test_torch_square.default
    x = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(square, x)
    assert torch.autograd.gradgradcheck(square, x)
    np.testing.assert_array_equal(square(x).detach(), x.detach() ** 2)


def test_an_operator_without_a_gradient_says_so_when_asked():
    firelu.register_operator("TestTorchFlat", lambda x: np.sign(x), ["X"], ["Y"])
    flat = firelu.torch.register("TestTorchFlat")
    y = flat(torch.randn(3, requires_grad=True))
    with pytest.raises(firelu.NoGradientError, match="TestTorchFlat"):
        y.sum().backward()


def test_compiled(square):
    torch._dynamo.reset()
    compiled = torch.compile(square, fullgraph=True, backend="aot_eager")
    for shape in ((2, 3), (4, 5)):
        x = torch.randn(shape)
        assert torch.equal(compiled(x), x * x)


def test_a_gradient_that_is_registered_later_is_found():
    firelu.register_operator("TestTorchLater", lambda x: x * x, ["X"], ["Y"])
    later = firelu.torch.register("TestTorchLater")
    x = torch.tensor([3.0], requires_grad=True)
    early = later(x)
    firelu.register_gradient("TestTorchLater", make_square_gradient)
    assert torch.autograd.grad(later(x), x)[0].tolist() == [6.0]
    with pytest.raises(firelu.NoGradientError, match=r"TestTorchLater: no gradient: .* after the call"):
        early.backward()


def registered(name, gradient):
    firelu.register_operator(name, lambda x: x * 2, ["X"], ["Y"], gradient=gradient)
    return firelu.torch.register(name)


def test_a_gradient_of_the_wrong_shape_is_refused():
    """torch alone would sum a gradient that is larger, and say little of one that is smaller."""

    def smaller(op, gradients):
        return [firelu.create_operator("ReduceSum", [gradients[0]], ["g"])], ["g"]

    def larger(op, gradients):
        step = firelu.create_operator("TestTorchStack", [gradients[0]], ["g"])
        return [step], ["g"]

    firelu.register_operator(
        "TestTorchStack",
        lambda x: np.stack([x, x]),
        ["X"],
        ["Y"],
        infer=lambda types: [((2, *types[0][0]), types[0][1])],
    )
    for name, maker, shape in [("TestTorchSmaller", smaller, r"\(\)"), ("TestTorchLarger", larger, r"\(2, 3\)")]:
        operator = registered(name, maker)
        x = torch.randn(3, requires_grad=True)
        y = operator(x)
        with pytest.raises(firelu.ShapeError, match=rf"{name}: the gradient of input 0: got {shape}, takes \(3,\)"):
            y.sum().backward()


def test_a_maker_that_names_an_unknown_operator_is_refused_as_in_nets():
    text = firelu.create_operator("LeakyRelu", ["A"], ["B"]).to_json().replace("LeakyRelu", "LeakyRelo")

    def maker(op, gradients):
        return [firelu.OperatorDef.from_json(text.replace('"A"', f'"{gradients[0]}"'))], ["B"]

    operator = registered("TestTorchUnknownOperator", maker)
    with pytest.raises(firelu.UnknownOperatorError, match="LeakyRelo"):
        operator(torch.randn(3, requires_grad=True)).sum().backward()
    with pytest.raises(firelu.UnknownOperatorError, match="LeakyRelo"):
        torch.func.jvp(operator, (torch.ones(3),), (torch.ones(3),))


def test_a_maker_that_names_an_unknown_blob_is_refused_as_in_nets():
    def reads(op, gradients):
        return [firelu.create_operator("Mul", ["nosuch", gradients[0]], ["g"])], ["g"]

    def promises(op, gradients):
        return [], ["nosuch"]

    for name, maker in [("TestTorchUnknownInput", reads), ("TestTorchUnknownGradient", promises)]:
        operator = registered(name, maker)
        with pytest.raises(firelu.ArgumentError, match=f"{name}: .*nosuch"):
            operator(torch.randn(3, requires_grad=True)).sum().backward()


@pytest.mark.parametrize(
    ("name", "inputs", "args"),
    [
        ("TestTorch.Twin", ["X"], {}),
        ("TestTorchBlank", ["a b"], {}),
        ("TestTorchWord", ["return"], {}),
        ("TestTorchTwice", ["X", "x"], {}),
        ("TestTorchClash", ["X"], {"x": 1.0}),
        ("TestTorchAccent", ["X"], {"é": 1.0}),
        ("TestTorchNan", ["X"], {"a": float("nan")}),
        ("TestTorchInfinite", ["X"], {"a": float("inf")}),
        ("TestTorchSubnormal", ["X"], {"a": 1e-320}),
        ("TestTorchList", ["X"], {"a": [1.0, -float("inf")]}),
        ("TestTorchNewline", ["X"], {"a": "one\ntwo"}),
        ("TestTorchZero", ["X"], {"a": "one\0two"}),
    ],
)
def test_what_torch_cannot_spell_is_refused_by_name(name, inputs, args):
    if name == "TestTorch.Twin":
        firelu.register_operator("TestTorch_Twin", lambda x: x, ["X"], ["Y"])
        firelu.torch.register("TestTorch_Twin")
    try:
        firelu.register_operator(name, lambda *x, **named: x[0], inputs, ["Y"], args=args)
    except firelu.ArgumentError:
        return  # The registry itself may refuse it first.
    with pytest.raises(firelu.ArgumentError, match=f"{name}: .*got .*takes"):
        firelu.torch.register(name)


def test_names_that_torch_has_for_something_else_are_refused():
    """In a process of its own, since these names do not say that they are a test's."""
    code = """
import firelu, firelu.torch
for name in ("LeakyRELU", "IF", "Name"):
    firelu.register_operator(name, lambda x: x, ["X"], ["Y"])
    try:
        firelu.torch.register(name)
    except firelu.ArgumentError as error:
        assert str(error).startswith(f"{name}: name: got "), error
    else:
        raise AssertionError(name)
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=250)


def test_what_torch_can_spell_is_taken():
    text = 'it\'s "quoted", a \\ and a\ttab'
    args = {"lambda": 0.5, "text": text, "small": 2.3e-308, "list": [0.25, -1.0], "empty": "", "zero": -0.0}

    def kernel(x, **named):
        assert named == args
        return x

    firelu.register_operator("TestTorchSpelling", kernel, ["X"], ["Y"], args=args)
    operator = firelu.torch.register("TestTorchSpelling")
    assert operator(torch.ones(2)).tolist() == [1, 1]
    assert operator(torch.ones(2), *args.values()).tolist() == [1, 1]


def test_an_unknown_operator_is_refused():
    with pytest.raises(firelu.UnknownOperatorError, match="NoSuchThing"):
        firelu.torch.register("NoSuchThing")
