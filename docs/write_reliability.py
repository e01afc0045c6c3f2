"""Writes the table of docs/reliability.md from the JSON that the runs left in docs/reliability/."""

from __future__ import annotations

import json
import pathlib
import sys

DOCS = pathlib.Path(__file__).parent
START, END = "<!-- table: written by docs/write_reliability.py -->", "<!-- end of table -->"


def read(name: str) -> dict:
    """Give what a run left, or nothing."""
    path = DOCS / "reliability" / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else {}


def rows() -> list[tuple[str, str, str]]:
    """Say what was asked, what came out, which command gave it; what was not run says so."""
    soak, growth, interrupts = read("soak"), read("memory_growth"), read("interrupts")
    hostile = [read("hostile_arrays"), read("hostile_arguments")]
    faults = read("cuda_faults")
    sanitize, valgrind, loom = read("sanitize"), read("valgrind"), read("loom")
    missing = "not run"
    table = []

    def row(what: str, result: object, command: str) -> None:
        table.append((what, str(result) if result not in (None, "") else missing, f"`{command}`"))

    count = f"{soak['cases']:,}" if soak else None
    row("random calls of every operator, one soak", count, "make soak")
    row("of which refused, as they must be", f"{soak['inputs_refused']:,}" if soak else None, "make soak")
    derivatives = sum(soak["derivatives"].values()) if soak else 0
    row("of which gradient definitions against differences", f"{derivatives:,}" if soak else None, "make soak")
    row("failures among them", soak.get("failed") if soak else None, "make soak")
    row(
        "seconds, instruction-set levels",
        f"{soak['seconds']:.0f}, {' and '.join(soak['levels'])}" if soak else None,
        "make soak",
    )
    if all(hostile):
        calls, refused = (sum(part[key] for part in hostile) for key in ("calls", "refused"))
        row("hostile calls from Python", f"{calls:,}, {refused:,} refused", "make reliability")
    else:
        row("hostile calls from Python", None, "make reliability")
    row("AddressSanitizer", sanitize.get("addresssanitizer"), "make sanitize")
    row("valgrind", valgrind.get("valgrind"), "make valgrind")
    row("loom", loom.get("loom"), "make loom")
    text = (
        f"{growth['bytes']:,} bytes, {growth['objects']:,} objects over {growth['calls']:,} calls" if growth else None
    )
    row("memory growth of mixed calls", text, "make reliability")
    text = f"{interrupts['longest_seconds']} s ({interrupts['operator']})" if interrupts else None
    row("longest answer to an interrupt", text, "make reliability")
    text = f"{faults['injected']:,} in {faults['calls']:,} driver calls" if faults else None
    row("CUDA driver faults injected", text, "make reliability")
    return table


def main() -> int:
    """Write the table, or with --check say whether it is up to date."""
    page = DOCS / "reliability.md"
    before, rest = page.read_text().split(START)
    after = rest.split(END)[1]
    lines = ["| what | result | command |", "|---|---|---|", *(f"| {' | '.join(row)} |" for row in rows())]
    text = before + START + "\n" + "\n".join(lines) + "\n" + END + after
    if "--check" in sys.argv:
        return 0 if text == page.read_text() else 1
    page.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
