"""Does time grow with the data and nothing else? Time per element from 10^4 elements to 10^9, beside the copy's own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median
from typing import Any

import numpy as np

from .. import functional
from .cases import TAPS
from .measure import Array, Run, all_of, copies, in_turns, yardstick

#: Half a decade apart. The largest has 4 GB of input and as much of output.
SIZES = (10_000, 31_623, 100_000, 316_228, 10**6, 3_162_278, 10**7, 31_622_777, 10**8, 316_227_766, 10**9)
#: Where a quick run stops.
QUICK = 10**8
WIDTH = HEIGHT = 512


def shape_of(elements: int) -> tuple[int, int, int, int]:
    """Give the nearest shape: one plane of ever more rows, then ever more planes, so that rows are alike throughout."""
    rows = max(1, round(elements / WIDTH))
    planes = max(1, round(rows / HEIGHT))
    return 1, planes, round(rows / planes), WIDTH


def _filled(shape: tuple[int, ...]) -> Array:
    """Give random values without an array of temporaries: a block of them, again and again."""
    x = np.empty(shape, np.float32)
    flat = x.reshape(-1)
    block = np.random.default_rng(0).standard_normal(min(flat.size, 1 << 20), np.float32)
    for start in range(0, flat.size, block.size):
        flat[start : start + block.size] = block[: flat.size - start]
    return x


def measure_size(elements: int, rounds: int) -> dict[str, Any]:
    """Time the operators and the copy on arrays of one size, all with the same input and output."""
    x = _filled(shape_of(elements))
    out = np.zeros_like(x)
    bias, kernel = np.linspace(-1, 1, x.shape[1], dtype=np.float32), np.outer(TAPS, TAPS)
    ours: dict[str, Run] = {
        "leaky relu": lambda: functional.leaky_relu(x, 0.2, out=out),
        "fused bias + leaky relu": lambda: functional.fused_leaky_relu(x, bias, out=out),
        "blur 4x4": lambda: functional.upfirdn2d(x, kernel, pad=(2, 1), out=out),
    }
    turns = in_turns(ours | copies(x, out), rounds)
    seconds = {name: median(all_of(taken)) for name, taken in turns.items()}
    copy = yardstick(seconds)
    return {
        "elements": x.size,
        "copy_seconds": seconds[copy],
        "seconds": {name: seconds[name] for name in ours},
        "ratios": {name: _ratio(turns[name], turns[copy]) for name in ours},
    }


def _ratio(ours: Sequence[Sequence[float]], copy: Sequence[Sequence[float]]) -> float:
    """Compare each turn with the copy's own: so few of them may not meet fast and slow memory equally often."""
    return median(median(taken) / median(copied) for taken, copied in zip(ours, copy, strict=False))


def measure(rounds: int, largest: int) -> Iterator[dict[str, Any]]:
    """Time one size after the other; each one's memory is free before the next."""
    for elements in SIZES:
        if elements <= largest:
            yield measure_size(elements, rounds)
