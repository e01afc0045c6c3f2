"""Random calls of the operators as torch knows them, made of the samples that the torch tests have for each."""

from __future__ import annotations

import sys
from pathlib import Path
from random import Random
from typing import Any

import torch

sys.path.append(str(Path(__file__).parents[3] / "torch_bridge"))
from torch_samples import SAMPLES, Sample

#: Real arguments that may be any number.
NUMBERS = ("alpha", "scale", "gain", "up_gain")


def sample_of(choices: Random) -> Sample:
    """Give a call of any operator with numbers of its own for the real arguments that it names."""
    sample = choices.choice(SAMPLES)
    constants = {
        name: choices.uniform(-2, 2) if name in NUMBERS and choices.random() < 0.7 else value
        for name, value in sample.constants.items()
    }
    return Sample(sample.operator, sample.inputs, constants, f"{sample.label} {choices.random()}")


def random_like(tensors: tuple[torch.Tensor, ...], choices: Random) -> tuple[torch.Tensor, ...]:
    """Give tensors of the same shapes and types, of normal numbers."""
    generator = torch.Generator().manual_seed(choices.getrandbits(60))
    return tuple(torch.randn(t.shape, generator=generator, dtype=t.dtype) for t in tensors)


def flat(results: Any) -> tuple[torch.Tensor, ...]:
    """Give an operator's results as a tuple."""
    return tuple(results) if isinstance(results, (tuple, list)) else (results,)
