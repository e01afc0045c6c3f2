"""What a network is told about time, and the per-sample mean that its losses use."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from numpy.typing import DTypeLike

from ._arrays import Array, as_array, count, is_torch, kind, namespace

if TYPE_CHECKING:
    import torch


def timestep_embedding(
    timesteps: Array,
    dim: int,
    max_period: float = 10000,
    repeat_only: bool = False,
    *,
    dtype: DTypeLike | torch.dtype | None = None,
) -> Array:
    """Return the sinusoidal embedding of steps: `[N]` to `[N, dim]`, cosines first, then sines.

    With h = dim // 2 and f_k = max_period^(-k/h), row n is cos(t_n f_0) .. cos(t_n f_(h-1)),
    sin(t_n f_0) .. sin(t_n f_(h-1)), and a 0 where `dim` is odd. Steps may be fractional.
    `repeat_only` repeats each step `dim` times instead.

    The result is of the same library and on the same device as the steps. Computed in float32, or in float64 for
    float64 steps, so that half-precision steps lose nothing, and cast to `dtype` at the end. Without
    `dtype` the result stays as computed; with `repeat_only` it has the steps' dtype.

    >>> import numpy as np
    >>> timestep_embedding(np.array([0.0, 500.0], dtype=np.float32), 4)[0]
    array([1., 1., 0., 0.], dtype=float32)
    """
    function = "timestep_embedding"
    steps: Any = as_array(timesteps)
    dim = count(function, "dim", dim)
    if steps.ndim != 1:
        raise ValueError(f"{function}: timesteps must be 1-D, got shape {tuple(steps.shape)}")
    if kind(steps) not in ("float", "integer"):
        raise TypeError(f"{function}: timesteps must be integers or floats, got {steps.dtype}")
    if not 0 < max_period < math.inf:
        raise ValueError(f"{function}: max_period must be positive and finite, got {max_period!r}")
    xp = namespace(steps)
    if repeat_only:
        embedding = xp.tile(steps[:, None], (1, dim))
    else:
        computed_in = xp.float64 if steps.dtype == xp.float64 else xp.float32
        half = dim // 2
        made = {"dtype": computed_in, "device": steps.device if is_torch(steps) else None}
        exponents = xp.arange(half, **made)
        # max: dim = 1 has no frequency to divide for.
        frequencies = xp.exp(-math.log(max_period) * exponents / max(half, 1))
        angles = xp.astype(steps, computed_in)[:, None] * frequencies[None, :]
        zeros = xp.zeros((steps.shape[0], dim - 2 * half), **made)
        embedding = xp.concat([xp.cos(angles), xp.sin(angles), zeros], axis=1)
    result: Array = embedding if dtype is None else xp.astype(embedding, dtype)
    return result


def mean_flat(tensor: Array) -> Array:
    """Return the mean of each sample: `[N, ...]` to `[N]`, over every axis but the first.

    A 1-D input holds one number for each sample already and comes back unchanged. The result is
    of the same library as x, with gradient in torch. Half types are summed in float32 and rounded once; for integers
    the result has the library's default float type.

    >>> import numpy as np
    >>> mean_flat(np.array([[1.0, 3.0], [5.0, 7.0]]))
    array([2., 6.])
    """
    array: Any = as_array(tensor)
    if array.ndim <= 1:
        return array  # type: ignore[no-any-return]
    xp = namespace(array)
    own = kind(array)
    if own not in ("float", "integer"):
        raise TypeError(f"mean_flat: takes floats or integers, got {array.dtype}")
    axes = tuple(range(1, array.ndim))
    if own == "integer":
        return xp.mean(xp.astype(array, xp.asarray(0.0).dtype), axis=axes)  # type: ignore[no-any-return]
    if array.dtype.itemsize < 4:
        return xp.astype(xp.mean(xp.astype(array, xp.float32), axis=axes), array.dtype)  # type: ignore[no-any-return]
    return xp.mean(array, axis=axes)  # type: ignore[no-any-return]
