"""`firelu resample`: an image file, or an array in a file or a zarr store, made larger or smaller."""

from __future__ import annotations

import argparse
from fractions import Fraction
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import ArgumentError
from ..layouts import image_axes
from ..resampling.bands import Filters
from ..resampling.functions import check_dtype, make_filters, output_shape, resample
from ..resampling.prototypes import NAMES
from ..resampling.tiling import resample_stored
from .terminal import Terminal

if TYPE_CHECKING:
    from argparse import _SubParsersAction

_NAME_THEM = "pass --axes 0,1, or --axes 1,2 where these are no colours"
# The samples of a tile along each axis that is resampled: a few megabytes are in work, however large the array.
_TILE = 1024


def _factor(text: str) -> Fraction:
    try:
        factor = Fraction(text)
    except (ValueError, ZeroDivisionError):
        factor = Fraction(0)
    if factor <= 0:
        raise argparse.ArgumentTypeError(f"got {text!r}, takes a number above zero such as 1/2, 3/2 or 2")
    return factor


def _axes(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"got {text!r}, takes numbers such as 0,1 or -2,-1") from None


def add_parser(commands: _SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the sub-command."""
    parser = commands.add_parser(
        "resample",
        help="make an image, a .npy file or a zarr array larger or smaller, without aliases",
        description="Resample an image file (needs Pillow), a .npy file or a zarr array (a path that ends in .zarr; "
        "needs zarr). Arrays are processed tile by tile: memory use does not grow with their size.",
    )
    parser.add_argument("input", metavar="IN", type=Path, help="an image, a .npy file or a zarr store")
    parser.add_argument("output", metavar="OUT", type=Path, help="what to write, of the same kind")
    parser.add_argument("--factor", type=_factor, required=True, help="1/2 halves the size, 2 doubles it, 3/2 …")
    parser.add_argument("--kernel", default="lanczos3", help=f"{', '.join(NAMES)} (lanczos3)")
    parser.add_argument("--border", default="reflect", help="reflect, symmetric, edge, wrap or constant (reflect)")
    parser.add_argument("--axes", type=_axes, help="which axes of an array, such as 0,1 (the last two)")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace, terminal: Terminal) -> int:
    """Resample, and say what was written."""
    kind = _kind(options.input)
    if _kind(options.output) != kind:
        raise ArgumentError(f"resample: OUT: got {options.output}, takes a name of the same kind as {options.input}")
    if options.input.absolute() == options.output.absolute():
        raise ArgumentError(f"resample: OUT: got {options.output}, takes another file than IN")
    shape = _image(options, terminal) if kind == "image" else _array(options, terminal, kind)
    unit = " pixels" if kind == "image" else ""
    terminal.line(f"{' x '.join(map(str, shape))}{unit}: {terminal.style(str(options.output), 'bold')}")
    return 0


def _kind(path: Path) -> str:
    return {".zarr": "zarr", ".npy": "npy"}.get(path.suffix, "image")


def _image(options: argparse.Namespace, terminal: Terminal) -> tuple[int, ...]:
    """Resample an image file, which is in memory as a whole; give its width and height."""
    image_module, operations = _need("PIL.Image", "pillow"), _need("PIL.ImageOps", "pillow")
    if options.axes is not None:
        raise ArgumentError("resample: --axes: got axes for an image, takes them for arrays alone")
    if options.output.suffix.lower() not in image_module.registered_extensions():
        raise ArgumentError(f"resample: OUT: got {options.output}, takes a name that ends as an image's, such as .png")
    with terminal.progress(3) as progress:
        progress.step(f"reading {options.input}")
        try:
            image = image_module.open(options.input)
        except image_module.UnidentifiedImageError as error:
            raise ArgumentError(f"resample: IN: got {options.input}, takes an image, .npy or .zarr") from error
        # Cameras store what the sensor saw, and how to turn it; the file that is written says nothing of that.
        image = operations.exif_transpose(image)
        if image.mode not in ("L", "RGB", "I;16"):
            has_alpha = image.mode in ("LA", "PA", "RGBA") or "transparency" in image.info
            # Colours times their opacity: what is transparent then has no say in its neighbours' colour.
            image = image.convert("RGBA").convert("RGBa") if has_alpha else image.convert("RGB")
        progress.step("resampling")
        up, down = options.factor.numerator, options.factor.denominator
        kernel, border = options.kernel, options.border
        pixels = resample(np.asarray(image), up, down, axes=(0, 1), kernel=kernel, border=border)
        progress.step(f"writing {options.output}")
        if image.mode == "RGBa":
            size = pixels.shape[1], pixels.shape[0]
            image_module.frombytes("RGBa", size, pixels.tobytes()).convert("RGBA").save(options.output)
        else:
            image_module.fromarray(pixels).save(options.output)
    return pixels.shape[1], pixels.shape[0]


def _array(options: argparse.Namespace, terminal: Terminal, kind: str) -> tuple[int, ...]:
    """Resample an array tile by tile."""
    source = _open_zarr(options.input) if kind == "zarr" else np.load(options.input, mmap_mode="r")
    check_dtype("resample", source.dtype)
    axes = image_axes("resample", "IN", source.shape, options.axes, _NAME_THEM)
    up, down = options.factor.numerator, options.factor.denominator
    filters, border = make_filters("resample", source.ndim, up, down, axes, options.kernel, options.border)
    shape = output_shape(source.shape, filters)
    if kind == "zarr":
        target = _create_zarr(options.output, source, shape)
    else:
        target = np.lib.format.open_memmap(options.output, "w+", dtype=source.dtype, shape=shape)
    steps = _tile_lengths(shape, filters, getattr(target, "chunks", None))
    total = int(np.prod([-(-length // step) for length, step in zip(shape, steps, strict=True)]))
    # A file is told of tenths, so that it does not fill with lines.
    shown = total if terminal.live else min(total, 10)
    with terminal.progress(shown) as progress:

        def tell(done: int, total: int) -> None:
            if done * shown // total > (done - 1) * shown // total:
                progress.step(f"{done} of {total} tiles")

        resample_stored(source, target, filters, border, steps, tell)
    return shape


def _tile_lengths(shape: tuple[int, ...], filters: Filters, chunks: Any) -> tuple[int, ...]:
    """Give the lengths of a tile: whole chunks where there are any."""
    along = {axis for axis, _ in filters}
    lengths = []
    for axis, length in enumerate(shape):
        chunk = chunks[axis] if chunks else 1
        lengths.append(max(1, min(length, max(1, _TILE // chunk) * chunk if axis in along else chunk)))
    return tuple(lengths)


def _open_zarr(path: Path) -> Any:
    zarr = _need("zarr", "firelu[dask]")
    if not path.exists():
        raise FileNotFoundError(2, "No such zarr store", str(path))
    node = zarr.open(path, mode="r")
    if not hasattr(node, "dtype"):
        if "0" not in node:
            raise ArgumentError(f"resample: IN: got {path}, a group, takes an array, or a group with the level 0")
        node = node["0"]
    return node


def _create_zarr(path: Path, source: Any, shape: tuple[int, ...]) -> Any:
    if path.exists():
        raise FileExistsError(17, "There is a store already", str(path))
    chunks = tuple(max(1, min(chunk, length)) for chunk, length in zip(source.chunks, shape, strict=True))
    return _need("zarr", "firelu[dask]").create_array(path, shape=shape, chunks=chunks, dtype=source.dtype)


def _need(module: str, package: str) -> Any:
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise ImportError(f"needs {error.name}: pip install '{package}'") from error
