"""Aliases made by an activation: the spectra of a wave before it, after it, and with filters around it."""

from __future__ import annotations

from typing import Any

import firelu
import numpy
from matplotlib.axes import Axes

from .pictures import Array

SAMPLES = 400
FREQUENCY = 0.17
"""Cycles a sample: the wave's second harmonic fits below a half, the fourth and all others do not."""
MINE, ALIAS = "#1d4ed8", "#c2410c"


def kaiser_filters(taps: int = 24) -> tuple[Array, Array]:
    """Give the filters before and after an activation at twice the sampling rate, for `firelu.filtered_act`."""
    kernel = firelu.kernels.kaiser(0.25, 0.1, taps)
    return 2 * kernel, kernel  # the first makes up for the inserted zeros


def filtered_leaky_relu(x: Array, taps: int = 24) -> Array:
    """Give the leaky ReLU of [N, C, H, W] at twice the sampling rate, back at its own; the borders are joined."""
    up_kernel, down_kernel = kaiser_filters(taps)
    result = firelu.filtered_act(
        x, up_kernel, down_kernel, up=2, down=2, pad=(taps - 1, taps - 2), gain=1.0, border="wrap"
    )
    return numpy.asarray(result)


def wave_spectra() -> dict[str, Array]:
    """Give the strengths in decibels of the frequencies of a wave, of its leaky ReLU, and of the filtered one."""
    row = numpy.sin(2 * numpy.pi * FREQUENCY * numpy.arange(SAMPLES), dtype=numpy.float64)
    wave = numpy.tile(row, (1, 1, 64, 1))  # rows alike: nothing happens along y
    results = {
        "the signal: one wave": wave,
        "after leaky ReLU": numpy.asarray(firelu.leaky_relu(wave, 0.2)),
        "after filtered leaky ReLU": filtered_leaky_relu(wave),
    }
    # A whole number of periods, away from the ends, where a padded filter would see another signal.
    spectra = {name: numpy.abs(numpy.fft.rfft(x[0, 0, 32, 100:300])) / 100 for name, x in results.items()}
    return {name: 20 * numpy.log10(spectrum + 1e-9) for name, spectrum in spectra.items()}


def is_alias(frequencies: Array) -> Array:
    """Tell which of the frequencies only an alias can have: neither the mean, nor the wave, nor its harmonic."""
    true = numpy.array([0.0, FREQUENCY, 2 * FREQUENCY])
    return numpy.asarray(numpy.abs(frequencies[:, None] - true).min(axis=1) > 0.004)


def draw_wave_spectra(axes: Any) -> dict[str, float]:
    """Draw the three spectra side by side.

    Args:
        axes: three axes.

    Returns:
        For each spectrum, the strongest alias relative to the wave, in decibels.
    """
    strongest = {}
    for axis, (name, spectrum) in zip(axes, wave_spectra().items(), strict=True):
        frequencies = numpy.arange(len(spectrum)) / 200
        alias = is_alias(frequencies)
        _stems(axis, frequencies[~alias], spectrum[~alias], MINE, "signal and its harmonic")
        _stems(axis, frequencies[alias], spectrum[alias], ALIAS, "aliases")
        strongest[name] = float(spectrum[alias].max())
        axis.set(xlim=(-0.01, 0.5), ylim=(-80, 5), xlabel="cycles per sample", title=name)
    axes[0].set_ylabel("strength, dB")
    axes[1].legend(frameon=False, fontsize=8, loc="upper right")
    return strongest


def _stems(axis: Axes, places: Array, levels: Array, colour: str, label: str) -> None:
    seen = levels > -80
    axis.vlines(places[seen], -80, levels[seen], color=colour, linewidth=2, label=label)
    axis.plot(places[seen], levels[seen], ".", color=colour)
