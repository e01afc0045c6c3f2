"""Draw the images of the README and the first page: python docs/images/draw_hero.py (needs firelu[demo])."""

from __future__ import annotations

from pathlib import Path

import firelu
import numpy as np
from firelu.demo.cloth import cloth
from firelu.demo.kernels import windowed_sinc
from PIL import Image, ImageDraw, ImageFont

HERE = Path(__file__).parent
FACTOR, SKIP = 3, 5
WIDTH = 350  # a phone shows it pixel for pixel; what it would shrink gets aliases


def panel(image: np.ndarray, label: str) -> Image.Image:
    """Give a part of the image with a label, each pixel as it is."""
    pixels = np.clip(image[0].transpose(1, 2, 0)[:, SKIP : SKIP + WIDTH] * 255 + 0.5, 0, 255).astype(np.uint8)
    drawn = Image.fromarray(np.ascontiguousarray(pixels))
    pen, font = ImageDraw.Draw(drawn), ImageFont.load_default(15)
    box = pen.textbbox((10, 8), label, font=font)
    pen.rectangle((box[0] - 6, box[1] - 4, box[2] + 6, box[3] + 5), fill="white")
    pen.text((10, 8), label, font=font, fill="#1f2937")
    return drawn


def main() -> None:
    """Write the two ways to make an image a third of its size, pixel for pixel."""
    image = cloth()
    kernel = firelu.make_kernel(windowed_sinc(6 * FACTOR, FACTOR))
    filtered = firelu.downsample2d(image, kernel, FACTOR, border="reflect")
    nearest = image[..., FACTOR // 2 :: FACTOR, FACTOR // 2 :: FACTOR]
    for name, image, label in (("nearest", nearest, "every third pixel"), ("firelu", filtered, "firelu")):
        panel(image, label).save(HERE / f"hero_{name}.png", optimize=True)


if __name__ == "__main__":
    main()
