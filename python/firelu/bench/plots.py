"""The plots, drawn from what the JSON file holds (needs matplotlib)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_FORWARD, _GRADIENT, _GOAL, _COPY = "#4477aa", "#88ccee", "#cc3311", "#333333"
_OPERATORS = (("#ee7733", "o"), ("#0077bb", "s"), ("#009988", "^"))


def _subplots(*arguments: Any, **options: Any) -> Any:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot.subplots(*arguments, layout="constrained", **options)


def _save(figure: Any, path: Path) -> None:
    from matplotlib import pyplot

    path.parent.mkdir(parents=True, exist_ok=True)
    # No version in the file: the same figures give the same picture.
    figure.savefig(path, dpi=110, metadata={"Software": None})
    pyplot.close(figure)


def ratios(path: Path, cases: Sequence[Mapping[str, Any]]) -> None:
    """Draw each case's ratio to the copy beside what it may be."""
    shown = list(reversed(cases))
    figure, axes = _subplots(figsize=(9, 1.6 + 0.23 * len(shown)))
    colours = [_GRADIENT if case["of_forward"] else _FORWARD for case in shown]
    axes.barh(range(len(shown)), [case["ratio"] for case in shown], color=colours, height=0.7)
    widest = max(max(case["ratio"], *(case["limits"] or [0])) for case in shown)
    for place, case in enumerate(shown):
        if case["limits"]:
            axes.plot([case["limits"][0]] * 2, [place - 0.42, place + 0.42], color=_GOAL, linewidth=2)
        missed = case["limits"] and case["ratio"] > case["limits"][0]
        end = max(case["ratio"], case["limits"][0] if case["limits"] else 0)
        weight = "bold" if missed else "normal"
        axes.text(end + widest * 0.01, place, f"{case['ratio']:.2f}", va="center", fontsize=7, fontweight=weight)
    axes.axvline(1, color=_COPY, linewidth=0.9)
    axes.set_yticks(range(len(shown)), [case["name"] for case in shown], fontsize=8)
    axes.set(xlim=(0, widest * 1.08), ylim=(-0.6, len(shown) - 0.4))
    axes.set_xlabel("time, in copies of the same bytes (line at 1: the copy; red: the goal; light: gradients)")
    _save(figure, path)


def scaling(path: Path, sizes: Sequence[Mapping[str, Any]]) -> None:
    """Draw time per element against size, both logarithmic, and below it the ratio to the copy."""
    elements = [size["elements"] for size in sizes]
    figure, (times, relative) = _subplots(2, 1, figsize=(8, 7), sharex=True, height_ratios=(3, 2))
    copy = [size["copy_seconds"] for size in sizes]
    times.plot(elements, _per_element(copy, elements), color=_COPY, linewidth=2.5, label="copy")
    for name, (colour, marker) in zip(sizes[0]["seconds"], _OPERATORS, strict=True):
        seconds = [size["seconds"][name] for size in sizes]
        style = {"color": colour, "marker": marker, "markersize": 5, "label": name}
        times.plot(elements, _per_element(seconds, elements), **style)
        relative.plot(elements, [size["ratios"][name] for size in sizes], **style)
    times.set(xscale="log", yscale="log", ylabel="nanoseconds per element")
    times.set_title("float32, one call with out=: a level line is time that grows as the data does", fontsize=10)
    for which in (times.yaxis.set_major_formatter, times.yaxis.set_minor_formatter):
        which("{x:g}")
    times.legend(frameon=False)
    relative.axhline(1, color=_COPY, linewidth=2.5)
    relative.set(xlabel="elements", ylabel="times the copy")
    relative.set_ylim(bottom=0)
    for axes in (times, relative):
        axes.grid(True, which="major", color="0.88")
    _save(figure, path)


def _per_element(seconds: Sequence[float], elements: Sequence[int]) -> list[float]:
    return [taken / count * 1e9 for taken, count in zip(seconds, elements, strict=True)]
