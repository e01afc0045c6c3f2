"""An operator that a user registers in Python is a torch operator too, with its gradient."""

from __future__ import annotations

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
