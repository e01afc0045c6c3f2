"""A whole array, or a tile of one, resampled: two axes at once by the compiled loops, further ones before them."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from .. import _firelu
from .polyphase import Polyphase

Array = np.ndarray[Any, Any]
# The filter of an axis, which is not negative.
Filters = Sequence[tuple[int, Polyphase]]
Range = tuple[int, int]

# What is in work between the first of three axes and the others.
_BAND_BYTES = 2**22


def computed_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Give the type that arrays of this one are computed in."""
    return np.dtype(np.float64 if dtype in (np.float32, np.float64) else np.float32)


def resample_tile(
    tile: Array,
    filters: Filters,
    origins: Sequence[int],
    windows: Sequence[Range],
    border: str,
    target: Array,
) -> None:
    """Write the outputs of ``windows``, a range for each filter, to ``target``.

    ``tile`` has, along the axis of each filter, the samples from its origin on. What the outputs need beyond them lies
    beyond the ends of the whole array, which are the tile's own ends there, and follows the border's rule.
    Every output is summed in the order of its taps, whatever tile it is computed in: tiles do not change a bit.
    """
    if not target.size:
        return
    if len(filters) <= 2:
        starts = [start for start, _ in windows]
        _filter(tile, filters, list(zip(origins, starts, strict=True)), border, target)
        return
    axis, _ = filters[0]
    for start, stop in _bands(target, axis, windows[0]):
        shape = list(tile.shape)
        shape[axis] = stop - start
        # By the target's type: the tile may be a band itself.
        band = _firelu.new_array(shape, computed_dtype(target.dtype))
        _filter(tile, filters[:1], [(origins[0], start)], border, band)
        written = target[(slice(None),) * axis + (slice(start - windows[0][0], stop - windows[0][0]),)]
        resample_tile(band, filters[1:], origins[1:], windows[1:], border, written)


def _filter(tile: Array, filters: Filters, places: list[tuple[int, int]], border: str, target: Array) -> None:
    """Filter one or two axes; ``places`` are the first input and the first output of each."""
    last = filters[-1][0]
    # Samples of a column, next to each other: where they are many, a single filter takes rows of them as they are.
    channels = prod(tile.shape[last + 1 :])
    along = len(filters) == 2 or channels < _SHORT_ROW
    first = last if along else last + 1
    source, result = tile, target
    if not _is_dense_from(tile, first):
        source = _firelu.new_array(tile.shape, tile.dtype)
        source[...] = tile
    if not _is_dense_from(target, first):
        result = _firelu.new_array(target.shape, target.dtype)
    if len(filters) == 1 and along:
        rows = result.reshape(-1, result.shape[last], channels)
        _filter_rows(source.reshape(-1, source.shape[last], channels), filters[0][1], places[0], border, rows)
        if not np.may_share_memory(rows, result):
            result[...] = rows.reshape(result.shape)
    else:
        described = [_described(axis, each, place) for (axis, each), place in zip(filters, places, strict=True)]
        _firelu.resample_tile(source, result, (source.dtype.name, result.dtype.name), described, border, along)
    if result is not target:
        target[...] = result


def _described(axis: int, each: Polyphase, place: tuple[int, int]) -> Any:
    return axis, (each.up, each.down, each.first), each.taps, place


def _filter_rows(source: Array, polyphase: Polyphase, place: tuple[int, int], border: str, target: Array) -> None:
    """Filter the middle one of three axes. Rows are computed beside each other; few long ones are cut into pieces."""
    names, (origin, start) = (source.dtype.name, target.dtype.name), place
    outputs = target.shape[1]
    piece = outputs // _PIECES // polyphase.up * polyphase.up
    if len(source) >= _SHORT_ROW or piece < _SHORT_ROW:
        _firelu.resample_tile(source, target, names, [_described(1, polyphase, place)], border, True)
        return
    # All pieces but the first and the last ones, to which what lies beyond the ends may matter.
    needed = polyphase.inputs_of(start + piece, start + 2 * piece)
    step, length = piece // polyphase.up * polyphase.down, needed[1] - needed[0]
    count = min(_PIECES - 2, (origin + source.shape[1] - needed[1]) // step + 1) if needed[0] >= origin else 0
    middle = piece, piece * (1 + max(0, count))
    for row, written in zip(source, target, strict=True):
        if count > 0:
            shape, strides = (count, length, row.shape[1]), (step * row.strides[0], *row.strides)
            pieces = np.lib.stride_tricks.as_strided(row[needed[0] - origin :], shape, strides, writeable=False)
            made = written[slice(*middle)].reshape(count, piece, row.shape[1])
            described = _described(1, polyphase, (needed[0], start + piece))
            _firelu.resample_tile(pieces, made, names, [described], border, True)
        for first, end in ((0, middle[0]), (middle[1], outputs)):
            described = _described(1, polyphase, (origin, start + first))
            _firelu.resample_tile(row[None], written[None, first:end], names, [described], border, True)


# Rows shorter than this are too short to be summed as rows, and fewer too few to be computed beside each other.
_SHORT_ROW = 16
# Into how many pieces a long row is cut.
_PIECES = 64


def _is_dense_from(array: Array, axis: int) -> bool:
    """Whether the axes from this one on lie in memory as one, in steps of whole samples."""
    step = array.itemsize
    if any(stride % step for stride in array.strides):
        return False
    for length, stride in zip(array.shape[axis:][::-1], array.strides[axis:][::-1], strict=True):
        if length > 1 and stride != step:
            return False
        step *= length
    return True


def _bands(target: Array, axis: int, window: Range) -> list[Range]:
    """Cut the outputs of the first filter so that what is in work is little."""
    row = computed_dtype(target.dtype).itemsize * max(1, target.size // target.shape[axis])
    rows = max(1, _BAND_BYTES // row)
    return [(first, min(first + rows, window[1])) for first in range(*window, rows)]
