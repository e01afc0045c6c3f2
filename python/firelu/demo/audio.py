"""Section: sound, through the snake activation of neural vocoders, with and without filters."""

from __future__ import annotations

import wave
from pathlib import Path

import firelu
import matplotlib.pyplot as plt
import numpy

from .aliasing import ALIAS, MINE
from .page import Section, Sound
from .pictures import Array, Pictures

_TEXT = """
Vocoders such as BigVGAN use snake, x + sin²(αx) / α. It makes many harmonics, and a sound has few samples a period, so
they fold back as tones that fall while the melody rises. `firelu.filtered_snake` runs snake at a higher sampling rate
between two filters, in one pass.

The upper row shows a tone that rises from 300 to 6000 Hz: true harmonics rise with it, aliases fall. The lower row
shows the spectra of a steady tone. Listen to all three.
"""
RATE = 24_000
_TONE = 3_100
_ALPHA = numpy.array([2.5])
_RATIO = 4
_TAPS = firelu.kernels.kaiser(0.45 / _RATIO, 0.06 / _RATIO, 24 * _RATIO)


def _glide(seconds: float = 2.0) -> Array:
    """Give a tone that rises from 300 to 6000 Hz."""
    time = numpy.arange(int(seconds * RATE)) / RATE
    return numpy.sin(2 * numpy.pi * (300 * time + (6000 - 300) * time**2 / (2 * seconds)))


def _ways(x: Array) -> dict[str, Array]:
    signal = x[None, None]  # one sound, one channel
    return {
        "the tone": x,
        "snake": numpy.asarray(firelu.snake(signal, _ALPHA))[0, 0],
        "filtered snake": numpy.asarray(firelu.filtered_snake(signal, _ALPHA, None, _TAPS, _TAPS, ratio=_RATIO))[0, 0],
    }


def write_wav(path: Path, samples: Array) -> None:
    """Write a sound as 16-bit mono WAV: without its mean, at nine tenths of full scale."""
    centred = samples - samples.mean()
    scaled = numpy.round(centred / max(float(numpy.abs(centred).max()), 1e-9) * 0.9 * 32767)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes(scaled.astype("<i2").tobytes())


def _spectrum(samples: Array) -> tuple[Array, Array]:
    """Give frequencies in Hz and strengths in decibels relative to the strongest, by Blackman's window."""
    samples = samples[RATE // 10 :][:8000]
    strength = numpy.abs(numpy.fft.rfft((samples - samples.mean()) * numpy.blackman(len(samples))))
    return numpy.fft.rfftfreq(len(samples), 1 / RATE), 20 * numpy.log10(strength / strength.max() + 1e-6)


def alias_level(samples: Array, tone: float = _TONE) -> float:
    """Give the strongest frequency below half the rate that is no harmonic of the tone, in dB below the strongest."""
    frequencies, levels = _spectrum(samples)
    distance = numpy.abs(frequencies - numpy.round(frequencies / tone) * tone)
    return float(levels[(distance > 30) & (frequencies > 30)].max())


def section(pictures: Pictures) -> Section:
    """Write the sounds and draw their spectra."""
    glides = _ways(_glide())
    tones = _ways(numpy.sin(2 * numpy.pi * _TONE * numpy.arange(RATE) / RATE))
    plot, axes = plt.subplots(2, 3, figsize=(12, 5.6), layout="constrained", sharey="row")
    sounds = []
    colours = (MINE, ALIAS, MINE)
    for column, (name, glide), tone, colour in zip(axes.T, glides.items(), tones.values(), colours, strict=True):
        path = pictures.directory / f"sound_{name.replace(' ', '_')}.wav"
        write_wav(path, glide)
        sounds.append(Sound(path, name))
        column[0].specgram(
            glide - glide.mean() + 1e-7, NFFT=512, noverlap=384, Fs=RATE / 1000, cmap="magma", vmin=-90, vmax=-25
        )
        column[0].set(title=name, xlabel="milliseconds")
        frequencies, levels = _spectrum(tone)
        column[1].plot(frequencies / 1000, levels, color=colour, linewidth=1)
        column[1].set(xlim=(0, RATE / 2000), ylim=(-100, 5), xlabel="kHz")
    axes[0, 0].set_ylabel("kHz")
    axes[1, 0].set_ylabel("strength, dB")
    caption = f"A rising tone (spectrograms) and a tone of {_TONE} Hz (spectra), sampled at {RATE} Hz."
    figure = pictures.plot("sound", plot, caption)
    plain, filtered = (alias_level(tones[name]) for name in ("snake", "filtered snake"))
    finding = f"The strongest false tone: {plain:+.1f} dB with snake, {filtered:+.1f} dB with filtered snake."
    return Section("Sound without aliases (vocoders)", _TEXT, [figure], [finding], sounds=sounds)
