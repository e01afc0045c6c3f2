"""Draw the images of docs/alias-free.md: python docs/images/draw_alias_free.py (needs firelu[demo])."""

from pathlib import Path

import firelu
import matplotlib.pyplot as plt
import numpy
from firelu.demo.aliasing import draw_wave_spectra

FOLDER = Path(__file__).parent
DESIGNS = {
    "12 taps, wide (vocoders)": (firelu.kernels.kaiser(0.25, 0.3, 12), "#9ca3af"),
    "12 taps, half width 0.1": (firelu.kernels.kaiser(0.25, 0.1, 12), "#c2410c"),
    "24 taps, half width 0.1": (firelu.kernels.kaiser(0.25, 0.1, 24), "#1d4ed8"),
    "48 taps, half width 0.05": (firelu.kernels.kaiser(0.25, 0.05, 48), "#111827"),
}


def save(figure, name: str) -> None:
    """Write a drawing without version and date, so that equal drawings are equal files."""
    figure.savefig(FOLDER / name, dpi=100, metadata={"Software": None}, facecolor="white")
    plt.close(figure)


def draw_spectra() -> None:
    """Draw a wave's spectrum before the activation, after it, and filtered."""
    figure, axes = plt.subplots(3, 1, figsize=(7.2, 6.6), layout="constrained", sharex=True, sharey=True)
    draw_wave_spectra(axes)
    for axis in axes:
        axis.label_outer()
        axis.set_ylabel("strength, dB")
    save(figure, "aliasing.png")


def draw_filters() -> None:
    """Draw the taps of some designs and how much of each frequency they let through."""
    figure, (taps_axis, response_axis) = plt.subplots(2, 1, figsize=(7.2, 6), layout="constrained")
    frequencies = numpy.linspace(0, 0.5, 500)
    for name, (taps, colour) in DESIGNS.items():
        places = numpy.arange(len(taps)) - (len(taps) - 1) / 2
        taps_axis.plot(places, taps, ".-", color=colour, label=name, linewidth=1)
        response = numpy.abs(numpy.exp(-2j * numpy.pi * frequencies[:, None] * places) @ taps)
        response_axis.plot(frequencies, 20 * numpy.log10(response + 1e-6), color=colour, label=name)
    taps_axis.set(title="taps", xlabel="samples of the upsampled signal")
    response_axis.axvline(0.25, color="#9ca3af", linewidth=0.8, linestyle="--")
    response_axis.set(xlim=(0, 0.5), ylim=(-90, 3), title="how much of each frequency passes")
    response_axis.set(xlabel="cycles per sample of the upsampled signal", ylabel="dB")
    taps_axis.legend(frameon=False)
    save(figure, "alias_free_filters.png")


if __name__ == "__main__":
    plt.rcParams.update({"axes.spines.top": False, "axes.spines.right": False})
    draw_spectra()
    draw_filters()
