"""One function for numpy and torch: which library an array belongs to, and the checks they share."""

from __future__ import annotations

import operator
import sys
from collections.abc import Iterable
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    import torch
    from typing_extensions import TypeIs

#: A numpy array or a torch tensor: a function returns the one that it was given.
Array = TypeVar("Array", NDArray[Any], "torch.Tensor")
#: Numbers as an array, a tensor or a list.
Numbers: TypeAlias = "ArrayLike | torch.Tensor"

TORCH_MISSING = '{name} needs torch, which is not installed: pip install "firelu[torch]"'


class StepRangeError(ValueError, IndexError):
    """A diffusion step lies outside its schedule; both a bad value and a bad index."""


def is_torch(value: object) -> TypeIs[torch.Tensor]:
    """Whether `value` is a torch tensor; a tensor exists only where torch is already imported."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def require_torch(name: str) -> ModuleType:
    """Import torch for the helper called `name`, or say which extra brings it."""
    try:
        import torch
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise ImportError(TORCH_MISSING.format(name=name), name="torch") from error
    return torch


def as_array(value: Any) -> Any:
    """Return `value` itself if it is a torch tensor, else a numpy array of it."""
    return value if is_torch(value) else np.asarray(value)


def namespace(array: Any) -> Any:
    """Return the array-API namespace of a numpy array or torch tensor."""
    # Not by `array_namespace`, which torch.compile warns about; not at the top, for a quick import.
    if is_torch(array):
        from array_api_compat import torch

        return torch
    from array_api_compat import numpy

    return numpy


def kind(array: Any) -> str:
    """Return `"float"`, `"integer"`, or the dtype's own name where it is neither (bool, complex, text...)."""
    if is_torch(array):
        torch = sys.modules["torch"]
        if array.dtype.is_floating_point:
            return "float"
        return str(array.dtype) if array.dtype.is_complex or array.dtype == torch.bool else "integer"
    if array.dtype.kind in "iu":
        return "integer"
    # ml_dtypes' bfloat16 is a float to numpy's casting rules, whatever letter its kind has.
    return "float" if array.dtype.kind == "f" or array.dtype.name == "bfloat16" else str(array.dtype)


def to_float64(function: str, argument: str, array: Any) -> NDArray[np.float64]:
    """Return a sequence, array or tensor as float64 numpy; it must be finite, 1-D and not empty."""
    if is_torch(array):
        array = array.detach().cpu().double().numpy()
    result = np.asarray(array, dtype=np.float64)
    if result.ndim != 1 or result.size == 0:
        raise ValueError(f"{function}: {argument} must be 1-D and not empty, got shape {result.shape}")
    if not np.isfinite(result).all():
        raise ValueError(f"{function}: {argument} must be finite, got {result[~np.isfinite(result)][0]}")
    return result


def like(result: NDArray[np.float64], example: Array, dtype: Any) -> Array:
    """Return `result` in `dtype` as what `example` is: a tensor on the same device, else numpy."""
    converted: Any
    if is_torch(example):
        torch = sys.modules["torch"]
        # Cast before the move: not every device has float64.
        converted = torch.from_numpy(result).to(dtype).to(example.device)
    else:
        converted = result.astype(dtype, copy=False)
    given: Array = converted
    return given


def count(function: str, argument: str, value: Any, least: int = 1) -> int:
    """Return `value` as an int of at least `least`."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{function}: {argument} must be an integer, got {value!r}") from None
    if number < least:
        raise ValueError(f"{function}: {argument} must be at least {least}, got {number}")
    return number


def suggestion(word: object, known: Iterable[str]) -> str:
    """Return the end of a message that names the known word nearest to an unknown one; empty where none is near."""
    import difflib  # only here: errors alone need it

    near = difflib.get_close_matches(str(word), list(known), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def check_steps(function: str, argument: str, steps: Any, length: int) -> None:
    """Raise `StepRangeError` naming the first of `steps` that is not in `0..length-1`."""
    outside = steps[(steps < 0) | (steps >= length)]
    if outside.shape[0]:
        raise StepRangeError(
            f"{function}: {argument} holds step {int(outside[0])}, outside 0..{length - 1} "
            f"of a schedule of {length} steps"
        )
