"""``firelu bench`` and ``python -m firelu.bench``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from .. import functional, kernels
from . import report, torch_cases
from .cases import all_cases
from .measure import Timing, measure, once


def small_calls() -> dict[str, float]:
    """Time calls on a few elements, where only the way in and out counts."""
    x = np.linspace(-1, 1, 8, dtype=np.float32)
    picture = np.ones((1, 3, 8, 8), np.float32)
    kernel = kernels.make_kernel([1, 3, 3, 1])
    bias = np.zeros(3, np.float32)
    calls = {
        "numpy ufunc, 8 elements": lambda: np.add(x, x),
        "leaky_relu, 8 elements": lambda: functional.leaky_relu(x, 0.2),
        "fused_leaky_relu, 1x3x8x8": lambda: functional.fused_leaky_relu(picture, bias),
        "upfirdn2d, 1x3x8x8": lambda: functional.upfirdn2d(picture, kernel, pad=(2, 1)),
    }
    return {name: min(once(call, 2000) for _ in range(30)) for name, call in calls.items()}


def parser() -> argparse.ArgumentParser:
    """Give the command's options."""
    options = argparse.ArgumentParser(prog="firelu bench", description=__doc__)
    options.add_argument("--json", metavar="FILE", type=Path, help="write every figure to a file")
    options.add_argument("--plot", metavar="FILE", type=Path, help="draw the ratios (needs matplotlib)")
    options.add_argument("--filter", metavar="TEXT", default="", help="only cases whose name contains this")
    options.add_argument("--quick", action="store_true", help="few rounds and no peers")
    options.add_argument("--no-peers", action="store_true", help="leave other libraries out")
    options.add_argument("--list", action="store_true", help="list the cases and stop")
    return options


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmarks; returns the exit status."""
    options = parser().parse_args(argv)
    cases = {name: build for name, build in all_cases().items() if options.filter in name}
    if options.list:
        print("\n".join(cases))
        return 0
    if not cases:
        print(f"firelu bench: no case has {options.filter!r} in its name; --list shows them", file=sys.stderr)
        return 2
    rounds = 3 if options.quick else 15
    print(report.header(), flush=True)
    timings: list[Timing] = []
    for build in cases.values():
        case = build(not (options.quick or options.no_peers))
        timings.append(measure(case, rounds))
        print(report.row(timings[-1]), flush=True)
    overheads = small_calls() | torch_cases.small_calls()
    for name, seconds in overheads.items():
        print(f"{name:<40} {seconds * 1e6:.2f} microseconds")
    if options.json:
        report.save_json(options.json, timings, overheads)
        print(f"wrote {options.json}")
    if options.plot:
        report.plot(options.plot, timings)
        print(f"wrote {options.plot}")
    return 0
