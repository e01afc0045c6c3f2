"""What the machine code of the kernels must show: no local memory, and loads under way together.

PTX says in which order loads are written; the assembler decides in which order they are issued. The loaders of the
tiled filters are held to their plan in the machine code itself: so many loads of one width before the first store to
shared memory. Needs an assembler and a disassembler (`python cuda/build.py fetch`), no GPU.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from pathlib import Path

INSTRUCTION = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]*)")
# Loads of sixteen bytes that are under way before the first store to shared memory.
TOGETHER = {"filter": 6, "up2": 2, "down2": 6, "channels_last": 4}
WIDE = "LDG.E.128"


def kernels(listing: str) -> dict[str, list[str]]:
    """Return the instructions of every kernel, without operands, in order."""
    texts = re.split(r"^\.text\.(\w+):", listing, flags=re.M)[1:]
    return {name: INSTRUCTION.findall(body) for name, body in zip(texts[::2], texts[1::2], strict=True)}


def runs(instructions: list[str]) -> list[list[str]]:
    """Return the loads from global memory between one store to shared memory and the next."""
    found: list[list[str]] = [[]]
    for instruction in instructions:
        if instruction.startswith("LDG"):
            found[-1].append(instruction)
        elif instruction.startswith("STS") and found[-1]:
            found.append([])
    return found


def complaints(listing: str) -> list[str]:
    """Return what is wrong with the kernels of a disassembled module."""
    found = []
    for name, instructions in sorted(kernels(listing).items()):
        local = [i for i in instructions if i.startswith(("LDL", "STL"))]
        if local:
            found.append(f"{name}: {len(local)} accesses to local memory")
        if cached := [i for i in instructions if i.startswith("LDG") and ".CONSTANT" in i]:
            found.append(
                f"{name}: {len(cached)} loads past the coherent cache, which memory used in place does not allow"
            )
        stem = name.removeprefix("upfirdn2d_").rpartition("_")[0]
        if stem in TOGETHER:
            most = max(sum(load.split(".STRONG")[0] == WIDE for load in run) for run in runs(instructions))
            if most < TOGETHER[stem]:
                found.append(f"{name}: {most} loads {WIDE} before a store, {TOGETHER[stem]} are planned")
    return found


def disassemble(assembler: Path, disassembler: Path, architecture: str, module: Path) -> str:
    """Return the machine code of a module as text."""
    with tempfile.TemporaryDirectory() as directory:
        image = f"{directory}/a.cubin"
        subprocess.run([assembler, f"--gpu-name={architecture}", "--output-file", image, module], check=True)
        done = subprocess.run([disassembler, "--print-code", image], capture_output=True, text=True, check=True)
    return done.stdout
