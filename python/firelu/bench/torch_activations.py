"""Activations and filtered activations through torch, beside the same formulas in torch's own operations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import torch

from .. import torch as ours
from ..kernels import kaiser
from ..torch.operators.bias_act import bias_act as bias_act_formula
from ..torch.operators.filtered_act import filtered_act as filtered_formula
from ..torch.operators.snake import snake as snake_formula
from .measure import Run
from .torch_names import BRIDGE, COMPILED, EAGER, FORWARD, TorchCase

ACTIVATIONS = ("linear", "relu", "lrelu", "tanh", "sigmoid", "elu", "selu", "softplus", "swish")


def _random(*shape: int) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(0).standard_normal(shape, np.float32))


def activation(act: str) -> TorchCase:
    """Give bias and activation, forward."""
    x, bias = _random(1, 64, 512, 512), _random(64)
    compiled = torch.compile(bias_act_formula)
    runs: dict[str, Run] = {
        BRIDGE: lambda: ours.bias_act(x, bias, act),
        EAGER: lambda: bias_act_formula(x, bias, act),
        COMPILED: lambda: compiled(x, bias, act),
    }
    return TorchCase(f"bias_act {act}", 2 * x.nbytes, runs)


def snake() -> TorchCase:
    """Give snake with a divisor of its own for each channel, forward."""
    x, alpha, beta = _random(1, 64, 262_144), _random(64) * 0.1, _random(64) * 0.1
    compiled = torch.compile(snake_formula)
    runs: dict[str, Run] = {
        BRIDGE: lambda: ours.snake(x, alpha, beta, logscale=True),
        EAGER: lambda: snake_formula(x, alpha, beta, True),
        COMPILED: lambda: compiled(x, alpha, beta, True),
    }
    return TorchCase("snake", 2 * x.nbytes, runs)


def _with_backward(run: Callable[[], torch.Tensor], leaves: tuple[torch.Tensor, ...]) -> Run:
    gradient = torch.ones_like(run())
    return lambda: torch.autograd.grad(run(), leaves, gradient)


def filtered_lrelu(*shape: int, up: int = 2, radial: bool = False, backward: bool = False) -> TorchCase:
    """Give a layer of StyleGAN3: up 2 or 4, leaky ReLU, down 2; six taps a phase, the second filter radial or not."""
    x, bias = _random(*shape).requires_grad_(backward), _random(shape[1]).requires_grad_(backward)
    fu, fd = (torch.from_numpy(kaiser(0.5 / factor, 0.6 / factor, 6 * factor)) for factor in (up, 2))
    if radial:
        # Not an outer product any more.
        place = torch.arange(12) - 5.5
        fd = torch.exp(-torch.hypot(place[:, None], place) / 2)
        fd = fd / fd.sum()
    up_kernel, down_kernel = (taps if taps.dim() == 2 else torch.outer(taps, taps) for taps in (fu, fd))
    pads = {2: (9, 8), 4: (19, 18)}[up]
    arguments: dict[str, Any] = {"act": "lrelu", "up_x": up, "up_y": up, "down_x": 2, "down_y": 2, "clamp": 256.0}
    arguments |= dict(zip(("pad_x0", "pad_x1", "pad_y0", "pad_y1"), pads * 2, strict=True), up_gain=float(up**2))

    def fused() -> torch.Tensor:
        return ours.filtered_lrelu(x, fu, fd, bias, up=up, down=2, padding=[*pads, *pads], clamp=256.0)

    def formula() -> torch.Tensor:
        return filtered_formula(x, up_kernel, down_kernel, bias, **arguments)

    name = _name(shape, up, radial)
    runs: dict[str, Run] = {BRIDGE: fused, EAGER: formula}
    if backward:
        runs = {which: _with_backward(run, (x, bias)) for which, run in ((BRIDGE, fused), (EAGER, formula))}
        return TorchCase(f"{name}, forward + backward", 5 * x.nbytes, runs | {FORWARD: fused})
    # Along x and y, to the upsampled grid and from there: six taps a sample, then twelve or all.
    kept = (up // 2) ** 2
    per_pixel = 6 * up + 6 * up**2 + (144 * kept if radial else 12 * up * (up // 2) + 12 * kept)
    return TorchCase(name, x.nbytes + fused().nbytes, runs, per_pixel * x.numel())


def _name(shape: tuple[int, ...], up: int, radial: bool) -> str:
    about = f"{' up 4' if up == 4 else ''}{' radial' if radial else ''}"
    return f"filtered_lrelu{about} {'x'.join(map(str, shape))}"


def filtered_snake(*shape: int, backward: bool = False) -> TorchCase:
    """Give a vocoder's activation: up 2, snake, down 2, twelve taps each, along the last axis."""
    x = _random(*shape).requires_grad_(backward)
    alpha, beta = (torch.zeros(shape[1]).requires_grad_(backward) for _ in range(2))
    taps = torch.from_numpy(kaiser(0.25, 0.3, 12)).reshape(1, 1, -1)

    def fused() -> torch.Tensor:
        return ours.filtered_snake(x, alpha, beta, logscale=True)

    def formula() -> torch.Tensor:
        pad, convolve, weight = torch.nn.functional.pad, torch.nn.functional, taps.expand(shape[1], -1, -1)
        up = 2 * convolve.conv_transpose1d(pad(x, (5, 5), mode="replicate"), weight, stride=2, groups=shape[1])
        activated = snake_formula(up[..., 15:-15], alpha, beta, True)
        return convolve.conv1d(pad(activated, (5, 6), mode="replicate"), weight, stride=2, groups=shape[1])

    name = f"filtered_snake {'x'.join(map(str, shape))}"
    runs: dict[str, Run] = {BRIDGE: fused, EAGER: formula}
    if backward:
        leaves = (x, alpha, beta)
        runs = {which: _with_backward(run, leaves) for which, run in ((BRIDGE, fused), (EAGER, formula))}
        return TorchCase(f"{name}, forward + backward", 5 * x.nbytes, runs | {FORWARD: fused})
    # Twelve taps up, twelve down, and two sines, which are not counted.
    return TorchCase(name, 2 * x.nbytes, runs, 24 * x.numel())


def activation_cases() -> Iterator[tuple[str, Callable[[], TorchCase]]]:
    """Give every case with its name."""
    for act in ACTIVATIONS:
        yield f"bias_act {act}", partial(activation, act)
    yield "snake", snake
    layers = [((1, 64, 276, 276), 2, False), ((1, 256, 84, 84), 2, False), ((1, 256, 36, 36), 2, False)]
    layers += [((1, 256, 84, 84), 2, True), ((1, 256, 52, 52), 4, False)]
    for shape, up, radial in layers:
        name, build = _name(shape, up, radial), partial(filtered_lrelu, *shape, up=up, radial=radial)
        yield name, build
        yield f"{name}, forward + backward", partial(build, backward=True)
    for line in ((1, 512, 8192), (1, 24, 65536)):
        name = f"filtered_snake {'x'.join(map(str, line))}"
        yield name, partial(filtered_snake, *line)
        yield f"{name}, forward + backward", partial(filtered_snake, *line, backward=True)
