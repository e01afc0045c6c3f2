"""Filtered activations: upsample, activate, downsample, in one pass.

An activation makes frequencies that a sampled signal cannot hold; they fold back as aliases. Between an upsampling and
a downsampling filter they are made on a finer grid and filtered away. Nothing of that grid's size is kept in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ._firelu import BoundOperator, Tensor, run_operator
from .errors import ArgumentError, ShapeError
from .functional import _lend_shape, _paddings, _pair, _square
from .kernels import kaiser
from .operands import array, settled
from .typing import Array, ArrayLike

#: The kernel that changes nothing.
_NO_FILTER = np.ones((1, 1), np.float32)


def _arguments(
    act: str,
    factors: tuple[int, int, int, int],
    pads: tuple[int, ...],
    down_pads: tuple[int, ...],
    numbers: tuple[Any, ...],
    borders: tuple[str, str],
    logscale: bool,
    axis: int,
) -> tuple[Any, ...]:
    """Give the operators' arguments in the schema's order."""
    return (act, *factors, *pads, *down_pads, *numbers, *borders, logscale, axis)


_FILTERED_ACT = BoundOperator("FilteredAct", _arguments).run
_FILTERED_ACT_GRADIENT = BoundOperator("FilteredActGradient", _arguments).run
_NO_PADS = (0, 0, 0, 0)


def filtered_act(
    x: Array,
    up_kernel: ArrayLike | None = None,
    down_kernel: ArrayLike | None = None,
    bias: ArrayLike | None = None,
    act: str = "lrelu",
    *,
    up: int | tuple[int, int] = 1,
    down: int | tuple[int, int] = 1,
    pad: int | Sequence[int] = 0,
    alpha: float | None = None,
    gain: float | None = None,
    clamp: float | None = None,
    flip_kernel: bool = False,
    border: str = "constant",
    axis: int = 1,
    out: Array | None = None,
) -> Array:
    """Add a bias, upsample and filter, activate, filter and downsample.

    The same as ``upfirdn2d(bias_act(upfirdn2d(x + bias, up_kernel, up, 1, pad), act=act), down_kernel, 1, down)``, with
    nothing of the upsampled size in memory. Kernels carry their own gain: ``up**2`` makes up for inserted zeros.

    Args:
        x: (..., H, W), such as (N, C, H, W).
        up_kernel: (KH, KW), or (K,) for the outer product with itself; None filters nothing.
        down_kernel: the same, after the activation.
        bias: (C,), added to x's own samples, not to what pads them; or None.
        act: "linear", "relu", "lrelu", "tanh", "sigmoid", "elu", "selu", "softplus" or "swish".
        up: how many samples each one becomes; an int or (x, y).
        down: which activated samples are kept; an int or (x, y).
        pad: samples added after upsampling, negative to crop: an int, (before, after) for both axes, or
            (x0, x1, y0, y1).
        alpha: the slope of "lrelu" where its argument is not positive; 0.2 if None.
        gain: what the activation is multiplied by; that of `bias_act` if None.
        clamp: the largest size of an activated sample; None for any.
        flip_kernel: correlate with both kernels instead of convolving.
        border: what padding is filled with: "constant" (zeros), "edge", "reflect", "symmetric" or "wrap".
        axis: the axis of the channels.
        out: an array of the result's shape and x's dtype to write to.

    Returns:
        (..., OH, OW) of x's dtype, with ``OH = (H * up + pad0 + pad1 - KH_up + 1 - KH_down) // down + 1``.

    >>> import numpy, firelu
    >>> taps = firelu.kernels.kaiser(0.25, 0.3, 12)
    >>> x = numpy.ones((1, 1, 16, 16), numpy.float32)
    >>> firelu.filtered_act(x, 2 * taps, taps, up=2, down=2, pad=(11, 10), gain=1.0).shape
    (1, 1, 16, 16)
    """
    fu = _NO_FILTER if up_kernel is None else _square(up_kernel, x)
    fd = _NO_FILTER if down_kernel is None else _square(down_kernel, x)
    factors = (*_pair("up", up), *_pair("down", down))
    numbers = (0.2 if alpha is None else alpha, gain, clamp, flip_kernel, 1.0)
    inputs = (x, fu, fd) if bias is None else (x, fu, fd, bias)
    arguments = (act, factors, _paddings(pad), _NO_PADS, numbers, (border, "constant"), False, axis)
    return _FILTERED_ACT(inputs, arguments, out)


class Snake1dFilters(NamedTuple):
    """How a 1-D filtered snake pads: on the upsampled grid, and after the activation."""

    pad: tuple[int, int]
    down_pad: tuple[int, int]


def snake_paddings(up_taps: int, down_taps: int, ratio: int) -> Snake1dFilters:
    """Give the paddings with which a signal keeps its length and its place.

    Args:
        up_taps: the length of the first kernel.
        down_taps: the length of the second kernel.
        ratio: the factor of both.

    Returns:
        The paddings (before, after) of the upsampled and of the activated signal.
    """
    after = (up_taps - ratio) // 2
    before = down_taps // 2 - (down_taps % 2 == 0)
    return Snake1dFilters((up_taps - 1 - after, after), (before, down_taps // 2))


def _taps(kernel: Any, ratio: int, name: str) -> Any:
    if kernel is None:
        return kaiser(0.5 / ratio, 0.6 / ratio, 6 * ratio // 2 * 2)
    if isinstance(kernel, Tensor):
        raise ArgumentError(f"filtered_snake: {name}: got firelu.Tensor, takes an array: taps get no gradient here")
    taps = array("filtered_snake", name, kernel)
    if taps.ndim != 1 or taps.size < ratio:
        raise ShapeError(f"filtered_snake: {name}: got {taps.shape}, takes (K,) with at least {ratio} taps")
    return taps


def _with_axis(x: Any, place: int) -> Any:
    """Insert an axis of length one, for a tensor by an operator with a gradient: its axes have no views."""
    if not isinstance(x, Tensor):
        return np.expand_dims(x, place)
    shape = list(x.shape)
    shape.insert(place % (len(shape) + 1), 1)
    return run_operator("BroadcastLike", x, _lend_shape("filtered_snake", "x", shape, "float32"), axes=[place])


def _without_axis(x: Any, place: int) -> Any:
    """Take away an axis of length one."""
    return run_operator("ReduceSum", x, axes=[place]) if isinstance(x, Tensor) else np.squeeze(x, place)


def filtered_snake(
    x: Array,
    alpha: ArrayLike,
    beta: ArrayLike | None = None,
    up_kernel: ArrayLike | None = None,
    down_kernel: ArrayLike | None = None,
    *,
    ratio: int = 2,
    logscale: bool = False,
    border: str = "edge",
    out: Array | None = None,
) -> Array:
    """Apply snake, ``x + sin²(alpha x) / (beta + 1e-9)``, on a signal upsampled by a ratio, and downsample again.

    Args:
        x: (..., C, T).
        alpha: (C,), the frequencies.
        beta: (C,), the divisors; alpha if None.
        up_kernel: (K,) taps with the sum one, multiplied by ``ratio``; None for 6 * ratio Kaiser taps.
        down_kernel: (K,) taps after the activation; None for the same.
        ratio: by how much the signal is upsampled.
        logscale: whether exp(alpha) and exp(beta) are the frequencies and divisors.
        border: what lies outside x and outside the activated signal.
        out: an array of x's shape and dtype to write to; None beside a `firelu.Tensor`.

    Returns:
        An array of x's shape and dtype.

    >>> import numpy, firelu
    >>> firelu.filtered_snake(numpy.zeros((1, 2, 8), numpy.float32), numpy.ones(2, numpy.float32)).shape
    (1, 2, 8)
    """
    if isinstance(ratio, bool) or not isinstance(ratio, int) or ratio < 1:
        raise ArgumentError(f"filtered_snake: ratio: got {ratio!r}, takes a whole number from 1 on")
    given = {"ratio": ratio, "logscale": logscale, "border": border}
    ratio, logscale, border = (settled("filtered_snake", *each) for each in given.items())
    signal, alpha = array("filtered_snake", "x", x), array("filtered_snake", "alpha", alpha)
    beta = None if beta is None else array("filtered_snake", "beta", beta)
    fu, fd = _taps(up_kernel, ratio, "up_kernel"), _taps(down_kernel, ratio, "down_kernel")
    if signal.ndim < 2:
        raise ShapeError(f"filtered_snake: x: got {tuple(signal.shape)}, takes (..., C, T)")
    pads: Snake1dFilters = snake_paddings(fu.size, fd.size, ratio)
    numbers = (0.2, None, None, False, float(ratio))
    arguments = (
        "snake",
        (ratio, 1, ratio, 1),
        (*pads.pad, 0, 0),
        (*pads.down_pad, 0, 0),
        numbers,
        (border, border),
        logscale,
        -3,
    )
    inputs = (_with_axis(signal, -2), fu[None], fd[None, ::-1], None, alpha, *(() if beta is None else (beta,)))
    if out is None:
        result: Array = _without_axis(_FILTERED_ACT(inputs, arguments, None), -2)
        return result
    if isinstance(x, Tensor) or not isinstance(out, np.ndarray) or out.shape != signal.shape:
        got = f"an array of {out.shape}" if isinstance(out, np.ndarray) else type(out).__name__
        takes = "None beside a tensor" if isinstance(x, Tensor) else f"an array of {signal.shape}"
        raise ShapeError(f"filtered_snake: out: got {got}, takes {takes}")
    _FILTERED_ACT(inputs, arguments, np.expand_dims(np.asarray(out), -2))
    return out
