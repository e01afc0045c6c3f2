"""What people use today on arrays: numpy, scipy and OpenCV, each only where it is installed.

OpenCV has no equal for up 2 and down 2: `pyrUp` and `pyrDown` have five taps of their own and no border of zeros.
"""

from __future__ import annotations

import importlib
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from .._firelu import get_num_threads
from .measure import Array, Run

OPENCV = "OpenCV sepFilter2D"


def installed(name: str) -> Any:
    """Give a module, or None where it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def leaky_relu_peers(x: Array) -> dict[str, Run]:
    """Give leaky ReLU as numpy users write it."""
    return {"numpy": lambda: np.where(x > 0, x, np.float32(0.2) * x)}


def fused_peers(x: Array, bias: Array) -> dict[str, Run]:
    """Give bias, leaky ReLU and scale as numpy users write it."""
    shaped = bias.reshape(1, -1, 1, 1)
    scale = np.float32(2**0.5)

    def with_numpy() -> Array:
        t: Array = x + shaped
        result: Array = np.where(t > 0, t, np.float32(0.2) * t) * scale
        return result

    return {"numpy": with_numpy}


def filter_peers(x: Array, taps: Array, up: int, down: int, pad: tuple[int, int], gain: float) -> dict[str, Run]:
    """Give an upfirdn2d call with the kernel ``outer(taps, taps)`` as scipy and OpenCV do it."""
    peers: dict[str, Run] = {}
    if signal := installed("scipy.signal"):
        scaled = (taps * np.float32(gain**0.5)).astype(np.float32)

        def along(x: Array, axis: int) -> Any:
            size = (x.shape[axis] * up + sum(pad) - len(taps)) // down + 1
            # A full convolution begins that much before ours; zeros before the taps keep every down-th sample in step.
            early = len(taps) - 1 - pad[0]
            late = -early % down
            full = signal.upfirdn(np.concatenate([np.zeros(late, np.float32), scaled]), x, up, down, axis=axis)
            first = (early + late) // down
            wanted = [slice(None)] * x.ndim
            wanted[axis] = slice(first, first + size)
            return full[tuple(wanted)]

        peers["scipy upfirdn"] = lambda: along(along(x, -2), -1)
    same_size = up == down == 1 and gain == 1 and pad == (len(taps) // 2, (len(taps) - 1) // 2)
    turned = np.ascontiguousarray(taps[::-1])  # both correlate
    if same_size and (ndimage := installed("scipy.ndimage")):

        def with_scipy() -> Any:
            vertical = ndimage.correlate1d(x, turned, axis=-2, mode="constant")
            return ndimage.correlate1d(vertical, turned, axis=-1, mode="constant")

        peers["scipy correlate1d"] = with_scipy
    if same_size and (cv2 := installed("cv2")):
        peers[OPENCV] = _with_opencv(cv2, x, turned)
    return peers


def _with_opencv(cv2: Any, x: Array, taps: Array) -> Run:
    """Give OpenCV's filter at its best: into memory that is given, planes on as many threads as firelu has.

    Its own threads are switched off: they do not divide one plane, and were slower here than whole planes in turn.
    """
    output = np.empty_like(x)
    planes, outputs = (array.reshape(-1, *x.shape[-2:]) for array in (x, output))
    threads = get_num_threads()
    workers = ThreadPoolExecutor(threads)
    cv2.setNumThreads(1)

    def some(first: int) -> None:
        for plane, target in zip(planes[first::threads], outputs[first::threads], strict=True):
            cv2.sepFilter2D(plane, -1, taps, taps, dst=target, borderType=cv2.BORDER_CONSTANT)

    def run() -> Array:
        list(workers.map(some, range(threads)))
        return output

    return run
