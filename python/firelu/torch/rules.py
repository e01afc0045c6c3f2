"""What torch needs to know of an operator beyond its schema, and the words that such rules are written in.

Every built-in operator has one `Rules` in its file of `operators`. A rule that an operator does not need is a reason
in words instead. Operators of the user's own have no rules and work without: see `fake` and `batching`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from . import private

if TYPE_CHECKING:
    from torch.distributed.tensor.placement_types import Placement

    from .bridge import Bridged

Size = Any  # int or torch.SymInt
Kind = tuple[tuple[Size, ...], torch.dtype]

#: From the types of the inputs and the arguments to the types of the outputs, None for an absent one. Sizes may be
#: symbols.
ShapeRule = Callable[[list[Kind | None], tuple[Any, ...]], list[Kind | None]]

#: Where each parameter has its batch: a dimension, None, or a list of those.
Dims = list[Any]
Batched = tuple[Any, Any]
#: From the operator, the size of the batch, its places and a complete call to the result and the place of its batch;
#: None where there is no room for this batch.
BatchRule = Callable[["Bridged", int, Dims, list[Any]], "Batched | None"]

#: The placements of the outputs and of the tensors among the inputs.
Way = tuple[list["Placement"], list["Placement"]]
#: From a complete call, with its tensors described in the place of values, to the ways beside full replication.
ShardRule = Callable[["Bridged", list[Any]], list[Way]]


@dataclass(frozen=True)
class Rules:
    """The rules of one operator; a string says why there is none."""

    #: The outputs' shapes on symbols (`fake`).
    shape: ShapeRule | str
    #: One call for a whole batch (`batching`).
    batch: BatchRule | str
    #: How processes may share the work (`sharding`).
    shard: ShardRule | str
    #: The same in torch's own operators (`decompositions`).
    decompose: Callable[..., Any] | str
    #: For an input that lends its shape, how many of its last lengths are read where not all: a call with these alone
    #: holds for every part of a batch and of the channels, whatever their number.
    lengths_read: Mapping[str, int] = field(default_factory=dict)


#: Why operators that only gradients name are not taken apart.
NOT_EXPORTED = "exporters take forward graphs, in which no gradient operator stands"


# Shapes.


def check(condition: Any, operator: str, argument: str, got: Any, takes: Any) -> None:
    """Refuse a call unless a condition on its sizes holds; on symbols the condition is kept for later."""
    if private.check_size is not None:
        private.check_size(condition, lambda: f"{operator}: {argument}: got {got}, takes {takes}")
    elif not condition:
        raise RuntimeError(f"{operator}: {argument}: got {got}, takes {takes}")


def is_known(condition: Any) -> bool:
    """Tell whether a condition on sizes holds; one on sizes that only the run will tell does not."""
    if isinstance(condition, bool):
        return condition
    # Where there are symbols this is imported already; for everybody else it would take longer than firelu.
    from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

    try:
        return bool(condition)
    except GuardOnDataDependentSymNode:
        return False


def present(kinds: list[Kind | None], place: int) -> Kind:
    """Give the type of a required input."""
    kind = kinds[place]
    if kind is None:
        raise RuntimeError(f"input {place} is required")
    return kind


def same_shape(shape: Sequence[Size], expected: Sequence[Size]) -> None:
    """Refuse a shape that is not the expected one."""
    same_rank = len(shape) == len(expected)
    check(same_rank, "firelu", "shape", tuple(shape), tuple(expected))
    for size, wanted in zip(shape, expected, strict=True):
        check(size == wanted, "firelu", "shape", tuple(shape), tuple(expected))


def like_first(kinds: list[Kind | None], constants: tuple[Any, ...]) -> list[Kind | None]:
    """Give the first input's type, which all share."""
    first = present(kinds, 0)
    for kind in kinds[1:]:
        if kind is not None:
            same_shape(kind[0], first[0])
    return [first]


# Batches.


def in_front(value: Any, dim: int | None, size: int) -> Any:
    """Give a tensor with the batch as its first dimension, repeated without memory where it has none."""
    return value.expand(size, *value.shape) if dim is None else value.movedim(dim, 0)


def batch_elementwise(bridged: Bridged, size: int, dims: Dims, arguments: list[Any]) -> Batched:
    """Give every input the batch as its first dimension."""
    moved = list(arguments)
    for spec, place in zip(bridged.signature.inputs, bridged.signature.places, strict=True):
        value, dim = arguments[place], dims[place]
        if value is None or spec.shape_only:
            continue
        if isinstance(value, torch.Tensor):
            moved[place] = in_front(value, dim, size)
        else:
            of = dim if isinstance(dim, (list, tuple)) else [dim] * len(value)
            moved[place] = [in_front(item, at, size) for item, at in zip(value, of, strict=True)]
    return bridged.overload(*moved), 0


# Placements. DTensor is imported when somebody uses it: that takes half as long as importing torch, and few need it.


def batch_by_channels(bridged: Bridged, size: int, dims: Dims, arguments: list[Any]) -> Batched | None:
    """Join the batch to the channels, of which each has its own numbers and its own sums."""
    signature = bridged.signature
    rank = arguments[0].dim() - (dims[0] is not None)
    place_of_axis = signature.first_argument + signature.argument_names.index("axis")
    axis = arguments[place_of_axis]
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
        # The numbers of each channel have one dimension, the channels'.
        at = 0 if spec.name in ("B", "Alpha", "Beta") else axis
        moved[place] = in_front(value, dims[place], size).movedim(0, at).flatten(at, at + 1)
    moved[place_of_axis] = axis
    channels = [length for place, length in enumerate(arguments[0].shape) if place != dims[0]][axis]
    result = bridged.overload(*moved)
    if not isinstance(result, tuple):
        return result.unflatten(axis, (size, channels)), axis
    outputs, places = [], []
    for number, (output, wanted) in enumerate(zip(result, signature.wanted(arguments), strict=True)):
        at = 0 if number else axis
        there = wanted and (number == 0 or output.shape[0] == size * channels)
        outputs.append(output.unflatten(at, (size, channels)) if there else output.new_empty((size, 0)))
        places.append(at if there else 0)
    return tuple(outputs), tuple(places)


def shard(dim: int) -> Placement:
    """Give the placement of a tensor that is split along a dimension."""
    from torch.distributed.tensor import Shard

    return Shard(dim)


def replicate() -> Placement:
    """Give the placement of a tensor that every process has whole."""
    from torch.distributed.tensor import Replicate

    return Replicate()


def partial() -> Placement:
    """Give the placement of a tensor of which every process has a summand."""
    from torch.distributed.tensor import Partial

    return Partial()


def given_tensors(bridged: Bridged, arguments: list[Any]) -> list[Any]:
    """Give the tensors of a complete call, without the omitted ones."""
    return [tensor for tensor in bridged.signature.tensors(arguments) if tensor is not None]


def shard_elementwise(bridged: Bridged, arguments: list[Any]) -> list[Way]:
    """Split every input like the first."""
    tensors = given_tensors(bridged, arguments)
    return [([shard(dim)], [shard(dim)] * len(tensors)) for dim in range(tensors[0].ndim)]


def shard_nothing(bridged: Bridged, arguments: list[Any]) -> list[Way]:
    """Split nothing: the shape among the arguments is that of the whole."""
    return []
