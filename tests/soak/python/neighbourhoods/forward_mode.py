"""Forward mode: the tangent of every operator against differences, and against its gradients."""

from __future__ import annotations

from random import Random

import torch
from torch.func import jvp, vjp

from .calls import flat, random_like, sample_of


def case(choices: Random) -> None:
    """Compare a tangent with differences and with the transposed gradient."""
    sample = sample_of(choices)
    function, tensors = sample.function_of_tensors(sample.arguments(torch.float64))

    def results(*values: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return flat(function(*values))

    tangents = random_like(tensors, choices)
    # Some inputs stand still.
    tangents = tuple(t if choices.random() < 0.8 else torch.zeros_like(t) for t in tangents)
    values, found = jvp(results, tensors, tangents)
    torch.testing.assert_close(values, results(*tensors))
    cotangents = random_like(values, choices)
    gradients = vjp(results, *tensors)[1](cotangents)
    left = sum((a * b).sum() for a, b in zip(found, cotangents, strict=True))
    right = sum((a * b).sum() for a, b in zip(gradients, tangents, strict=True))
    size = sum((a * b).abs().sum() for a, b in zip(found, cotangents, strict=True)) + 1
    assert abs(left - right) <= 1e-9 * size, f"{sample}: tangents give {left}, gradients {right}"
    # A step over the corner of an activation is no derivative: one of three sizes keeps clear of all.
    off = [_off(results, tensors, tangents, found, step) for step in (1e-5, 1e-6, 1e-7)]
    assert min(off) <= 1e-5, f"{sample}: the tangent is {min(off)} from the difference"


def _off(results, tensors, tangents, found, step: float) -> float:
    """Give how far tangents are from central differences, of their size."""
    ahead, behind = (
        results(*(x + sign * step * t for x, t in zip(tensors, tangents, strict=True))) for sign in (1, -1)
    )
    worst = 0.0
    for first, second, tangent in zip(ahead, behind, found, strict=True):
        if tangent.numel():
            difference = (first - second) / (2 * step)
            worst = max(
                worst, float((difference - tangent).abs().max() / (1 + tangent.abs().max() + first.abs().max()))
            )
    return worst
