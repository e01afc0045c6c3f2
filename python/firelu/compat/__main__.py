"""`python -m firelu.compat script.py args…`: somebody's program, unchanged, on firelu."""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import os
import runpy
import sys
from collections.abc import Sequence

from .install import install


def main(argv: Sequence[str]) -> int:
    """Install the drop-in and run the program; what the program exits with passes through.

    Returns:
        0: the program came to its end. 1: torch or the module is missing. 2: there is no such script.
    """
    parser = argparse.ArgumentParser(
        prog="python -m firelu.compat",
        usage="%(prog)s [--no-torchvision] [--no-mask-linear-clamp] (script.py | -m module) [arguments ...]",
        description="Run a program with firelu.compat installed, as `python script.py` or `python -m module` would.",
    )
    parser.add_argument("-m", action="store_true", dest="as_module", help="what follows is a module, not a file")
    parser.add_argument(
        "--torchvision",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="provide torchvision.transforms.functional_tensor, which basicsr imports, if torchvision no longer has it",
    )
    parser.add_argument(
        "--no-mask-linear-clamp",
        action="store_false",
        dest="mask_linear_clamp",
        help="let bias_act's linear pass the gradient where clamp has clipped, as the published CUDA kernel does",
    )
    # What comes after the program's name is the program's.
    own = list(itertools.takewhile(lambda argument: argument.startswith("-"), argv))
    options = parser.parse_args(own)
    if len(own) == len(argv):
        parser.error("the script or module to run is missing")
    program, *arguments = argv[len(own) :]
    try:
        install(torchvision=options.torchvision, mask_linear_clamp=options.mask_linear_clamp)
    except ImportError as error:
        return _refuse(str(error), 1)
    sys.argv = [program, *arguments]
    return _run_module(program) if options.as_module else _run_script(program)


def _run_script(program: str) -> int:
    if not os.path.exists(program):
        return _refuse(f"firelu.compat: {program}: no such file", 2)
    if not getattr(sys.flags, "safe_path", False):  # then nothing stands before the path
        folder = program if os.path.isdir(program) else os.path.dirname(os.path.realpath(program))
        sys.path[0] = os.path.abspath(folder)
    # An absolute path, as Python's own: it holds where the program changes its directory.
    runpy.run_path(os.path.abspath(program), run_name="__main__")
    return 0


def _run_module(name: str) -> int:
    try:
        found = importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # a package that it should be in
        found = False
    if not found:
        return _refuse(f"firelu.compat: no module named {name}", 1)
    runpy.run_module(name, run_name="__main__", alter_sys=True)
    return 0


def _refuse(reason: str, status: int) -> int:
    print(reason, file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
