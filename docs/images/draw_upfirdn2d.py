"""Draw the figures of docs/upfirdn2d.md: python docs/images/draw_upfirdn2d.py (needs firelu[demo])."""

from __future__ import annotations

import tempfile
from pathlib import Path

import firelu
import matplotlib as mpl
import numpy as np

mpl.use("Agg")
import matplotlib.pyplot as plt
from firelu.demo import downsampling, upsampling
from firelu.demo.pictures import Pictures
from PIL import Image

HERE = Path(__file__).parent
REAL, FILLED = "#c2410c", "#9ca3af"


def draw_steps() -> None:
    """Draw the four steps on one row of samples."""
    x = np.array([1.0, 3.0, 2.0, 4.0, 2.5])
    taps = np.array([1.0, 3.0, 3.0, 1.0]) / 4
    up, down, before, after = 2, 3, 2, 1
    inserted = np.zeros(len(x) * up)
    inserted[::up] = x
    padded = np.pad(inserted, (before, after))
    filtered = np.convolve(padded, taps, mode="valid")
    result = filtered[::down]
    row = firelu.upfirdn2d(x[None], taps[None], up=(up, 1), down=(down, 1), pad=(before, after, 0, 0))[0]
    np.testing.assert_allclose(row, result, rtol=1e-6)

    figure, axes = plt.subplots(5, 1, figsize=(9, 8.2), layout="constrained", sharey=True)
    real = np.zeros(len(padded), dtype=bool)
    real[before : before + len(inserted) : up] = True
    kept = np.zeros(len(filtered), dtype=bool)
    kept[::down] = True
    steps = [
        (x, np.ones(len(x), dtype=bool), "the samples", 0),
        (inserted, real[before : before + len(inserted)], f"1. insert {up - 1} zero after each (up = {up})", 0),
        (padded, real, f"2. pad {before} before and {after} after (negative numbers crop)", -before),
        (filtered, kept, "3. convolve with the kernel [1, 3, 3, 1] / 4", -before + 3),
        (result, np.ones(len(result), dtype=bool), f"4. keep every {down}rd (down = {down})", 0),
    ]
    for axis, (values, strong, title, start) in zip(axes, steps, strict=True):
        places = np.arange(len(values)) + start
        for places_, values_, colour in (
            (places[~strong], values[~strong], FILLED),
            (places[strong], values[strong], REAL),
        ):
            axis.vlines(places_, 0, values_, color=colour, linewidth=2)
            axis.plot(places_, values_, "o", color=colour, markersize=7)
        axis.axhline(0, color="0.8", linewidth=0.8, zorder=0)
        axis.set(xlim=(-2.6, 11.6), xticks=[], yticks=[])
        axis.set_title(title, loc="left", fontsize=11)
        for side in ("top", "right", "left", "bottom"):
            axis.spines[side].set_visible(False)
    save(figure, "upfirdn2d_steps.png")


def draw_responses() -> None:
    """Draw which frequencies the usual kernels let through."""
    from firelu.demo.kernels import KERNELS

    figure, axis = plt.subplots(figsize=(9, 3.6), layout="constrained")
    frequency = np.linspace(0, 0.5, 400)
    kernels = {"nearest neighbour, no filter": np.array([1.0]), **KERNELS}
    for name, taps in kernels.items():
        taps = taps / taps.sum()
        phases = np.exp(-2j * np.pi * frequency[:, None] * np.arange(len(taps)))
        axis.plot(frequency, 20 * np.log10(np.abs(phases @ taps) + 1e-6), label=name)
    axis.axvspan(0.25, 0.5, color="0.93", zorder=0)
    axis.annotate(
        "these frequencies fold back\nwhen every second sample is kept", (0.37, -8), ha="center", color="0.35"
    )
    axis.set(xlabel="cycles per sample", ylabel="response, dB", ylim=(-60, 4), xlim=(0, 0.5))
    axis.legend(frameon=False, loc="lower left")
    save(figure, "upfirdn2d_responses.png")


def draw_pictures() -> None:
    """Take over the demo's two figures, as wide as the column of the site: a browser that shrinks them adds aliases."""
    settings = {"figure.dpi": 69, "font.size": 11, "axes.titlesize": 11}
    with tempfile.TemporaryDirectory() as directory, plt.rc_context(settings):
        pictures = Pictures(Path(directory), None)
        for section, name in ((downsampling.section, "smaller"), (upsampling.section, "larger")):
            (figure,) = section(pictures).figures
            with Image.open(figure.path) as image:
                image.convert("RGB").save(HERE / f"upfirdn2d_{name}.png", optimize=True)


def save(figure: plt.Figure, name: str) -> None:
    """Write the figure without the version and the date, so that the same numbers give the same file."""
    figure.savefig(HERE / name, dpi=110, metadata={"Software": None})
    plt.close(figure)


if __name__ == "__main__":
    draw_steps()
    draw_responses()
    draw_pictures()
