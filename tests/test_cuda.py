"""CUDA where there is none, and the tests of `tests/cuda` on the emulated driver, in processes of their own."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import firelu
import pytest

ROOT = pathlib.Path(__file__).parents[1]
REAL = os.environ.get("FIRELU_TEST_GPU") == "1"
EMULATED = ROOT / "target" / "emulator" / "libcuda.so"


def run(*command, **environment):
    return subprocess.run(
        [sys.executable, *command],
        env={**os.environ, **environment},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


def run_the_suite(marks):
    assert REAL or EMULATED.exists(), "the emulated driver is missing: run `make emulator`"
    done = run("-m", "pytest", "tests/cuda", "-m", marks, FIRELU_CUDA_SUITE="1", FIRELU_EMULATOR_REPORT="none")
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert "passed" in done.stdout


def test_the_cuda_suite():
    run_the_suite("not full")


@pytest.mark.full
def test_the_rest_of_the_cuda_suite():
    run_the_suite("full")


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
    reason = without_cuda(LD_LIBRARY_PATH=str(tmp_path))
    assert reason.startswith(f"the CUDA driver library {tmp_path}/libcuda.so")
    assert "cannot be loaded" in reason


def test_a_library_of_another_kind(tmp_path):
    # It loads, and has none of the driver's functions.
    other = next(pathlib.Path(firelu.__file__).parent.glob("_firelu*.so"))
    shutil.copy(other, tmp_path / "libcuda.so")
    reason = without_cuda(LD_LIBRARY_PATH=str(tmp_path))
    assert reason.startswith("the CUDA driver library lacks cuInit, cuDriverGetVersion, ")


# Each name that is looked up, and lengths from a few headers to all but the last byte.
@pytest.mark.parametrize("name", ["libcuda.so", "libcuda.so.1"])
@pytest.mark.parametrize("part", [0.001, 0.25, 0.5, 0.75, 0.999999])
def test_a_part_of_a_library(part, name, tmp_path):
    whole = EMULATED.read_bytes()
    length = int(len(whole) * part)
    (tmp_path / name).write_bytes(whole[:length])
    # Loaded all the same, its missing pages would end the process with SIGBUS.
    expected = f"the CUDA driver library {tmp_path / name} is cut short: it has {length} bytes of {len(whole)}"
    assert without_cuda(LD_LIBRARY_PATH=str(tmp_path)) == expected


def test_a_library_for_another_processor(tmp_path):
    whole = bytearray(EMULATED.read_bytes())
    whole[18:20] = (243).to_bytes(2, "little")  # the machine in the ELF header: RISC-V
    (tmp_path / "libcuda.so").write_bytes(whole)
    reason = without_cuda(LD_LIBRARY_PATH=str(tmp_path))
    expected = f"the CUDA driver library {tmp_path}/libcuda.so cannot be loaded: it is no library for this processor"
    assert reason.startswith(expected)


REQUIRED = re.findall(
    r'^    "(cu\w+)",$', (ROOT / "src/devices/cuda/available.rs").read_text(encoding="utf-8"), flags=re.MULTILINE
)


def library_without(function, folder):
    """Leave the emulated driver in a folder, with one function under another name."""
    whole, name = EMULATED.read_bytes(), b"\0" + function.encode() + b"\0"
    assert name in whole
    # A name of the same hash (33 c + u = 33 d + T): the linker's tables stay right, and the library loads.
    (folder / "libcuda.so").write_bytes(whole.replace(name, name.replace(b"cu", b"dT", 1)))
    return str(folder)


@pytest.mark.parametrize("function", REQUIRED)
def test_a_driver_library_that_lacks_a_function(function, tmp_path):
    reason = without_cuda(LD_LIBRARY_PATH=library_without(function, tmp_path))
    assert reason == f"the CUDA driver library lacks {function}"


@pytest.mark.parametrize("function", ["cuMemAllocAsync", "cuMemPoolCreate", "cuThreadExchangeStreamCaptureMode"])
def test_a_driver_library_without_pools_or_graphs(function, tmp_path):
    code = "import firelu; print(firelu.Tensor([-2.0], device='cuda:0').to('cpu').numpy()[0])"
    done = run("-c", code, LD_LIBRARY_PATH=library_without(function, tmp_path))
    assert (done.stdout, done.stderr) == ("-2.0\n", "")


def test_a_driver_without_devices():
    reason = without_cuda(LD_LIBRARY_PATH=str(EMULATED.parent), FIRELU_EMULATOR_DEVICES="0")
    assert "CUDA_ERROR_NO_DEVICE" in reason


@pytest.mark.skipif(REAL, reason="the emulated driver alone can be told to answer as a stub does")
def test_a_stub_of_the_toolkit_is_named():
    code = "import firelu; print(firelu.devices()['cuda'])"
    settings = {"LD_LIBRARY_PATH": str(EMULATED.parent), "FIRELU_EMULATOR_FAIL": "cuDriverGetVersion:1:34"}
    assert run("-c", code, **settings).stdout == (
        f"not usable: the CUDA driver library {EMULATED} is a stub of the CUDA toolkit, for linking alone: "
        "take its folder out of LD_LIBRARY_PATH, so that the driver's own library is found\n"
    )


FORK = """
import ctypes, os, signal
import firelu, numpy
x = firelu.Tensor([-1.0, 2.0], device="cuda:0")
driver, buffer = ctypes.CDLL("libcuda.so"), ctypes.create_string_buffer(1 << 16)

def calls():
    driver.firelu_emulator_call_counts(buffer, ctypes.c_size_t(len(buffer)))
    return buffer.value

def child():
    uses = (
        lambda: firelu.run_operator("LeakyRelu", x),
        lambda: firelu.Tensor([1.0], device="cuda:0"),
        lambda: x.to("cpu"),
        lambda: x * 2.0,
        lambda: x.__dlpack__(stream=2),
    )
    for use in uses:
        try:
            use()
        except firelu.DeviceError as error:
            print(error)
        else:
            print("the device answered")
    print(firelu.devices()["cuda"])
    globals().pop("x")  # freed by the parent alone
    print(firelu.leaky_relu(numpy.array([-1.0]), 0.5), flush=True)

def fork(inside):
    number = os.fork()
    if number == 0:
        signal.alarm(60)  # ends a child that waits for ever
        inside()
        os._exit(0)
    assert os.waitpid(number, 0)[1] == 0

def counted():
    before = calls()
    child()
    assert calls() == before

fork(counted)
print(x.to("cpu").numpy(), flush=True)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.skipif(REAL, reason="calls are counted by the emulated driver alone")
def test_a_forked_process_is_told_to_spawn():
    done = run("-W", "ignore::DeprecationWarning", "-c", FORK, LD_LIBRARY_PATH=str(EMULATED.parent))
    assert (done.returncode, done.stderr) == (0, "")
    reason = "this process was forked from one that had started CUDA, which no fork survives: "
    reason += 'start processes with the method "spawn"'
    child = [*[f"cuda:0: {reason}"] * 5, f"not usable: {reason}", "[-0.5]"]
    assert done.stdout.splitlines() == [*child, "[-1.  2.]"]


DOCTOR = "import sys; from firelu.cli import main; sys.exit(main(['doctor', '--cuda-selftest']))"


@pytest.mark.skipif(REAL, reason="faults are injected into the emulated driver alone")
def test_the_doctor_tells_what_the_selftest_found():
    settings = {"LD_LIBRARY_PATH": str(EMULATED.parent), "FIRELU_EMULATOR_REPORT": "none"}
    done = run("-c", DOCTOR, **settings)
    assert done.returncode == 0, done.stdout + done.stderr
    text = " ".join(done.stdout.split())
    assert re.search(r"self-test \d+ results of 20 operators agree", text), text
    assert "every kernel that ships was loaded" in text
    failed = run("-c", DOCTOR, **settings, FIRELU_EMULATOR_FAIL="cuLaunchKernel:40:719")
    assert failed.returncode == 1, failed.stdout + failed.stderr
    assert "Problem: the self-test of the CUDA kernels: cuda:0: launching " in failed.stdout
    assert "cuLaunchKernel: CUDA_ERROR_LAUNCH_FAILED" in failed.stdout


@pytest.mark.skipif(REAL, reason="this machine is said to have a GPU")
def test_the_selftest_where_there_is_no_gpu():
    done = run("-c", DOCTOR, LD_LIBRARY_PATH="")
    assert done.returncode == 1
    assert "Problem: the self-test of the CUDA kernels: cuda:0: no CUDA driver library" in done.stdout
    assert done.stderr == ""


@pytest.mark.skipif(REAL, reason="calls are counted by the emulated driver alone")
def test_asking_for_devices_starts_none():
    code = """
import ctypes, firelu
driver = ctypes.CDLL("libcuda.so")
assert len(firelu.devices()) == 9, firelu.devices()
buffer = ctypes.create_string_buffer(1 << 16)
driver.firelu_emulator_call_counts(buffer, ctypes.c_size_t(len(buffer)))
names = buffer.value.decode().split()[::2]
assert "cuDevicePrimaryCtxRetain" not in names and "cuModuleLoadData" not in names, names
status = firelu.cuda_status(load="cuda:3")
assert [each["kernels_load"] for each in status["devices"]] == [None] * 3 + [True] + [None] * 4
driver.firelu_emulator_leaks(buffer, ctypes.c_size_t(len(buffer)))
print(buffer.value.decode().count("a context of device"))
"""
    done = run("-c", code, LD_LIBRARY_PATH=str(EMULATED.parent), FIRELU_EMULATOR_DEVICES="8")
    assert (done.stdout, done.stderr) == ("1\n", "")


REPORT = "import sys; from firelu.cli import main; sys.exit(main(['doctor', '--gpu-report', sys.argv[1]]))"

# The same, with the modules told that are loaded while a stream is captured.
COUNTED_REPORT = """
import ctypes, firelu
from firelu.cli import gpu_parts
driver, buffer, capture = ctypes.CDLL("libcuda.so.1"), ctypes.create_string_buffer(1 << 16), gpu_parts.capture
def loads():
    driver.firelu_emulator_call_counts(buffer, ctypes.c_size_t(len(buffer)))
    return int(dict(map(str.split, buffer.value.decode().splitlines())).get("cuModuleLoadData", 0))
def counted(of):
    before = loads()
    found = capture(of)
    print("loaded in the capture:", loads() - before)
    return found
gpu_parts.capture = counted
""" + REPORT.replace("; ", "\n")


@pytest.mark.skipif(REAL, reason="the emulated driver alone is quick and the same everywhere")
def test_the_report_of_a_gpu(tmp_path):
    path = tmp_path / "report.json"
    done = run("-c", COUNTED_REPORT, str(path), LD_LIBRARY_PATH=str(EMULATED.parent), FIRELU_EMULATOR_REPORT="none")
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(path.read_text(encoding="utf-8"))
    assert (report["side_stream"], report["capture"]) == ("right", "goes on")
    assert "loaded in the capture: 1\n" in done.stdout
    assert len(report["bench"]) == 16
    assert all(row["milliseconds"] > 0 and row["copies"] > 0 for row in report["bench"])
    assert report["selftest"]["comparisons"] > 500
    assert report["first_use_seconds"].keys() == {row["case"] for row in report["bench"]}
    assert all(seconds > 0 for seconds in report["first_use_seconds"].values())
    assert re.search(r"^self-test: \d+ results of 20 operators agree with the CPU$", done.stdout, re.MULTILINE)
    assert re.search(r"^  UpFirDn2d blur +float16 +[\d.]+ ms +[\d.]+ copies$", done.stdout, re.MULTILINE)
    assert done.stdout.count("not tried: ") == (report["torch"].startswith("not tried: "))
    nothing = run("-c", REPORT, str(path), LD_LIBRARY_PATH="")
    assert nothing.returncode == 1
    assert "Problem: cuda:0: no CUDA driver library" in nothing.stdout


SANITIZER = """#!/bin/sh
[ "$1 $3 $4" = "--tool --error-exitcode 99" ] || exit 3
tool=$2
shift 4
[ "$2 $3 $4 $5" = "-m firelu doctor --cuda-selftest" ] || exit 4
echo "========= ERROR SUMMARY: 0 errors"
[ $tool != racecheck ] || { echo "========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)"; exit 99; }
"""


def test_what_compute_sanitizer_finds_is_told(tmp_path, monkeypatch):
    """A stand-in for the program, which takes what it is given as that of the toolkit does."""
    from firelu.cli import gpu_parts, gpu_report

    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(firelu.DeviceError, match="compute-sanitizer is not on the path"):
        gpu_parts.sanitize()
    (tmp_path / "compute-sanitizer").write_text(SANITIZER, encoding="utf-8")
    (tmp_path / "compute-sanitizer").chmod(0o755)
    found = gpu_parts.sanitize()
    assert found["memcheck"] == found["initcheck"] == found["synccheck"] == "ERROR SUMMARY: 0 errors"
    hazard = "WRONG: exit status 99: RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)"
    assert found["racecheck"] == hazard
    assert gpu_report.problems({"compute_sanitizer": found}) == [f"compute_sanitizer: {hazard}"]


def test_a_part_of_the_report_that_failed_is_told():
    from firelu.cli import gpu_report

    device = {"name": "a GPU", "compute_capability": "8.0", "memory_bytes": 1 << 30}
    parts = {"selftest": {"error": "2 disagree"}, "side_stream": "WRONG: early", "capture": "goes on"}
    report = {"firelu": "1", "driver": "CUDA 12.9", "system": "here", "device": device, **parts}
    text = gpu_report.summary(report)
    assert "a GPU, compute capability 8.0, 1.0 GiB" in text
    assert "selftest: FAILED: 2 disagree" in text
    assert gpu_report.problems(report) == ["selftest: 2 disagree", "side_stream: WRONG: early"]
