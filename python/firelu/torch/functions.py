"""The names under which existing code reaches the operators: classes with an ``apply``.

They call the registered operators, whose derivatives are recorded there: that is why these are no
`torch.autograd.Function` of their own, and why they work under compile, vmap and autocast.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from .bridge import bridged
from .functional import fused_leaky_relu, upfirdn2d

_FUSED_LEAKY_RELU_GRADIENT = bridged("FusedLeakyReluGradient").overload


class FusedLeakyReLUFunction:
    """Bias, leaky ReLU and scale."""

    @staticmethod
    def apply(input: Tensor, bias: Tensor | None, negative_slope: float, scale: float) -> Tensor:
        """Return ``scale * leaky_relu(input + bias)``; see `fused_leaky_relu`."""
        return fused_leaky_relu(input, bias, negative_slope, scale)


class FusedLeakyReLUFunctionBackward:
    """The gradient of `FusedLeakyReLUFunction`."""

    @staticmethod
    def apply(grad_output: Tensor, out: Tensor, negative_slope: float, scale: float) -> tuple[Tensor, Tensor]:
        """Return the gradients of the input, (N, C, ...), and of the bias, (C,)."""
        grad_input, grad_bias = _FUSED_LEAKY_RELU_GRADIENT(out, grad_output, None, None, None, negative_slope, scale, 1)
        return grad_input, grad_bias


class UpFirDn2d:
    """Upsample, filter, downsample."""

    @staticmethod
    def apply(input: Tensor, kernel: Tensor, up: Sequence[int], down: Sequence[int], pad: Sequence[int]) -> Tensor:
        """Return `upfirdn2d` with up and down as (x, y) and pad as (x0, x1, y0, y1)."""
        return upfirdn2d(input, kernel, up, down, pad)


class UpFirDn2dBackward:
    """The gradient of `UpFirDn2d` with respect to its input."""

    @staticmethod
    def apply(
        grad_output: Tensor,
        kernel: Tensor,
        grad_kernel: Tensor,
        up: Sequence[int],
        down: Sequence[int],
        pad: Sequence[int],
        g_pad: Sequence[int],
        in_size: Sequence[int],
        out_size: Sequence[int],
    ) -> Tensor:
        """Return the gradient of the input, of shape ``in_size``.

        Args:
            grad_output: (N, C, ``*out_size``), or (N * C, ``*out_size``, 1) as some callers reshape it.
            kernel: (KH, KW), the forward's; not read, since the transposed operation carries its own derivative.
            grad_kernel: the kernel turned around on both axes.
            up: the forward's factors (x, y).
            down: the forward's factors (x, y).
            pad: the forward's padding (x0, x1, y0, y1); not read.
            g_pad: the padding of the transposed operation, ``(KW - x0 - 1, W * up - OW * down + x0 - up + 1, ...)``.
            in_size: the input's shape (N, C, H, W).
            out_size: (OH, OW).
        """
        planes = grad_output.reshape(-1, out_size[0], out_size[1])
        return upfirdn2d(planes, grad_kernel, down, up, g_pad).reshape(tuple(in_size))
