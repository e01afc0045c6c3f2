"""`resample`, `upfirdn2d`, `filter2d` and `pyramid` on dask arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import dask.array as da
import numpy as np

from .. import functional
from ..errors import DTypeError, ShapeError
from ..kernels import FILTER_REMEDY, _centred, _taps
from ..layouts import image_axes, refuse_colours_last
from ..resampling.bands import Filters, Range
from ..resampling.borders import border_name
from ..resampling.functions import check_dtype, check_levels, make_filters
from ..resampling.polyphase import Polyphase
from ..resampling.tiling import TiledAxis, resample_from
from ..typing import ArrayLike
from .tiles import Tiling, output_chunks, tiled

Array = np.ndarray[Any, Any]


def resample(
    x: da.Array,
    up: int | Sequence[int],
    down: int | Sequence[int] = 1,
    *,
    axes: int | Sequence[int] | None = None,
    kernel: str | ArrayLike = "lanczos3",
    border: str = "reflect",
) -> da.Array:
    """Enlarge or shrink a dask array, as `firelu.resample` does: the bytes are the same for any chunks.

    Args:
        x: a dask array of a type that `firelu.resample` accepts.
        up: as in `firelu.resample`.
        down: as in `firelu.resample`.
        axes: as in `firelu.resample`.
        kernel: as in `firelu.resample`.
        border: as in `firelu.resample`.

    Returns:
        A lazy array. Its chunks are x's, scaled; small ones are merged and large ones split, so that none is longer
        than x's longest. A tile reads the chunks under it and rims of their neighbours, as wide as half the kernel.
    """
    _check("resample", x)
    check_dtype("resample", x.dtype)
    axes = image_axes("resample", "x", x.shape, axes)
    filters, border = make_filters("resample", x.ndim, up, down, axes, kernel, border)
    filters = [(axis, polyphase) for axis, polyphase in filters if not polyphase.is_identity and x.shape[axis]]
    if not filters:
        return x
    chunks = list(x.chunks)
    for axis, polyphase in filters:
        chunks[axis] = output_chunks(x.chunks[axis], polyphase, polyphase.output_length(x.shape[axis]))
    return resample_to(x, filters, border, chunks)


def resample_to(x: da.Array, filters: Filters, border: str, chunks: Sequence[Sequence[int]]) -> da.Array:
    """Resample with the result's chunks given along the axes of the filters."""
    axes = [TiledAxis(axis, x.shape[axis], each, border, tuple(chunks[axis])) for axis, each in filters]
    token = [(axis, each.up, each.down, each.first, each.taps) for axis, each in filters]
    return tiled("resample", x, Tiling(tuple(axes), resample_from), (token, border, chunks))


def pyramid(
    x: da.Array,
    levels: int,
    factor: int | Sequence[int] = 2,
    *,
    axes: int | Sequence[int] | None = None,
    kernel: str | ArrayLike = "lanczos3",
    border: str = "reflect",
) -> list[da.Array]:
    """Shrink a dask array again and again, as `firelu.pyramid` does.

    Args:
        x: a dask array.
        levels: how many arrays, x among them.
        factor: how many times smaller each is than the one before, for all axes or one for each.
        axes: as in `firelu.resample`.
        kernel: as in `firelu.resample`.
        border: as in `firelu.resample`.

    Returns:
        A list of ``levels`` lazy arrays; the first is x. To store them, `write_pyramid` takes each from the stored one
        above, instead of computing it again.
    """
    _check("pyramid", x)
    axes = image_axes("pyramid", "x", x.shape, axes)
    result = [x]
    for _ in range(check_levels(levels) - 1):
        result.append(resample(result[-1], 1, factor, axes=axes, kernel=kernel, border=border))
    return result


def upfirdn2d(
    x: da.Array,
    kernel: ArrayLike,
    up: int | tuple[int, int] = 1,
    down: int | tuple[int, int] = 1,
    pad: int | Sequence[int] = (0, 0),
    *,
    flip_kernel: bool = False,
    gain: float = 1.0,
    border: str = "constant",
) -> da.Array:
    """Upsample, filter and downsample the last two axes, as `firelu.upfirdn2d` does.

    The bytes are the same for any chunks, but for the sign of a zero.

    Args:
        x: a dask array of floats, (..., H, W).
        kernel: (KH, KW), or (K,) for the outer product with itself.
        up: as in `firelu.upfirdn2d`.
        down: as in `firelu.upfirdn2d`.
        pad: as in `firelu.upfirdn2d`.
        flip_kernel: as in `firelu.upfirdn2d`.
        gain: as in `firelu.upfirdn2d`.
        border: what lies beyond the ends, as in `firelu.resample`.

    Returns:
        A lazy array.
    """
    _check("upfirdn2d", x)
    border = border_name("upfirdn2d", border)
    kernel = np.asarray(functional._square(kernel, x))
    # A single pixel of zeros is checked as the whole would be, but for the lengths.
    taps = kernel.shape[::-1]
    factors = functional._pair("up", up), functional._pair("down", down)
    pads = functional._paddings(pad)
    functional.upfirdn2d(np.zeros((1, 1), x.dtype), kernel, up, down, (taps[0], taps[0], taps[1], taps[1]), gain=gain)
    if x.ndim < 2:
        raise ShapeError(f"upfirdn2d: x: got {x.shape}, takes (..., H, W)")
    tiled_axes = []
    for number, axis in enumerate((x.ndim - 1, x.ndim - 2)):
        first, last = pads[2 * number : 2 * number + 2]
        up_by, down_by, length = factors[0][number], factors[1][number], x.shape[axis]
        span = length * up_by + first + last
        if span < taps[number]:
            raise ShapeError(
                f"upfirdn2d: x: got a length of {span}, upsampled and padded, takes at least the {taps[number]} taps"
            )
        geometry = Polyphase(up_by, down_by, -first, np.zeros(taps[number]))
        outputs = (span - taps[number]) // down_by + 1
        chunks = output_chunks(x.chunks[axis], geometry, outputs)
        tiled_axes.append(TiledAxis(axis, length, geometry, border, chunks))
    token = (kernel, factors, pads, flip_kernel, gain, border)
    compute = _UpFirDn2d(kernel, *factors, flip_kernel, gain)
    return tiled("upfirdn2d", x, Tiling(tuple(tiled_axes), compute), token)


@dataclass(frozen=True, eq=False)
class _UpFirDn2d:
    kernel: Array
    up: tuple[int, int]
    down: tuple[int, int]
    flip_kernel: bool
    gain: float

    def __call__(self, tile: Array, axes: Sequence[TiledAxis], windows: Sequence[Range]) -> Array:
        pad: list[int] = []
        for axis, window in zip(axes, windows, strict=True):
            origin, tile = axis.extend(tile, window)
            pad += axis.geometry.padding(origin, tile.shape[axis.axis], *window)
        result: Array = functional.upfirdn2d(
            tile, self.kernel, self.up, self.down, pad, flip_kernel=self.flip_kernel, gain=self.gain
        )
        return result


def filter2d(
    x: da.Array, kernel: ArrayLike, *, flip_kernel: bool = False, gain: float = 1.0, border: str = "constant"
) -> da.Array:
    """Filter the last two axes and keep their lengths, as `firelu.filter2d` does. See `upfirdn2d`.

    Args:
        x: a dask array of floats, (..., H, W).
        kernel: (KH, KW), or (K,) for the outer product with itself.
        flip_kernel: correlate instead of convolving.
        gain: what the result is multiplied by.
        border: what lies beyond the ends, as in `firelu.resample`.

    Returns:
        A lazy array of x's shape.
    """
    _check("filter2d", x)
    refuse_colours_last("filter2d", "x", x.shape, "filter across", FILTER_REMEDY)
    pad = _centred(_taps(kernel), (1, 1), 0)
    return upfirdn2d(x, kernel, pad=pad, flip_kernel=flip_kernel, gain=gain, border=border)


def _check(operator: str, x: Any) -> None:
    if not isinstance(x, da.Array):
        raise DTypeError(f"{operator}: x: got {type(x).__name__}, takes a dask array; firelu.{operator} takes others")
    if any(np.isnan(length) for length in x.shape):
        raise ShapeError(f"{operator}: x: got {x.shape}, takes known lengths: call compute_chunk_sizes() first")
