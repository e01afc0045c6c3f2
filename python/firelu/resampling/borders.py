"""What lies beyond the ends of an axis: `numpy.pad`'s rules as maps of indices."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import ArgumentError

BORDERS = ("constant", "edge", "reflect", "symmetric", "wrap")
_ALIASES = {"zeros": "constant", "replicate": "edge", "circular": "wrap"}


def border_name(operator: str, border: Any) -> str:
    """Give the rule's own name, or refuse it."""
    name = _ALIASES.get(border, border) if isinstance(border, str) else border
    if name not in BORDERS:
        raise ArgumentError(f"{operator}: border: got {border!r}, takes {', '.join(map(repr, BORDERS))}")
    return str(name)


def border_indices(start: int, stop: int, length: int, border: str) -> np.ndarray[Any, Any]:
    """Give, for the places ``start`` to ``stop`` of an axis extended without end, the samples that stand there.

    Not for "constant", whose places beyond the ends have no sample. ``length`` is at least 1.
    """
    places = np.arange(start, stop)
    if border == "edge" or length == 1:
        return places.clip(0, length - 1)
    if border == "wrap":
        return places % length
    if border == "reflect":
        period = 2 * (length - 1)
        places = places % period
        return np.minimum(places, period - places)
    places = places % (2 * length)
    return np.minimum(places, 2 * length - 1 - places)
