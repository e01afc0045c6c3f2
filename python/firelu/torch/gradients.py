"""What a derivative does: the registry's gradient definitions, translated once into calls of torch operators.

Reverse mode runs the definitions as they are. They are linear in the gradients of the outputs, so their own gradient
with respect to those, fed with tangents of the inputs, gives the tangents of the outputs: forward mode runs that.
"""

from __future__ import annotations

import contextvars
import functools
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import torch

from .. import _firelu
from ..errors import NoGradientError, ShapeError
from .operators import RULES

if TYPE_CHECKING:
    from .bridge import Bridged

#: What stands for an input of which only this much is kept.
Shape = tuple[Sequence[Any], torch.dtype]

#: How many plans are kept: those of one model, not of every slope that a schedule ever had.
PLANS_KEPT = 256


@dataclass(frozen=True)
class Request:
    """Of which call the derivative is asked for: everything but values and shapes."""

    operator: str
    constants: tuple[Any, ...]
    #: Which inputs and outputs are there, and which inputs need a gradient.
    inputs: tuple[bool, ...]
    outputs: tuple[bool, ...]
    needed: tuple[bool, ...]

    def definition(self) -> _firelu.OperatorDef:
        """Give the call as a definition: inputs are x0, x1, ..., outputs y0, y1, ..."""
        from .bridge import bridged

        names = bridged(self.operator).signature.argument_names
        constants: dict[str, Any] = {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in zip(names, self.constants, strict=True)
        }
        inputs = [f"x{i}" if present else None for i, present in enumerate(self.inputs)]
        outputs = [f"y{i}" for i in range(len(self.outputs))]
        return _firelu.create_operator(self.operator, inputs, outputs, **constants)

    @property
    def is_built_in(self) -> bool:
        """Tell whether the operator and its gradient are firelu's own, whose shapes need no check."""
        return self.operator in RULES


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
        values.update((name, result) for name, result in zip(self.outputs, results, strict=False) if name)


@dataclass(frozen=True)
class Plan:
    """The steps of a derivative, and what of the forward call they read."""

    steps: tuple[Step, ...]
    #: The name of each result; None where it is zero or not needed.
    results: tuple[str | None, ...]
    values: frozenset[str]
    shapes: frozenset[str]

    def run(self, values: dict[str, Any], shapes: dict[str, Shape]) -> list[Any]:
        """Run the steps and give the results."""
        for step in self.steps:
            step.run(values, shapes)
        return [None if name is None else values[name] for name in self.results]


@dataclass(frozen=True)
class Recipe:
    """What a recorded call keeps and how its derivative is run."""

    request: Request
    #: The places of the inputs and outputs whose values are kept.
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    #: The places of inputs and outputs of which only shape and dtype are kept.
    input_shapes: tuple[int, ...]
    output_shapes: tuple[int, ...]
    #: Whether the operator had no gradient when it was called, so that nothing is kept for one.
    lacks_gradient: bool = False

    @property
    def names(self) -> list[str]:
        """Give the names of the kept values, in the order they are saved in."""
        return [f"x{place}" for place in self.inputs] + [f"y{place}" for place in self.outputs]

    def run(
        self, saved: Sequence[Any], shapes: dict[str, Shape], gradients: Sequence[torch.Tensor | None]
    ) -> list[Any]:
        """Give the gradient of each input, None where it is zero or not needed."""
        plan = _plan(self.request, tuple(gradient is not None for gradient in gradients))
        if self.lacks_gradient:
            reason = "its gradient was registered after the call: call it again"
            raise NoGradientError(f"{self.request.operator}: no gradient: {reason}")
        values = dict(zip(self.names, saved, strict=True))
        values.update({f"dy{place}": gradient for place, gradient in enumerate(gradients)})
        results = plan.run(values, shapes)
        if not self.request.is_built_in:
            for place, result in enumerate(results):
                if result is not None:
                    expected = shapes[f"x{place}"][0] if f"x{place}" in shapes else values[f"x{place}"].shape
                    _check_shape(self.request.operator, f"the gradient of input {place}", result, expected)
        return results


def recipe(request: Request) -> Recipe:
    """Work out what is read by the derivative, for any choice of output gradients."""
    choices = product(*([False, True] if wanted else [False] for wanted in request.outputs))
    try:
        plans = [_plan(request, choice) for choice in choices if any(choice)]
    except NoGradientError:
        # Raised again when somebody asks for the derivative.
        return Recipe(request, (), (), (), (), lacks_gradient=True)
    values = {name for plan in plans for name in plan.values}
    shapes = {name for plan in plans for name in plan.shapes}
    if not request.is_built_in:
        # The gradients of a user's maker are compared with the inputs.
        shapes |= {f"x{place}" for place, needed in enumerate(request.needed) if needed}
    shapes -= values

    def places(names: set[str], letter: str) -> tuple[int, ...]:
        return tuple(sorted(int(name[1:]) for name in names if name[0] == letter))

    return Recipe(request, places(values, "x"), places(values, "y"), places(shapes, "x"), places(shapes, "y"))


@functools.lru_cache(maxsize=PLANS_KEPT)
def _plan(request: Request, given: tuple[bool, ...]) -> Plan:
    """Translate the registry's definitions, leaving out what nobody needs."""
    definition = request.definition()
    definitions, found = _firelu.get_gradient_defs(
        definition, [f"dy{i}" if there else None for i, there in enumerate(given)]
    )
    gradients = tuple(name if needed else None for name, needed in zip(found, request.needed, strict=True))
    known = [*definition.inputs, *definition.outputs, *(f"dy{i}" for i, there in enumerate(given) if there)]
    return _translate(request.operator, definitions, gradients, known)


def forget_plans() -> None:
    """Forget every plan: an operator that some of them call was replaced."""
    _plan.cache_clear()
    _forward_plan.cache_clear()


def tangents(
    request: Request,
    inputs: Sequence[torch.Tensor | None],
    outputs: Sequence[torch.Tensor],
    lent: dict[str, Shape],
    given: Sequence[torch.Tensor | None],
) -> list[torch.Tensor | None]:
    """Give the tangent of each output; None where the output is not wanted.

    Args:
        request: the call.
        inputs: its tensors, None where one is omitted or lends only its shape.
        outputs: its results.
        lent: the shapes of the inputs that lend only those, by name.
        given: the tangent of each input, None where it is zero.
    """
    plan = _forward_plan(request, tuple(tangent is not None for tangent in given))
    values: dict[str, Any] = {f"x{place}": tensor for place, tensor in enumerate(inputs)}
    shapes = dict(lent)
    for place, output in enumerate(outputs):
        values[f"y{place}"] = output
        shapes[f"dy{place}"] = (output.shape, output.dtype)
        if f"dy{place}" in plan.values:
            # The derivative of what is linear is the same everywhere, so also at zero.
            values[f"dy{place}"] = torch.zeros_like(output)
    values.update({f"x{place}_tangent": tangent for place, tangent in enumerate(given)})
    own = {id(tangent) for tangent in given}
    results: list[torch.Tensor | None] = []
    for place, result in enumerate(plan.run(values, shapes)):
        output = outputs[place]
        if not request.outputs[place]:
            result = None
        elif result is None:
            result = torch.zeros_like(output)
        elif id(result) in own:
            # An input's tangent is not handed out a second time: somebody may write to either.
            result = result.clone()
        if result is not None and not request.is_built_in:
            _check_shape(request.operator, f"the tangent of output {place}", result, output.shape)
        results.append(result)
    return results


@functools.lru_cache(maxsize=PLANS_KEPT)
def _forward_plan(request: Request, given: tuple[bool, ...]) -> Plan:
    """Transpose the registry's definitions: from tangents of the inputs to those of the outputs."""
    definition = request.definition()
    gradients = [f"dy{i}" if wanted else None for i, wanted in enumerate(request.outputs)]
    try:
        definitions, found = _firelu.get_gradient_defs(definition, gradients)
        ends: dict[str, str] = {}
        for place, (name, there) in enumerate(zip(found, given, strict=True)):
            if name is not None and there:
                # A copy has a name of its own, also where several inputs share a gradient. Nobody runs it.
                definitions.append(_firelu.create_operator("Sum", [name], [f"x{place}_copy"]))
                ends[f"x{place}_copy"] = f"x{place}_tangent"
        read = {name for step in definitions for name in step.inputs}
        wanted = [name for name in gradients if name is not None and name in read]
        # In a context of its own: gradients that somebody overrides are for nets and `firelu.Tensor`.
        transposed, made = contextvars.Context().run(_firelu.add_gradient_operators, definitions, ends, wanted)
    except NoGradientError as error:
        raise NoGradientError(
            f"{request.operator}: the tangent of its output: got an operator without a gradient ({error}), takes a "
            "gradient whose operators have one too: forward mode transposes it"
        ) from error
    results = tuple(None if name is None else made.get(name) for name in gradients)
    tangent_names = [f"x{place}_tangent" for place, there in enumerate(given) if there]
    known = [*definition.inputs, *definition.outputs, *filter(None, gradients), *tangent_names]
    return _translate(request.operator, [*definitions, *transposed], results, known)


def _translate(
    operator: str, definitions: Sequence[_firelu.OperatorDef], results: tuple[str | None, ...], known: Sequence[str]
) -> Plan:
    """Give the definitions that the results need as torch calls; ``known`` names what there is without them."""
    from .bridge import bridged

    needed, values, shapes = _firelu.reduce_definitions(operator, definitions, known, results)
    steps = tuple(
        Step(target.overload, _sources(target, step), tuple(step.outputs))
        for target, step in ((bridged(step.operator), step) for step in needed)
    )
    return Plan(steps, results, frozenset(values), frozenset(shapes))


def _sources(target: Bridged, step: _firelu.OperatorDef) -> tuple[Source, ...]:
    """Give the parameters of a step's call in order."""
    signature, rules = target.signature, RULES.get(step.operator)
    sources: list[Source] = []
    for index, spec in enumerate(signature.inputs):
        if signature.variadic and index + 1 == len(signature.inputs):
            sources.append(Source("values", tuple(step.inputs[index:])))
            continue
        name = step.inputs[index] if index < len(step.inputs) else ""
        kinds = ("shape", "dtype") if spec.shape_only else ("value",)
        lengths = None if rules is None else rules.lengths_read.get(spec.name)
        sources += [Source(kind, name, lengths) if name else Source("constant", None) for kind in kinds]
    arguments = signature.parameters[signature.first_argument :][: len(signature.argument_names)]
    sources += [Source("constant", step.args.get(argument.name, argument.value)) for argument in arguments]
    if signature.wanted_place is not None:
        wanted = [index < len(step.outputs) and step.outputs[index] != "" for index in range(signature.outputs)]
        sources.append(Source("constant", wanted))
    return tuple(sources)


def _check_shape(operator: str, what: str, got: torch.Tensor, expected: Sequence[Any]) -> None:
    if tuple(got.shape) != tuple(expected):
        raise ShapeError(f"{operator}: {what}: got {tuple(got.shape)}, takes {tuple(expected)}")
