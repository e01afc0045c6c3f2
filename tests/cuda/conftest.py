"""A CUDA device for these tests: the emulated driver, or with FIRELU_TEST_GPU=1 a real one.

They run in a process of their own (`tests/test_cuda.py` starts it), because a driver once found stays found.
"""

from __future__ import annotations

import ctypes
import os
import pathlib

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

    def fail(self, calls: str) -> None:
        """Make driver calls fail, such as ``cuMemAllocAsync:1:2``: function, which call, error code."""
        if self.library is None:
            pytest.skip("a real driver does not fail on demand")
        assert self.library.firelu_emulator_set(b"FAIL", calls.encode()) == 0


_emulator = Emulator() if os.environ.get("FIRELU_CUDA_SUITE") == "1" else None


@pytest.fixture(autouse=True)
def emulator():
    """Give the emulator and check that it has found nothing wrong in the test."""
    _emulator.reports()
    yield _emulator
    assert _emulator.reports() == ""
