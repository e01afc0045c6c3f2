"""Filtered activations for torch: one operator on the CPU and on CUDA devices, elsewhere its steps one by one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..errors import ArgumentError, ShapeError
from ..filtered import snake_paddings
from ..functional import _pair
from ..kernels import kaiser
from .bridge import bridged
from .functional import _outer_square, bias_act, snake, upfirdn2d

_FILTERED_ACT = bridged("FilteredAct").call


def _filter(taps: Tensor | None, input: Tensor, name: str) -> Tensor:
    """Give a two-dimensional kernel: the outer product of 1-D taps with themselves, and a single one for none."""
    if taps is None:
        return torch.ones(1, 1, dtype=torch.float32, device=input.device)
    if taps.dim() == 1:
        return _outer_square(taps, input)
    if taps.dim() != 2:
        raise ShapeError(f"filtered_lrelu: {name}: got {tuple(taps.shape)}, takes (K,) or (KH, KW)")
    return taps


def _four_paddings(padding: Any) -> tuple[int, int, int, int]:
    """Read paddings as StyleGAN3 does: an int, (x, y), or (x0, x1, y0, y1)."""
    if isinstance(padding, int):
        return padding, padding, padding, padding
    numbers = [int(number) for number in padding]
    if len(numbers) == 2:
        return numbers[0], numbers[0], numbers[1], numbers[1]
    if len(numbers) == 4:
        return numbers[0], numbers[1], numbers[2], numbers[3]
    raise ArgumentError(f"filtered_lrelu: padding: got {padding!r}, takes an int, (x, y) or (x0, x1, y0, y1)")


def _filtered(
    inputs: tuple[Tensor, Tensor, Tensor, Tensor | None, Tensor | None, Tensor | None],
    act: str,
    factors: tuple[int, int, int, int],
    pads: tuple[int, int, int, int],
    down_pads: tuple[int, int, int, int],
    numbers: tuple[float, float | None, float | None, bool, float],
    borders: tuple[str, str],
    logscale: bool,
    axis: int,
) -> Tensor:
    """Run the fused operator where there is one, else its parts."""
    x, fu, fd, bias, alpha, beta = inputs
    if x.device.type in ("cpu", "cuda", "meta"):
        arguments = (act, *factors, *pads, *down_pads, *numbers, *borders, logscale, axis)
        result: Tensor = _FILTERED_ACT(x, fu, fd, bias, alpha, beta, *arguments)
        return result
    return _composed(inputs, act, factors, pads, down_pads, numbers, borders, logscale, axis)


def _composed(
    inputs: tuple[Tensor, Tensor, Tensor, Tensor | None, Tensor | None, Tensor | None],
    act: str,
    factors: tuple[int, int, int, int],
    pads: tuple[int, int, int, int],
    down_pads: tuple[int, int, int, int],
    numbers: tuple[float, float | None, float | None, bool, float],
    borders: tuple[str, str],
    logscale: bool,
    axis: int,
) -> Tensor:
    """Run one operator after the other."""
    x, fu, fd, bias, alpha, beta = inputs
    slope, gain, clamp, flip, up_gain = numbers
    biased = x if bias is None else bias_act(x, bias, axis=axis)
    up = upfirdn2d(biased, fu, factors[:2], 1, pads, flip_kernel=flip, gain=up_gain, border=borders[0])
    if alpha is not None:
        activated = snake(up, alpha, beta, logscale=logscale, axis=axis)
    else:
        activated = bias_act(up, None, act, alpha=slope, gain=gain, clamp=clamp, axis=axis)
    return upfirdn2d(activated, fd, 1, factors[2:], down_pads, flip_kernel=flip, border=borders[1])


def filtered_lrelu(
    x: Tensor,
    fu: Tensor | None = None,
    fd: Tensor | None = None,
    b: Tensor | None = None,
    up: int | Sequence[int] = 1,
    down: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    gain: float = 2**0.5,
    slope: float = 0.2,
    clamp: float | None = None,
    flip_filter: bool = False,
) -> Tensor:
    """Add a bias, upsample and filter, apply leaky ReLU, filter and downsample.

    Args:
        x: (N, C, H, W).
        fu: (K,) for a separable filter or (KH, KW); multiplied by ``up**2``; None filters nothing.
        fd: the same, after the activation, without a factor.
        b: (C,), added to x's own samples, not to what pads them; or None.
        up: how many samples each one becomes.
        down: which activated samples are kept.
        padding: samples added on the upsampled grid, negative to crop: an int, (x, y) or (x0, x1, y0, y1).
        gain: what the activation is multiplied by.
        slope: the slope where the argument is not positive; also the derivative at 0.
        clamp: the largest size of an activated sample; None for any.
        flip_filter: correlate instead of convolving.

    Returns:
        (N, C, OH, OW) of x's dtype. x, both filters and the bias get gradients.

    >>> import torch, firelu.torch
    >>> taps = torch.ones(4) / 4
    >>> firelu.torch.filtered_lrelu(torch.ones(1, 2, 8, 8), taps, taps, up=2, down=2, padding=3).shape
    torch.Size([1, 2, 8, 8])
    """
    if x.dim() != 4:
        raise ShapeError(f"filtered_lrelu: x: got {tuple(x.shape)}, takes (N, C, H, W)")
    for name, number in (("gain", gain), ("slope", slope), ("clamp", clamp)):
        if number is not None and not 0 <= number < math.inf:
            raise ArgumentError(f"filtered_lrelu: {name}: got {number}, takes a number that is not negative")
    up_x, up_y = _pair("up", up)
    inputs = (x, _filter(fu, x, "fu"), _filter(fd, x, "fd"), b, None, None)
    numbers = (slope, gain, clamp, flip_filter, float(up_x * up_y))
    pads, none = _four_paddings(padding), (0, 0, 0, 0)
    factors = (up_x, up_y, *_pair("down", down))
    return _filtered(inputs, "lrelu", factors, pads, none, numbers, ("constant", "constant"), False, 1)


def filtered_snake(
    input: Tensor,
    alpha: Tensor,
    beta: Tensor | None = None,
    up_kernel: Tensor | None = None,
    down_kernel: Tensor | None = None,
    *,
    ratio: int = 2,
    logscale: bool = False,
) -> Tensor:
    """Apply snake on a signal upsampled by a ratio, and downsample again; edges are repeated.

    Args:
        input: (B, C, T); any leading dimensions are taken.
        alpha: (C,), the frequencies.
        beta: (C,), the divisors; alpha where None.
        up_kernel: (K,) taps with the sum one; None for 6 * ratio Kaiser taps.
        down_kernel: (K,) taps after the activation; None for the same.
        ratio: by how much the signal is upsampled.
        logscale: whether exp(alpha) and exp(beta) are the frequencies and divisors.

    Returns:
        A tensor of the input's shape and dtype. All tensors get gradients.

    >>> import torch, firelu.torch
    >>> firelu.torch.filtered_snake(torch.zeros(1, 2, 8), torch.ones(2)).shape
    torch.Size([1, 2, 8])
    """
    if input.dim() < 2:
        raise ShapeError(f"filtered_snake: input: got {tuple(input.shape)}, takes (..., C, T)")
    taps = [_snake_taps(kernel, ratio, input) for kernel in (up_kernel, down_kernel)]
    pads = snake_paddings(taps[0].numel(), taps[1].numel(), ratio)
    # The second filter correlates.
    inputs = (input.unsqueeze(-2), taps[0].reshape(1, -1), taps[1].reshape(1, -1).flip(1), None, alpha, beta)
    numbers = (0.2, None, None, False, float(ratio))
    factors = (ratio, 1, ratio, 1)
    paddings = ((*pads.pad, 0, 0), (*pads.down_pad, 0, 0))
    return _filtered(inputs, "snake", factors, *paddings, numbers, ("edge", "edge"), logscale, -3).squeeze(-2)


def _snake_taps(kernel: Tensor | None, ratio: int, input: Tensor) -> Tensor:
    if kernel is not None:
        return kernel
    return torch.from_numpy(_default_taps(ratio)).to(input.device)


@lru_cache(maxsize=64)
def _default_taps(ratio: int) -> np.ndarray[Any, Any]:
    """Give the taps as an array, not as a tensor, which would be of the mode that the first call ran under."""
    return kaiser(0.5 / ratio, 0.6 / ratio, 6 * ratio // 2 * 2)
