"""Images: made, read, filtered in the frequency domain, and written."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import firelu
import matplotlib as mpl
import numpy
from numpy.typing import NDArray
from PIL import Image, ImageOps

mpl.use("Agg")  # no window is opened, wherever this runs

import matplotlib.pyplot as plt
from matplotlib.figure import Figure as Plot

from .cloth import cloth
from .kernels import windowed_sinc
from .page import Figure

Array = NDArray[Any]

SIZE = 512
_LARGEST = 1024
_SUPERSAMPLES = 4
_NOTHING = 1e-12  # a mean square as small as what float32 makes of values around 1

plt.rcParams.update(
    {
        "font.size": 10,
        "axes.titlesize": 10,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "figure.dpi": 87,  # twelve inches are the width of the page's column: what a browser shrinks gets aliases
    }
)


class Pictures:
    """The images the demo works on, [1, 3, H, W] float32 in 0 to 1, and where its files go."""

    def __init__(self, directory: Path, image: Path | None) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        if image is None:
            self.source = "generated"
            self.fine, self.scene = _fine(), scene(SIZE)
        else:
            self.source = image.name
            self.fine = self.scene = read(image)

    def save(self, name: str, picture: Array, caption: str) -> Figure:
        """Write [1, 3, H, W] or [1, 1, H, W] in 0 to 1 pixel for pixel as PNG."""
        values = numpy.clip(picture[0] * 255 + 0.5, 0, 255).astype(numpy.uint8).transpose(1, 2, 0)
        path = self.directory / f"{name}.png"
        Image.fromarray(values[:, :, 0] if values.shape[2] == 1 else values).save(path)
        return Figure(path, caption)

    def plot(self, name: str, plot: Plot, caption: str) -> Figure:
        """Write a drawing as PNG, without version and date, so that equal drawings are equal files."""
        path = self.directory / f"{name}.png"
        plot.savefig(path, metadata={"Software": None}, facecolor="white")
        plt.close(plot)
        return Figure(path, caption)


def _fine() -> Array:
    """Give the cloth at 640 x 800, made twice as large: drawn at once it would have aliases of its own."""
    kernel = firelu.make_kernel(windowed_sinc(12))
    return numpy.asarray(firelu.downsample2d(cloth(1280, 1600), kernel, 2, border="reflect"))


def read(path: Path) -> Array:
    """Read a picture file as [1, 3, H, W], upright, cropped to a multiple of 8, at most 1024 on a side."""
    with Image.open(path) as opened:
        image = _plain(ImageOps.exif_transpose(opened))
    image.thumbnail((_LARGEST, _LARGEST))
    width, height = image.width // 8 * 8, image.height // 8 * 8
    if min(width, height) < 64:
        raise OSError(f"{path}: got {image.width} x {image.height} pixels, takes at least 64 x 64")
    values = numpy.asarray(image.crop((0, 0, width, height)), dtype=numpy.float32)
    grey = image.mode == "F"
    values = numpy.repeat(numpy.clip(values, 0, 1)[:, :, None], 3, axis=2) if grey else values / numpy.float32(255)
    return numpy.ascontiguousarray(values.transpose(2, 0, 1)[None])


def _plain(image: Image.Image) -> Image.Image:
    """Give 8-bit RGB on white, or one channel of floats in 0 to 1 where 8 bits are too few for what is there."""
    if image.mode.startswith("I") or image.mode == "F":
        # Pillow would cut off these at 255 instead of scaling them.
        values = numpy.nan_to_num(numpy.asarray(image, dtype=numpy.float32))
        largest = {"I": 65535.0, "F": 1.0}[image.mode[0]]
        return Image.fromarray(values / max(largest, float(values.max())))
    if image.mode in ("LA", "La", "PA", "RGBA", "RGBa") or "transparency" in image.info:
        image = image.convert("RGBA")
        # What is transparent has a colour too, which nobody was meant to see.
        return Image.alpha_composite(Image.new("RGBA", image.size, "white"), image).convert("RGB")
    return image.convert("RGB")


def scene(size: int) -> Array:
    """Discs, a star and thin lines: edges of every direction, each pixel the mean of 16 samples."""
    fine = size * _SUPERSAMPLES
    y, x = (numpy.mgrid[:fine, :fine] + 0.5) / fine
    picture = numpy.stack([0.93 - 0.25 * y, 0.90 - 0.15 * y, 0.82 + 0.1 * y])

    def paint(where: Array, colour: tuple[float, float, float]) -> None:
        for channel, value in enumerate(colour):
            picture[channel][where] = value

    paint(numpy.hypot(x - 0.30, y - 0.32) < 0.22, (0.80, 0.27, 0.13))
    paint(numpy.hypot(x - 0.42, y - 0.44) < 0.16, (0.96, 0.71, 0.20))
    paint(numpy.hypot(x - 0.22, y - 0.50) < 0.07, (0.13, 0.17, 0.25))
    turn = numpy.arctan2(y - 0.66, x - 0.68)
    distance = numpy.hypot(x - 0.68, y - 0.66)
    paint((distance < 0.27) & (numpy.sin(turn * 18) > 0), (0.10, 0.33, 0.45))
    for offset in range(7):
        line = numpy.abs((x - 0.60) + (y - 0.06) * (0.15 + 0.1 * offset) - 0.045 * offset)
        paint((line < 0.0035) & (y > 0.06) & (y < 0.34), (0.13, 0.17, 0.25))
    shape = (3, size, _SUPERSAMPLES, size, _SUPERSAMPLES)
    return numpy.asarray(picture.reshape(shape).mean(axis=(2, 4))[None], dtype=numpy.float32)


def grey(picture: Array) -> Array:
    """Give the brightness, [1, 1, H, W]."""
    weights = numpy.array([0.2126, 0.7152, 0.0722], dtype=picture.dtype)
    return numpy.tensordot(picture, weights, axes=([1], [0]))[:, None]


def low_frequencies(picture: Array, factor: int) -> Array:
    """Give what a picture `factor` times smaller can hold: the rest of the spectrum is set to zero."""
    spectrum = numpy.fft.fft2(picture.astype(numpy.float64))
    for axis in (-2, -1):
        frequency = numpy.abs(numpy.fft.fftfreq(picture.shape[axis]))
        keep = (frequency < 0.5 / factor).astype(float)
        spectrum *= keep.reshape((-1, 1) if axis == -2 else (1, -1))
    return numpy.fft.ifft2(spectrum).real.astype(picture.dtype)


def spectrum(picture: Array) -> Array:
    """Give the strength of each frequency in decibels, [H, W], zero frequency in the middle."""
    values = grey(picture)[0, 0].astype(numpy.float64)
    window = numpy.hanning(values.shape[0])[:, None] * numpy.hanning(values.shape[1])
    strength = numpy.abs(numpy.fft.fftshift(numpy.fft.fft2((values - values.mean()) * window)))
    return numpy.asarray(20 * numpy.log10(strength / window.sum() + 1e-6))


def spectrum_by_frequency(picture: Array) -> tuple[Array, Array]:
    """Give the strength in decibels by frequency in cycles per pixel, all directions together."""
    power = 10 ** (spectrum(picture) / 10)
    y, x = (numpy.fft.fftshift(numpy.fft.fftfreq(size)) for size in power.shape)
    ring = (numpy.hypot(x, y[:, None]) * 160).astype(int).ravel()
    total, count = numpy.bincount(ring, power.ravel()), numpy.bincount(ring)
    return (numpy.arange(80) + 0.5) / 160, 10 * numpy.log10(total[:80] / numpy.maximum(count[:80], 1) + 1e-12)


def varying(picture: Array) -> Array:
    """Give the picture without its mean, which no kernel changes."""
    return numpy.asarray(picture - picture.mean(axis=(2, 3), keepdims=True))


def slug(name: str) -> str:
    """Give a name as part of a file's name."""
    return name.strip("[]").replace(", ", "").replace(" ", "_").replace("-", "_")


def decibels(part: Array, whole: Array) -> float:
    """Give how strong a part is beside the whole; minus infinity for no part, NaN where the whole is nothing too."""
    strength, total = ((values.astype(numpy.float64) ** 2).mean() for values in (part, whole))
    if total < _NOTHING:
        return math.nan
    return 10 * math.log10(strength / total) if strength >= _NOTHING else -math.inf


def level(value: float) -> str:
    """Give decibels as text."""
    if math.isnan(value):
        return "no signal"
    return "none" if value == -math.inf else f"{value:+.1f} dB"


def signal_to_noise(picture: Array, truth: Array) -> float:
    """Give the peak signal-to-noise ratio in decibels; pictures are in 0 to 1."""
    return float(-10 * numpy.log10(max(((picture - truth).astype(numpy.float64) ** 2).mean(), _NOTHING)))


def interior(picture: Array, border: int) -> Array:
    """Give the picture without its border, where padding counts; at least its inner half."""
    border = min(border, min(picture.shape[-2:]) // 4)
    return picture[..., border:-border, border:-border]


def show(axis: Any, picture: Array, title: str = "") -> None:
    """Draw [1, C, H, W] or [H, W] without axes."""
    values = picture if picture.ndim == 2 else numpy.clip(picture[0].transpose(1, 2, 0), 0, 1)
    axis.imshow(values, cmap="gray", vmin=0, vmax=1, interpolation="antialiased")  # nearest would draw aliases
    axis.set_title(title)
    axis.set_axis_off()


def place_pixels(plot: Plot, axes: Iterable[Any]) -> None:
    """Draw each pixel of images as one of the drawing, or a square of some: at other sizes they would have aliases."""
    plot.canvas.draw()  # so that the layout is known; it is then kept
    plot.set_layout_engine("none")
    whole = plot.bbox
    for axis in axes:
        place = axis.get_window_extent()
        rows, columns = axis.images[0].get_size()
        times = max(1, int(min(place.height / rows, place.width / columns)))
        height, width = times * rows, times * columns
        left, bottom = round(place.x0 + (place.width - width) / 2), round(place.y0 + (place.height - height) / 2)
        axis.set_position((left / whole.width, bottom / whole.height, width / whole.width, height / whole.height))
