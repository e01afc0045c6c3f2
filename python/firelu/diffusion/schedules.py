"""Noise schedules: the variance beta that each step of the forward process adds, in numpy float64."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ._arrays import Array, count, is_torch, like, suggestion, to_float64

SCHEDULES = ("linear", "scaled_linear", "cosine", "squaredcos_cap_v2", "sqrt_linear", "sqrt")
"""The names that `make_beta_schedule` knows; "scaled_linear" is another name of "linear"."""

# Rounding may lift a flat alpha_bar by an ulp or two; a rise above this is a mistake.
_FLAT = 1e-9


def make_beta_schedule(
    schedule: str,
    n_timestep: int,
    linear_start: float = 1e-4,
    linear_end: float = 2e-2,
    cosine_s: float = 8e-3,
) -> NDArray[np.float64]:
    """Return the betas of a named schedule, float64 of shape `[n_timestep]`.

    beta_i, for i = 0 .. n-1, by name:

    - `"linear"`, alias `"scaled_linear"`: the **square** of a straight line from sqrt(start) to sqrt(end)
    - `"sqrt_linear"`: the straight line from start to end
    - `"sqrt"`: the square root of that straight line
    - `"cosine"`: 1 - a(i+1)/a(i), a(j) = cos^2(pi/2 (j/n + s)/(1 + s)), clipped to [0, 0.999]
    - `"squaredcos_cap_v2"`: the same with s = 0.008 whatever `cosine_s` is, capped at 0.999

    The names are those of the latent-diffusion code, where "linear" is linear in the square root.
    Other libraries call the straight line "linear": that is "sqrt_linear" here.

    Raises `ValueError` for another name, for `n_timestep < 1`, and for ends or an offset that give
    a beta outside [0, 1].

    >>> make_beta_schedule("sqrt_linear", 3, linear_start=0.1, linear_end=0.3)
    array([0.1, 0.2, 0.3])
    >>> make_beta_schedule("linear", 3, linear_start=0.01, linear_end=0.09)
    array([0.01, 0.04, 0.09])
    """
    steps = count("make_beta_schedule", "n_timestep", n_timestep)
    if schedule in ("linear", "scaled_linear", "sqrt_linear", "sqrt"):
        for name, end in (("linear_start", linear_start), ("linear_end", linear_end)):
            if not 0.0 <= end <= 1.0:
                raise ValueError(f"make_beta_schedule: {name} must be in [0, 1], got {end!r}")
    if schedule in ("linear", "scaled_linear"):
        return np.linspace(linear_start**0.5, linear_end**0.5, steps, dtype=np.float64) ** 2
    if schedule == "sqrt_linear":
        return np.linspace(linear_start, linear_end, steps, dtype=np.float64)
    if schedule == "sqrt":
        return np.linspace(linear_start, linear_end, steps, dtype=np.float64) ** 0.5
    if schedule == "cosine":
        if not 0.0 <= cosine_s < math.inf:
            raise ValueError(f"make_beta_schedule: cosine_s must be finite and at least 0, got {cosine_s!r}")
        times = np.arange(steps + 1, dtype=np.float64) / steps + cosine_s
        alpha_bars = np.cos(times / (1 + cosine_s) * np.pi / 2) ** 2
        betas: NDArray[np.float64] = np.clip(1 - alpha_bars[1:] / alpha_bars[:-1], 0.0, 0.999)
        return betas
    if schedule == "squaredcos_cap_v2":
        return betas_for_alpha_bar(steps, lambda t: math.cos((t + 0.008) / 1.008 * math.pi / 2) ** 2)
    hint = suggestion(schedule, SCHEDULES)
    raise ValueError(f"make_beta_schedule: unknown schedule {schedule!r}, known are {', '.join(SCHEDULES)}{hint}")


def betas_for_alpha_bar(
    num_diffusion_timesteps: int,
    alpha_bar: Callable[[float], float],
    max_beta: float = 0.999,
) -> NDArray[np.float64]:
    """Return the betas whose running product of `1 - beta` follows a function.

    The result is float64 of shape `[num_diffusion_timesteps]`.
    `alpha_bar` maps a time from 0 to 1 to the share of the signal's variance that is left:
    positive before time 1 and never rising, else `ValueError`.
    `max_beta` caps each beta; below 1 it keeps the last step from erasing everything.

    >>> betas_for_alpha_bar(2, lambda t: 1 - t)
    array([0.5  , 0.999])
    """
    function = "betas_for_alpha_bar"
    steps = count(function, "num_diffusion_timesteps", num_diffusion_timesteps)
    if not 0.0 < max_beta <= 1.0:
        raise ValueError(f"{function}: max_beta must be in (0, 1], got {max_beta!r}")
    values = [float(alpha_bar(i / steps)) for i in range(steps + 1)]
    betas = np.empty(steps, dtype=np.float64)
    for i, (now, after) in enumerate(pairwise(values)):
        # Written so that a NaN fails it too.
        if not (0.0 < now < math.inf and 0.0 <= after <= now * (1 + _FLAT)):
            raise ValueError(
                f"{function}: alpha_bar must be positive before time 1 and never rise, "
                f"got {now!r} at {i}/{steps} and {after!r} at {i + 1}/{steps}"
            )
        betas[i] = min(max(1 - after / now, 0.0), max_beta)
    return betas


def rescale_zero_terminal_snr(betas: Array) -> Array:
    """Return the schedule `betas`, shape `[T]`, changed so that its last step leaves no signal at all.

    With r_t = sqrt(prod(1 - beta)) the result has r'_t = (r_t - r_last) r_0 / (r_0 - r_last): the first
    step is as before, the last beta is 1 ("Common Diffusion Noise Schedules and Sample Steps are
    Flawed", arXiv:2305.08891, algorithm 1). A model must predict v or x0 to sample from such a
    schedule, since at its last step the noise says nothing about the image.

    Computed in float64. For numpy (or a list) the result is numpy float64; for a torch tensor it is a tensor of its
    dtype on its device. `ValueError` where a beta lies outside [0, 1], one before the last is 1, or
    the signal does not fall between the first and the last step.

    >>> rescale_zero_terminal_snr([0.19, 0.36, 0.5])[-1].item()
    1.0
    """
    function = "rescale_zero_terminal_snr"
    values = to_float64(function, "betas", betas)
    if ((values < 0) | (values > 1)).any() or (values[:-1] == 1).any():
        raise ValueError(f"{function}: betas must be in [0, 1], and below 1 before the last")
    roots = np.sqrt(np.cumprod(1 - values))
    if roots[0] == roots[-1]:
        raise ValueError(f"{function}: the signal must fall between the first and the last of the betas")
    alpha_bars = ((roots - roots[-1]) * (roots[0] / (roots[0] - roots[-1]))) ** 2
    rescaled = 1 - np.append(alpha_bars[:1], alpha_bars[1:] / alpha_bars[:-1])
    return like(rescaled, betas, betas.dtype if is_torch(betas) else np.float64)
