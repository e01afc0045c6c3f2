"""The demo: every step on images, and one page that shows them. Needs Pillow, matplotlib and scipy.

`run` does the whole; each module beside this one is one section of the page.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from . import activation, audio, deblurring, downsampling, operators, sampling, timing, upsampling
from .page import Page
from .pictures import Pictures

_SECTIONS = (
    ("making an image smaller", downsampling.section),
    ("making an image larger", upsampling.section),
    ("moving an image through a network", activation.section),
    ("filtering sound", audio.section),
    ("timing", timing.section),
    ("recovering a blur kernel", deblurring.section),
    ("sampling a toy diffusion", sampling.section),
    ("looking operators up by name", operators.section),
)
STEPS = len(_SECTIONS)


def run(directory: Path, image: Path | None = None, step: Callable[[str], None] = lambda what: None) -> Page:
    """Write images and `index.html` to a directory.

    Args:
        directory: where to write; made where it does not exist.
        image: an image file to use instead of the generated one.
        step: called with what begins now, `STEPS` times.

    Returns:
        The page: its path, its sections and the paths of its images.
    """
    pictures = Pictures(directory, image)
    page = Page(directory / "index.html", pictures.source)
    for what, section in _SECTIONS:
        step(what)
        page.sections.append(section(pictures))
    page.write()
    return page
