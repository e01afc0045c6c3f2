"""The plugins of the StyleGAN3 family: three modules, whose functions take all arguments by position.

Those projects call them for tensors on a CUDA device; they compute on any. An absent tensor is an empty one.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .. import torch as firelu_torch
from ..errors import ArgumentError

#: By their numbers, from 1 on.
ACTIVATIONS = ("linear", "relu", "lrelu", "tanh", "sigmoid", "elu", "selu", "softplus", "swish")
_SELU_SCALE, _SELU_ALPHA = 1.0507009873554805, 1.6732632423543773
#: What `filtered_lrelu_act_` writes for one sample: the slope that it was given, and whether it was clipped.
_NEGATIVE, _CLIPPED = 1, 2


def bias_act(
    x: Tensor,
    b: Tensor,
    xref: Tensor,
    yref: Tensor,
    dy: Tensor,
    grad: int,
    dim: int,
    act: int,
    alpha: float,
    gain: float,
    clamp: float,
) -> Tensor:
    """Bias, activation, gain and clamp, or a derivative of it.

    Args:
        x: the input; for a derivative, the gradient that is passed on.
        b: one number for each index of ``dim``.
        xref: the forward input, where a derivative reads it.
        yref: the forward output, where a derivative reads it.
        dy: the gradient that the first derivative passed on, for the second.
        grad: 0 for the forward, 1 for the first derivative, 2 for the second.
        dim: the axis of the bias.
        act: 1 linear, 2 relu, 3 lrelu, 4 tanh, 5 sigmoid, 6 elu, 7 selu, 8 softplus, 9 swish.
        alpha: the slope of lrelu.
        gain: what the result is multiplied by.
        clamp: the greatest magnitude of a result; negative for none.

    Returns:
        A tensor of x's shape and dtype.
    """
    if not 1 <= act <= len(ACTIVATIONS):
        raise ArgumentError(f"bias_act: act: got {act}, takes 1 to {len(ACTIVATIONS)}")
    name, limit = ACTIVATIONS[act - 1], None if clamp < 0 else float(clamp)
    bias = b if b.numel() else None
    if grad == 0:
        return firelu_torch.bias_act(x, bias, name, alpha=alpha, gain=gain, clamp=limit, axis=dim)
    if grad not in (1, 2):
        raise ArgumentError(f"bias_act: grad: got {grad}, takes 0, 1 or 2")
    # What is missing counts as zeros, and linear reads nothing. An output that was not kept is computed again.
    y = yref if yref.numel() else torch.zeros_like(x)
    if xref.numel() and not yref.numel():
        y = firelu_torch.bias_act(xref, bias, name, alpha=alpha, gain=gain, axis=dim)
    y = y.to(torch.promote_types(x.dtype, torch.float32))
    t = (xref if xref.numel() else torch.zeros_like(x)).to(y.dtype)
    if bias is not None:
        t = t + bias.to(y.dtype).reshape([-1 if axis == dim else 1 for axis in range(t.dim())])
    slope = _derivative(name, grad, t, y / gain, alpha) * gain
    if limit is not None:
        # A clipped output has the limit's value: what lies on it cannot be told from what lay beyond.
        slope = torch.where(y.abs() < limit, slope, 0.0)
    passed = x.to(y.dtype) * slope
    return (passed * dy if grad == 2 and dy.numel() else passed).to(x.dtype)


def _derivative(name: str, order: int, t: Tensor, y: Tensor, alpha: float) -> Tensor:
    """Give f' or f'' by the input (swish) or the output without its gain (all others)."""
    first = order == 1
    if name == "swish":
        s = torch.sigmoid(t)
        return s * (1 + t * (1 - s)) if first else s * (1 - s) * (2 + t * (1 - 2 * s))
    if name == "tanh":
        return (1 - y * y) * (1.0 if first else -2 * y)
    if name == "sigmoid":
        return y * (1 - y) * (1.0 if first else 1 - 2 * y)
    if name == "softplus":
        rest = torch.exp(-y)
        return 1 - rest if first else rest * (1 - rest)
    if name == "elu":
        return torch.where(y >= 0, 1.0 if first else 0.0, y + 1)
    if name == "selu":
        return torch.where(y >= 0, _SELU_SCALE if first else 0.0, y + _SELU_SCALE * _SELU_ALPHA)
    if not first:
        return torch.zeros_like(y)
    slopes = {"linear": 1.0, "relu": 0.0, "lrelu": alpha}
    return torch.where(y > 0, torch.ones_like(y), slopes[name])


def upfirdn2d(
    x: Tensor,
    f: Tensor,
    upx: int,
    upy: int,
    downx: int,
    downy: int,
    padx0: int,
    padx1: int,
    pady0: int,
    pady1: int,
    flip: bool,
    gain: float,
) -> Tensor:
    """Upsample, filter and downsample (N, C, H, W) with a two-dimensional filter."""
    paddings = (padx0, padx1, pady0, pady1)
    return firelu_torch.upfirdn2d(x, f, (upx, upy), (downx, downy), paddings, flip_kernel=bool(flip), gain=gain)


def filtered_lrelu(
    x: Tensor,
    fu: Tensor,
    fd: Tensor,
    b: Tensor,
    si: Tensor,
    up: int,
    down: int,
    px0: int,
    px1: int,
    py0: int,
    py1: int,
    sx: int,
    sy: int,
    gain: float,
    slope: float,
    clamp: float,
    flip: bool,
    write_signs: bool,
) -> tuple[Tensor, Tensor, int]:
    """Answer -1, "take the generic path": filters and `filtered_lrelu_act_` one after the other, in that order."""
    empty = x.new_empty(0)
    return empty, empty, -1


def filtered_lrelu_act_(
    x: Tensor, si: Tensor, sx: int, sy: int, gain: float, slope: float, clamp: float, write_signs: bool
) -> Tensor:
    """Apply gain, leaky ReLU and clamp in place, or multiply a gradient by their derivative.

    Args:
        x: (N, C, H, W); changed.
        si: what an earlier call returned, if x is a gradient; else empty.
        sx: where x begins in it, along the rows.
        sy: where x begins in it, along the columns.
        gain: what the result is multiplied by.
        slope: the slope of the leaky ReLU.
        clamp: the greatest magnitude of a result; negative or infinite for none.
        write_signs: whether the signs are wanted.

    Returns:
        The signs, a byte for each sample; an empty tensor where they are not wanted.
    """
    if si.numel():
        _multiply_by_slopes(x, si, sx, sy, gain, slope)
        return si.new_empty(0)
    negative = ~(x > 0)
    x.copy_(gain * torch.where(negative, slope * x, x))
    clipped = x.abs() > clamp if clamp >= 0 else torch.zeros_like(negative)
    if clamp >= 0:
        x.clamp_(-clamp, clamp)
    if not write_signs:
        return torch.empty(0, dtype=torch.uint8, device=x.device)
    return negative.to(torch.uint8) * _NEGATIVE + clipped.to(torch.uint8) * _CLIPPED


def _multiply_by_slopes(x: Tensor, signs: Tensor, sx: int, sy: int, gain: float, slope: float) -> None:
    """Outside the samples that the forward pass had, nothing but the gain is known; the gradient is zero there."""
    height, width = x.shape[2:]
    factors = torch.full_like(x, gain)
    top, start = max(0, -sy), max(0, -sx)
    known = signs[:, :, max(0, sy) : max(0, height + sy), max(0, sx) : max(0, width + sx)]
    inside = factors[:, :, top : top + known.shape[2], start : start + known.shape[3]]
    inside.masked_fill_((known & _NEGATIVE) != 0, gain * slope)
    inside.masked_fill_((known & _CLIPPED) != 0, 0.0)
    x.mul_(factors)


def forward(x: Tensor, *filters_and_parameters: Tensor) -> Tensor:
    """Do what the vocoders' extension does: upsample, snake, downsample.

    Args:
        x: (B, C, T).
        filters_and_parameters: ``up_filter, down_filter, alpha, beta``, or ``filter, alpha, beta`` where both filters
            are one; alpha and beta are logarithms.

    Returns:
        (B, C, T).
    """
    if len(filters_and_parameters) not in (3, 4):
        raise ArgumentError(
            f"forward: got {1 + len(filters_and_parameters)} tensors, "
            "takes x, up_filter, down_filter, alpha, beta or x, filter, alpha, beta"
        )
    *filters, alpha, beta = filters_and_parameters
    return firelu_torch.filtered_snake(
        x, alpha.reshape(-1), beta.reshape(-1), filters[0].reshape(-1), filters[-1].reshape(-1), ratio=2, logscale=True
    )
