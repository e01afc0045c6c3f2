"""The operators in terms of torch's own, for exporters that know nothing of firelu.

`torch.onnx.export(dynamo=True)` takes them apart with these, so that a model leaves torch as standard ONNX. Eager
calls, `torch.compile` and `torch.export` keep firelu's kernels.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor
from torch._decomp import register_decomposition
from torch.nn import functional

from .bridge import bridged


def leaky_relu(x: Tensor, alpha: float = 0.01) -> Tensor:
    """Decompose LeakyRelu."""
    return functional.leaky_relu(x, alpha)


def fused_leaky_relu(
    x: Tensor, b: Tensor | None = None, alpha: float = 0.2, scale: float = 2**0.5, axis: int = 1
) -> Tensor:
    """Decompose FusedLeakyRelu."""
    if b is not None:
        shape = [1] * x.dim()
        shape[axis] = -1
        x = x + b.reshape(shape).to(x.dtype)
    return functional.leaky_relu(x, alpha) * scale


def upfirdn2d(
    x: Tensor,
    k: Tensor,
    up_x: int = 1,
    up_y: int = 1,
    down_x: int = 1,
    down_y: int = 1,
    pad_x0: int = 0,
    pad_x1: int = 0,
    pad_y0: int = 0,
    pad_y1: int = 0,
    flip_kernel: bool = False,
    gain: float = 1.0,
) -> Tensor:
    """Decompose UpFirDn2d: a strided convolution over single planes, after zeros are inserted where needed."""
    *leading, height, width = x.shape
    planes = x.reshape(-1, 1, height, width)
    if up_x > 1 or up_y > 1:
        spread = functional.pad(planes.reshape(-1, height, 1, width, 1), (0, up_x - 1, 0, 0, 0, up_y - 1))
        planes = spread.reshape(-1, 1, height * up_y, width * up_x)
    if any((pad_x0, pad_x1, pad_y0, pad_y1)):
        planes = functional.pad(planes, (pad_x0, pad_x1, pad_y0, pad_y1))
    # conv2d correlates: with the kernel turned around it convolves.
    taps = k if flip_kernel else k.flip((0, 1))
    taps = taps.to(planes.dtype) * gain
    filtered = functional.conv2d(planes, taps[None, None], stride=(down_y, down_x))
    return filtered.reshape(*leading, *filtered.shape[-2:])


def add(a: Tensor, b: Tensor) -> Tensor:
    """Decompose Add."""
    return a + b


def sub(a: Tensor, b: Tensor) -> Tensor:
    """Decompose Sub."""
    return a - b


def mul(a: Tensor, b: Tensor) -> Tensor:
    """Decompose Mul."""
    return a * b


_DECOMPOSITIONS: dict[str, Callable[..., Tensor]] = {
    "LeakyRelu": leaky_relu,
    "FusedLeakyRelu": fused_leaky_relu,
    "UpFirDn2d": upfirdn2d,
    "Add": add,
    "Sub": sub,
    "Mul": mul,
}
for _name, _decomposition in _DECOMPOSITIONS.items():
    _operator = bridged(_name)
    register_decomposition(_operator.overload)(_decomposition)
    # With symbolic sizes torch takes shapes and strides from a decomposition, unless a meta function stands beside it:
    # the decomposition's strides are those of torch's kernels, not of ours.
    register_decomposition(_operator.overload, type="meta")(_operator.fake)
