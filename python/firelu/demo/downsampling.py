"""Section: an image made smaller, with and without a filter."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
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
    place_pixels,
    show,
    slug,
    spectrum_by_frequency,
    varying,
)

_TEXT = """
A smaller image cannot show the finest detail. That detail must be filtered away first, or it comes back as a pattern
that was never there: an alias. upfirdn2d filters and keeps every second pixel in one pass, and never computes the
others.

The second row shows the alias alone, three times as strong; grey means no alias. Resampling is linear, so the alias is
exactly what the detail that is too fine leaves in the result. The last row shows the spectra: where the alias is as
strong as the signal, nothing can separate the two. A longer kernel keeps more of the signal for about as little alias.
"""
_BORDER = 16


def _ways() -> dict[str, Callable[[Array], Array]]:
    ways: dict[str, Callable[[Array], Array]] = {"nearest neighbour": lambda x: x[..., ::2, ::2]}
    for name, taps in KERNELS.items():
        ways[name] = partial(firelu.downsample2d, kernel=firelu.make_kernel(taps), factor=2, border="reflect")
    return ways


def section(pictures: Pictures) -> Section:
    """Halve the fine image with each kernel."""
    source = pictures.fine
    low = low_frequencies(source, 2)
    table = [["kernel", "alias, relative to the signal", "signal that is kept"]]
    gallery = [pictures.save("original", source, f"original, {source.shape[3]} x {source.shape[2]}")]
    ways = _ways()
    plot, axes = plt.subplots(3, len(ways), figsize=(3 * len(ways), 6.6), layout="compressed", height_ratios=[5, 5, 4])
    width = int(plot.bbox.width / len(ways) / 13) * 10  # about as large as its place in the drawing
    part = (slice(None), slice(None), slice(0, width * 4 // 5), slice(200 - width, 200))  # shirt and jacket
    for column, (name, down) in zip(axes.T, ways.items(), strict=True):
        result, kept = down(source), down(low)
        alias = result - kept
        strength = level(decibels(interior(alias, _BORDER), varying(interior(kept, _BORDER))))
        loss = level(decibels(varying(interior(kept, _BORDER)), varying(interior(low, 2 * _BORDER))))
        table.append([name, strength, loss])
        show(column[0], result[part], name)
        show(column[1], 3 * alias[part] + 0.5, f"alias x 3: {strength}")
        column[2].plot(*spectrum_by_frequency(kept), color="#1d4ed8", label="signal")
        column[2].plot(*spectrum_by_frequency(alias), color="#c2410c", label="alias")
        column[2].set(xlim=(0, 0.5), xlabel="cycles per pixel")
        gallery.append(pictures.save(f"smaller_{slug(name)}", result, name))
    drawn = [line.get_ydata() for axis in axes[2] for line in axis.lines]
    highest = max(values.max() for values in drawn)
    for axis in axes[2]:  # all on one scale that fits the image
        axis.set_ylim(max(min(values.min() for values in drawn), highest - 90) - 3, highest + 5)
    axes[2, 0].set_ylabel("spectrum, dB")
    axes[2, -1].legend(frameon=False)
    place_pixels(plot, axes[:2].flat)
    caption = "Half the size: the result, the alias in it (x 3; grey: none), and the spectra of signal and alias."
    figure = pictures.plot("downsampling", plot, caption)
    finding = "Alias, relative to the signal (and signal that is kept): "
    finding += ", ".join(f"{row[0]} {row[1]} ({row[2]})" for row in table[1:]) + "."
    return Section(
        "Smaller: aliases",
        _TEXT,
        [figure],
        [finding],
        table=table,
        gallery=gallery,
        hero=[
            replace(gallery[1], caption="every second pixel: false stripes"),
            replace(gallery[3], caption="firelu: detail that is too fine is averaged"),
        ],
        summary=f"Half the size: the false pattern (alias) of nearest neighbour is at {table[1][1]} relative to the "
        f"image, that of firelu with [1, 3, 3, 1] at {table[3][1]}.",
    )
