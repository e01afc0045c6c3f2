"""Sum, Add, Sub and Mul for torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor

from ..rules import (
    Kind,
    Rules,
    Size,
    Way,
    batch_elementwise,
    check,
    is_known,
    like_first,
    present,
    replicate,
    shard,
    shard_elementwise,
)

if TYPE_CHECKING:
    from ..bridge import Bridged


def _shape(kinds: list[Kind | None], constants: tuple[Any, ...]) -> list[Kind | None]:
    a, b = present(kinds, 0), present(kinds, 1)
    rank = max(len(a[0]), len(b[0]))
    padded = [(1,) * (rank - len(shape)) + shape for shape, _ in (a, b)]
    sizes: list[Size] = []
    for one, other in zip(*padded, strict=True):
        if is_known(one == 1) or is_known(other == 1):
            sizes.append(other if is_known(one == 1) else one)
        else:
            check(one == other, "firelu", "B", b[0], f"to fit {a[0]}")
            sizes.append(one)
    return [(tuple(sizes), a[1])]


def _shard(bridged: Bridged, arguments: list[Any]) -> list[Way]:
    """Split no operand along a dimension that it is repeated in."""
    shapes = [tuple(arguments[place].shape) for place in (0, 1)]
    rank = max(map(len, shapes))
    padded = [(1,) * (rank - len(shape)) + shape for shape in shapes]
    ways: list[Way] = []
    for dim in range(rank):
        if all(shape[dim] == 1 for shape in padded):
            continue
        inputs = [
            replicate() if long[dim] == 1 else shard(dim - rank + len(shape))
            for long, shape in zip(padded, shapes, strict=True)
        ]
        ways.append(([shard(dim)], inputs))
    return ways


def add(a: Tensor, b: Tensor) -> Tensor:
    """Decompose Add."""
    return a + b


def sub(a: Tensor, b: Tensor) -> Tensor:
    """Decompose Sub."""
    return a - b


def mul(a: Tensor, b: Tensor) -> Tensor:
    """Decompose Mul."""
    return a * b


_ONE_BY_ONE = "models call torch's own arithmetic; ours appears in derivatives, where one call for each entry will do"

RULES = {
    "Sum": Rules(
        shape=like_first,
        batch=batch_elementwise,
        shard=shard_elementwise,
        decompose="no function of firelu.torch calls it: derivatives add up with it, and exporters take forward graphs",
    ),
    "Add": Rules(shape=_shape, batch=_ONE_BY_ONE, shard=_shard, decompose=add),
    "Sub": Rules(shape=_shape, batch=_ONE_BY_ONE, shard=_shard, decompose=sub),
    "Mul": Rules(shape=_shape, batch=_ONE_BY_ONE, shard=_shard, decompose=mul),
}
