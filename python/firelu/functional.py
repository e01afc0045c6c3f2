"""The operators as functions on numpy arrays (and on `firelu.Tensor`).

Every function accepts float16, bfloat16, float32 or float64 with any strides; half types are computed in float32
and rounded once. ``out=`` names an array to write to; it is returned.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy import ndarray

from ._firelu import BoundOperator, Tensor, run_operator
from .errors import ArgumentError, ShapeError
from .typing import Array, ArrayLike, DTypeLike

_LEAKY_RELU = BoundOperator("LeakyRelu").run
_LEAKY_RELU_GRADIENT = BoundOperator("LeakyReluGradient").run
_FUSED_LEAKY_RELU = BoundOperator("FusedLeakyRelu").run
_FUSED_LEAKY_RELU_GRADIENT = BoundOperator("FusedLeakyReluGradient").run


def leaky_relu(x: Array, negative_slope: float = 0.01, *, out: Array | None = None) -> Array:
    """Leaky ReLU: ``x`` where ``x > 0``, else ``negative_slope * x``.

    Args:
        x: array of any shape.
        negative_slope: the slope where x is not positive.
        out: an array of x's shape and dtype to write to; may be x itself.

    Returns:
        An array of x's shape and dtype in x's memory order.

    >>> import numpy, firelu
    >>> firelu.leaky_relu(numpy.array([-1.0, 0.0, 2.0]), 0.1)
    array([-0.1,  0. ,  2. ])
    """
    return _LEAKY_RELU((x,), (negative_slope,), out)


def leaky_relu_gradient(y: Array, dy: Array, negative_slope: float = 0.01, *, out: Array | None = None) -> Array:
    """Return the gradient of `leaky_relu`: ``dy`` where ``y > 0``, else ``negative_slope * dy``.

    Args:
        y: the forward output, or any array with the sign of the forward input (with a negative slope
            the output has lost that sign: pass the input).
        dy: the gradient of the output, of y's shape and dtype.
        negative_slope: the slope that the forward used; it is also the derivative at 0.
        out: an array of y's shape and dtype to write to; may be dy itself.

    Returns:
        The gradient of the input, of y's shape and dtype.

    >>> import numpy, firelu
    >>> firelu.leaky_relu_gradient(numpy.array([-0.1, 0.0, 2.0]), numpy.ones(3), 0.1)
    array([0.1, 0.1, 1. ])
    """
    return _LEAKY_RELU_GRADIENT((y, dy), (negative_slope,), out)


def fused_leaky_relu(
    x: Array,
    bias: ArrayLike | None = None,
    negative_slope: float = 0.2,
    scale: float = 2**0.5,
    *,
    axis: int = 1,
    out: Array | None = None,
) -> Array:
    """Bias, leaky ReLU and scale in one pass: ``scale * leaky_relu(x + bias, negative_slope)``.

    Args:
        x: array of any shape, such as (N, C, H, W) or (N, C).
        bias: (C,), one number for each index of ``axis``; x's dtype, or float32 with a half x. None adds nothing.
        negative_slope: the slope where x + bias is not positive.
        scale: what the result is multiplied by.
        axis: the axis of the channels.
        out: an array of x's shape and dtype to write to; may be x itself.

    Returns:
        An array of x's shape and dtype in x's memory order.

    >>> import numpy, firelu
    >>> firelu.fused_leaky_relu(numpy.array([[-3.0, 1.0]]), numpy.array([1.0, 2.0]), 0.5, 2.0)
    array([[-2.,  6.]])
    """
    return _FUSED_LEAKY_RELU((x, bias), (negative_slope, scale, axis), out)


def fused_leaky_relu_gradient(
    y: Array,
    dy: Array,
    negative_slope: float = 0.2,
    scale: float = 2**0.5,
    *,
    axis: int = 1,
    out: tuple[Array | None, Array | None] | None = None,
) -> tuple[Array, Array]:
    """Return both gradients of `fused_leaky_relu` in one pass.

    Args:
        y: the forward output, or any array with the sign of x + bias (which a negative slope or a scale that is
            not positive takes from the output: pass x + bias). A half-precision output that underflowed to zero
            counts as not positive.
        dy: the gradient of the output, of y's shape and dtype.
        negative_slope: the slope that the forward used.
        scale: the scale that the forward used.
        axis: the axis of the channels.
        out: a pair to write to, None where a new array is wanted; the first may be dy itself.

    Returns:
        ``(dx, dbias)``: y's shape, and (C,), the sum of dx over all axes but ``axis``.

    >>> import numpy, firelu
    >>> firelu.fused_leaky_relu_gradient(numpy.array([[-2.0, 6.0]]), numpy.ones((1, 2)), 0.5, 2.0)
    (array([[1., 2.]]), array([1., 2.]))
    """
    result: Any = _FUSED_LEAKY_RELU_GRADIENT((y, dy), (negative_slope, scale, axis), out)
    if not isinstance(result, tuple):
        shape = np.shape(y)
        raise ArgumentError(f"FusedLeakyReluGradient: axis: got {axis}, takes an axis of {shape}")
    return result


def _pair(name: str, value: Any) -> tuple[int, int]:
    if isinstance(value, int):
        return value, value
    if isinstance(value, (tuple, list)) and len(value) == 2:
        return value[0], value[1]
    if hasattr(value, "__index__"):
        return value, value
    raise ArgumentError(f"UpFirDn2d: {name}: got {value!r}, takes an int or a pair (x, y)")


def _paddings(pad: Any) -> tuple[int, int, int, int]:
    if isinstance(pad, int) or hasattr(pad, "__index__"):
        return pad, pad, pad, pad
    if isinstance(pad, (tuple, list)) and len(pad) == 2:
        return pad[0], pad[1], pad[0], pad[1]
    if isinstance(pad, (tuple, list)) and len(pad) == 4:
        return pad[0], pad[1], pad[2], pad[3]
    raise ArgumentError(
        f"UpFirDn2d: pad: got {pad!r}, takes an int, (before, after) for both axes, or (x0, x1, y0, y1)"
    )


def _arguments(up: Any, down: Any, pad: Any, flip_kernel: bool, gain: float, border: str) -> tuple[Any, ...]:
    """Give the operators' arguments in the schema's order."""
    up_x, up_y = _pair("up", up)
    down_x, down_y = _pair("down", down)
    x0, x1, y0, y1 = _paddings(pad)
    return up_x, up_y, down_x, down_y, x0, x1, y0, y1, flip_kernel, gain, border


_UPFIRDN2D = BoundOperator("UpFirDn2d", _arguments).run
_UPFIRDN2D_GRADIENT = BoundOperator("UpFirDn2dGradient", _arguments).run
_UPFIRDN2D_KERNEL_GRADIENT = BoundOperator("UpFirDn2dKernelGradient", _arguments).run


def _square(kernel: Any, x: Any) -> Any:
    """Make a 1-D kernel the outer product with itself; leave a 2-D one alone.

    The product is no narrower than x is computed: half taps are multiplied in float32, or beside a float64 x in
    float64.
    """
    if isinstance(kernel, Tensor):
        return _outer_square(kernel, _computed(x)) if kernel.ndim == 1 else kernel
    if not hasattr(kernel, "shape"):
        try:
            kernel = np.asarray(kernel)
        except ValueError as error:
            raise ShapeError(f"UpFirDn2d: K: got {kernel!r}, takes rows of one length") from error
        if kernel.dtype.kind in "biu":  # A list such as [1, 3, 3, 1]: whoever writes it means numbers.
            kernel = kernel.astype(np.float64)
    if len(kernel.shape) != 1:
        return kernel
    taps, computed = np.asarray(kernel), _computed(x)
    if _is_narrower(_dtype_name(taps), computed):
        taps = taps.astype(computed)
    return np.multiply.outer(taps, taps)


def _computed(x: Any) -> str:
    """Name the type that x is computed in; asked only where taps are multiplied, since names of dtypes take long."""
    return "float64" if _dtype_name(x) == "float64" else "float32"


def _dtype_name(array: Any) -> str:
    return str(getattr(array, "dtype", "float64"))


def _is_narrower(dtype: str, computed: str) -> bool:
    return dtype in ("float16", "bfloat16", "float32")[: 2 if computed == "float32" else 3]


def _outer_square(taps: Tensor, computed: str) -> Tensor:
    """Give the outer product of a tensor with itself, by operators that have a gradient."""
    if _is_narrower(taps.dtype, computed):
        taps = _widened(taps, computed)
    like = _lend_shape("UpFirDn2d", "kernel", taps.shape * 2, "float32")
    rows = run_operator("BroadcastLike", taps, like, axes=[1])
    columns = run_operator("BroadcastLike", taps, like, axes=[0])
    product: Tensor = rows * columns
    return product


def _widened(taps: Tensor, dtype: str) -> Tensor:
    """Give taps in a wider type, by operators that have a gradient.

    A filter gives its result in the image's type, and the result for an image of a single one is the kernel.
    """
    beyond = taps.shape[0] - 1
    like = _lend_shape("UpFirDn2d", "kernel", (*taps.shape, 1), "float32")
    column = run_operator("BroadcastLike", taps, like, axes=[1])
    one = Tensor(np.ones((1, 1), dtype), device=taps.device)
    wide = run_operator("UpFirDn2d", one, column, pad_y0=beyond, pad_y1=beyond)
    result: Tensor = run_operator("ReduceSum", wide, axes=[1])
    return result


def _lend_shape(operator: str, name: str, shape: Sequence[int], dtype: Any) -> np.ndarray[Any, Any]:
    """Give an array of this shape that takes no memory, for inputs of which only the shape counts."""
    try:
        return np.ndarray(shape, dtype, bytes(8), strides=(0,) * len(shape))
    except (TypeError, ValueError, OverflowError) as error:
        raise ShapeError(f"{operator}: {name}: got {shape!r}, takes sizes that are not negative") from error


def _float_dtype(array: Any) -> Any:
    """Give the dtype of an array, or that which numpy gives a list."""
    return np.dtype(array.dtype) if hasattr(array, "dtype") else np.asarray(array).dtype


def upfirdn2d(
    x: Array,
    kernel: ArrayLike,
    up: int | tuple[int, int] = 1,
    down: int | tuple[int, int] = 1,
    pad: int | Sequence[int] = (0, 0),
    *,
    flip_kernel: bool = False,
    gain: float = 1.0,
    border: str = "constant",
    out: Array | None = None,
) -> Array:
    """Upsample, pad, filter, downsample: insert zeros, pad or crop, convolve, keep every ``down``-th sample.

    Infinities and NaNs in x reach the samples whose window holds them, no others. A tap that is not finite may also
    give NaN where it meets the padding, as in a convolution over a padded image.

    Args:
        x: (..., H, W).
        kernel: (KH, KW), or (K,) for the outer product with itself; any float dtype, or a list of numbers.
        up: how many samples each one becomes (``up - 1`` zeros follow it); an int or (x, y).
        down: which samples are kept; an int or (x, y).
        pad: samples added after upsampling, negative to crop: an int, (before, after) for both axes, or
            (x0, x1, y0, y1). stylegan3 reads a pair as (x, y).
        flip_kernel: correlate instead of convolving.
        gain: what the result is multiplied by.
        border: what padding is filled with, as in `numpy.pad`: "constant" (zeros), "edge", "reflect", "symmetric" or
            "wrap", decided on x before zeros are inserted; torch's "zeros", "replicate" and "circular" mean the same.
        out: an array of the result's shape and x's dtype to write to.

    Returns:
        (..., OH, OW) of x's dtype in x's memory order, with
        ``OH = (H * up + pad0 + pad1 - KH) // down + 1``.

    >>> import numpy, firelu
    >>> firelu.upfirdn2d(numpy.ones((1, 2, 2)), numpy.ones((2, 2)), up=2, pad=(1, 0))
    array([[[1., 1., 1., 1.],
            [1., 1., 1., 1.],
            [1., 1., 1., 1.],
            [1., 1., 1., 1.]]])
    >>> firelu.upfirdn2d(numpy.array([[1.0, 2.0, 3.0]]), [[1, 1]], pad=(1, 1, 0, 0), border="reflect")
    array([[3., 3., 5., 5.]])
    """
    if type(kernel) is not ndarray or kernel.ndim != 2:
        kernel = _square(kernel, x)
    return _UPFIRDN2D((x, kernel), (up, down, pad, flip_kernel, gain, border), out)


def upfirdn2d_gradient(
    dy: Array,
    kernel: ArrayLike,
    input_shape: Sequence[int],
    up: int | tuple[int, int] = 1,
    down: int | tuple[int, int] = 1,
    pad: int | Sequence[int] = (0, 0),
    *,
    flip_kernel: bool = False,
    gain: float = 1.0,
    border: str = "constant",
    out: Array | None = None,
) -> Array:
    """Return the gradient of `upfirdn2d` with respect to x.

    Args:
        dy: (..., OH, OW), the gradient of the output.
        kernel: the forward kernel.
        input_shape: the shape of x.
        up: as in the forward.
        down: as in the forward.
        pad: as in the forward.
        flip_kernel: as in the forward.
        gain: as in the forward.
        border: as in the forward.
        out: an array of ``input_shape`` and dy's dtype to write to.

    Returns:
        An array of ``input_shape`` and dy's dtype.

    >>> import numpy, firelu
    >>> firelu.upfirdn2d_gradient(numpy.ones((2, 2)), numpy.ones((1, 1)), (4, 4), down=2)
    array([[1., 0., 1., 0.],
           [0., 0., 0., 0.],
           [1., 0., 1., 0.],
           [0., 0., 0., 0.]])
    """
    x = _lend_shape("UpFirDn2dGradient", "input_shape", input_shape, _float_dtype(dy))
    return _UPFIRDN2D_GRADIENT((dy, _square(kernel, dy), x), (up, down, pad, flip_kernel, gain, border), out)


def upfirdn2d_kernel_gradient(
    x: Array,
    dy: Array,
    kernel_shape: Sequence[int],
    up: int | tuple[int, int] = 1,
    down: int | tuple[int, int] = 1,
    pad: int | Sequence[int] = (0, 0),
    *,
    flip_kernel: bool = False,
    gain: float = 1.0,
    border: str = "constant",
    dtype: DTypeLike | None = None,
    out: Array | None = None,
) -> Array:
    """Return the gradient of `upfirdn2d` with respect to its 2-D kernel.

    Args:
        x: (..., H, W), the forward input.
        dy: (..., OH, OW), the gradient of the output.
        kernel_shape: (KH, KW). A 1-D kernel enters twice and has no such gradient.
        up: as in the forward.
        down: as in the forward.
        pad: as in the forward.
        flip_kernel: as in the forward.
        gain: as in the forward.
        border: as in the forward.
        dtype: the kernel's dtype; by default float64 for a float64 x, else float32.
        out: an array of ``kernel_shape`` and ``dtype`` to write to.

    Returns:
        An array of ``kernel_shape`` and ``dtype``.

    >>> import numpy, firelu
    >>> firelu.upfirdn2d_kernel_gradient(numpy.ones((3, 3)), numpy.ones((2, 2)), (2, 2))
    array([[4., 4.],
           [4., 4.]])
    """
    if np.ndim(kernel_shape) != 1 or len(kernel_shape) != 2:
        raise ArgumentError(
            f"UpFirDn2dKernelGradient: kernel_shape: got {kernel_shape!r}, takes (KH, KW): a 1-D kernel is "
            "quadratic in its taps and has no bilinear gradient"
        )
    if dtype is None:
        dtype = np.float64 if _float_dtype(x) == np.float64 else np.float32
    kernel = _lend_shape("UpFirDn2dKernelGradient", "kernel_shape", kernel_shape, dtype)
    return _UPFIRDN2D_KERNEL_GRADIENT((x, dy, kernel), (up, down, pad, flip_kernel, gain, border), out)
