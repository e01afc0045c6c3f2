"""Tiles of an array that is not in memory as a whole: what each needs, and a loop over all of them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import _firelu
from .bands import Filters, Range, resample_tile
from .borders import border_indices
from .polyphase import Polyphase

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class TiledAxis:
    """An axis along which outputs are summed from several inputs."""

    axis: int
    length: int
    geometry: Polyphase
    border: str
    chunks: tuple[int, ...]

    def windows(self) -> list[Range]:
        """Give the ranges of outputs that are computed together."""
        return list(itertools.pairwise([0, *itertools.accumulate(self.chunks)]))

    def needed(self, window: Range) -> list[Range]:
        """Give the ranges of inputs that outputs need, in their order and without those that come twice."""
        start, stop = self.geometry.inputs_of(*window)
        inside = max(start, 0), min(stop, self.length)
        if self.border == "constant" or inside == (start, stop):
            return [inside] if inside[0] < inside[1] else [(0, 0)]
        places = np.unique(border_indices(start, stop, self.length, self.border))
        ends = np.flatnonzero(np.diff(places) > 1)
        firsts, lasts = [places[0], *places[ends + 1]], [*places[ends], places[-1]]
        return [(int(first), int(last) + 1) for first, last in zip(firsts, lasts, strict=True)]

    def extend(self, tile: Array, window: Range) -> tuple[int, Array]:
        """Order the needed inputs as they lie beyond and between the ends; give the place of the first."""
        start, stop = self.geometry.inputs_of(*window)
        inside = max(start, 0), min(stop, self.length)
        if self.border == "constant" or inside == (start, stop):
            return inside[0], tile
        indices = border_indices(start, stop, self.length, self.border)
        return start, tile.take(np.searchsorted(np.unique(indices), indices), self.axis)


def resample_from(tile: Array, axes: Sequence[TiledAxis], windows: Sequence[Range]) -> Array:
    """Compute a tile of the result from the inputs that it needs."""
    shape, origins = list(tile.shape), []
    for axis, window in zip(axes, windows, strict=True):
        origin, tile = axis.extend(tile, window)
        origins.append(origin)
        shape[axis.axis] = window[1] - window[0]
    result = _firelu.new_array(shape, tile.dtype)
    if result.size:
        filters = [(axis.axis, axis.geometry) for axis in axes]
        resample_tile(tile, filters, origins, windows, axes[0].border, result)
    return result


def resample_stored(
    source: Any, target: Any, filters: Filters, border: str, tile: Sequence[int], progress: Callable[[int, int], None]
) -> None:
    """Resample what can be sliced, such as a zarr array or a file in memory, into the like, tile after tile.

    ``tile`` is the length of a tile along every axis. Progress is told the number of tiles that are done, and of all.
    """
    by_axis = {}
    for axis, polyphase in filters:
        outputs, step = polyphase.output_length(source.shape[axis]), tile[axis]
        chunks = tuple(min(step, outputs - start) for start in range(0, outputs, step))
        by_axis[axis] = TiledAxis(axis, source.shape[axis], polyphase, border, chunks)
    axes = [by_axis[axis] for axis, _ in filters]
    ranges = []
    for axis, (length, step) in enumerate(zip(source.shape, tile, strict=True)):
        plain = [(start, min(start + step, length)) for start in range(0, length, step)]
        ranges.append(by_axis[axis].windows() if axis in by_axis else plain)
    tiles = list(itertools.product(*ranges))
    for number, region in enumerate(tiles):
        windows = [region[axis.axis] for axis in axes]
        needed = [by_axis[axis].needed(part) if axis in by_axis else [part] for axis, part in enumerate(region)]
        part = resample_from(_read(source, needed), axes, windows)
        target[tuple(slice(*each) for each in region)] = part
        progress(number + 1, len(tiles))


def _read(source: Any, needed: list[list[Range]]) -> Array:
    """Read the product of some ranges along each axis."""

    def nested(axis: int, slices: tuple[slice, ...]) -> Any:
        if axis == len(needed):
            return np.asarray(source[slices])
        parts = [nested(axis + 1, (*slices, slice(*each))) for each in needed[axis]]
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis)

    array: Array = nested(0, ())
    return array
