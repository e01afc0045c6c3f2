"""Section: an image made larger, with and without a filter."""

from __future__ import annotations

import firelu
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from .kernels import KERNELS, windowed_sinc
from .page import Section
from .pictures import (
    Array,
    Pictures,
    decibels,
    interior,
    level,
    low_frequencies,
    show,
    signal_to_noise,
    slug,
    spectrum,
    varying,
)

_TEXT = """
Inserting zeros between the pixels repeats the spectrum; the copies show as blocks and jagged edges. The kernel
removes them. upfirdn2d never computes with the inserted zeros.

The small image is a quarter of the original and is doubled twice. The second row is the difference from the original;
the last is the spectrum, where copies lie outside the middle square.
"""
_FACTOR = 4
_BORDER = 24


def section(pictures: Pictures) -> Section:
    """Enlarge a quarter-size image with each kernel."""
    truth = pictures.scene
    fine = firelu.make_kernel(windowed_sinc(24, _FACTOR))
    small = firelu.downsample2d(truth, fine, _FACTOR, border="reflect")
    results = {"nearest neighbour": small.repeat(_FACTOR, axis=2).repeat(_FACTOR, axis=3)}
    for name, taps in KERNELS.items():
        if name == "[1, 1]":
            continue  # it repeats each pixel: nearest neighbour by another name
        kernel = firelu.make_kernel(taps)
        twice = firelu.upsample2d(small, kernel, 2, border="reflect")
        results[name] = firelu.upsample2d(twice, kernel, 2, border="reflect")
    table = [["kernel", "spectral copies, relative to the signal", "signal to noise, compared with the original"]]
    gallery = [pictures.save("small", small, f"the small image, {small.shape[3]} x {small.shape[2]}")]
    plot, axes = plt.subplots(3, len(results) + 1, figsize=(3 * (len(results) + 1), 8.8), layout="compressed")
    height, width = truth.shape[2:]
    part = (slice(None), slice(None), slice(height // 5, height * 4 // 5), slice(width // 5, width * 4 // 5))
    show(axes[0, 0], truth[part], "original")
    show(axes[1, 0], small, "the small image")
    _draw_spectrum(axes[2, 0], truth)
    for column, (name, result) in zip(axes.T[1:], results.items(), strict=True):
        images = interior(result - low_frequencies(result, _FACTOR), _BORDER)
        strength = level(decibels(images, varying(interior(result, _BORDER))))
        close = signal_to_noise(interior(result, _BORDER), interior(truth, _BORDER))
        table.append([name, strength, f"{close:.1f} dB"])
        show(column[0], result[part], f"{name}\n{close:.1f} dB")
        show(column[1], (result - truth)[part] * 2 + 0.5, "difference x 2")
        _draw_spectrum(column[2], result)
        gallery.append(pictures.save(f"larger_{slug(name)}", result, name))
    caption = "Four times as large: the result, its difference from the original (x 2; grey: none), and its spectrum."
    figure = pictures.plot("upsampling", plot, caption)
    finding = "Spectral copies, relative to the signal: " + ", ".join(f"{row[0]} {row[1]}" for row in table[1:]) + "."
    return Section(
        "Larger: jagged edges",
        _TEXT,
        [figure],
        [finding],
        table=table,
        gallery=gallery,
        summary=f"Four times as large: {table[1][2]} signal to noise for nearest neighbour, {table[-1][2]} for a "
        f"{table[-1][0]}.",
    )


def _draw_spectrum(axis: Axes, picture: Array) -> None:
    axis.imshow(spectrum(picture), cmap="magma", vmin=-110, vmax=-30, extent=(-0.5, 0.5, -0.5, 0.5))
    axis.add_patch(Rectangle((-0.125, -0.125), 0.25, 0.25, fill=False, edgecolor="white", linewidth=0.8))
    axis.set(xticks=[-0.25, 0, 0.25], yticks=[], xlabel="cycles per pixel", title="spectrum")
