"""ReduceSum and BroadcastLike for torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..rules import NOT_EXPORTED, Kind, Rules, Way, partial, present, shard, shard_nothing

if TYPE_CHECKING:
    from ..bridge import Bridged


def _shape(kinds: list[Kind | None], constants: tuple[Any, ...]) -> list[Kind | None]:
    (shape, dtype), like = present(kinds, 0), kinds[1]
    axes, keepdims, _ = constants
    if like is not None:
        return [(like[0], dtype)]
    summed = {axis % len(shape) for axis in axes} if axes else set(range(len(shape)))
    left = [1 if place in summed else size for place, size in enumerate(shape) if keepdims or place not in summed]
    return [(tuple(left), dtype)]


def _shape_like(kinds: list[Kind | None], constants: tuple[Any, ...]) -> list[Kind | None]:
    return [(present(kinds, 1)[0], present(kinds, 0)[1])]


def _shard(bridged: Bridged, arguments: list[Any]) -> list[Way]:
    """Give a partial sum along a split dimension; split nothing beside a shape to sum to, which is the whole's."""
    x, like, _, axes, keepdims, *_ = arguments
    if like is not None:
        return []
    summed = {axis % x.ndim for axis in axes} if axes else set(range(x.ndim))
    ways: list[Way] = []
    for dim in range(x.ndim):
        left = dim if keepdims else dim - sum(axis < dim for axis in summed)
        ways.append(([partial() if dim in summed else shard(left)], [shard(dim)]))
    return ways


_ONE_BY_ONE = "only derivatives call it, where one call for each entry will do"

RULES = {
    "ReduceSum": Rules(shape=_shape, batch=_ONE_BY_ONE, shard=_shard, decompose=NOT_EXPORTED),
    "BroadcastLike": Rules(shape=_shape_like, batch=_ONE_BY_ONE, shard=shard_nothing, decompose=NOT_EXPORTED),
}
