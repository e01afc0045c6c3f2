"""What a derivative does: the registry's gradient definitions, translated once into calls of torch operators."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import torch

from .. import _firelu
from ..errors import NoGradientError

if TYPE_CHECKING:
    from .bridge import Bridged

#: What stands for an input of which only this much is kept.
Shape = tuple[Sequence[Any], torch.dtype]

#: How many of the last lengths of a lent shape an operator reads, where not all: a call with these alone holds for
#: every part of a batch and of the channels, whatever their number.
_LENGTHS_READ = {("UpFirDn2dGradient", "X"): 2, ("FusedLeakyReluGradient", "Like"): 0}


@dataclass(frozen=True)
class Request:
    """Of which call the derivative is asked for: everything but values and shapes."""

    operator: str
    constants: tuple[Any, ...]
    #: Which inputs and outputs are there, and which inputs need a gradient.
    inputs: tuple[bool, ...]
    outputs: tuple[bool, ...]
    needed: tuple[bool, ...]


@dataclass(frozen=True)
class Source:
    """Where a parameter of a step comes from."""

    kind: str  # "constant", "value", "values", "shape" or "dtype"
    content: Any
    #: How many of a shape's last lengths; None for all.
    lengths: int | None = None

    def get(self, values: dict[str, Any], shapes: dict[str, Shape]) -> Any:
        """Give the parameter."""
        if self.kind == "constant":
            return self.content
        if self.kind == "value":
            return values[self.content]
        if self.kind == "values":
            return [values[name] for name in self.content]
        if self.content in shapes:
            shape, dtype = shapes[self.content]
        else:
            shape, dtype = values[self.content].shape, values[self.content].dtype
        if self.kind == "dtype":
            return dtype
        return shape if self.lengths is None else shape[len(shape) - self.lengths :]


@dataclass(frozen=True)
class Step:
    """One gradient definition as a torch call."""

    overload: Any
    sources: tuple[Source, ...]
    outputs: tuple[str, ...]

    def run(self, values: dict[str, Any], shapes: dict[str, Shape]) -> None:
        """Call the operator and name its results."""
        results = self.overload(*[source.get(values, shapes) for source in self.sources])
        if not isinstance(results, tuple):
            results = (results,)
        for name, result in zip(self.outputs, results, strict=False):
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
class Recipe:
    """What a recorded call keeps and how its derivative is run: inputs are x0, x1, ..., outputs y0, y1, ..."""

    request: Request
    #: The places of the inputs and outputs whose values are kept.
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    #: The places of inputs and outputs of which only shape and dtype are kept.
    input_shapes: tuple[int, ...]
    output_shapes: tuple[int, ...]

    @property
    def names(self) -> list[str]:
        """Give the names of the kept values, in the order they are saved in."""
        return [f"x{place}" for place in self.inputs] + [f"y{place}" for place in self.outputs]

    def run(
        self, saved: Sequence[Any], shapes: dict[str, Shape], gradients: Sequence[torch.Tensor | None]
    ) -> list[Any]:
        """Give the gradient of each input, None where it is zero or not needed."""
        plan = _plan(self.request, tuple(gradient is not None for gradient in gradients))
        values = dict(zip(self.names, saved, strict=True))
        values.update({f"dy{place}": gradient for place, gradient in enumerate(gradients)})
        for step in plan.steps:
            step.run(values, shapes)
        return [None if name is None else values[name] for name in plan.gradients]


def recipe(request: Request) -> Recipe:
    """Work out what is read by the derivative, for any choice of output gradients."""
    choices = product(*([False, True] if wanted else [False] for wanted in request.outputs))
    try:
        plans = [_plan(request, choice) for choice in choices if any(choice)]
    except NoGradientError:
        plans = []  # Raised again when somebody asks for the derivative.
    values = {name for plan in plans for name in plan.values}
    shapes = {name for plan in plans for name in plan.shapes} - values

    def places(names: set[str], letter: str) -> tuple[int, ...]:
        return tuple(sorted(int(name[1:]) for name in names if name[0] == letter))

    return Recipe(request, places(values, "x"), places(values, "y"), places(shapes, "x"), places(shapes, "y"))


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
        specs = target.signature.inputs
        for index, name in enumerate(step.inputs):
            spec = specs[min(index, len(specs) - 1)]
            if name:
                (lent if spec.shape_only and name not in made else live).add(name)
        steps.append(Step(target.overload, _sources(target, step, live), tuple(step.outputs)))
    forward = {name for name in live if name in inputs or name in outputs}
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
        lengths = _LENGTHS_READ.get((step.operator, spec.name))
        sources += [Source(kind, name, lengths) if name else Source("constant", None) for kind in kinds]
    arguments = signature.parameters[signature.first_argument :][: len(signature.argument_names)]
    sources += [Source("constant", step.args.get(argument.name, argument.value)) for argument in arguments]
    if signature.wanted_place is not None:
        wanted = [index < len(step.outputs) and step.outputs[index] in live for index in range(signature.outputs)]
        sources.append(Source("constant", wanted))
    return tuple(sources)
