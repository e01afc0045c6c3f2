"""Which tensors firelu computes with, and what happens to all others."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..fallbacks import Fallbacks

_DTYPES = frozenset({torch.float16, torch.bfloat16, torch.float32, torch.float64})
_NAMES = "float16, bfloat16, float32 and float64"


def served(tensor: Any, *devices: str) -> bool:
    """Tell whether firelu computes with this tensor; without further devices, on the CPU and on meta alone."""
    # A device's name takes longer to read than all the rest.
    place = isinstance(tensor, Tensor) and (tensor.is_cpu or tensor.device.type in ("meta", *devices))
    return place and tensor.dtype in _DTYPES and tensor.layout == torch.strided


def why_not(name: str, tensor: Any) -> str:
    """Say why firelu does not compute with a tensor that is not `served`."""
    if not isinstance(tensor, Tensor):
        return f"{name}: got a {type(tensor).__qualname__}, takes a tensor"
    kind = str(tensor.dtype).removeprefix("torch.")
    if tensor.dtype not in _DTYPES:
        return f"{name}: got {kind}, takes {_NAMES}"
    if tensor.layout != torch.strided:
        return f"{name}: got a tensor of layout {tensor.layout}, takes a strided one"
    return f"{name}: got a tensor on {tensor.device.type}, takes one on cpu"


def tell(fallbacks: Fallbacks, what: str, why: str) -> None:
    """Warn once; a graph that is being compiled has no place for it."""
    if why and not torch.compiler.is_compiling():
        fallbacks.tell(what, why)
