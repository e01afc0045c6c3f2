"""`firelu demo`: the main job end to end, on images."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from .terminal import Terminal

if TYPE_CHECKING:
    from argparse import _SubParsersAction


def add_parser(commands: _SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the sub-command."""
    parser = commands.add_parser(
        "demo",
        help="resample sample images (or yours) and write an HTML report",
        description="Resample a generated image, or yours, with several kernels; recover a blur kernel by gradient "
        "descent; sample a toy diffusion model; time it all. Writes PNG files and one HTML page. Needs firelu[demo].",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="DIR",
        type=Path,
        default=Path("demo-output"),
        help="output folder (demo-output)",
    )
    parser.add_argument("--image", metavar="FILE", type=Path, help="use this image instead of a generated one")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace, terminal: Terminal) -> int:
    """Run the demo and say where its page is."""
    try:
        from .. import demo
    except ModuleNotFoundError as error:
        raise ImportError(f"needs {str(error.name).partition('.')[0]}: pip install 'firelu[demo]'") from error
    with terminal.progress(demo.STEPS) as progress:
        page = demo.run(options.output, options.image, progress.step)
    for section in page.sections:
        terminal.heading(section.title)
        for finding in section.findings:
            terminal.paragraph(finding)
    terminal.line()
    terminal.line(f"{len(page.pictures)} images and one page: {terminal.style(str(page.path), 'bold')}")
    return 0
