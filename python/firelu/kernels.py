"""FIR kernels by name and factor, and resampling with the padding worked out.

The makers give 1-D float32 taps that sum to one. For a whole factor they serve `upsample2d` and `downsample2d` alike; a
fraction is what `firelu.resample` enlarges by.

>>> import firelu
>>> firelu.kernels.triangle(2)
array([0.125, 0.375, 0.375, 0.125], dtype=float32)
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from ._firelu import Tensor
from .errors import ArgumentError, ShapeError
from .functional import _pair, upfirdn2d
from .layouts import refuse_colours_last
from .operands import without_gradient
from .resampling.prototypes import taps_by_name
from .typing import Array, ArrayLike, NumpyArray

# How far the sums of a kernel's phases may differ: more than half types round off, less than shows as a grid.
_PHASE_TOLERANCE = 1 / 100

__all__ = [
    "box",
    "by_name",
    "cubic",
    "downsample2d",
    "filter2d",
    "kaiser",
    "lanczos",
    "make_kernel",
    "mitchell",
    "triangle",
    "upsample2d",
]


def by_name(name: str, factor: int | Fraction) -> NumpyArray:
    """Make the 1-D taps of a named kernel for a factor: "box", "triangle", "cubic", "mitchell", "lanczos3", "kaiser".

    Args:
        name: which kernel; "lanczos" with any number of lobes, as in "lanczos5".
        factor: how many times larger the image becomes; smaller for a fraction below one. Taps for a whole factor
            also shrink by it.

    Returns:
        (K,) float32 with the sum one, and the same sum for every phase.

    >>> import firelu
    >>> len(firelu.kernels.by_name("lanczos3", 4))
    24
    """
    try:
        ratio = Fraction(factor).limit_denominator(10**6) if not isinstance(factor, (bool, str)) else Fraction(0)
    except (TypeError, ValueError, OverflowError):
        ratio = Fraction(0)
    if ratio <= 0:
        raise ArgumentError(f"by_name: factor: got {factor!r}, takes a whole number or a fraction above zero")
    if not isinstance(name, str):
        raise ArgumentError(f"by_name: name: got {name!r}, takes the name of a kernel")
    _, taps = taps_by_name("by_name", name, ratio.numerator, ratio.denominator)
    return (taps / ratio.numerator).astype(np.float32)


def box(factor: int | Fraction) -> NumpyArray:
    """Make taps that average over areas; enlarging repeats samples. See `by_name`."""
    return by_name("box", factor)


def triangle(factor: int | Fraction) -> NumpyArray:
    """Make taps that interpolate linearly. See `by_name`."""
    return by_name("triangle", factor)


def cubic(factor: int | Fraction) -> NumpyArray:
    """Make the taps of Keys' cubic, a = -1/2, as Pillow's and torch's (with antialias). See `by_name`."""
    return by_name("cubic", factor)


def mitchell(factor: int | Fraction) -> NumpyArray:
    """Make the taps of Mitchell's and Netravali's cubic, B = C = 1/3: softer, with little ringing. See `by_name`."""
    return by_name("mitchell", factor)


def lanczos(factor: int | Fraction, lobes: int = 3) -> NumpyArray:
    """Make taps of a sinc windowed by a longer sinc's main lobe; more lobes are sharper. See `by_name`.

    >>> import firelu
    >>> firelu.kernels.lanczos(2, lobes=1)
    array([0.05, 0.45, 0.45, 0.05], dtype=float32)
    """
    if isinstance(lobes, bool) or not hasattr(lobes, "__index__") or not 1 <= lobes < 100:
        raise ArgumentError(f"lanczos: lobes: got {lobes!r}, takes a whole number from 1 to 99")
    return by_name(f"lanczos{lobes}", factor)


def kaiser(cutoff: float, half_width: float, taps: int) -> NumpyArray:
    """Make a low-pass filter: a sinc under Kaiser's window.

    Args:
        cutoff: the frequency that passes at half its strength, in cycles per sample:
            1 / (2 * factor) to resample by a factor.
        half_width: half the width of the transition around the cutoff, in cycles per sample;
            a wider one attenuates more.
        taps: how many.

    Returns:
        (taps,) float32 with the sum one.

    >>> import firelu
    >>> firelu.kernels.kaiser(0.25, 0.3, 12)[:3].round(4)
    array([ 0.002 ,  0.0094, -0.0255], dtype=float32)
    """
    if isinstance(taps, bool) or not hasattr(taps, "__index__") or taps < 1:
        raise ArgumentError(f"kaiser: taps: got {taps!r}, takes a whole number from 1 on")
    if not (0 < cutoff <= 0.5 and 0 < half_width < math.inf):
        raise ArgumentError(
            f"kaiser: cutoff, half_width: got {cutoff}, {half_width}, takes a cutoff up to 1/2 and a width above zero"
        )
    # Kaiser's estimates: the attenuation that the width of the fall allows, and the window's parameter for it.
    attenuation = 2.285 * (taps // 2 - 1) * math.pi * 4 * half_width + 7.95
    beta = 0.0
    if attenuation > 50:
        beta = 0.1102 * (attenuation - 8.7)
    elif attenuation >= 21:
        beta = 0.5842 * (attenuation - 21) ** 0.4 + 0.07886 * (attenuation - 21)
    times = np.arange(taps) - (taps - 1) / 2
    values = np.kaiser(taps, beta) * np.sinc(2 * cutoff * times)
    result: NumpyArray = (values / values.sum()).astype(np.float32)
    return result


def make_kernel(taps: ArrayLike, *, normalize: bool = True, gain: float = 1.0) -> NumpyArray:
    """Make a 2-D kernel: the outer product of 1-D taps with themselves, or 2-D taps as they are.

    Args:
        taps: (K,) or (KH, KW) numbers.
        normalize: divide by the sum, so that a constant image keeps its brightness.
        gain: what the kernel is then multiplied by (``factor**2`` makes up for inserted zeros).

    Returns:
        (K, K) or (KH, KW), float32.

    >>> import firelu
    >>> firelu.make_kernel([1, 1])
    array([[0.25, 0.25],
           [0.25, 0.25]], dtype=float32)
    """
    without_gradient("make_kernel", "taps", taps)
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
    """Give the padding that keeps the image centred; ``lead`` of the factor goes before the first sample."""
    padding: list[int] = []
    for count, factor in zip(taps, factors, strict=True):
        total = count - factor
        padding += [(total + 1) // 2 + lead * (factor - 1), total // 2]
    return padding[0], padding[1], padding[2], padding[3]


# For what filters and does not resize.
FILTER_REMEDY = "pass x.transpose(2, 0, 1), or x[None] where these are no colours"


def _check_picture(operator: str, x: Any) -> None:
    """Refuse an image with its colours last, of which rows and columns would not be what is resampled."""
    remedy = f"call firelu.resize(x, size) or firelu.resample(x, up, down, axes=(0, 1)), or {FILTER_REMEDY}"
    refuse_colours_last(operator, "x", np.shape(x), "resample", remedy)


def _check_sum(operator: str, kernel: Any) -> None:
    """Refuse a plain list that is not normalised: whoever writes one expects the brightness to stay."""
    if hasattr(kernel, "shape"):
        return
    if (taps := _numbers(kernel)) is None:
        raise ArgumentError(f"{operator}: kernel: got {kernel!r}, takes numbers")
    total = float(taps.sum()) ** (2 if taps.ndim == 1 else 1)
    if abs(total - 1) > 1e-3:
        raise ArgumentError(
            f"{operator}: kernel: got a list that makes the image {total:.6g} times as bright, takes taps that sum "
            f"to 1: pass firelu.make_kernel({kernel!r}), or an array where that is meant"
        )


def _check_phases(operator: str, kernel: Any, factors: tuple[int, int]) -> None:
    """Refuse a kernel whose phases do not sum alike. Of tensors, which are learned, nothing is asked."""
    taps = None if isinstance(kernel, Tensor) else _numbers(kernel)
    if taps is None or not all(hasattr(factor, "__index__") and factor >= 1 for factor in factors):
        return  # The operator itself says what it takes.
    if taps.ndim == 1:
        taps = np.multiply.outer(taps, taps)
    if taps.shape[0] < factors[1] or taps.shape[1] < factors[0]:
        wrong = "some samples would be zero"
    else:
        sums = np.array(
            [[taps[y :: factors[1], x :: factors[0]].sum() for x in range(factors[0])] for y in range(factors[1])]
        )
        sums *= factors[0] * factors[1]
        if not abs(sums - sums.mean()).max() > _PHASE_TOLERANCE * abs(sums).max():
            return
        wrong = f"a constant would become values from {sums.min():.3g} to {sums.max():.3g}"
    factor = max(factors)
    raise ArgumentError(
        f"{operator}: kernel: got {taps.shape[0]} x {taps.shape[1]} taps, which cannot enlarge by {factor}: {wrong}, a "
        f"grid over the image; takes taps whose phases sum alike, such as firelu.kernels.lanczos({factor}); "
        "upfirdn2d takes any"
    )


def _numbers(kernel: Any) -> NumpyArray | None:
    """Give a kernel in float64; None where it is not numbers."""
    try:
        return np.asarray(kernel, np.float64)
    except (TypeError, ValueError):
        return None


def filter2d(
    x: Array,
    kernel: ArrayLike,
    *,
    flip_kernel: bool = False,
    gain: float = 1.0,
    border: str = "constant",
    out: Array | None = None,
) -> Array:
    """Filter an image and keep its size.

    Args:
        x: (..., H, W).
        kernel: (KH, KW), or (K,) for the outer product with itself.
        flip_kernel: correlate instead of convolving.
        gain: what the result is multiplied by.
        border: what lies outside: "constant" (zeros), "edge", "reflect", "symmetric" or "wrap", as in `numpy.pad`.
        out: an array of x's shape and dtype to write to.

    Returns:
        (..., H, W) of x's dtype. With an even number of taps the image moves by half a sample down and right.

    >>> import numpy, firelu
    >>> firelu.filter2d(numpy.ones((3, 3)), firelu.make_kernel([1, 2, 1]))[1, 1]
    np.float64(1.0)
    """
    refuse_colours_last("filter2d", "x", np.shape(x), "filter across", FILTER_REMEDY)
    pad = _centred(_taps(kernel), (1, 1), 0)
    return upfirdn2d(x, kernel, pad=pad, flip_kernel=flip_kernel, gain=gain, border=border, out=out)


def upsample2d(
    x: Array,
    kernel: ArrayLike,
    factor: int | tuple[int, int] = 2,
    *,
    flip_kernel: bool = False,
    gain: float = 1.0,
    border: str = "constant",
    out: Array | None = None,
) -> Array:
    """Enlarge an image; its brightness is kept although zeros are inserted.

    Args:
        x: (..., H, W).
        kernel: (KH, KW), or (K,) for the outer product with itself; normalised (`make_kernel`, `firelu.kernels`), and
            of phases that sum alike: others would lay a grid over the image and are refused.
        factor: an int or (x, y).
        flip_kernel: correlate instead of convolving.
        gain: what the result is multiplied by, beside the product of both factors.
        border: what lies outside: "constant" (zeros), "edge", "reflect", "symmetric" or "wrap", as in `numpy.pad`.
        out: an array of the result's shape and x's dtype to write to.

    Returns:
        (..., H * factor, W * factor) of x's dtype.

    >>> import numpy, firelu
    >>> firelu.upsample2d(numpy.ones((4, 4)), firelu.make_kernel([1, 3, 3, 1])).shape
    (8, 8)
    """
    factors = _pair("factor", factor)
    pad = _centred(_taps(kernel), factors, 1)
    _check_picture("upsample2d", x)
    _check_sum("upsample2d", kernel)
    _check_phases("upsample2d", kernel, factors)
    gain = gain * factors[0] * factors[1]
    return upfirdn2d(x, kernel, up=factors, pad=pad, flip_kernel=flip_kernel, gain=gain, border=border, out=out)


def downsample2d(
    x: Array,
    kernel: ArrayLike,
    factor: int | tuple[int, int] = 2,
    *,
    flip_kernel: bool = False,
    gain: float = 1.0,
    border: str = "constant",
    out: Array | None = None,
) -> Array:
    """Shrink an image without aliasing: filter, then keep every ``factor``-th sample.

    Args:
        x: (..., H, W).
        kernel: (KH, KW), or (K,) for the outer product with itself; normalised (`make_kernel`).
        factor: an int or (x, y).
        flip_kernel: correlate instead of convolving.
        gain: what the result is multiplied by.
        border: what lies outside: "constant" (zeros), "edge", "reflect", "symmetric" or "wrap", as in `numpy.pad`.
        out: an array of the result's shape and x's dtype to write to.

    Returns:
        (..., H // factor, W // factor) of x's dtype.

    >>> import numpy, firelu
    >>> firelu.downsample2d(numpy.ones((8, 8)), firelu.make_kernel([1, 3, 3, 1])).shape
    (4, 4)
    """
    factors = _pair("factor", factor)
    pad = _centred(_taps(kernel), factors, 0)
    _check_picture("downsample2d", x)
    _check_sum("downsample2d", kernel)
    return upfirdn2d(x, kernel, down=factors, pad=pad, flip_kernel=flip_kernel, gain=gain, border=border, out=out)
