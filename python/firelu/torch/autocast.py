"""Autocast: an operator runs in its input's dtype; inputs that must agree are promoted to the widest of them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from . import private

if TYPE_CHECKING:
    from .bridge import Bridged


def kernel(bridged: Bridged, device: str) -> Callable[..., Any]:
    """Make the kernel of the key ``Autocast<device>``."""
    key = private.find(f"torch._C:DispatchKey.Autocast{device}")

    def without() -> Any:
        """Give the context in which the operator does not come back here."""
        if not private.are_there(private.excluding_keys, private.key_set, key):
            return torch.autocast(device.lower(), enabled=False)
        return private.excluding_keys(private.key_set(key))

    def autocast(*arguments: Any) -> Any:
        with without():
            return bridged.overload(*promoted(bridged, arguments))

    return autocast


def promoted(bridged: Bridged, arguments: tuple[Any, ...]) -> list[Any]:
    """Give the arguments with inputs of one dtype where the schema asks for one."""
    signature = bridged.signature
    complete = signature.complete(arguments)
    common = [
        tensor.dtype
        for spec, place in zip(signature.inputs, signature.places, strict=True)
        if spec.dtype == "common" and not spec.shape_only
        for tensor in _listed(complete[place])
        if tensor.is_floating_point()
    ]
    if not common:
        return complete
    widest = functools.reduce(torch.promote_types, common)
    beside = {widest, torch.float32} if widest in (torch.float16, torch.bfloat16) else {widest}
    for spec, place in zip(signature.inputs, signature.places, strict=True):
        taken = {"common": {widest}, "common or float32": beside}.get(spec.dtype)
        if taken is None or complete[place] is None:
            continue
        if spec.shape_only:
            complete[place + 1] = complete[place + 1] if complete[place + 1] in taken else widest
        elif isinstance(complete[place], torch.Tensor):
            complete[place] = _cast(complete[place], taken, widest)
        else:
            complete[place] = [_cast(tensor, taken, widest) for tensor in complete[place]]
    return complete


def _listed(value: Any) -> list[torch.Tensor]:
    if value is None:
        return []
    return [value] if isinstance(value, torch.Tensor) else list(value)


def _cast(tensor: torch.Tensor, taken: set[torch.dtype], widest: torch.dtype) -> torch.Tensor:
    return tensor if tensor.dtype in taken or not tensor.is_floating_point() else tensor.to(widest)
