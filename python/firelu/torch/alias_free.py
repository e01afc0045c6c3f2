"""Modules of alias-free models, with the names of parameters and buffers that published checkpoints have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from ..errors import ArgumentError
from ..kernels import kaiser
from .filtered import filtered_lrelu, filtered_snake
from .functional import snake, upfirdn1d

if TYPE_CHECKING:
    from collections.abc import Sequence


def _low_pass(cutoff: float, half_width: float, taps: int) -> Tensor:
    return torch.from_numpy(kaiser(cutoff, half_width, taps)).reshape(1, 1, -1)


class Snake(nn.Module):
    """Snake with a frequency to learn for each channel: ``x + sin²(alpha x) / (alpha + 1e-9)``.

    Args:
        in_features: how many channels the input has, on axis 1.
        alpha: what frequencies start with.
        alpha_trainable: whether they are learned.
        alpha_logscale: whether exp(alpha) is the frequency; alpha then starts at zero.

    Shapes: (B, C, T) to (B, C, T). The parameter ``alpha`` is (C,).
    """

    alpha: nn.Parameter

    def __init__(
        self, in_features: int, alpha: float = 1.0, alpha_trainable: bool = True, alpha_logscale: bool = False
    ) -> None:
        super().__init__()
        self.in_features = in_features
        self.alpha_logscale = alpha_logscale
        self.start = float(alpha)
        self.alpha = nn.Parameter(self._initial(), requires_grad=alpha_trainable)
        self.no_div_by_zero = 1e-9

    def _initial(self) -> Tensor:
        return (torch.zeros if self.alpha_logscale else torch.ones)(self.in_features) * self.start

    def reset_parameters(self) -> None:
        """Set the frequencies to their initial values."""
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.copy_(self._initial())

    def forward(self, x: Tensor) -> Tensor:
        """Apply snake."""
        return snake(x, self.alpha, getattr(self, "beta", None), logscale=self.alpha_logscale)

    def extra_repr(self) -> str:
        """Return the arguments."""
        return f"{self.in_features}, alpha_logscale={self.alpha_logscale}"


class SnakeBeta(Snake):
    """Snake with a divisor of its own for each channel: ``x + sin²(alpha x) / (beta + 1e-9)``.

    Args:
        in_features: how many channels the input has, on axis 1.
        alpha: what frequencies and divisors start with.
        alpha_trainable: whether they are learned.
        alpha_logscale: whether their exponentials count; both then start at zero.

    Shapes: (B, C, T) to (B, C, T). The parameters ``alpha`` and ``beta`` are (C,).
    """

    beta: nn.Parameter

    def __init__(
        self, in_features: int, alpha: float = 1.0, alpha_trainable: bool = True, alpha_logscale: bool = False
    ) -> None:
        super().__init__(in_features, alpha, alpha_trainable, alpha_logscale)
        self.beta = nn.Parameter(self._initial(), requires_grad=alpha_trainable)


class Snake1d(nn.Module):
    """Snake with a frequency of (1, C, 1) to learn for each channel.

    Args:
        channels: how many channels the input has, on axis 1.

    Shapes: (B, C, T) to (B, C, T). The parameter ``alpha`` is (1, C, 1).
    """

    alpha: nn.Parameter

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.alpha = nn.Parameter(torch.ones(1, channels, 1))

    def reset_parameters(self) -> None:
        """Set the frequencies to their initial values."""
        nn.init.ones_(self.alpha)

    def forward(self, x: Tensor) -> Tensor:
        """Apply snake."""
        return snake(x, self.alpha.reshape(-1))


class LowPassFilter1d(nn.Module):
    """A low-pass filter along the last axis, which keeps every ``stride``-th sample.

    Args:
        cutoff: the frequency that passes at half its strength, in cycles per sample.
        half_width: half the width of the transition around the cutoff.
        stride: every how many samples one is kept.
        padding: whether the edges are repeated, so that the signal keeps its length.
        kernel_size: how many taps.

    Shapes: (B, C, T) to (B, C, T / stride). The buffer ``filter`` is (1, 1, K).
    """

    filter: Tensor

    def __init__(
        self,
        cutoff: float = 0.5,
        half_width: float = 0.6,
        stride: int = 1,
        padding: bool = True,
        padding_mode: str = "replicate",
        kernel_size: int = 12,
    ) -> None:
        super().__init__()
        self.stride = stride
        self.padding = padding
        self.padding_mode = padding_mode
        self.kernel_size = kernel_size
        self.pad_left = kernel_size // 2 - (kernel_size % 2 == 0)
        self.pad_right = kernel_size // 2
        self.cutoff = cutoff
        self.half_width = half_width
        self.register_buffer("filter", _low_pass(cutoff, half_width, kernel_size))

    def reset_parameters(self) -> None:
        """Compute the taps again, as after initialisation without memory."""
        self.filter.copy_(_low_pass(self.cutoff, self.half_width, self.kernel_size))

    def forward(self, x: Tensor) -> Tensor:
        """Filter."""
        pad = (self.pad_left, self.pad_right) if self.padding else (0, 0)
        border = {"replicate": "edge", "zeros": "constant", "circular": "wrap"}.get(
            self.padding_mode, self.padding_mode
        )
        taps = self.filter.reshape(-1)
        return upfirdn1d(x, taps, 1, self.stride, pad, flip_kernel=True, border=border)


class UpSample1d(nn.Module):
    """Upsample along the last axis by a ratio, with a Kaiser filter; edges are repeated.

    Args:
        ratio: how many samples each one becomes.
        kernel_size: how many taps; about 6 * ratio where None.

    Shapes: (B, C, T) to (B, C, ratio * T). The buffer ``filter`` is (1, 1, K).
    """

    filter: Tensor

    def __init__(self, ratio: int = 2, kernel_size: int | None = None) -> None:
        super().__init__()
        self.ratio = ratio
        self.kernel_size = int(6 * ratio // 2) * 2 if kernel_size is None else kernel_size
        self.register_buffer("filter", _low_pass(0.5 / ratio, 0.6 / ratio, self.kernel_size))

    def reset_parameters(self) -> None:
        """Compute the taps again, as after initialisation without memory."""
        self.filter.copy_(_low_pass(0.5 / self.ratio, 0.6 / self.ratio, self.kernel_size))

    def forward(self, x: Tensor) -> Tensor:
        """Upsample."""
        after = (self.kernel_size - self.ratio) // 2
        pad = (self.kernel_size - 1 - after, after)
        return upfirdn1d(x, self.filter.reshape(-1), self.ratio, 1, pad, gain=float(self.ratio), border="edge")


class DownSample1d(nn.Module):
    """Downsample along the last axis by a ratio, with a Kaiser filter; edges are repeated.

    Args:
        ratio: every how many samples one is kept.
        kernel_size: how many taps; about 6 * ratio where None.

    Shapes: (B, C, T) to (B, C, T / ratio). The buffer ``lowpass.filter`` is (1, 1, K).
    """

    def __init__(self, ratio: int = 2, kernel_size: int | None = None) -> None:
        super().__init__()
        self.ratio = ratio
        self.kernel_size = int(6 * ratio // 2) * 2 if kernel_size is None else kernel_size
        self.lowpass = LowPassFilter1d(0.5 / ratio, 0.6 / ratio, stride=ratio, kernel_size=self.kernel_size)

    def forward(self, x: Tensor) -> Tensor:
        """Downsample."""
        result: Tensor = self.lowpass(x)
        return result


class Activation1d(nn.Module):
    """An activation between an upsampling and a downsampling filter, along the last axis.

    `Snake` and `SnakeBeta` run fused where both ratios are the same; any other module runs between the filters.

    Args:
        activation: the module between the filters, in `act`.
        up_ratio: by how much the signal is upsampled.
        down_ratio: by how much it is downsampled.
        up_kernel_size: taps of the first filter.
        down_kernel_size: taps of the second filter.

    Shapes: (B, C, T) to (B, C, T * up_ratio / down_ratio).
    """

    def __init__(
        self,
        activation: nn.Module,
        up_ratio: int = 2,
        down_ratio: int = 2,
        up_kernel_size: int = 12,
        down_kernel_size: int = 12,
    ) -> None:
        super().__init__()
        self.up_ratio = up_ratio
        self.down_ratio = down_ratio
        self.act = activation
        self.upsample = UpSample1d(up_ratio, up_kernel_size)
        self.downsample = DownSample1d(down_ratio, down_kernel_size)

    def forward(self, x: Tensor) -> Tensor:
        """Upsample, activate, downsample."""
        alpha: Any = getattr(self.act, "alpha", None)
        if isinstance(self.act, Snake) and self.up_ratio == self.down_ratio and x.dim() == 3:
            return filtered_snake(
                x,
                alpha,
                getattr(self.act, "beta", None),
                self.upsample.filter.reshape(-1),
                self.downsample.lowpass.filter.reshape(-1),
                ratio=self.up_ratio,
                logscale=bool(getattr(self.act, "alpha_logscale", False)),
            )
        result: Tensor = self.downsample(self.act(self.upsample(x)))
        return result


class FilteredLeakyReLU(nn.Module):
    """Leaky ReLU between an upsampling and a downsampling filter, with a bias to learn.

    Args:
        channels: how many channels the input has, on axis 1.
        up: how many samples each one becomes.
        down: which activated samples are kept.
        up_taps: (K,) or (KH, KW) taps before the activation; None filters nothing.
        down_taps: the same after it.
        padding: samples added on the upsampled grid: an int, (x, y) or (x0, x1, y0, y1).
        gain: what the activation is multiplied by.
        slope: the slope where the argument is not positive.
        clamp: the largest size of an activated sample; None for any.

    Shapes: (N, C, H, W) to (N, C, OH, OW).
    """

    bias: nn.Parameter

    def __init__(
        self,
        channels: int,
        up: int = 1,
        down: int = 1,
        up_taps: Sequence[float] | Tensor | None = None,
        down_taps: Sequence[float] | Tensor | None = None,
        padding: int | Sequence[int] = 0,
        *,
        gain: float = 2**0.5,
        slope: float = 0.2,
        clamp: float | None = None,
    ) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(channels))
        self.up, self.down, self.padding = up, down, padding
        self.gain, self.slope, self.clamp = gain, slope, clamp
        self.taps = {"up_filter": up_taps, "down_filter": down_taps}
        for name, taps in self.taps.items():
            self.register_buffer(name, None if taps is None else torch.as_tensor(taps, dtype=torch.float32))

    def reset_parameters(self) -> None:
        """Set the bias to zero and compute the taps again, as after initialisation without memory."""
        nn.init.zeros_(self.bias)
        for name, taps in self.taps.items():
            if taps is not None:
                given = taps if isinstance(taps, Tensor) else torch.tensor(taps, dtype=torch.float32, device="cpu")
                if given.is_meta:
                    told = name.replace("filter", "taps")
                    raise ArgumentError(f"FilteredLeakyReLU: {told}: got a tensor on meta, takes numbers to start with")
                self.get_buffer(name).copy_(given)

    def forward(self, x: Tensor) -> Tensor:
        """Apply the filtered activation."""
        filters: tuple[Any, Any] = (self.up_filter, self.down_filter)
        return filtered_lrelu(
            x, *filters, self.bias, self.up, self.down, self.padding, self.gain, self.slope, self.clamp
        )

    def extra_repr(self) -> str:
        """Return the arguments."""
        return f"{self.bias.numel()}, up={self.up}, down={self.down}, padding={self.padding}, clamp={self.clamp}"
