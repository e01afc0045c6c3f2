"""Write the figures of docs/compat.md from docs/dropin.json: python docs/write_dropin.py.

The file comes from `python -m firelu.bench.dropin --json docs/dropin.json`.
"""

import json
import re
from pathlib import Path

FOLDER = Path(__file__).parent
PAGE = FOLDER / "compat.md"
BETWEEN = re.compile(r"(<!-- dropin -->\n).*?(<!-- end of dropin -->\n)", re.DOTALL)


def results() -> dict | None:
    """Give the figures of the last run, if there was one."""
    path = FOLDER / "dropin.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def table(run: dict | None) -> str:
    """Give the figures as Markdown; nothing where nothing was measured."""
    if run is None:
        return "No run is recorded yet.\n"
    lines = ["| network | plain torch | firelu | ratio |", "|---|---|---|---|"]
    for row in run["networks"]:
        lines.append(f"| {row['network']} | {row['plain']:.2f} s | {row['firelu']:.2f} s | **{row['ratio']:.1f}** |")
    what = "forward and backward" if run["train"] else "forward"
    threads = "1 thread" if run["threads"] == 1 else f"{run['threads']} threads"
    machine = f"{run['processor']}, {threads}, torch {run['torch']}"
    return "\n".join([*lines, "", f"One image, or one second of sound, {what}, on {machine}.", ""])


def page(text: str, run: dict | None) -> str:
    """Give the page with the figures in their place."""
    return BETWEEN.sub(lambda match: match[1] + table(run) + match[2], text)


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), results()), encoding="utf-8")
