"""The soak's neighbourhoods that need Python: `make soak` runs it after the random calls and adds to their report.

soak.py --minutes N [--seed N] [--json FILE]   every neighbourhood for its share of the time
soak.py --cases N ...                          so many cases of each instead
soak.py --one NAME SEED                        one case
soak.py --batch NAME SEED N                    N cases from a seed on in this process
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import traceback
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).parent))
from neighbourhoods import NEIGHBOURHOODS, case_of

#: A child that takes longer than this for one batch hangs.
PATIENCE = 900
#: How many cases one child runs at least; later ones run for about so many seconds beside what they import.
LEAST, SECONDS = 20, 20
#: More failures than this are counted but not described.
DESCRIBED = 20


def batch(name: str, first: int, count: int) -> dict:
    """Run cases in this process. What is under way is said first, so that a crash has a name."""
    case, refused, failures = case_of(name), 0, []
    started = time.monotonic()
    for seed in range(first, first + count):
        print(f"at {seed}", file=sys.stderr, flush=True)
        try:
            refused += bool(case(Random(seed)))
        except Exception:
            failures.append({"reproducer": f"soak.py --one '{name}' {seed}", "what": traceback.format_exc(limit=-3)})
    seconds = time.monotonic() - started
    tally = {"cases": count, "refused": refused, "failed": len(failures), "seconds": seconds}
    return {**tally, "failures": failures[:DESCRIBED]}


def child(name: str, first: int, count: int) -> dict:
    """Run a batch in a process of its own; how it ends is a failure like any other where it ends badly."""
    command = [sys.executable, "-W", "ignore", __file__, "--batch", name, str(first), str(count)]
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
        ending, progress = f"ends with {result.returncode}", result.stderr
        if result.returncode == 0:
            return json.loads(result.stdout.splitlines()[-1])
    except subprocess.TimeoutExpired as expired:
        ending, progress = f"hangs: no answer after {PATIENCE} s", (expired.stderr or b"").decode()
    reached = [line.split()[1] for line in progress.splitlines() if line.startswith("at ")]
    seed = int(reached[-1]) if reached else first
    last = "\n".join(line for line in progress.splitlines()[-8:] if not line.startswith("at "))
    failure = {"reproducer": f"soak.py --one '{name}' {seed}", "what": f"the process {ending}\n{last}"}
    return {"cases": seed - first + 1, "refused": 0, "failed": 1, "seconds": PATIENCE, "failures": [failure]}


def soak(name: str, seconds: float, cases: int | None, seed: int) -> dict:
    """Run one neighbourhood until its time is over, or for so many cases."""
    started, count = time.monotonic(), LEAST
    tally = {"cases": 0, "refused": 0, "failed": 0, "failures": []}
    while tally["cases"] < cases if cases else time.monotonic() - started < seconds:
        count = min(count, cases - tally["cases"]) if cases else count
        report = child(name, seed + tally["cases"], count)
        for key in ("cases", "refused", "failed"):
            tally[key] += report[key]
        tally["failures"] = (tally["failures"] + report["failures"])[:DESCRIBED]
        count = max(LEAST, min(10 * count, int(count * SECONDS / max(report["seconds"], 0.01))))
    tally["seconds"] = round(time.monotonic() - started)
    print(f"  {name}: {tally['cases']} cases, {tally['refused']} refused, {tally['failed']} failures", flush=True)
    for failure in report["failures"][:3] if tally["failed"] else []:
        print(f"FAILURE: {failure['what']}\n  reproduce: {failure['reproducer']}", flush=True)
    return tally


def runs_here(name: str) -> str | None:
    """Give why a neighbourhood cannot be run here, or nothing."""
    if NEIGHBOURHOODS[name] == "emulated_devices" and not (Path.cwd() / "target/emulator/libcuda.so").exists():
        return "the emulated driver is not built: make emulator"
    if NEIGHBOURHOODS[name] == "forks" and not hasattr(os, "fork"):
        return "this system has no fork"
    return None


def main() -> int:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--cases", type=int)
    parser.add_argument("--seed", type=int, default=int(time.time()) << 24)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--only", choices=list(NEIGHBOURHOODS))
    parser.add_argument("--one", nargs=2, metavar=("NAME", "SEED"))
    parser.add_argument("--batch", nargs=3, metavar=("NAME", "SEED", "COUNT"))
    given = parser.parse_args()
    if given.one:
        case_of(given.one[0])(Random(int(given.one[1])))
        return 0
    if given.batch:
        print(json.dumps(batch(given.batch[0], int(given.batch[1]), int(given.batch[2]))))
        return 0
    names = [given.only] if given.only else list(NEIGHBOURHOODS)
    report = json.loads(given.json.read_text()) if given.json and given.json.exists() else {}
    report["python"] = {}
    print(f"neighbourhoods: {given.minutes} minutes from seed {given.seed}", flush=True)
    for name in names:
        reason = runs_here(name)
        if reason:
            print(f"  {name}: not run, {reason}", flush=True)
            continue
        report["python"][name] = soak(name, 60 * given.minutes / len(names), given.cases, given.seed)
    report["python_seed"] = given.seed
    if given.json:
        given.json.write_text(json.dumps(report, indent=2, sort_keys=True) + "\n")
    return 1 if any(tally["failed"] for tally in report["python"].values()) else 0


if __name__ == "__main__":
    sys.exit(main())
