"""The functions of the StyleGAN2 family, of its copies, and mmcv's and diffusers' under the same names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor

from ..fallbacks import Fallbacks
from .served import served, tell, why_not

_HALVES = (torch.float16, torch.bfloat16)

_Function = Callable[..., Any]


def fused_leaky_relu(serve: _Function, fallbacks: Fallbacks, what: str, original: _Function) -> _Function:
    """Serve ``fused_leaky_relu(input, bias, negative_slope, scale)``."""

    def fused_leaky_relu(input: Any, bias: Any, negative_slope: Any, scale: Any) -> Any:
        # A slope or scale that is a tensor may want a gradient, which only the project's formula gives it.
        numbers = type(negative_slope) is type(scale) is float
        numbers = numbers or not (isinstance(negative_slope, Tensor) or isinstance(scale, Tensor))
        if numbers and served(input, "cuda") and input.dim() > 1:
            if bias is None:
                return serve(input, None, negative_slope, scale)
            channels = _channel_bias(input, bias)
            if channels is not None:
                return serve(input, channels, negative_slope, scale)
        tell(fallbacks, what, _why_not_fused(numbers, input, bias))
        return original(input, bias, negative_slope, scale)

    return fused_leaky_relu


def _channel_bias(input: Tensor, bias: Any) -> Tensor | None:
    """Give a bias as (C,) that is written so, or as it broadcasts, such as (1, C, 1, 1); None for any other."""
    if not served(bias, "cuda"):
        return None
    if bias.dtype != input.dtype and not (bias.dtype == torch.float32 and input.dtype in _HALVES):
        return None
    if bias.dim() == 1:
        return cast("Tensor", bias)
    broadcast = (1,) * (input.dim() - bias.dim()) + tuple(bias.shape)
    channels = tuple(size if axis == 1 else 1 for axis, size in enumerate(input.shape))
    return cast("Tensor", bias.reshape(-1)) if broadcast == channels else None


def _why_not_fused(numbers: bool, input: Any, bias: Any) -> str:
    if not numbers:
        return "negative_slope or scale: got a tensor, takes numbers"
    if not served(input, "cuda"):
        return why_not("input", input)
    if input.dim() < 2:
        return f"input: got {input.dim()} dimensions, takes 2 or more"
    if not served(bias, "cuda"):
        return why_not("bias", bias)
    return f"bias: got {bias.dtype} of {tuple(bias.shape)}, takes one number of the input's dtype for each channel"


def upfirdn2d_native(serve: _Function, fallbacks: Fallbacks, what: str, original: _Function) -> _Function:
    """Serve ``upfirdn2d_native`` with its ten parameters."""

    def upfirdn2d_native(
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
    ) -> Any:
        pads = (pad_x0, pad_x1, pad_y0, pad_y1)
        if _filterable(input, kernel):
            return serve(input, kernel, (up_x, up_y), (down_x, down_y), pads)
        tell(fallbacks, what, _why_not_filtered(input, kernel))
        return original(input, kernel, up_x, up_y, down_x, down_y, *pads)

    return upfirdn2d_native


def upfirdn2d_native_of_pairs(serve: _Function, fallbacks: Fallbacks, what: str, original: _Function) -> _Function:
    """Serve ``upfirdn2d_native(tensor, kernel, up, down, pad)``, where pad is (before, after) on both axes."""

    def upfirdn2d_native(tensor: Any, kernel: Any, up: Any, down: Any, pad: Any) -> Any:
        if _filterable(tensor, kernel):
            if type(up) is int and type(down) is int and len(pad) == 2:
                return serve(tensor, kernel, up, down, tuple(pad))
        else:
            tell(fallbacks, what, _why_not_filtered(tensor, kernel))
        return original(tensor, kernel, up, down, pad)

    return upfirdn2d_native


def _filterable(input: Any, kernel: Any) -> bool:
    return served(input, "cuda") and served(kernel, "cuda") and input.dim() == 4 and kernel.dim() == 2


def _why_not_filtered(input: Any, kernel: Any) -> str:
    for name, tensor, rank in (("input", input, 4), ("kernel", kernel, 2)):
        if not served(tensor, "cuda"):
            return why_not(name, tensor)
        if tensor.dim() != rank:
            return f"{name}: got {tensor.dim()} dimensions, takes {rank}"
    return ""
