"""vmap: the batch goes where the operator has room for it; an operator without such room runs once for each entry."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from .bridge import Bridged

#: Where each parameter has its batch: a dimension, None, or a list of those.
Dims = list[Any]
Batched = tuple[Any, Any]
Rule = Callable[["Bridged", int, Dims, list[Any]], "Batched | None"]


def rule(bridged: Bridged) -> Callable[..., Any]:
    """Make the vmap rule of an operator."""
    special = _elementwise if bridged.schema.identical_type_and_shape else _RULES.get(bridged.schema.name)

    def batched(info: Any, in_dims: tuple[Any, ...], *arguments: Any) -> Batched:
        complete = bridged.signature.complete(arguments)
        dims = [*in_dims, *[None] * (len(complete) - len(in_dims))]
        result = special(bridged, info.batch_size, dims, complete) if special else None
        return result or _one_by_one(bridged, info.batch_size, dims, complete)

    return batched


def _one_by_one(bridged: Bridged, size: int, dims: Dims, arguments: list[Any]) -> Batched:
    """Run the operator for each entry of the batch and stack the results."""

    def entry(value: Any, dim: Any, index: int) -> Any:
        if isinstance(dim, (list, tuple)):
            return [entry(item, of, index) for item, of in zip(value, dim, strict=True)]
        return value if dim is None else value.select(dim, index)

    if size == 0:
        # Nothing to run: the shapes come from one entry without values.
        shapes = [_hollow(value, dim) for value, dim in zip(arguments, dims, strict=True)]
        described = bridged.overload(*shapes)
        empties = [
            first.new_empty((0, *first.shape), device=_device(arguments))
            for first in (described if isinstance(described, tuple) else (described,))
        ]
        return (empties[0], 0) if len(empties) == 1 else (tuple(empties), (0,) * len(empties))
    results = [
        bridged.overload(*(entry(value, dim, index) for value, dim in zip(arguments, dims, strict=True)))
        for index in range(size)
    ]
    if isinstance(results[0], tuple):
        stacked = tuple(torch.stack(column) for column in zip(*results, strict=True))
        return stacked, (0,) * len(stacked)
    return torch.stack(results), 0


def _hollow(value: Any, dim: Any) -> Any:
    """Give a meta tensor in the shape of one entry."""
    if isinstance(value, (list, tuple)) and isinstance(dim, (list, tuple)):
        return [_hollow(item, of) for item, of in zip(value, dim, strict=True)]
    if not isinstance(value, torch.Tensor):
        return value
    shape = [size for place, size in enumerate(value.shape) if place != dim]
    return torch.empty(shape, dtype=value.dtype, device="meta")


def _device(arguments: list[Any]) -> torch.device:
    return next(value.device for value in arguments if isinstance(value, torch.Tensor))


def _in_front(value: Any, dim: int | None, size: int) -> Any:
    """Give a tensor with the batch as its first dimension, repeated without memory where it has none."""
    return value.expand(size, *value.shape) if dim is None else value.movedim(dim, 0)


def _elementwise(bridged: Bridged, size: int, dims: Dims, arguments: list[Any]) -> Batched:
    """Every input gets the batch as its first dimension."""
    moved = list(arguments)
    for spec, place in zip(bridged.signature.inputs, bridged.signature.places, strict=True):
        value, dim = arguments[place], dims[place]
        if value is None or spec.shape_only:
            continue
        if isinstance(value, torch.Tensor):
            moved[place] = _in_front(value, dim, size)
        else:
            of = dim if isinstance(dim, (list, tuple)) else [dim] * len(value)
            moved[place] = [_in_front(item, at, size) for item, at in zip(value, of, strict=True)]
    return bridged.overload(*moved), 0


def _planes(bridged: Bridged, size: int, dims: Dims, arguments: list[Any]) -> Batched | None:
    """Put the batch among the leading dimensions, where the kernel is the same for all of it."""
    if dims[1] is not None:
        return None
    moved = list(arguments)
    moved[0] = _in_front(arguments[0], dims[0], size)
    if bridged.schema.name == "UpFirDn2dGradient" and len(arguments[2]) > 2:
        moved[2] = [size, *arguments[2]]
    return bridged.overload(*moved), 0


def _channels(bridged: Bridged, size: int, dims: Dims, arguments: list[Any]) -> Batched | None:
    """Join the batch to the channels, of which each has its own bias and its own sum."""
    signature = bridged.signature
    rank = arguments[0].dim() - (dims[0] is not None)
    axis = arguments[signature.first_argument + signature.argument_names.index("axis")]
    if not -rank <= axis < rank:
        return None
    axis %= rank
    moved = list(arguments)
    for spec, place in zip(signature.inputs, signature.places, strict=True):
        value = arguments[place]
        if value is None:
            continue
        if spec.shape_only:
            moved[place] = [size * length for length in value]
            continue
        # A bias has one dimension, that of the channels.
        at = 0 if spec.name == "B" else axis
        moved[place] = _in_front(value, dims[place], size).movedim(0, at).flatten(at, at + 1)
    moved[signature.first_argument + signature.argument_names.index("axis")] = axis
    channels = [length for place, length in enumerate(arguments[0].shape) if place != dims[0]][axis]
    result = bridged.overload(*moved)
    if not isinstance(result, tuple):
        return result.unflatten(axis, (size, channels)), axis
    wanted = signature.wanted(arguments)
    parted = [
        output.unflatten(at, (size, channels)) if there else output.new_empty((size, 0))
        for output, at, there in zip(result, (axis, 0), wanted, strict=True)
    ]
    return tuple(parted), (axis if wanted[0] else 0, 0)


_RULES: dict[str, Rule] = {
    "FusedLeakyRelu": _channels,
    "FusedLeakyReluGradient": _channels,
    "UpFirDn2d": _planes,
    "UpFirDn2dGradient": _planes,
}
