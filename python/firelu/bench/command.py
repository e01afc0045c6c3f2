"""``firelu bench`` and ``python -m firelu.bench``."""

from __future__ import annotations

import argparse
import importlib.util
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .. import functional, kernels
from .._firelu import cpu_levels, get_cpu_level, get_num_threads, set_cpu_level
from . import goals, memory, plots, report, scaling, worker
from .cases import all_cases
from .measure import Timing, fastest, measure
from .summary import COMPARED, summary

PARTS = {
    "cases": "the operators on arrays, against a copy of the same bytes and other libraries",
    "torch": "the operators through torch, against torch: with new memory, and with memory that malloc reuses",
    "small": "calls on a few elements",
    "scaling": "time per element from 10^4 elements to 10^9",
    "memory": "the peak of memory of large calls",
}
QUICK_PARTS = ("cases", "torch")


def parser() -> argparse.ArgumentParser:
    """Give the command's options."""
    options = argparse.ArgumentParser(
        prog="firelu bench",
        description="Time the operators on this machine, in parts: "
        + "; ".join(f"{name} ({what})" for name, what in PARTS.items()),
    )
    options.add_argument("--json", metavar="FILE", type=Path, help="write every figure to a file")
    options.add_argument(
        "--plot", metavar="FILE", type=Path, help="draw the ratios, and FILE-scaling beside it (needs matplotlib)"
    )
    options.add_argument("--only", metavar="PART", nargs="+", choices=PARTS, help="run only these parts")
    options.add_argument("--scaling", action="store_true", help="the same as --only scaling memory")
    options.add_argument("--filter", metavar="TEXT", default="", help="only cases whose name contains this")
    options.add_argument(
        "--quick",
        action="store_true",
        help="a run of about a minute: few rounds and, without --only or --filter, only the cases that are compared "
        "with torch and scipy, without torch.compile",
    )
    options.add_argument("--no-peers", action="store_true", help="do not time other libraries")
    options.add_argument("--goals", action="store_true", help="compare with the project's own targets")
    options.add_argument(
        "--level", choices=cpu_levels(), default=get_cpu_level(), help="the instruction set to use (here: %(default)s)"
    )
    options.add_argument("--list", action="store_true", help="list the cases and stop")
    return options


def chosen_parts(options: argparse.Namespace) -> list[str]:
    """Give the parts to run, in their order."""
    chosen = set(options.only or ())
    if options.scaling:
        chosen |= {"scaling", "memory"}
    if not chosen:
        chosen = set(QUICK_PARTS if options.quick else PARTS)
    if options.no_peers:
        chosen -= {"torch"}
    return [part for part in PARTS if part in chosen]


class Run:
    """One run: its options, what each part gave, and what had to be left out."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.rounds = 6 if options.quick else 60
        self.timings: list[Timing] = []
        self.torch: dict[str, list[dict[str, Any]]] = {}
        self.small_calls: dict[str, float] = {}
        self.scaling: list[dict[str, Any]] = []
        self.memory: list[dict[str, Any]] = []
        self.notes: list[str] = []
        self.failed = False
        #: A quick run that nobody narrows is about the comparison alone.
        self.compares_only = options.quick and not (options.only or options.scaling or options.filter)

    def wants(self, name: str) -> bool:
        """Say whether a case is to be timed."""
        return name in COMPARED if self.compares_only else self.options.filter in name

    def note(self, text: str) -> None:
        """Say what is left out, here and in the file."""
        self.notes.append(text)
        print(f"note: {text}", flush=True)

    def collect(self, keep: Callable[[dict[str, Any]], None], job: str, **arguments: Any) -> None:
        """Take the results of another process; where it fails the run goes on, and fails in the end."""
        try:
            for result in worker.results(job, **arguments):
                keep(result)
        except worker.WorkerError as error:
            self.failed = True
            self.note(f"failed: {error}")

    def run_cases(self) -> None:
        """Time the cases on arrays."""
        with_peers = not self.options.no_peers
        if with_peers and not self.options.quick:
            for module in ("scipy", "cv2"):
                if importlib.util.find_spec(module) is None:
                    self.note(f"{module} is not installed: its columns are left out")
            self.note("OpenCV is timed on blur alone: its pyrUp and pyrDown have other taps and borders")
        print("\n".join(["", *report.LEGEND, "", report.header(self.options.goals)]), flush=True)
        for name, build in all_cases().items():
            if self.wants(name):
                timing = measure(build(with_peers), self.rounds)
                self.timings.append(timing)
                print(report.row(timing, self.options.goals), flush=True)

    def run_torch(self) -> None:
        """Time the cases through torch, in one process for each kind of memory."""
        if importlib.util.find_spec("torch") is None:
            self.note("torch is not installed: its tables are left out")
            return
        for kind in ("new",) if self.compares_only else ("new", "reused"):
            if kind == "reused" and sys.platform != "linux":
                self.note("malloc cannot be told to reuse memory on this system: that table is left out")
                continue
            print("\n" + report.torch_header(kind), flush=True)
            found = self.torch[kind] = []

            def keep(result: dict[str, Any], found: list[dict[str, Any]] = found) -> None:
                found.append(result)
                print(report.torch_row(result), flush=True)

            self.collect(
                keep,
                "torch",
                reuse_memory=kind == "reused",
                rounds=self.rounds,
                filter=self.options.filter,
                quick=self.compares_only,
            )

    def run_small(self) -> None:
        """Time small calls on arrays and through torch."""
        self.small_calls |= small_calls()
        if importlib.util.find_spec("torch") is not None:
            self.collect(self.small_calls.update, "torch small calls")
        print()
        for name, seconds in self.small_calls.items():
            limit = goals.SMALL_CALLS.get(name)
            asked = ""
            if limit is not None and self.options.goals:
                asked = f" (target: {limit:g}){' !' if seconds * 1e6 > limit else ''}"
            print(f"{name:<45} {seconds * 1e6:>6.2f} microseconds{asked}", flush=True)

    def run_scaling(self) -> None:
        """Time growing sizes."""
        print("\ntime per element and, in brackets, its ratio to the copy")
        largest = scaling.QUICK if self.options.quick else scaling.SIZES[-1]
        for size in scaling.measure(min(self.rounds, 7), largest):
            self.scaling.append(size)
            print(report.scaling_row(size), flush=True)

    def run_memory(self) -> None:
        """Measure the peak of one large call after the other."""
        if not memory.can_be_measured():
            self.note("this system does not tell a process its peak of memory: that table is left out")
            return
        print(f"\n{'peak of memory, MiB':<40} {'input':>8} {'output':>8} {'beyond':>8}")

        def keep(call: dict[str, Any]) -> None:
            self.memory.append(call)
            print(report.memory_row(call), flush=True)

        for name in memory.calls():
            if self.options.filter in name:
                self.collect(keep, "memory", name=name)

    def results(self) -> dict[str, Any]:
        """Give everything for the file."""
        parts = {
            "cases": [report.case_as_json(timing) for timing in self.timings],
            "torch": self.torch,
            "small_call_seconds": self.small_calls,
            "scaling": self.scaling,
            "memory": self.memory,
        }
        return report.as_json(parts, self.goals(), self.notes)

    def goals(self) -> list[goals.Goal]:
        """Give every goal that the run can answer."""
        return goals.evaluate(self.timings, self.torch, self.small_calls, self.scaling, self.memory)


def small_calls() -> dict[str, float]:
    """Time calls on a few elements, where only the way in and out counts."""
    x = np.linspace(-1, 1, 8, dtype=np.float32)
    picture = np.ones((1, 3, 8, 8), np.float32)
    kernel = kernels.make_kernel([1, 3, 3, 1])
    bias = np.zeros(3, np.float32)
    calls = {
        "numpy ufunc, 8 elements": lambda: np.add(x, x),
        "leaky_relu, 8 elements": lambda: functional.leaky_relu(x, 0.2),
        "leaky_relu, 1x3x8x8": lambda: functional.leaky_relu(picture, 0.2),
        "fused_leaky_relu, 1x3x8x8": lambda: functional.fused_leaky_relu(picture, bias),
        "upfirdn2d, 1x3x8x8": lambda: functional.upfirdn2d(picture, kernel, pad=(2, 1)),
    }
    return fastest(calls, rounds=1000, target=0.001, budget=5.0)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmarks; returns the exit status."""
    options = parser().parse_args(argv)
    parts = chosen_parts(options)
    names = [name for name in all_cases() if options.filter in name]
    if options.list:
        print("\n".join(names))
        return 0
    # The cases through torch have names of their own, which torch must be there for.
    if not names and list(parts) != ["torch"]:
        print(f"firelu bench: no case has {options.filter!r} in its name; --list shows them", file=sys.stderr)
        return 2
    before = get_cpu_level()
    set_cpu_level(options.level)
    try:
        run = Run(options)
        print(f"level {get_cpu_level()}, {get_num_threads()} threads, {report.processor()}")
        for part in parts:
            getattr(run, f"run_{part}")()
        results = run.results()
        if options.goals:
            print("\n" + "\n".join(report.goal_lines(run.goals())))
        if sentence := summary(results["cases"], results["torch"]):
            print("\n" + sentence)
    finally:
        set_cpu_level(before)
    if options.json:
        report.save_json(options.json, results)
        print(f"wrote {options.json}")
    if options.plot and run.timings:
        plots.ratios(options.plot, results["cases"])
        print(f"wrote {options.plot}")
    if options.plot and run.scaling:
        beside = options.plot.with_stem(f"{options.plot.stem}-scaling")
        plots.scaling(beside, results["scaling"])
        print(f"wrote {beside}")
    return 1 if run.failed else 0
