"""The CUDA driver library itself, for what firelu does not offer: events, streams and graphs."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import firelu

__all__ = ["Driver"]


class Driver:
    """The driver of the first GPU, its context current until `close`."""

    def __init__(self) -> None:
        firelu.Tensor([0.0], device="cuda:0")  # starts the driver
        self.library = ctypes.CDLL("libcuda.so.1")
        context = ctypes.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self.call("cuCtxSetCurrent", context)

    def close(self) -> None:
        """Leave the context."""
        self.call("cuCtxSetCurrent", None)

    def call(self, name: str, *arguments: Any) -> None:
        """Call one function, and raise `DeviceError` if it fails."""
        code = getattr(self.library, name)(*arguments)
        if code != 0:
            raise firelu.DeviceError(f"cuda:0: {name}: error {code}")

    def made(self, name: str, *arguments: Any) -> ctypes.c_void_p:
        """Call a function that makes something, and return its handle."""
        handle = ctypes.c_void_p()
        self.call(name, ctypes.byref(handle), *arguments)
        return handle

    def milliseconds(self, work: Callable[[], object], repeats: int) -> float:
        """Time work on the default stream, by events around all repeats."""
        first, last, elapsed = self.made("cuEventCreate", 0), self.made("cuEventCreate", 0), ctypes.c_float()
        self.call("cuEventRecord", first, None)
        for _ in range(repeats):
            work()
        self.call("cuEventRecord", last, None)
        self.call("cuEventSynchronize", last)
        self.call("cuEventElapsedTime", ctypes.byref(elapsed), first, last)
        for event in (first, last):
            self.call("cuEventDestroy_v2", event)
        return elapsed.value / repeats

    def copy_milliseconds(self, moved: int, repeats: int) -> float:
        """Time a copy on the device that reads and writes `moved` bytes in all."""
        memory, half = self.made("cuMemAlloc_v2", ctypes.c_size_t(moved)), ctypes.c_size_t(moved // 2)
        target = ctypes.c_uint64((memory.value or 0) + moved // 2)

        def copy() -> None:
            self.call("cuMemcpyDtoDAsync_v2", target, memory, half, None)

        try:
            self.call("cuMemsetD8Async", memory, ctypes.c_uint8(0), ctypes.c_size_t(moved), None)
            copy()
            return self.milliseconds(copy, repeats)
        finally:
            self.call("cuMemFree_v2", memory)
