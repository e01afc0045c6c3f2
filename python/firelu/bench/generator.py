"""``python -m firelu.bench.generator``: a StyleGAN2 generator on the CPU, with plain torch formulas and with firelu.

The network is that of the paper (mapping, modulated and demodulated convolutions, noise, skip connections to RGB),
written for this measurement. Only the two operators differ between the runs; the convolutions are torch's in both.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from .. import torch as ours
from ..torch.functional import make_kernel

Activation = Callable[[Tensor, Tensor], Tensor]
Filter = Callable[[Tensor, Tensor, int, int, tuple[int, int]], Tensor]
#: The fused activation and the FIR filter.
Operators = tuple[Activation, Filter]
STYLE = 512


def plain_activation(x: Tensor, bias: Tensor) -> Tensor:
    """Do what the projects do on a CPU, where they do anything."""
    return functional.leaky_relu(x + bias.view(1, -1, *[1] * (x.dim() - 2)), 0.2) * 2**0.5


def plain_filter(x: Tensor, kernel: Tensor, up: int, down: int, pad: tuple[int, int]) -> Tensor:
    """Insert zeros, pad and convolve, one step after the other."""
    return ours.upfirdn2d_native(x, kernel, up, up, down, down, *pad, *pad)


PLAIN: Operators = (plain_activation, plain_filter)
FIRELU: Operators = (ours.fused_leaky_relu, ours.upfirdn2d)


class StyledConvolution(nn.Module):
    """A convolution whose weights a style scales, then noise, bias and activation; with ``up``, twice as large."""

    kernel: Tensor

    def __init__(self, operators: Operators, inputs: int, outputs: int, up: bool) -> None:
        super().__init__()
        self.activate, self.filter = operators
        self.up = up
        self.style = nn.Linear(STYLE, inputs)
        self.weight = nn.Parameter(torch.randn(outputs, inputs, 3, 3) / math.sqrt(inputs * 9))
        self.bias = nn.Parameter(torch.zeros(outputs))
        self.register_buffer("kernel", make_kernel([1, 3, 3, 1], gain=4.0))

    def forward(self, x: Tensor, style: Tensor) -> Tensor:
        """Take (N, inputs, H, W) and (N, STYLE)."""
        batch, inputs, height, width = x.shape
        outputs = self.weight.shape[0]
        weight = self.weight * (self.style(style) + 1).view(batch, 1, inputs, 1, 1)
        weight = weight * torch.rsqrt(weight.square().sum((2, 3, 4), keepdim=True) + 1e-8)
        x = x.view(1, batch * inputs, height, width)
        if self.up:
            weight = weight.transpose(1, 2).reshape(batch * inputs, outputs, 3, 3)
            x = functional.conv_transpose2d(x, weight, stride=2, groups=batch)
        else:
            x = functional.conv2d(x, weight.view(batch * outputs, inputs, 3, 3), padding=1, groups=batch)
        x = x.view(batch, outputs, *x.shape[2:])
        if self.up:
            x = self.filter(x, self.kernel, 1, 1, (1, 1))
        x = x + 0.1 * torch.randn(batch, 1, *x.shape[2:])
        return self.activate(x, self.bias)


class Generator(nn.Module):
    """From noise to images.

    Args:
        operators: the two operators in question.
        size: the images' edge, a power of two.
        multiplier: 2 for the paper's widths, 1 for half of them from 64 pixels on.
        narrow: a factor of all widths.
    """

    kernel: Tensor
    # A ModuleList does not say what is in it.
    mapping: Any
    pairs: Any
    to_rgb: Any

    def __init__(self, operators: Operators, size: int, multiplier: int = 2, narrow: float = 1.0) -> None:
        super().__init__()
        self.activate, self.filter = operators
        widths = {edge: int(min(512, 512 * 32 * multiplier // edge) * narrow) for edge in (4 << i for i in range(9))}
        self.mapping = nn.ModuleList(nn.Linear(STYLE, STYLE) for _ in range(8))
        self.start = nn.Parameter(torch.randn(1, widths[4], 4, 4))
        self.first = StyledConvolution(operators, widths[4], widths[4], up=False)
        self.pairs, self.to_rgb = nn.ModuleList(), nn.ModuleList([nn.Conv2d(widths[4], 3, 1)])
        edge = 8
        while edge <= size:
            before, width = widths[edge // 2], widths[edge]
            convolutions = [StyledConvolution(operators, before, width, True)]
            convolutions.append(StyledConvolution(operators, width, width, False))
            self.pairs.append(nn.ModuleList(convolutions))
            self.to_rgb.append(nn.Conv2d(width, 3, 1))
            edge *= 2
        self.register_buffer("kernel", make_kernel([1, 3, 3, 1], gain=4.0))

    def forward(self, noise: Tensor) -> Tensor:
        """Take (N, STYLE), give (N, 3, size, size)."""
        style = noise * torch.rsqrt(noise.square().mean(1, keepdim=True) + 1e-8)
        for layer in self.mapping:
            style = self.activate(functional.linear(style, layer.weight), layer.bias)
        x = self.first(self.start.expand(len(noise), -1, -1, -1), style)
        picture: Tensor = self.to_rgb[0](x)
        for (enlarge, convolve), to_rgb in zip(self.pairs, self.to_rgb[1:], strict=True):
            x = convolve(enlarge(x, style), style)
            picture = to_rgb(x) + self.filter(picture, self.kernel, 2, 1, (2, 1))
        return picture


class Stopwatch:
    """Wraps the operators to add up the time that they take."""

    def __init__(self, operators: Operators) -> None:
        self.seconds = 0.0
        activate, filtered = operators
        self.operators: Operators = (self._timed(activate), self._timed(filtered))

    def _timed(self, call: Callable[..., Tensor]) -> Callable[..., Tensor]:
        def timed(*arguments: Any) -> Tensor:
            start = time.perf_counter()
            result = call(*arguments)
            self.seconds += time.perf_counter() - start
            return result

        return timed


def main(argv: Sequence[str] | None = None) -> int:
    """Time both and print the ratios; returns the exit status."""
    options = argparse.ArgumentParser(prog="python -m firelu.bench.generator", description=__doc__)
    options.add_argument("--size", type=int, default=256, help="the images' edge, a power of two (256)")
    options.add_argument("--multiplier", type=int, default=2, help="2 for the paper's widths, 1 for half (2)")
    options.add_argument("--narrow", type=float, default=1.0, help="a factor of all widths (1)")
    options.add_argument("--rounds", type=int, default=5, help="how often each is run; the fastest counts (5)")
    given = options.parse_args(argv)
    noise = torch.randn(1, STYLE)
    runs: dict[str, tuple[Generator, Stopwatch]] = {}
    for name, operators in (("plain torch", PLAIN), ("firelu", FIRELU)):
        torch.manual_seed(0)
        watch = Stopwatch(operators)
        runs[name] = Generator(watch.operators, given.size, given.multiplier, given.narrow), watch
    pictures: dict[str, Tensor] = {}
    whole, part = dict.fromkeys(runs, math.inf), dict.fromkeys(runs, math.inf)
    with torch.inference_mode():
        for _ in range(given.rounds + 1):  # The first also warms memory and threads.
            for name, (model, watch) in runs.items():
                torch.manual_seed(1)
                watch.seconds, start = 0.0, time.perf_counter()
                pictures[name] = model(noise)
                whole[name] = min(whole[name], time.perf_counter() - start)
                part[name] = min(part[name], watch.seconds)
    # Convolutions over thousands of terms: what differs is the order of sums in float32.
    torch.testing.assert_close(pictures["firelu"], pictures["plain torch"], rtol=1e-3, atol=1e-3)
    print(f"one image of {given.size}x{given.size}   whole network   the two operators")
    for name in runs:
        print(f"{name:<24} {whole[name] * 1e3:10.1f} ms {part[name] * 1e3:16.1f} ms")
    ratios = (times["plain torch"] / times["firelu"] for times in (whole, part))
    print("times faster             {:10.2f} {:19.2f}".format(*ratios))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
