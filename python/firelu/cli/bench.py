"""`firelu bench`: the front of the one benchmark suite."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from .terminal import Terminal

if TYPE_CHECKING:
    from argparse import _SubParsersAction


def add_parser(commands: _SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the sub-command."""
    parser = commands.add_parser(
        "bench",
        help="time the operators",
        description="Time the operators against a copy of the same bytes and against what people use today.",
    )
    parser.add_argument("--json", metavar="FILE", help="also write the results as JSON")
    parser.add_argument("--filter", metavar="TEXT", help="only cases whose name contains TEXT")
    parser.add_argument("--quick", action="store_true", help="small arrays and few repetitions")
    parser.add_argument("--plot", metavar="FILE", help="draw the results (needs firelu[demo])")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace, terminal: Terminal) -> int:
    """Hand the options on to the suite."""
    from .. import bench

    arguments = ["--quick"] if options.quick else []
    for name in ("json", "filter", "plot"):
        value = getattr(options, name)
        if value is not None:
            arguments += [f"--{name}", value]
    return bench.main(arguments)
