"""`resample`, `resize` and `pyramid` on numpy arrays."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd
from os import PathLike
from typing import Any

import numpy as np

from .. import _firelu
from ..errors import ArgumentError, DTypeError, ShapeError
from ..layouts import image_axes, refuse_colours_first
from ..operands import without_gradient
from ..typing import ArrayLike, NumpyArray
from .bands import Filters, resample_tile
from .borders import border_name
from .polyphase import make_polyphase

DTYPES = ("float16", "bfloat16", "float32", "float64", "uint8", "uint16")
# Up to which the compiled loops count places.
_LIMIT = 2**31


def resample(
    x: ArrayLike,
    up: int | Sequence[int],
    down: int | Sequence[int] = 1,
    *,
    axes: int | Sequence[int] | None = None,
    kernel: str | ArrayLike = "lanczos3",
    border: str = "reflect",
    out: NumpyArray | None = None,
) -> NumpyArray:
    """Enlarge or shrink an array by the factor ``up / down`` along some axes, without aliases.

    Sample ``j`` of the result lies at ``(j + 1/2) * down / up - 1/2`` of the input: the outer edges of the first and
    the last pixel stay where they are, as in Pillow and OpenCV.

    Args:
        x: float16, bfloat16, float32, float64, uint8 or uint16, of any shape and strides. Integers and half types are
            computed in float32, float32 in float64, and rounded once, half to even; integers are clipped to their
            range.
        up: the numerator of the factor, for all axes or one for each.
        down: the denominator.
        axes: which axes, the last two by default; ``(0, 1)`` for images with the colours last, (H, W, 3).
        kernel: "box" (means over areas), "triangle", "cubic", "mitchell", "lanczos3" (any number of lobes) or "kaiser",
            widened as shrinking requires; or 1-D taps that sum to one, on a grid of ``up`` places for each sample.
        border: what lies beyond the ends: "reflect", "symmetric", "edge", "wrap" or "constant" (zeros), as `numpy.pad`.
        out: an array of the result's shape and x's dtype to write to.

    Returns:
        An array of x's dtype whose length along each axis is ``ceil(length * up / down)``.

    >>> import numpy, firelu
    >>> row = numpy.array([[0, 10, 20, 30]], numpy.uint8)
    >>> firelu.resample(row, 3, 2, axes=-1, kernel="triangle", border="edge")
    array([[ 0,  5, 12, 18, 25, 30]], dtype=uint8)
    """
    x = as_array("resample", x)
    axes = image_axes("resample", "x", x.shape, axes)
    return _resample("resample", x, up, down, axes, kernel, border, out)


def _resample(
    operator: str, x: NumpyArray, up: Any, down: Any, axes: Any, kernel: Any, border: Any, out: NumpyArray | None = None
) -> NumpyArray:
    filters, border = make_filters(operator, x.ndim, up, down, axes, kernel, border)
    shape = output_shape(x.shape, filters)
    if out is None:
        out = _firelu.new_array(shape, x.dtype)
    else:
        _check_out(out, x, shape)
    active = [(axis, polyphase) for axis, polyphase in filters if not polyphase.is_identity]
    if not active:
        out[...] = x
    elif out.size:
        windows = [(0, shape[axis]) for axis, _ in active]
        resample_tile(x, active, [0] * len(active), windows, border, out)
    return out


def resize(
    image: ArrayLike,
    size_or_scale: float | Sequence[int],
    kernel: str | ArrayLike = "lanczos3",
    border: str = "reflect",
    *,
    layout: str = "HWC",
) -> NumpyArray:
    """Resize an image, without aliases.

    Args:
        image: (H, W, C) or (H, W), uint8, uint16 or float; integers are rounded and clipped.
        size_or_scale: (height, width); or a number that both are multiplied by, and rounded.
        kernel: as in `resample`.
        border: as in `resample`.
        layout: the meaning of the axes, such as "CHW" or "NHWC"; H and W are resized.

    Returns:
        The resized image, of the same dtype and layout.

    >>> import numpy, firelu
    >>> photo = numpy.full((480, 640, 3), 200, numpy.uint8)
    >>> firelu.resize(photo, (100, 133)).shape, firelu.resize(photo, 0.5).shape
    ((100, 133, 3), (240, 320, 3))
    """
    image = as_array("resize", image, "image")
    if not isinstance(layout, str) or layout.count("H") != 1 or layout.count("W") != 1:
        raise ArgumentError(f"resize: layout: got {layout!r}, takes a name for each axis, H and W among them")
    if image.ndim == 2 and layout == "HWC":
        layout = "HW"
    if image.ndim != len(layout):
        hint = ': pass layout="NHWC" or "NCHW" for a batch of images' if image.ndim == 4 else ""
        raise ShapeError(f"resize: image: got {image.shape}, takes an axis for each letter of layout={layout!r}{hint}")
    if layout == "HWC":
        refuse_colours_first("resize", "image", image.shape)
    axes = layout.index("H"), layout.index("W")
    before = image.shape[axes[0]], image.shape[axes[1]]
    after = _size(size_or_scale, before)
    if 0 in before:
        raise ShapeError(f"resize: image: got {image.shape}, takes an image with pixels")
    factors = [_reduced(new, old) for new, old in zip(after, before, strict=True)]
    up, down = zip(*factors, strict=True)
    return _resample("resize", image, up, down, axes, kernel, border)


def pyramid(
    x: ArrayLike,
    levels: int,
    factor: int | Sequence[int] = 2,
    *,
    axes: int | Sequence[int] | None = None,
    kernel: str | ArrayLike = "lanczos3",
    border: str = "reflect",
) -> list[NumpyArray]:
    """Shrink an array again and again.

    Args:
        x: as in `resample`.
        levels: how many arrays, x among them.
        factor: how many times smaller each is than the one before, for all axes or one for each.
        axes: as in `resample`.
        kernel: as in `resample`.
        border: as in `resample`.

    Returns:
        A list of ``levels`` arrays; the first is x.

    >>> import numpy, firelu
    >>> [level.shape for level in firelu.pyramid(numpy.zeros((3, 100, 64)), 3)]
    [(3, 100, 64), (3, 50, 32), (3, 25, 16)]
    """
    result = [as_array("pyramid", x)]
    axes = image_axes("pyramid", "x", result[0].shape, axes)
    for _ in range(check_levels(levels) - 1):
        result.append(_resample("pyramid", result[-1], 1, factor, axes, kernel, border))
    return result


def check_levels(levels: Any) -> int:
    """Give the number of levels, or refuse it."""
    if isinstance(levels, bool) or not hasattr(levels, "__index__") or levels.__index__() < 1:
        raise ArgumentError(f"pyramid: levels: got {levels!r}, takes a number from 1 on")
    return int(levels.__index__())


def as_array(operator: str, x: Any, argument: str = "x") -> NumpyArray:
    """Give x as an array of an accepted type, or refuse it."""
    package = type(x).__module__.partition(".")[0]
    if package in ("torch", "dask"):
        use = f"firelu.{package}.{'pyramid' if (operator, package) == ('pyramid', 'dask') else 'resample'}"
        raise DTypeError(f"{operator}: {argument}: got a {package} array, takes a numpy array: use {use}")
    if isinstance(x, (str, PathLike)):
        raise DTypeError(f"{operator}: {argument}: got a path, takes an array: numpy.asarray(PIL.Image.open(path))")
    without_gradient(operator, argument, x)
    try:
        array = np.asarray(x)
    except ValueError as error:
        raise ShapeError(f"{operator}: {argument}: got rows of different lengths, takes an array") from error
    check_dtype(operator, array.dtype, argument)
    return array


def check_dtype(operator: str, dtype: Any, argument: str = "x") -> None:
    """Refuse types that are not accepted."""
    if dtype.name not in DTYPES or not dtype.isnative:
        raise DTypeError(f"{operator}: {argument}: got {dtype}, takes {', '.join(DTYPES[:-1])} or {DTYPES[-1]}")


def make_filters(
    operator: str, ndim: int, up: Any, down: Any, axes: Any, kernel: Any, border: Any
) -> tuple[Filters, str]:
    """Give the filter of each axis, from the first axis on, and the border's own name."""
    numbers = list(axes) if isinstance(axes, (tuple, list)) else [axes]
    if not all(_is_whole(axis) and -ndim <= axis < ndim for axis in numbers):
        raise ArgumentError(f"{operator}: axes: got {axes!r}, takes axes of an array of {ndim} dimensions")
    numbers = [int(axis) % ndim for axis in numbers]
    if len(set(numbers)) != len(numbers) or not numbers:
        raise ArgumentError(f"{operator}: axes: got {axes!r}, takes different axes, at least one")
    shrinking = "factor" if operator.endswith("pyramid") else "down"
    ups, downs = (_factors(operator, name, value, len(numbers)) for name, value in (("up", up), (shrinking, down)))
    made: dict[tuple[int, int], Any] = {}
    for factor in zip(ups, downs, strict=True):
        if factor not in made:
            made[factor] = make_polyphase(operator, kernel, *factor)
    # In the array's own order, so that the order of the sums does not depend on how axes are written.
    filters = sorted(zip(numbers, (made[factor] for factor in zip(ups, downs, strict=True)), strict=True), key=_first)
    return filters, border_name(operator, border)


def output_shape(shape: Sequence[int], filters: Filters) -> tuple[int, ...]:
    """Give the shape of the result."""
    result = list(shape)
    for axis, polyphase in filters:
        result[axis] = polyphase.output_length(result[axis])
    return tuple(result)


def _first(pair: tuple[int, Any]) -> int:
    return pair[0]


def _is_whole(value: Any) -> bool:
    return hasattr(value, "__index__") and not isinstance(value, bool)


def _factors(operator: str, name: str, value: Any, count: int) -> list[int]:
    values = list(value) if isinstance(value, (tuple, list)) else [value] * count
    if len(values) != count or not all(_is_whole(each) and each >= 1 for each in values):
        takes = f"takes a whole number from 1 on, or one for each of the {count} axes"
        half = "" if name == "factor" else " (half the size is up=1, down=2)"
        raise ArgumentError(f"{operator}: {name}: got {value!r}, {takes}{half}")
    if max(values) >= _LIMIT:
        raise ArgumentError(f"{operator}: {name}: got {value!r}, takes numbers below 2^31")
    return [int(each) for each in values]


def _size(size_or_scale: Any, before: tuple[int, int]) -> tuple[int, int]:
    """Give the new height and width."""
    size = None
    try:
        if isinstance(size_or_scale, (tuple, list)):
            height, width = size_or_scale
            if _is_whole(height) and _is_whole(width) and height >= 1 and width >= 1:
                size = int(height), int(width)
        elif not isinstance(size_or_scale, (bool, str)) and 0 < (scale := float(size_or_scale)) < float("inf"):
            size = max(1, round(before[0] * scale)), max(1, round(before[1] * scale))
    except (TypeError, ValueError, OverflowError):
        pass
    if size is None:
        raise ArgumentError(
            f"resize: size_or_scale: got {size_or_scale!r}, takes (height, width) or a number that multiplies both"
        )
    if max(size) >= _LIMIT:
        raise ArgumentError(f"resize: size_or_scale: got {size_or_scale!r}, takes lengths below 2^31")
    return size


def _reduced(up: int, down: int) -> tuple[int, int]:
    divisor = gcd(up, down)
    return up // divisor, down // divisor


def _check_out(out: Any, x: NumpyArray, shape: tuple[int, ...]) -> None:
    if not isinstance(out, np.ndarray) or out.shape != shape or out.dtype != x.dtype:
        got = f"{out.dtype} {out.shape}" if isinstance(out, np.ndarray) else type(out).__name__
        raise ShapeError(f"resample: out: got {got}, takes an array of {x.dtype} {shape}")
    if not out.flags.writeable:
        raise ArgumentError("resample: out: got a read-only array, takes one that can be written to")
    if _firelu.may_share_elements(out):
        raise ArgumentError(
            "resample: out: got elements that share memory, takes an array whose elements have their own"
        )
    if np.may_share_memory(out, x):
        raise ArgumentError("resample: out: got memory of x, takes memory of its own")
