"""Resampling kernels as functions of distance, and the taps they become for a rational factor."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import ArgumentError

Array = np.ndarray[Any, Any]
NAMES = ("box", "triangle", "cubic", "mitchell", "lanczos2", "lanczos3", "lanczos4", "kaiser")
_ALIASES = {"area": "box", "linear": "triangle", "bilinear": "triangle", "bicubic": "cubic", "lanczos": "lanczos3"}
_KAISER_HALF_WIDTH, _KAISER_BETA = 5, 6.0


def _triangle(t: Array) -> Array:
    return np.where(abs(t) < 1, 1 - abs(t), 0.0)


def _cubic(b: float, c: float) -> Callable[[Array], Array]:
    """Give the cubic of Mitchell and Netravali with these two parameters; (0, 1/2) is Keys' cubic."""

    def function(t: Array) -> Array:
        t = abs(t)
        near = (12 - 9 * b - 6 * c) * t**3 + (-18 + 12 * b + 6 * c) * t**2 + (6 - 2 * b)
        far = (-b - 6 * c) * t**3 + (6 * b + 30 * c) * t**2 + (-12 * b - 48 * c) * t + (8 * b + 24 * c)
        return np.where(t < 1, near, np.where(t < 2, far, 0.0)) / 6

    return function


def _lanczos(lobes: int) -> Callable[[Array], Array]:
    return lambda t: np.where(abs(t) < lobes, np.sinc(t) * np.sinc(t / lobes), 0.0)


def _kaiser(t: Array) -> Array:
    inside = np.sqrt(np.maximum(1 - (t / _KAISER_HALF_WIDTH) ** 2, 0))
    window: Array = np.i0(_KAISER_BETA * inside) / np.i0(_KAISER_BETA)
    return np.where(abs(t) < _KAISER_HALF_WIDTH, np.sinc(t) * window, 0.0)


def _prototype(operator: str, name: str) -> tuple[Callable[[Array], Array], int]:
    """Give a kernel's function of distance in samples of the coarser grid, and where it ends."""
    known: dict[str, tuple[Callable[[Array], Array], int]] = {
        "triangle": (_triangle, 1),
        "cubic": (_cubic(0, 1 / 2), 2),
        "mitchell": (_cubic(1 / 3, 1 / 3), 2),
        "kaiser": (_kaiser, _KAISER_HALF_WIDTH),
    }
    if name in known:
        return known[name]
    if lanczos := re.fullmatch(r"lanczos([1-9]\d?)", name):
        return _lanczos(int(lanczos[1])), int(lanczos[1])
    raise ArgumentError(f"{operator}: kernel: got {name!r}, takes {', '.join(map(repr, NAMES))}, or 1-D taps")


def taps_by_name(operator: str, name: str, up: int, down: int) -> tuple[int, Array]:
    """Give the taps of a named kernel for the factor ``up / down`` in lowest terms, and the place of the first.

    Places are counted on the grid that has ``up`` places for each input sample: output ``j`` takes input ``i`` with the
    tap at place ``i * up - j * down``. The kernel's centre is at ``(down - up) / 2``, and it is as wide as the coarser
    of both grids asks for. Every ``up``-th tap sums to one, so that a constant stays what it is.
    """
    name = _ALIASES.get(name, name)
    coarse, twice_centre = max(up, down), down - up
    if name == "box":
        # How much of an input sample lies inside an output sample: the mean over its area, for any factor.
        reach = (up + down) / 2
    else:
        function, half_width = _prototype(operator, name)
        reach = float(half_width * coarse)
    first = int(np.ceil(twice_centre / 2 - reach))
    places = np.arange(first, int(np.floor(twice_centre / 2 + reach)) + 1)
    distance = (2 * places - twice_centre) / 2
    taps = np.clip(reach - abs(distance), 0, min(up, down)) if name == "box" else function(distance / coarse)
    taps = np.where(abs(taps) < 1e-15 * abs(taps).max(), 0.0, taps)
    kept = np.flatnonzero(taps)
    first, taps = first + int(kept[0]), taps[kept[0] : kept[-1] + 1]
    return first, taps / phase_sums(taps, up)[np.arange(len(taps)) % up]


def phase_sums(taps: Array, up: int) -> Array:
    """Give the sum of every ``up``-th tap from each of the first ``up`` on."""
    padded = np.zeros(-(-len(taps) // up) * up)
    padded[: len(taps)] = taps
    sums: Array = padded.reshape(-1, up).sum(axis=0)
    return sums
