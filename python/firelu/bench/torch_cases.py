"""The operators through torch, and what torch users write today: eager, compiled, and as convolutions.

Everything here runs in a process of its own (`worker`), one with fresh output memory, as people run it, and one in
which malloc reuses memory, so that page faults are not sold as arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from .. import functional
from .. import torch as ours
from .._firelu import multiply_adds_per_second
from .cases import TAPS
from .measure import Run, copies_of, fastest, fastest_copy, typical
from .torch_activations import activation_cases
from .torch_names import ARRAYS, BRIDGE, COMPILED, EAGER, TorchCase

Build = Callable[[], TorchCase]
FORMULA, COMPILED_FORMULA = "upfirdn2d_native", "upfirdn2d_native, torch.compile"
GROUPED, CHANNELS_LAST = "grouped conv", "channels_last conv"


def _random(*shape: int) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(0).standard_normal(shape, np.float32))


def leaky_relu(elements: int) -> TorchCase:
    """Give leaky ReLU."""
    x = _random(elements)
    array = x.numpy()
    formula = torch.nn.functional.leaky_relu
    compiled = torch.compile(formula)
    runs: dict[str, Run] = {
        BRIDGE: lambda: ours.leaky_relu(x, 0.2),
        ARRAYS: lambda: functional.leaky_relu(array, 0.2),
        EAGER: lambda: formula(x, 0.2),
        COMPILED: lambda: compiled(x, 0.2),
    }
    return TorchCase("leaky relu", 2 * array.nbytes, runs)


def _fused_formula(x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.leaky_relu(x + bias.view(1, -1, 1, 1), 0.2) * 2**0.5


def fused(*shape: int) -> TorchCase:
    """Give fused bias and leaky ReLU, forward."""
    x, bias = _random(*shape), _random(shape[1])
    arrays = x.numpy(), bias.numpy()
    compiled = torch.compile(_fused_formula)
    runs: dict[str, Run] = {
        BRIDGE: lambda: ours.fused_leaky_relu(x, bias),
        ARRAYS: lambda: functional.fused_leaky_relu(*arrays),
        EAGER: lambda: _fused_formula(x, bias),
        COMPILED: lambda: compiled(x, bias),
    }
    return TorchCase("fused forward", 2 * x.nbytes, runs)


def fused_with_backward(*shape: int) -> TorchCase:
    """Give fused bias and leaky ReLU, forward and the gradients of both inputs."""
    x, bias, gradient = _random(*shape).requires_grad_(), _random(shape[1]).requires_grad_(), _random(*shape)
    arrays = x.detach().numpy(), bias.detach().numpy(), gradient.numpy()

    def both(forward: Callable[..., torch.Tensor]) -> Run:
        return lambda: torch.autograd.grad(forward(x, bias), (x, bias), gradient)

    def on_arrays() -> Any:
        return functional.fused_leaky_relu_gradient(functional.fused_leaky_relu(*arrays[:2]), arrays[2])

    runs: dict[str, Run] = {
        BRIDGE: both(ours.fused_leaky_relu),
        ARRAYS: on_arrays,
        EAGER: both(_fused_formula),
        COMPILED: both(torch.compile(_fused_formula)),
    }
    # Forward reads x and writes y; backward reads y and the gradient and writes one more.
    return TorchCase("fused forward + backward", 5 * gradient.nbytes, runs)


def upfirdn2d(name: str, *shape: int, pad: tuple[int, int], up: int = 1, down: int = 1) -> TorchCase:
    """Give an upfirdn2d call: also in plain torch operations, and as one convolution with a group for each channel."""
    x = _random(*shape)
    array, kernel = x.numpy(), torch.from_numpy(np.outer(TAPS, TAPS) * np.float32(up * up))
    kernel_array = kernel.numpy()
    arguments = (up, up, down, down, *pad, *pad)
    compiled = torch.compile(ours.upfirdn2d_native)
    runs: dict[str, Run] = {
        BRIDGE: lambda: ours.upfirdn2d(x, kernel, up, down, pad),
        ARRAYS: lambda: functional.upfirdn2d(array, kernel_array, up, down, pad),
        FORMULA: lambda: ours.upfirdn2d_native(x, kernel, *arguments),
        COMPILED_FORMULA: lambda: compiled(x, kernel, *arguments),
        GROUPED: _convolution(x, kernel, up, down, pad),
        CHANNELS_LAST: _convolution(x.to(memory_format=torch.channels_last), kernel, up, down, pad),
    }
    result = ours.upfirdn2d(x, kernel, up, down, pad)
    return TorchCase(name, x.nbytes + result.nbytes, runs)


def _convolution(x: torch.Tensor, kernel: torch.Tensor, up: int, down: int, pad: tuple[int, int]) -> Run:
    channels = x.shape[1]
    convolve = torch.nn.functional
    if up > 1:
        weights = kernel.repeat(channels, 1, 1, 1)
        before, after = kernel.shape[-1] - 1 - pad[0], kernel.shape[-1] - up - pad[1]
        if before != after:
            raise ValueError("a transposed convolution crops both sides alike")
        return lambda: convolve.conv_transpose2d(x, weights, stride=up, padding=before, groups=channels)
    weights = kernel.flip(0, 1).repeat(channels, 1, 1, 1)
    if pad[0] == pad[1]:
        return lambda: convolve.conv2d(x, weights, stride=down, padding=pad[0], groups=channels)
    # A convolution pads both sides alike: the rest is a step of its own, as it is for everyone.
    return lambda: convolve.conv2d(convolve.pad(x, (*pad, *pad)), weights, stride=down, groups=channels)


def all_cases() -> dict[str, Build]:
    """Give every case by name, in the order of the table."""
    return {
        "leaky relu": lambda: leaky_relu(1 << 26),
        "fused forward": lambda: fused(1, 64, 1024, 1024),
        "fused forward + backward": lambda: fused_with_backward(1, 64, 1024, 1024),
        "blur 4x4": lambda: upfirdn2d("blur 4x4", 1, 64, 512, 512, pad=(2, 1)),
        "up 2": lambda: upfirdn2d("up 2", 1, 64, 256, 256, pad=(2, 1), up=2),
        "down 2": lambda: upfirdn2d("down 2", 1, 64, 512, 512, pad=(1, 1), down=2),
        **dict(activation_cases()),
    }


def usable(runs: dict[str, Run]) -> Iterator[tuple[str, Run | Exception]]:
    """Give each call, or the error of its first run: torch.compile needs a C++ compiler, for one."""
    for name, run in runs.items():
        try:
            run()
        except Exception as error:
            if name in (BRIDGE, ARRAYS):
                raise
            yield name, error
        else:
            yield name, run


def measure(case: TorchCase, rounds: int, compiled: bool = True) -> dict[str, Any]:
    """Time a case; gives seconds by name, and in a few words why a call was left out.

    Compiling takes longer than all the rest: without it, what is compiled is not even tried.
    """
    tried = dict(usable({name: run for name, run in case.runs.items() if compiled or "compile" not in name}))
    left_out = {
        name: f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
        for name, error in tried.items()
        if isinstance(error, Exception)
    }
    runs: dict[str, Run] = {name: run for name, run in tried.items() if not isinstance(run, Exception)}
    seconds = typical(runs | copies_of(case.traffic), rounds)
    return {
        "name": case.name,
        "copy_seconds": fastest_copy(seconds),
        "seconds": {name: seconds[name] for name in runs},
        "left_out": left_out,
        # The processor's own rate, of the same minute.
        "multiply_adds": case.multiply_adds,
        "multiply_adds_per_second": multiply_adds_per_second() if case.multiply_adds else None,
    }


def small_calls() -> dict[str, float]:
    """Time calls on a few elements through torch's dispatcher, without and with a gradient, in seconds."""
    picture, bias, kernel = torch.ones(1, 3, 8, 8), torch.zeros(3), torch.ones(4, 4) / 16
    calls: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
        "torch's own leaky_relu": lambda x: torch.nn.functional.leaky_relu(x, 0.2),
        "torch: leaky_relu": lambda x: ours.leaky_relu(x, 0.2),
        "torch: fused_leaky_relu": lambda x: ours.fused_leaky_relu(x, bias),
        "torch: upfirdn2d": lambda x: ours.upfirdn2d(x, kernel, pad=(2, 1)),
    }
    runs: dict[str, Run] = {}
    for name, call in calls.items():
        for label, x in (("", picture), (", recorded", picture.clone().requires_grad_())):
            runs[f"{name}{label}, 1x3x8x8"] = lambda call=call, x=x: call(x)  # type: ignore[misc]
    return fastest(runs, rounds=1000, target=0.001, budget=5.0)
