"""Slow definitions of the operators in float64, written from the formulas alone."""

from __future__ import annotations

import numpy as np


def leaky_relu(x: np.ndarray, alpha: float = 0.01) -> np.ndarray:
    x = x.astype(np.float64)
    return np.where(x > 0, x, alpha * x)


def leaky_relu_gradient(y: np.ndarray, dy: np.ndarray, alpha: float = 0.01) -> np.ndarray:
    dy = dy.astype(np.float64)
    return np.where(y.astype(np.float64) > 0, dy, alpha * dy)


def fused_leaky_relu(x, bias=None, alpha=0.2, scale=2**0.5, axis=1):
    x = x.astype(np.float64)
    if bias is not None:
        shape = [1] * x.ndim
        shape[axis] = -1
        x = x + bias.astype(np.float64).reshape(shape)
    return scale * np.where(x > 0, x, alpha * x)


def fused_leaky_relu_gradient(y, dy, bias=None, alpha=0.2, scale=2**0.5, axis=1):
    total = np.zeros(y.shape)
    if dy is not None:
        total = total + dy.astype(np.float64)
    if bias is not None:
        shape = [1] * y.ndim
        shape[axis] = -1
        total = total + bias.astype(np.float64).reshape(shape)
    dx = scale * np.where(y.astype(np.float64) > 0, total, alpha * total)
    others = tuple(d for d in range(y.ndim) if d != axis % y.ndim)
    return dx, dx.sum(axis=others)


_SELU, _SELU_A = 1.0507009873554805, 1.6732632423543773


def _logistic(t):
    small = np.exp(-np.abs(t))
    return np.where(t < 0, small, 1.0) / (1 + small)


#: Each activation and its first derivative.
ACTIVATIONS = {
    "linear": (lambda t, alpha: t, lambda t, alpha: np.ones_like(t)),
    "relu": (lambda t, alpha: np.where(t < 0, 0.0, t), lambda t, alpha: np.where(t > 0, 1.0, 0.0)),
    "lrelu": (lambda t, alpha: np.where(t > 0, t, alpha * t), lambda t, alpha: np.where(t > 0, 1.0, alpha)),
    "tanh": (lambda t, alpha: np.tanh(t), lambda t, alpha: 4 * _logistic(2 * t) * _logistic(-2 * t)),
    "sigmoid": (lambda t, alpha: _logistic(t), lambda t, alpha: _logistic(t) * _logistic(-t)),
    "elu": (
        lambda t, alpha: np.where(t < 0, np.expm1(np.minimum(t, 0)), t),
        lambda t, alpha: np.where(t < 0, np.exp(np.minimum(t, 0)), 1.0),
    ),
    "selu": (
        lambda t, alpha: _SELU * np.where(t < 0, _SELU_A * np.expm1(np.minimum(t, 0)), t),
        lambda t, alpha: _SELU * np.where(t < 0, _SELU_A * np.exp(np.minimum(t, 0)), 1.0),
    ),
    "softplus": (
        lambda t, alpha: np.maximum(t, 0) + np.log1p(np.exp(-np.abs(t))),
        lambda t, alpha: _logistic(t),
    ),
    "swish": (
        lambda t, alpha: t * _logistic(t),
        lambda t, alpha: _logistic(t) * (1 + t * _logistic(-t)),
    ),
}


def default_gain(act):
    return 2**0.5 if act in ("relu", "lrelu", "swish") else 1.0


def _biased(x, bias, axis):
    x = x.astype(np.float64)
    if bias is None:
        return x
    shape = [1] * x.ndim
    shape[axis] = -1
    return x + bias.astype(np.float64).reshape(shape)


def bias_act(x, bias=None, act="linear", alpha=0.2, gain=None, clamp=None, axis=1):
    y = (default_gain(act) if gain is None else gain) * ACTIVATIONS[act][0](_biased(x, bias, axis), alpha)
    return y if clamp is None else np.clip(y, -clamp, clamp)


def bias_act_gradient(x, dy, bias=None, act="linear", alpha=0.2, gain=None, clamp=None, axis=1):
    t, gain = _biased(x, bias, axis), default_gain(act) if gain is None else gain
    dx = dy.astype(np.float64) * gain * ACTIVATIONS[act][1](t, alpha)
    if clamp is not None:
        dx = np.where(np.abs(gain * ACTIVATIONS[act][0](t, alpha)) > clamp, 0.0, dx)
    others = tuple(d for d in range(x.ndim) if d != axis % x.ndim)
    return dx, dx.sum(axis=others)


def upfirdn2d(x, kernel, up=(1, 1), down=(1, 1), pad=(0, 0, 0, 0), flip_kernel=False, gain=1.0, border="constant"):
    """Insert zeros, pad or crop, convolve, keep every down-th sample: each step as it is said.

    ``up`` and ``down`` are (x, y); ``pad`` is (x0, x1, y0, y1).
    """
    x, pad = bordered(x, up, pad, border)
    kernel = kernel.astype(np.float64)
    if not flip_kernel:
        kernel = kernel[::-1, ::-1]
    result = gain * sum(*(kernel[tap] * window for tap, window in _windows(x, kernel.shape, up, down, pad)))
    return result.reshape(*x.shape[:-2], *result.shape[1:])


def bordered(x, up, pad, border):
    """The input with what padding is filled with, and the padding that is left: zeros, or a crop."""
    if border == "constant":
        return x, pad
    samples, left = [], []
    for factor, before, after in zip(up, pad[::2], pad[1::2], strict=True):
        # Every factor-th position of the padded grid has a sample, counted from the first of the input.
        first, last = max(before, 0) // factor, -(-max(after, 0) // factor)
        samples.append((first, last))
        left += [before - first * factor, after - last * factor]
    return np.pad(x, [(0, 0)] * (x.ndim - 2) + samples[::-1], mode=border), tuple(left)


def _windows(x, taps, up, down, pad):
    """What each tap of a correlation is multiplied with, as planes of the output's size."""
    height, width = x.shape[-2:]
    planes = x.astype(np.float64).reshape(-1, height, width)
    wide = np.zeros((planes.shape[0], height * up[1], width * up[0]))
    wide[:, :: up[1], :: up[0]] = planes
    wide = _pad(_pad(wide, 2, pad[0], pad[1]), 1, pad[2], pad[3])
    rows, columns = wide.shape[1] - taps[0] + 1, wide.shape[2] - taps[1] + 1
    for i, j in np.ndindex(taps):
        yield (i, j), wide[:, i : i + rows : down[1], j : j + columns : down[0]]


def _pad(planes, axis, before, after):
    """Add zeros on both sides of an axis, or crop where negative."""
    widths = [(0, 0)] * planes.ndim
    widths[axis] = (max(before, 0), max(after, 0))
    planes = np.pad(planes, widths)
    keep = [slice(None)] * planes.ndim
    keep[axis] = slice(max(-before, 0), planes.shape[axis] - max(-after, 0))
    return planes[tuple(keep)]


def upfirdn2d_gradient(dy, kernel, x, **arguments):
    """The transpose of the linear map x -> y, column by column."""
    dy = dy.astype(np.float64)
    *leading, height, width = x.shape
    dx = np.zeros((height, width, int(np.prod(leading, dtype=int))))
    planes = dy.reshape(-1, *dy.shape[-2:])
    for i in range(height):
        for j in range(width):
            basis = np.zeros((height, width))
            basis[i, j] = 1.0
            column = upfirdn2d(basis, kernel, **arguments)
            dx[i, j] = np.einsum("pij,ij->p", planes, column)
    return dx.transpose(2, 0, 1).reshape(x.shape)


def upfirdn2d_kernel_gradient(
    x, dy, kernel, up=(1, 1), down=(1, 1), pad=(0, 0, 0, 0), flip_kernel=False, gain=1.0, border="constant"
):
    """The transpose of the linear map kernel -> y: each tap is the product sum of dy with what the tap met."""
    x, pad = bordered(x, up, pad, border)
    result = np.zeros(kernel.shape)
    planes = dy.astype(np.float64).reshape(-1, *dy.shape[-2:])
    for tap, window in _windows(x, kernel.shape, up, down, pad):
        result[tap] = gain * (window * planes).sum()
    return result if flip_kernel else result[::-1, ::-1]


def sum(*arrays):
    total = np.zeros(arrays[0].shape)
    for array in arrays:
        total = total + array.astype(np.float64)
    return total


def add(a, b):
    return a.astype(np.float64) + b.astype(np.float64)


def sub(a, b):
    return a.astype(np.float64) - b.astype(np.float64)


def mul(a, b):
    return a.astype(np.float64) * b.astype(np.float64)


def _waves(x, alpha, beta, logscale, axis):
    """Give frequencies and divisors of each channel, in the shape of x."""
    shape = [1] * x.ndim
    shape[axis] = -1
    p, q = (numbers.astype(np.float64).reshape(shape) for numbers in (alpha, alpha if beta is None else beta))
    return (np.exp(p), np.exp(q)) if logscale else (p, q)


def snake(x, alpha, beta=None, logscale=False, axis=1):
    p, q = _waves(x, alpha, beta, logscale, axis)
    return x + np.sin(p * x.astype(np.float64)) ** 2 / (q + 1e-9)


def snake_gradient(x, dy, alpha, beta=None, logscale=False, axis=1):
    (p, q), t, dy = _waves(x, alpha, beta, logscale, axis), x.astype(np.float64), dy.astype(np.float64)
    others = tuple(d for d in range(x.ndim) if d != axis % x.ndim)
    by_p = (dy * t * np.sin(2 * p * t) / (q + 1e-9)).sum(axis=others)
    by_q = (-dy * np.sin(p * t) ** 2 / (q + 1e-9) ** 2).sum(axis=others)
    chain = [numbers.ravel() if logscale else 1.0 for numbers in (p, q)]
    dx = dy * (1 + p * np.sin(2 * p * t) / (q + 1e-9))
    if beta is None:
        return dx, (by_p + by_q) * chain[0], None
    return dx, by_p * chain[0], by_q * chain[1]


def snake_derivative(x, dy, alpha, beta=None, logscale=False, axis=1, order_x=1, order_alpha=0, order_beta=0):
    """Differentiate by differences of high precision: five digits are left after a few orders."""
    import mpmath

    def value(t, a, b):
        p, q = (mpmath.exp(a), mpmath.exp(b)) if logscale else (a, b)
        return t + mpmath.sin(p * t) ** 2 / (q + mpmath.mpf(10) ** -9)

    result = np.zeros(x.shape)
    channel = np.moveaxis(np.broadcast_to(np.arange(x.shape[axis]), np.moveaxis(x, axis, -1).shape), -1, axis)
    with mpmath.workdps(60):
        for place in np.ndindex(x.shape):
            a = mpmath.mpf(float(alpha[channel[place]]))
            if beta is None:
                found = mpmath.diff(lambda t, a: value(t, a, a), (float(x[place]), a), (order_x, order_alpha))
            else:
                point = (float(x[place]), a, mpmath.mpf(float(beta[channel[place]])))
                found = mpmath.diff(value, point, (order_x, order_alpha, order_beta))
            result[place] = float(dy[place] * found)
    return result


def reduce_sum(x, axes=(), keepdims=False, scale=1.0):
    return scale * x.astype(np.float64).sum(axis=tuple(axes) or None, keepdims=keepdims)


def broadcast_like(x, like, scale=1.0):
    return scale * np.broadcast_to(x.astype(np.float64), like.shape)


def filtered_act(
    x,
    up_kernel,
    down_kernel,
    bias=None,
    alphas=None,
    betas=None,
    *,
    act="lrelu",
    up=(1, 1),
    down=(1, 1),
    pad=(0, 0, 0, 0),
    down_pad=(0, 0, 0, 0),
    alpha=0.2,
    gain=1.0,
    clamp=None,
    flip_kernel=False,
    up_gain=1.0,
    border="constant",
    down_border="constant",
    logscale=False,
):
    """Upsample, activate, downsample, each step by its definition; channels on the last axis but two."""
    x = x.astype(np.float64)
    if bias is not None:
        x = x + bias.astype(np.float64)[:, None, None]
    filters = {"flip_kernel": flip_kernel}
    wide = upfirdn2d(x, up_kernel, up, (1, 1), pad, gain=up_gain, border=border, **filters)
    if act == "snake":
        middle = snake(wide, alphas, betas, logscale, -3)
    else:
        middle = gain * ACTIVATIONS[act][0](wide, alpha)
        middle = middle if clamp is None else np.clip(middle, -clamp, clamp)
    return upfirdn2d(middle, down_kernel, (1, 1), down, down_pad, border=down_border, **filters)


def filtered_act_gradient(x, up_kernel, down_kernel, dy, **arguments):
    """The gradient of x by central differences, sample by sample."""
    result, step = np.zeros(x.shape), 1e-6
    for place in np.ndindex(x.shape):
        values = []
        for sign in (1, -1):
            moved = x.astype(np.float64)
            moved[place] += sign * step
            values.append((filtered_act(moved, up_kernel, down_kernel, **arguments) * dy).sum())
        result[place] = (values[0] - values[1]) / (2 * step)
    return result
