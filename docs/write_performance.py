"""Write docs/performance.md, its images and the times in README.md from docs/performance.json (`firelu bench --json`).

Runs on other machines are in docs/performance/, under any name; results computed for machines that were not at hand are
in docs/cycles.json (`make cycles`). Of each machine the newest run of each kind counts.

firelu bench --json docs/performance.json && python docs/write_performance.py
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
README = HERE.parent / "README.md"
HEAD = """# Performance
"""
SUMMARY = """
How many times faster firelu is, on the operators of a StyleGAN-type network (fused bias + leaky ReLU, blur, up 2,
down 2): the geometric mean and, in brackets, the range. Each case is compared with the fastest way that the other
library has without a compiler.

{table}
"""
README_NOTE = """Times are multiples of firelu's, from the smallest to the largest measured on
{machines}.
The [performance page](https://github.com/firelu/firelu/blob/main/docs/performance.md) has a row for each machine.
`firelu bench --quick` measures yours in a minute and ends with a line such as
"{typical}".
"""
COMMAND = """
## Measure your machine

```console
$ firelu bench --quick                 # a minute; ends with one line as in the table above
$ firelu bench                         # everything; some minutes and 9 GB of memory
$ firelu bench --only torch            # one part: cases, torch, small, scaling or memory
$ firelu bench --level avx2            # with an instruction set below the best
$ firelu bench --json results.json --plot results.png
$ firelu bench --goals                 # compare with the project's own targets
```

`pip install "firelu[bench,torch]"` installs the other libraries; the run says which are missing and leaves them out.

Speed is given relative to a memory copy: 1.0 means as fast as copying the data. An operator that reads its inputs and
writes its outputs once cannot be faster than that. The copy is the fastest that this machine can make, with the same
number of threads, into memory that is in use already.
"""
WITHOUT = """
No figures stand here yet: they belong to a run on a machine that does nothing else, and we have kept none so far.
Nothing was measured on a GPU: the CUDA kernels never ran on hardware.
"""
WITH = """
The figures below come from one run of `firelu bench` (firelu {version}, {date}) on: {processor}, {threads} threads,
instruction set {level}, non-temporal stores above {cache} MiB, transparent huge pages: {huge_pages}.{libraries} Each
time is the median of many short turns that all calls of a case, copies included, take one after the other; for small
calls it is the shortest. This is a shared machine: times vary by about a third and memory speed by up to half between
runs, so we only compare times measured in the same process. Nothing was measured on a GPU: the CUDA kernels never ran
on hardware.
`docs/write_performance.py` writes this page.
{notes}"""
GOALS = """
## Performance targets and results

{summary}

{missed}
"""
CASES = """
## Compared with a copy

![Time of each case beside a copy of the same bytes](images/performance.png)

*with out*: into an array that exists (`out=`). *new array*: into one that the call allocates, from recycled memory.
*at best*: the ratios of the shortest times instead of the medians. *goal*: the project's own target, relative
to the copy; for a gradient, relative to its own forward call, timed in turn with it. A ratio above its goal is in
**bold**.

{table}
"""
OTHER = """
## Compared with a copy: {processor}

{threads} threads, instruction set {level}, {date}, non-temporal stores above {cache} MiB.{rounds}

{table}
"""
CYCLES = """
## Computed for arm64

Nothing was measured on arm64: no such machine was at hand. The NEON loops are tested on an emulated processor
(`make test-arm64`), and their speed is **computed**: cycles an output of the loop over the inside of a float32 plane,
by llvm-mca {llvm}, every load from the first-level cache, beside the same loop for AVX2 (`make cycles`). *against
AVX2*: the cycles for as many bits of registers, since those of NEON are half as wide, over the fastest of the AVX2
columns; 1.3 is allowed. LLVM describes apple-m1 by the model of an older core of the same maker.

{table}
"""
PEERS = """
## Compared with other libraries

How many times firelu's time other libraries take for the same result: *arrays* is a call on numpy arrays that returns
a new array, *torch* the same through `firelu.torch`. A figure below its target is in **bold**.

*memory* says where the other library's result goes. *new*: the default; large results get fresh pages every time, and
page faults are much of the time. *reused*: malloc was told to keep what is freed, so that only arithmetic is
compared; firelu recycles memory by itself. *given*: into an array that exists. Both kinds of torch's rows come from
processes of their own, each compared with firelu's time in the same process.

{table}

`upfirdn2d_native` is the formula in plain torch operations that the research code falls back on. *grouped conv* is
`conv2d` or `conv_transpose2d` with a group for each channel.
"""
SCALING = """
## From ten thousand elements to a billion

![Time per element against the number of elements, for three operators and the copy](images/performance-scaling.png)

Nanoseconds per element, with `out=`, and in brackets the ratio to the copy between the same two arrays: the median of
the ratios of their turns, since large sizes get few turns, which may meet fast and slow memory unequally often.
Small arrays show a call's fixed cost; the step where the caches end is the copy's own.

{table}
"""
MEMORY = """
## Memory

The peak of a process that makes one large call, its first, beyond the input and the output it returns. The
target is at most {allowed:g} MiB; more is in **bold**.

{table}
"""
SMALL = """
## Small calls

*recorded*: the tensor requires a gradient. More than the target is in **bold**.

{table}
"""


def table(titles: list[str], rows: list[list[str]], left: int = 1) -> str:
    """Give a Markdown table; all columns but the first ones to the right."""
    rule = [*["---"] * left, *["---:"] * (len(titles) - left)]
    return "\n".join("| " + " | ".join(row) + " |" for row in [titles, rule, *rows])


def bold(text: str, missed: bool) -> str:
    """Mark what misses its goal."""
    return f"**{text}**" if missed else text


def results() -> dict[str, Any] | None:
    """Give the figures of the last run that was kept, if there is one."""
    path = HERE / "performance.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def others_results() -> list[dict[str, Any]]:
    """Give the runs on other machines, from docs/performance/: whole ones, `--quick` ones, or `--only cases`."""
    paths = sorted((HERE / "performance").glob("*.json"))
    return [json.loads(path.read_text(encoding="utf-8")) for path in paths]


def machine_of(run: dict[str, Any]) -> tuple[str, int, str]:
    """Give what makes two runs comparable: processor, threads and instruction set."""
    machine = run["machine"]
    return machine["processor"], machine["threads"], machine["level"]


def newest(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Give the newest run of each machine, machines in the order of their first runs; of one day, the last run."""
    found: dict[tuple[str, int, str], dict[str, Any]] = {}
    for run in runs:
        before = found.setdefault(machine_of(run), run)
        if run["date"] >= before["date"]:
            found[machine_of(run)] = run
    return list(found.values())


def compared(runs: list[dict[str, Any]]) -> list[tuple[dict[str, Any], dict[str, list[float]]]]:
    """Give each machine that has a run beside other libraries, with the factors of the newest such run."""
    from firelu.bench.summary import factors

    kept = newest([run for run in runs if factors(run["cases"], run["torch"])])
    return [(run["machine"], factors(run["cases"], run["torch"])) for run in kept]


def is_quick(run: dict[str, Any]) -> bool:
    """Say whether a run is one of `firelu bench --quick`: it has the cases that are compared, and no others."""
    from firelu.bench.summary import COMPARED

    return {case["name"] for case in run["cases"]} <= set(COMPARED)


def tabulated(results: dict[str, Any], others: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Give one run for each other machine: the newest with every case, or else the newest quick one."""
    others = [run for run in others if run["cases"] and machine_of(run) != machine_of(results)]
    whole = newest([run for run in others if not is_quick(run)])
    have = {machine_of(run) for run in whole}
    return whole + [run for run in newest(others) if machine_of(run) not in have]


def readme_section(text: str, runs: list[dict[str, Any]]) -> str:
    """Give the README with the times of its table "Why firelu" and the machines below it as they were measured."""
    from firelu.bench.summary import times

    found = [(machine, each) for machine, each in compared(runs) if {"torch", "scipy"} <= each.keys()]

    def over_all(name: str, chosen: slice) -> str:
        values = [value for _, each in found for value in each[name][chosen]]
        return f"{min(values):.0f} to {max(values):.0f}"

    def row(operation: str, torch: str, scipy: str) -> str:
        return f"| time on a CPU: {operation} | **1** | – | {torch} | {scipy} |\n"

    rows = [
        row("bias + leaky ReLU", over_all("torch", slice(1)), "–"),
        row("upfirdn2d", f"{over_all('torch', slice(1, None))} (the fastest formula)", over_all("scipy", slice(None))),
    ]
    rows_now = re.compile(r"(^\| time on a CPU: .*\n)+", re.MULTILINE)
    note_now = re.compile(r"^Times are multiples of firelu's.*?\n(?=\n)", re.MULTILINE | re.DOTALL)
    machines = [f"{machine['processor']} with {machine['threads']} threads" for machine, _ in found]
    listed = " and ".join(filter(None, [", ".join(machines[:-1]), machines[-1]]))
    typical = [f"{times(found[0][1][name]).partition(' (')[0]} than {name}" for name in ("torch", "scipy")]
    note = README_NOTE.format(machines=listed, typical=", ".join(typical))
    return note_now.sub(lambda _: note, rows_now.sub(lambda _: "".join(rows), text))


def summary_section(runs: list[dict[str, Any]]) -> str:
    """Give one row for each machine: how many times faster firelu is there."""
    from firelu.bench.summary import times

    found = compared(runs)
    names = [name for name in ("torch", "scipy", "numpy") if any(name in each for _, each in found)]
    rows = [
        [f"{machine['processor']}, {machine['threads']} threads, {machine['level']}"]
        + [times(each[name]).replace(" faster", "") if name in each else "" for name in names]
        for machine, each in found
    ]
    return SUMMARY.format(table=table(["machine", *(f"than {name}" for name in names)], rows)) if names else ""


def other_machine_section(results: dict[str, Any]) -> str:
    """Give the cases of a run on another machine."""
    machine = results["machine"]
    rounds = " A quick run: few rounds, so single figures vary more." if is_quick(results) else ""
    return OTHER.format(
        processor=machine["processor"],
        threads=machine["threads"],
        level=machine["level"],
        date=results["date"],
        cache=machine["non_temporal_bytes"] >> 20,
        rounds=rounds,
        table=cases_table(results),
    )


def cycles_section() -> str:
    """Give what was computed for processors that were not at hand."""
    path = HERE / "cycles.json"
    if not path.exists():
        return ""
    found = json.loads(path.read_text(encoding="utf-8"))
    rows = []
    for name, cycles in found["cycles_an_output"].items():
        twin = 2 * min(cycles[processor] for processor in found["x86"])
        against = [bold(f"{cycles[arm] / twin:.2f}", cycles[arm] / twin > 1.3) for arm in found["arm64"]]
        taken = [f"{cycles[processor]:.3f}" for processor in (*found["arm64"], *found["x86"])]
        rows.append([name, *taken, *against])
    titles = [
        "loop",
        *(f"{processor}, NEON" for processor in found["arm64"]),
        *(f"{processor}, AVX2" for processor in found["x86"]),
        *(f"{processor} against AVX2" for processor in found["arm64"]),
    ]
    return CYCLES.format(llvm=found["llvm"], table=table(titles, rows))


def goals_section(results: dict[str, Any]) -> str:
    """Say how many goals were met, and list those that were not."""
    goals = results["goals"]
    missed = [goal for goal in goals if not goal["met"]]
    summary = f"{len(goals) - len(missed)} of {len(goals)} targets were met in this run."
    rows = [
        [goal["what"], f"{goal['measured']:.2f}", f"{'≥' if goal['at_least'] else '≤'} {goal['limit']:.2f}"]
        for goal in missed
    ]
    listed = table(["missed", "measured", "target"], rows) if missed else "None was missed."
    return GOALS.format(summary=summary, missed=listed)


def cases_section(results: dict[str, Any]) -> str:
    """Give the section of the cases on arrays."""
    return CASES.format(table=cases_table(results))


def cases_table(results: dict[str, Any]) -> str:
    """Give the table of the cases on arrays."""
    rows = []
    for case in results["cases"]:
        limits = case["limits"] or (float("inf"), float("inf"))
        goal = "" if case["goal"] is None else f"{case['goal']:.2f}"
        if case["of_forward"]:
            goal = f"{case['of_forward']:g} × forward"
        rows.append(
            [
                case["name"],
                f"{case['copy_seconds'] * 1e3:.2f} ms",
                f"{case['with_out_seconds'] * 1e3:.2f} ms",
                bold(f"{case['ratio']:.2f}", case["ratio"] > limits[0]),
                bold(f"{case['allocating_ratio']:.2f}", case["allocating_ratio"] > limits[1]),
                "{:.2f}, {:.2f}".format(*case["ratios_at_best"]),
                goal,
            ]
        )
    return table(["case", "copy", "with out", "ratio", "ratio, new array", "at best", "goal"], rows)


def peers_section(results: dict[str, Any]) -> str:
    """Give one row for each of the others, on each case and with each kind of memory."""
    goals = {goal["what"]: goal for goal in results["goals"]}
    rows = []

    def times(what: str, value: float) -> str:
        goal = goals.get(what)
        text = f"{value:.1f}"
        return text if goal is None else f"{bold(text, not goal['met'])} (≥ {goal['limit']:g})"

    for case in results["cases"]:
        for name, seconds in case["peers_seconds"].items():
            value = times(f"{case['name']}: {name} / firelu", seconds / case["allocating_seconds"])
            memory = "given" if name.startswith("OpenCV") else "new"
            rows.append([case["name"], name, memory, f"{seconds * 1e3:.1f} ms", value, ""])
    for memory, found in results["torch"].items():
        for case in found:
            ours = {name: taken for name, taken in case["seconds"].items() if name.startswith("firelu")}
            for name, seconds in case["seconds"].items():
                if name not in ours:
                    what = f"{case['name']}: {name}, {memory} memory / "
                    values = [
                        times(what + own, seconds / ours[own]) for own in ("firelu", "firelu.torch") if own in ours
                    ]
                    rows.append([case["name"], name, memory, f"{seconds * 1e3:.1f} ms", *values])
            rows += [[case["name"], name, memory, "did not run", "", ""] for name in case["left_out"]]
    rows.sort(key=lambda row: [*(case["name"] for case in results["cases"]), row[0]].index(row[0]))
    if not rows:
        return ""
    return PEERS.format(table=table(["case", "other", "memory", "time", "arrays", "torch"], rows, left=3))


def scaling_section(results: dict[str, Any]) -> str:
    """Give the time per element by size."""
    sizes = results["scaling"]
    names = list(sizes[0]["seconds"])
    rows = []
    for size in sizes:
        elements, copy = size["elements"], size["copy_seconds"]
        times = [f"{size['seconds'][name] / elements * 1e9:.3f} ({size['ratios'][name]:.2f})" for name in names]
        rows.append([f"{elements:,}", f"{copy / elements * 1e9:.3f}", *times])
    return SCALING.format(table=table(["elements", "copy", *names], rows, left=0))


def memory_section(results: dict[str, Any]) -> str:
    """Give the peaks of memory."""
    goals = {goal["what"]: goal for goal in results["goals"]}
    rows, allowed = [], 0.0
    for call in results["memory"]:
        goal = goals[f"{call['name']}: MiB beyond input and output"]
        allowed = goal["limit"]
        sizes = [f"{call[name] / 2**20:.1f} MiB" for name in ("input_bytes", "output_bytes")]
        rows.append([call["name"], *sizes, bold(f"{goal['measured']:.2f} MiB", not goal["met"])])
    return MEMORY.format(allowed=allowed, table=table(["call", "input", "output", "beyond"], rows))


def small_section(results: dict[str, Any]) -> str:
    """Give the small calls."""
    goals = {goal["what"]: goal for goal in results["goals"]}
    rows = []
    for name, seconds in results["small_call_seconds"].items():
        goal = goals.get(f"{name}, microseconds")
        text = bold(f"{seconds * 1e6:.2f} µs", goal is not None and not goal["met"])
        rows.append([name, text, "" if goal is None else f"{goal['limit']:g} µs"])
    return SMALL.format(table=table(["call", "time", "target, at most"], rows))


def page(results: dict[str, Any] | None) -> str:
    """Give the text of the page: a section for each part that the run had."""
    if results is None:
        return HEAD + COMMAND + WITHOUT
    machine = results["machine"]
    others = ", ".join(f"{name} {version}" for name, version in machine["libraries"].items())
    head = WITH.format(
        version=results["firelu"],
        date=results["date"],
        processor=machine["processor"],
        threads=machine["threads"],
        level=machine["level"],
        cache=machine["non_temporal_bytes"] >> 20,
        huge_pages=machine["transparent_huge_pages"] or "unknown",
        libraries=f" Other libraries: {others}." if others else "",
        notes="".join(f"\nNote: {note}.\n" for note in results["notes"]),
    )
    sections = [
        (results["cases"] or results["torch"], peers_section),
        (results["cases"], cases_section),
        (results["scaling"], scaling_section),
        (results["memory"], memory_section),
        (results["small_call_seconds"], small_section),
        (results["goals"], goals_section),
    ]
    others = others_results()
    return (
        HEAD
        + summary_section([results, *others])
        + COMMAND
        + head
        + "".join(section(results) for found, section in sections if found)
        + "".join(other_machine_section(run) for run in tabulated(results, others))
        + cycles_section()
    )


def draw(results: dict[str, Any]) -> None:
    """Draw the ratios and their goals, and the growth with size."""
    from firelu.bench import plots

    if results["cases"]:
        plots.ratios(HERE / "images" / "performance.png", results["cases"])
    if results["scaling"]:
        plots.scaling(HERE / "images" / "performance-scaling.png", results["scaling"])


if __name__ == "__main__":
    figures = results()
    (HERE / "performance.md").write_text(page(figures), encoding="utf-8")
    if figures is not None:
        readme = readme_section(README.read_text(encoding="utf-8"), [figures, *others_results()])
        README.write_text(readme, encoding="utf-8")
        draw(figures)
