"""The registry's operators as torch operators: one generic registration, no class for each operator."""

from __future__ import annotations

import threading
from typing import Any

import torch

from .. import _firelu
from .._firelu import OpSchema, TorchOperator
from . import autocast, autograd, batching, direct, fake
from .signature import Signature

#: What the compiler must know: the operators are written for it, and an output's strides follow an input's.
_TAGS = (
    torch.Tag.pt2_compliant_tag,
    getattr(torch.Tag, "needs_exact_strides", torch.Tag.needs_fixed_stride_order),
)

_LIBRARY: Any = torch.library.Library("firelu", "FRAGMENT")  # type: ignore[no-untyped-call]
_LOCK = threading.RLock()
_BRIDGED: dict[str, Bridged] = {}


class Bridged:
    """One operator on both sides."""

    def __init__(self, schema: OpSchema) -> None:
        self.schema = schema
        self.signature = Signature(schema)
        self.kernel = TorchOperator(schema.name)
        name = self.signature.name
        _LIBRARY.define(self.signature.declaration, tags=_TAGS)
        self.overload: Any = getattr(torch.ops.firelu, name).default
        for key in ("CPU", "CUDA"):
            _LIBRARY.impl(name, self.kernel, key)
        record = autograd.recorder(self)
        _LIBRARY.impl(name, autograd.kernel(self, record), "Autograd", with_keyset=True)
        self.call = direct.caller(self, record)
        for device in ("CPU", "CUDA"):
            _LIBRARY.impl(name, autocast.kernel(self, device), f"Autocast{device}", with_keyset=True)
        self.fake = fake.kernel(self)
        torch.library.register_fake(f"firelu::{name}", self.fake, lib=_LIBRARY)
        torch.library.register_vmap(f"firelu::{name}", batching.rule(self), lib=_LIBRARY)


def bridged(operator: str) -> Bridged:
    """Give an operator of the registry as a torch operator, registered on first use."""
    with _LOCK:
        if operator not in _BRIDGED:
            _BRIDGED[operator] = Bridged(_firelu.schema(operator))
        return _BRIDGED[operator]


def register(operator: str) -> Any:
    """Make an operator that was added to the registry later available to torch.

    Args:
        operator: its registered name, such as ``"LeakyRelu"``.

    Returns:
        The torch operator, ``torch.ops.firelu.<name>.default``. Its derivative is the registry's; compiled with
        dynamic shapes it is specialised to the shapes it sees.
    """
    return bridged(operator).overload


for _name in _firelu.operators():
    bridged(_name)
del _name
