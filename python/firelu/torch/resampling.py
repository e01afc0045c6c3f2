"""`resample` on torch tensors: as on arrays, with gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ..errors import DTypeError
from ..layouts import image_axes
from ..resampling.functions import make_filters
from .functional import upfirdn1d

_INTEGERS = {torch.uint8: 255.0, torch.uint16: 65535.0}
_FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def resample(
    input: Tensor,
    up: int | Sequence[int],
    down: int | Sequence[int] = 1,
    *,
    axes: int | Sequence[int] | None = None,
    kernel: str | Tensor | Sequence[float] = "lanczos3",
    border: str = "reflect",
) -> Tensor:
    """Enlarge or shrink a tensor by the factor ``up / down`` along some axes, without aliases; see `firelu.resample`.

    Args:
        input: a floating-point tensor of any shape, or uint8 or uint16, which get no gradient.
        up: the numerator of the factor, for all axes or one for each.
        down: the denominator.
        axes: which axes, the last two by default.
        kernel: the name of a kernel, or 1-D taps that sum to one.
        border: what lies beyond the ends: "reflect", "symmetric", "edge", "wrap" or "constant".

    Returns:
        A tensor of the input's dtype, of the length ``ceil(length * up / down)`` along each axis. Half types are
        computed in float32 and rounded once; integers are rounded, half to even, and clipped.

    >>> import torch, firelu.torch
    >>> firelu.torch.resample(torch.tensor([[0.0, 1.0, 2.0, 3.0]]), 1, 2, axes=-1, kernel="box")
    tensor([[0.5000, 2.5000]])
    """
    dtype = input.dtype
    if dtype not in _FLOATS and dtype not in _INTEGERS:
        raise DTypeError(f"resample: input: got {dtype}, takes float16, bfloat16, float32, float64, uint8 or uint16")
    # Compiled, the question would become a condition on sizes that are meant to be free.
    axes = image_axes("resample", "input", () if torch.compiler.is_compiling() else input.shape, axes)
    result = input if dtype == torch.float64 else input.to(torch.float32)
    if isinstance(kernel, Tensor):
        kernel = kernel.detach().cpu().tolist()
    for axis, up_by, down_by, first, taps in _axes(input.dim(), up, down, axes, kernel, border):
        length = result.shape[axis]
        outputs = -(-length * up_by // down_by)
        if not length:
            shape = [outputs if number == axis else each for number, each in enumerate(result.shape)]
            result = result.new_zeros(shape)
            continue
        pad = -first, (outputs - 1) * down_by + len(taps) - length * up_by + first
        line = torch.tensor(taps, dtype=result.dtype, device=result.device)
        result = upfirdn1d(result, line, up_by, down_by, pad, axis=axis, flip_kernel=True, border=border)
    if dtype in _INTEGERS:
        # Not every torch converts float32 to uint16 at once.
        return result.round().clamp(0, _INTEGERS[dtype]).to(torch.int32).to(dtype)
    return result.to(dtype)


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def _axes(
    ndim: int, up: Any, down: Any, axes: Any, kernel: Any, border: Any
) -> list[tuple[int, int, int, int, list[float]]]:
    """Give axis, factors, first place and taps of each axis that changes; a compiler takes them as constants."""
    filters, _ = make_filters("resample", ndim, up, down, axes, kernel, border)
    return [
        (axis, each.up, each.down, each.first, each.taps.tolist()) for axis, each in filters if not each.is_identity
    ]
