"""FilteredAct and its gradient for torch.

Height and width stay whole between processes, since the parts of a picture would need their neighbours' borders.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from torch import Tensor

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
from .bias_act import bias_act
from .snake import snake
from .upfirdn2d import upfirdn2d

if TYPE_CHECKING:
    from ..bridge import Bridged

#: The places of the numbers of each channel among the inputs, and of dY.
_CHANNELS = (3, 4, 5)
_DY = 6


def _length(size: Size, taps: Size, up: int, down: int, pad: Sequence[int]) -> Size:
    span = size * up + pad[0] + pad[1]
    check(span >= taps, "FilteredAct", "X", span, f"at least {taps}, the kernel's length, after padding")
    return (span - taps) // down + 1


def _filtered(kinds: list[Kind | None], constants: tuple[Any, ...]) -> Kind:
    (x, dtype), (fu, _), (fd, _) = (present(kinds, place) for place in range(3))
    up_x, up_y, down_x, down_y, *pads = constants[1:13]
    check(len(x) >= 2, "FilteredAct", "X", tuple(x), "at least two dimensions")
    axis = constants[-1]
    for place in _CHANNELS:
        given = kinds[place] if place < len(kinds) else None
        if given is not None:
            same_shape(given[0], (x[axis],))
    height = _length(_length(x[-2], fu[0], up_y, 1, pads[2:4]), fd[0], 1, down_y, pads[6:8])
    width = _length(_length(x[-1], fu[1], up_x, 1, pads[0:2]), fd[1], 1, down_x, pads[4:6])
    return (*x[:-2], height, width), dtype


def _shape(kinds: list[Kind | None], constants: tuple[Any, ...]) -> list[Kind | None]:
    return [_filtered(kinds, constants)]


def _gradient_shape(kinds: list[Kind | None], constants: tuple[Any, ...]) -> list[Kind | None]:
    x, dy = present(kinds, 0), present(kinds, _DY)
    same_shape(dy[0], _filtered(kinds[:_DY], constants)[0])
    none: Kind = ((0,), x[1])
    return [x, *(kinds[place] or none for place in _CHANNELS)]


def _batch(bridged: Bridged, size: int, dims: Dims, arguments: list[Any]) -> Batched | None:
    """Put the batch among the leading dimensions, where filters and numbers are the same for all of it."""
    signature = bridged.signature
    moved = list(arguments)
    for spec, place in zip(signature.inputs, signature.places, strict=True):
        if spec.name in ("X", "dY"):
            moved[place] = in_front(arguments[place], dims[place], size)
        elif dims[place] is not None or (
            len(signature.inputs) > _DY and spec.optional and arguments[place] is not None
        ):
            return None  # Each entry has numbers, or sums, of its own.
    axis = signature.first_argument + signature.argument_names.index("axis")
    if moved[axis] >= 0:
        moved[axis] += 1
    result = bridged.overload(*moved)
    if not isinstance(result, tuple):
        return result, 0
    parted = [result[0], *(output.new_empty((size, 0)) for output in result[1:])]
    return tuple(parted), (0,) * len(parted)


def _channel(bridged: Bridged, arguments: list[Any]) -> int:
    axis = int(arguments[bridged.signature.first_argument + bridged.signature.argument_names.index("axis")])
    return axis % int(arguments[0].ndim)


def _shard(bridged: Bridged, arguments: list[Any]) -> list[Way]:
    """Split any dimension but the last two, and the numbers of each channel with the channels."""
    channel = _channel(bridged, arguments)
    ways: list[Way] = []
    for dim in range(arguments[0].ndim - 2):
        numbers = shard(0) if dim == channel else replicate()
        given = [numbers for place in _CHANNELS if arguments[place] is not None]
        ways.append(([shard(dim)], [shard(dim), replicate(), replicate(), *given]))
    return ways


def _shard_gradient(bridged: Bridged, arguments: list[Any]) -> list[Way]:
    """Do the same; sums over pictures are partial."""
    channel = _channel(bridged, arguments)
    wanted = bridged.signature.wanted(arguments)
    ways: list[Way] = []
    for dim in range(arguments[0].ndim - 2):
        numbers, summed = (shard(0), shard(0)) if dim == channel else (replicate(), partial())
        there = [arguments[place] is not None for place in _CHANNELS]
        outputs = [shard(dim) if wanted[0] else replicate()]
        outputs += [summed if given and want else replicate() for given, want in zip(there, wanted[1:], strict=True)]
        given = [numbers for given in there if given]
        ways.append((outputs, [shard(dim), replicate(), replicate(), *given, shard(dim)]))
    return ways


def filtered_act(
    x: Tensor,
    fu: Tensor,
    fd: Tensor,
    b: Tensor | None = None,
    snake_alpha: Tensor | None = None,
    snake_beta: Tensor | None = None,
    act: str = "lrelu",
    up_x: int = 1,
    up_y: int = 1,
    down_x: int = 1,
    down_y: int = 1,
    pad_x0: int = 0,
    pad_x1: int = 0,
    pad_y0: int = 0,
    pad_y1: int = 0,
    down_pad_x0: int = 0,
    down_pad_x1: int = 0,
    down_pad_y0: int = 0,
    down_pad_y1: int = 0,
    alpha: float = 0.2,
    gain: float | None = None,
    clamp: float | None = None,
    flip_kernel: bool = False,
    up_gain: float = 1.0,
    border: str = "constant",
    down_border: str = "constant",
    logscale: bool = False,
    axis: int = 1,
) -> Tensor:
    """Decompose FilteredAct: upsample, activate, downsample."""
    if b is not None:
        x = bias_act(x, b, axis=axis)
    up = upfirdn2d(x, fu, up_x, up_y, 1, 1, pad_x0, pad_x1, pad_y0, pad_y1, flip_kernel, up_gain, border)
    if act == "snake":
        assert snake_alpha is not None
        activated = snake(up, snake_alpha, snake_beta, logscale, axis)
    else:
        activated = bias_act(up, None, act, alpha, gain, clamp, axis)
    pads = (down_pad_x0, down_pad_x1, down_pad_y0, down_pad_y1)
    return upfirdn2d(activated, fd, 1, 1, down_x, down_y, *pads, flip_kernel, 1.0, down_border)


RULES = {
    "FilteredAct": Rules(shape=_shape, batch=_batch, shard=_shard, decompose=filtered_act),
    "FilteredActGradient": Rules(shape=_gradient_shape, batch=_batch, shard=_shard_gradient, decompose=NOT_EXPORTED),
}
