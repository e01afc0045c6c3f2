"""The two extension modules that those projects compile, made of firelu's torch operators."""

from __future__ import annotations

import torch
from torch import Tensor

from .. import torch as firelu_torch
from ..errors import ArgumentError
from ..torch.bridge import bridged

LINEAR, LEAKY_RELU = 1, 3
_FUSED_LEAKY_RELU_GRADIENT = bridged("FusedLeakyReluGradient").overload


def fused_bias_act(
    input: Tensor, bias: Tensor, refer: Tensor, act: int, grad: int, alpha: float, scale: float
) -> Tensor:
    """Bias, activation and scale, or a derivative of it.

    Args:
        input: (N, C, ...), the forward input, or the gradient that is passed on.
        bias: C values, added to ``input`` channel by channel; empty adds nothing.
        refer: the forward output, whose sign decides the slope of a derivative; empty counts as zeros.
        act: 1 for linear, 3 for leaky ReLU.
        grad: 0 for the forward, 1 for the first derivative, 2 for the second, which is zero.
        alpha: the slope of the leaky ReLU.
        scale: what the result is multiplied by.

    Returns:
        A tensor of input's shape and dtype.
    """
    if act not in (LINEAR, LEAKY_RELU):
        raise ArgumentError(f"fused_bias_act: act: got {act}, takes 1 (linear) or 3 (leaky ReLU)")
    if grad not in (0, 1, 2):
        raise ArgumentError(f"fused_bias_act: grad: got {grad}, takes 0, 1 or 2")
    if grad == 2:
        return torch.zeros_like(input)
    added = bias.reshape(-1) if bias.numel() else None
    slope = 1.0 if act == LINEAR else alpha
    if grad == 0:
        return firelu_torch.fused_leaky_relu(input, added, slope, scale)
    # A derivative is linear in the gradient that is passed on, so the slope must not depend on it. Without an output
    # to read the sign from, the output counts as zero, as an absent bias does, and the slope at zero is alpha.
    sign = refer if refer.numel() else torch.zeros_like(input)
    # Y, dY, B, nothing that lends its type to a bias gradient, the arguments, and which outputs are wanted.
    gradients = _FUSED_LEAKY_RELU_GRADIENT(sign, input, added, None, None, slope, scale, 1, [True, False])
    gradient: Tensor = gradients[0]
    return gradient


def upfirdn2d(
    input: Tensor,
    kernel: Tensor,
    up_x: int,
    up_y: int,
    down_x: int,
    down_y: int,
    pad_x0: int,
    pad_x1: int,
    pad_y0: int,
    pad_y1: int,
) -> Tensor:
    """Upsample, filter and downsample planes whose samples may be vectors.

    Args:
        input: (major, H, W, minor).
        kernel: (KH, KW).
        up_x: factor of inserted zeros along W.
        up_y: factor of inserted zeros along H.
        down_x: which samples along W are kept.
        down_y: which samples along H are kept.
        pad_x0: zeros before W, negative to crop.
        pad_x1: zeros after W.
        pad_y0: zeros before H.
        pad_y1: zeros after H.

    Returns:
        (major, OH, OW, minor).
    """
    planes = input.permute(0, 3, 1, 2)
    paddings = (pad_x0, pad_x1, pad_y0, pad_y1)
    result = firelu_torch.upfirdn2d(planes, kernel, (up_x, up_y), (down_x, down_y), paddings)
    return result.permute(0, 2, 3, 1).contiguous()
