"""vmap: the batch goes where the operator has room for it; an operator without such room runs once for each entry."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from .operators import RULES
from .rules import Batched, BatchRule, Dims, batch_elementwise

if TYPE_CHECKING:
    from .bridge import Bridged


def rule(bridged: Bridged) -> Callable[..., Any]:
    """Make the vmap rule of an operator."""
    special = _special(bridged)

    def batched(info: Any, in_dims: tuple[Any, ...], *arguments: Any) -> Batched:
        complete = bridged.signature.complete(arguments)
        dims = [*in_dims, *[None] * (len(complete) - len(in_dims))]
        result = special(bridged, info.batch_size, dims, complete) if special else None
        return result or _one_by_one(bridged, info.batch_size, dims, complete)

    return batched


def _special(bridged: Bridged) -> BatchRule | None:
    rules = RULES.get(bridged.schema.name)
    if rules is None:
        return batch_elementwise if bridged.schema.identical_type_and_shape else None
    return None if isinstance(rules.batch, str) else rules.batch


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
