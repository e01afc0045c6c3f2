"""How much memory a large call takes beyond its input and output: measured as the peak of a process of its own."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from .. import functional
from .cases import TAPS
from .measure import Array

#: What a call may take beyond its input and its output.
ALLOWED = 8 << 20
_STATUS = Path("/proc/self/status")
_RESET = Path("/proc/self/clear_refs")


def _resident(which: str) -> int:
    """Give the bytes now in memory (VmRSS), or the most there were (VmHWM)."""
    match = re.search(rf"^{which}:\s+(\d+) kB$", _STATUS.read_text(), re.MULTILINE)
    if match is None:
        raise OSError(f"{_STATUS} has no {which}")
    return int(match[1]) << 10


def can_be_measured() -> bool:
    """Say whether the system tells a process its own peak and lets it be set back."""
    return _RESET.exists() and _STATUS.exists()


def calls() -> dict[str, tuple[tuple[int, ...], Callable[[Array], Any]]]:
    """Give, by name, the shape of the input and what is done with it; the result is new memory."""
    kernel = np.outer(TAPS, TAPS)
    long_kernel = np.outer(np.hanning(14)[1:-1], np.hanning(14)[1:-1]).astype(np.float32)
    not_separable = kernel.copy()
    not_separable[0, 0] += np.float32(0.1)
    large, half = (1, 64, 1024, 1024), (1, 64, 512, 512)
    return {
        "leaky relu": (large, lambda x: functional.leaky_relu(x, 0.2)),
        "fused forward": (large, lambda x: functional.fused_leaky_relu(x, np.zeros(x.shape[1], np.float32))),
        "fused backward with bias": (large, lambda x: functional.fused_leaky_relu_gradient(x, x)),
        "blur 4x4": (large, lambda x: functional.upfirdn2d(x, kernel, pad=(2, 1))),
        "blur 4x4, strided": (large, lambda x: functional.upfirdn2d(x.swapaxes(2, 3), kernel, pad=(2, 1))),
        "non-separable 4x4 blur": (large, lambda x: functional.upfirdn2d(x, not_separable, pad=(2, 1))),
        "up 2": (half, lambda x: functional.upfirdn2d(x, kernel, up=2, pad=(2, 1))),
        "down 2": (large, lambda x: functional.upfirdn2d(x, kernel, down=2, pad=(1, 1))),
        "12x12 separable up 2": (half, lambda x: functional.upfirdn2d(x, long_kernel, up=2, pad=(6, 5))),
        "blur 4x4: input gradient": (
            large,
            lambda x: functional.upfirdn2d_gradient(x, kernel, x.shape, pad=(2, 1)),
        ),
        "blur 4x4: kernel gradient": (
            large,
            lambda x: functional.upfirdn2d_kernel_gradient(x, x, kernel.shape, pad=(2, 1)),
        ),
    }


def measure(name: str, shrink: int = 1) -> dict[str, Any]:
    """Make one call, the first of this process, and give its peak beyond what was there and what it returned.

    ``shrink`` divides the number of channels.
    """
    shape, call = calls()[name]
    x = np.ones((shape[0], shape[1] // shrink, *shape[2:]), np.float32)
    _RESET.write_text("5")  # the peak begins again from here
    before = _resident("VmRSS")
    result = call(x)
    peak = _resident("VmHWM")
    outputs = result if isinstance(result, tuple) else (result,)
    output_bytes = sum(output.nbytes for output in outputs)
    return {
        "name": name,
        "input_bytes": x.nbytes,
        "output_bytes": output_bytes,
        "extra_bytes": peak - before - output_bytes,
    }
