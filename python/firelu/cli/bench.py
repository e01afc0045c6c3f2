"""`firelu bench`: the front of the one benchmark suite, whose options stand with it."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from .terminal import Terminal

if TYPE_CHECKING:
    from argparse import _SubParsersAction


def add_parser(commands: _SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the sub-command; every option, `--help` among them, goes to the suite's own parser."""
    parser = commands.add_parser(
        "bench", help="measure speed on this machine, compared with torch and scipy", add_help=False
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace, terminal: Terminal) -> int:
    """Hand the options on to the suite."""
    from .. import bench

    return bench.main(options.rest)
