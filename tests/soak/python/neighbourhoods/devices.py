"""Tensors of different devices: refused before there is any output; all of them on meta give meta."""

from __future__ import annotations

from random import Random

import torch

from .calls import flat, sample_of
from .refusals import refused_for_its_device


def case(choices: Random) -> bool:
    """Move some tensors of a call elsewhere."""
    sample = sample_of(choices)
    arguments = sample.arguments(choices.choice([torch.float32, torch.float64, torch.float16]), choices.random() < 0.5)
    expected = [output.shape for output in flat(sample.overload(*arguments))]
    places = [(i, j) for i, value in enumerate(arguments) for j in range(_tensors(value))]
    moved = [place for place in places if choices.random() < 0.5]
    arguments = [
        [_on_meta(item, (i, j) in moved) for j, item in enumerate(value)]
        if isinstance(value, list) and _tensors(value)
        else _on_meta(value, (i, 0) in moved)
        for i, value in enumerate(arguments)
    ]
    if 0 < len(moved) < len(places):
        refused_for_its_device(sample.operator, lambda: sample.overload(*arguments))
        return True
    outputs = flat(sample.overload(*arguments))
    assert [output.shape for output in outputs] == expected
    assert all(output.is_meta == bool(moved) for output in outputs), f"{sample}: an output is on another device"
    return False


def _tensors(value) -> int:
    """Give how many tensors an argument is."""
    if isinstance(value, torch.Tensor):
        return 1
    return len(value) if isinstance(value, list) and value and isinstance(value[0], torch.Tensor) else 0


def _on_meta(value, move: bool):
    return value.to("meta") if move else value
