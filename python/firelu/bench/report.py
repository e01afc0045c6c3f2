"""The lines of the table and the JSON file."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping, Sequence
from datetime import date
from importlib import metadata
from pathlib import Path
from typing import Any

from .. import __version__
from .._firelu import get_cpu_level, get_non_temporal_bytes, get_num_threads
from .goals import Goal
from .measure import Timing

_LIBRARIES = ("numpy", "scipy", "opencv-python-headless", "opencv-python", "torch")


LEGEND = (
    "Ratios are to a copy of the same bytes: 1.0 is as fast as copying the data.",
    "out: into an array that exists (out=). new: into one that the call allocates.",
    "Other libraries: how many times firelu's time they take.",
)


def header(goals: bool = False) -> str:
    """Give the heads of the cases on arrays."""
    goal = f" {'goal':>6} " if goals else ""
    return (
        f"{'case':<40} {'copy, ms':>9} {'out, ms':>9} {'new, ms':>9} {'ratio out':>9} {'ratio new':>9}{goal}"
        "  other libraries"
    )


def row(timing: Timing, goals: bool = False) -> str:
    """Give one line: times in milliseconds, ratios to the copy of the same bytes, peers in firelu's times."""
    goal = ""
    if goals:
        goal = f" {'' if timing.limits is None else f'{timing.limits[0]:.2f}':>6}{'!' if timing.missed else ' '}"
    peers = ", ".join(f"{name} {seconds / timing.allocating:.1f} x" for name, seconds in timing.peers.items())
    return (
        f"{timing.name:<40} {timing.copy * 1e3:>9.3f} {timing.with_out * 1e3:>9.3f} {timing.allocating * 1e3:>9.3f} "
        f"{timing.ratio:>9.2f} {timing.allocating_ratio:>9.2f}{goal}  {peers}"
    ).rstrip()


def torch_header(memory: str) -> str:
    """Give the heads of the cases through torch."""
    title = f"torch, {memory} memory"
    return f"{title:<40} {'copy, ms':>9} {'firelu.torch, ratio':>20} {'firelu, ratio':>14}  others"


def torch_row(result: Mapping[str, Any]) -> str:
    """Give one line of a torch process: ours in copies, then the others in firelu.torch's times."""
    seconds, copy = result["seconds"], result["copy_seconds"]
    others = [name for name in seconds if not name.startswith("firelu")]
    compared = [f"{name} {seconds[name] / seconds['firelu.torch']:.1f} x" for name in others]
    compared += [f"{name} left out ({reason})" for name, reason in result["left_out"].items()]
    if result.get("multiply_adds"):
        rate, most = result["multiply_adds"] / seconds["firelu.torch"], result["multiply_adds_per_second"]
        compared.append(f"{rate / 1e9:.1f} G multiply-adds/s, {rate / most:.0%} of {most / 1e9:.0f}")
    if forward := seconds.get("firelu.torch, forward"):
        compared.append(f"backward {seconds['firelu.torch'] / forward - 1:.1f} x forward")
    # Gradients are taken by torch alone.
    of_arrays = f"{seconds['firelu'] / copy:.2f}" if "firelu" in seconds else "-"
    ours = f"{seconds['firelu.torch'] / copy:>20.2f} {of_arrays:>14}"
    return f"{result['name']:<40} {copy * 1e3:>9.3f} {ours}  {', '.join(compared)}"


def scaling_row(size: Mapping[str, Any]) -> str:
    """Give one line: picoseconds an element for the copy and for each operator, and its ratio to the copy."""
    elements, copy = size["elements"], size["copy_seconds"]
    times = [
        f"{name} {seconds / elements * 1e12:.0f} ({size['ratios'][name]:.2f})"
        for name, seconds in size["seconds"].items()
    ]
    return f"{elements:>13,} elements: copy {copy / elements * 1e12:.0f} ps, {', '.join(times)}"


def memory_row(call: Mapping[str, Any]) -> str:
    """Give one line: mebibytes in, out, and at the peak beyond both."""
    given, made, extra = (call[name] / 2**20 for name in ("input_bytes", "output_bytes", "extra_bytes"))
    return f"{call['name']:<40} {given:>8.1f} {made:>8.1f} {extra:>8.2f}"


def goal_lines(goals: Sequence[Goal]) -> list[str]:
    """Give how many goals were met, and each one that was not."""
    missed = [goal for goal in goals if not goal.met]
    lines = [f"{len(goals) - len(missed)} of {len(goals)} goals met" + (", missed:" if missed else "")]
    for goal in missed:
        lines.append(
            f"  {goal.what}: {goal.measured:.2f}, target {'at least' if goal.at_least else 'at most'} {goal.limit:.2f}"
        )
    return lines


def case_as_json(timing: Timing) -> dict[str, Any]:
    """Give what one case took and may take."""
    return {
        "name": timing.name,
        "copy_seconds": timing.copy,
        "with_out_seconds": timing.with_out,
        "allocating_seconds": timing.allocating,
        "ratio": timing.ratio,
        "allocating_ratio": timing.allocating_ratio,
        "goal": timing.goal,
        "of_forward": timing.of_forward,
        "limits": timing.limits,
        "ratios_at_best": timing.at_best,
        "peers_seconds": timing.peers,
    }


def machine() -> dict[str, Any]:
    """Give what the run ran on."""
    return {
        "processor": processor(),
        "level": get_cpu_level(),
        "threads": get_num_threads(),
        "non_temporal_bytes": get_non_temporal_bytes(),
        "transparent_huge_pages": huge_pages(),
        "python": platform.python_version(),
        "libraries": libraries(),
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


def huge_pages() -> str | None:
    """Give the system's setting of transparent huge pages, on which the cost of fresh memory depends."""
    try:
        text = Path("/sys/kernel/mm/transparent_hugepage/enabled").read_text()
    except OSError:
        return None
    return text.partition("[")[2].partition("]")[0] or None


def libraries() -> dict[str, str]:
    """Give the versions of the others, where they are installed."""
    found: dict[str, str] = {}
    for name in _LIBRARIES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def as_json(parts: Mapping[str, Any], goals: Sequence[Goal], notes: Sequence[str]) -> dict[str, Any]:
    """Give everything that was measured, with what it ran on."""
    return {
        "firelu": __version__,
        "date": date.today().isoformat(),
        "machine": machine(),
        **parts,
        "goals": [goal.as_json() for goal in goals],
        "notes": list(notes),
    }


def save_json(path: Path, results: Mapping[str, Any]) -> None:
    """Write the JSON file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
