"""Who is timed through torch, by name, and one piece of work."""

from __future__ import annotations

from dataclasses import dataclass

from .measure import Run

BRIDGE, ARRAYS = "firelu.torch", "firelu"
#: The forward pass of a case that times forward and backward together.
FORWARD = "firelu.torch, forward"
EAGER, COMPILED = "torch eager", "torch.compile"


@dataclass
class TorchCase:
    """One piece of work, the bytes it reads and writes, and everyone who does it: firelu first."""

    name: str
    traffic: int
    runs: dict[str, Run]
    #: Multiply-adds that firelu's first call does, where they are what it takes time for.
    multiply_adds: int = 0
