"""A DDIM sampler: from noise to data, for any model of numpy arrays or torch tensors."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ._arrays import Array, Numbers, as_array, is_torch, require_torch, to_float64
from .sampling import make_ddim_sampling_parameters, make_ddim_timesteps, noise_like

if TYPE_CHECKING:
    import torch

PREDICTIONS = ("noise", "v", "x0")
"""What a model may predict for `ddim_sample`."""


def ddim_sample(
    model: Callable[[Array, Array], Array],
    x: Array,
    alphacums: Numbers,
    ddim_timesteps: int | Numbers,
    eta: float = 0.0,
    *,
    prediction: str = "noise",
    rng: np.random.Generator | int | None = None,
    generator: torch.Generator | None = None,
) -> Array:
    """Take `x` from noise to data along the steps of a DDIM sampler, from the last to the first.

    `model(x, t)` is called once for each step, with `t` of shape `[B]`, int64, of x's library and device. It returns
    what `prediction` says: the `"noise"` in `x`, `"v"` = sqrt(alpha) noise - sqrt(1 - alpha) data, or `"x0"`, the data.

    `x`, shape `[B, ...]`, is standard normal noise, numpy or torch; the result is of its kind, dtype and device.
    `alphacums`, shape `[T]`, is the running product of `1 - beta`; `ddim_timesteps` come from
    `make_ddim_timesteps`, or are a number of steps, which then are `"trailing"`.

    `eta` is the share of the noise that is put back: 0 is the deterministic DDIM, 1 is DDPM; that noise comes from
    `rng` (numpy) or `generator` (torch). With torch, call it under `torch.no_grad()`.

    A schedule from `rescale_zero_terminal_snr` has no signal left at its last step: visit that step with `"trailing"`
    steps, and predict `"v"` or `"x0"`, since there the noise says nothing about the data.

    Examples:
        >>> import numpy as np
        >>> alphacums = np.cumprod(1 - np.linspace(1e-4, 2e-2, 1000))
        >>> x = np.random.default_rng(0).standard_normal((2, 3))
        >>> ddim_sample(lambda x, t: np.ones_like(x), x, alphacums, 20, prediction="x0").round(1)
        array([[1., 1., 1.],
               [1., 1., 1.]])
    """
    function = "ddim_sample"
    if prediction not in PREDICTIONS:
        raise ValueError(f"{function}: prediction must be one of {', '.join(PREDICTIONS)}, got {prediction!r}")
    x = as_array(x)
    if x.ndim == 0:
        raise ValueError(f"{function}: x must have a batch dimension, got a number")
    products = to_float64(function, "alphacums", alphacums)
    steps = np.asarray(ddim_timesteps.cpu() if is_torch(ddim_timesteps) else ddim_timesteps)
    if steps.ndim == 0 and steps.dtype.kind in "iu":
        steps = make_ddim_timesteps("trailing", int(steps), len(products), verbose=False)
    coefficients = make_ddim_sampling_parameters(products, steps, eta, False)
    sigmas, alphas, alphas_prev = (part.tolist() for part in coefficients)  # plain floats leave x's dtype as it is
    if prediction == "noise" and min(alphas) == 0:
        raise ValueError(f"{function}: no signal is left at step {steps[-1]}: the model must predict 'v' or 'x0' there")
    if any(1 - prev < sigma**2 * (1 - 1e-9) for prev, sigma in zip(alphas_prev, sigmas, strict=True)):
        raise ValueError(f"{function}: eta = {eta} puts more noise back than a step can take")
    if not is_torch(x):
        rng = np.random.default_rng(rng)  # of a seed one generator, or each step would draw the same
    for i in reversed(range(len(steps))):
        answer = model(x, _batch_of(int(steps[i]), x))
        if tuple(answer.shape) != tuple(x.shape):
            raise ValueError(f"{function}: the model gave shape {tuple(answer.shape)}, x has {tuple(x.shape)}")
        data, noise = _split(x, answer, alphas[i], prediction)
        kept = math.sqrt(max(0.0, 1 - alphas_prev[i] - sigmas[i] ** 2))
        x = math.sqrt(alphas_prev[i]) * data + kept * noise
        if sigmas[i] > 0:
            x = x + sigmas[i] * _noise(x, rng, generator)
    return x


def _split(x: Any, answer: Any, alpha: float, prediction: str) -> tuple[Any, Any]:
    """Give the data and the noise that a model's answer says `x` consists of."""
    signal, rest = math.sqrt(alpha), math.sqrt(1 - alpha)
    if prediction == "noise":
        return (x - rest * answer) / signal, answer
    if prediction == "v":
        return signal * x - rest * answer, rest * x + signal * answer
    return answer, (x - signal * answer) / rest if rest else 0 * x


def _batch_of(step: int, x: Any) -> Any:
    if is_torch(x):
        torch = require_torch("ddim_sample")
        return torch.full((x.shape[0],), step, dtype=torch.int64, device=x.device)
    return np.full(x.shape[0], step, np.int64)


def _noise(x: Any, rng: Any, generator: Any) -> Any:
    if is_torch(x):
        return noise_like(x.shape, x.device, generator=generator, dtype=x.dtype)
    return noise_like(x.shape, rng=rng, dtype=x.dtype)
