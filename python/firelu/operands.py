"""Operands and numbers as values that run no code of a user's when they are read.

A function that hands on views of its arrays converts everything first: a view keeps no array from being resized by what
converts the next operand, and would show memory that is gone.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from ._firelu import Tensor
from .errors import ArgumentError
from .libraries import refuse

_PLAIN = (type(None), bool, int, float, str)


def array(function: str, name: str, value: Any) -> Any:
    """Give an operand as a plain array, or a tensor as it is; refuse arrays of other libraries."""
    if isinstance(value, Tensor):
        return value
    refuse(function, name, value)
    try:
        return np.asarray(value)
    except (TypeError, ValueError) as error:
        takes = f"takes what numpy.asarray can turn into an array ({error})"
        raise ArgumentError(f"{function}: {name}: got {type(value).__name__}, {takes}") from error


def without_gradient(function: str, name: str, value: Any) -> None:
    """Refuse a tensor that requires a gradient, where it would be read as an array and get none."""
    if isinstance(value, Tensor) and value.requires_grad:
        raise ArgumentError(
            f"{function}: {name}: got a firelu.Tensor that requires a gradient, takes an array: no gradient flows "
            "through this function; pass .numpy() for its values"
        )


def settled(function: str, name: str, value: Any) -> Any:
    """Give a number, or several, of the classes that are read as they are; what is none is left to be refused."""
    if type(value) in _PLAIN or isinstance(value, np.generic):
        return value
    if isinstance(value, np.ndarray):
        return np.asarray(value)
    if isinstance(value, (tuple, list)):
        return tuple(settled(function, name, each) for each in value)
    if isinstance(value, str):
        return str.__str__(value)
    try:
        if hasattr(value, "__index__"):
            return operator.index(value)
        return float(value) if hasattr(value, "__float__") and not hasattr(value, "__len__") else value
    except (TypeError, ValueError, OverflowError) as error:
        raise ArgumentError(f"{function}: {name}: got {value!r}, takes a number") from error
