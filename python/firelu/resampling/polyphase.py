"""One axis of a resampling: which inputs an output is summed from, with which taps."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import Any

import numpy as np

from ..errors import ArgumentError, ShapeError
from ..operands import without_gradient
from .prototypes import phase_sums, taps_by_name

# How far the sums of a kernel's phases may differ before the result shows a grid: half a level of eight bits.
PHASE_TOLERANCE = 1 / 512


@dataclass(frozen=True, eq=False)
class Polyphase:
    """Output ``j`` is the sum of input ``i`` times the tap at place ``i * up - j * down``, over all places with one."""

    up: int
    down: int
    first: int
    taps: np.ndarray[Any, Any]

    @property
    def is_identity(self) -> bool:
        """Whether every output is the input at its place."""
        return self.up == self.down == 1 and len(self.taps) == 1 and self.taps[0] == 1

    def output_length(self, length: int) -> int:
        """Give the number of outputs, ``ceil(length * up / down)``."""
        return -(-length * self.up // self.down)

    def inputs_of(self, start: int, stop: int) -> tuple[int, int]:
        """Give the range of inputs that the outputs from ``start`` to ``stop``, at least one, are summed from.

        It may reach beyond both ends of the axis.
        """
        last = self.first + len(self.taps) - 1
        return -(-(start * self.down + self.first) // self.up), ((stop - 1) * self.down + last) // self.up + 1

    def padding(self, origin: int, length: int, start: int, stop: int) -> tuple[int, int]:
        """Give what `upfirdn2d` pads inputs from ``origin`` on with, for the outputs from ``start`` to ``stop``."""
        before = origin * self.up - start * self.down - self.first
        return before, (stop - start - 1) * self.down + len(self.taps) - length * self.up - before


def make_polyphase(operator: str, kernel: Any, up: int, down: int) -> Polyphase:
    """Make the filter of one axis from a kernel's name or from taps that sum to one."""
    divisor = gcd(up, down)
    up, down = up // divisor, down // divisor
    if isinstance(kernel, str):
        return Polyphase(up, down, *taps_by_name(operator, kernel, up, down))
    without_gradient(operator, "kernel", kernel)
    try:
        taps = np.array(kernel, np.float64)
    except (TypeError, ValueError) as error:
        raise ArgumentError(f"{operator}: kernel: got {kernel!r}, takes a name or 1-D taps") from error
    if taps.ndim != 1 or taps.size == 0:
        raise ShapeError(f"{operator}: kernel: got the shape {taps.shape}, takes a name or 1-D taps")
    if not np.isfinite(taps).all():
        raise ArgumentError(f"{operator}: kernel: got NaN or infinity, takes finite taps")
    if abs(taps.sum() - 1) > 1e-3:
        raise ArgumentError(
            f"{operator}: kernel: got taps that sum to {taps.sum():.6g}, takes taps that sum to 1: divide by their sum"
        )
    sums = phase_sums(taps, up) * up
    if abs(sums - 1).max() > PHASE_TOLERANCE:
        raise ArgumentError(
            f"{operator}: kernel: got {len(taps)} taps, every {up}th of which sum to between {sums.min() / up:.3g} and "
            f"{sums.max() / up:.3g}, which lays a grid over the result; takes phases that sum alike, such as "
            f"firelu.kernels.lanczos({up})"
        )
    if (len(taps) - 1 - (down - up)) % 2:
        raise ArgumentError(
            f"{operator}: kernel: got {len(taps)} taps, takes an {'even' if (down - up) % 2 else 'odd'} number for "
            f"up={up}, down={down}: another would move the result by half a place"
        )
    first = (down - up - (len(taps) - 1)) // 2
    return Polyphase(up, down, first, taps / sums[np.arange(len(taps)) % up] * up)
