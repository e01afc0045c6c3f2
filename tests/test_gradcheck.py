"""`firelu.gradcheck` passes right gradients and names what is wrong with others."""

from __future__ import annotations

import math

import firelu
import numpy as np
import pytest

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_right_gradients_pass(order):
    kernel = firelu.make_kernel([1, 3, 3, 1])
    assert firelu.gradcheck(lambda x: firelu.upfirdn2d(x, kernel, up=2, pad=(2, 1)), RNG.random((3, 4)), order=order)
    assert firelu.gradcheck("Mul", [1.0, 2.0], 3.0, order=order)
    assert firelu.gradcheck(lambda x, y: (x * y, x.sum()), [[0.5, 2.0]], [[3.0], [4.0]], order=order)


def factor(name, value):
    """Register ``value * X`` whose gradient says 3 * dY, and whose second derivative is right."""

    def maker(op, output_gradients):
        dx = op.inputs[0] + "_grad"
        return [firelu.create_operator("Sum", output_gradients * 3, [dx])], [dx]

    firelu.register_operator(name, lambda x: value * x, ["X"], ["Y"], gradient=maker)


def test_a_wrong_gradient_is_named_with_its_place_and_both_values():
    factor("TestGradcheckTwo", 2)
    with pytest.raises(firelu.GradcheckError) as failed:
        firelu.gradcheck("TestGradcheckTwo", [[0.0, 0.5]])
    assert str(failed.value) == (
        "gradcheck: order 1: input 0[0, 0] = 0: the gradient of output 0[0, 0] is 3, differences give 2"
    )
    assert isinstance(failed.value, AssertionError)
    factor("TestGradcheckThree", 3)
    assert firelu.gradcheck("TestGradcheckThree", [[0.0, 0.5]], order=2)


def test_a_wrong_second_derivative_passes_the_first_order_alone():
    def square(op, output_gradients):
        x, dx = op.inputs[0], op.inputs[0] + "_grad"
        steps = [
            firelu.create_operator("TestGradcheckTwice", [x], ["twice"]),
            firelu.create_operator("Mul", ["twice", output_gradients[0]], [dx]),
        ]
        return steps, [dx]

    firelu.register_operator("TestGradcheckTwice", lambda x: 2 * x, ["X"], ["Y"], gradient=lambda op, dy: ([], dy))
    firelu.register_operator("TestGradcheckSquare", lambda x: x * x, ["X"], ["Y"], gradient=square)
    assert firelu.gradcheck("TestGradcheckSquare", [1.0, -2.0])
    with pytest.raises(firelu.GradcheckError, match=r"order 2: input 0\[0\] = 1: .*derivative 1 0\[0\] is .*, diff"):
        firelu.gradcheck("TestGradcheckSquare", [1.0, -2.0], order=2)


def test_nan_is_a_difference():
    firelu.register_operator(
        "TestGradcheckNan", lambda x: x * math.nan, ["X"], ["Y"], gradient=lambda op, output_gradients: ([], [None])
    )
    with pytest.raises(firelu.FireluError):
        firelu.gradcheck("TestGradcheckNan", [1.0])


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: x.numpy(), "gave ndarray"),
        (lambda x: firelu.Tensor(x.numpy()), "without a gradient"),
        (lambda x: x * RNG.random(), "two results"),
    ],
)
def test_functions_that_cannot_be_checked(function, message):
    with pytest.raises(firelu.ArgumentError, match=message):
        firelu.gradcheck(function, [1.0])


def test_arguments():
    with pytest.raises(firelu.ArgumentError, match=r"order: got 0"):
        firelu.gradcheck("LeakyRelu", [1.0], order=0)
    with pytest.raises(firelu.ArgumentError, match="inputs: got none"):
        firelu.gradcheck("LeakyRelu")
    with pytest.raises(firelu.UnknownOperatorError):
        firelu.gradcheck("LeakyRelou", [1.0])
    array = np.array([1.0, 2.0])
    firelu.gradcheck("LeakyRelu", array)
    np.testing.assert_array_equal(array, [1.0, 2.0])
