"""A CUDA device for these tests: the emulated driver, or with FIRELU_TEST_GPU=1 a real one.

They run in a process of their own (`tests/test_cuda.py` starts it), because a driver once found stays found.
"""

from __future__ import annotations

import ctypes
import os
import pathlib

import firelu
import pytest

REAL = os.environ.get("FIRELU_TEST_GPU") == "1"
LIBRARY = pathlib.Path(__file__).parents[2] / "target" / "emulator" / "libcuda.so"
collect_ignore_glob = [] if os.environ.get("FIRELU_CUDA_SUITE") == "1" else ["test_*.py"]


class Emulator:
    """The control interface of the emulated driver; does nothing on a real GPU."""

    def __init__(self) -> None:
        # Opened first and by its path, it is the library that firelu finds under its name.
        self.library = None if REAL else ctypes.CDLL(str(LIBRARY), mode=ctypes.RTLD_GLOBAL)

    def text(self, name: str) -> str:
        if self.library is None:
            return ""
        read = getattr(self.library, name)
        read.restype, read.argtypes = ctypes.c_size_t, [ctypes.c_void_p, ctypes.c_size_t]
        buffer = ctypes.create_string_buffer(read(None, 0) + 1)
        read(buffer, len(buffer))
        return buffer.value.decode()

    def reports(self) -> str:
        """Take what the emulator has found since the last time."""
        return self.text("firelu_emulator_reports")

    def counters(self) -> str:
        return self.text("firelu_emulator_counters")

    def calls(self) -> dict[str, int]:
        """Give the calls of each driver function so far; ``held`` are waiting ones that held the interpreter."""
        if self.library is None:
            pytest.skip("a real driver does not count")
        return {
            name: int(count) for name, count in map(str.split, self.text("firelu_emulator_call_counts").splitlines())
        }

    def fail(self, calls: str) -> None:
        """Make driver calls fail, such as ``cuMemAllocAsync:1:2``: function, which call, error code."""
        if self.library is None:
            pytest.skip("a real driver does not fail on demand")
        assert self.library.firelu_emulator_set(b"FAIL", calls.encode()) == 0


class Queue:
    """A stream of another library, non-blocking: nothing orders it but events."""

    def __init__(self) -> None:
        self.driver = _emulator.library or ctypes.CDLL("libcuda.so.1")
        firelu.Tensor([0.0], device="cuda:0")  # starts the driver
        self.context, self.handle = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), 0)
        self.call("cuCtxSetCurrent", self.context)
        self.call("cuStreamCreate", ctypes.byref(self.handle), 1)

    def call(self, name: str, *arguments: object) -> None:
        code = getattr(self.driver, name)(*arguments)
        assert code == 0, f"{name}: {code}"

    @property
    def stream(self) -> int:
        return self.handle.value

    def copy(self, target: int, source: int, size: int) -> None:
        """Copy bytes on the device, in the order of this stream."""
        arguments = [ctypes.c_uint64(target), ctypes.c_uint64(source), ctypes.c_size_t(size), self.handle]
        self.call("cuMemcpyDtoDAsync_v2", *arguments)

    def fill(self, target: int, byte: int, size: int) -> None:
        """Overwrite bytes, in the order of this stream."""
        self.call("cuMemsetD8Async", ctypes.c_uint64(target), ctypes.c_uint8(byte), ctypes.c_size_t(size), self.handle)

    def wait(self) -> None:
        self.call("cuStreamSynchronize", self.handle)

    def close(self) -> None:
        self.wait()
        self.call("cuStreamDestroy_v2", self.handle)
        self.call("cuCtxSetCurrent", None)


@pytest.fixture
def queue():
    """Give a non-blocking stream of another library."""
    queue = Queue()
    yield queue
    queue.close()


_emulator = Emulator() if os.environ.get("FIRELU_CUDA_SUITE") == "1" else None


@pytest.fixture(autouse=True)
def emulator():
    """Give the emulator and check that it has found nothing wrong in the test."""
    _emulator.reports()
    yield _emulator
    found = _emulator.reports()
    if found:
        _emulator.library.firelu_emulator_recover()  # one test's finding is not the next one's
    assert found == ""
