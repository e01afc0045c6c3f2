"""How many cycles the filter loops take an output, computed by llvm-mca for processors that need not be at hand.

Compiles the filters for arm64 and x86-64, cuts the loop over the inside of a plane out of each function, and writes
docs/cycles.json. Memory is left out: every load is taken to hit the first-level cache.

python benches/cycles.py --rustc /usr/bin/rustc --mca llvm-mca-22
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
#: The loops: phases, inputs a period, terms, start of the second phase.
LOOPS = {"blur": (1, 1, 4, 0), "up 2": (2, 1, 2, 1), "down 2": (1, 2, 4, 0)}
#: For each architecture: its level, the mnemonics of products and of plain stores of registers, and processors.
ARM64, X86 = "aarch64-unknown-linux-gnu", "x86_64-unknown-linux-gnu"
LEVELS = {ARM64: "neon", X86: "avx2"}
PROCESSORS = {ARM64: ("apple-m1", "neoverse-v2"), X86: ("znver4", "icelake-server")}
PRODUCTS = {ARM64: re.compile(r"fmla|fmul"), X86: re.compile(r"vfmadd|vmulps")}
JUMPS = {ARM64: re.compile(r"(b|b\.\w+|cbn?z|tbn?z)$"), X86: re.compile(r"j\w+$")}
ALWAYS = {ARM64: "b", X86: "jmp"}
ITERATIONS = 400
#: Loops with more branches are not the inside of a row.
MOST_BRANCHES = 12


def assembly(target: str, rustc: str) -> list[str]:
    """Compile the filters and give their assembly."""
    folder = ROOT / "target" / "cycles"
    flags = ["--emit", "asm", "-C", "codegen-units=1", "-C", "symbol-mangling-version=v0"]
    subprocess.run(
        ["cargo", "rustc", "--release", "-p", "firelu-filters", "--lib", "--target", target, "--", *flags],
        cwd=ROOT,
        env=os.environ | {"RUSTC": rustc, "CARGO_TARGET_DIR": str(folder)},
        check=True,
    )
    files = (folder / target / "release" / "deps").glob("firelu_filters-*.s")
    return max(files, key=lambda path: path.stat().st_mtime).read_text(encoding="utf-8").splitlines()


def function(lines: list[str], level: str, numbers: tuple[int, ...]) -> list[str]:
    """Give the body of one compiled loop on planes of float32."""
    # A number that has stood in the name before is a reference to that place.
    known = [number in numbers[:at] for at, number in enumerate(numbers)]
    constants = "".join(r"KB\w+?_" if seen else f"Kj{number}_" for seen, number in zip(known, numbers, strict=True))
    name = re.compile(rf"^(_R\w*{level}6planesf\w*{constants}\w*):")
    starts = [at for at, line in enumerate(lines) if name.match(line)]
    assert len(starts) == 1, f"{level} {numbers}: {len(starts)} functions"
    end = next(at for at in range(starts[0], len(lines)) if lines[at].startswith(".Lfunc_end"))
    code = [re.split(r"//" if level == "neon" else r"\s#", line)[0].strip() for line in lines[starts[0] + 1 : end]]
    return [line for line in code if line and (not line.startswith(".") or re.match(r"\.L\w+:", line))]


def paths(body: list[str], start: int, end: int, target: str) -> Iterator[list[str]]:
    """Give every way from a loop's first instruction to its jump back."""
    labels = {line[:-1]: at for at, line in enumerate(body) if line.endswith(":")}

    def walk(at: int, done: list[str]) -> Iterator[list[str]]:
        while at <= end:
            line = body[at]
            mnemonic, *operands = line.replace(",", " ").split()
            if line.endswith(":"):
                at += 1
            elif JUMPS[target].match(mnemonic):
                goal = labels.get(operands[-1])
                if goal == start:
                    yield [*done, line]
                    if mnemonic == ALWAYS[target]:
                        return
                elif goal is not None and at < goal <= end:
                    yield from walk(goal, [*done, line])
                    if mnemonic == ALWAYS[target]:
                        return
                elif mnemonic == ALWAYS[target]:
                    return
                done, at = [*done, line], at + 1
            else:
                done, at = [*done, line], at + 1

    return walk(start, [])


def stored(line: str, target: str) -> int:
    """Give how many float32 numbers an instruction stores into a row, and not on the stack."""
    mnemonic, rest = (*line.split(maxsplit=1), "")[:2]
    if target == ARM64:
        if "[sp" in rest:
            return 0
        if mnemonic == "st2":  # interleaved on the way
            return 8 if ".4s" in rest else 4
        return {"stp": 8, "str": 4, "stur": 4}.get(mnemonic, 0) if re.match(r"q\d", rest) else 0
    is_store = re.match(r"%ymm\d+, .*\)$", rest) and "(%rsp" not in rest and "(%rbp" not in rest
    return 8 if mnemonic in ("vmovups", "vmovaps") and is_store else 0


def hot_loop(body: list[str], target: str) -> tuple[list[str], int]:
    """Give the loop that stores the most numbers an iteration, and how many: two rows of several registers each."""
    labels = {line[:-1]: at for at, line in enumerate(body) if line.endswith(":")}
    jumps = [(at, line.replace(",", " ").split()) for at, line in enumerate(body)]
    jumps = [(at, parts[-1]) for at, parts in jumps if JUMPS[target].match(parts[0]) and len(parts) > 1]
    loops = [(labels[goal], at) for at, goal in jumps if labels.get(goal, at) < at]
    found = []
    for start, end in loops:
        # The inside of a row takes few branches, and has no loop of its own; the ways through all others are countless.
        inside = sum(start < at < end for at, _ in jumps)
        if inside > MOST_BRANCHES or any(start < other and last < end for other, last in loops):
            continue
        for path in paths(body, start, end, target):
            outputs = sum(stored(line, target) for line in path)
            products = sum(bool(PRODUCTS[target].match(line)) for line in path)
            if outputs and products and not any("vmovnt" in line for line in path):
                found.append((outputs, -len(path), path))
    assert found, "no loop stores anything"
    outputs, _, path = max(found)
    return path, outputs


def cycles(path: list[str], target: str, processor: str, mca: str) -> float:
    """Give the cycles of an iteration."""
    code = "\n".join(path)
    command = [mca, f"-mtriple={target}", f"-mcpu={processor}", f"-iterations={ITERATIONS}"]
    printed = subprocess.run(command, input=code, text=True, capture_output=True, check=True).stdout
    found = re.search(r"Total Cycles:\s+(\d+)", printed)
    assert found
    return int(found[1]) / ITERATIONS


def main() -> None:
    """Compile, compute and write."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rustc", default="rustc", help="a compiler with the libraries of both architectures")
    options.add_argument("--mca", default="llvm-mca", help="the program that computes")
    chosen = options.parse_args()
    version = subprocess.run([chosen.mca, "--version"], text=True, capture_output=True, check=True).stdout
    found: dict[str, dict[str, float]] = {}
    for target, level in LEVELS.items():
        lines = assembly(target, chosen.rustc)
        for name, numbers in LOOPS.items():
            path, outputs = hot_loop(function(lines, level, numbers), target)
            for processor in PROCESSORS[target]:
                taken = cycles(path, target, processor, chosen.mca)
                found.setdefault(name, {})[processor] = taken / outputs
                size = f"{outputs} outputs, {len(path)} instructions"
                print(f"{name:<8} {level:<5} {processor:<15} {size}, {taken:.2f} cycles")
    release = re.search(r"LLVM version ([\d.]+)", version)
    assert release
    results = {"llvm": release[1], "arm64": PROCESSORS[ARM64], "x86": PROCESSORS[X86], "cycles_an_output": found}
    (ROOT / "docs" / "cycles.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
