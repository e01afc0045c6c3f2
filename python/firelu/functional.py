"""The operators as functions on numpy arrays (and on `firelu.Tensor`)."""

from __future__ import annotations

from typing import Any

from ._firelu import BoundOperator

_LEAKY_RELU = BoundOperator("LeakyRelu")
_LEAKY_RELU_GRADIENT = BoundOperator("LeakyReluGradient")


def leaky_relu(x: Any, negative_slope: float = 0.01, *, out: Any = None) -> Any:
    """Leaky ReLU: ``x`` where ``x > 0``, else ``negative_slope * x``.

    Args:
        x: array of any shape, float16, bfloat16, float32 or float64, with any strides.
        negative_slope: the slope where x is not positive.
        out: an array of x's shape and dtype to write to; may be x itself.

    Returns:
        ``out``, or a new array of x's shape and dtype in x's memory order.

    >>> import numpy, firelu
    >>> firelu.leaky_relu(numpy.array([-1.0, 0.0, 2.0]), 0.1)
    array([-0.1,  0. ,  2. ])
    """
    return _LEAKY_RELU((x,), (negative_slope,), out)


def leaky_relu_gradient(y: Any, dy: Any, negative_slope: float = 0.01, *, out: Any = None) -> Any:
    """Give the gradient of `leaky_relu`: ``dy`` where ``y > 0``, else ``negative_slope * dy``.

    Args:
        y: the forward output, or any array with the sign of the forward input (with a negative slope
            the output has lost that sign: pass the input).
        dy: the gradient of the output, of y's shape and dtype.
        negative_slope: the slope that the forward used; it is also the derivative at 0.
        out: an array of y's shape and dtype to write to; may be dy itself.

    Returns:
        ``out``, or a new array of y's shape and dtype.

    >>> import numpy, firelu
    >>> firelu.leaky_relu_gradient(numpy.array([-0.1, 0.0, 2.0]), numpy.ones(3), 0.1)
    array([0.1, 0.1, 1. ])
    """
    return _LEAKY_RELU_GRADIENT((y, dy), (negative_slope,), out)
