"""torch's convolutions, which have derivatives of every order by now, under the names that networks use."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch.nn.functional import conv2d, conv_transpose2d

__all__ = ["conv2d", "conv_transpose2d", "enabled", "no_weight_gradients", "weight_gradients_disabled"]

enabled = False
weight_gradients_disabled = False


@contextmanager
def no_weight_gradients(disable: bool = True) -> Iterator[None]:
    """Say that gradients of weights are not wanted; only speed would differ."""
    global weight_gradients_disabled
    before = weight_gradients_disabled
    weight_gradients_disabled = before or disable
    try:
        yield
    finally:
        weight_gradients_disabled = before
