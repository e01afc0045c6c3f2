"""The kernels that the demo compares, for a factor of two."""

from __future__ import annotations

from typing import Any

import numpy
from numpy.typing import NDArray


def windowed_sinc(taps: int, factor: int = 2, beta: float = 5.0) -> NDArray[Any]:
    """Give the ideal low-pass filter for a factor, cut off by a Kaiser window after `taps` taps."""
    place = numpy.arange(taps) - (taps - 1) / 2
    return numpy.sinc(place / factor) * numpy.kaiser(taps, beta)


KERNELS: dict[str, NDArray[Any]] = {
    "[1, 1]": numpy.array([1.0, 1.0]),
    "[1, 3, 3, 1]": numpy.array([1.0, 3.0, 3.0, 1.0]),
    "12-tap windowed sinc": windowed_sinc(12),
}
