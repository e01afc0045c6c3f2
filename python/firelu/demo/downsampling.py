"""Section: a picture made smaller, with and without a filter."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import firelu
import matplotlib.pyplot as plt

from .kernels import KERNELS
from .page import Section
from .pictures import (
    Array,
    Pictures,
    decibels,
    interior,
    level,
    low_frequencies,
    show,
    slug,
    spectrum_by_frequency,
    varying,
)

_TEXT = """
Half the pixels can hold half the frequencies. What is finer must be filtered away first, or it comes back as a pattern
that was never there: an alias. upfirdn2d filters and keeps every second pixel in one pass, and never computes the ones
that are dropped.

The second row is the alias alone. It is exact, not a guess: resampling is linear, so the small picture is what comes
of the frequencies it can hold plus what comes of those it cannot, and the latter is shown. The last row is the spectrum
of both parts: where the alias reaches the signal, nobody can tell them apart any more.
"""
_BORDER = 16


def _ways() -> dict[str, Callable[[Array], Array]]:
    ways: dict[str, Callable[[Array], Array]] = {"nearest neighbour": lambda x: x[..., ::2, ::2]}
    for name, taps in KERNELS.items():
        ways[name] = partial(firelu.downsample2d, kernel=firelu.make_kernel(taps), factor=2)
    return ways


def section(pictures: Pictures) -> Section:
    """Halve the fine picture with each kernel."""
    source = pictures.fine
    low = low_frequencies(source, 2)
    table = [["kernel", "alias beside signal", "loss of what could be kept"]]
    gallery = [pictures.save("original", source, f"original, {source.shape[3]} x {source.shape[2]}")]
    ways = _ways()
    plot, axes = plt.subplots(3, len(ways), figsize=(3 * len(ways), 8.2), layout="constrained")
    for column, (name, down) in zip(axes.T, ways.items(), strict=True):
        result, kept = down(source), down(low)
        alias = result - kept
        strength = level(decibels(interior(alias, _BORDER), varying(interior(kept, _BORDER))))
        loss = level(decibels(varying(interior(kept, _BORDER)), varying(interior(low, 2 * _BORDER))))
        table.append([name, strength, loss])
        show(column[0], result, name)
        show(column[1], alias + 0.5, f"its alias: {strength}")
        column[2].plot(*spectrum_by_frequency(kept), color="#1d4ed8", label="signal")
        column[2].plot(*spectrum_by_frequency(alias), color="#c2410c", label="alias")
        column[2].set(xlim=(0, 0.5), ylim=(-80, -20), xlabel="cycles per pixel")
        gallery.append(pictures.save(f"smaller_{slug(name)}", result, name))
    axes[2, 0].set_ylabel("spectrum, dB")
    axes[2, -1].legend(frameon=False)
    caption = "Half the size: the result, the alias in it (grey is none), and the spectra of signal and alias."
    figure = pictures.plot("downsampling", plot, caption)
    finding = "Alias beside the signal: " + ", ".join(f"{row[0]} {row[1]}" for row in table[1:]) + "."
    return Section("Smaller: aliases", _TEXT, [figure], [finding], table=table, gallery=gallery)
