"""What the project asks of itself, and whether a run gave it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

from .measure import Timing
from .memory import ALLOWED
from .peers import OPENCV

#: A step of half a decade in size may raise the ratio to the copy by this: more would be a cliff of our own.
CLIFF = 1.5
#: Below this many elements a call's fixed cost is in the time, and for the copy it is not.
LEVEL_FROM = 10**6

#: Microseconds for a call on a 1x3x8x8 array or tensor.
SMALL_CALLS = {
    "fused_leaky_relu, 1x3x8x8": 2.0,
    "upfirdn2d, 1x3x8x8": 2.0,
    "torch: leaky_relu, 1x3x8x8": 8.0,
    "torch: fused_leaky_relu, 1x3x8x8": 8.0,
    "torch: upfirdn2d, 1x3x8x8": 8.0,
    "torch: leaky_relu, recorded, 1x3x8x8": 20.0,
    "torch: fused_leaky_relu, recorded, 1x3x8x8": 20.0,
    "torch: upfirdn2d, recorded, 1x3x8x8": 20.0,
}

#: (case, memory, other, which of ours): how many times as long the other must take.
TIMES_FASTER: dict[tuple[str, str, str, str], float] = {
    ("fused forward", "new", "torch eager", "firelu.torch"): 20,
    ("fused forward", "new", "torch.compile", "firelu.torch"): 5,
    ("fused forward", "reused", "torch eager", "firelu.torch"): 3,
    ("fused forward + backward", "new", "torch eager", "firelu.torch"): 8,
    ("fused forward + backward", "new", "torch.compile", "firelu.torch"): 2,
    ("fused forward + backward", "reused", "torch eager", "firelu.torch"): 2,
}
for _case in ("blur 4x4", "up 2", "down 2"):
    TIMES_FASTER[_case, "new", "upfirdn2d_native", "firelu"] = 100
    TIMES_FASTER[_case, "new", "upfirdn2d_native", "firelu.torch"] = 80
    TIMES_FASTER[_case, "new", "channels_last conv", "firelu.torch"] = 15
OPENCV_TIMES_FASTER = 4


@dataclass
class Goal:
    """One figure beside what it should be."""

    what: str
    measured: float
    limit: float
    at_least: bool = False

    @property
    def met(self) -> bool:
        """Say whether the figure is as it should be."""
        return self.measured >= self.limit if self.at_least else self.measured <= self.limit

    def as_json(self) -> dict[str, Any]:
        """Give it for the file."""
        return asdict(self) | {"met": self.met}


def _of_cases(timings: Sequence[Timing]) -> Iterator[Goal]:
    for timing in timings:
        if timing.limits is not None:
            yield Goal(f"{timing.name}, with out, in copies", timing.ratio, timing.limits[0])
            yield Goal(f"{timing.name}, new array, in copies", timing.allocating_ratio, timing.limits[1])
        if OPENCV in timing.peers:
            times = timing.peers[OPENCV] / timing.allocating
            yield Goal(f"{timing.name}: {OPENCV} / firelu", times, OPENCV_TIMES_FASTER, at_least=True)


def _of_torch(torch: Mapping[str, Sequence[Mapping[str, Any]]]) -> Iterator[Goal]:
    for (case, memory, other, ours), limit in TIMES_FASTER.items():
        for result in torch.get(memory, ()):
            seconds = result["seconds"]
            if result["name"] == case and other in seconds:
                what = f"{case}: {other}, {memory} memory / {ours}"
                yield Goal(what, seconds[other] / seconds[ours], limit, at_least=True)


def _of_scaling(scaling: Sequence[Mapping[str, Any]]) -> Iterator[Goal]:
    level = [size for size in scaling if size["elements"] > LEVEL_FROM / 1.1]
    for name in level[0]["ratios"] if len(level) > 1 else ():
        ratios = [size["ratios"][name] for size in level]
        steps = [after / before for before, after in pairwise(ratios)]
        yield Goal(f"{name}: largest step of its ratio to the copy from 10^6 elements on", max(steps), CLIFF)


def evaluate(
    timings: Sequence[Timing],
    torch: Mapping[str, Sequence[Mapping[str, Any]]],
    small_calls: Mapping[str, float],
    scaling: Sequence[Mapping[str, Any]],
    memory: Sequence[Mapping[str, Any]],
) -> list[Goal]:
    """Give every goal that the run can answer."""
    goals = [*_of_cases(timings), *_of_torch(torch)]
    goals += [
        Goal(f"{name}, microseconds", small_calls[name] * 1e6, limit)
        for name, limit in SMALL_CALLS.items()
        if name in small_calls
    ]
    goals += _of_scaling(scaling)
    goals += [
        Goal(f"{call['name']}: MiB beyond input and output", call["extra_bytes"] / 2**20, ALLOWED / 2**20)
        for call in memory
    ]
    return goals
