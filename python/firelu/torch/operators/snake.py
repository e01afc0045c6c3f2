"""Snake and its derivatives for torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor

from ..rules import (
    NOT_EXPORTED,
    Batched,
    Dims,
    Kind,
    Rules,
    Way,
    in_front,
    partial,
    present,
    replicate,
    same_shape,
    shard,
)

if TYPE_CHECKING:
    from ..bridge import Bridged

#: The place of the axis among the arguments of all three operators.
_AXIS = 1


def _check(kinds: list[Kind | None], numbers: int, axis: int) -> Kind:
    """Compare the numbers of each channel, from a place on, with the channels of x."""
    x = present(kinds, 0)
    for kind in kinds[numbers : numbers + 2]:
        if kind is not None:
            same_shape(kind[0], (x[0][axis],))
    return x


def _shape(kinds: list[Kind | None], constants: tuple[Any, ...]) -> list[Kind | None]:
    return [_check(kinds, 1, constants[_AXIS])]


def _gradient_shape(kinds: list[Kind | None], constants: tuple[Any, ...]) -> list[Kind | None]:
    x, dy = _check(kinds, 2, constants[_AXIS]), present(kinds, 1)
    same_shape(dy[0], x[0])
    none: Kind = ((0,), x[1])
    return [x, present(kinds, 2), kinds[3] or none]


def _derivative_shape(kinds: list[Kind | None], constants: tuple[Any, ...]) -> list[Kind | None]:
    x, dy = _check(kinds, 2, constants[_AXIS]), present(kinds, 1)
    same_shape(dy[0], x[0])
    return [x]


def _batch(bridged: Bridged, size: int, dims: Dims, arguments: list[Any]) -> Batched | None:
    """Join the batch to the channels, of which each has its own numbers and its own sums."""
    signature = bridged.signature
    rank = arguments[0].dim() - (dims[0] is not None)
    axis = arguments[signature.first_argument + _AXIS]
    if not -rank <= axis < rank:
        return None
    axis %= rank
    moved = list(arguments)
    for spec, place in zip(signature.inputs, signature.places, strict=True):
        value = arguments[place]
        if value is not None:
            at = axis if spec.name in ("X", "dY") else 0
            moved[place] = in_front(value, dims[place], size).movedim(0, at).flatten(at, at + 1)
    moved[signature.first_argument + _AXIS] = axis
    channels = [length for place, length in enumerate(arguments[0].shape) if place != dims[0]][axis]
    result = bridged.overload(*moved)
    if not isinstance(result, tuple):
        return result.unflatten(axis, (size, channels)), axis
    wanted = signature.wanted(arguments)
    there = (wanted[0], wanted[1], wanted[2] and arguments[signature.places[3]] is not None)
    parted = [
        output.unflatten(at, (size, channels)) if given else output.new_empty((size, 0))
        for output, at, given in zip(result, (axis, 0, 0), there, strict=True)
    ]
    return tuple(parted), (axis if there[0] else 0, 0, 0)


def _channel(bridged: Bridged, arguments: list[Any]) -> int:
    return int(arguments[bridged.signature.first_argument + _AXIS]) % int(arguments[0].ndim)


def _shard(bridged: Bridged, arguments: list[Any]) -> list[Way]:
    """Split the numbers with the channels."""
    channel = _channel(bridged, arguments)
    streams = sum(spec.name in ("X", "dY") for spec in bridged.signature.inputs)
    given = sum(arguments[place] is not None for place in bridged.signature.places[streams:])
    ways: list[Way] = []
    for dim in range(arguments[0].ndim):
        numbers = shard(0) if dim == channel else replicate()
        ways.append(([shard(dim)], [shard(dim)] * streams + [numbers] * given))
    return ways


def _shard_gradient(bridged: Bridged, arguments: list[Any]) -> list[Way]:
    """Do the same; sums over a part of the elements are partial."""
    channel, wanted = _channel(bridged, arguments), bridged.signature.wanted(arguments)
    beta = arguments[bridged.signature.places[3]] is not None
    ways: list[Way] = []
    for dim in range(arguments[0].ndim):
        numbers, summed = (shard(0), shard(0)) if dim == channel else (replicate(), partial())
        outputs = [shard(dim) if wanted[0] else replicate(), summed if wanted[1] else replicate()]
        outputs.append(summed if wanted[2] and beta else replicate())
        ways.append((outputs, [shard(dim)] * 2 + [numbers] * (1 + beta)))
    return ways


def snake(x: Tensor, alpha: Tensor, beta: Tensor | None = None, logscale: bool = False, axis: int = 1) -> Tensor:
    """Decompose Snake."""
    shape = [1] * x.dim()
    shape[axis] = -1
    p = alpha.reshape(shape).to(x.dtype)
    q = p if beta is None else beta.reshape(shape).to(x.dtype)
    if logscale:
        p, q = p.exp(), q.exp()
    sine = (p * x).sin()
    return x + sine * sine / (q + 1e-9)


RULES = {
    "Snake": Rules(shape=_shape, batch=_batch, shard=_shard, decompose=snake),
    "SnakeGradient": Rules(shape=_gradient_shape, batch=_batch, shard=_shard_gradient, decompose=NOT_EXPORTED),
    "SnakeDerivative": Rules(shape=_derivative_shape, batch=_batch, shard=_shard, decompose=NOT_EXPORTED),
}
