"""Comparing two ways to compute something, up to the second derivative."""

from __future__ import annotations

import torch


def check_derivatives(function, plain, *inputs):
    """Both give the same values, first and second derivatives, for inputs that require grad."""
    results = []
    for each in (function, plain):
        value = each(*inputs)
        # A weight for each value: a derivative that is only right on the whole would be seen.
        weights = torch.linspace(0.5, 1.5, value.numel(), dtype=value.dtype).reshape(value.shape)
        first = torch.autograd.grad((weights * value * value).sum(), inputs, create_graph=True)
        second = torch.autograd.grad(sum((gradient * gradient).sum() for gradient in first), inputs)
        results.append((value, *first, *second))
    torch.testing.assert_close(results[0], results[1])


def tensors(*shapes, seed=0):
    """Give float64 tensors that require grad."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator, dtype=torch.float64).requires_grad_() for shape in shapes]
