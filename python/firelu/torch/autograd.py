"""The kernel of torch's key Autograd: records calls, and runs their derivatives as torch operators again.

It stands on names that torch keeps to itself (`private`). Where one is gone, `register_public` asks torch's public
registration instead: reverse mode as before, forward mode refused by `direct`.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch.autograd import forward_ad

from . import private
from .gradients import Recipe, Request, Shape, recipe, tangents
from .recent import Recent

if TYPE_CHECKING:
    from .bridge import Bridged
    from .signature import Signature

#: The classes of tensors that are nothing but tensors.
EXACT = frozenset((torch.Tensor, torch.nn.Parameter))

#: Puts a call into autograd's graph: the call's keys (None where they are plain), whether they are, whether its tensors
#: may have tangents, and its arguments.
Record = Callable[[Any, bool, bool, tuple[Any, ...]], Any]

#: How many recipes are kept for each operator.
RECIPES_KEPT = 64

#: Whether the kernel can be made.
IS_AVAILABLE = private.are_there(
    private.below_autograd,
    private.keys_after_autograd,
    private.key_of_transform,
    private.redispatch,
    private.single_level_function,
    private.enable_single_level_function,
    private.set_forward_mode_enabled,
)

#: The keys of a call on plain tensors of the CPU or of a CUDA device under no mode, transform or subclass: nothing
#: stands between autograd and the kernel, which is then called straight away.
_PLAIN: frozenset[int] = frozenset(
    (private.key_set(key) | private.key_set(autograd_key)).raw_repr()
    for key, autograd_key in (
        (private.key_of_cpu, private.key_of_autograd_cpu),
        (private.key_of_cuda, private.key_of_autograd_cuda),
    )
    if private.are_there(private.key_set, key, autograd_key)
)


def primal(tensor: torch.Tensor) -> torch.Tensor:
    """Give a tensor without its tangent."""
    without: torch.Tensor = forward_ad.unpack_dual(tensor, level=0).primal  # type: ignore[no-untyped-call]
    return without


def has_tangent(tensor: torch.Tensor, level: int | None = None) -> bool:
    """Tell whether a tensor has a tangent at a level, else at the one that Python knows of."""
    try:
        return forward_ad.unpack_dual(tensor, level=level).tangent is not None  # type: ignore[no-untyped-call]
    except RuntimeError:
        return True  # A batch inside forward mode, which cannot be asked.


def kernel(bridged: Bridged, record: Record) -> Callable[..., Any]:
    """Make the kernel of an operator: it records the call where an input asks for it."""
    compute, signature, places = bridged.kernel, bridged.signature, bridged.signature.tensor_places
    grad_enabled, modules = torch.is_grad_enabled, sys.modules

    def autograd(keyset: Any, *arguments: Any) -> Any:
        is_plain = keyset.raw_repr() in _PLAIN
        if private.in_forward_mode() or (
            "torch._dynamo" in modules and _may_have_tangents(keyset, signature, arguments)
        ):
            return record(keyset, is_plain, True, arguments)
        if grad_enabled():
            for place in places:
                value = arguments[place] if place < len(arguments) else None
                if value is not None and (
                    any(item.requires_grad for item in value) if type(value) is list else value.requires_grad
                ):
                    return record(keyset, is_plain, False, arguments)
        if is_plain:
            return compute(*arguments)
        return _below(bridged, keyset, arguments)

    return autograd


def _may_have_tangents(keyset: Any, signature: Signature, arguments: tuple[Any, ...]) -> bool:
    """Tell whether a call may be in forward mode though Python knows nothing of it, as in a compiled graph.

    Looking at a tensor that is traced would leave its mark in the graph: such a call counts as one.
    """
    if keyset.has(private.key_of_transform):
        return True
    tensors = [tensor for tensor in signature.tensors(arguments) if tensor is not None]
    return any(type(tensor) not in EXACT or has_tangent(tensor, 0) for tensor in tensors)


def _below(bridged: Bridged, keyset: Any, arguments: tuple[Any, ...]) -> Any:
    with private.below_autograd():
        return bridged.overload.redispatch(keyset & private.keys_after_autograd, *arguments)


class Recorder:
    """What a recorded call of an operator keeps."""

    def __init__(self, bridged: Bridged) -> None:
        self.signature = bridged.signature
        self._shape_only = [spec.shape_only for spec in self.signature.inputs]
        self._first = self.signature.first_argument
        self._has_lists = self.signature.wanted_place is not None or any(
            "[]" in parameter.type for parameter in self.signature.parameters[self._first :]
        )
        #: By arguments, needed gradients and omitted inputs.
        self.recipes: Recent[Any, Recipe] = Recent(RECIPES_KEPT)

    def _recipe(self, arguments: tuple[Any, ...], needed: tuple[bool, ...]) -> Recipe:
        signature = self.signature
        complete = signature.complete(arguments)
        present = [value is not None for value in signature.tensors(complete)]
        for index, place in enumerate(signature.places):
            if self._shape_only[index]:
                present[index] = complete[place] is not None
        constants, wanted = signature.constants(complete), signature.wanted(complete)
        return recipe(Request(signature.operator, constants, tuple(present), wanted, needed))

    def keep(
        self,
        ctx: Any,
        needed: tuple[bool, ...],
        arguments: tuple[Any, ...],
        tensors: Sequence[Any],
        outputs: tuple[Any, ...],
    ) -> None:
        """Give autograd's context what the derivative reads."""
        first = self._first
        constants = arguments[first:]
        if self._has_lists:
            constants = tuple([tuple(c) if type(c) is list else c for c in constants])
        key = (constants, needed, *[value is None for value in arguments[:first]])
        chosen = self.recipes.get(key)
        if chosen is None:
            chosen = self._recipe(arguments, needed)
            if not chosen.lacks_gradient:
                self.recipes[key] = chosen
        ctx.recipe = chosen
        ctx.shapes = shapes = {}
        for place in chosen.input_shapes:
            tensor = tensors[place]
            start = self.signature.places[place] if tensor is None else 0
            shapes[f"x{place}"] = (
                (arguments[start], arguments[start + 1]) if tensor is None else (tensor.shape, tensor.dtype)
            )
        for place in chosen.output_shapes:
            shapes[f"y{place}"] = (outputs[place].shape, outputs[place].dtype)
        ctx.save_for_backward(*[tensors[p] for p in chosen.inputs], *[outputs[p] for p in chosen.outputs])
        ctx.set_materialize_grads(False)
        if not all(chosen.request.outputs):
            there = zip(outputs, chosen.request.outputs, strict=True)
            ctx.mark_non_differentiable(*[output for output, wanted in there if not wanted])

    def lent_shapes(self, arguments: tuple[Any, ...]) -> dict[str, Shape]:
        """Give the shapes of the inputs that lend only those."""
        given = zip(self._shape_only, self.signature.places, strict=True)
        return {
            f"x{index}": (arguments[place], arguments[place + 1])
            for index, (lends, place) in enumerate(given)
            if lends and place < len(arguments) and arguments[place] is not None
        }


def recorder(bridged: Bridged) -> Record:
    """Make what puts a call of the operator into autograd's graph."""
    signature, compute, keeper = bridged.signature, bridged.kernel, bridged.recorder
    keep = keeper.keep

    def forward(ctx: Any, call: tuple[Any, bool, bool, tuple[Any, ...]], *tensors: Any) -> Any:
        keyset, is_plain, is_dual, arguments = call
        if is_plain:
            result = compute(*arguments)
        else:
            # A recorded call runs with both modes off, but the transforms further out have graphs of their own.
            is_transformed = keyset.has(private.key_of_transform)
            with torch.set_grad_enabled(is_transformed), private.set_forward_mode_enabled(is_transformed):
                result = _below(bridged, keyset, arguments)
        outputs = result if type(result) is tuple else (result,)
        keep(ctx, ctx.needs_input_grad[1:], arguments, tensors, outputs)
        if is_dual:
            ctx.save_for_forward(*tensors, *outputs)
            ctx.lent = keeper.lent_shapes(arguments)
            ctx.is_transformed = not is_plain and keyset.has(private.key_of_transform)
        return result

    def backward(ctx: Any, *gradients: torch.Tensor | None) -> Any:
        chosen: Recipe = ctx.recipe
        shapes: dict[str, Shape] = ctx.shapes
        saved: Sequence[Any] = ctx.saved_tensors
        return (None, *chosen.run(saved, shapes, gradients))

    def jvp(ctx: Any, *given: torch.Tensor | None) -> Any:
        request: Request = ctx.recipe.request
        saved: list[Any] = list(ctx.saved_tensors)
        mode: Any = contextlib.nullcontext()
        if ctx.is_transformed:
            # The transforms further out have tangents of their own, which autograd has switched off together with
            # ours; ours are taken off by hand.
            mode = private.set_forward_mode_enabled(True)
        with mode:
            if ctx.is_transformed:
                saved = [None if tensor is None else primal(tensor) for tensor in saved]
            count = len(saved) - len(request.outputs)
            found = tangents(request, saved[:count], saved[count:], ctx.lent, given[1:])
        return found[0] if len(found) == 1 else tuple(found)

    methods = {
        "forward": staticmethod(forward),
        "backward": staticmethod(backward),
        "jvp": staticmethod(jvp),
        "__doc__": bridged.schema.doc,
    }
    function: Any = type(bridged.schema.name, (private.single_level_function,), methods)

    def record(keyset: Any, is_plain: bool, is_dual: bool, arguments: tuple[Any, ...]) -> Any:
        call, tensors = (keyset, is_plain, is_dual, arguments), signature.tensors(arguments)
        if is_plain:
            return function.apply(call, *tensors)
        # The dispatcher has come down to one level of torch.func's transforms.
        with private.enable_single_level_function():
            return function.apply(call, *tensors)

    return record


def register_public(bridged: Bridged, library: Any) -> None:
    """Register the derivative by torch's public function, which costs more and knows no forward mode."""
    signature, keeper = bridged.signature, bridged.recorder

    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        tensors = signature.tensors(inputs)
        needed = tuple(tensor is not None and tensor.requires_grad for tensor in tensors)
        outputs = output if isinstance(output, tuple) else (output,)
        ctx.listed = [len(value) if isinstance(value, (list, tuple)) else None for value in inputs]
        keeper.keep(ctx, needed, inputs, tensors, outputs)

    def backward(ctx: Any, *gradients: torch.Tensor | None) -> Any:
        found = iter(ctx.recipe.run(ctx.saved_tensors, ctx.shapes, gradients))
        results: list[Any] = [None] * len(signature.parameters)
        for spec, place in zip(signature.inputs, signature.places, strict=True):
            if spec.shape_only or ctx.listed[place] is None:
                gradient = next(found)
                results[place] = None if spec.shape_only else gradient
            else:
                results[place] = [next(found) for _ in range(ctx.listed[place])]
        return tuple(results)

    torch.library.register_autograd(f"firelu::{signature.name}", backward, setup_context=setup_context, lib=library)
