"""Fake kernels: shapes, strides and dtypes without memory, for meta tensors, compile and export.

Plain sizes go to the registry's own inference, with its checks and messages. Symbolic sizes need formulas that
Python can evaluate on symbols: each built-in operator has one among its rules (`operators`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from ..errors import ArgumentError, DeviceError
from .autograd import EXACT
from .operators import RULES
from .rules import Kind, ShapeRule, Size, is_known, like_first

if TYPE_CHECKING:
    from .bridge import Bridged

Described = Sequence[tuple[Sequence[Size], Sequence[Size], torch.dtype]]


def kernel(bridged: Bridged) -> Callable[..., Any]:
    """Make the fake kernel of an operator."""

    def fake(*arguments: Any) -> Any:
        complete = bridged.signature.complete(arguments)
        first = _check_devices(bridged, complete)
        rule = shape_rule(bridged)
        if rule is not None and _is_symbolic(bridged, complete):
            described = symbolic(bridged, rule, complete)
        else:
            # An operator of the user's own: reading a symbol as a number specialises the graph to it.
            described = bridged.kernel.infer(*arguments)
        outputs = tuple(first.new_empty_strided(shape, strides, dtype=dtype) for shape, strides, dtype in described)
        return outputs[0] if len(outputs) == 1 else outputs

    return fake


def _check_devices(bridged: Bridged, arguments: list[Any]) -> torch.Tensor:
    """Refuse tensors of several devices, and real memory: what a fake kernel gives is never filled."""
    signature = bridged.signature
    first: torch.Tensor | None = None
    for spec, place in zip(signature.inputs, signature.places, strict=True):
        given = None if spec.shape_only else arguments[place]
        for tensor in given if isinstance(given, (list, tuple)) else [given]:
            if tensor is None:
                continue
            first = tensor if first is None else first
            if tensor.device != first.device:
                raise DeviceError(
                    f"{signature.operator}: {spec.name}: got a tensor on {tensor.device}, takes one on {first.device}, "
                    "like the first"
                )
    if first is None:
        raise ArgumentError(f"{signature.operator}: inputs: got no tensor, takes at least one")
    if type(first) in EXACT and not first.is_meta:
        raise DeviceError(f"{signature.operator}: fake kernel: got a tensor on {first.device}, takes a meta tensor")
    return first


def shape_rule(bridged: Bridged) -> ShapeRule | None:
    """Give the formula for an operator's shapes; None for an operator of the user's own that has none."""
    rules = RULES.get(bridged.schema.name)
    if rules is not None and not isinstance(rules.shape, str):
        return rules.shape
    return like_first if bridged.schema.identical_type_and_shape else None


def _is_symbolic(bridged: Bridged, arguments: list[Any]) -> bool:
    sizes: list[Any] = []
    for tensor in bridged.signature.tensors(arguments):
        if tensor is not None:
            sizes += [*tensor.shape, *tensor.stride()]
    for spec, place in zip(bridged.signature.inputs, bridged.signature.places, strict=True):
        if spec.shape_only and arguments[place] is not None:
            sizes += arguments[place]
    return any(isinstance(size, torch.SymInt) for size in sizes)


def symbolic(bridged: Bridged, rule: ShapeRule, arguments: list[Any]) -> Described:
    """Give shape, strides and dtype of each output; sizes may be symbols."""
    signature = bridged.signature
    tensors = signature.tensors(arguments)
    kinds: list[Kind | None] = [None if t is None else (tuple(t.shape), t.dtype) for t in tensors]
    for index, (spec, place) in enumerate(zip(signature.inputs, signature.places, strict=True)):
        if spec.shape_only and arguments[place] is not None:
            kinds[index] = (tuple(arguments[place]), arguments[place + 1])
    outputs = rule(kinds, signature.constants(arguments))
    names = [spec.name for spec in signature.inputs]
    layout = bridged.schema.layout_of
    like = tensors[names.index(layout)] if layout in names else None
    absent: Kind = ((0,), next(kind for kind in kinds if kind is not None)[1])
    described = []
    for output, wanted in zip(outputs, signature.wanted(arguments), strict=True):
        shape, dtype = output if output is not None and wanted else absent
        described.append((shape, dense_strides(shape, like), dtype))
    return described


def dense_strides(shape: Sequence[Size], like: Any) -> list[Size]:
    """Give the strides of a dense tensor in the memory order of another, as the kernels lay out their outputs."""
    row_major = _strides_in_order(shape, range(len(shape)))
    if like is None or like.dim() != len(shape):
        return row_major
    strides = like.stride()
    if _is_row_major(like.shape, strides):
        return row_major
    if any(is_known(stride == 0) and is_known(size > 1) for stride, size in zip(strides, shape, strict=True)):
        return row_major
    moves = [not is_known(size == 1) for size in shape]
    places = [place for place, moved in enumerate(moves) if moved]
    moved = iter(sorted(places, key=functools.cmp_to_key(lambda a, b: _by_stride(strides[a], strides[b]))))
    # A dimension of one stays where it is; the others take the remaining places in the order of their strides.
    return _strides_in_order(shape, [next(moved) if moves[place] else place for place in range(len(shape))])


def _by_stride(one: Size, other: Size) -> int:
    """Compare two strides, the larger first; those of which nobody knows the larger stay in their order."""
    return is_known(one < other) - is_known(one > other)


def _is_row_major(shape: Sequence[Size], strides: Sequence[Size]) -> bool:
    """Tell whether strides are those of a contiguous tensor, with or without regard to sizes of zero."""
    guarded = _strides_in_order(shape, range(len(shape)))
    step: Size = 1
    for size, stride, expected in zip(reversed(shape), reversed(strides), reversed(guarded), strict=True):
        if not (is_known(stride == expected) or is_known(stride == step)):
            return False
        step = step * size
    return True


def _strides_in_order(shape: Sequence[Size], order: Sequence[int]) -> list[Size]:
    strides: list[Size] = [0] * len(shape)
    step: Size = 1
    for place in reversed(order):
        strides[place] = step
        size = shape[place]
        step = step * (max(size, 1) if isinstance(size, int) else torch.sym_max(size, 1))
    return strides
