"""``python -m firelu.bench.thresholds``: whether stores bypass the caches from the right size on.

Each case is timed with the threshold as firelu decides it and pinned to sizes far apart, in turn in one process. The
decision is right where no pinned size is clearly faster.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from .. import get_non_temporal_bytes, set_non_temporal_bytes
from .cases import all_cases
from .measure import Case, Run, all_of, copies_of, fastest_copy, in_turns

CASES = (
    "leaky relu",
    "leaky relu float16",
    "fused forward",
    "fused backward with bias",
    "blur 4x4",
    "blur 4x4, odd width",
    "up 2",
    "down 2",
    "rgb up 2",
    "16x16 planes up 2",
    "non-separable 4x4 blur",
)
#: Sizes in MiB: far below, near and far above what a machine of two cores keeps in its caches.
PINNED = (8, 32, 256)
#: By how much a pinned size may be faster.
ALLOWED = 1.05


def _pinned(run: Run, size: int) -> Run:
    def call() -> None:
        set_non_temporal_bytes(size << 20)
        run()

    return call


def _automatic(run: Run) -> Run:
    def call() -> None:
        set_non_temporal_bytes(None)
        run()

    return call


@dataclass
class Row:
    """One case with one kind of memory."""

    #: The time in copies with the automatic threshold and with each pinned one.
    copies: dict[str, float]
    #: The automatic threshold's time over that with the best pinned one.
    against: float
    #: The same of the automatic threshold against itself, timed as another call: what chance does to such a figure.
    chance: float


def _over(turns: dict[str, list[list[float]]], name: str, other: str) -> float:
    """Give the time of one call over that of another, round by round: both met the machine as it was."""
    return median(median(one) / median(two) for one, two in zip(turns[name], turns[other], strict=False))


def compare(case: Case, rounds: int) -> dict[str, Row]:
    """Compare the thresholds, into memory that is given and into new memory."""
    kinds = {"out": case.with_out, "new": case.allocating}
    runs = dict(copies_of(case.traffic))
    for kind, run in kinds.items():
        runs[f"{kind} automatic"] = _automatic(run)
        runs[f"{kind} again"] = _automatic(run)
        runs |= {f"{kind} {size} MiB": _pinned(run, size) for size in PINNED}
    try:
        turns = in_turns(runs, rounds)
    finally:
        set_non_temporal_bytes(None)
    seconds = {name: median(all_of(times)) for name, times in turns.items()}
    copy = fastest_copy(seconds)
    rows = {}
    for kind in kinds:
        pinned = [f"{kind} {size} MiB" for size in PINNED]
        copies = {name: seconds[name] / copy for name in [f"{kind} automatic", *pinned]}
        against = max(_over(turns, f"{kind} automatic", name) for name in pinned)
        rows[kind] = Row(copies, against, _over(turns, f"{kind} automatic", f"{kind} again"))
    return rows


def main(argv: Sequence[str] | None = None) -> int:
    """Print a row for each case and kind of memory; returns 1 where a pinned size is clearly faster."""
    options = argparse.ArgumentParser(prog="python -m firelu.bench.thresholds", description=__doc__)
    options.add_argument("--filter", metavar="TEXT", default="", help="only cases whose name contains this")
    options.add_argument("--rounds", metavar="N", type=int, default=60, help="turns of each call (%(default)s)")
    chosen = options.parse_args(argv)
    set_non_temporal_bytes(None)
    print(f"automatic: non-temporal stores above {get_non_temporal_bytes() / 2**20:g} MiB; times in copies")
    sizes = "".join(f"{size:>5} MiB" for size in PINNED)
    print(f"{'case':<28} {'memory':<7} {'automatic':>9} {sizes}  against the best (against itself)")
    builds, worst = all_cases(), 0.0
    for name in CASES:
        if chosen.filter not in name:
            continue
        for kind, row in compare(builds[name](False), chosen.rounds).items():
            worst = max(worst, row.against)
            automatic, *pinned = row.copies.values()
            times = "".join(f"{copies:>9.2f}" for copies in pinned)
            mark = " !" if row.against > ALLOWED else ""
            print(
                f"{name:<28} {kind:<7} {automatic:>9.2f} {times}  {row.against:.3f} ({row.chance:.3f}){mark}",
                flush=True,
            )
    print(f"worst: {worst:.3f} of the best pinned size; allowed: {ALLOWED}")
    return 1 if worst > ALLOWED else 0


if __name__ == "__main__":
    raise SystemExit(main())
