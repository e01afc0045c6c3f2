"""Draw the image of the README and the first page: python docs/images/draw_hero.py (needs firelu[demo])."""

from __future__ import annotations

from pathlib import Path

import firelu
import numpy as np
from firelu.demo.cloth import cloth
from firelu.demo.kernels import windowed_sinc
from PIL import Image, ImageDraw, ImageFont

HERE = Path(__file__).parent
FACTOR, WIDTH, SKIP, GAP = 3, 390, 5, 12


def panel(image: np.ndarray, label: str) -> np.ndarray:
    """Give a part of the image with a label: [H, W, 3] uint8, each pixel as it is."""
    pixels = np.clip(image[0].transpose(1, 2, 0)[:, SKIP : SKIP + WIDTH] * 255 + 0.5, 0, 255).astype(np.uint8)
    drawn = Image.fromarray(np.ascontiguousarray(pixels))
    pen, font = ImageDraw.Draw(drawn), ImageFont.load_default(15)
    box = pen.textbbox((10, 8), label, font=font)
    pen.rectangle((box[0] - 6, box[1] - 4, box[2] + 6, box[3] + 5), fill="white")
    pen.text((10, 8), label, font=font, fill="#1f2937")
    return np.asarray(drawn)


def main() -> None:
    """Write the two ways to make an image a third of its size, side by side, pixel for pixel."""
    image = cloth()
    kernel = firelu.make_kernel(windowed_sinc(6 * FACTOR, FACTOR))
    filtered = firelu.downsample2d(image, kernel, FACTOR, border="reflect")
    nearest = image[..., FACTOR // 2 :: FACTOR, FACTOR // 2 :: FACTOR]
    panels = [panel(nearest, "every third pixel"), panel(filtered, "firelu")]
    gap = np.full((panels[0].shape[0], GAP, 3), 255, np.uint8)
    Image.fromarray(np.concatenate([panels[0], gap, panels[1]], axis=1)).save(HERE / "hero.png", optimize=True)


if __name__ == "__main__":
    main()
