"""Write docs/performance.md and its picture from docs/performance.json, a file of `firelu bench --json`.

firelu bench --json docs/performance.json && python docs/write_performance.py
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
HEAD = """# Performance

The measure is the time to copy the same bytes: an operator that reads its inputs and writes its outputs once cannot be
faster than memory. A ratio of 1 means as fast as a copy; the copy is the fastest that the machine does, on as many
threads, into memory that is warm.

```console
$ firelu bench                         # on your machine
$ firelu bench --quick --filter upfirdn
$ firelu bench --json results.json --plot results.png
```
"""
WITHOUT = """
No figures stand here yet: they belong to a run on a machine that does nothing else, and none was kept so far. Nothing
was measured on a GPU: the CUDA kernels never ran on hardware.
"""
WITH = """
**This page is written by a program** from one run of `firelu bench` (firelu {version}) on: {processor}, {threads}
threads, level {level}, last-level cache {cache} MiB. Times on a shared machine wander by a third from run to run;
ratios are taken within one run. Nothing was measured on a GPU: the CUDA kernels never ran on hardware.

![Time of each case beside a copy of the same bytes](images/performance.png)

*with out*: into an array that exists (`out=`). *new array*: into one that the call allocates, from recycled memory.
*goal*: what the project asks of itself on a quiet machine; a ratio above it is set in **bold**.

{table}

## Against others

How many times as long others take for the same result as firelu does with a new array. Empty: not measured.

The columns with and without *memory reused* are not independent: both are timed in one process, and memory that
malloc has once kept serves the other column too. A column without it may therefore look faster than a program that
only allocates.

{peers}

## Small calls

{small}
"""


def table(titles: list[str], rows: list[list[str]]) -> str:
    """Give a Markdown table; all columns but the first to the right."""
    rule = ["---", *["---:"] * (len(titles) - 1)]
    return "\n".join("| " + " | ".join(row) + " |" for row in [titles, rule, *rows])


def ratio(value: float, goal: float | None) -> str:
    """Give a ratio, bold where it misses its goal."""
    text = f"{value:.2f}"
    return f"**{text}**" if goal is not None and value > goal else text


def results() -> dict[str, Any] | None:
    """Give the figures of the last run that was kept, if there is one."""
    path = HERE / "performance.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def page(results: dict[str, Any] | None) -> str:
    """Give the text of the page."""
    if results is None:
        return HEAD + WITHOUT
    machine, cases = results["machine"], results["cases"]
    rows = [
        [
            case["name"],
            f"{case['copy_seconds'] * 1e3:.2f} ms",
            f"{case['with_out_seconds'] * 1e3:.2f} ms",
            ratio(case["ratio"], case["goal"]),
            ratio(case["allocating_ratio"], case["goal"]),
            "" if case["goal"] is None else f"{case['goal']:.2f}",
        ]
        for case in cases
    ]
    names = sorted({name for case in cases for name in case["peers_seconds"]})
    peers = [
        [
            case["name"],
            *(
                f"{case['peers_seconds'][name] / case['allocating_seconds']:.1f}"
                if name in case["peers_seconds"]
                else ""
                for name in names
            ),
        ]
        for case in cases
        if case["peers_seconds"]
    ]
    small = [[name, f"{seconds * 1e6:.2f} µs"] for name, seconds in results["small_call_seconds"].items()]
    return HEAD + WITH.format(
        version=results["firelu"],
        processor=machine["processor"],
        threads=machine["threads"],
        level=machine["level"],
        cache=machine["last_level_cache"] >> 20,
        table=table(["case", "copy", "with out", "ratio", "ratio, new array", "goal"], rows),
        peers=table(["case", *names], peers) if peers else "The run left others out.",
        small=table(["call", "time"], small),
    )


def draw(results: dict[str, Any]) -> None:
    """Draw the ratios and their goals."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    cases = results["cases"][::-1]
    figure, axis = plt.subplots(figsize=(9, 1.2 + 0.26 * len(cases)), layout="constrained")
    axis.barh([case["name"] for case in cases], [case["ratio"] for case in cases], color="#c2410c", height=0.62)
    for place, case in enumerate(cases):
        if case["goal"] is not None:
            axis.plot([case["goal"]] * 2, [place - 0.4, place + 0.4], color="#1d4ed8", linewidth=2)
    axis.axvline(1, color="0.3", linewidth=0.8)
    axis.set(xlabel="time, in copies of the same bytes (blue: the goal)")
    axis.margins(y=0.01)
    figure.savefig(HERE / "images" / "performance.png", dpi=110, metadata={"Software": None})


if __name__ == "__main__":
    figures = results()
    (HERE / "performance.md").write_text(page(figures), encoding="utf-8")
    if figures is not None:
        draw(figures)
