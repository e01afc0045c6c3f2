"""Snake and its derivatives for torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor

from ..rules import (
    NOT_EXPORTED,
    Kind,
    Rules,
    Way,
    batch_by_channels,
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
    "Snake": Rules(shape=_shape, batch=batch_by_channels, shard=_shard, decompose=snake),
    "SnakeGradient": Rules(
        shape=_gradient_shape, batch=batch_by_channels, shard=_shard_gradient, decompose=NOT_EXPORTED
    ),
    "SnakeDerivative": Rules(shape=_derivative_shape, batch=batch_by_channels, shard=_shard, decompose=NOT_EXPORTED),
}
