"""What people use today for the same work: numpy, scipy, OpenCV and torch, each only where it is installed."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .measure import Run, reusing_memory

Array = np.ndarray[Any, Any]


def installed(name: str) -> Any:
    """Give a module, or None where it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def both_ways(name: str, run: Run) -> Iterator[tuple[str, Run]]:
    """Give a torch call twice: with fresh output memory, as people run it, and with memory malloc reuses."""
    yield name, run
    yield f"{name}, memory reused", reusing_memory(run)


def leaky_relu_peers(x: Array) -> dict[str, Run]:
    """Give numpy's and torch's leaky ReLU."""
    peers: dict[str, Run] = {"numpy": lambda: np.where(x > 0, x, np.float32(0.2) * x)}
    if torch := installed("torch"):
        tensor = torch.from_numpy(x)
        relu = torch.nn.functional.leaky_relu
        peers |= dict(both_ways("torch", lambda: relu(tensor, 0.2)))
    return peers


def fused_peers(x: Array, bias: Array) -> dict[str, Run]:
    """Give bias, leaky ReLU and scale as numpy and torch users write it."""
    shaped = bias.reshape(1, -1, 1, 1)
    scale = np.float32(2**0.5)

    def with_numpy() -> Array:
        t: Array = x + shaped
        result: Array = np.where(t > 0, t, np.float32(0.2) * t) * scale
        return result

    peers: dict[str, Run] = {"numpy": with_numpy}
    if torch := installed("torch"):
        tensor, torch_bias = torch.from_numpy(x), torch.from_numpy(bias).reshape(1, -1, 1, 1)

        def eager(tensor: Any, torch_bias: Any) -> Any:
            return torch.nn.functional.leaky_relu(tensor + torch_bias, 0.2) * 2**0.5

        peers |= dict(both_ways("torch eager", lambda: eager(tensor, torch_bias)))
        compiled = torch.compile(eager)
        peers |= dict(both_ways("torch.compile", lambda: compiled(tensor, torch_bias)))
    return peers


def blur_peers(x: Array, taps: Array) -> dict[str, Run]:
    """Give a separable blur as scipy, OpenCV and torch do it."""
    peers: dict[str, Run] = {}
    if ndimage := installed("scipy.ndimage"):

        def with_scipy() -> None:
            ndimage.convolve1d(ndimage.convolve1d(x, taps, axis=-2, mode="constant"), taps, axis=-1, mode="constant")

        peers["scipy"] = with_scipy
    if cv2 := installed("cv2"):
        planes = list(x.reshape(-1, *x.shape[-2:]))
        outputs = [np.empty_like(plane) for plane in planes]

        def with_opencv() -> None:
            for plane, output in zip(planes, outputs, strict=True):
                cv2.sepFilter2D(plane, -1, taps, taps, dst=output, borderType=cv2.BORDER_CONSTANT)

        peers["OpenCV sepFilter2D"] = with_opencv
    return peers | torch_filter_peers(x, taps, up=1, down=1, pad=(2, 1))


def torch_filter_peers(x: Array, taps: Array, up: int, down: int, pad: tuple[int, int]) -> dict[str, Run]:
    """Give the formula of the documents and grouped convolutions in torch."""
    torch = installed("torch")
    if torch is None:
        return {}
    functional = torch.nn.functional
    tensor = torch.from_numpy(x)
    kernel = torch.from_numpy(np.outer(taps, taps))
    channels = x.shape[1]
    grouped = kernel.flip(0, 1).repeat(channels, 1, 1, 1)

    def convolution(tensor: Any) -> Callable[[], Any]:
        if up > 1:
            transposed = kernel.repeat(channels, 1, 1, 1)
            return lambda: functional.conv_transpose2d(tensor, transposed, stride=up, groups=channels)
        padded = (pad[0], pad[1], pad[0], pad[1])
        return lambda: functional.conv2d(functional.pad(tensor, padded), grouped, stride=down, groups=channels)

    def documents_formula() -> Any:
        """Insert zeros, pad, one large convolution over planes, keep every ``down``-th sample."""
        planes = tensor.reshape(-1, 1, *tensor.shape[2:])
        if up > 1:
            wide = planes.new_zeros(planes.shape[0], 1, planes.shape[2] * up, planes.shape[3] * up)
            wide[:, :, ::up, ::up] = planes
            planes = wide
        planes = functional.pad(planes, (pad[0], pad[1], pad[0], pad[1]))
        result = functional.conv2d(planes, kernel.flip(0, 1)[None, None])
        return result[:, :, ::down, ::down].contiguous()

    peers = dict(both_ways("torch formula", documents_formula))
    peers |= dict(both_ways("torch grouped conv", convolution(tensor)))
    last = tensor.to(memory_format=torch.channels_last)
    return peers | dict(both_ways("torch channels_last conv", convolution(last)))
