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
    hostile = [read(f"hostile_{name}") for name in ("arrays", "arguments", "capsules")]
    faults, fuzz, sanitize = read("cuda_faults"), read("fuzz"), read("sanitize")
    valgrind, loom, deny = read("valgrind"), read("loom"), read("deny")
    table = []

    def row(what: str, run: object, result: str, command: str) -> None:
        table.append((what, result if run else "not run", f"`{command}`"))

    def number(run: dict, name: str) -> str:
        return f"{run.get(name, 0):,}"

    row("random calls of every operator in one soak", soak, number(soak, "cases"), "make soak")
    row("of which refused, as they must be", soak, number(soak, "inputs_refused"), "make soak")
    derivatives = f"{sum(soak.get('derivatives', {}).values()):,}"
    row("of which gradient definitions against differences", soak, derivatives, "make soak")
    for name, count in soak.get("neighbourhoods", {}).items():
        row(f"of which {name}", soak, f"{count:,}", "make soak")
    row("failures among them", soak, number(soak, "failed"), "make soak")
    seconds = f"{soak.get('seconds', 0):,.0f}, {', '.join(soak.get('levels', []))}"
    row("seconds, instruction-set levels", soak, seconds, "make soak")
    for name, tally in sorted(soak.get("python", {}).items()):
        text = f"{number(tally, 'cases')}, {number(tally, 'refused')} refused, {number(tally, 'failed')} failures"
        row(f"random cases of {name}", tally, text, "make soak")
    if not soak.get("python"):
        row("random cases beside single calls, from Python", {}, "", "make soak")
    targets = ", ".join(f"{number(fuzz, name)} of {name}" for name in sorted(fuzz))
    row("fuzzed inputs under AddressSanitizer, none failing", fuzz, targets, "make fuzz")
    row("tests under AddressSanitizer, clean", sanitize, number(sanitize, "tests"), "make sanitize")
    text = f"{number(valgrind, 'calls')}, {number(valgrind, 'errors')} errors"
    row("calls from Python under valgrind", valgrind, text, "make valgrind")
    row("models under loom, every interleaving", loom, number(loom, "models"), "make loom")
    calls, refused = (sum(part.get(key, 0) for part in hostile) for key in ("calls", "refused"))
    row("hostile calls from Python", all(hostile), f"{calls:,}, {refused:,} refused", "make hostile")
    text = f"{number(growth, 'bytes')} bytes, {number(growth, 'objects')} objects over {number(growth, 'calls')} calls"
    row("memory growth of mixed calls", growth, text, "make hostile")
    load = f", at a load of {interrupts['load']}" if "load" in interrupts else ""
    text = f"{interrupts.get('longest_seconds')} s ({interrupts.get('operator')}{load})"
    row("longest answer to an interrupt", interrupts, text, "make hostile")
    text = f"{number(faults, 'injected')} in {number(faults, 'calls')} driver calls"
    row("CUDA driver faults injected", faults, text, "make hostile")
    row("licences, bans and sources", deny, str(deny.get("checked")), "make deny")
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
