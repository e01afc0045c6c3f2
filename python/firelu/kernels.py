"""FIR kernels, and resampling with the padding worked out."""

from __future__ import annotations

from typing import Any

import numpy as np

from .errors import ArgumentError, ShapeError
from .functional import _pair, upfirdn2d


def make_kernel(taps: Any, *, normalize: bool = True, gain: float = 1.0) -> np.ndarray[Any, Any]:
    """Make a 2-D kernel: the outer product of 1-D taps with themselves, or 2-D taps as they are.

    Args:
        taps: (K,) or (KH, KW) numbers.
        normalize: divide by the sum, so that a constant picture keeps its brightness.
        gain: what the kernel is then multiplied by (``factor**2`` makes up for inserted zeros).

    Returns:
        (K, K) or (KH, KW), float32.

    >>> import firelu
    >>> firelu.make_kernel([1, 1])
    array([[0.25, 0.25],
           [0.25, 0.25]], dtype=float32)
    """
    try:
        kernel = np.asarray(taps, np.float64)
    except (TypeError, ValueError) as error:
        raise ArgumentError(f"make_kernel: taps: got {taps!r}, takes numbers") from error
    if kernel.ndim == 1:
        kernel = np.outer(kernel, kernel)
    if kernel.ndim != 2 or 0 in kernel.shape:
        raise ShapeError(f"make_kernel: taps: got the shape {np.shape(taps)}, takes one or two dimensions with taps")
    if not np.isfinite(kernel).all():
        raise ArgumentError("make_kernel: taps: got NaN or infinity, takes finite numbers")
    if normalize:
        total = kernel.sum()
        if total == 0:
            raise ArgumentError("make_kernel: taps: got a sum of zero, takes another sum, or normalize=False")
        kernel = kernel / total
    return (kernel * gain).astype(np.float32)


def _taps(kernel: Any) -> tuple[int, int]:
    """Give the taps of a kernel along x and y."""
    shape = np.shape(kernel)
    if len(shape) not in (1, 2):
        raise ShapeError(f"UpFirDn2d: K: got {shape}, takes (KH, KW) or (K,)")
    return shape[-1], shape[0]


def _centred(taps: tuple[int, int], factors: tuple[int, int], lead: int) -> tuple[int, int, int, int]:
    """Give the padding that keeps the picture centred; ``lead`` of the factor goes before the first sample."""
    padding: list[int] = []
    for count, factor in zip(taps, factors, strict=True):
        total = count - factor
        padding += [(total + 1) // 2 + lead * (factor - 1), total // 2]
    return padding[0], padding[1], padding[2], padding[3]


def filter2d(x: Any, kernel: Any, *, flip_kernel: bool = False, gain: float = 1.0, out: Any = None) -> Any:
    """Filter a picture and keep its size.

    Args:
        x: (..., H, W).
        kernel: (KH, KW), or (K,) for the outer product with itself.
        flip_kernel: correlate instead of convolving.
        gain: what the result is multiplied by.
        out: an array of x's shape and dtype to write to.

    Returns:
        (..., H, W) of x's dtype. With an even number of taps the picture moves by half a sample down and right.

    >>> import numpy, firelu
    >>> firelu.filter2d(numpy.ones((3, 3)), firelu.make_kernel([1, 2, 1]))[1, 1]
    np.float64(1.0)
    """
    pad = _centred(_taps(kernel), (1, 1), 0)
    return upfirdn2d(x, kernel, pad=pad, flip_kernel=flip_kernel, gain=gain, out=out)


def upsample2d(
    x: Any,
    kernel: Any,
    factor: int | tuple[int, int] = 2,
    *,
    flip_kernel: bool = False,
    gain: float = 1.0,
    out: Any = None,
) -> Any:
    """Enlarge a picture; its brightness is kept although zeros are inserted.

    Args:
        x: (..., H, W).
        kernel: (KH, KW), or (K,) for the outer product with itself; normalised (`make_kernel`).
        factor: an int or (x, y).
        flip_kernel: correlate instead of convolving.
        gain: what the result is multiplied by, beside the product of both factors.
        out: an array of the result's shape and x's dtype to write to.

    Returns:
        (..., H * factor, W * factor) of x's dtype.

    >>> import numpy, firelu
    >>> firelu.upsample2d(numpy.ones((4, 4)), firelu.make_kernel([1, 3, 3, 1])).shape
    (8, 8)
    """
    factors = _pair("factor", factor)
    pad = _centred(_taps(kernel), factors, 1)
    gain = gain * factors[0] * factors[1]
    return upfirdn2d(x, kernel, up=factors, pad=pad, flip_kernel=flip_kernel, gain=gain, out=out)


def downsample2d(
    x: Any,
    kernel: Any,
    factor: int | tuple[int, int] = 2,
    *,
    flip_kernel: bool = False,
    gain: float = 1.0,
    out: Any = None,
) -> Any:
    """Shrink a picture without aliasing: filter, then keep every ``factor``-th sample.

    Args:
        x: (..., H, W).
        kernel: (KH, KW), or (K,) for the outer product with itself; normalised (`make_kernel`).
        factor: an int or (x, y).
        flip_kernel: correlate instead of convolving.
        gain: what the result is multiplied by.
        out: an array of the result's shape and x's dtype to write to.

    Returns:
        (..., H // factor, W // factor) of x's dtype.

    >>> import numpy, firelu
    >>> firelu.downsample2d(numpy.ones((8, 8)), firelu.make_kernel([1, 3, 3, 1])).shape
    (4, 4)
    """
    factors = _pair("factor", factor)
    pad = _centred(_taps(kernel), factors, 0)
    return upfirdn2d(x, kernel, down=factors, pad=pad, flip_kernel=flip_kernel, gain=gain, out=out)
