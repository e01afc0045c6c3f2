"""LeakyRelu and its gradient for torch."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional

from ..rules import NOT_EXPORTED, Rules, batch_elementwise, like_first, shard_elementwise


def leaky_relu(x: Tensor, alpha: float = 0.01) -> Tensor:
    """Decompose LeakyRelu."""
    return functional.leaky_relu(x, alpha)


RULES = {
    "LeakyRelu": Rules(shape=like_first, batch=batch_elementwise, shard=shard_elementwise, decompose=leaky_relu),
    "LeakyReluGradient": Rules(
        shape=like_first, batch=batch_elementwise, shard=shard_elementwise, decompose=NOT_EXPORTED
    ),
}
