"""Section: a small network of the StyleGAN3 kind, whose image is moved by parts of a pixel."""

from __future__ import annotations

from collections.abc import Callable

import firelu
import matplotlib.pyplot as plt
import numpy

from .aliasing import ALIAS, MINE, draw_wave_spectra, filtered_leaky_relu
from .page import Section
from .pictures import Array, Pictures, decibels, level, show, varying

_TEXT = """
An activation makes harmonics. Those above half the sampling rate fold back to frequencies that are not in the signal:
aliases. `firelu.filtered_act` upsamples, activates, filters and downsamples in one pass, so the aliases are filtered
away before they fold. In StyleGAN3 this is `filtered_lrelu`.

The network below has waves as its input and eight layers of random mixing and leaky ReLU. Moving the waves must move
the image. With aliases, texture sticks to the pixel grid instead: the error is the part that does not move.
"""
_SIZE, _CHANNELS, _LAYERS = 128, 16, 8
_SHIFTS = numpy.linspace(0, 1, 9)


def _waves(shift: float) -> Array:
    """Give the input, [1, C, H, W]: waves of random directions, at most a quarter cycle a pixel, moved along x."""
    rng = numpy.random.default_rng(7)
    turns = rng.integers(-_SIZE // 5, _SIZE // 5, (_CHANNELS, 2)) / _SIZE
    phases = rng.random(_CHANNELS)[:, None, None]
    y, x = numpy.mgrid[:_SIZE, :_SIZE].astype(float)
    angle = turns[:, :1, None] * (x - shift) + turns[:, 1:, None] * y + phases
    return numpy.asarray(numpy.sin(2 * numpy.pi * angle)[None], dtype=numpy.float32)


def network(shift: float, activation: Callable[[Array], Array]) -> Array:
    """Give the image of the network, [1, 3, H, W] around zero, for an input moved by a part of a pixel."""
    rng = numpy.random.default_rng(3)
    features = _waves(shift)
    for layer in range(_LAYERS):
        channels = _CHANNELS if layer < _LAYERS - 1 else 3
        weights = rng.standard_normal((channels, _CHANNELS)).astype(numpy.float32)
        features = numpy.einsum("ij,njhw->nihw", weights, features, optimize=True)
        features = varying(features) / features.std()
        if layer < _LAYERS - 1:
            features = activation(features)
    return features


def _moved(image: Array, shift: float) -> Array:
    """Give an image moved along x by a part of a pixel, exactly: by the phases of its frequencies."""
    frequencies = numpy.fft.fftfreq(image.shape[-1])
    spectrum = numpy.fft.fft(image.astype(numpy.float64)) * numpy.exp(-2j * numpy.pi * frequencies * shift)
    return numpy.asarray(numpy.fft.ifft(spectrum).real)


def section(pictures: Pictures) -> Section:
    """Draw the spectra, run the network with both activations, and measure what sticks to the pixels."""
    ways: dict[str, Callable[[Array], Array]] = {
        "leaky ReLU": lambda x: numpy.asarray(firelu.leaky_relu(x, 0.2)),
        "filtered leaky ReLU": filtered_leaky_relu,
    }
    plot, axes = plt.subplots(1, 3, figsize=(12, 3), layout="constrained", sharey=True)
    strongest = list(draw_wave_spectra(axes).values())
    spectra = pictures.plot("aliasing", plot, "A wave, its leaky ReLU, and the filtered one: aliases are red.")

    plot, axes = plt.subplot_mosaic("ABCDE", figsize=(12, 2.9), layout="constrained", width_ratios=[1, 1, 1, 1, 1.35])
    errors = []
    for (image_axis, error_axis), (name, activation), colour in zip(
        (("A", "B"), ("C", "D")), ways.items(), (ALIAS, MINE), strict=True
    ):
        still = network(0.0, activation)
        differences = [network(shift, activation) - _moved(still, shift) for shift in _SHIFTS]
        curve = [decibels(difference, still) for difference in differences]
        errors.append(curve[len(_SHIFTS) // 2])
        show(axes[image_axis], still * 0.18 + 0.5, name)
        show(axes[error_axis], differences[len(_SHIFTS) // 2] * 0.36 + 0.5, f"error x 2: {level(errors[-1])}")
        axes["E"].plot(_SHIFTS[1:-1], curve[1:-1], ".-", color=colour, label=name)
    axes["E"].set(xlabel="moved by, pixels", title="the part that does not move, dB", xlim=(0, 1))
    axes["E"].set_ylim(min(errors) - 8, max(errors) + 12)
    axes["E"].legend(frameon=False, fontsize=8, loc="upper right")
    caption = "The image, and what sticks to the pixels when the input moves by half a pixel (x 2; grey: nothing)."
    image = pictures.plot("equivariance", plot, caption)
    findings = [
        f"The strongest alias of a wave: {level(strongest[1])} after leaky ReLU, {level(strongest[2])} when filtered.",
        f"Moved by half a pixel, {_LAYERS} layers: error {level(errors[0])} with leaky ReLU, {level(errors[1])} with "
        "filtered leaky ReLU.",
    ]
    return Section("Activations without aliases (StyleGAN3)", _TEXT, [spectra, image], findings)
