"""The cases on arrays: the shapes people run, each with the highest acceptable ratio to the copy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .. import activations, functional, kernels
from .._firelu import get_cpu_level
from . import peers
from .measure import Array, Case, Run

Build = Callable[[bool], Case]

TAPS: Array = np.array([1, 3, 3, 1], np.float32) / np.float32(8)


def _random(shape: tuple[int, ...], dtype: Any = np.float32) -> Array:
    values: Array = np.random.default_rng(0).standard_normal(shape, np.float32).astype(dtype)
    return values


def _channels_last(x: Array) -> Array:
    return np.ascontiguousarray(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)


def _leaky(name: str, elements: int, dtype: Any, goal: float | None) -> tuple[str, Build]:
    def build(with_peers: bool) -> Case:
        x = _random((elements,), dtype)
        out = np.empty_like(x)
        compared = peers.leaky_relu_peers(x) if with_peers and x.dtype == np.float32 else {}
        return Case(
            name,
            2 * x.nbytes,
            lambda: functional.leaky_relu(x, 0.2, out=out),
            lambda: functional.leaky_relu(x, 0.2),
            compared,
            goal,
        )

    return name, build


def _fused_forward(with_peers: bool) -> Case:
    x, bias = _random((1, 64, 1024, 1024)), _random((64,))
    out = np.empty_like(x)
    return Case(
        "fused forward",
        2 * x.nbytes,
        lambda: functional.fused_leaky_relu(x, bias, out=out),
        lambda: functional.fused_leaky_relu(x, bias),
        peers.fused_peers(x, bias) if with_peers else {},
        1.10,
    )


def _fused_backward(with_peers: bool) -> Case:
    y, dy = _random((1, 64, 1024, 1024)), _random((1, 64, 1024, 1024))
    out = (np.empty_like(y), np.empty(64, np.float32))
    return Case(
        "fused backward with bias",
        3 * y.nbytes,
        lambda: functional.fused_leaky_relu_gradient(y, dy, out=out),
        lambda: functional.fused_leaky_relu_gradient(y, dy),
        goal=1.25,
    )


#: Activations that no polynomial is computed for.
_SIMPLE = ("linear", "relu", "lrelu")


def _activation(act: str) -> Iterator[tuple[str, Build]]:
    """Give the forward and the gradient with its bias sums of one activation."""
    shape, name = (1, 64, 512, 512), f"bias_act {act}"

    def calls(x: Array, bias: Array, out: Array) -> tuple[Run, Run]:
        return (
            lambda: activations.bias_act(x, bias, act, out=out),
            lambda: activations.bias_act(x, bias, act),
        )

    def forward(with_peers: bool) -> Case:
        x, bias = _random(shape), _random((64,))
        goal = 1.15 if act in _SIMPLE else 1.5 if get_cpu_level() == "avx512" else 2.0
        return Case(name, 2 * x.nbytes, *calls(x, bias, np.empty_like(x)), {}, goal)

    def gradient(with_peers: bool) -> Case:
        x, dy, bias = _random(shape), _random(shape), _random((64,))
        out = (np.empty_like(x), np.empty(64, np.float32))
        return Case(
            f"{name}: gradient",
            3 * x.nbytes,
            lambda: activations.bias_act_gradient(x, dy, bias, act, out=out),
            lambda: activations.bias_act_gradient(x, dy, bias, act),
            of_forward=(2.1, *calls(x, bias, np.empty_like(x))),
        )

    yield name, forward
    yield f"{name}: gradient", gradient


def _snake() -> Iterator[tuple[str, Build]]:
    """Give snake and its gradient with the sums of frequencies and divisors."""

    def arrays() -> tuple[Array, Array, Array]:
        return _random((1, 64, 262_144)), _random((64,)) * np.float32(0.1), _random((64,)) * np.float32(0.1)

    def calls(x: Array, alpha: Array, beta: Array, out: Array) -> tuple[Run, Run]:
        return (
            lambda: activations.snake(x, alpha, beta, logscale=True, out=out),
            lambda: activations.snake(x, alpha, beta, logscale=True),
        )

    def forward(with_peers: bool) -> Case:
        x, alpha, beta = arrays()
        goal = 1.5 if get_cpu_level() == "avx512" else 2.0
        return Case("snake", 2 * x.nbytes, *calls(x, alpha, beta, np.empty_like(x)), {}, goal)

    def gradient(with_peers: bool) -> Case:
        x, alpha, beta = arrays()
        dy, out = _random(x.shape), np.empty_like(x)
        return Case(
            "snake: gradient",
            3 * x.nbytes,
            lambda: activations.snake_gradient(x, dy, alpha, beta, logscale=True, out=out),
            lambda: activations.snake_gradient(x, dy, alpha, beta, logscale=True),
            of_forward=(2.1, *calls(x, alpha, beta, np.empty_like(x))),
        )

    yield "snake", forward
    yield "snake: gradient", gradient


def _filter(
    name: str,
    shape: tuple[int, ...],
    goal: float,
    kernel: Array | None = None,
    up: int = 1,
    down: int = 1,
    pad: tuple[int, int] | None = None,
    dtype: Any = np.float32,
    channels_last: bool = False,
    compare: bool = False,
) -> Iterator[tuple[str, Build]]:
    """Give the forward, the input gradient and the kernel gradient of one upfirdn2d call."""
    kernel = np.outer(TAPS, TAPS) if kernel is None else kernel
    if pad is None:
        centred = kernels._centred((kernel.shape[1], kernel.shape[0]), (max(up, down),) * 2, int(up > 1))
        pad = (centred[0], centred[1])
    arguments: dict[str, Any] = {"up": up, "down": down, "pad": pad}
    gain = float(up * up)

    def arrays() -> tuple[Array, Array]:
        x = _random(shape, dtype)
        if channels_last:
            x = _channels_last(x)
        return x, functional.upfirdn2d(x, kernel, **arguments, gain=gain)

    def calls(x: Array, y: Array) -> tuple[Run, Run]:
        return (
            lambda: functional.upfirdn2d(x, kernel, **arguments, gain=gain, out=y),
            lambda: functional.upfirdn2d(x, kernel, **arguments, gain=gain),
        )

    def forward(with_peers: bool) -> Case:
        x, y = arrays()
        compared = peers.filter_peers(x, TAPS, up, down, pad, gain) if with_peers and compare else {}
        return Case(
            name,
            x.nbytes + y.nbytes,
            *calls(x, y),
            compared,
            goal,
        )

    def input_gradient(with_peers: bool) -> Case:
        x, dy = arrays()
        y, dx = np.empty_like(dy), np.empty_like(x)
        return Case(
            f"{name}: input gradient",
            x.nbytes + dy.nbytes,
            lambda: functional.upfirdn2d_gradient(dy, kernel, x.shape, **arguments, gain=gain, out=dx),
            lambda: functional.upfirdn2d_gradient(dy, kernel, x.shape, **arguments, gain=gain),
            of_forward=(1.2, *calls(x, y)),
        )

    def kernel_gradient(with_peers: bool) -> Case:
        x, dy = arrays()
        y, dk = np.empty_like(dy), np.empty(kernel.shape, np.float32)
        return Case(
            f"{name}: kernel gradient",
            x.nbytes + dy.nbytes,
            lambda: functional.upfirdn2d_kernel_gradient(x, dy, kernel.shape, **arguments, gain=gain, out=dk),
            lambda: functional.upfirdn2d_kernel_gradient(x, dy, kernel.shape, **arguments, gain=gain),
            of_forward=(3.0, *calls(x, y)),
        )

    yield name, forward
    yield f"{name}: input gradient", input_gradient
    yield f"{name}: kernel gradient", kernel_gradient


def _long_taps() -> Array:
    window = np.hanning(14)[1:-1].astype(np.float32)
    kernel: Array = np.outer(window, window) / window.sum() ** 2
    return kernel


def all_cases() -> dict[str, Build]:
    """Give every case by name, in the order of the table."""
    not_separable = np.outer(TAPS, TAPS)
    not_separable[0, 0] += np.float32(0.1)
    half = np.float16
    cases: dict[str, Build] = dict(
        [
            _leaky("leaky relu", 1 << 26, np.float32, 1.10),
            _leaky("leaky relu float16", 1 << 26, np.float16, 1.25),
            ("fused forward", _fused_forward),
            ("fused backward with bias", _fused_backward),
        ]
    )
    if ml_dtypes := peers.installed("ml_dtypes"):
        cases |= dict([_leaky("leaky relu bfloat16", 1 << 26, ml_dtypes.bfloat16, 2.0)])
    for act in ("linear", "relu", "lrelu", "tanh", "sigmoid", "elu", "selu", "softplus", "swish"):
        cases |= dict(_activation(act))
    cases |= dict(_snake())
    large = (1, 64, 512, 512)
    for group in (
        _filter("blur 4x4", large, 1.25, pad=(2, 1), compare=True),
        _filter("blur 4x4, odd width", (1, 64, 512, 509), 1.4, pad=(2, 1)),
        _filter("up 2", (1, 64, 256, 256), 1.6, up=2, compare=True),
        _filter("down 2", large, 1.45, down=2, compare=True),
        _filter("rgb up 2", (1, 3, 512, 512), 2.0, up=2),
        _filter("16x16 planes up 2", (4, 512, 16, 16), 3.0, up=2),
        _filter("12x12 separable up 2", (1, 64, 128, 128), 3.3, _long_taps(), up=2),
        _filter("non-separable 4x4 blur", large, 1.5, not_separable, pad=(2, 1)),
        _filter("up 2 and down 2", (1, 64, 256, 256), 3.2, up=2, down=2, pad=(2, 1)),
        _filter("up 3", (1, 64, 192, 192), 3.2, up=3),
        _filter("up 4", (1, 64, 128, 128), 3.2, up=4),
        _filter("down 3", (1, 64, 510, 510), 3.2, down=3),
        _filter("down 4", large, 3.2, down=4),
        _filter("blur 4x4 float16", large, 3.0, pad=(2, 1), dtype=half),
        _filter("up 2 float16", (1, 64, 256, 256), 3.2, up=2, dtype=half),
        _filter("down 2 float16", large, 3.2, down=2, dtype=half),
        _filter("blur 4x4 channels_last", large, 3.0, pad=(2, 1), channels_last=True),
        _filter("up 2 channels_last", (1, 64, 256, 256), 3.2, up=2, channels_last=True),
        _filter("down 2 channels_last", large, 3.2, down=2, channels_last=True),
    ):
        cases |= dict(group)
    # Not before: a module that the package has imported cannot be run by its name without a warning.
    from .resampling_cases import resampling_cases

    return cases | dict(resampling_cases())
