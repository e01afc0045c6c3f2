"""The kernel of torch's key Autograd: records calls, and runs their derivatives as torch operators again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import _C
from torch._functorch.utils import enable_single_level_autograd_function
from torch.autograd.function import _SingleLevelFunction

from .gradients import Recipe, Request, Shape, recipe

if TYPE_CHECKING:
    from .bridge import Bridged

_BELOW = _C._after_autograd_keyset
_TRANSFORM = _C.DispatchKey.FuncTorchDynamicLayerBackMode
#: The keys of a call on plain CPU tensors under no mode, transform or subclass: nothing stands between autograd
#: and the kernel, which is then called straight away.
_PLAIN = (_C.DispatchKeySet(_C.DispatchKey.CPU) | _C.DispatchKeySet(_C.DispatchKey.AutogradCPU)).raw_repr()


def kernel(bridged: Bridged, record: Callable[[Any, bool, tuple[Any, ...]], Any]) -> Callable[..., Any]:
    """Make the kernel of an operator: it records the call where an input asks for it."""
    compute, places = bridged.kernel, bridged.signature.tensor_places
    grad_enabled = torch.is_grad_enabled

    def autograd(keyset: Any, *arguments: Any) -> Any:
        is_plain = keyset.raw_repr() == _PLAIN
        if grad_enabled():
            for place in places:
                value = arguments[place] if place < len(arguments) else None
                if value is not None and (
                    any(item.requires_grad for item in value) if type(value) is list else value.requires_grad
                ):
                    return record(keyset, is_plain, arguments)
        if is_plain:
            return compute(*arguments)
        return _below(bridged, keyset, arguments)

    return autograd


def _below(bridged: Bridged, keyset: Any, arguments: tuple[Any, ...]) -> Any:
    with _C._AutoDispatchBelowAutograd():
        return bridged.overload.redispatch(keyset & _BELOW, *arguments)


def recorder(bridged: Bridged) -> Callable[[Any, bool, tuple[Any, ...]], Any]:
    """Make what puts a call of the operator into autograd's graph."""
    signature, compute = bridged.signature, bridged.kernel
    first, shape_only = signature.first_argument, [spec.shape_only for spec in signature.inputs]
    recipes: dict[Any, Recipe] = {}
    has_lists = signature.wanted_place is not None or any("[]" in p.type for p in signature.parameters[first:])

    def recipe_of(arguments: tuple[Any, ...], needed: tuple[bool, ...]) -> Recipe:
        constants = arguments[first:]
        if has_lists:
            constants = tuple([tuple(c) if type(c) is list else c for c in constants])
        key = (constants, needed, *[value is None for value in arguments[:first]])
        found = recipes.get(key)
        if found is None:
            complete = signature.complete(arguments)
            present = [value is not None for value in signature.tensors(complete)]
            for index, place in enumerate(signature.places):
                if shape_only[index]:
                    present[index] = complete[place] is not None
            request = Request(
                signature.operator,
                signature.constants(complete),
                tuple(present),
                signature.wanted(complete),
                needed,
            )
            found = recipes[key] = recipe(request)
        return found

    def forward(ctx: Any, keyset: Any, is_plain: bool, arguments: tuple[Any, ...], *tensors: Any) -> Any:
        if is_plain:
            result = compute(*arguments)
        else:
            # A recorded call runs with gradients off, but the transforms further out have graphs of their own.
            with torch.set_grad_enabled(keyset.has(_TRANSFORM)):
                result = _below(bridged, keyset, arguments)
        outputs = result if type(result) is tuple else (result,)
        chosen = recipe_of(arguments, ctx.needs_input_grad[3:])
        ctx.recipe = chosen
        ctx.shapes = shapes = {}
        for place in chosen.input_shapes:
            tensor = tensors[place]
            start = signature.places[place] if tensor is None else 0
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
        return result

    def backward(ctx: Any, *gradients: torch.Tensor | None) -> Any:
        chosen: Recipe = ctx.recipe
        shapes: dict[str, Shape] = ctx.shapes
        saved: Sequence[Any] = ctx.saved_tensors
        return (None, None, None, *chosen.run(saved, shapes, gradients))

    methods = {"forward": staticmethod(forward), "backward": staticmethod(backward), "__doc__": bridged.schema.doc}
    function: Any = type(bridged.schema.name, (_SingleLevelFunction,), methods)

    def record(keyset: Any, is_plain: bool, arguments: tuple[Any, ...]) -> Any:
        tensors = signature.tensors(arguments)
        if is_plain:
            return function.apply(keyset, is_plain, arguments, *tensors)
        # The dispatcher has come down to one level of torch.func's transforms.
        with enable_single_level_autograd_function():
            return function.apply(keyset, is_plain, arguments, *tensors)

    return record
