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
import ctypes, gc, json, sys
import numpy as np
import firelu
X = np.linspace(-1, 1, 2 * 3 * 6 * 6, dtype=np.float32).reshape(2, 3, 6, 6)
K = np.outer([1, 3, 3, 1], [1, 3, 3, 1]).astype(np.float32) / 64
def step():
    t = firelu.Tensor(X, device="cuda:0", requires_grad=True)
    b = firelu.Tensor(np.ones(3, np.float32), device="cuda:0", requires_grad=True)
    k = firelu.Tensor(K, device="cuda:0")
    y = firelu.nn.functional.fused_leaky_relu(firelu.nn.functional.leaky_relu(t, 0.2), b)
    y = firelu.nn.functional.upfirdn2d(y, k, up=2, pad=(2, 1))
    (y * y).sum().backward()
    return t.grad.to("cpu").numpy().copy(), b.grad.to("cpu").numpy().copy()
"""

EACH = (
    COMMON
    + """
driver = ctypes.CDLL("libcuda.so.1")
def setting(name, value):
    assert driver.firelu_emulator_set(name.encode(), value.encode()) == 0, name
def held():
    gc.collect()
    size = driver.firelu_emulator_leaks(None, ctypes.c_size_t(0))
    buffer = ctypes.create_string_buffer(size + 1)
    driver.firelu_emulator_leaks(buffer, ctypes.c_size_t(size + 1))
    return len(buffer.value.decode().splitlines())
driver.firelu_emulator_leaks.restype = ctypes.c_size_t
driver.firelu_emulator_calls.restype = ctypes.c_uint64
expected = step()
step()
baseline = held()
before = driver.firelu_emulator_calls()
step()
calls = driver.firelu_emulator_calls() - before
FUNCTIONS = (
    "cuCtxSetCurrent cuCtxGetCurrent cuMemAlloc cuMemAllocAsync cuMemFree cuMemFreeAsync "
    "cuMemcpyHtoD cuMemcpyHtoDAsync cuMemcpyDtoH cuMemcpyDtoHAsync cuMemcpyDtoD "
    "cuMemcpyDtoDAsync cuMemcpyAsync cuMemsetD8 cuMemsetD8Async cuMemsetD32Async "
    "cuLaunchKernel cuStreamSynchronize cuStreamWaitEvent cuStreamCreate cuStreamDestroy "
    "cuEventCreate cuEventRecord cuEventDestroy cuEventSynchronize cuEventQuery "
    "cuCtxSynchronize cuModuleGetFunction cuModuleLoadData cuModuleLoadDataEx "
    "cuFuncSetAttribute cuFuncGetAttribute cuPointerGetAttribute cuMemHostAlloc cuMemFreeHost "
).split()
outcome = {"injected": 0, "raised": 0, "survived": 0, "calls": calls, "problems": []}
for function in FUNCTIONS:
    for place in range(1, 200):
        code = 2 if "Alloc" in function else 999
        setting("FAIL", f"{function}:{place}:{code}")
        try:
            result = step()
        except (firelu.DeviceError, MemoryError) as error:
            outcome["raised"] += 1
            if "cu" not in str(error):
                outcome["problems"].append(f"{function}:{place}: the message names no call: {error}")
            triggered = True
        else:
            for got, want in zip(result, expected):
                if not np.array_equal(got, want):
                    outcome["problems"].append(f"{function}:{place}: wrong numbers")
            triggered = False
        setting("FAIL", "")
        for got, want in zip(step(), expected):
            if not np.array_equal(got, want):
                outcome["problems"].append(f"{function}:{place}: the next run is wrong")
        freeing = "Free" in function or "Destroy" in function
        if not freeing and held() > baseline:
            outcome["problems"].append(f"{function}:{place}: holds {held()} instead of {baseline}")
            baseline = held()
        if not triggered and not (freeing or "Query" in function):
            break
        outcome["injected"] += 1
        outcome["survived"] += not triggered
        if freeing and place > 12:
            break
print(json.dumps(outcome))
"""
)

LOST = (
    COMMON
    + """
driver = ctypes.CDLL("libcuda.so.1")
driver.firelu_emulator_calls.restype = ctypes.c_uint64
step()
before = driver.firelu_emulator_calls()
step()
calls = driver.firelu_emulator_calls() - before
place = int(calls * float(sys.argv[1])) + 1
assert driver.firelu_emulator_set(b"LOST_AT", str(place).encode()) == 0
for attempt in range(3):
    try:
        step()
        print("computed")
    except firelu.DeviceError as error:
        print("refused", "cu" in str(error))
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
    return subprocess.run(
        [sys.executable, "-c", code, *args], capture_output=True, text=True, timeout=280, env=environment
    )


@pytest.mark.xfail(reason="known: a failing cuCtxSetCurrent leaves one allocation behind", strict=False)
def test_every_call_fails_in_turn():
    result = run(EACH)
    assert result.returncode == 0, result.stderr[-3000:]
    outcome = json.loads(result.stdout.splitlines()[-1])
    record("cuda_faults", injected=outcome["injected"], raised=outcome["raised"], calls=outcome["calls"])
    assert outcome["problems"] == []
    assert outcome["injected"] > 20


@pytest.mark.parametrize("share", ["0.0", "0.3", "0.6"])
def test_a_device_that_is_lost(share):
    result = run(LOST, share)
    assert result.returncode == 0, result.stderr[-3000:]
    assert result.stdout.splitlines() == ["refused True"] * 3 + ["cpu -1.0"]


REFUSED = (
    COMMON
    + """
try:
    step()
    print("computed")
except firelu.DeviceError as error:
    print("DeviceError", error)
print("cpu", firelu.leaky_relu(np.float32([-2]), 0.5)[0])
"""
)


@pytest.mark.parametrize(
    "settings",
    [
        {"ARCH": "30"},
        {"DEVICES": "0"},
        {"FAIL": "cuInit:1:999"},
        {"FAIL": "cuDevicePrimaryCtxRetain:1:2"},
        {"FAIL": "cuModuleLoadData:1:999"},
        {"FAIL": "cuModuleGetFunction:1:999"},
        {"MEMORY": "1K"},
    ],
    ids=str,
)
def test_devices_that_cannot_be_used(settings):
    result = run(REFUSED, **settings)
    assert result.returncode == 0, result.stderr[-3000:]
    first, last = result.stdout.splitlines()[0], result.stdout.splitlines()[-1]
    assert first.startswith("DeviceError"), result.stdout
    assert last == "cpu -1.0"
