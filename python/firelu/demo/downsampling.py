"""Section: a picture made smaller, with and without a filter."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy

import firelu

from .kernels import KERNELS
from .page import Section
from .pictures import Array, Pictures, decibels, interior, low_frequencies, show, spectrum

_TEXT = """
Half the pixels can hold half the frequencies. What is finer must be filtered away first, or it comes back as a pattern
that was never there: an alias. upfirdn2d filters and keeps every second pixel in one pass, and never computes the ones
that are dropped.

The second row is the alias alone. It is exact, not a guess: resampling is linear, so the resampled picture is what
comes of its low frequencies plus what comes of the frequencies the small picture cannot hold, and the latter is shown.
The last row is the spectrum of the result.
"""
_BORDER = 16


def _ways() -> dict[str, numpy.ufunc]:
    ways = {"nearest neighbour": lambda x: numpy.ascontiguousarray(x[..., ::2, ::2])}
    for name, taps in KERNELS.items():
        kernel = firelu.make_kernel(taps)
        ways[name] = lambda x, kernel=kernel: firelu.downsample2d(x, kernel, 2)
    return ways


def section(pictures: Pictures) -> Section:
    """Halve the fine picture with each kernel."""
    source = pictures.fine
    low = low_frequencies(source, 2)
    table = [["kernel", "alias beside signal", "loss of what could be kept"]]
    gallery = [pictures.save("original", source, f"original, {source.shape[3]} x {source.shape[2]}")]
    ways = _ways()
    plot, axes = plt.subplots(3, len(ways), figsize=(3 * len(ways), 9.4), layout="constrained")
    for column, (name, down) in zip(axes.T, ways.items(), strict=True):
        result, kept = down(source), down(low)
        alias = result - kept
        alias_level = decibels(interior(alias, _BORDER), _varying(interior(kept, _BORDER)))
        loss = decibels(_varying(interior(kept, _BORDER)), _varying(interior(low, 2 * _BORDER)))
        table.append([name, f"{alias_level:+.1f} dB", f"{loss:+.1f} dB"])
        show(column[0], result, f"{name}\nalias {alias_level:+.1f} dB")
        show(column[1], alias + 0.5)
        column[2].imshow(spectrum(result), cmap="magma", vmin=-90, vmax=-20, extent=(-0.5, 0.5, -0.5, 0.5))
        column[2].set(xticks=[-0.5, 0, 0.5], yticks=[-0.5, 0, 0.5])
        slug = name.strip("[]").replace(", ", "").replace(" ", "_")
        gallery.append(pictures.save(f"smaller_{slug}", result, name))
    for axis, title in zip(axes[:, 0], ("result", "its alias", "its spectrum, cycles per pixel"), strict=True):
        axis.set_axis_on()
        axis.set_ylabel(title)
        if title != "its spectrum, cycles per pixel":
            axis.set(xticks=[], yticks=[])
    caption = "Half the size: the result, the alias in it (grey is none), and the spectrum of the result."
    figure = pictures.plot("downsampling", plot, caption)
    worst, best = table[1], table[-1]
    finding = f"Halved without a filter the alias is {worst[1]} beside the signal; with {best[0]} it is {best[1]}."
    return Section("Smaller: aliases", _TEXT, [figure], [finding], table=table, gallery=gallery)


def _varying(picture: Array) -> Array:
    """The picture without its mean, which no kernel changes."""
    return picture - picture.mean(axis=(2, 3), keepdims=True)
