"""BiasAct and its gradient for torch."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
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
_AXIS = 4

#: The activations in torch's own words.
_FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "linear": lambda t: t,
    "relu": functional.relu,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "elu": functional.elu,
    "selu": functional.selu,
    "softplus": functional.softplus,
    "swish": lambda t: t * torch.sigmoid(t),
}
_WITH_GAIN = ("relu", "lrelu", "swish")


def _shape(kinds: list[Kind | None], constants: tuple[Any, ...]) -> list[Kind | None]:
    (shape, dtype), axis = present(kinds, 0), constants[_AXIS]
    if kinds[1] is not None:
        same_shape(kinds[1][0], (shape[axis],))
    return [(shape, dtype)]


def _gradient_shape(kinds: list[Kind | None], constants: tuple[Any, ...]) -> list[Kind | None]:
    x, dy, bias = present(kinds, 0), present(kinds, 1), kinds[2]
    shape, axis = x[0], constants[_AXIS]
    same_shape(dy[0], shape)
    if not -len(shape) <= axis < len(shape):
        return [x, None]
    if bias is not None:
        same_shape(bias[0], (shape[axis],))
    return [x, ((shape[axis],), (bias or x)[1])]


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
    x, _, bias, *_ = arguments
    channel = _channel(bridged, arguments, x.ndim)
    of_input, of_bias = bridged.signature.wanted(arguments)
    ways: list[Way] = []
    for dim in range(x.ndim):
        along = shard(0) if dim == channel else replicate()
        summed = shard(0) if dim == channel else partial()
        outputs = [
            shard(dim) if of_input else replicate(),
            summed if of_bias and channel is not None else replicate(),
        ]
        ways.append((outputs, [shard(dim)] * 2 + [along] * (bias is not None)))
    return ways


def bias_act(
    x: Tensor,
    b: Tensor | None = None,
    act: str = "linear",
    alpha: float = 0.2,
    gain: float | None = None,
    clamp: float | None = None,
    axis: int = 1,
) -> Tensor:
    """Decompose BiasAct."""
    if b is not None:
        shape = [1] * x.dim()
        shape[axis] = -1
        x = x + b.reshape(shape).to(x.dtype)
    y = functional.leaky_relu(x, alpha) if act == "lrelu" else _FUNCTIONS[act](x)
    if gain is None:
        gain = math.sqrt(2) if act in _WITH_GAIN else 1.0
    if gain != 1.0:
        y = y * gain
    return y if clamp is None else y.clamp(-clamp, clamp)


RULES = {
    "BiasAct": Rules(shape=_shape, batch=batch_by_channels, shard=_shard, decompose=bias_act),
    "BiasActGradient": Rules(
        shape=_gradient_shape, batch=batch_by_channels, shard=_shard_gradient, decompose=NOT_EXPORTED
    ),
}
