"""The command `firelu`: one module for each sub-command."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import TextIO

from .. import FireluError, __version__
from . import bench, demo, doctor, ops, resample
from .terminal import Terminal, standard_output

_COMMANDS = (doctor, ops, demo, bench, resample)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="firelu",
        description="Resampling, and the operators of StyleGAN and neural vocoders, on the command line.",
        epilog="Start with `firelu doctor`. `firelu COMMAND --help` has the options of a command.",
    )
    parser.add_argument("--version", action="version", version=f"firelu {__version__}")
    commands = parser.add_subparsers(title="commands", dest="command", metavar="COMMAND")
    for command in _COMMANDS:
        command.add_parser(commands)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command with the given arguments (`sys.argv` where none); return its exit status.

    0: done. 1: failed, the reason is on standard error. 2: not a valid command line. 130: interrupted.
    """
    parser = _parser()
    options, rest = parser.parse_known_args(argv)
    if options.command is None:
        parser.exit(2, parser.format_help())
    options.rest = rest
    if rest and options.run is not bench.run:
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    with standard_output() as stream:
        return _run(options, stream)


def _run(options: argparse.Namespace, stream: TextIO) -> int:
    try:
        status: int = options.run(options, Terminal(stream))
        stream.flush()
        return status
    except (FireluError, OSError, ImportError, MemoryError) as error:
        if isinstance(error, BrokenPipeError):
            # The reader has gone (`firelu ops | head`): nothing is left to say, nor to flush at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
            return 0
        # An operator's message begins with its name, which may be the command's.
        reason = str(error).removeprefix(f"{options.command}: ") or "out of memory"
        if isinstance(error, OSError) and error.filename:
            reason = f"{error.filename}: {error.strerror}"
        print(f"firelu {options.command}: {reason}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"firelu {options.command}: interrupted", file=sys.stderr)
        return 130
