"""Whether kernels compare only what they have computed.

The compiler was seen to put the comparison that ends an unrolled loop before the addition that it is about, so that the
first round compared what no instruction had written. Registers of data may be written on some paths alone, those that
the same condition guards; what integer comparisons and branches read must have been written on every path.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

REGISTER = re.compile(r"%(?:p|rd|rs|r|fd|f)\d+")


@dataclass
class Instruction:
    """One line: what it writes and reads, and where it may go."""

    text: str
    written: frozenset[str]
    read: frozenset[str]
    target: str | None
    falls_through: bool

    @property
    def decides(self) -> bool:
        """Whether what it reads decides where a thread goes."""
        return bool(re.match(r"@|setp\.\w+\.[sub]|(and|or|not|xor)\.pred", self.text))


def parse(text: str) -> Instruction:
    """Take one instruction apart."""
    guard = re.match(r"@!?(%p\d+)\s+", text)
    body = text[guard.end() :] if guard else text
    operation, _, operands = body.partition(" ")
    operation, operands = operation.strip(), operands.strip()
    target = re.match(r"bra(?:\.uni)?\s+(\$\w+)", body)
    if target or operation.startswith(("st.", "bar", "ret")):
        written, read = "", operands
    elif operands.startswith("{"):
        written, _, read = operands.partition("}")
    else:
        written, _, read = operands.partition(",")
    reads = set(REGISTER.findall(read)) | ({guard[1]} if guard else set())
    falls_through = bool(guard) or not (target or operation.startswith("ret"))
    return Instruction(
        text, frozenset(REGISTER.findall(written)), frozenset(reads), target and target[1], falls_through
    )


def undefined(kernel: str) -> list[str]:
    """Return the deciding instructions of a kernel's text that read what some path has not written."""
    instructions: list[Instruction] = []
    labels: dict[str, int] = {}
    for line in kernel.split("\n"):
        text = " ".join(line.split())
        if text.startswith("$"):
            labels[text.rstrip(":")] = len(instructions)
        elif text.endswith(";") and not text.startswith((".", "//")):
            instructions.append(parse(text))
    known: list[frozenset[str] | None] = [None] * (len(instructions) + 1)
    known[0] = frozenset()
    waiting = [0]
    while waiting:
        here = waiting.pop()
        before = known[here]
        if here == len(instructions) or before is None:
            continue
        instruction = instructions[here]
        after = before | instruction.written
        following = [here + 1] if instruction.falls_through else []
        if instruction.target:
            following.append(labels[instruction.target])
        for place in following:
            seen = known[place]
            merged = after if seen is None else seen & after
            if merged != seen:
                known[place] = merged
                waiting.append(place)
    return [
        f"{instruction.text} reads {', '.join(sorted(instruction.read - before))}"
        for instruction, before in zip(instructions, known, strict=False)
        if before is not None and instruction.decides and instruction.read - before
    ]


def complaints(ptx: str) -> list[str]:
    """Return what is wrong with the kernels of a module."""
    kernels = re.findall(r"^\.visible \.entry (\w+)\(.*?^\{$(.*?)^\}$", ptx, flags=re.M | re.S)
    if len(kernels) != ptx.count(".visible .entry "):
        return ["not every kernel could be read"]
    return [f"{name}: {complaint}" for name, body in kernels for complaint in undefined(body)]
