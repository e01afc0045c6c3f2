"""Networks as projects write them, in plain torch: what `firelu.bench.dropin` times with and without the drop-in.

The file is loaded under a name of its own, since nothing of firelu's is ever replaced. Names and parameters are the
projects'; formulas and networks were written for this measurement.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

_plugin = None


def fused_leaky_relu(input: Tensor, bias: Tensor, negative_slope: float = 0.2, scale: float = 2**0.5) -> Tensor:
    """Bias, activation and scale, one after the other."""
    shape = (1, -1, *[1] * (input.dim() - 2))
    return functional.leaky_relu(input + bias.view(shape), negative_slope) * scale


def upfirdn2d_native(
    input: Tensor,
    kernel: Tensor,
    up_x: int,
    up_y: int,
    down_x: int,
    down_y: int,
    pad_x0: int,
    pad_x1: int,
    pad_y0: int,
    pad_y1: int,
) -> Tensor:
    """Zeros, padding, convolution, every down-th sample, one after the other."""
    batch, channels, height, width = input.shape
    x = functional.pad(input.reshape(-1, height, 1, width, 1), (0, up_x - 1, 0, 0, 0, up_y - 1))
    x = functional.pad(x.reshape(-1, 1, height * up_y, width * up_x), (pad_x0, pad_x1, pad_y0, pad_y1))
    x = functional.conv2d(x, kernel.flip((0, 1))[None, None])[:, :, ::down_y, ::down_x]
    return x.reshape(batch, channels, *x.shape[2:])


def filtered_lrelu(
    x: Tensor,
    fu: Tensor | None = None,
    fd: Tensor | None = None,
    b: Tensor | None = None,
    up: int = 1,
    down: int = 1,
    padding: Any = 0,
    gain: float = 2**0.5,
    slope: float = 0.2,
    clamp: float | None = None,
    flip_filter: bool = False,
    impl: str = "cuda",
) -> Tensor:
    """Go to the formula on the CPU."""
    return _filtered_lrelu_ref(x, fu, fd, b, up, down, padding, gain, slope, clamp, flip_filter)


def _filtered_lrelu_ref(
    x: Tensor,
    fu: Tensor | None = None,
    fd: Tensor | None = None,
    b: Tensor | None = None,
    up: int = 1,
    down: int = 1,
    padding: Any = 0,
    gain: float = 2**0.5,
    slope: float = 0.2,
    clamp: float | None = None,
    flip_filter: bool = False,
) -> Tensor:
    """Upsample, activate, downsample, each with one-dimensional filters along both axes."""
    x = x if b is None else x + b.view(1, -1, 1, 1)
    batch, channels, height, width = x.shape
    x = functional.pad(x.reshape(-1, height, 1, width, 1), (0, up - 1, 0, 0, 0, up - 1))
    x = functional.pad(x.reshape(batch, channels, height * up, width * up), padding)
    x = _filtered(x, fu, up**2)
    x = functional.leaky_relu(x, slope) * gain
    x = x if clamp is None else x.clamp(-clamp, clamp)
    return _filtered(x, fd, 1)[:, :, ::down, ::down]


def _filtered(x: Tensor, f: Tensor | None, gain: float) -> Tensor:
    if f is None:
        return x * gain
    channels = x.shape[1]
    taps = (f.flip(0) * math.sqrt(gain)).expand(channels, 1, -1)
    x = functional.conv2d(x, taps[:, :, None, :], groups=channels)
    return functional.conv2d(x, taps[:, :, :, None], groups=channels)


def low_pass(ratio: int, size: int) -> Tensor:
    """Give the taps of a sinc under a Kaiser window."""
    place = torch.arange(size) - (size - 1) / 2
    taps = torch.sinc(place / ratio) * torch.kaiser_window(size, periodic=False, beta=4.664)
    return taps / taps.sum()


class FilteredLayer(nn.Module):
    """A modulated convolution and a filtered activation, as in StyleGAN3."""

    fu: Tensor
    fd: Tensor

    def __init__(self, inputs: int, outputs: int, size: int, result: int) -> None:
        super().__init__()
        self.style = nn.Linear(512, inputs)
        self.weight = nn.Parameter(torch.randn(outputs, inputs, 3, 3) / math.sqrt(inputs * 9))
        self.bias = nn.Parameter(torch.zeros(outputs))
        self.up = 4 if result > 1.3 * size else 2
        self.register_buffer("fu", low_pass(self.up, 6 * self.up))
        self.register_buffer("fd", low_pass(2, 12))
        # The convolution pads one sample less than it takes: two are gained, and the filters take them back.
        total = (result - 1) * 2 + 1 + 11 + 6 * self.up - 1 - size * self.up
        self.pads = [(total + self.up) // 2, total - (total + self.up) // 2] * 2

    def forward(self, x: Tensor, style: Tensor) -> Tensor:
        """Take (1, inputs, size, size)."""
        weight = self.weight * (self.style(style) + 1).view(1, -1, 1, 1)
        weight = weight * torch.rsqrt(weight.square().sum((1, 2, 3), keepdim=True) + 1e-8)
        x = functional.conv2d(x, weight, padding=1)
        return filtered_lrelu(x, self.fu, self.fd, self.bias, self.up, 2, self.pads, clamp=256.0)


class StyleGAN3(nn.Module):
    """Layers of the sizes and widths that a picture of 256x256 takes, all but the last with filters."""

    layers: Any

    def __init__(self, narrow: float = 1.0) -> None:
        super().__init__()
        sizes = [36, 36, 36, 52, 52, 84, 84, 148, 148, 276, 276, 276, 276, 276]
        widths = [int({36: 512, 52: 512, 84: 256, 148: 128, 276: 64}[size] * narrow) for size in sizes]
        self.start = nn.Parameter(torch.randn(1, widths[0], 36, 36))
        pairs = zip(itertools.pairwise(widths), itertools.pairwise(sizes), strict=True)
        self.layers = nn.ModuleList(FilteredLayer(*width, *size) for width, size in pairs)
        self.to_rgb = nn.Conv2d(widths[-1], 3, 1)

    def forward(self, style: Tensor) -> Tensor:
        """Take (1, 512), give (1, 3, 256, 256)."""
        x = self.start
        for layer in self.layers:
            x = layer(x, style)
        picture: Tensor = self.to_rgb(x)
        return picture[:, :, 10:-10, 10:-10]


class UpSample1d(nn.Module):
    """Twice as many samples."""

    filter: Tensor

    def __init__(self, ratio: int = 2, kernel_size: int = 12) -> None:
        super().__init__()
        self.ratio = self.stride = ratio
        self.pad = kernel_size // ratio - 1
        self.pad_left = self.pad * ratio + (kernel_size - ratio) // 2
        self.pad_right = self.pad * ratio + (kernel_size - ratio + 1) // 2
        self.register_buffer("filter", low_pass(ratio, kernel_size).view(1, 1, -1))

    def forward(self, x: Tensor) -> Tensor:
        """Take (B, C, T)."""
        x = functional.pad(x, (self.pad, self.pad), mode="replicate")
        weight = self.filter.expand(x.shape[1], -1, -1)
        x = self.ratio * functional.conv_transpose1d(x, weight, stride=self.stride, groups=x.shape[1])
        return x[..., self.pad_left : -self.pad_right]


class DownSample1d(nn.Module):
    """Half as many samples."""

    filter: Tensor

    def __init__(self, ratio: int = 2, kernel_size: int = 12) -> None:
        super().__init__()
        self.stride, self.pad_left, self.pad_right = ratio, kernel_size // 2 - 1, kernel_size // 2
        self.register_buffer("filter", low_pass(ratio, kernel_size).view(1, 1, -1))

    def forward(self, x: Tensor) -> Tensor:
        """Take (B, C, T)."""
        x = functional.pad(x, (self.pad_left, self.pad_right), mode="replicate")
        return functional.conv1d(x, self.filter.expand(x.shape[1], -1, -1), stride=self.stride, groups=x.shape[1])


class SnakeBeta(nn.Module):
    """x + sin²(ax) / b, where the logarithms of a and b learn."""

    def __init__(self, in_features: int) -> None:
        super().__init__()
        self.alpha_logscale = True
        self.alpha, self.beta = nn.Parameter(torch.zeros(in_features)), nn.Parameter(torch.zeros(in_features))

    def forward(self, x: Tensor) -> Tensor:
        """Take (B, C, T)."""
        alpha, beta = self.alpha.exp()[None, :, None], self.beta.exp()[None, :, None]
        return x + torch.sin(x * alpha).square() / (beta + 1e-9)


class Activation1d(nn.Module):
    """A snake between two resamplings."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.act, self.upsample, self.downsample = SnakeBeta(channels), UpSample1d(), DownSample1d()

    def forward(self, x: Tensor) -> Tensor:
        """Take (B, C, T)."""
        x = self.upsample(x)
        x = self.act(x)
        x = self.downsample(x)
        return x


class Block(nn.Module):
    """Three pairs of convolutions, an activation before each."""

    pairs: Any

    def __init__(self, channels: int, size: int) -> None:
        super().__init__()
        self.pairs = nn.ModuleList()
        for dilation in (1, 3, 5):
            first = nn.Conv1d(channels, channels, size, dilation=dilation, padding=dilation * (size // 2))
            second = nn.Conv1d(channels, channels, size, padding=size // 2)
            self.pairs.append(nn.ModuleList([Activation1d(channels), first, Activation1d(channels), second]))

    def forward(self, x: Tensor) -> Tensor:
        """Take (B, C, T)."""
        for before, first, between, second in self.pairs:
            x = x + second(between(first(before(x))))
        return x


class Vocoder(nn.Module):
    """From a mel spectrogram of 100 bands to sound, 256 samples a frame, in BigVGAN's base shape.

    512 channels are halved by each of four enlargements, by 8, 8, 2 and 2; blocks of 3, 7 and 11 taps follow each.
    """

    stages: Any

    def __init__(self, narrow: float = 1.0) -> None:
        super().__init__()
        width = max(16, int(512 * narrow))  # it is halved four times
        self.first = nn.Conv1d(100, width, 7, padding=3)
        self.stages = nn.ModuleList()
        for rate in (8, 8, 2, 2):
            enlarge = nn.ConvTranspose1d(width, width // 2, 2 * rate, rate, padding=rate // 2)
            width //= 2
            self.stages.append(nn.ModuleList([enlarge, *(Block(width, size) for size in (3, 7, 11))]))
        self.activation, self.last = Activation1d(width), nn.Conv1d(width, 1, 7, padding=3)

    def forward(self, mel: Tensor) -> Tensor:
        """Take (B, 100, frames)."""
        x = self.first(mel)
        for enlarge, first, *others in self.stages:
            x = enlarge(x)
            total = first(x)
            for block in others:
                total = total + block(x)
            x = total / (1 + len(others))
        return torch.tanh(self.last(self.activation(x)))
