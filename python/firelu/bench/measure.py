"""Times of calls that take turns, many short ones, so that all of them meet the machine as it is at the time."""

from __future__ import annotations

import ctypes
import random
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
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
    #: For a gradient: how many times its forward's time is acceptable, and the forward, with ``out=`` and without.
    of_forward: tuple[float, Run, Run] | None = None


@dataclass
class Timing:
    """What one case took, in seconds, and what it may take, in copies of the same bytes."""

    name: str
    copy: float
    with_out: float
    allocating: float
    peers: dict[str, float]
    #: The highest ratio that is acceptable whatever else was measured, where one is set.
    goal: float | None = None
    #: How many times its forward's time is acceptable, for a gradient.
    of_forward: float | None = None
    #: The highest acceptable ratios with ``out=`` and without, where there are any.
    limits: tuple[float, float] | None = None
    #: The ratios of the shortest times, with ``out=`` and without.
    at_best: tuple[float, float] | None = None

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


def yardstick(seconds: Mapping[str, float]) -> str:
    """Give the name of the fastest copy among the times of many calls."""
    return min((name for name in seconds if name.startswith("copy")), key=seconds.__getitem__)


def fastest_copy(seconds: Mapping[str, float]) -> float:
    """Give its time."""
    return seconds[yardstick(seconds)]


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


def in_turns(
    runs: Mapping[str, Run], rounds: int, target: float = 0.004, budget: float = 1.5
) -> dict[str, list[list[float]]]:
    """Time the calls in turn, ``rounds`` times, and give all times of each in seconds, turn by turn.

    Many short turns: a shared machine is slow, and its memory fast, for a second at a time, and each call should meet
    that as often as the others. Each round has an order of its own: what a call leaves in the caches helps or hinders
    the one after it. A turn lasts ``target`` seconds and times a few calls together, again and again: the
    first of them find the caches full of what the others left there. A call that has taken ``budget`` seconds is timed
    no more: one a hundred times slower needs no third digit.
    """
    repeats = {name: repeats_for(run, target / 8) for name, run in runs.items()}
    turns: dict[str, list[list[float]]] = {name: [] for name in runs}
    spent = dict.fromkeys(runs, 0.0)
    order, shuffle = list(runs.items()), random.Random(0).shuffle
    for _ in range(rounds):
        shuffle(order)
        for name, run in order:
            end, times = spent[name] + target, []
            while spent[name] < min(end, budget):
                times.append(once(run, repeats[name]))
                spent[name] += times[-1] * repeats[name]
            if times:
                turns[name].append(times)
    return turns


def all_of(turns: Iterable[Sequence[float]]) -> list[float]:
    """Give the times of all turns of a call."""
    return [seconds for times in turns for seconds in times]


def fastest(runs: Mapping[str, Run], rounds: int, target: float = 0.004, budget: float = 1.5) -> dict[str, float]:
    """Give the shortest time of each call: for small ones, to which other work on the machine only ever adds."""
    return {name: min(all_of(turns)) for name, turns in in_turns(runs, rounds, target, budget).items()}


def typical(runs: Mapping[str, Run], rounds: int) -> dict[str, float]:
    """Give the median time of each call: the shortest may be of a moment at which the others did not run."""
    return {name: median(all_of(turns)) for name, turns in in_turns(runs, rounds).items()}


def measure(case: Case, rounds: int) -> Timing:
    """Time a case, its copies, its peers and, for a gradient, its forward."""
    runs: dict[str, Run] = {"with out": case.with_out, "allocating": case.allocating}
    runs |= copies_of(case.traffic) | {f"peer {name}": run for name, run in case.peers.items()}
    if case.of_forward is not None:
        runs |= {"forward with out": case.of_forward[1], "forward allocating": case.of_forward[2]}
    times = {name: all_of(turns) for name, turns in in_turns(runs, rounds).items()}
    seconds = {name: median(taken) for name, taken in times.items()}
    shortest = {name: min(taken) for name, taken in times.items()}
    copy, shortest_copy = fastest_copy(seconds), fastest_copy(shortest)
    limits = None if case.goal is None else (case.goal, case.goal)
    if case.of_forward is not None:
        factor = case.of_forward[0] / copy
        limits = (factor * seconds["forward with out"], factor * seconds["forward allocating"])
    return Timing(
        case.name,
        copy,
        seconds["with out"],
        seconds["allocating"],
        {name: seconds[f"peer {name}"] for name in case.peers},
        case.goal,
        None if case.of_forward is None else case.of_forward[0],
        limits,
        (shortest["with out"] / shortest_copy, shortest["allocating"] / shortest_copy),
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
