"""Section: how long it takes, beside numpy, scipy and a copy of the same bytes."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import firelu
import matplotlib.pyplot as plt
import numpy
import scipy.signal

from .._firelu import copy_bytes
from .page import Section
from .pictures import Array, Pictures

_TEXT = """
Times are relative to a memory copy: 1.0 means as fast as copying the same bytes, on as many threads as firelu uses.
Each time is the smallest of several; firelu writes to a new array, as numpy and scipy do. Other programs that run at
the same time disturb this: `firelu bench` measures with more care.
"""
_SHAPE = (1, 32, 256, 256)
_SECONDS = 1.0


def _time(functions: list[Callable[[], Any]]) -> list[float]:
    """Give the smallest time of several calls of each, in seconds: in turns, so that all meet the same machine."""
    for function in functions:
        function()
    best, end = [float("inf")] * len(functions), time.perf_counter() + _SECONDS
    while True:
        for i, function in enumerate(functions):
            begin = time.perf_counter()
            function()
            best[i] = min(best[i], time.perf_counter() - begin)
        if time.perf_counter() >= end:
            return best


def _by_numpy(x: Array, bias: Array) -> Array:
    shifted = x + bias[None, :, None, None]
    return numpy.where(shifted > 0, shifted, numpy.float32(0.2) * shifted) * numpy.float32(2**0.5)


def _by_scipy(x: Array, taps: Array, up: int, down: int) -> Array:
    """Give the same filter, an axis at a time: scipy knows the operation in one dimension."""
    rows = scipy.signal.upfirdn(taps, x, up, down, axis=3)
    return numpy.asarray(scipy.signal.upfirdn(taps, rows, up, down, axis=2))


def _cases() -> dict[str, tuple[int, dict[str, Callable[[], Any]]]]:
    """For each case the bytes that must be read and written, and who does it."""
    rng = numpy.random.default_rng(0)
    x = rng.standard_normal(_SHAPE, dtype=numpy.float32)
    bias = rng.standard_normal(_SHAPE[1], dtype=numpy.float32)
    taps = numpy.array([1, 3, 3, 1], dtype=numpy.float32) / 8
    kernel = firelu.make_kernel(taps)
    return {
        "leaky ReLU": (
            2 * x.nbytes,
            {
                "firelu": lambda: firelu.leaky_relu(x, 0.2),
                "numpy": lambda: numpy.where(x > 0, x, numpy.float32(0.2) * x),
            },
        ),
        "bias + leaky ReLU + scale": (
            2 * x.nbytes,
            {"firelu": lambda: firelu.fused_leaky_relu(x, bias), "numpy": lambda: _by_numpy(x, bias)},
        ),
        "blur, 4 x 4 taps": (
            2 * x.nbytes,
            {
                "firelu": lambda: firelu.upfirdn2d(x, kernel, pad=(2, 1)),
                "scipy": lambda: _by_scipy(x, taps, 1, 1),
            },
        ),
        "twice as large": (
            5 * x.nbytes,
            {
                "firelu": lambda: firelu.upfirdn2d(x, kernel, up=2, pad=(2, 1)),
                "scipy": lambda: _by_scipy(x, taps, 2, 1),
            },
        ),
        "half as large": (
            x.nbytes * 5 // 4,
            {
                "firelu": lambda: firelu.upfirdn2d(x, kernel, down=2, pad=(1, 1)),
                "scipy": lambda: _by_scipy(x, taps, 1, 2),
            },
        ),
    }


def section(pictures: Pictures) -> Section:
    """Time each case and draw the ratios to the copy."""
    table = [["case", "copy", "firelu", "numpy or scipy", "times as fast"]]
    bars: dict[str, list[float]] = {"firelu": [], "numpy or scipy": []}
    speedups = []
    for name, (moved, ways) in _cases().items():
        source = numpy.ones(moved // 8, dtype=numpy.float32)
        target = numpy.empty_like(source)
        copies = [partial(copy_bytes, source, target, streaming) for streaming in (True, False)]
        *copied, ours, theirs = _time([*copies, *ways.values()])
        copy = min(copied)
        speedups.append(theirs / ours)
        bars["firelu"].append(ours / copy)
        bars["numpy or scipy"].append(theirs / copy)
        milliseconds = [f"{1000 * seconds:.2f} ms" for seconds in (copy, ours, theirs)]
        table.append([name, *milliseconds, f"{theirs / ours:.1f}"])
    names = [row[0] for row in table[1:]]
    plot, axis = plt.subplots(figsize=(10, 3.6), layout="constrained")
    places = numpy.arange(len(names))
    for offset, (who, colour) in zip((0.2, -0.2), (("firelu", "#c2410c"), ("numpy or scipy", "#9ca3af")), strict=True):
        drawn = axis.barh(places - offset, bars[who], 0.36, color=colour, label=who)
        axis.bar_label(drawn, fmt="%.1f", padding=3, fontsize=8)
    axis.axvline(1, color="#1d4ed8", linewidth=1, label="a copy of the same bytes")
    axis.set(xscale="log", yticks=places, yticklabels=names, xlabel="time, relative to a copy")
    # Bars begin at the left edge, so it must lie below the shortest.
    lengths = bars["firelu"] + bars["numpy or scipy"]
    axis.set_xlim(min(0.5, min(lengths) / 2), 2.5 * max(lengths))
    axis.xaxis.set_major_formatter("{x:g}")
    axis.invert_yaxis()
    plot.legend(frameon=False, loc="outside upper right", ncols=3)
    shape = " x ".join(map(str, _SHAPE))
    caption = f"Time relative to a copy, {shape} float32, {firelu.get_num_threads()} threads. Shorter is better."
    finding = f"On this machine firelu is {min(speedups):.1f} to {max(speedups):.1f} times as fast as numpy and scipy."
    figure = pictures.plot("timing", plot, caption)
    return Section("Speed", _TEXT, [figure], [finding], table=table, summary=finding)
