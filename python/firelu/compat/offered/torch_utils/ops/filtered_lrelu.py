"""`filtered_lrelu` under the name and with the parameters that networks know."""

from __future__ import annotations

from typing import Any

import firelu.torch
from torch import Tensor


def filtered_lrelu(
    x: Tensor,
    fu: Tensor | None = None,
    fd: Tensor | None = None,
    b: Tensor | None = None,
    up: int = 1,
    down: int = 1,
    padding: Any = 0,
    gain: float = 2**0.5,
    slope: float = 0.2,
    clamp: float | None = None,
    flip_filter: bool = False,
    impl: Any = "cuda",
) -> Tensor:
    """Upsample, activate, downsample; ``impl`` is accepted and ignored."""
    result: Tensor = firelu.torch.filtered_lrelu(x, fu, fd, b, up, down, padding, gain, slope, clamp, flip_filter)
    return result
