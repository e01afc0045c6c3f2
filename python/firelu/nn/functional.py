"""The operators on `firelu.Tensor`, recorded where a tensor requires a gradient.

Arrays serve as well, and give arrays. Gradients are those of the registry's definitions, to any order. Filters,
filtered activations and the functions that give a gradient are those of `firelu` itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from .. import activations as _activations
from .. import functional as _functional
from ..activations import bias_act_gradient, snake_gradient
from ..filtered import filtered_act, filtered_snake
from ..functional import (
    fused_leaky_relu_gradient,
    leaky_relu_gradient,
    upfirdn2d_gradient,
    upfirdn2d_kernel_gradient,
)
from ..kernels import downsample2d, filter2d, upsample2d
from ..signals import upfirdn1d
from ..typing import Array, ArrayLike

__all__ = [
    "bias_act",
    "bias_act_gradient",
    "downsample2d",
    "filter2d",
    "filtered_act",
    "filtered_snake",
    "fused_leaky_relu",
    "fused_leaky_relu_gradient",
    "leaky_relu",
    "leaky_relu_gradient",
    "snake",
    "snake_gradient",
    "upfirdn1d",
    "upfirdn2d",
    "upfirdn2d_gradient",
    "upfirdn2d_kernel_gradient",
    "upsample2d",
]


def bias_act(
    input_: Array,
    bias: ArrayLike | None = None,
    act: str = "linear",
    *,
    alpha: float | None = None,
    gain: float | None = None,
    clamp: float | None = None,
    axis: int = 1,
) -> Array:
    """Add a bias, apply an activation and a gain, and clip: ``clip(gain * f(input_ + bias), -clamp, clamp)``.

    Args:
        input_: a tensor of any shape with the axis of the channels.
        bias: (C,), or None.
        act: linear, relu, lrelu, tanh, sigmoid, elu, selu, softplus or swish.
        alpha: the slope of lrelu; None is 0.2.
        gain: what the activation is multiplied by; None is sqrt 2 for relu, lrelu and swish, else 1.
        clamp: how large the result may be; None means any size.
        axis: the axis of the channels.

    Returns:
        A tensor of the input's shape and dtype.

    >>> import firelu
    >>> bias_act(firelu.Tensor([[-2.0, 1.0]]), firelu.Tensor([1.0, 1.0]), "lrelu", alpha=0.5, gain=2.0)
    Tensor([[-1.,  4.]])
    """
    return _activations.bias_act(input_, bias, act, alpha=alpha, gain=gain, clamp=clamp, axis=axis)


def snake(
    input_: Array, alpha: ArrayLike, beta: ArrayLike | None = None, *, logscale: bool = False, axis: int = 1
) -> Array:
    """Snake: ``input_ + sin²(alpha input_) / (beta + 1e-9)``, with a frequency and a divisor for each channel.

    Args:
        input_: a tensor of any shape with the axis of the channels.
        alpha: (C,), the frequencies.
        beta: (C,), the divisors; alpha if None.
        logscale: whether exp(alpha) and exp(beta) are the frequencies and divisors.
        axis: the axis of the channels.

    Returns:
        A tensor of the input's shape and dtype.

    >>> import firelu
    >>> snake(firelu.Tensor([[0.0, 1.0]]), firelu.Tensor([1.0, 2.0]))
    Tensor([[0.       , 1.4134109]])
    """
    return _activations.snake(input_, alpha, beta, logscale=logscale, axis=axis)


def leaky_relu(input_: Array, negative_slope: float = 0.01) -> Array:
    """Leaky ReLU: ``input_`` where it is positive, else ``negative_slope * input_``.

    Args:
        input_: a tensor of any shape.
        negative_slope: the slope where the input is not positive, and the derivative at 0.

    Returns:
        A tensor of the input's shape and dtype.

    >>> import firelu
    >>> t = firelu.Tensor([-1.0, 0.0, 2.0], requires_grad=True)
    >>> out = leaky_relu(t, negative_slope=0.1)
    >>> out.backward()
    >>> t.grad
    Tensor([0.1, 0.1, 1. ])
    """
    return _functional.leaky_relu(input_, negative_slope)


def fused_leaky_relu(
    input_: Array,
    bias: ArrayLike | None = None,
    negative_slope: float = 0.2,
    scale: float = 2**0.5,
    *,
    axis: int = 1,
) -> Array:
    """Add a bias, apply leaky ReLU and scale: ``scale * leaky_relu(input_ + bias)``.

    Args:
        input_: a tensor of any shape with the axis of the channels.
        bias: (C,), or None.
        negative_slope: the slope where the sum is not positive.
        scale: what the result is multiplied by.
        axis: the axis of the channels.

    Returns:
        A tensor of the input's shape and dtype.

    >>> import firelu
    >>> fused_leaky_relu(firelu.Tensor([[-2.0, 1.0]]), firelu.Tensor([1.0, 1.0]), 0.5, 2.0)
    Tensor([[-1.,  4.]])
    """
    return _functional.fused_leaky_relu(input_, bias, negative_slope, scale, axis=axis)


def upfirdn2d(
    input_: Array,
    kernel: ArrayLike,
    up: int | tuple[int, int] = 1,
    down: int | tuple[int, int] = 1,
    pad: int | Sequence[int] = (0, 0),
    *,
    flip_kernel: bool = False,
    gain: float = 1.0,
    border: str = "constant",
) -> Array:
    """Upsample, pad, filter, downsample; see `firelu.upfirdn2d`.

    Args:
        input_: (..., H, W).
        kernel: (KH, KW), or (K,) for the outer product with itself; gets a gradient too.
        up: how many samples each one becomes; an int or (x, y).
        down: which samples are kept; an int or (x, y).
        pad: an int, (before, after) for both axes, or (x0, x1, y0, y1); negative crops.
        flip_kernel: correlate instead of convolving.
        gain: what the result is multiplied by.
        border: what padding is filled with: "constant" (zeros), "edge", "reflect", "symmetric" or "wrap".

    Returns:
        (..., OH, OW) of the input's dtype, ``OH = (H * up + pad0 + pad1 - KH) // down + 1``.

    >>> import firelu
    >>> upfirdn2d(firelu.Tensor([[1.0, 2.0]]), firelu.Tensor([[1.0, 1.0]]), pad=(1, 0, 0, 0))
    Tensor([[1., 3.]])
    """
    return _functional.upfirdn2d(input_, kernel, up, down, pad, flip_kernel=flip_kernel, gain=gain, border=border)
