"""Filters along one axis: views of the two-dimensional operator, in which the axis is that of rows or of columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ._firelu import Tensor, run_operator
from .errors import ArgumentError, ShapeError
from .functional import _lend_shape, upfirdn2d
from .operands import array, settled
from .typing import Array, ArrayLike


def upfirdn1d(
    x: Array,
    kernel: ArrayLike,
    up: int = 1,
    down: int = 1,
    pad: int | Sequence[int] = (0, 0),
    *,
    axis: int = -1,
    flip_kernel: bool = False,
    gain: float = 1.0,
    border: str = "constant",
    out: Array | None = None,
) -> Array:
    """Upsample, pad, filter, downsample along one axis; see `firelu.upfirdn2d`.

    Args:
        x: an array of any rank but zero and any strides. Of a `firelu.Tensor`, the axis is one of the last two.
        kernel: (K,) of any float dtype, or a list of numbers.
        up: how many samples each one becomes (``up - 1`` zeros follow it).
        down: which samples are kept.
        pad: samples added after upsampling, negative to crop: an int, or (before, after).
        axis: the axis that is filtered.
        flip_kernel: correlate instead of convolving.
        gain: what the result is multiplied by.
        border: what padding is filled with: "constant" (zeros), "edge", "reflect", "symmetric" or "wrap".
        out: an array of the result's shape and x's dtype to write to.

    Returns:
        An array of x's dtype in x's memory order, whose axis has ``(N * up + pad0 + pad1 - K) // down + 1`` samples.

    >>> import numpy, firelu
    >>> firelu.upfirdn1d(numpy.array([1.0, 2.0, 3.0]), [1, 1], pad=(1, 0), border="edge")
    array([2., 3., 5.])
    """
    given = {"up": up, "down": down, "pad": pad, "flip_kernel": flip_kernel, "gain": gain, "border": border}
    up, down, pad, flip_kernel, gain, border = (settled("upfirdn1d", *each) for each in given.items())
    arguments = (up, down, padding(pad), flip_kernel, gain, border)
    if isinstance(x, Tensor):
        filtered: Tensor = _of_tensor(x, kernel, axis, arguments, out)
        return filtered
    x, taps = array("upfirdn1d", "x", x), _line(kernel)
    axis = place(axis, x.shape)
    if out is not None and not (isinstance(out, np.ndarray) and out.ndim == x.ndim):
        raise ShapeError(f"upfirdn1d: out: got {_described(out)}, takes an array of the result's shape")
    target = None if out is None else np.asarray(out)
    if x.ndim == 1 or x.size == 0:
        # A row of its own: beside it there may be no samples.
        rows = np.moveaxis(x, axis, -1)[..., None, :]
        rows_out = None if target is None else np.moveaxis(target, axis, -1)[..., None, :]
        result = _filter(rows, taps, arguments, along_rows=True, out=rows_out)
        return out if out is not None else np.moveaxis(result[..., 0, :], -1, axis)
    steps = [(abs(step) if length > 1 else x.itemsize * x.size, other) for other, (step, length) in _dimensions(x)]
    nearest = min(step for step in steps if step[1] != axis)
    # Whichever axis has its samples closest to each other runs along rows.
    along_rows = steps[axis] <= nearest
    axes = (nearest[1], axis) if along_rows else (axis, nearest[1])
    view = np.moveaxis(x, axes, (-2, -1))
    view_out = None if target is None else np.moveaxis(target, axes, (-2, -1))
    result = _filter(view, taps, arguments, along_rows=along_rows, out=view_out)
    return out if out is not None else np.moveaxis(result, (-2, -1), axes)


def padding(pad: Any) -> tuple[int, int]:
    """Give the padding before and after."""
    if isinstance(pad, int) or hasattr(pad, "__index__"):
        return pad, pad
    if isinstance(pad, (tuple, list)) and len(pad) == 2:
        return pad[0], pad[1]
    raise ArgumentError(f"upfirdn1d: pad: got {pad!r}, takes an int or (before, after)")


def place(axis: int, shape: Sequence[int]) -> int:
    """Give an axis counted from the first."""
    if isinstance(axis, bool) or not hasattr(axis, "__index__") or not -len(shape) <= axis < len(shape):
        raise ArgumentError(f"upfirdn1d: axis: got {axis!r}, takes an axis of {tuple(shape)}")
    return int(axis) % len(shape)


def in_two_dimensions(arguments: tuple[Any, ...], along_rows: bool) -> dict[str, Any]:
    """Give the arguments of `upfirdn2d` that do the same along rows, or along columns."""
    up, down, pad, flip_kernel, gain, border = arguments
    if isinstance(up, (tuple, list)) or isinstance(down, (tuple, list)):
        name, got = ("up", up) if isinstance(up, (tuple, list)) else ("down", down)
        raise ArgumentError(f"upfirdn1d: {name}: got {got!r}, takes an int")
    return {
        "up": (up, 1) if along_rows else (1, up),
        "down": (down, 1) if along_rows else (1, down),
        "pad": (*pad, 0, 0) if along_rows else (0, 0, *pad),
        "flip_kernel": flip_kernel,
        "gain": gain,
        "border": border,
    }


def _dimensions(x: np.ndarray[Any, Any]) -> Any:
    return enumerate(zip(x.strides, x.shape, strict=True))


def _described(value: Any) -> str:
    return str(value.shape) if hasattr(value, "shape") else repr(value)


def _line(kernel: Any) -> Any:
    taps = array("upfirdn1d", "kernel", kernel)
    if taps.ndim != 1:
        raise ShapeError(f"upfirdn1d: kernel: got {tuple(taps.shape)}, takes (K,)")
    if isinstance(taps, np.ndarray) and taps.dtype.kind in "biu":
        taps = taps.astype(np.float64)
    return taps


def _filter(view: Any, taps: Any, arguments: tuple[Any, ...], *, along_rows: bool, out: Any = None) -> Any:
    if isinstance(taps, Tensor):
        shape = (1, taps.shape[0]) if along_rows else (taps.shape[0], 1)
        like = _lend_shape("upfirdn1d", "kernel", shape, "float32")
        kernel = run_operator("BroadcastLike", taps, like, axes=[0 if along_rows else 1])
    else:
        kernel = taps[None, :] if along_rows else taps[:, None]
    return upfirdn2d(view, kernel, **in_two_dimensions(arguments, along_rows), out=out)


def _of_tensor(x: Tensor, kernel: Any, axis: int, arguments: tuple[Any, ...], out: Any) -> Any:
    """Filter a tensor, whose axes have no views: one of the last two, or the only one, by operators with a gradient."""
    axis, taps = place(axis, x.shape), _line(kernel)
    if x.ndim == 1:
        if out is not None:
            raise ArgumentError("upfirdn1d: out: got a tensor, takes None beside a tensor of one dimension")
        like = _lend_shape("upfirdn1d", "x", (1, *x.shape), "float32")
        row = run_operator("BroadcastLike", x, like, axes=[0])
        return run_operator("ReduceSum", _filter(row, taps, arguments, along_rows=True), axes=[0])
    if axis < x.ndim - 2:
        raise ArgumentError(f"upfirdn1d: axis: got {axis}, takes one of the last two axes of a tensor, {x.shape}")
    return _filter(x, taps, arguments, along_rows=axis == x.ndim - 1, out=out)
