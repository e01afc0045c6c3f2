"""Write the figures of docs/compat.md from docs/dropin.json: python docs/write_dropin.py [RUN [PROCESSOR]].

A run comes from `python -m firelu.bench.dropin --json RUN`; it takes the place of that processor's last one. PROCESSOR
is what it is called where its own name says little.
"""

import json
import re
import sys
from pathlib import Path

FOLDER = Path(__file__).parent
PAGE, FILE = FOLDER / "compat.md", FOLDER / "dropin.json"
BETWEEN = re.compile(r"(<!-- dropin -->\n).*?(<!-- end of dropin -->\n)", re.DOTALL)
#: What a family gains, from the smallest ratio to the largest: a cell of the table of families.
GAIN = re.compile(r"([^|:]+): [0-9.]+(?: to [0-9.]+)? times as fast")


def results() -> list[dict]:
    """Give the figures of the last run of each processor."""
    return json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else []


def add(run: dict) -> None:
    """Keep a run instead of that processor's last one."""
    others = [other for other in results() if other["processor"] != run["processor"]]
    FILE.write_text(json.dumps([*others, run], indent=1) + "\n", encoding="utf-8")


def table(run: dict) -> str:
    """Give a run's figures as Markdown."""
    lines = ["| network | plain torch | firelu | ratio |", "|---|---|---|---|"]
    for row in run["networks"]:
        lines.append(f"| {row['network']} | {row['plain']:.2f} s | {row['firelu']:.2f} s | **{row['ratio']:.1f}** |")
    what = "forward and backward" if run["train"] else "forward"
    threads = "1 thread" if run["threads"] == 1 else f"{run['threads']} threads"
    machine = f"{run['processor']}, {threads}, torch {run['torch']}"
    return "\n".join([*lines, "", f"One image, or one second of sound, {what}, on {machine}.", ""])


def tables(runs: list[dict]) -> str:
    """Give the figures of all runs; says so where nothing was measured."""
    return "\n".join(map(table, runs)) or "No run is recorded yet.\n"


def gain(network: str, runs: list[dict]) -> str:
    """Give the range of a network's ratios."""
    rows = [row for run in runs if not run["train"] for row in run["networks"]]
    ratios = [row["ratio"] for row in rows if row["network"].startswith(network)]
    ends = dict.fromkeys(f"{ratio:.1f}" for ratio in (min(ratios), max(ratios)))
    return f"{network}: {' to '.join(ends)} times as fast"


def page(text: str, runs: list[dict]) -> str:
    """Give the page with the figures in their place."""
    if runs:
        text = GAIN.sub(lambda match: " " + gain(match[1].strip(), runs), text)
    return BETWEEN.sub(lambda match: match[1] + tables(runs) + match[2], text)


if __name__ == "__main__":
    if given := sys.argv[1:]:
        measured = json.loads(Path(given[0]).read_text(encoding="utf-8"))
        add({**measured, "processor": given[1] if given[1:] else measured["processor"]})
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), results()), encoding="utf-8")
