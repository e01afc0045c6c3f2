"""FusedLeakyRelu and its gradient for torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor
from torch.nn import functional

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

#: The place of the axis among the arguments of both operators.
_AXIS = 2


def _shape(kinds: list[Kind | None], constants: tuple[Any, ...]) -> list[Kind | None]:
    (shape, dtype), axis = present(kinds, 0), constants[_AXIS]
    for bias in kinds[1:]:
        if bias is not None:
            same_shape(bias[0], (shape[axis],))
    return [(shape, dtype)]


def _gradient_shape(kinds: list[Kind | None], constants: tuple[Any, ...]) -> list[Kind | None]:
    y, dy, bias, like = present(kinds, 0), kinds[1], kinds[2], kinds[3]
    shape, axis = y[0], constants[_AXIS]
    if dy is not None:
        same_shape(dy[0], shape)
    if not -len(shape) <= axis < len(shape):
        return [y, None]
    for given in (bias, like):
        # Like lends only its type: it may be a scalar.
        if given is not None and (given is bias or given[0]):
            same_shape(given[0], (shape[axis],))
    return [y, ((shape[axis],), (like or bias or y)[1])]


def _channel(bridged: Bridged, arguments: list[Any], rank: int) -> int | None:
    axis = arguments[bridged.signature.first_argument + _AXIS]
    return axis % rank if -rank <= axis < rank else None


def _shard(bridged: Bridged, arguments: list[Any]) -> list[Way]:
    """Split a bias with the channels."""
    x, bias, *_ = arguments
    channel = _channel(bridged, arguments, x.ndim)
    ways: list[Way] = []
    for dim in range(x.ndim):
        of_bias = shard(0) if dim == channel else replicate()
        ways.append(([shard(dim)], [shard(dim)] + [of_bias] * (bias is not None)))
    return ways


def _shard_gradient(bridged: Bridged, arguments: list[Any]) -> list[Way]:
    """Split the bias' gradient with the channels; else it is a partial sum."""
    y, dy, bias, like, *_ = arguments
    channel = _channel(bridged, arguments, y.ndim)
    of_input, of_bias = bridged.signature.wanted(arguments)
    ways: list[Way] = []
    for dim in range(y.ndim):
        if dim == channel and like:
            continue  # The length is that of the whole.
        along = shard(0) if dim == channel else replicate()
        summed = shard(0) if dim == channel else partial()
        outputs = [
            shard(dim) if of_input else replicate(),
            summed if of_bias and channel is not None else replicate(),
        ]
        ways.append((outputs, [shard(dim)] * (1 + (dy is not None)) + [along] * (bias is not None)))
    return ways


def fused_leaky_relu(
    x: Tensor, b: Tensor | None = None, alpha: float = 0.2, scale: float = 2**0.5, axis: int = 1
) -> Tensor:
    """Decompose FusedLeakyRelu."""
    if b is not None:
        shape = [1] * x.dim()
        shape[axis] = -1
        x = x + b.reshape(shape).to(x.dtype)
    return functional.leaky_relu(x, alpha) * scale


RULES = {
    "FusedLeakyRelu": Rules(shape=_shape, batch=batch_by_channels, shard=_shard, decompose=fused_leaky_relu),
    "FusedLeakyReluGradient": Rules(
        shape=_gradient_shape,
        batch=batch_by_channels,
        shard=_shard_gradient,
        decompose=NOT_EXPORTED,
        lengths_read={"Like": 0},
    ),
}
