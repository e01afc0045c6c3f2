"""A convolution with upsampling before it and downsampling after it."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.nn import functional

from .upfirdn2d import _get_filter_size, _parse_padding, upfirdn2d


def conv2d_resample(
    x: Tensor,
    w: Tensor,
    f: Tensor | None = None,
    up: int = 1,
    down: int = 1,
    padding: Any = 0,
    groups: int = 1,
    flip_weight: bool = True,
    flip_filter: bool = False,
) -> Tensor:
    """Upsample by f, convolve with w, downsample by f.

    Args:
        x: (N, C, H, W).
        w: (outputs, C / groups, KH, KW).
        f: what `setup_filter` gives.
        up: the factor before.
        down: the factor after.
        padding: relative to the upsampled image; an int, (x, y) or (x0, x1, y0, y1).
        groups: how many convolutions stand side by side.
        flip_weight: correlate with w, as torch does; else convolve.
        flip_filter: correlate with f; else convolve.

    Returns:
        (N, outputs, OH, OW).
    """
    x0, x1, y0, y1 = _parse_padding(padding)
    width, height = _get_filter_size(f)
    if up > 1:
        x0, x1 = x0 + (width + up - 1) // 2, x1 + (width - up) // 2
        y0, y1 = y0 + (height + up - 1) // 2, y1 + (height - up) // 2
    if down > 1:
        x0, x1 = x0 + (width - down + 1) // 2, x1 + (width - down) // 2
        y0, y1 = y0 + (height - down + 1) // 2, y1 + (height - down) // 2
    pads = (x0, x1, y0, y1)
    kernel_height, kernel_width = w.shape[2:]
    point = kernel_height == kernel_width == 1

    # Filters and convolutions may change places: each is done where the image is smallest.
    if up == 1 and down == 1:
        inside = x0 == x1 and y0 == y1 and x0 >= 0 and y0 >= 0
        x = x if inside else upfirdn2d(x, None, padding=pads)
        return _convolved(x, w, groups, flip_weight, padding=(y0, x0) if inside else (0, 0))
    if up == 1:
        kept = down if point else 1
        x = upfirdn2d(x, f, down=kept, padding=pads, flip_filter=flip_filter)
        return _convolved(x, w, groups, flip_weight, stride=1 if point else down)
    if point:
        x = _convolved(x, w, groups, flip_weight)
    else:
        x = _spread(x, w, up, groups, flip_weight)
        x0, x1 = x0 - (kernel_width - 1), x1 - (kernel_width - 1) + (up - 1)
        y0, y1 = y0 - (kernel_height - 1), y1 - (kernel_height - 1) + (up - 1)
    x = upfirdn2d(x, f, up=up if point else 1, padding=(x0, x1, y0, y1), gain=up**2, flip_filter=flip_filter)
    return x if down == 1 else upfirdn2d(x, f, down=down, flip_filter=flip_filter)


def _convolved(
    x: Tensor, w: Tensor, groups: int, flip_weight: bool, stride: int = 1, padding: tuple[int, int] = (0, 0)
) -> Tensor:
    w = w if flip_weight else w.flip((2, 3))
    return functional.conv2d(x, w, stride=stride, padding=padding, groups=groups)


def _spread(x: Tensor, w: Tensor, up: int, groups: int, flip_weight: bool) -> Tensor:
    """Convolve the image with zeros between its samples: a transposed convolution, which turns the kernel around."""
    w = w.flip((2, 3)) if flip_weight else w
    outputs, inputs, height, width = w.shape
    w = w.reshape(groups, outputs // groups, inputs, height, width).transpose(1, 2)
    w = w.reshape(groups * inputs, outputs // groups, height, width)
    return functional.conv_transpose2d(x, w, stride=up, groups=groups)
