"""DTensor: how each operator's inputs may be split between processes, and how its outputs are split then.

A rule lists the ways for one dimension of a device mesh; torch combines them for more, and moves data where nothing
fits. Every way is exact: batch and channels are independent, a sum over parts is a partial sum. The FIR filters keep
height and width whole, since the parts of a picture would need their neighbours' borders.
"""

from __future__ import annotations

import contextlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

from .bridge import Bridged, bridged

if TYPE_CHECKING:
    from torch.distributed.tensor.placement_types import Placement

#: The placements of the outputs and of the tensors among the inputs.
Way = tuple[list["Placement"], list["Placement"]]
#: From a complete call, with its tensors described in the place of values, to the ways beside full replication.
Rule = Callable[[Bridged, list[Any]], list[Way]]

_TENSOR_MODULE = "torch.distributed.tensor"


def _shard(dim: int) -> Placement:
    from torch.distributed.tensor import Shard

    return Shard(dim)


def _replicate() -> Placement:
    from torch.distributed.tensor import Replicate

    return Replicate()


def _partial() -> Placement:
    from torch.distributed.tensor import Partial

    return Partial()


def _tensors(bridged: Bridged, arguments: list[Any]) -> list[Any]:
    return [tensor for tensor in bridged.signature.tensors(arguments) if tensor is not None]


def _elementwise(bridged: Bridged, arguments: list[Any]) -> list[Way]:
    """Split every input like the first."""
    tensors = _tensors(bridged, arguments)
    return [([_shard(dim)], [_shard(dim)] * len(tensors)) for dim in range(tensors[0].ndim)]


def _channel(bridged: Bridged, arguments: list[Any], rank: int) -> int | None:
    axis = arguments[bridged.signature.first_argument + bridged.signature.argument_names.index("axis")]
    return axis % rank if -rank <= axis < rank else None


def _fused(bridged: Bridged, arguments: list[Any]) -> list[Way]:
    """Split a bias with the channels."""
    x, bias, *_ = arguments
    channel = _channel(bridged, arguments, x.ndim)
    ways: list[Way] = []
    for dim in range(x.ndim):
        of_bias = _shard(0) if dim == channel else _replicate()
        ways.append(([_shard(dim)], [_shard(dim)] + [of_bias] * (bias is not None)))
    return ways


def _fused_gradient(bridged: Bridged, arguments: list[Any]) -> list[Way]:
    """Split the bias' gradient with the channels; else it is a partial sum."""
    y, dy, bias, like, *_ = arguments
    channel = _channel(bridged, arguments, y.ndim)
    of_input, of_bias = bridged.signature.wanted(arguments)
    ways: list[Way] = []
    for dim in range(y.ndim):
        if dim == channel and like:
            continue  # The length is that of the whole.
        along = _shard(0) if dim == channel else _replicate()
        summed = _shard(0) if dim == channel else _partial()
        outputs = [
            _shard(dim) if of_input else _replicate(),
            summed if of_bias and channel is not None else _replicate(),
        ]
        ways.append((outputs, [_shard(dim)] * (1 + (dy is not None)) + [along] * (bias is not None)))
    return ways


def _planes(bridged: Bridged, arguments: list[Any]) -> list[Way]:
    """Split any dimension but the last two: each picture is filtered for itself, by the whole kernel."""
    if bridged.schema.name == "UpFirDn2dGradient" and len(arguments[2]) > 2:
        return []  # The shape is that of the whole.
    return [([_shard(dim)], [_shard(dim), _replicate()]) for dim in range(arguments[0].ndim - 2)]


def _kernel_gradient(bridged: Bridged, arguments: list[Any]) -> list[Way]:
    """Give a partial sum over pictures."""
    return [([_partial()], [_shard(dim), _shard(dim)]) for dim in range(arguments[0].ndim - 2)]


def _broadcast(bridged: Bridged, arguments: list[Any]) -> list[Way]:
    """Split no operand along a dimension that it is repeated in."""
    shapes = [tuple(arguments[place].shape) for place in (0, 1)]
    rank = max(map(len, shapes))
    padded = [(1,) * (rank - len(shape)) + shape for shape in shapes]
    ways: list[Way] = []
    for dim in range(rank):
        if all(shape[dim] == 1 for shape in padded):
            continue
        inputs = [
            _replicate() if long[dim] == 1 else _shard(dim - rank + len(shape))
            for long, shape in zip(padded, shapes, strict=True)
        ]
        ways.append(([_shard(dim)], inputs))
    return ways


def _reduce_sum(bridged: Bridged, arguments: list[Any]) -> list[Way]:
    """Give a partial sum along a split dimension; split nothing beside a shape to sum to, which is the whole's."""
    x, like, _, axes, keepdims, *_ = arguments
    if like is not None:
        return []
    summed = {axis % x.ndim for axis in axes} if axes else set(range(x.ndim))
    ways: list[Way] = []
    for dim in range(x.ndim):
        left = dim if keepdims else dim - sum(axis < dim for axis in summed)
        ways.append(([_partial() if dim in summed else _shard(left)], [_shard(dim)]))
    return ways


def _whole(bridged: Bridged, arguments: list[Any]) -> list[Way]:
    """Split nothing: the shape among the arguments is that of the whole."""
    return []


_RULES: dict[str, Rule] = {
    "LeakyRelu": _elementwise,
    "LeakyReluGradient": _elementwise,
    "Sum": _elementwise,
    "FusedLeakyRelu": _fused,
    "FusedLeakyReluGradient": _fused_gradient,
    "UpFirDn2d": _planes,
    "UpFirDn2dGradient": _planes,
    "UpFirDn2dKernelGradient": _kernel_gradient,
    "Add": _broadcast,
    "Sub": _broadcast,
    "Mul": _broadcast,
    "ReduceSum": _reduce_sum,
    "BroadcastLike": _whole,
}


def _acceptable(bridged: Bridged, rule: Rule) -> Callable[..., Sequence[Way]]:
    """Give what torch calls: all ways, with full replication first."""

    def ways(*arguments: Any) -> Sequence[Way]:
        complete = bridged.signature.complete(arguments)
        inputs = len(_tensors(bridged, complete))
        replicated: Way = ([_replicate()] * bridged.signature.outputs, [_replicate()] * inputs)
        return [replicated, *rule(bridged, complete)]

    return ways


def _register() -> None:
    from torch.distributed.tensor import DTensor
    from torch.distributed.tensor._op_schema import RuntimeSchemaInfo
    from torch.distributed.tensor.experimental import register_sharding

    described = DTensor._op_dispatcher.sharding_propagator.op_to_schema_info
    for name, rule in _RULES.items():
        operator = bridged(name)
        register_sharding(operator.overload)(_acceptable(operator, rule))
        # torch remembers results by the arguments from this place on; by itself it would begin behind lent shapes.
        signature = operator.signature
        lent = [place for spec, place in zip(signature.inputs, signature.places, strict=True) if spec.shape_only]
        described[operator.overload] = RuntimeSchemaInfo(min([signature.first_argument, *lent]), needs_pytree=True)


class _Import(importlib.abc.MetaPathFinder):
    """Waits for somebody to import DTensor, which takes half as long as importing torch, and few need."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != _TENSOR_MODULE:
            return None
        with contextlib.suppress(ValueError):
            sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                execute(module)
                _register()

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def register_with_dtensor() -> None:
    """Give DTensor the rules, now or when it is imported."""
    if _TENSOR_MODULE in sys.modules:
        _register()
    else:
        sys.meta_path.insert(0, _Import())
