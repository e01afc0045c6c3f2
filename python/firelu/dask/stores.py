"""Pyramids in zarr stores, in the multiscale layout of OME-Zarr."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Sequence
from importlib import import_module
from math import prod
from typing import TYPE_CHECKING, Any

import dask.array as da
import numpy as np

from .._firelu import __version__
from ..errors import ArgumentError, ShapeError
from ..layouts import image_axes
from ..resampling.functions import check_dtype, check_levels, make_filters
from ..typing import ArrayLike
from .functions import resample_to

if TYPE_CHECKING:
    import zarr
    from zarr.abc.store import Store

# How many chunks are computed between two entries of the store's record: so much an interrupted run repeats.
_CHUNKS_AT_ONCE = 64
_RECORD = "firelu-progress"
_MOVE = "move colours to the front with dask.array.moveaxis(x, -1, 0)"
# What OME-Zarr calls its axes, and their order.
_AXES = {"t": "time", "c": "channel", "z": "space", "y": "space", "x": "space"}


def write_pyramid(
    store: str | os.PathLike[str] | Store,
    levels: int,
    x: da.Array | ArrayLike | None = None,
    factor: int | Sequence[int] = 2,
    *,
    axes: int | Sequence[int] | None = None,
    kernel: str | ArrayLike = "lanczos3",
    border: str = "reflect",
    chunks: int | Sequence[int] = 1024,
    axis_names: str | None = None,
    name: str = "",
    progress: Callable[[int, int], None] | None = None,
) -> zarr.Group:
    """Write an array and ever smaller ones to a zarr store, in the layout of OME-Zarr 0.5.

    Each level is computed from the stored one above it, some chunks at a time, by whatever scheduler dask has. A run
    that was interrupted goes on where it stopped when it is called again with the same arguments. A level is listed in
    the store's metadata when it is complete.

    Args:
        store: a path or a zarr store.
        levels: how many arrays, the first among them.
        x: a dask, zarr or numpy array; None where the store has the first level already.
        factor: how many times smaller each level is than the one above, for all axes or one for each.
        axes: which axes become smaller: the last two by default, always the last ones, as OME-Zarr orders them.
        kernel: as in `firelu.resample`.
        border: as in `firelu.resample`.
        chunks: the length of the stored chunks along these axes; along the others it is 1.
        axis_names: a letter for each axis, "tczyx" or the end of it by default.
        name: the name of the image in the metadata.
        progress: called with the number of chunks that are stored, and of all there are.

    Returns:
        The zarr group, with the levels "0", "1", …
    """
    group: zarr.Group = _open(store)
    count = check_levels(levels)
    first = _first_level(group, x)
    check_dtype("write_pyramid", first.dtype)
    remedy = f"{_MOVE}, or pass axes=(1, 2) where these are no colours"
    axes = image_axes("write_pyramid", "x", first.shape, axes, remedy)
    filters, border = make_filters("write_pyramid", first.ndim, 1, factor, axes, kernel, border)
    numbers = [axis for axis, _ in filters]
    names = _axis_names(axis_names, first.ndim, numbers)
    shapes = [tuple(first.shape)]
    for _ in range(count - 1):
        shape = list(shapes[-1])
        for axis, polyphase in filters:
            shape[axis] = polyphase.output_length(shape[axis])
        shapes.append(tuple(shape))
    if 0 in shapes[0]:
        raise ShapeError(f"write_pyramid: x: got {shapes[0]}, takes an array with samples")
    size = _chunk_shape(chunks, first.ndim, numbers)
    ours = {
        "shape": list(shapes[0]),
        "dtype": first.dtype.name,
        "factors": [[axis, polyphase.up, polyphase.down] for axis, polyphase in filters],
        "kernel": kernel if isinstance(kernel, str) else np.asarray(kernel, np.float64).tolist(),
        "border": border,
        "chunks": list(size),
    }
    record = _resume(group, ours, has_first=x is None)
    grids = [_ends(shape, size) for shape in shapes]
    total = sum(prod(len(ends) for ends in grid) for grid in grids)
    for level in range(record["level"], count):
        source = first if level == 0 else da.from_zarr(group[str(level - 1)])
        target = _target(group, str(level), shapes[level], first.dtype, size, names, record)
        sizes = tuple(tuple(b - a for a, b in itertools.pairwise([0, *ends])) for ends in grids[level])
        lazy = source.rechunk(sizes) if level == 0 else resample_to(source, filters, border, sizes)
        before = sum(prod(len(ends) for ends in grid) for grid in grids[:level])
        for done, region in _slabs(grids[level], record["done"]):
            da.store(lazy[region], target, regions=region, lock=False)
            record.update(done=done)
            group.attrs[_RECORD] = record
            if progress is not None:
                progress(before + done, total)
        record.update(level=level + 1, done=0)
        _describe(group, name, names, filters, level + 1, kernel)
        group.attrs[_RECORD] = record
    _describe(group, name, names, filters, count, kernel)
    return group


def _open(store: Any) -> Any:
    try:
        zarr = import_module("zarr")
    except ModuleNotFoundError as error:
        raise ImportError('firelu.dask.write_pyramid needs zarr 3: pip install "firelu[dask]"') from error
    return zarr.open_group(store, mode="a", zarr_format=3)


def _first_level(group: Any, x: Any) -> da.Array:
    if x is not None:
        return x if isinstance(x, da.Array) else da.from_array(x)
    if "0" not in group:
        raise ArgumentError("write_pyramid: x: got none, takes an array, or a store with the level 0")
    return da.from_zarr(group["0"])


def _axis_names(names: str | None, ndim: int, numbers: list[int]) -> str:
    if ndim > len(_AXES) and names is None:
        raise ShapeError(f"write_pyramid: x: got {ndim} dimensions, takes up to {len(_AXES)}, or axis_names")
    names = "".join(_AXES)[-ndim:] if names is None else names
    if not isinstance(names, str) or len(names) != ndim or len(set(names)) != ndim:
        raise ArgumentError(f"write_pyramid: axis_names: got {names!r}, takes a letter for each of {ndim} axes")
    if numbers[-1] != ndim - 1 or numbers != list(range(numbers[0], ndim)):
        raise ArgumentError(
            f"write_pyramid: axes: got {numbers}, takes the last ones, as OME-Zarr orders axes: {_MOVE}"
        )
    return names


def _chunk_shape(chunks: Any, ndim: int, numbers: list[int]) -> tuple[int, ...]:
    lengths = list(chunks) if isinstance(chunks, (tuple, list)) else [chunks] * len(numbers)
    if len(lengths) != len(numbers) or not all(hasattr(each, "__index__") and each >= 1 for each in lengths):
        raise ArgumentError(f"write_pyramid: chunks: got {chunks!r}, takes a length, or one for each of the axes")
    along = dict(zip(numbers, lengths, strict=True))
    return tuple(int(along.get(axis, 1)) for axis in range(ndim))


def _ends(shape: Sequence[int], size: Sequence[int]) -> list[list[int]]:
    """Give the ends of the chunks along each axis."""
    pairs = zip(shape, size, strict=True)
    return [[min(start + step, length) for start in range(0, length, step)] for length, step in pairs]


def _slabs(grid: list[list[int]], done: int) -> Any:
    """Yield parts of the grid of chunks, each with the number of chunks that are stored after it.

    They are boxes along the first axis that has several chunks for each index of those before it.
    """
    split = next((axis for axis, ends in enumerate(grid) if len(ends) > 1), 0)
    beside = prod(len(ends) for ends in grid[split + 1 :])
    step = max(1, _CHUNKS_AT_ONCE // beside)
    for first in range(0, len(grid[split]), step):
        last = min(first + step, len(grid[split]))
        if last * beside > done:
            start = grid[split][first - 1] if first else 0
            region = [slice(0, ends[-1]) for ends in grid]
            region[split] = slice(start, grid[split][last - 1])
            yield last * beside, tuple(region)


def _resume(group: Any, ours: dict[str, Any], *, has_first: bool) -> dict[str, Any]:
    """Give the record of an earlier run of the same call, or a new one."""
    stored = group.attrs.get(_RECORD)
    if stored is None:
        return {**ours, "level": int(has_first), "done": 0}
    record = dict(stored)
    for key, value in ours.items():
        if record.get(key) != value:
            raise ArgumentError(
                f"write_pyramid: store: got a pyramid with {key}={record.get(key)!r}, takes an empty store, or the "
                f"arguments of the first run, not {key}={value!r}"
            )
    return record


def _target(
    group: Any, path: str, shape: tuple[int, ...], dtype: Any, size: tuple[int, ...], names: str, record: dict[str, Any]
) -> Any:
    if path in group and record["done"]:
        return group[path]
    chunks = tuple(min(step, length) for step, length in zip(size, shape, strict=True))
    return group.create_array(
        path, shape=shape, chunks=chunks, dtype=dtype, fill_value=0, dimension_names=list(names), overwrite=True
    )


def _describe(group: Any, name: str, names: str, filters: Any, count: int, kernel: Any) -> None:
    """Write the metadata of the levels that are complete."""
    shrink = {axis: polyphase.down / polyphase.up for axis, polyphase in filters}
    datasets = []
    for level in range(count):
        scale = [float(shrink.get(axis, 1.0) ** level) for axis in range(len(names))]
        transformations = [
            {"type": "scale", "scale": scale},
            # The middle of the first sample: half of its width, less half of a sample of the first level.
            {"type": "translation", "translation": [(each - 1) / 2 for each in scale]},
        ]
        datasets.append({"path": str(level), "coordinateTransformations": transformations})
    multiscale = {
        "name": name,
        "axes": [
            {"name": letter, "type": _AXES.get(letter, "")} if letter in _AXES else {"name": letter} for letter in names
        ],
        "datasets": datasets,
        "type": kernel if isinstance(kernel, str) else "taps",
        "metadata": {"method": "firelu.dask.write_pyramid", "version": __version__},
    }
    group.attrs["ome"] = {"version": "0.5", "multiscales": [multiscale]}
