"""Modules with the names and arguments that StyleGAN2-type code uses."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from ..errors import ArgumentError
from .functional import Taps, bias_act, fused_leaky_relu, kernel_device, kernel_on_cpu, upfirdn2d

if TYPE_CHECKING:
    from typing_extensions import Self


class FusedLeakyReLU(nn.Module):
    """Bias, leaky ReLU and scale in one pass.

    Args:
        channel: how many channels the input has, on axis 1.
        negative_slope: the slope where the sum is not positive.
        scale: what the result is multiplied by.
        bias: whether there is a bias to learn; it starts at zero.

    Shapes: (N, C, ...) to (N, C, ...).
    """

    bias: nn.Parameter | None

    def __init__(self, channel: int, negative_slope: float = 0.2, scale: float = 2**0.5, *, bias: bool = True) -> None:
        super().__init__()
        self.register_parameter("bias", nn.Parameter(torch.zeros(channel)) if bias else None)
        self.negative_slope = negative_slope
        self.scale = scale

    def reset_parameters(self) -> None:
        """Set the bias to zero, its initial value."""
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        """Apply the activation."""
        return fused_leaky_relu(input, self.bias, self.negative_slope, self.scale)

    def extra_repr(self) -> str:
        """Return the arguments."""
        channels = None if self.bias is None else self.bias.numel()
        return f"{channels}, negative_slope={self.negative_slope}, scale={self.scale:.6g}, bias={channels is not None}"


class BiasAct(nn.Module):
    """Bias, activation, gain and clamp in one pass.

    Args:
        channel: how many channels the input has.
        act: linear, relu, lrelu, tanh, sigmoid, elu, selu, softplus or swish.
        alpha: the slope of lrelu; None is 0.2.
        gain: what the activation is multiplied by; None is sqrt 2 for relu, lrelu and swish, else 1.
        clamp: how large the result may be; None means any size.
        axis: the axis of the channels.
        bias: whether there is a bias to learn; it starts at zero.

    Shapes: (N, C, ...) to (N, C, ...).
    """

    bias: nn.Parameter | None

    def __init__(
        self,
        channel: int,
        act: str = "linear",
        *,
        alpha: float | None = None,
        gain: float | None = None,
        clamp: float | None = None,
        axis: int = 1,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.register_parameter("bias", nn.Parameter(torch.zeros(channel)) if bias else None)
        self.act, self.alpha, self.gain, self.clamp, self.axis = act, alpha, gain, clamp, axis

    def reset_parameters(self) -> None:
        """Set the bias to zero, its initial value."""
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        """Apply the activation."""
        return bias_act(input, self.bias, self.act, alpha=self.alpha, gain=self.gain, clamp=self.clamp, axis=self.axis)

    def extra_repr(self) -> str:
        """Return the arguments."""
        channels = None if self.bias is None else self.bias.numel()
        return f"{channels}, {self.act!r}, alpha={self.alpha}, gain={self.gain}, clamp={self.clamp}, axis={self.axis}"


def _centred(kernel: Tensor, taken: int, before: int, after: int) -> tuple[int, int, int, int]:
    """Share the taps that reach over the border out to both sides: (x0, x1, y0, y1)."""
    pads: list[int] = []
    for taps in (kernel.shape[1], kernel.shape[0]):
        total = taps - taken
        pads += [(total + 1) // 2 + before, total // 2 + after]
    return pads[0], pads[1], pads[2], pads[3]


class _Resample(nn.Module):
    """A fixed kernel and padding; the kernel is no part of a checkpoint.

    So it is made again where it would be lost: after `to_empty`, by `reset_parameters`, and on first use where loading
    a checkpoint with ``assign=True`` has left it on meta.
    """

    kernel: Tensor

    def __init__(
        self, kernel: Tensor, device: torch.device, up: int, down: int, pad: tuple[int, int, int, int]
    ) -> None:
        super().__init__()
        #: The kernel's values, which no move of the module touches.
        self._taps: list[list[float]] = kernel.detach().tolist()
        self.register_buffer("kernel", kernel.to(device), persistent=False)
        self.up = up
        self.down = down
        self.pad = pad

    def _made_on(self, device: torch.device) -> Tensor:
        return torch.tensor(self._taps, dtype=torch.float32, device=device).to(self.kernel.dtype)

    def reset_parameters(self) -> None:
        """Set the kernel to its initial values."""
        with torch.no_grad():
            self.kernel.copy_(self._made_on(self.kernel.device))

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        before = self.kernel
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        if self.kernel is not before and not self.kernel.is_meta:
            # `to_empty` gives memory without values. For all other moves this writes what is there.
            with torch.no_grad():
                self.kernel.copy_(self._made_on(self.kernel.device) if before.is_meta else before)
        return self

    def forward(self, input: Tensor) -> Tensor:
        """Resample (N, C, H, W)."""
        if self.kernel.is_meta and not input.is_meta:
            self.kernel = self._made_on(input.device)
        return upfirdn2d(input, self.kernel, up=self.up, down=self.down, pad=self.pad)

    def extra_repr(self) -> str:
        """Give what is done."""
        return f"kernel={tuple(self.kernel.shape)}, up={self.up}, down={self.down}, pad={self.pad}"


class UpFirDnUpsample(_Resample):
    """Enlarge by a whole factor: insert zeros and filter.

    Args:
        resample_kernel: (K,) or (K, K) taps, such as (1, 3, 3, 1); they are normalised.
        factor: how many times larger.

    Shapes: (N, C, H, W) to (N, C, H * factor, W * factor).
    """

    def __init__(self, resample_kernel: Taps, factor: int = 2) -> None:
        kernel = kernel_on_cpu(resample_kernel, factor**2)
        device = kernel_device(resample_kernel)
        super().__init__(kernel, device, factor, 1, _centred(kernel, factor, factor - 1, 0))
        self.factor = factor


class UpFirDnDownsample(_Resample):
    """Shrink by a whole factor: filter and keep every ``factor``-th sample.

    Args:
        resample_kernel: (K,) or (K, K) taps, such as (1, 3, 3, 1); they are normalised.
        factor: how many times smaller.

    Shapes: (N, C, H, W) to (N, C, H // factor, W // factor).
    """

    def __init__(self, resample_kernel: Taps, factor: int = 2) -> None:
        kernel = kernel_on_cpu(resample_kernel, 1.0)
        super().__init__(kernel, kernel_device(resample_kernel), 1, factor, _centred(kernel, factor, 0, 0))
        self.factor = factor


class UpFirDnSmooth(_Resample):
    """Filter beside a convolution that resamples, so that the image has the right size afterwards.

    Args:
        resample_kernel: (K,) or (K, K) taps, such as (1, 3, 3, 1); they are normalised.
        upsample_factor: the stride of a transposed convolution that comes before; 1 for none.
        downsample_factor: the stride of a convolution that comes after; 1 for none.
        kernel_size: the kernel size of that convolution.

    Shapes: before a convolution, (N, C, H, W) to (N, C, H + E, W + E) with ``E = kernel_size - downsample_factor``;
    after a transposed one, (N, C, H * up + kernel_size - up, ...) to (N, C, H * up, ...).
    """

    def __init__(
        self, resample_kernel: Taps, upsample_factor: int = 1, downsample_factor: int = 1, kernel_size: int = 1
    ) -> None:
        if upsample_factor > 1 and downsample_factor > 1:
            raise ArgumentError(
                f"UpFirDnSmooth: got upsample_factor {upsample_factor} and downsample_factor {downsample_factor}, "
                "takes at most one of them above 1"
            )
        kernel = kernel_on_cpu(resample_kernel, upsample_factor**2)
        if upsample_factor > 1:
            rest = upsample_factor - 1
            pad = _centred(kernel, upsample_factor + kernel_size - 1, rest, rest)
        else:
            pad = _centred(kernel, downsample_factor - kernel_size + 1, 0, 0)
        super().__init__(kernel, kernel_device(resample_kernel), 1, 1, pad)
        self.upsample_factor = upsample_factor
        self.downsample_factor = downsample_factor
        self.kernel_size = kernel_size
