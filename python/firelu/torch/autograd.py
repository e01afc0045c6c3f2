"""Derivatives: the registry's gradient definitions, run as torch operators again, so that every order exists."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import torch
from torch import _C
from torch._functorch.utils import enable_single_level_autograd_function
from torch.autograd.function import _SingleLevelFunction

from .. import _firelu

if TYPE_CHECKING:
    from .bridge import Bridged

_BELOW = _C._after_autograd_keyset
#: The keys of a call on plain CPU tensors under no mode, transform or subclass: nothing stands between autograd
#: and the kernel, which is then called straight away.
_PLAIN = (_C.DispatchKeySet(_C.DispatchKey.CPU) | _C.DispatchKeySet(_C.DispatchKey.AutogradCPU)).raw_repr()

Shape = tuple[Sequence[Any], torch.dtype]


def kernel(bridged: Bridged) -> Callable[..., Any]:
    """Make the kernel of the key Autograd: records the call where an input asks for it."""
    signature, compute = bridged.signature, bridged.kernel
    places = [place for spec, place in zip(signature.inputs, signature.places, strict=True) if not spec.shape_only]
    function: Any = type(bridged.schema.name, (_Recorded,), {"bridged": bridged, "__doc__": bridged.schema.doc})

    def requires_grad(arguments: tuple[Any, ...]) -> bool:
        for place in places:
            value = arguments[place] if place < len(arguments) else None
            if isinstance(value, torch.Tensor):
                if value.requires_grad:
                    return True
            elif value is not None and any(item.requires_grad for item in value):
                return True
        return False

    def autograd(keyset: Any, *arguments: Any) -> Any:
        is_plain = keyset.raw_repr() == _PLAIN
        if torch.is_grad_enabled() and requires_grad(arguments):
            call = _Call(arguments, keyset, is_plain)
            tensors = signature.tensors(arguments)
            if is_plain:
                return function.apply(call, *tensors)
            # The dispatcher has come down to one level of torch.func's transforms.
            with enable_single_level_autograd_function():
                return function.apply(call, *tensors)
        if is_plain:
            return compute(*arguments)
        return _below(bridged, keyset, arguments)

    return autograd


def _below(bridged: Bridged, keyset: Any, arguments: tuple[Any, ...]) -> Any:
    with _C._AutoDispatchBelowAutograd():
        return bridged.overload.redispatch(keyset & _BELOW, *arguments)


@dataclass(frozen=True)
class _Call:
    """A call on its way through autograd; it is not kept, since that would keep its tensors."""

    arguments: tuple[Any, ...]
    keyset: Any
    is_plain: bool


class _Recorded(_SingleLevelFunction):
    """A call in autograd's graph; each operator has a subclass with its name."""

    bridged: Bridged

    @classmethod
    def _forward(cls, ctx: Any, call: _Call, *tensors: torch.Tensor | None) -> Any:
        bridged, signature = cls.bridged, cls.bridged.signature
        if call.is_plain:
            result = bridged.kernel(*call.arguments)
        else:
            # A recorded call runs with gradients off, but the transforms further out have graphs of their own.
            with torch.set_grad_enabled(call.keyset.has(_C.DispatchKey.FuncTorchDynamicLayerBackMode)):
                result = _below(bridged, call.keyset, call.arguments)
        outputs = result if isinstance(result, tuple) else (result,)
        arguments = signature.complete(call.arguments)
        request = Request(
            signature.operator,
            signature.constants(arguments),
            _presence(bridged, arguments, tensors),
            signature.wanted(arguments),
            tuple(ctx.needs_input_grad[1:]),
        )
        kept = _kept(request)
        named = {
            **{f"x{i}": tensor for i, tensor in enumerate(tensors)},
            **{f"y{i}": tensor for i, tensor in enumerate(outputs)},
        }
        lent = _lent(bridged, arguments)
        ctx.request = request
        ctx.shapes = {
            name: lent[name] if name in lent else (named[name].shape, named[name].dtype) for name in kept.shapes
        }
        ctx.save_for_backward(*(named[name] for name in kept.values))
        ctx.set_materialize_grads(False)
        unwanted = [output for output, wanted in zip(outputs, request.outputs, strict=True) if not wanted]
        if unwanted:
            ctx.mark_non_differentiable(*unwanted)
        return result

    @staticmethod
    def forward(ctx: Any, call: _Call, *tensors: torch.Tensor | None) -> Any:
        """Run the operator and keep what its derivative reads."""
        return ctx._forward_cls._forward(ctx, call, *tensors)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor | None) -> Any:
        """Run the operator's gradient definitions."""
        request: Request = ctx.request
        plan = _plan(request, tuple(gradient is not None for gradient in gradients))
        values: dict[str, Any] = dict(zip(_kept(request).values, ctx.saved_tensors, strict=True))
        values.update({f"dy{i}": gradient for i, gradient in enumerate(gradients)})
        for step in plan.steps:
            step.run(values, ctx.shapes)
        return (None, *(None if name is None else values[name] for name in plan.gradients))


def _presence(bridged: Bridged, arguments: list[Any], tensors: Sequence[Any]) -> tuple[bool, ...]:
    """Tell which inputs a call has; one that lends its shape is there if its shape is."""
    present = [tensor is not None for tensor in tensors]
    for index, (spec, place) in enumerate(zip(bridged.signature.inputs, bridged.signature.places, strict=True)):
        if spec.shape_only:
            present[index] = arguments[place] is not None
    return tuple(present)


def _lent(bridged: Bridged, arguments: list[Any]) -> dict[str, Shape]:
    """Give the inputs that are shapes already."""
    return {
        f"x{index}": (arguments[place], arguments[place + 1])
        for index, (spec, place) in enumerate(zip(bridged.signature.inputs, bridged.signature.places, strict=True))
        if spec.shape_only
    }


@dataclass(frozen=True)
class Request:
    """Of which call the derivative is asked for: everything but values and shapes."""

    operator: str
    constants: tuple[Any, ...]
    inputs: tuple[bool, ...]
    outputs: tuple[bool, ...]
    needed: tuple[bool, ...]


@dataclass(frozen=True)
class Source:
    """Where a parameter of a step comes from."""

    kind: str  # "constant", "value", "values", "shape" or "dtype"
    content: Any

    def get(self, values: dict[str, Any], shapes: dict[str, Shape]) -> Any:
        """Give the parameter."""
        if self.kind == "constant":
            return self.content
        if self.kind == "value":
            return values[self.content]
        if self.kind == "values":
            return [values[name] for name in self.content]
        if self.content in shapes:
            return shapes[self.content][self.kind == "dtype"]
        tensor = values[self.content]
        return tensor.shape if self.kind == "shape" else tensor.dtype


@dataclass(frozen=True)
class Step:
    """One gradient definition as a torch call."""

    overload: Any
    sources: tuple[Source, ...]
    outputs: tuple[str, ...]

    def run(self, values: dict[str, Any], shapes: dict[str, Shape]) -> None:
        """Call the operator and name its results."""
        results = self.overload(*(source.get(values, shapes) for source in self.sources))
        for name, result in zip(self.outputs, results if isinstance(results, tuple) else (results,), strict=False):
            if name:
                values[name] = result


@dataclass(frozen=True)
class Plan:
    """The steps of a derivative, and what of the forward call they read."""

    steps: tuple[Step, ...]
    #: For each input the name of its gradient; None where it is zero or not needed.
    gradients: tuple[str | None, ...]
    values: frozenset[str]
    shapes: frozenset[str]


@dataclass(frozen=True)
class Kept:
    """What a recorded call keeps, by name."""

    values: tuple[str, ...]
    shapes: tuple[str, ...]


@functools.lru_cache(maxsize=4096)
def _kept(request: Request) -> Kept:
    """Give what is read by the derivative for any choice of output gradients."""
    choices = product(*([False, True] if wanted else [False] for wanted in request.outputs))
    plans = [_plan(request, choice) for choice in choices if any(choice)]
    values = frozenset().union(*(plan.values for plan in plans))
    shapes = frozenset().union(*(plan.shapes for plan in plans)) - values
    return Kept(tuple(sorted(values)), tuple(sorted(shapes)))


@functools.lru_cache(maxsize=4096)
def _plan(request: Request, given: tuple[bool, ...]) -> Plan:
    """Translate the registry's definitions, leaving out what nobody needs."""
    from .bridge import bridged

    names = bridged(request.operator).signature.argument_names
    constants: dict[str, Any] = {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in zip(names, request.constants, strict=True)
    }
    inputs = [f"x{i}" if present else None for i, present in enumerate(request.inputs)]
    outputs = [f"y{i}" for i in range(len(request.outputs))]
    definition = _firelu.create_operator(request.operator, inputs, outputs, **constants)
    definitions, found = _firelu.get_gradient_defs(
        definition, [f"dy{i}" if there else None for i, there in enumerate(given)]
    )
    gradients = tuple(name if needed else None for name, needed in zip(found, request.needed, strict=True))
    live = {name for name in gradients if name is not None}
    made = {name for step in definitions for name in step.outputs if name}
    lent: set[str] = set()
    steps: list[Step] = []
    for step in reversed(definitions):
        if not live.intersection(step.outputs):
            continue
        target = bridged(step.operator)
        signature = target.signature
        for index, name in enumerate(step.inputs):
            spec = signature.inputs[min(index, len(signature.inputs) - 1)]
            if name:
                (lent if spec.shape_only and name not in made else live).add(name)
        steps.append(Step(target.overload, _sources(target, step, live), tuple(step.outputs)))
    forward = {name for name in live if name not in made and name[0] in "xy"}
    return Plan(tuple(reversed(steps)), gradients, frozenset(forward), frozenset(lent - forward))


def _sources(target: Bridged, step: _firelu.OperatorDef, live: set[str]) -> tuple[Source, ...]:
    """Give the parameters of a step's call in order."""
    signature = target.signature
    sources: list[Source] = []
    for index, spec in enumerate(signature.inputs):
        if signature.variadic and index + 1 == len(signature.inputs):
            sources.append(Source("values", tuple(step.inputs[index:])))
            continue
        name = step.inputs[index] if index < len(step.inputs) else ""
        kinds = ("shape", "dtype") if spec.shape_only else ("value",)
        sources += [Source(kind, name) if name else Source("constant", None) for kind in kinds]
    for parameter in signature.parameters[signature.first_argument :]:
        if parameter.name in signature.argument_names:
            sources.append(Source("constant", step.args.get(parameter.name, parameter.value)))
    if signature.wanted_place is not None:
        wanted = [index < len(step.outputs) and step.outputs[index] in live for index in range(signature.outputs)]
        sources.append(Source("constant", wanted))
    return tuple(sources)
