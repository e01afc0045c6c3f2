"""The registry's operators as torch operators: one generic registration, no class for each operator."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import torch

from .. import _firelu
from .._firelu import OpSchema, TorchOperator
from ..errors import ArgumentError
from . import autocast, autograd, batching, direct, fake, gradients, private
from .operators import RULES
from .signature import Signature, check_spelling

#: What the compiler must know: the operators are written for it, and an output's strides follow an input's.
_TAGS = (
    torch.Tag.pt2_compliant_tag,
    getattr(torch.Tag, "needs_exact_strides", torch.Tag.needs_fixed_stride_order),
)


def _new_library() -> Any:
    """Give a home for operators, remembered beyond this module: a second import of it takes the first one's back."""
    library: Any = torch.library.Library("firelu", "FRAGMENT")  # type: ignore[no-untyped-call]
    vars(_firelu).setdefault("torch_libraries", []).append(library)
    return library


def _take_back(libraries: list[Any]) -> None:
    if private.destroy_library is not None:
        while libraries:
            private.destroy_library(libraries.pop())


# Those of an earlier import, whole or broken off, make room first.
_take_back(getattr(_firelu, "torch_libraries", []))
_LIBRARY = _new_library()
_LOCK = threading.RLock()
_BRIDGED: dict[str, Bridged] = {}


class Bridged:
    """One operator on both sides."""

    def __init__(self, schema: OpSchema, library: Any) -> None:
        self.schema = schema
        self.library = library
        self.signature = Signature(schema)
        check_spelling(schema, self.signature)
        self.kernel = TorchOperator(schema.name)
        name = self.signature.name
        _check_free(schema.name, name)
        library.define(self.signature.declaration, tags=_TAGS)
        self.overload: Any = getattr(torch.ops.firelu, name).default
        for key in ("CPU", "CUDA"):
            library.impl(name, self.kernel, key)
        self.recorder = autograd.Recorder(self)
        record = autograd.recorder(self) if autograd.IS_AVAILABLE else None
        if record is None:
            autograd.register_public(self, library)
        else:
            library.impl(name, autograd.kernel(self, record), "Autograd", with_keyset=True)
        self.call = direct.caller(self, record)
        for device in ("CPU", "CUDA"):
            library.impl(name, autocast.kernel(self, device), f"Autocast{device}")
        self.fake = fake.kernel(self)
        torch.library.register_fake(f"firelu::{name}", self.fake, lib=library)
        torch.library.register_vmap(f"firelu::{name}", batching.rule(self), lib=library)


def _check_free(operator: str, name: str) -> None:
    """Refuse a name that another operator has in torch, where capitals and dots are not told apart."""
    others = [other for other, known in _BRIDGED.items() if known.signature.name == name]
    if others or name in vars(torch.ops.firelu):
        got = f"the name of {others[0]}" if others else "a name that torch keeps for itself"
        raise ArgumentError(f"{operator}: name: got torch.ops.firelu.{name}, {got}, takes a name of its own")


def bridged(operator: str) -> Bridged:
    """Give an operator of the registry as a torch operator, registered on first use."""
    with _LOCK:
        if operator not in _BRIDGED:
            # A user's operator has a library of its own, so that it can be taken back alone.
            library = _LIBRARY if operator in RULES else _new_library()
            _BRIDGED[operator] = Bridged(_firelu.schema(operator), library)
        return _BRIDGED[operator]


def forget(operator: str) -> None:
    """Take back what torch knows of an operator that was replaced in the registry; the next use declares the new one.

    Raises:
        ArgumentError: this torch cannot take an operator back.
    """
    with _LOCK:
        known = _BRIDGED.pop(operator, None)
        if known is None:
            return
        if private.destroy_library is None:
            raise ArgumentError(f"{operator}: name: got a name that this torch keeps, takes another for a new operator")
        _take_back([known.library])
        gradients.forget_plans()


def register(operator: str) -> Callable[..., object]:
    """Make an operator that was added to the registry later available to torch.

    Args:
        operator: its registered name, such as ``"LeakyRelu"``.

    Returns:
        The torch operator, ``torch.ops.firelu.<name>.default``. Its derivative is the registry's, in reverse and in
        forward mode; compiled with dynamic shapes it is specialised to the shapes it sees.

    Raises:
        UnknownOperatorError: nobody has registered it.
        ArgumentError: torch cannot spell its name, a parameter or a default, or another operator has that name there.
    """
    overload: Callable[..., object] = bridged(operator).overload
    return overload


for _name in _firelu.operators():
    bridged(_name)
del _name
