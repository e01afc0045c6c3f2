"""DDIM sampling: which steps to visit, and the coefficients at each of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ._arrays import (
    Array,
    Numbers,
    as_array,
    check_steps,
    count,
    is_torch,
    kind,
    like,
    require_torch,
    suggestion,
    to_float64,
)

if TYPE_CHECKING:
    import torch

DISCRETIZATIONS = ("uniform", "quad", "trailing")
"""The methods that `make_ddim_timesteps` knows."""


def make_ddim_timesteps(
    ddim_discr_method: str,
    num_ddim_timesteps: int,
    num_ddpm_timesteps: int,
    verbose: bool = True,
    *,
    legacy: bool = False,
) -> NDArray[np.int64]:
    """Return the training steps that a DDIM sampler visits, int64 of shape `[num_ddim_timesteps]`.

    For every `1 <= num_ddim_timesteps <= num_ddpm_timesteps` the steps rise strictly and lie in
    `0 .. num_ddpm_timesteps - 1`. `"uniform"` spaces them evenly; `"quad"` by the squares of an even
    spacing up to 80 % of the schedule, so densely near the image. Both start at 1 where there is room.
    `"trailing"` spaces them evenly back from the last step, which it always visits: a schedule from
    `rescale_zero_terminal_snr` needs that.

    The original formula does so only sometimes: with 1000 steps "uniform" returns 28 for 27, one of
    them outside the schedule, and "quad" repeats steps from 30 on. Where it returns that many
    valid steps the result here is the same. `legacy=True` returns what the original returns, flaws
    included, for every count it has an answer for; it has no "trailing".

    `verbose` prints the steps. `ValueError` where `num_ddim_timesteps` is out of range,
    `NotImplementedError` for an unknown method.

    >>> make_ddim_timesteps("uniform", 10, 100, verbose=False)
    array([ 1, 11, 21, 31, 41, 51, 61, 71, 81, 91])
    >>> make_ddim_timesteps("trailing", 10, 100, verbose=False)
    array([ 9, 19, 29, 39, 49, 59, 69, 79, 89, 99])
    """
    function = "make_ddim_timesteps"
    if ddim_discr_method not in DISCRETIZATIONS:
        raise NotImplementedError(
            f"{function}: there is no DDIM discretization method {ddim_discr_method!r}, "
            f"known are {', '.join(DISCRETIZATIONS)}{suggestion(ddim_discr_method, DISCRETIZATIONS)}"
        )
    total = count(function, "num_ddpm_timesteps", num_ddpm_timesteps)
    wanted = count(function, "num_ddim_timesteps", num_ddim_timesteps)
    # The original's "quad" has an answer beyond this, its "uniform" has none.
    if wanted > total and not (legacy and ddim_discr_method == "quad"):
        raise ValueError(f"{function}: num_ddim_timesteps must be at most num_ddpm_timesteps = {total}, got {wanted}")
    if ddim_discr_method == "quad":
        base = (np.linspace(0, np.sqrt(total * 0.8), wanted) ** 2).astype(np.int64) + 1
    elif ddim_discr_method == "trailing":
        base = np.round(np.arange(1, wanted + 1) * (total / wanted)).astype(np.int64) - 1
    elif legacy:
        base = np.arange(0, total, total // wanted, dtype=np.int64) + 1
    else:
        base = np.arange(wanted, dtype=np.int64) * total // wanted + 1
    steps = base if legacy else _strictly_rising(base, total)
    if verbose:
        print(f"Selected timesteps for ddim sampler: {steps}")
    return steps


def _strictly_rising(base: NDArray[np.int64], total: int) -> NDArray[np.int64]:
    """Return the nearest steps to `base` that rise strictly and leave room for the rest below `total`."""
    steps = np.empty_like(base)
    previous = -1
    for i, wanted in enumerate(base):
        previous = min(max(int(wanted), previous + 1), total - len(base) + i)
        steps[i] = previous
    return steps


def make_ddim_sampling_parameters(
    alphacums: Array,
    ddim_timesteps: Numbers,
    eta: float,
    verbose: bool = True,
    *,
    dtype: DTypeLike | torch.dtype | None = None,
) -> tuple[Array, Array, Array]:
    """Return `(sigmas, alphas, alphas_prev)` of a DDIM sampler, each of shape `[S]`.

    `alphacums`, shape `[T]`, is the running product of `1 - beta`; `ddim_timesteps`, shape `[S]`, are the
    steps to visit in rising order. `alphas` is alphacums at these steps and `alphas_prev` at the steps
    before them, beginning with `alphacums[0]`. `eta` scales the noise that is put back: 0 is
    the deterministic DDIM, 1 is DDPM; above 1 the noise may exceed what a step can take.

        sigma = eta sqrt((1 - alpha_prev) / (1 - alpha) (1 - alpha / alpha_prev))

    Computed in float64 and cast to `dtype` (float64 by default). For numpy input the result is numpy; for torch
    `alphacums` it is a tensor on their device. `verbose` prints all three.

    `StepRangeError` (a `ValueError` and an `IndexError`) names a step outside the schedule; `ValueError`
    for an alphacums outside [0, 1], a sequence in which the signal grows, or a negative `eta`.

    >>> sigmas, alphas, previous = make_ddim_sampling_parameters([0.9, 0.8, 0.5], [1, 2], 0.0, verbose=False)
    >>> previous
    array([0.9, 0.8])
    """
    function = "make_ddim_sampling_parameters"
    signal = to_float64(function, "alphacums", alphacums)
    if ((signal < 0) | (signal > 1)).any():
        raise ValueError(f"{function}: alphacums must be in [0, 1], got {signal.min()} to {signal.max()}")
    if not 0.0 <= eta < math.inf:
        raise ValueError(f"{function}: eta must be finite and at least 0, got {eta!r}")
    steps = np.asarray(ddim_timesteps.cpu() if is_torch(ddim_timesteps) else ddim_timesteps)
    if steps.ndim != 1 or steps.size == 0:
        raise ValueError(f"{function}: ddim_timesteps must be 1-D and not empty, got shape {steps.shape}")
    if kind(steps) != "integer":
        raise TypeError(f"{function}: ddim_timesteps must be integers, got {steps.dtype}")
    check_steps(function, "ddim_timesteps", steps, len(signal))
    alphas = signal[steps]
    alphas_prev = np.append(signal[:1], signal[steps[:-1]])
    growing = np.flatnonzero(alphas > alphas_prev)
    if growing.size:
        raise ValueError(
            f"{function}: ddim_timesteps must rise along falling alphacums, but the signal grows at "
            f"step {steps[growing[0]]}"
        )
    # alpha = 1 means alpha_prev = 1, and alpha_prev = 0 means alpha = 0: no step, so no noise.
    moving = (alphas < 1) & (alphas_prev > 0)
    share = np.divide(1 - alphas_prev, 1 - alphas, out=np.zeros_like(alphas), where=moving)
    kept = np.divide(alphas, alphas_prev, out=np.ones_like(alphas), where=moving)
    sigmas = eta * np.sqrt(share * (1 - kept))
    if verbose:
        print(f"Selected alphas for ddim sampler: a_t: {alphas}; a_(t-1): {alphas_prev}")
        print(f"Sigmas of the ddim sampler for eta = {eta}: {sigmas}")
    if dtype is None:
        dtype = require_torch(function).float64 if is_torch(alphacums) else np.float64
    return like(sigmas, alphacums, dtype), like(alphas, alphacums, dtype), like(alphas_prev, alphacums, dtype)


@overload
def extract_into_tensor(a: torch.Tensor, t: NDArray[Any] | torch.Tensor, x_shape: Sequence[int]) -> torch.Tensor: ...
@overload
def extract_into_tensor(a: NDArray[Any], t: Array, x_shape: Sequence[int]) -> Array: ...
def extract_into_tensor(a: Any, t: Any, x_shape: Sequence[int]) -> NDArray[Any] | torch.Tensor:
    """Return the coefficients `a` at the steps `t`, shaped `[B, 1, 1, ...]` to broadcast over a batch.

    `a` is `[T]` with `t` of shape `[B]`, or has a row for each sample: `[B, T]` with `t` of shape `[B, 1]`.
    `x_shape` is the batch's shape and starts with B (either may be 1). The result has `len(x_shape)`
    dimensions and `a`'s dtype.

    For numpy input the result is numpy; if either is a torch tensor the result is one, on its device, and a gradient
    flows to `a`. `StepRangeError` (a `ValueError` and an `IndexError`) names a step outside `0 .. T-1`; on a
    GPU that check would stall the queue, so there torch's own device assertion fails instead.

    >>> import numpy as np
    >>> extract_into_tensor(np.array([0.1, 0.2, 0.3]), np.array([2, 0]), (2, 3, 8, 8)).shape
    (2, 1, 1, 1)
    """
    function = "extract_into_tensor"
    a, t, x_shape = as_array(a), as_array(t), tuple(x_shape)
    on_host = True
    if is_torch(a) or is_torch(t):
        library = require_torch(function)
        a = a if is_torch(a) else library.tensor(a, device=t.device)
        t = t if is_torch(t) else library.tensor(t, device=a.device)
        on_host = t.device.type == "cpu" and not library.compiler.is_compiling()
    if kind(t) != "integer":
        raise TypeError(f"{function}: t must hold integers, got {t.dtype}")
    by_row = a.ndim == 2 and tuple(t.shape) == (a.shape[0], 1)
    if not by_row and (a.ndim, t.ndim) != (1, 1):
        raise ValueError(
            f"{function}: takes a of shape [T] with t of shape [B], or [B, T] with [B, 1], "
            f"got {tuple(a.shape)} and {tuple(t.shape)}"
        )
    batch = t.shape[0]
    if not x_shape or (x_shape[0] != batch and 1 not in (x_shape[0], batch)):
        raise ValueError(f"{function}: x_shape must start with the batch size {batch}, got {x_shape}")
    steps: Any = t.reshape(-1)
    if on_host:
        check_steps(function, "t", steps, a.shape[-1])
    if is_torch(steps):
        steps = steps.long()  # torch reads uint8 indices as a mask
    picked = a[range(batch), steps] if by_row else a[steps]
    result: NDArray[Any] | torch.Tensor = picked.reshape(batch, *[1] * (len(x_shape) - 1))
    return result


@overload
def noise_like(
    shape: int | Sequence[int],
    device: None = None,
    repeat: bool = False,
    *,
    rng: np.random.Generator | int | None = None,
    generator: None = None,
    dtype: DTypeLike | None = None,
) -> NDArray[Any]: ...
@overload
def noise_like(
    shape: int | Sequence[int],
    device: str | torch.device,
    repeat: bool = False,
    *,
    generator: torch.Generator | None = None,
    dtype: torch.dtype | None = None,
) -> torch.Tensor: ...
@overload
def noise_like(
    shape: int | Sequence[int],
    device: None = None,
    repeat: bool = False,
    *,
    generator: torch.Generator,
    dtype: torch.dtype | None = None,
) -> torch.Tensor: ...
def noise_like(
    shape: int | Sequence[int],
    device: str | torch.device | None = None,
    repeat: bool = False,
    *,
    rng: np.random.Generator | int | None = None,
    generator: torch.Generator | None = None,
    dtype: DTypeLike | torch.dtype | None = None,
) -> NDArray[Any] | torch.Tensor:
    """Draw standard normal noise of shape `shape`; with `repeat` every sample of the batch gets the same.

    `device=None` returns numpy: drawn from `rng` (a `numpy.random.Generator`, or a seed), else from a
    fresh generator; float64 without `dtype`. A `device`, or a torch `generator`, returns a torch tensor
    there: torch's default dtype without `dtype`, torch's global generator unless you pass one.
    Half-precision numpy noise is drawn in float32 and rounded once.

    >>> noise_like((4, 3, 8, 8), repeat=True, rng=0).shape
    (4, 3, 8, 8)
    >>> noise_like((4, 3, 8, 8), "cpu").shape          # torch
    torch.Size([4, 3, 8, 8])
    """
    function = "noise_like"
    sizes = (shape,) if hasattr(shape, "__index__") else shape
    shape = tuple(count(function, "shape", size, least=0) for size in sizes)
    if repeat and not shape:
        raise ValueError(f"{function}: repeat needs a batch dimension, got shape ()")
    drawn = (1, *shape[1:]) if repeat else shape
    if device is None and generator is None:
        noise = _numpy_noise(function, drawn, rng, dtype)
        return np.repeat(noise, shape[0], axis=0) if repeat else noise
    if rng is not None:
        raise ValueError(f"{function}: rng is for numpy noise; torch noise takes generator")
    place = generator.device if device is None and generator is not None else device
    tensor = require_torch(function).randn(drawn, device=place, generator=generator, dtype=dtype)
    result: torch.Tensor = tensor.repeat(shape[0], *[1] * (len(shape) - 1)) if repeat else tensor
    return result


def _numpy_noise(function: str, shape: tuple[int, ...], rng: Any, dtype: Any) -> NDArray[Any]:
    try:
        target = np.dtype(np.float64 if dtype is None else dtype)
    except TypeError:
        raise TypeError(
            f"{function}: dtype must be a numpy float without a device, got {dtype!r}; pass device for torch"
        ) from None
    noise = np.empty(0, target)
    if kind(noise) != "float":
        raise TypeError(f"{function}: dtype must be a float, got {target}")
    drawn_in = np.float32 if target.itemsize <= 4 else np.float64
    return np.random.default_rng(rng).standard_normal(shape, dtype=drawn_in).astype(target, copy=False)
