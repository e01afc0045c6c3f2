"""Multiply and add."""

from __future__ import annotations

import torch
from torch import Tensor


def fma(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """Give a * b + c."""
    return torch.addcmul(c, a, b)
