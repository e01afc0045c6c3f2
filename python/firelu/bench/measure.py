"""Times: the minimum of interleaved rounds, since other work on the machine only ever adds."""

from __future__ import annotations

import ctypes
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .._firelu import copy_bytes

Array = np.ndarray[Any, Any]
Run = Callable[[], object]


@dataclass
class Case:
    """One row: an operator's call, the bytes it reads and writes, and whom to compare with."""

    name: str
    #: Bytes read plus bytes written, each once.
    traffic: int
    #: Writes to memory that is given.
    with_out: Run
    #: Allocates its result, from the second call on out of recycled memory.
    allocating: Run
    #: What others take for the same work.
    peers: dict[str, Run] = field(default_factory=dict)
    #: The highest ratio to the copy that is acceptable, where one is set.
    goal: float | None = None
    #: For a gradient: the case of its forward, and how many times its time is acceptable.
    of_forward: tuple[str, float] | None = None


@dataclass
class Timing:
    """What one case took, in seconds, and what it may take, in copies of the same bytes."""

    name: str
    copy: float
    with_out: float
    allocating: float
    peers: dict[str, float]
    goal: float | None = None
    of_forward: tuple[str, float] | None = None
    #: The highest acceptable ratios with ``out=`` and without, where there are any.
    limits: tuple[float, float] | None = None

    @property
    def ratio(self) -> float:
        """Give the time with ``out=`` over the time of the copy."""
        return self.with_out / self.copy

    @property
    def allocating_ratio(self) -> float:
        """Give the time without ``out=`` over the time of the copy."""
        return self.allocating / self.copy

    @property
    def missed(self) -> bool:
        """Say whether there is a limit and one of the two ratios is above it."""
        return self.limits is not None and (self.ratio > self.limits[0] or self.allocating_ratio > self.limits[1])


def copies(source: Array, target: Array) -> dict[str, Run]:
    """Give the ways to copy one array to the other: the fastest of them is the yardstick."""
    return {
        "copy, streaming": lambda: copy_bytes(source, target, True),
        "copy, cached": lambda: copy_bytes(source, target, False),
        "copy, numpy": lambda: np.copyto(target, source),
    }


def copies_of(traffic: int) -> dict[str, Run]:
    """Give copies that read and write as many bytes in all."""
    elements = max(traffic // 8, 1)
    return copies(np.ones(elements, np.float32), np.zeros(elements, np.float32))


def fastest_copy(seconds: Mapping[str, float]) -> float:
    """Give the yardstick from the times of many calls."""
    return min(time for name, time in seconds.items() if name.startswith("copy"))


def once(run: Run, repeats: int) -> float:
    """Give the mean time of a few calls in a row."""
    start = time.perf_counter()
    for _ in range(repeats):
        run()
    return (time.perf_counter() - start) / repeats


def repeats_for(run: Run, target: float) -> int:
    """Give how many calls take about ``target`` seconds; the first call also warms memory and threads."""
    run()
    return max(1, min(100_000, int(target / max(once(run, 1), 1e-7))))


def fastest(runs: Mapping[str, Run], rounds: int, target: float = 0.004, budget: float = 1.5) -> dict[str, float]:
    """Time the calls in turn, ``rounds`` times, and give each one's minimum in seconds.

    Many short turns: a shared machine is slow for a second at a time, and each call should meet it when it is not.
    A turn lasts ``target`` seconds and times a few calls together, again and again: the first of them find the caches
    full of what the others left there. A call that has taken ``budget`` seconds is timed no more: one a hundred times
    slower needs no third digit.
    """
    repeats = {name: repeats_for(run, target / 8) for name, run in runs.items()}
    best = dict.fromkeys(runs, float("inf"))
    spent = dict.fromkeys(runs, 0.0)
    for _ in range(rounds):
        for name, run in runs.items():
            end = spent[name] + target
            while spent[name] < min(end, budget):
                seconds = once(run, repeats[name])
                spent[name] += seconds * repeats[name]
                best[name] = min(best[name], seconds)
    return best


def measure(case: Case, rounds: int) -> Timing:
    """Time a case, its copies and its peers."""
    ours: dict[str, Run] = {"with out": case.with_out, "allocating": case.allocating}
    peers = {f"peer {name}": run for name, run in case.peers.items()}
    seconds = fastest(ours | copies_of(case.traffic) | peers, rounds)
    return Timing(
        case.name,
        fastest_copy(seconds),
        seconds["with out"],
        seconds["allocating"],
        {name: seconds[f"peer {name}"] for name in case.peers},
        case.goal,
        case.of_forward,
    )


def make_malloc_reuse_memory() -> bool:
    """Make glibc keep freed memory for the rest of the process instead of giving its pages back; false elsewhere.

    Most of what other libraries spend on large outputs is page faults. With this, arithmetic is compared. It cannot
    be undone: memory once kept serves every later call.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is None:
        return False
    trim_threshold, mmap_max = -1, -4
    return bool(mallopt(mmap_max, 0) and mallopt(trim_threshold, 2**31 - 1))
