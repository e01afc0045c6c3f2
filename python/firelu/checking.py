"""Gradients checked against differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ._firelu import Tensor, run_operator
from .autograd import grad
from .errors import ArgumentError, GradcheckError
from .typing import ArrayLike

Arrays = list[np.ndarray[Any, np.dtype[np.float64]]]


def gradcheck(
    function: Callable[..., Tensor | Sequence[Tensor]] | str,
    *inputs: ArrayLike,
    order: int = 1,
    step: float = 1e-5,
    tolerance: float = 1e-6,
) -> bool:
    """Check the gradients of a function or operator against central differences, in float64.

    Every element of every input is moved by ``step`` both ways, so keep the inputs small. Inputs near a kink of the
    function, such as 0 for leaky ReLU, have no derivative to compare with: choose others.

    Args:
        function: a function of tensors that returns one, or several; or the name of a registered operator.
        inputs: arrays, lists or numbers, each of which is differentiated. Leave out the others:
            ``lambda x: firelu.upfirdn2d(x, kernel)``.
        order: the highest order to check, from the first on. Beyond the first, a random weighting of the gradient is
            differentiated again.
        step: how far an element is moved, times its size where that is above 1.
        tolerance: how far the two may differ, absolutely for small derivatives, relatively for those above 1.

    Returns:
        True.

    Raises:
        GradcheckError: where a gradient differs; it names the order, the input, the element and both values.
        NoGradientError: where an operator has no gradient.

    Examples:
        >>> import firelu
        >>> firelu.gradcheck(lambda x, y: x * x * y, [1.0, 2.0], [3.0, 4.0], order=2)
        True
    """
    if not isinstance(order, int) or order < 1:
        raise ArgumentError(f"gradcheck: order: got {order!r}, takes a whole number from 1 on")
    if isinstance(function, str):
        function = _operator(function)
    arrays = [Tensor(each, dtype="float64").numpy().copy() for each in inputs]
    if not arrays:
        raise ArgumentError("gradcheck: inputs: got none, takes at least one array")
    for each in range(1, order + 1):
        _check(function, arrays, each, step, tolerance)
    return True


def _operator(name: str) -> Callable[..., Any]:
    return lambda *tensors: run_operator(name, *tensors)


def _check(function: Callable[..., Any], arrays: Arrays, order: int, step: float, tolerance: float) -> None:
    def value() -> float:
        results, _, rng = _results(function, arrays, order)
        return _weighted(results, rng).item()

    results, leaves, rng = _results(function, arrays, order)
    weighted = _weighted(results, rng)
    if value() != weighted.item():
        raise ArgumentError("gradcheck: function: got two results for the same inputs, takes one that is repeatable")
    gradients = [gradient.numpy() for gradient in grad(weighted, leaves)]
    for place, (array, gradient) in enumerate(zip(arrays, gradients, strict=True)):
        for index in np.ndindex(array.shape):
            numeric = _difference(array, index, step, value)
            if _differs(float(gradient[index]), numeric, tolerance):
                raise GradcheckError(
                    f"gradcheck: order {order}: input {_name(place, index)} = {array[index]:g}: "
                    + _single(function, arrays, order, step, tolerance, place, index)
                )


def _difference(array: Any, index: Any, step: float, value: Callable[[], Any]) -> Any:
    before = array[index]
    width = step * max(1.0, abs(before))
    ends = []
    for end in (before + width, before - width):
        array[index] = end
        ends.append(value())
    array[index] = before
    return (ends[0] - ends[1]) / ((before + width) - (before - width))


def _differs(gradient: float, numeric: float, tolerance: float) -> bool:
    return not abs(gradient - numeric) <= tolerance * max(1.0, abs(numeric))  # a NaN on either side is a difference


def _name(place: int, index: tuple[int, ...]) -> str:
    return str(place) + (f"[{', '.join(map(str, index))}]" if index else "")


def _single(
    function: Callable[..., Any], arrays: Arrays, order: int, step: float, tolerance: float, place: int, index: Any
) -> str:
    """Describe the first element of the results that differs by itself, without the weights that found it."""
    results = _results(function, arrays, order)[0]
    for which, result in enumerate(results):

        def values(which: int = which) -> Any:
            return _results(function, arrays, order)[0][which].numpy().copy()

        numeric = _difference(arrays[place], index, step, values)
        for element in np.ndindex(result.shape):
            start = np.zeros(result.shape)
            start[element] = 1.0
            results, leaves, _ = _results(function, arrays, order)
            gradient = grad(results[which], leaves[place], Tensor(start, dtype="float64")).numpy()[index]
            if _differs(gradient, numeric[element], tolerance):
                kind = "output" if order == 1 else f"derivative {order - 1}"
                return (
                    f"the gradient of {kind} {_name(which, element)} is {gradient:.9g}, "
                    f"differences give {numeric[element]:.9g}"
                )
    return "the gradient differs in the sum of the results, in none of them alone"


def _results(
    function: Callable[..., Any], arrays: Arrays, order: int
) -> tuple[Sequence[Tensor], list[Tensor], np.random.Generator]:
    """Give the tensors whose first derivative is compared, their leaves, and what the next weights come from."""
    rng = np.random.default_rng(order)
    leaves = [Tensor(array, requires_grad=True) for array in arrays]
    results = _outputs(function(*leaves))
    for _ in range(1, order):
        results = grad(_weighted(results, rng), leaves, create_graph=True)
    return results, leaves, rng


def _outputs(result: Any) -> Sequence[Tensor]:
    outputs = tuple(result) if isinstance(result, (tuple, list)) else (result,)
    for output in outputs:
        if not isinstance(output, Tensor):
            got = type(output).__name__
            raise ArgumentError(f"gradcheck: function: gave {got}, takes one that gives firelu.Tensor, or several")
    if not any(output.requires_grad for output in outputs):
        raise ArgumentError(
            "gradcheck: function: gave results without a gradient, takes one that computes them from its tensors "
            "by operators"
        )
    return outputs


def _weighted(tensors: Sequence[Tensor], rng: np.random.Generator) -> Tensor:
    """Give one number that each element enters with a weight of its own, so that no error hides in a sum."""
    parts = [(tensor * rng.uniform(0.5, 1.5, tensor.shape)).sum() for tensor in tensors]
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total
