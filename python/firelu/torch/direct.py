"""Calls that go past torch's dispatcher, where nothing on the way would see them.

The dispatcher takes a Python kernel's arguments apart and puts them together again, which costs more than a
small call. Plain CPU tensors under no mode, transform, profiler or autocast meet no other kernel than autograd's
and ours, so those are called straight away.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import _C

from ..errors import ArgumentError

if TYPE_CHECKING:
    from .bridge import Bridged

_EXACT = frozenset((torch.Tensor, torch.nn.Parameter))
_TENSOR = _C._dispatch_keys(torch.empty(0)).raw_repr()


def _thread_state() -> tuple[int, int]:
    """Give the keys that this thread adds to every call and those that it leaves out."""
    included, excluded = _C._dispatch_tls_local_include_set(), _C._dispatch_tls_local_exclude_set()
    return included.raw_repr(), excluded.raw_repr()


def _fresh_thread_state() -> tuple[int, int]:
    """Give the state of a thread under no mode; the importing thread may be under any."""
    states: list[tuple[int, int]] = []
    thread = threading.Thread(target=lambda: states.append(_thread_state()))
    thread.start()
    thread.join()
    return states[0]


_INCLUDED, _EXCLUDED = _fresh_thread_state()


def caller(bridged: Bridged, record: Callable[[Any, bool, tuple[Any, ...]], Any]) -> Callable[..., Any]:
    """Make the operator as a function: the same as its torch operator, with a shorter way for plain tensors."""
    overload, compute, places = bridged.overload, bridged.kernel, bridged.signature.tensor_places
    # The other tracers than dynamo bring tensors or a mode of their own, which are asked for below.
    is_compiling, grad_enabled = torch.compiler.is_dynamo_compiling, torch.is_grad_enabled
    function_mode, profiler = _C._is_torch_function_mode_enabled, _C._autograd._profiler_enabled
    included, excluded = _C._dispatch_tls_local_include_set, _C._dispatch_tls_local_exclude_set
    keys, exact, plain = _C._dispatch_keys, _EXACT, _TENSOR

    def call(*arguments: Any) -> Any:
        if (
            is_compiling()
            or function_mode()
            or profiler()
            or included().raw_repr() != _INCLUDED
            or excluded().raw_repr() != _EXCLUDED
        ):
            return overload(*arguments)
        requires_grad = False
        for place in places:
            value = arguments[place]
            if value is None:
                continue
            if type(value) not in exact or keys(value).raw_repr() != plain:
                return overload(*arguments)
            requires_grad = requires_grad or value.requires_grad
        try:
            if requires_grad and grad_enabled():
                return record(None, True, arguments)
            return compute(*arguments)
        except ArgumentError:
            # The dispatcher converts what is nearly a number, such as a tensor of one element, or explains.
            return overload(*arguments)

    return call
