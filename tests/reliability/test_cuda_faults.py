"""Every call of the CUDA driver failing in turn, in a forward and backward run on the emulated driver."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

import firelu
import pytest
from record import record

EMULATOR = pathlib.Path(__file__).parents[2] / "target" / "emulator"
pytestmark = pytest.mark.skipif(
    not (EMULATOR / "libcuda.so.1").exists() or "cuda" not in firelu.schema("LeakyRelu").devices,
    reason="the emulated driver is not built: make emulator",
)

COMMON = """
import ctypes, gc, itertools, json, os, sys
import numpy as np
import firelu
driver = ctypes.CDLL("libcuda.so.1", mode=ctypes.RTLD_GLOBAL)
driver.firelu_emulator_leaks.restype = ctypes.c_size_t
driver.firelu_emulator_calls.restype = ctypes.c_uint64
X = np.linspace(-1, 1, 2 * 3 * 6 * 6, dtype=np.float32).reshape(2, 3, 6, 6)
K = np.outer([1, 3, 3, 1], [1, 3, 3, 1]).astype(np.float32) / 64
class Foreign:
    def __init__(self, tensor):
        self.tensor, self.__cuda_array_interface__ = tensor, {**tensor.__cuda_array_interface__, "stream": 2}
def step():
    t = firelu.Tensor(X, device="cuda:0", requires_grad=True)
    b = firelu.Tensor(np.ones(3, np.float32), device="cuda:0", requires_grad=True)
    k = firelu.Tensor(K, device="cuda:0")
    y = firelu.nn.functional.fused_leaky_relu(firelu.nn.functional.leaky_relu(t, 0.2), b)
    y = firelu.nn.functional.upfirdn2d(y, k, up=2, pad=(2, 1))
    (y * y).sum().backward()
    shared = firelu.run_operator("LeakyRelu", Foreign(k), alpha=0.5)
    shared.__dlpack__(stream=2)
    borrowed = firelu.from_dlpack(shared)
    del borrowed
    return [x.to("cpu").numpy().copy() for x in (t.grad, b.grad, shared)]
def setting(name, value):
    assert driver.firelu_emulator_set(name.encode(), value.encode()) == 0, name
def held():
    gc.collect()
    size = driver.firelu_emulator_leaks(None, ctypes.c_size_t(0))
    buffer = ctypes.create_string_buffer(size + 1)
    driver.firelu_emulator_leaks(buffer, ctypes.c_size_t(size + 1))
    return sorted(line.split(" at ")[0] for line in buffer.value.decode().splitlines())
def attempt():
    # The text alone: an exception would keep the tensors of its frames.
    try:
        return step(), ""
    except (firelu.DeviceError, MemoryError) as error:
        return None, f"{type(error).__name__}: {error}"
def is_right(result, expected):
    return all(np.array_equal(got, want) for got, want in zip(result, expected, strict=True))
def names(text, function, code):
    return function in text or (code == 2 and "out of memory: could not allocate" in text)
"""

EACH = (
    COMMON
    + """
expected = step()
step()
baseline = held()
before = driver.firelu_emulator_calls()
step()
calls = driver.firelu_emulator_calls() - before
outcome = {"calls": calls, "positions": 0, "injected": 0, "told_late": 0, "problems": []}
by_function = {}
for function, code in itertools.product(sys.argv[1].split(","), (999, 2)):
    if code == 2 and "Alloc" not in function:
        continue
    for place in itertools.count(1):
        where = f"{function}:{place}:{code}"
        # Where giving a thread's context back has failed, the device's own stays current.
        driver.cuCtxSetCurrent(None)
        setting("FAIL", where)
        result, text = attempt()
        setting("FAIL", "")
        if not text:
            # What goes wrong while memory is freed, the next call tells.
            if not is_right(result, expected):
                outcome["problems"].append(f"{where}: wrong numbers")
            text = attempt()[1]
            if not text:
                break
            outcome["told_late"] += 1
        outcome["injected"] += 1
        outcome["positions"] += code == 999
        by_function[function] = by_function.get(function, 0) + 1
        if not names(text, function, code):
            outcome["problems"].append(f"{where}: the message does not name the call: {text}")
        result, text = attempt()
        if text or not is_right(result, expected):
            outcome["problems"].append(f"{where}: the next run: {text or 'wrong numbers'}")
        if held() != baseline:
            outcome["problems"].append(f"{where}: holds {held()} instead of {baseline}")
            baseline = held()
print(json.dumps({**outcome, "by_function": by_function}))
"""
)

# A process that has used no device forks for every fault, so that each meets a first run.
FIRST = (
    COMMON
    + """
def child(where):
    if where:
        setting("FAIL", where)
        function, _, code = where.split(":")
        result, text = attempt()
        setting("FAIL", "")
        if not text:
            result, text = attempt()
        if not text:
            return "not reached"
        if not names(text, function, int(code)):
            return f"{where}: the message does not name the call: {text}"
    result, text = attempt()
    return json.dumps([text, [x.tolist() for x in result or []], held()])
def in_a_child(where):
    read, write = os.pipe()
    if os.fork() == 0:
        try:
            os.write(write, child(where).encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        answer = pipe.read()
    os.wait()
    return answer
expected = in_a_child("")
assert json.loads(expected)[0] == "", expected
outcome = {"injected": 0, "problems": []}
by_function = {}
for function in sys.argv[1].split(","):
    for place in itertools.count(1):
        answer = in_a_child(f"{function}:{place}:999")
        if answer == "not reached":
            break
        outcome["injected"] += 1
        by_function[function] = by_function.get(function, 0) + 1
        if answer != expected:
            outcome["problems"].append(f"{function}:{place}: {answer[:200]} instead of {expected[:200]}")
print(json.dumps({**outcome, "by_function": by_function}))
"""
)

LOST = (
    COMMON
    + """
expected = step()
before = driver.firelu_emulator_calls()
step()
calls = driver.firelu_emulator_calls() - before
setting("LOST_AT", str(int(calls * float(sys.argv[1])) + 1))
for _ in range(3):
    result, text = attempt()
    refused = text.startswith("DeviceError: cuda:0: ") and ": cu" in text
    print("refused" if refused else text or is_right(result, expected))
print("devices", firelu.devices()["cuda:0"])
print("cpu", firelu.leaky_relu(np.float32([-2]), 0.5)[0])
"""
)


def run(code, *args, **settings):
    environment = {
        **os.environ,
        "LD_LIBRARY_PATH": str(EMULATOR),
        "FIRELU_EMULATOR_REPORT": "none",
        **{f"FIRELU_EMULATOR_{name}": value for name, value in settings.items()},
    }
    result = subprocess.run(
        [sys.executable, "-c", code, *args], capture_output=True, text=True, timeout=900, env=environment
    )
    assert result.returncode == 0, result.stderr[-3000:]
    return result.stdout.splitlines()


# Every function of the driver that a run calls. Those that give an error its words come after a failure alone.
ONCE = ["cuDriverGetVersion", "cuInit", "cuDeviceGetCount", "cuDeviceGet", "cuDeviceGetAttribute"]
ONCE += ["cuDevicePrimaryCtxRetain", "cuModuleLoadData", "cuModuleGetFunction", "cuEventCreate"]
ONCE += ["cuMemPoolCreate", "cuMemPoolSetAttribute", "cuThreadExchangeStreamCaptureMode"]
ALWAYS = ["cuCtxGetCurrent", "cuCtxSetCurrent", "cuMemcpyHtoD", "cuMemcpyDtoH", "cuLaunchKernel"]
ALWAYS += ["cuStreamSynchronize", "cuPointerGetAttribute", "cuEventRecord", "cuStreamWaitEvent", "cuMemsetD32Async"]
# Memory that was borrowed is given back after an event, memory that was lent is taken back after one.
ALWAYS += ["cuEventQuery", "cuCtxRecordEvent", "cuThreadExchangeStreamCaptureMode"]


WITHOUT_POOLS = ["cuMemAlloc", "cuMemFree", "cuStreamIsCapturing"]


@pytest.mark.parametrize("pools", [True, False])
def test_every_call_fails_in_turn(pools):
    functions = [*ALWAYS, *(["cuMemAllocFromPoolAsync", "cuMemFreeAsync"] if pools else WITHOUT_POOLS)]
    outcome = json.loads(run(EACH, ",".join(functions), POOLS=str(int(pools)))[-1])
    name = "cuda_faults" if pools else "cuda_faults_without_pools"
    record(name, injected=outcome["injected"], told_late=outcome["told_late"], calls=outcome["calls"])
    assert outcome["problems"] == []
    # Every call of the run has failed once.
    assert (outcome["positions"], sorted(outcome["by_function"])) == (outcome["calls"], sorted(functions))


def test_every_call_of_a_first_run_fails_in_turn():
    outcome = json.loads(run(FIRST, ",".join(ONCE))[-1])
    record("cuda_faults_of_a_first_run", injected=outcome["injected"])
    assert outcome["problems"] == []
    assert sorted(outcome["by_function"]) == sorted(ONCE)


@pytest.mark.parametrize("share", ["0.0", "0.2", "0.4", "0.6", "0.8", "0.95", "0.99"])
def test_a_device_that_is_lost(share):
    first, *later, devices, cpu = run(LOST, share)
    # Lost after the last result has come to the host: those numbers are right, and the next run is told.
    assert first in (["refused"] if float(share) < 0.9 else ["refused", "True"])
    assert later == ["refused"] * 2
    assert devices.startswith("devices not usable: ")
    assert cpu == "cpu -1.0"


REFUSED = (
    COMMON
    + """
print(attempt()[1] or "computed")
print(list(firelu.devices().values())[-1])
print("cpu", firelu.leaky_relu(np.float32([-2]), 0.5)[0])
"""
)
OLD = "the CUDA driver is too old: it serves CUDA 8.0, and PTX 6.0, as which the kernels ship, needs one for CUDA 9.0"


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"DRIVER_VERSION": "8000"}, OLD),
        ({"ARCH": "30"}, "its compute capability is 3.0, and the kernels need 5.0 (Maxwell) or later"),
        ({"DEVICES": "0"}, "cuInit: CUDA_ERROR_NO_DEVICE"),
    ],
    ids=str,
)
def test_devices_that_cannot_be_used(settings, words):
    error, devices, cpu = run(REFUSED, **settings)
    assert error.startswith("DeviceError: cuda:0: ")
    assert words in error
    assert devices.startswith("not usable: ")
    assert words in devices
    assert cpu == "cpu -1.0"


@pytest.mark.parametrize("settings", [{"DRIVER_VERSION": "9000"}, {"DRIVER_VERSION": "13040"}, {"ARCH": "50"}], ids=str)
def test_the_oldest_and_the_newest_compute(settings):
    first, *_ = run(REFUSED, **settings)
    assert first == "computed"


def test_a_device_with_too_little_memory():
    error, _, cpu = run(REFUSED, MEMORY="1K")
    assert "out of memory: could not allocate" in error
    assert cpu == "cpu -1.0"


def test_the_doctor_says_why_a_driver_is_not_used():
    code = "import sys; from firelu.cli import main; sys.argv[1:] = ['doctor']; main()"
    text = " ".join(" ".join(run(code, DRIVER_VERSION="8000")).split())
    assert OLD in text
