"""`upfirdn2d`, its three common uses, and the filters for it, with the parameters that networks know."""

from __future__ import annotations

from typing import Any

import firelu.torch
import torch
from torch import Tensor

#: From how many taps on a filter is kept as two one-dimensional ones.
_SEPARABLE = 8


def setup_filter(
    f: Any,
    device: Any = None,
    normalize: bool = True,
    flip_filter: bool = False,
    gain: float = 1,
    separable: bool | None = None,
) -> Tensor:
    """Make a float32 filter of taps: (K,) or (KH, KW)."""
    taps = torch.as_tensor(1.0 if f is None else f, dtype=torch.float32)
    taps = taps.reshape(1) if taps.dim() == 0 else taps
    separable = taps.dim() == 1 and taps.numel() >= _SEPARABLE if separable is None else separable
    if taps.dim() == 1 and not separable:
        taps = torch.outer(taps, taps)
    if normalize:
        taps = taps / taps.sum()
    if flip_filter:
        taps = taps.flip(tuple(range(taps.dim())))
    taps = taps * float(gain ** (taps.dim() / 2))
    return taps.to(device="cpu" if device is None else device)


def _parse_scaling(scaling: Any) -> tuple[int, int]:
    """Give (x, y)."""
    x, y = (scaling, scaling) if isinstance(scaling, int) else scaling
    return int(x), int(y)


def _parse_padding(padding: Any) -> tuple[int, int, int, int]:
    """Give (x0, x1, y0, y1); a pair is (x, y)."""
    values = (padding, padding) if isinstance(padding, int) else tuple(padding)
    x0, x1, y0, y1 = (values[0], values[0], values[1], values[1]) if len(values) == 2 else values
    return int(x0), int(x1), int(y0), int(y1)


def _get_filter_size(f: Tensor | None) -> tuple[int, int]:
    """Give (width, height)."""
    return (1, 1) if f is None else (int(f.shape[-1]), int(f.shape[0]))


def upfirdn2d(
    x: Tensor,
    f: Tensor | None,
    up: Any = 1,
    down: Any = 1,
    padding: Any = 0,
    flip_filter: bool = False,
    gain: float = 1,
    impl: Any = "cuda",
) -> Tensor:
    """Insert zeros, pad or crop, convolve, keep every down-th sample; ``impl`` is accepted and ignored."""
    kernel = x.new_ones((1, 1), dtype=torch.float32) if f is None else f
    factors = _parse_scaling(up), _parse_scaling(down), _parse_padding(padding)
    result: Tensor = firelu.torch.upfirdn2d(x, kernel, *factors, flip_kernel=flip_filter, gain=float(gain))
    return result


def filter2d(
    x: Tensor, f: Tensor | None, padding: Any = 0, flip_filter: bool = False, gain: float = 1, impl: Any = "cuda"
) -> Tensor:
    """Filter images of the same size, but for the padding."""
    width, height = _get_filter_size(f)
    centred = (width // 2, (width - 1) // 2, height // 2, (height - 1) // 2)
    return upfirdn2d(x, f, padding=_sum(padding, centred), flip_filter=flip_filter, gain=gain)


def upsample2d(
    x: Tensor,
    f: Tensor | None,
    up: Any = 2,
    padding: Any = 0,
    flip_filter: bool = False,
    gain: float = 1,
    impl: Any = "cuda",
) -> Tensor:
    """Enlarge images by a factor, and by the padding."""
    (up_x, up_y), (width, height) = _parse_scaling(up), _get_filter_size(f)
    centred = ((width + up_x - 1) // 2, (width - up_x) // 2, (height + up_y - 1) // 2, (height - up_y) // 2)
    return upfirdn2d(x, f, up=up, padding=_sum(padding, centred), flip_filter=flip_filter, gain=gain * up_x * up_y)


def downsample2d(
    x: Tensor,
    f: Tensor | None,
    down: Any = 2,
    padding: Any = 0,
    flip_filter: bool = False,
    gain: float = 1,
    impl: Any = "cuda",
) -> Tensor:
    """Reduce images by a factor, after the padding."""
    (down_x, down_y), (width, height) = _parse_scaling(down), _get_filter_size(f)
    centred = (
        (width - down_x + 1) // 2,
        (width - down_x) // 2,
        (height - down_y + 1) // 2,
        (height - down_y) // 2,
    )
    return upfirdn2d(x, f, down=down, padding=_sum(padding, centred), flip_filter=flip_filter, gain=gain)


def _sum(padding: Any, centred: tuple[int, int, int, int]) -> tuple[int, ...]:
    return tuple(one + other for one, other in zip(_parse_padding(padding), centred, strict=True))
