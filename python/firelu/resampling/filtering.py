"""One axis filtered by the engine, in the layout that its loops are fastest in. The layout changes no bit."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from ..functional import upfirdn2d
from .polyphase import Polyphase

Array = np.ndarray[Any, Any]

# Rows shorter than this are too short to be summed as rows.
_SHORT_ROW = 16
# Along rows, taps that repeat after more outputs than this leave too few equal neighbours for a register.
_LONG_PERIOD = 16


def filter_axis(source: Array, axis: int, polyphase: Polyphase, place: tuple[int, int, int], target: Array) -> None:
    """Write some outputs of one axis to ``target``: ``place`` is the first input that ``source`` has, and the range.

    Both have the type that is computed in; they differ in the length of ``axis`` alone. Places beyond the source are
    zeros.
    """
    if not target.size:
        return
    axis %= source.ndim
    trailing = prod(source.shape[axis + 1 :])
    if trailing >= _SHORT_ROW and _is_dense_after(source, axis) and _is_dense_after(target, axis):
        _along_columns(_merged(source, axis), polyphase, place, _merged(target, axis))
    elif trailing >= _SHORT_ROW and source.shape[-1] >= _SHORT_ROW:
        moved = np.moveaxis(source, axis, -2), np.moveaxis(target, axis, -2)
        _along_columns(moved[0], polyphase, place, moved[1])
    elif trailing > 1 and _are_pixels(source, axis, target) and polyphase.up * polyphase.down <= 2:
        # Channels last: a column of the engine is a pixel.
        moved = np.moveaxis(_merged(source, axis), -1, -3), np.moveaxis(_merged(target, axis), -1, -3)
        _along_rows(moved[0], polyphase, place, moved[1])
    else:
        _through_copies(np.moveaxis(source, axis, -1), polyphase, place, np.moveaxis(target, axis, -1))


def _through_copies(source: Array, polyphase: Polyphase, place: tuple[int, int, int], target: Array) -> None:
    """Filter the last axis of arrays whose memory is in another order, or whose taps hardly repeat."""
    if max(polyphase.up, polyphase.down) > _LONG_PERIOD:
        columns = np.ascontiguousarray(np.moveaxis(source, -1, 0)).reshape(source.shape[-1], -1)
        result = np.empty((target.shape[-1], columns.shape[1]), target.dtype)
        _along_columns(columns, polyphase, place, result)
        target[...] = np.moveaxis(result.reshape(target.shape[-1], *target.shape[:-1]), 0, -1)
    elif target.strides[-1] == target.itemsize:
        _along_rows(source, polyphase, place, target)
    else:
        result = np.empty(target.shape, target.dtype)
        _along_rows(np.ascontiguousarray(source), polyphase, place, result)
        target[...] = result


def _along_rows(source: Array, polyphase: Polyphase, place: tuple[int, int, int], target: Array) -> None:
    """Filter the last axis."""
    if source.ndim == 1:
        source, target = source[None], target[None]
    padding = polyphase.padding(place[0], source.shape[-1], *place[1:])
    kernel, factors = polyphase.taps[None].astype(source.dtype), ((polyphase.up, 1), (polyphase.down, 1))
    upfirdn2d(source, kernel, *factors, (*padding, 0, 0), flip_kernel=True, out=target)


def _along_columns(source: Array, polyphase: Polyphase, place: tuple[int, int, int], target: Array) -> None:
    """Filter the last axis but one."""
    padding = polyphase.padding(place[0], source.shape[-2], *place[1:])
    kernel, factors = polyphase.taps[:, None].astype(source.dtype), ((1, polyphase.up), (1, polyphase.down))
    upfirdn2d(source, kernel, *factors, (0, 0, *padding), flip_kernel=True, out=target)


def _is_dense_after(array: Array, axis: int) -> bool:
    """Whether all axes after this one lie in memory as one axis."""
    step = array.itemsize
    for length, stride in zip(array.shape[:axis:-1], array.strides[:axis:-1], strict=True):
        if length > 1 and stride != step:
            return False
        step *= length
    return True


def _are_pixels(source: Array, axis: int, target: Array) -> bool:
    """Whether all axes from this one on, and the one before, lie in memory without gaps."""
    return axis > 0 and _is_dense_after(source, axis - 1) and _is_dense_after(target, axis - 1)


def _merged(array: Array, axis: int) -> Array:
    """Make one axis of all after this one, which lie in memory as one."""
    return array.reshape(*array.shape[: axis + 1], prod(array.shape[axis + 1 :]))
