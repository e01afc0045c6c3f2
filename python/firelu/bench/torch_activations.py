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
from .torch_names import BRIDGE, COMPILED, EAGER, TorchCase

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


def filtered_lrelu(*shape: int, backward: bool = False) -> TorchCase:
    """Give a layer of StyleGAN3: up 2, leaky ReLU, down 2, twelve taps each."""
    x, bias = _random(*shape).requires_grad_(backward), _random(shape[1]).requires_grad_(backward)
    taps = torch.from_numpy(kaiser(0.25, 0.3, 12))
    kernel = torch.outer(taps, taps)
    arguments: dict[str, Any] = {"act": "lrelu", "up_x": 2, "up_y": 2, "down_x": 2, "down_y": 2, "clamp": 256.0}
    arguments |= {"pad_x0": 9, "pad_x1": 8, "pad_y0": 9, "pad_y1": 8, "up_gain": 4.0}

    def fused() -> torch.Tensor:
        return ours.filtered_lrelu(x, taps, taps, bias, up=2, down=2, padding=[9, 8, 9, 8], clamp=256.0)

    def formula() -> torch.Tensor:
        return filtered_formula(x, kernel, kernel, bias, **arguments)

    name = f"filtered_lrelu {'x'.join(map(str, shape))}"
    runs: dict[str, Run] = {BRIDGE: fused, EAGER: formula}
    if backward:
        runs = {which: _with_backward(run, (x, bias)) for which, run in ((BRIDGE, fused), (EAGER, formula))}
        return TorchCase(f"{name}, forward + backward", 5 * x.nbytes, runs)
    return TorchCase(name, x.nbytes + fused().nbytes, runs)


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
        return TorchCase(f"{name}, forward + backward", 5 * x.nbytes, runs)
    return TorchCase(name, 2 * x.nbytes, runs)


def activation_cases() -> Iterator[tuple[str, Callable[[], TorchCase]]]:
    """Give every case with its name."""
    for act in ACTIVATIONS:
        yield f"bias_act {act}", partial(activation, act)
    yield "snake", snake
    for shape in ((1, 64, 276, 276), (1, 256, 84, 84), (1, 256, 36, 36)):
        name = f"filtered_lrelu {'x'.join(map(str, shape))}"
        yield name, partial(filtered_lrelu, *shape)
        yield f"{name}, forward + backward", partial(filtered_lrelu, *shape, backward=True)
    for line in ((1, 512, 8192), (1, 24, 65536)):
        name = f"filtered_snake {'x'.join(map(str, line))}"
        yield name, partial(filtered_snake, *line)
        yield f"{name}, forward + backward", partial(filtered_snake, *line, backward=True)
