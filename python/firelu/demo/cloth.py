"""A photo-like image with more detail than a smaller one can hold: two pieces of cloth and three buttons."""

from __future__ import annotations

from typing import Any

import numpy
from numpy.typing import NDArray

Array = NDArray[Any]


def _smooth(rng: numpy.random.Generator, shape: tuple[int, int], length: float) -> Array:
    """Give smooth random values with a deviation of 1, whose hills are about ``length`` pixels wide."""
    spectrum = numpy.fft.rfft2(rng.standard_normal(shape))
    y, x = numpy.fft.fftfreq(shape[0])[:, None], numpy.fft.rfftfreq(shape[1])[None]
    spectrum *= numpy.exp(-2 * (numpy.pi * length / 4) ** 2 * (x**2 + y**2))
    values = numpy.fft.irfft2(spectrum, shape)
    return numpy.asarray((values - values.mean()) / values.std())


def _threads(along: Array, across: Array, period: float, colours: Array, weave: Array) -> Array:
    """Give woven cloth: threads of two directions, each with a round profile, over and under in turn."""
    warp, weft = along / period, across / period
    over = (numpy.floor(warp) + numpy.floor(weft)) % 2 == 0
    round_warp, round_weft = (0.62 + 0.38 * numpy.sin(numpy.pi * (turns % 1)) for turns in (warp, weft))
    first = colours[weave[numpy.floor(warp).astype(int) % len(weave)]]
    second = colours[weave[numpy.floor(weft).astype(int) % len(weave)]]
    cloth = numpy.where(over[..., None], first * round_warp[..., None], second * round_weft[..., None])
    return numpy.asarray(cloth)


def cloth(height: int = 960, width: int = 1200) -> Array:
    """Give the image, [1, 3, H, W] float32 in 0 to 1."""
    rng = numpy.random.default_rng(5)
    y, x = numpy.mgrid[:height, :width].astype(float)
    scale = min(height, width) / 960
    folds = _smooth(rng, (height, width), 420 * scale)
    sway = _smooth(rng, (height, width), 300 * scale)
    light = 0.86 + 0.16 * numpy.gradient(folds, axis=1) * 110 * scale + 0.05 * sway

    # A jacket of tweed on the right, a shirt with fine stripes on the left, and an edge between them.
    edge = width * (0.34 + 0.16 * y / height) + 10 * scale * sway
    tweed = _threads(
        0.966 * (x + 16 * folds) + 0.259 * y,
        -0.259 * x + 0.966 * (y + 12 * sway),
        4.3 * scale,
        numpy.array([[0.72, 0.66, 0.56], [0.20, 0.21, 0.26], [0.55, 0.28, 0.16]]),
        numpy.array([0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 2]),
    )
    turns = (0.94 * (x + 14 * sway) - 0.34 * y) / (4.0 * scale)
    stripe = numpy.clip(0.5 + 1.6 * numpy.sin(2 * numpy.pi * turns), 0, 1)[..., None]
    shirt = numpy.array([0.95, 0.95, 0.97]) * (1 - stripe) + numpy.array([0.24, 0.40, 0.66]) * stripe
    inside = numpy.clip((x - edge) / (2 * scale), 0, 1)[..., None]
    image = (shirt * (0.9 + 0.1 * light[..., None])) * (1 - inside) + tweed * light[..., None] * inside
    shadow = numpy.exp(-numpy.clip(edge - x, 0, None) / (22 * scale)) * (x < edge)
    image *= (1 - 0.55 * shadow)[..., None]
    rim = numpy.exp(-(((x - edge - 5 * scale) / (3 * scale)) ** 2))
    image *= (1 - 0.45 * rim)[..., None]
    for place in (0.2, 0.52, 0.84):
        centre = (width * (0.34 + 0.16 * place) + 105 * scale, height * place)
        image = _button(image, x - centre[0], y - centre[1], 34 * scale)
    image += 0.008 * rng.standard_normal(image.shape)
    return numpy.asarray(numpy.clip(image, 0, 1).astype(numpy.float32).transpose(2, 0, 1)[None])


def _button(image: Array, x: Array, y: Array, radius: float) -> Array:
    """Give the image with a horn button and its shadow."""
    distance = numpy.hypot(x, y)
    shadow = numpy.clip(1 - (numpy.hypot(x - 0.18 * radius, y - 0.25 * radius) - radius) / (0.4 * radius), 0, 1)
    image = image * (1 - 0.5 * shadow * (distance > radius))[..., None]
    dome = 0.55 + 0.35 * numpy.clip(-(x + y) / (1.6 * radius), -1, 1)
    ring = 1 - 0.45 * numpy.exp(-(((distance - 0.76 * radius) / (0.07 * radius)) ** 2))
    shine = 0.5 * numpy.exp(-((numpy.hypot(x + 0.4 * radius, y + 0.42 * radius) / (0.2 * radius)) ** 2))
    face = (dome * ring)[..., None] * numpy.array([0.55, 0.36, 0.22]) + shine[..., None]
    for hole_x, hole_y in ((-1, -1), (-1, 1), (1, -1), (1, 1)):
        hole = numpy.hypot(x - 0.2 * radius * hole_x, y - 0.2 * radius * hole_y) < 0.11 * radius
        face = numpy.where(hole[..., None], 0.06, face)
    cover = numpy.clip(radius - distance + 0.5, 0, 1)[..., None]
    return numpy.asarray(image * (1 - cover) + face * cover)
