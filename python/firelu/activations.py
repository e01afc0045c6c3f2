"""Activations as functions on numpy arrays (and on `firelu.Tensor`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._firelu import BoundOperator
from .errors import ArgumentError
from .typing import Array, ArrayLike

_BIAS_ACT = BoundOperator("BiasAct").run
_BIAS_ACT_GRADIENT = BoundOperator("BiasActGradient").run
_SNAKE = BoundOperator("Snake").run
_SNAKE_GRADIENT = BoundOperator("SnakeGradient").run

#: The default of alpha.
_ALPHA = 0.2


def bias_act(
    x: Array,
    bias: ArrayLike | None = None,
    act: str = "linear",
    *,
    alpha: float | None = None,
    gain: float | None = None,
    clamp: float | None = None,
    axis: int = 1,
    out: Array | None = None,
) -> Array:
    """Bias, activation, gain and clamp in one pass: ``clip(gain * f(x + bias), -clamp, clamp)``.

    Args:
        x: array of any shape, such as (N, C, H, W) or (N, C).
        bias: (C,), one number for each index of ``axis``; x's dtype, or float32 with a half x. None adds nothing.
        act: linear, relu, lrelu, tanh, sigmoid, elu, selu, softplus or swish.
        alpha: the slope of lrelu where x + bias is not positive, 0.2 if None; no other activation reads it.
        gain: what the activation is multiplied by; None is sqrt 2 for relu, lrelu and swish, else 1.
        clamp: how large the result may be, at least 0; None means any size.
        axis: the axis of the channels.
        out: an array of x's shape and dtype to write to; may be x itself.

    Returns:
        An array of x's shape and dtype in x's memory order.

    >>> import numpy, firelu
    >>> firelu.bias_act(numpy.array([[-3.0, 1.0]]), numpy.array([1.0, 2.0]), "lrelu", alpha=0.5, gain=2.0)
    array([[-2.,  6.]])
    """
    return _BIAS_ACT((x, bias), (act, _ALPHA if alpha is None else alpha, gain, clamp, axis), out)


def bias_act_gradient(
    x: Array,
    dy: Array,
    bias: ArrayLike | None = None,
    act: str = "linear",
    *,
    alpha: float | None = None,
    gain: float | None = None,
    clamp: float | None = None,
    axis: int = 1,
    out: tuple[Array | None, Array | None] | None = None,
) -> tuple[Array, Array]:
    """Return both gradients of `bias_act` in one pass.

    The derivative at 0 is that from the left for relu (0) and lrelu (alpha) and that from the right for elu and selu.
    Where the clamp cut a result, nothing passes; where the result has just that size, it does.

    Args:
        x: the forward's input.
        dy: the gradient of the output, of x's shape and dtype.
        bias: the forward's bias.
        act: the activation.
        alpha: the forward's alpha.
        gain: the forward's gain.
        clamp: the forward's clamp.
        axis: the axis of the channels.
        out: a pair to write to, None where a new array is wanted; the first may be dy itself.

    Returns:
        ``(dx, dbias)``: x's shape, and (C,), the sum of dx over all axes but ``axis``.

    >>> import numpy, firelu
    >>> x, dy = numpy.array([[-3.0, 1.0]]), numpy.ones((1, 2))
    >>> firelu.bias_act_gradient(x, dy, None, "lrelu", alpha=0.5, gain=2.0)
    (array([[1., 2.]]), array([1., 2.]))
    """
    arguments = (act, _ALPHA if alpha is None else alpha, gain, clamp, axis)
    result: Any = _BIAS_ACT_GRADIENT((x, dy, bias), arguments, out)
    if not isinstance(result, tuple):
        raise ArgumentError(f"BiasActGradient: axis: got {axis}, takes an axis of {np.shape(x)}")
    return result


def snake(
    x: Array,
    alpha: ArrayLike,
    beta: ArrayLike | None = None,
    *,
    logscale: bool = False,
    axis: int = 1,
    out: Array | None = None,
) -> Array:
    """Snake: ``x + sin²(alpha x) / (beta + 1e-9)``, with a frequency and a divisor for each channel.

    Args:
        x: array of any shape with the axis of the channels, such as (B, C, T).
        alpha: (C,), the frequencies; x's dtype, or float32 with a half x.
        beta: (C,), the divisors; alpha if None.
        logscale: whether exp(alpha) and exp(beta) are the frequencies and divisors.
        axis: the axis of the channels.
        out: an array of x's shape and dtype to write to; may be x itself.

    Returns:
        An array of x's shape and dtype in x's memory order.

    >>> import numpy, firelu
    >>> firelu.snake(numpy.array([[0.0, 1.0]]), numpy.array([1.0, 2.0])).round(4)
    array([[0.    , 1.4134]])
    """
    return _SNAKE((x, alpha, beta), (logscale, axis), out)


def snake_gradient(
    x: Array,
    dy: Array,
    alpha: ArrayLike,
    beta: ArrayLike | None = None,
    *,
    logscale: bool = False,
    axis: int = 1,
    out: Array | None = None,
) -> tuple[Array, Array, Array | None]:
    """Return the gradients of `snake` with respect to x, alpha and beta, in one pass.

    Args:
        x: the forward's input.
        dy: the gradient of the output, of x's shape and dtype.
        alpha: (C,), the frequencies.
        beta: (C,), the divisors; alpha if None.
        logscale: whether exp(alpha) and exp(beta) are the frequencies and divisors.
        axis: the axis of the channels.
        out: an array of x's shape and dtype to write the gradient of x to; may be dy itself.

    Returns:
        ``(dx, dalpha, dbeta)``: x's shape, (C,) and (C,); dbeta is None where beta is.

    >>> import numpy, firelu
    >>> firelu.snake_gradient(numpy.zeros((1, 2)), numpy.ones((1, 2)), numpy.ones(2))
    (array([[1., 1.]]), array([0., 0.]), None)
    """
    targets = None if out is None else (out, None, None)
    gradients: Any = _SNAKE_GRADIENT((x, dy, alpha, beta), (logscale, axis), targets)
    dx, dalpha, dbeta = gradients
    return dx, dalpha, None if beta is None else dbeta
