"""DTensor: how each operator's inputs may be split between processes, and how its outputs are split then.

A rule lists the ways for one dimension of a device mesh; torch combines them for more, and moves data where nothing
fits. Every way is exact: batch and channels are independent, a sum over parts is a partial sum. The rules stand with
each operator (`operators`).
"""

from __future__ import annotations

import contextlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from . import private
from .bridge import Bridged, bridged
from .operators import RULES
from .rules import ShardRule, Way, given_tensors, replicate

_TENSOR_MODULE = "torch.distributed.tensor"


def _acceptable(bridged: Bridged, rule: ShardRule) -> Callable[..., Sequence[Way]]:
    """Give what torch calls: all ways, with full replication first."""

    def ways(*arguments: Any) -> Sequence[Way]:
        complete = bridged.signature.complete(arguments)
        inputs = len(given_tensors(bridged, complete))
        replicated: Way = ([replicate()] * bridged.signature.outputs, [replicate()] * inputs)
        return [replicated, *rule(bridged, complete)]

    return ways


def _register() -> None:
    register_sharding = private.find("torch.distributed.tensor.experimental:register_sharding")
    info = private.find("torch.distributed.tensor._op_schema:RuntimeSchemaInfo")
    described = private.find("torch.distributed.tensor:DTensor._op_dispatcher.sharding_propagator.op_to_schema_info")
    if not private.are_there(register_sharding, info, described):
        return  # DTensor then says which operator it has no rule for.
    for name, rules in RULES.items():
        if isinstance(rules.shard, str):
            continue
        operator = bridged(name)
        register_sharding(operator.overload)(_acceptable(operator, rules.shard))
        # torch remembers results by the arguments from this place on; by itself it would begin behind lent shapes.
        signature = operator.signature
        lent = [place for spec, place in zip(signature.inputs, signature.places, strict=True) if spec.shape_only]
        described[operator.overload] = info(min([signature.first_argument, *lent]), needs_pytree=True)


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
