"""The operators as functions on torch tensors: any strides, four dtypes, derivatives of any order."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from ..errors import ArgumentError, ShapeError
from ..functional import _paddings, _pair
from ..signals import in_two_dimensions, padding, place
from .bridge import bridged

_LEAKY_RELU = bridged("LeakyRelu").call
_FUSED_LEAKY_RELU = bridged("FusedLeakyRelu").call
_BIAS_ACT = bridged("BiasAct").call
_SNAKE = bridged("Snake").call
_UPFIRDN2D = bridged("UpFirDn2d").call

Factor = int | Sequence[int]
#: The taps of a kernel, of one dimension or two.
Taps = Tensor | Sequence[float] | Sequence[Sequence[float]]


def leaky_relu(input: Tensor, negative_slope: float = 0.01) -> Tensor:
    """Leaky ReLU: ``input`` where it is positive, else ``negative_slope * input``.

    Args:
        input: any shape.
        negative_slope: the slope where the input is not positive; also the derivative at 0.

    Returns:
        A new tensor of the input's shape, dtype and memory order.

    >>> import torch, firelu.torch
    >>> firelu.torch.leaky_relu(torch.tensor([-1.0, 0.0, 2.0]), 0.1)
    tensor([-0.1000,  0.0000,  2.0000])
    """
    result: Tensor = _LEAKY_RELU(input, negative_slope)
    return result


def fused_leaky_relu(
    input: Tensor,
    bias: Tensor | None = None,
    negative_slope: float = 0.2,
    scale: float = 2**0.5,
    *,
    axis: int = 1,
) -> Tensor:
    """Add a bias for each channel, apply leaky ReLU and scale, in one pass over memory.

    Args:
        input: any shape, such as (N, C, H, W) or (N, C).
        bias: (C,) of the input's dtype, or float32 beside a half-precision input; None for no bias.
        negative_slope: the slope where the sum is not positive.
        scale: what the result is multiplied by.
        axis: the axis of the channels.

    Returns:
        ``scale * leaky_relu(input + bias)``, a new tensor of the input's shape, dtype and memory order.

    >>> import torch, firelu.torch
    >>> firelu.torch.fused_leaky_relu(torch.tensor([[1.0, -1.0]]), torch.tensor([0.5, -0.5]), scale=2.0)
    tensor([[ 3.0000, -0.6000]])
    """
    result: Tensor = _FUSED_LEAKY_RELU(input, bias, negative_slope, scale, axis)
    return result


def bias_act(
    input: Tensor,
    bias: Tensor | None = None,
    act: str = "linear",
    *,
    alpha: float | None = None,
    gain: float | None = None,
    clamp: float | None = None,
    axis: int = 1,
) -> Tensor:
    """Add a bias for each channel, apply an activation and a gain, and clip, in one pass over memory.

    Args:
        input: any shape, such as (N, C, H, W) or (N, C).
        bias: (C,) of the input's dtype, or float32 beside a half-precision input; None for no bias.
        act: linear, relu, lrelu, tanh, sigmoid, elu, selu, softplus or swish.
        alpha: the slope of lrelu; None is 0.2.
        gain: what the activation is multiplied by; None is sqrt 2 for relu, lrelu and swish, else 1.
        clamp: how large the result may be; None means any size.
        axis: the axis of the channels.

    Returns:
        ``clip(gain * f(input + bias), -clamp, clamp)``, a new tensor of the input's shape, dtype and memory order.

    >>> import torch, firelu.torch
    >>> firelu.torch.bias_act(torch.tensor([[1.0, -1.0]]), torch.tensor([0.5, -0.5]), "lrelu", gain=2.0)
    tensor([[ 3.0000, -0.6000]])
    """
    result: Tensor = _BIAS_ACT(input, bias, act, 0.2 if alpha is None else alpha, gain, clamp, axis)
    return result


def snake(input: Tensor, alpha: Tensor, beta: Tensor | None = None, *, logscale: bool = False, axis: int = 1) -> Tensor:
    """Snake: ``x + sin²(alpha x) / (beta + 1e-9)``, with a frequency and a divisor for each channel.

    Args:
        input: any shape with the axis of the channels, such as (B, C, T).
        alpha: (C,), the frequencies.
        beta: (C,), the divisors; alpha if None.
        logscale: whether exp(alpha) and exp(beta) are the frequencies and divisors.
        axis: the axis of the channels.

    Returns:
        A new tensor of the input's shape, dtype and memory order. All tensors get gradients, of any order.

    >>> import torch, firelu.torch
    >>> firelu.torch.snake(torch.tensor([[0.0, 1.0]]), torch.tensor([1.0, 2.0]))
    tensor([[0.0000, 1.4134]])
    """
    result: Tensor = _SNAKE(input, alpha, beta, logscale, axis)
    return result


def upfirdn2d(
    input: Tensor,
    kernel: Tensor,
    up: Factor = 1,
    down: Factor = 1,
    pad: Factor = (0, 0),
    *,
    flip_kernel: bool = False,
    gain: float = 1.0,
    border: str = "constant",
) -> Tensor:
    """Insert zeros, pad or crop, convolve with a FIR kernel, and keep every ``down``-th sample.

    Args:
        input: (N, C, H, W); any leading dimensions are accepted.
        kernel: (KH, KW) of any float dtype; (K,) stands for the outer product with itself.
        up: how many samples each one becomes: an int, or (x, y).
        down: every how many samples one is kept: an int, or (x, y).
        pad: an int; (before, after), the same on both axes; or (x0, x1, y0, y1). Negative numbers crop.
        flip_kernel: correlate instead of convolving.
        gain: what the kernel is multiplied by.
        border: what padding is filled with: "constant" (zeros), "edge", "reflect", "symmetric" or "wrap", decided on
            the input before zeros are inserted; "zeros", "replicate" and "circular" are other names.

    Returns:
        (N, C, OH, OW) of the input's dtype and memory order, where
        ``OH = (H * up + pad_y0 + pad_y1 - KH) // down + 1``. Both tensors get gradients.

    >>> import torch, firelu.torch
    >>> firelu.torch.upfirdn2d(torch.ones(1, 1, 2, 2), torch.ones(2, 2), up=2, pad=(1, 0)).shape
    torch.Size([1, 1, 4, 4])
    """
    if kernel.dim() == 1:
        kernel = _outer_square(kernel, input)
    # What nearly everyone passes is read without a further call: it shows in the time of a small picture.
    result: Tensor
    plain = flip_kernel is False and type(gain) is float and gain == 1.0 and border == "constant"
    if plain and type(up) is int and type(down) is int and type(pad) is tuple and len(pad) == 2:
        x0, x1 = pad
        result = _UPFIRDN2D(input, kernel, up, up, down, down, x0, x1, x0, x1)
    else:
        factors = (*_pair("up", up), *_pair("down", down), *_paddings(pad))
        result = _UPFIRDN2D(input, kernel, *factors, flip_kernel, gain, border)
    return result


def upfirdn1d(
    input: Tensor,
    kernel: Tensor,
    up: int = 1,
    down: int = 1,
    pad: Factor = (0, 0),
    *,
    axis: int = -1,
    flip_kernel: bool = False,
    gain: float = 1.0,
    border: str = "constant",
) -> Tensor:
    """Filter along one axis, as `upfirdn2d` does along two.

    Args:
        input: any shape but that of a number, such as (N, C, T).
        kernel: (K,) of any float dtype.
        up: how many samples each one becomes.
        down: every how many samples one is kept.
        pad: an int, or (before, after). Negative numbers crop.
        axis: the axis that is filtered.
        flip_kernel: correlate instead of convolving.
        gain: what the kernel is multiplied by.
        border: what padding is filled with: "constant" (zeros), "edge", "reflect", "symmetric" or "wrap".

    Returns:
        A tensor of the input's dtype and memory order, with ``(T * up + pad0 + pad1 - K) // down + 1`` samples along
        the axis. Both tensors get gradients.

    >>> import torch, firelu.torch
    >>> firelu.torch.upfirdn1d(torch.tensor([1.0, 2.0, 3.0]), torch.ones(2), pad=(1, 0), border="edge")
    tensor([2., 3., 5.])
    """
    axis = place(axis, input.shape)
    if kernel.dim() != 1:
        raise ShapeError(f"upfirdn1d: kernel: got {tuple(kernel.shape)}, takes (K,)")
    arguments = (up, down, padding(pad), flip_kernel, gain, border)
    rows = in_two_dimensions(arguments, True)
    if input.dim() == 1 or input.numel() == 0:
        # A row of its own: beside it there may be no samples.
        row = input.movedim(axis, -1).unsqueeze(-2)
        return upfirdn2d(row, kernel.unsqueeze(0), **rows).squeeze(-2).movedim(-1, axis)
    dense = [other for other in range(input.dim()) if other != axis and input.stride(other) == 1]
    if input.stride(axis) != 1 and dense:
        # Columns are filtered where another axis has its samples side by side.
        columns = input.movedim((axis, dense[-1]), (-2, -1))
        filtered = upfirdn2d(columns, kernel.unsqueeze(1), **in_two_dimensions(arguments, False))
        return filtered.movedim((-2, -1), (axis, dense[-1]))
    return upfirdn2d(input.movedim(axis, -1), kernel.unsqueeze(0), **rows).movedim(-1, axis)


def _outer_square(taps: Tensor, input: Tensor) -> Tensor:
    """Give the outer product of taps with themselves, no narrower than the filter computes."""
    if taps.is_floating_point():
        computed = torch.float64 if input.dtype == torch.float64 else torch.float32
        taps = taps.to(torch.promote_types(taps.dtype, computed))
    return torch.outer(taps, taps)


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
) -> Tensor:
    """Do the same as `upfirdn2d` in plain torch operations, step by step: slow, for comparison.

    Args:
        input: (..., H, W).
        kernel: (KH, KW).
        up_x: how many samples each sample of a row becomes.
        up_y: how many samples each sample of a column becomes.
        down_x: every how many samples of a row one is kept.
        down_y: every how many samples of a column one is kept.
        pad_x0: zeros before each row; negative crops.
        pad_x1: zeros after each row.
        pad_y0: zeros before each column.
        pad_y1: zeros after each column.

    Returns:
        (..., OH, OW).
    """
    *leading, height, width = input.shape
    spread = input.reshape(-1, 1, height, 1, width, 1)
    spread = functional.pad(spread, (0, up_x - 1, 0, 0, 0, up_y - 1))
    planes = spread.reshape(-1, 1, height * up_y, width * up_x)
    planes = functional.pad(planes, (pad_x0, pad_x1, pad_y0, pad_y1))
    # conv2d correlates: with the kernel turned around it convolves.
    filtered = functional.conv2d(planes, kernel.flip((0, 1))[None, None].to(planes.dtype))
    kept = filtered[:, 0, ::down_y, ::down_x]
    return kept.reshape(*leading, *kept.shape[-2:])


def make_kernel(taps: Taps, *, gain: float = 1.0) -> Tensor:
    """Make a float32 kernel whose sum is ``gain``: the outer product of 1-D taps, or 2-D taps as they are."""
    return kernel_on_cpu(taps, gain).to(kernel_device(taps))


def kernel_on_cpu(taps: Taps, gain: float) -> Tensor:
    """Make the kernel on the processor: it has values there, whatever the default device is."""
    if isinstance(taps, Tensor) and taps.is_meta:
        raise ArgumentError("make_kernel: taps: got a tensor on meta, takes taps with values")
    kernel = torch.as_tensor(taps, dtype=torch.float32, device="cpu")
    if kernel.dim() == 1:
        kernel = torch.outer(kernel, kernel)
    return kernel * (gain / kernel.sum())


def kernel_device(taps: Taps) -> torch.device:
    """Tell where a kernel of these taps belongs: where they are, or on the default device."""
    return taps.device if isinstance(taps, Tensor) else torch.get_default_device()
