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


def upfirdn2d(x, kernel, up=(1, 1), down=(1, 1), pad=(0, 0, 0, 0), flip_kernel=False, gain=1.0):
    """Insert zeros, pad or crop, convolve, keep every down-th sample: each step as it is said.

    ``up`` and ``down`` are (x, y); ``pad`` is (x0, x1, y0, y1).
    """
    kernel = kernel.astype(np.float64)
    if not flip_kernel:
        kernel = kernel[::-1, ::-1]
    result = gain * sum(*(kernel[tap] * window for tap, window in _windows(x, kernel.shape, up, down, pad)))
    return result.reshape(*x.shape[:-2], *result.shape[1:])


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


def upfirdn2d_kernel_gradient(x, dy, kernel, up=(1, 1), down=(1, 1), pad=(0, 0, 0, 0), flip_kernel=False, gain=1.0):
    """The transpose of the linear map kernel -> y: each tap is the product sum of dy with what the tap met."""
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


def reduce_sum(x, axes=(), keepdims=False, scale=1.0):
    return scale * x.astype(np.float64).sum(axis=tuple(axes) or None, keepdims=keepdims)


def broadcast_like(x, like, scale=1.0):
    return scale * np.broadcast_to(x.astype(np.float64), like.shape)
