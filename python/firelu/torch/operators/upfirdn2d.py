"""UpFirDn2d and its two gradients for torch.

Height and width stay whole between processes, since the parts of a picture would need their neighbours' borders.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional

from ..rules import (
    NOT_EXPORTED,
    Batched,
    Dims,
    Kind,
    Rules,
    Size,
    Way,
    check,
    in_front,
    partial,
    present,
    replicate,
    same_shape,
    shard,
)

if TYPE_CHECKING:
    from ..bridge import Bridged

#: The place of the shape that UpFirDn2dGradient gives its result.
_LENT_SHAPE = 2


def _length(size: Size, taps: Size, up: int, down: int, pad: Sequence[int]) -> Size:
    span = size * up + pad[0] + pad[1]
    check(span >= taps, "UpFirDn2d", "X", span, f"at least {taps}, the kernel's length, after padding")
    return (span - taps) // down + 1


def _filtered(x: Sequence[Size], k: Sequence[Size], constants: tuple[Any, ...]) -> tuple[Size, ...]:
    up_x, up_y, down_x, down_y, x0, x1, y0, y1, *_ = constants
    check(len(x) >= 2, "UpFirDn2d", "X", tuple(x), "at least two dimensions")
    check(len(k) == 2, "UpFirDn2d", "K", tuple(k), "two dimensions")
    height = _length(x[-2], k[0], up_y, down_y, (y0, y1))
    width = _length(x[-1], k[1], up_x, down_x, (x0, x1))
    return (*x[:-2], height, width)


def _shape(kinds: list[Kind | None], constants: tuple[Any, ...]) -> list[Kind | None]:
    x, k = present(kinds, 0), present(kinds, 1)
    return [(_filtered(x[0], k[0], constants), x[1])]


def _gradient_shape(kinds: list[Kind | None], constants: tuple[Any, ...]) -> list[Kind | None]:
    dy, k, x = (present(kinds, place) for place in range(3))
    # The last two lengths alone stand for an X with the other dimensions of dY.
    shape = (*dy[0][:-2], *x[0]) if len(x[0]) == 2 else x[0]
    same_shape(dy[0], _filtered(shape, k[0], constants))
    return [(shape, dy[1])]


def _kernel_gradient_shape(kinds: list[Kind | None], constants: tuple[Any, ...]) -> list[Kind | None]:
    x, dy, k = (present(kinds, place) for place in range(3))
    same_shape(dy[0], _filtered(x[0], k[0], constants))
    return [k]


def _batch(bridged: Bridged, size: int, dims: Dims, arguments: list[Any]) -> Batched | None:
    """Put the batch among the leading dimensions, where the kernel is the same for all of it."""
    if dims[1] is not None:
        return None
    moved = list(arguments)
    moved[0] = in_front(arguments[0], dims[0], size)
    return bridged.overload(*moved), 0


def _batch_gradient(bridged: Bridged, size: int, dims: Dims, arguments: list[Any]) -> Batched | None:
    """Do the same, and tell the result's shape so."""
    shape = arguments[_LENT_SHAPE]
    if len(shape) > 2:
        arguments = [*arguments[:_LENT_SHAPE], [size, *shape], *arguments[_LENT_SHAPE + 1 :]]
    return _batch(bridged, size, dims, arguments)


def _shard(bridged: Bridged, arguments: list[Any]) -> list[Way]:
    """Split any dimension but the last two: each picture is filtered for itself, by the whole kernel."""
    return [([shard(dim)], [shard(dim), replicate()]) for dim in range(arguments[0].ndim - 2)]


def _shard_gradient(bridged: Bridged, arguments: list[Any]) -> list[Way]:
    """Do the same, unless the shape is that of the whole."""
    return [] if len(arguments[_LENT_SHAPE]) > 2 else _shard(bridged, arguments)


def _shard_kernel_gradient(bridged: Bridged, arguments: list[Any]) -> list[Way]:
    """Give a partial sum over pictures."""
    return [([partial()], [shard(dim), shard(dim)]) for dim in range(arguments[0].ndim - 2)]


def _bordered(x: Tensor, dim: int, up: int, pad: tuple[int, int], border: str) -> tuple[Tensor, tuple[int, int]]:
    """Add the samples that padding is filled with, and give the padding that is left: zeros, or a crop.

    Samples are chosen by their places: torch pads neither further than the picture is long, nor symmetrically.
    """
    # Every up-th position of the padded grid has a sample, counted from the first of the picture.
    before, after = max(pad[0], 0) // up, -(-max(pad[1], 0) // up)
    if before or after:
        size = x.shape[dim]
        place = torch.arange(-before, size + after, device=x.device)
        if border in ("edge", "replicate"):
            place = place.clamp(0, size - 1)
        elif border == "reflect":
            place = size - 1 - (size - 1 - place % max(2 * (size - 1), 1)).abs()
        elif border == "symmetric":
            place = torch.minimum(place % (2 * size), 2 * size - 1 - place % (2 * size))
        else:
            place = place % size
        x = x.index_select(dim, place)
    return x, (pad[0] - before * up, pad[1] - after * up)


def upfirdn2d(
    x: Tensor,
    k: Tensor,
    up_x: int = 1,
    up_y: int = 1,
    down_x: int = 1,
    down_y: int = 1,
    pad_x0: int = 0,
    pad_x1: int = 0,
    pad_y0: int = 0,
    pad_y1: int = 0,
    flip_kernel: bool = False,
    gain: float = 1.0,
    border: str = "constant",
) -> Tensor:
    """Decompose UpFirDn2d: a strided convolution over single planes, after zeros are inserted where needed."""
    if border not in ("constant", "zeros"):
        x, (pad_x0, pad_x1) = _bordered(x, -1, up_x, (pad_x0, pad_x1), border)
        x, (pad_y0, pad_y1) = _bordered(x, -2, up_y, (pad_y0, pad_y1), border)
    *leading, height, width = x.shape
    planes = x.reshape(-1, 1, height, width)
    if up_x > 1 or up_y > 1:
        spread = functional.pad(planes.reshape(-1, height, 1, width, 1), (0, up_x - 1, 0, 0, 0, up_y - 1))
        planes = spread.reshape(-1, 1, height * up_y, width * up_x)
    if any((pad_x0, pad_x1, pad_y0, pad_y1)):
        planes = functional.pad(planes, (pad_x0, pad_x1, pad_y0, pad_y1))
    # conv2d correlates: with the kernel turned around it convolves.
    taps = k if flip_kernel else k.flip((0, 1))
    taps = taps.to(planes.dtype) * gain
    filtered = functional.conv2d(planes, taps[None, None], stride=(down_y, down_x))
    return filtered.reshape(*leading, *filtered.shape[-2:])


RULES = {
    "UpFirDn2d": Rules(shape=_shape, batch=_batch, shard=_shard, decompose=upfirdn2d),
    "UpFirDn2dGradient": Rules(
        shape=_gradient_shape,
        batch=_batch_gradient,
        shard=_shard_gradient,
        decompose=NOT_EXPORTED,
        lengths_read={"X": 2},
    ),
    "UpFirDn2dKernelGradient": Rules(
        shape=_kernel_gradient_shape,
        batch="each entry has a sum of its own over all its pictures, which no leading dimension gives",
        shard=_shard_kernel_gradient,
        decompose=NOT_EXPORTED,
    ),
}
