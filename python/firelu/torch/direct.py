"""Calls that go past torch's dispatcher, where nothing on the way would see them.

The dispatcher takes a Python kernel's arguments apart and puts them together again, which costs more than a
small call. Plain tensors of the CPU or of CUDA devices under no mode, transform, profiler or autocast meet no other
kernel than autograd's and ours, so those are called straight away.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from ..errors import ArgumentError, NoGradientError
from . import autograd, private

if TYPE_CHECKING:
    from .autograd import Record
    from .bridge import Bridged

_IS_AVAILABLE = autograd.IS_AVAILABLE and private.are_there(
    private.dispatch_keys,
    private.included_keys,
    private.excluded_keys,
    private.is_function_mode_enabled,
    private.is_profiler_enabled,
)


def _plain_state() -> tuple[int, int]:
    """Give the keys that a thread adds to every call, and those that it leaves out."""
    return private.included_keys().raw_repr(), private.excluded_keys().raw_repr()


def _keys_of_plain(device: str) -> int:
    """Give the keys of a plain tensor of a device."""
    keys: int = private.dispatch_keys(torch.empty(0, device=device)).raw_repr()
    return keys


_Result = TypeVar("_Result")


def _in_fresh_thread(function: Callable[[], _Result]) -> _Result:
    """Run a function under no mode; the importing thread may be under any."""
    results: list[_Result] = []
    thread = threading.Thread(target=lambda: results.append(function()))
    thread.start()
    thread.join()
    return results[0]


_INCLUDED, _EXCLUDED = _in_fresh_thread(_plain_state) if _IS_AVAILABLE else (0, 0)
_CPU = _in_fresh_thread(lambda: _keys_of_plain("cpu")) if _IS_AVAILABLE else 0
#: Whether keys that were seen are those of a plain tensor of a CUDA device. Importing must not start CUDA, so a plain
#: one is asked for when the first tensor of such a device comes.
_CUDA: dict[int, bool] = {}


def _is_plain_cuda(tensor: torch.Tensor, keys: int) -> bool:
    """Tell whether keys that are not the CPU's are those of a plain tensor of a CUDA device."""
    known = _CUDA.get(keys)
    if known is None and tensor.is_cuda:
        plain = _in_fresh_thread(lambda: _keys_of_plain(str(tensor.device)))
        _CUDA[plain] = True
        known = _CUDA.setdefault(keys, False)
    return bool(known)


def caller(bridged: Bridged, record: Record | None) -> Callable[..., Any]:
    """Make the operator as a function: the same as its torch operator, with a shorter way for plain tensors."""
    dispatched = _dispatched(bridged)
    if record is None or not _IS_AVAILABLE:
        return dispatched
    compute, places = bridged.kernel, bridged.signature.tensor_places
    # The other tracers than dynamo bring tensors or a mode of their own, which are asked for below.
    is_compiling, grad_enabled = torch.compiler.is_dynamo_compiling, torch.is_grad_enabled
    function_mode, profiler = private.is_function_mode_enabled, private.is_profiler_enabled
    included, excluded = private.included_keys, private.excluded_keys
    keys, exact, seen = private.dispatch_keys, autograd.EXACT, _CUDA.get
    in_forward_mode = private.in_forward_mode

    def call(*arguments: Any) -> Any:
        if (
            is_compiling()
            or in_forward_mode()
            or function_mode()
            or profiler()
            or included().raw_repr() != _INCLUDED
            or excluded().raw_repr() != _EXCLUDED
        ):
            return dispatched(*arguments)
        requires_grad, plain = False, 0
        for place in places:
            value = arguments[place]
            if value is None:
                continue
            if type(value) not in exact:
                return dispatched(*arguments)
            own = keys(value).raw_repr()
            if own != plain:
                # The first tensor, or one of another kind.
                if plain or (own != _CPU and not (seen(own) or _is_plain_cuda(value, own))):
                    return dispatched(*arguments)
                plain = own
            requires_grad = requires_grad or value.requires_grad
        try:
            if requires_grad and grad_enabled():
                return record(None, True, False, arguments)
            return compute(*arguments)
        except ArgumentError:
            # The dispatcher converts what is nearly a number, such as a tensor of no dimensions, or explains.
            return dispatched(*arguments)

    return call


def _dispatched(bridged: Bridged) -> Callable[..., Any]:
    """Make the operator as a function by way of the dispatcher, which would read any tensor as a number."""
    overload, signature = bridged.overload, bridged.signature
    first = signature.first_argument

    def dispatched(*arguments: Any) -> Any:
        for place, value in enumerate(arguments[first:], first):
            if isinstance(value, torch.Tensor):
                _check_number(signature.operator, signature.parameters[place].name, value)
        if not autograd.IS_AVAILABLE:
            for tensor in signature.tensors(arguments):
                if tensor is not None and autograd.has_tangent(tensor):
                    raise NoGradientError(
                        f"{signature.operator}: forward mode: got a tensor with a tangent, takes one without: this "
                        "version of torch lacks what tangents are computed with here"
                    )
        return overload(*arguments)

    return dispatched


def _check_number(operator: str, name: str, value: torch.Tensor) -> None:
    """Refuse a tensor in the place of a number, but for those that torch's own functions take."""
    if value.requires_grad:
        got = "a tensor that requires grad"
    elif autograd.has_tangent(value):
        got = "a tensor with a tangent"
    elif value.dim() > 0:
        got = f"a tensor of the shape {tuple(value.shape)}"
    else:
        return
    raise ArgumentError(
        f"{operator}: {name}: got {got}, takes a number: no gradient flows to it. Pass .item() for its value, or "
        "multiply by the tensor outside to learn it"
    )
