"""The table, the JSON file and the plots."""

from __future__ import annotations

import json
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .. import __version__
from .._firelu import cpu_cache_bytes, get_cpu_level, get_num_threads
from .measure import Timing


def header() -> str:
    """Give the column heads."""
    return f"{'case':<40} {'copy':>9} {'with out':>9} {'ratio':>6} {'again':>6} {'goal':>5}  peers, times firelu's"


def row(timing: Timing) -> str:
    """Give one line: times in milliseconds, ratios to the copy of the same bytes, peers in firelu's times."""
    goal = "" if timing.goal is None else f"{timing.goal:.2f}"
    missed = timing.goal is not None and max(timing.ratio, timing.allocating_ratio) > timing.goal
    peers = ", ".join(f"{name} {seconds / timing.allocating:.1f}" for name, seconds in timing.peers.items())
    return (
        f"{timing.name:<40} {timing.copy * 1e3:>9.3f} {timing.with_out * 1e3:>9.3f} {timing.ratio:>6.2f} "
        f"{timing.allocating_ratio:>6.2f} {goal:>5}{'!' if missed else ' '} {peers}"
    )


def as_json(timings: Sequence[Timing], overheads: dict[str, float]) -> dict[str, Any]:
    """Give everything that was measured, with what it ran on."""
    return {
        "firelu": __version__,
        "machine": {
            "processor": processor(),
            "level": get_cpu_level(),
            "threads": get_num_threads(),
            "last_level_cache": cpu_cache_bytes(),
            "python": platform.python_version(),
        },
        "cases": [
            {
                "name": timing.name,
                "copy_seconds": timing.copy,
                "with_out_seconds": timing.with_out,
                "allocating_seconds": timing.allocating,
                "ratio": timing.ratio,
                "allocating_ratio": timing.allocating_ratio,
                "goal": timing.goal,
                "peers_seconds": timing.peers,
            }
            for timing in timings
        ],
        "small_call_seconds": overheads,
    }


def processor() -> str:
    """Give the name of the processor."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def save_json(path: Path, timings: Sequence[Timing], overheads: dict[str, float]) -> None:
    """Write the JSON file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(as_json(timings, overheads), indent=2) + "\n")


def plot(path: Path, timings: Sequence[Timing]) -> None:
    """Draw the ratios to the copy beside their goals."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    shown = list(reversed(timings))
    figure, axes = pyplot.subplots(figsize=(9, 1.2 + 0.24 * len(shown)), layout="constrained")
    axes.barh([timing.name for timing in shown], [timing.ratio for timing in shown], color="#4477aa")
    for position, timing in enumerate(shown):
        if timing.goal is not None:
            axes.plot([timing.goal] * 2, [position - 0.4, position + 0.4], color="#cc3311")
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_xlabel("time / time to copy the same bytes (red: the goal)")
    axes.tick_params(axis="y", labelsize=7)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
