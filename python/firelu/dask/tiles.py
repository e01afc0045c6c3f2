"""A graph whose tasks each compute one tile of the result, from the chunks under it and rims of their neighbours."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import dask.array as da
import numpy as np
from dask.base import tokenize
from dask.highlevelgraph import HighLevelGraph

from .. import _firelu
from ..resampling.bands import Range
from ..resampling.polyphase import Polyphase
from ..resampling.tiling import TiledAxis

Array = np.ndarray[Any, Any]


class Compute(Protocol):
    """What a tile is computed by; it travels to the workers once for each graph."""

    def __call__(self, tile: Array, axes: Sequence[TiledAxis], windows: Sequence[Range]) -> Array:
        """Compute the outputs of ``windows`` from the inputs that they need."""


@dataclass(frozen=True, eq=False)
class Tiling:
    """What every task of a graph needs."""

    axes: tuple[TiledAxis, ...]
    compute: Compute

    def __call__(self, pieces: Any, windows: Sequence[Range]) -> Array:
        """Compute one tile of the result from the pieces of the input, nested as for `numpy.block`."""
        tile = np.block(pieces) if _is_several(pieces) else _innermost(pieces)
        return self.compute(tile, self.axes, windows)


def _is_several(pieces: Any) -> bool:
    return isinstance(pieces, list) and (len(pieces) > 1 or _is_several(pieces[0]))


def _innermost(pieces: Any) -> Any:
    return _innermost(pieces[0]) if isinstance(pieces, list) else pieces


def cut(block: Array, slices: tuple[slice, ...]) -> Array:
    """Copy a part of a chunk, so that the rest of it need not be kept, nor sent to another worker."""
    return block[slices].copy()


def run_tile(tiling: Tiling, pieces: Any, windows: Sequence[Range]) -> Array:
    """Compute one tile, on the one thread that dask gave it; a function of a module, so that it pickles by name."""
    result: Array = _firelu.call_with_threads(1, partial(tiling, pieces, windows))
    return result


def tiled(name: str, x: da.Array, tiling: Tiling, token: Any) -> da.Array:
    """Give the lazy array whose chunks are the tiling's tiles."""
    name = f"{name}-{tokenize(x, token)}"
    by_axis = {axis.axis: axis for axis in tiling.axes}
    pieces = [_pieces(sizes, by_axis.get(number)) for number, sizes in enumerate(x.chunks)]
    graph: dict[Any, Any] = {f"tiling-{name}": tiling}
    for block in itertools.product(*(range(len(each)) for each in pieces)):
        along = [pieces[number][place] for number, place in enumerate(block)]
        nested = _nest(graph, name, x, along, (), ())
        windows = [along[axis.axis].window for axis in tiling.axes]
        graph[(name, *block)] = (run_tile, f"tiling-{name}", nested, windows)
    chunks = tuple(
        by_axis[number].chunks if number in by_axis else tuple(sizes) for number, sizes in enumerate(x.chunks)
    )
    layers = HighLevelGraph.from_collections(name, graph, dependencies=[x])
    return da.Array(layers, name, chunks, dtype=x.dtype, meta=np.empty((0,) * x.ndim, x.dtype))


@dataclass(frozen=True)
class _Along:
    """One tile along one axis: its outputs, and which part of which chunks it needs."""

    window: Range
    parts: list[tuple[int, slice]]


def _pieces(sizes: Sequence[int], axis: TiledAxis | None) -> list[_Along]:
    """Give, for each tile along an axis, its pieces of the chunks."""
    if axis is None:
        return [_Along((0, size), [(number, slice(None))]) for number, size in enumerate(sizes)]
    starts = [0, *itertools.accumulate(sizes)]
    result = []
    for window in axis.windows():
        parts: list[tuple[int, slice]] = []
        for start, stop in axis.needed(window) if window[0] < window[1] else [(0, 0)]:
            first = int(np.searchsorted(starts, start, side="right")) - 1
            number = min(first, len(sizes) - 1)
            while number < len(sizes) and (starts[number] < stop or not parts):
                low, high = max(start, starts[number]), min(stop, starts[number + 1])
                whole = (low, high) == (starts[number], starts[number + 1])
                if low < high or not parts:
                    part = slice(None) if whole else slice(low - starts[number], max(high, low) - starts[number])
                    parts.append((number, part))
                number += 1
        result.append(_Along(window, parts))
    return result


def _nest(
    graph: dict[Any, Any], name: str, x: da.Array, along: list[_Along], block: tuple[int, ...], cuts: tuple[slice, ...]
) -> Any:
    """Give the keys of a tile's pieces in nested lists; parts of chunks become tasks of their own, shared by tiles."""
    if len(block) < len(along):
        parts = along[len(block)].parts
        return [_nest(graph, name, x, along, (*block, number), (*cuts, part)) for number, part in parts]
    if all(part == slice(None) for part in cuts):
        return (x.name, *block)
    bounds = "-".join(f"{part.start}:{part.stop}" for part in cuts)
    key = (f"rim-{name}", *block, bounds)
    graph.setdefault(key, (cut, (x.name, *block), cuts))
    return key


def output_chunks(sizes: Sequence[int], geometry: Polyphase, outputs: int) -> tuple[int, ...]:
    """Give the sizes of the result's chunks: those of the input scaled, neighbours merged and large ones split.

    No chunk is longer than the input's longest, and none that could be merged with its neighbour is left.
    """
    most = max(1, *sizes)
    ends = [min(outputs, -(-end * geometry.up // geometry.down)) for end in itertools.accumulate(sizes)]
    ends[-1] = outputs
    result: list[int] = []
    start = 0
    for end in ends:
        size = end - start
        start = end
        count = -(-size // most)
        for number in range(count):
            part = size * (number + 1) // count - size * number // count
            if result and result[-1] + part <= most:
                result[-1] += part
            else:
                result.append(part)
    return tuple(result) or (0,)
