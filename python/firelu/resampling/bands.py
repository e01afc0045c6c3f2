"""A whole array, or a tile of one, resampled axis after axis, some outputs at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .borders import border_indices
from .filtering import filter_axis
from .polyphase import Polyphase

Array = np.ndarray[Any, Any]
# The filter of an axis, which is not negative.
Filters = Sequence[tuple[int, Polyphase]]
Range = tuple[int, int]

# What is in work between two axes: about what the second-level caches of a few cores hold.
_BAND_BYTES = 2**21
# What may be in work where a band of that size would be of too few rows.
_MOST_BYTES = 2**25


def computed_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Give the type that arrays of this one are computed in."""
    return np.dtype(np.float64 if dtype == np.float64 else np.float32)


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
    work = computed_dtype(tile.dtype)
    for blocks in _blocks(tile, target, filters):
        inner, places = tile[blocks], target[blocks]
        axis, polyphase = filters[0]
        for start, stop in _bands(inner, places, filters, windows[0]):
            origin, rows = _extended(inner, axis, origins[0], polyphase.inputs_of(start, stop), border)
            written = _part(places, axis, start - windows[0][0], stop - windows[0][0])
            band, ranges = rows.astype(work, copy=False), ((start, stop), *windows[1:])
            _resample_band(band, filters, (origin, *origins[1:]), ranges, border, written)


def _resample_band(
    band: Array,
    filters: Filters,
    origins: Sequence[int],
    windows: Sequence[Range],
    border: str,
    target: Array,
) -> None:
    """Filter one axis after the other; the first axis is extended by the border's rule already."""
    for number, (axis, polyphase) in enumerate(filters):
        start, stop = windows[number]
        origin = origins[number]
        if number:
            origin, band = _extended(band, axis, origin, polyphase.inputs_of(start, stop), border)
        last = number == len(filters) - 1
        if last and target.dtype == band.dtype:
            result = target
        else:
            result = np.empty((*band.shape[:axis], stop - start, *band.shape[axis + 1 :]), band.dtype)
        filter_axis(band, axis, polyphase, (origin, start, stop), result)
        band = result
    if band is not target:
        _round_to(band, target)


def _round_to(values: Array, target: Array) -> None:
    """Round to the target's type: to the nearest, half to even; integers are clipped to their range."""
    if target.dtype.kind == "u":
        np.rint(values, out=values)
        np.clip(values, 0, np.iinfo(target.dtype).max, out=values)
    with np.errstate(over="ignore", under="ignore"):
        np.copyto(target, values, casting="unsafe")


def _extended(array: Array, axis: int, origin: int, needed: Range, border: str) -> tuple[int, Array]:
    """Give the needed places of an axis, as far as they have samples, and which place is the first."""
    length = array.shape[axis]
    start, stop = needed[0] - origin, needed[1] - origin
    inside = max(start, 0), max(min(stop, length), max(start, 0))
    if border == "constant" or inside == (start, stop):
        return origin + inside[0], _part(array, axis, *inside)
    return needed[0], array.take(border_indices(start, stop, length, border), axis)


def _part(array: Array, axis: int, start: int, stop: int) -> Array:
    return array[(slice(None),) * axis + (slice(start, stop),)]


def _blocks(tile: Array, target: Array, filters: Filters) -> list[slice]:
    """Cut the first axis, where it is not filtered, so that a block with all its rows is little."""
    if filters[0][0] == 0:
        return [slice(None)]
    count = tile.shape[0]
    size = _BAND_BYTES // max(1, max(tile.size, target.size) // max(1, count) * 4)
    size = max(1, min(count, size))
    return [slice(first, first + size) for first in range(0, count, size)]


def _bands(tile: Array, target: Array, filters: Filters, window: Range) -> list[Range]:
    """Cut the outputs of the first filter so that what is in work is little."""
    axis, polyphase = filters[0]
    row = 4 * max(1, tile.size // max(1, tile.shape[axis]), target.size // max(1, target.shape[axis]))
    rows = max(1, _BAND_BYTES // (row * max(1, polyphase.down // polyphase.up)))
    # Neighbours convert the inputs that they share twice: unless that takes much memory, few are shared.
    span = len(polyphase.taps) // polyphase.down + 1
    if 3 * row * len(polyphase.taps) // polyphase.up <= _MOST_BYTES:
        rows = max(rows, 2 * span)
    return [(first, min(first + rows, window[1])) for first in range(*window, rows)]
