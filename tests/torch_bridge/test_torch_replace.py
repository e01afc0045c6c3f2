"""An operator that is replaced in the registry is replaced in torch, and makers need not think of absent gradients."""

from __future__ import annotations

import firelu
import firelu.torch
import numpy as np
import torch


def times(name, factor, **options):
    def maker(op, output_gradients):
        return [firelu.create_operator(name, output_gradients, ["dx"])], ["dx"]

    firelu.register_operator(name, lambda x: factor * x, ["X"], ["Y"], gradient=maker, **options)


def test_torch_follows_the_registry():
    times("TestTorchReplaced", 2)
    first = firelu.torch.register("TestTorchReplaced")
    x = torch.ones(2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.grad(first(x).sum(), x)[0].tolist() == [2, 2]
    times("TestTorchReplaced", 5, replace=True)
    second = firelu.torch.register("TestTorchReplaced")
    assert second(x).tolist() == [5, 5]
    assert torch.autograd.grad(second(x).sum(), x)[0].tolist() == [5, 5]
    assert torch.ops.firelu.test_torch_replaced(x).tolist() == [5, 5]
    assert firelu.torch.register("TestTorchReplaced") is second
    # Others stay as they were.
    assert firelu.torch.leaky_relu(-x, 0.5).tolist() == [-0.5, -0.5]


def test_a_plain_maker_passes_gradcheck_with_absent_gradients():
    """As in the documentation: a maker that reads its output gradient without asking whether there is one."""

    def softplus_gradient(definition, output_gradients):
        (x,), (dy,) = definition.inputs, output_gradients
        steps = [
            firelu.create_operator("TestTorchLogistic", [x], ["slope"]),
            firelu.create_operator("Mul", [dy, "slope"], ["dx"]),
        ]
        return steps, ["dx"]

    firelu.register_operator("TestTorchLogistic", lambda x: 1 / (1 + np.exp(-x)), ["X"], ["Y"])
    firelu.register_operator(
        "TestTorchSoftplus", lambda x: np.logaddexp(0, x), ["X"], ["Y"], gradient=softplus_gradient
    )
    softplus = firelu.torch.register("TestTorchSoftplus")
    x = torch.randn(3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(softplus, (x,), check_undefined_grad=True)
