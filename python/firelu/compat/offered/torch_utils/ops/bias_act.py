"""`bias_act` under the name and with the parameters that networks know."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import firelu.torch
from firelu.compat.replacements.stylegan3 import DEFAULTS
from torch import Tensor

#: By its name: the defaults of each activation.
activation_funcs = {name: SimpleNamespace(def_alpha=alpha, def_gain=gain) for name, (alpha, gain) in DEFAULTS.items()}


def bias_act(
    x: Tensor,
    b: Tensor | None = None,
    dim: int = 1,
    act: str = "linear",
    alpha: float | None = None,
    gain: float | None = None,
    clamp: float | None = None,
    impl: Any = "cuda",
) -> Tensor:
    """Add a bias, activate, multiply by a gain and clip, in one pass; ``impl`` is accepted and ignored."""
    limit = None if clamp is None or clamp < 0 else float(clamp)
    result: Tensor = firelu.torch.bias_act(x, b, act, alpha=alpha, gain=gain, clamp=limit, axis=dim)
    return result
