"""Times: the minimum of interleaved rounds, since other work on the machine only ever adds."""

from __future__ import annotations

import ctypes
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from .._firelu import copy_bytes

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


@dataclass
class Timing:
    """What one case took, in seconds."""

    name: str
    copy: float
    with_out: float
    allocating: float
    peers: dict[str, float]
    goal: float | None

    @property
    def ratio(self) -> float:
        """Give the time with ``out=`` over the time of the copy."""
        return self.with_out / self.copy

    @property
    def allocating_ratio(self) -> float:
        """Give the time without ``out=`` over the time of the copy."""
        return self.allocating / self.copy


def copies(traffic: int) -> list[Run]:
    """Give copies that read and write as many bytes in all: the fastest of them is the yardstick."""
    elements = max(traffic // 8, 1)
    source, target = np.ones(elements, np.float32), np.zeros(elements, np.float32)
    return [
        lambda: copy_bytes(source, target, True),
        lambda: copy_bytes(source, target, False),
        lambda: np.copyto(target, source),
    ]


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


def measure(case: Case, rounds: int, target: float = 0.01) -> Timing:
    """Time a case, its copies and its peers in turn, ``rounds`` times, and keep each one's minimum."""
    ours: dict[str, Run] = {"with_out": case.with_out, "allocating": case.allocating}
    for index, copy in enumerate(copies(case.traffic)):
        ours[f"copy {index}"] = copy
    runs = {**ours, **{f"peer {name}": run for name, run in case.peers.items()}}
    repeats = {name: repeats_for(run, target) for name, run in runs.items()}
    best = {name: float("inf") for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            # A peer a hundred times slower is timed less often: its ratio needs no third digit.
            if name.startswith("peer") and 0.5 < best[name] < float("inf"):
                continue
            best[name] = min(best[name], once(run, repeats[name]))
    return Timing(
        case.name,
        min(seconds for name, seconds in best.items() if name.startswith("copy")),
        best["with_out"],
        best["allocating"],
        {name.removeprefix("peer "): seconds for name, seconds in best.items() if name.startswith("peer")},
        case.goal,
    )


@contextmanager
def malloc_reuses_memory() -> Iterator[bool]:
    """Make glibc keep freed memory instead of giving its pages back; false where that cannot be done.

    Most of what other libraries spend on large outputs is page faults. With this, arithmetic is compared.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is None:
        yield False
        return
    trim_threshold, mmap_max = -1, -4
    mallopt(mmap_max, 0)
    mallopt(trim_threshold, 2**31 - 1)
    try:
        yield True
    finally:
        mallopt(mmap_max, 65536)
        mallopt(trim_threshold, 128 << 10)


def reusing_memory(run: Run) -> Run:
    """Wrap a call so that malloc reuses memory while it runs."""

    def wrapped() -> None:
        with malloc_reuses_memory():
            run()

    return wrapped
