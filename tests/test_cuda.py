"""CUDA where there is none, and the tests of `tests/cuda` on the emulated driver, in processes of their own."""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[1]
REAL = os.environ.get("FIRELU_TEST_GPU") == "1"


def run(*command, **environment):
    return subprocess.run(
        [sys.executable, *command],
        env={**os.environ, **environment},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_cuda_suite():
    emulated = ROOT / "target" / "emulator" / "libcuda.so"
    assert REAL or emulated.exists(), "the emulated driver is missing: run `make emulator`"
    done = run("-m", "pytest", "tests/cuda", FIRELU_CUDA_SUITE="1", FIRELU_EMULATOR_REPORT="none")
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert "passed" in done.stdout


SCRIPT = """
import firelu, numpy
assert numpy.array_equal(firelu.leaky_relu(numpy.array([-1.0, 2.0]), 0.5), [-0.5, 2.0])
print(firelu.devices()["cuda"])
for use in (lambda: firelu.Tensor([1.0], device="cuda:0"), lambda: firelu.Tensor([1.0]).to("cuda")):
    try:
        use()
    except firelu.DeviceError as error:
        print(error)
    else:
        raise AssertionError("a device was found")
"""


def without_cuda(**environment):
    done = run("-W", "error", "-c", SCRIPT, **environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    described, *errors = done.stdout.splitlines()
    reason = described.removeprefix("not usable: ")
    assert errors == [f"cuda:0: {reason}"] * 2
    return reason


@pytest.mark.skipif(REAL, reason="this machine is said to have a GPU")
def test_no_driver_at_all():
    assert without_cuda(LD_LIBRARY_PATH="") == "no CUDA driver library (libcuda) was found"


def test_a_driver_library_that_is_no_library(tmp_path):
    (tmp_path / "libcuda.so").write_text("not a library")
    (tmp_path / "libcuda.so.1").write_text("not a library")
    assert "libcuda" in without_cuda(LD_LIBRARY_PATH=str(tmp_path))


def test_a_driver_library_without_its_functions(tmp_path):
    extension = next(pathlib.Path(sys.prefix).rglob("_multiarray_umath*.so"))
    library = next((p for p in extension.parents[2].rglob("*.so*") if "lib" in p.name and p.is_file()), extension)
    # Any other shared library under the driver's name: it loads, and has none of the driver's functions.
    shutil.copy(library, tmp_path / "libcuda.so")
    reason = without_cuda(LD_LIBRARY_PATH=str(tmp_path))
    assert reason.startswith("the CUDA driver library lacks cuInit, ") or "was found" in reason


def test_a_driver_without_devices(tmp_path):
    emulated = ROOT / "target" / "emulator"
    reason = without_cuda(LD_LIBRARY_PATH=str(emulated), FIRELU_EMULATOR_DEVICES="0")
    assert "CUDA_ERROR_NO_DEVICE" in reason or "has no device" in reason
