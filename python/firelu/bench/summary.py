"""The one sentence that a visitor wants: how many times faster than what they use now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import exp, log
from typing import Any

#: The work that is compared: what StyleGAN-type networks do all day.
COMPARED = ("fused forward", "blur 4x4", "up 2", "down 2")


def summary(cases: Sequence[Mapping[str, Any]], torch: Mapping[str, Sequence[Mapping[str, Any]]]) -> str | None:
    """Say how firelu compares with torch and scipy in a run, given in the form of its JSON file; None without either.

    Each case is compared with the fastest way that the other library has, without a compiler, and as people run it:
    with new memory for each result. Of several cases the geometric mean is given.
    """
    parts = [f"{times(values)} than {name}" for name, values in factors(cases, torch).items()]
    if not parts:
        return None
    return f"On this machine firelu is {', '.join(parts[:-1])}{' and ' if parts[1:] else ''}{parts[-1]}."


def factors(
    cases: Sequence[Mapping[str, Any]], torch: Mapping[str, Sequence[Mapping[str, Any]]]
) -> dict[str, list[float]]:
    """Give how many times firelu's time each library takes, one figure for each case; without what was not timed."""
    found = {
        "torch": list(_torch(torch.get("new", ()))),
        "scipy": list(_arrays(cases, "scipy")),
        "numpy": list(_arrays(cases, "numpy")),
    }
    return {name: values for name, values in found.items() if values}


def times(values: Sequence[float]) -> str:
    """Give the geometric mean in words, and the range where there are several."""
    mean = exp(sum(map(log, values)) / len(values))
    factor, word = (mean, "faster") if mean >= 1 else (1 / mean, "slower")
    text = f"{factor:.0f} times {word}" if factor >= 10 else f"{factor:.1f} times {word}"
    return text if len(values) == 1 else f"{text} ({min(values):.1f} to {max(values):.1f})"


def _arrays(cases: Sequence[Mapping[str, Any]], library: str) -> Iterator[float]:
    for case in cases:
        taken = [seconds for name, seconds in case["peers_seconds"].items() if name.startswith(library)]
        if case["name"] in COMPARED and taken:
            yield min(taken) / case["allocating_seconds"]


def _torch(cases: Sequence[Mapping[str, Any]]) -> Iterator[float]:
    for case in cases:
        seconds = case["seconds"]
        others = [taken for name, taken in seconds.items() if not name.startswith("firelu") and "compile" not in name]
        if case["name"] in COMPARED and others:
            yield min(others) / seconds["firelu.torch"]
