"""The types in firelu's signatures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from ._firelu import Tensor

__all__ = ["ArgumentValue", "Array", "ArrayLike", "DTypeLike", "NumpyArray"]

#: A numpy array or a `firelu.Tensor`: a function returns the one that it was given.
Array = TypeVar("Array", np.ndarray[Any, Any], Tensor)

#: A numpy array of any shape and dtype.
NumpyArray: TypeAlias = np.ndarray[Any, Any]

#: The value of an operator's argument.
ArgumentValue: TypeAlias = bool | int | float | str | Sequence[int] | Sequence[float] | None
