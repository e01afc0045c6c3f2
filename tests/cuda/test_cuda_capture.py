"""Operators on a stream that is being captured, also where a kernel is used for the first time."""

import ctypes
import os
import pathlib
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

pytestmark = pytest.mark.skipif(os.environ.get("FIRELU_TEST_GPU") == "1", reason="runs on the emulated driver alone")
EMULATED = pathlib.Path(__file__).parents[2] / "target" / "emulator"


def test_the_rules_of_the_emulator(queue):
    graph, memory, mode = ctypes.c_void_p(), ctypes.c_uint64(), ctypes.c_int(2)
    queue.call("cuStreamBeginCapture_v2", queue.handle, 0)
    assert queue.driver.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(16)) == 900
    assert queue.driver.cuStreamEndCapture(queue.handle, ctypes.byref(graph)) == 901
    queue.call("cuStreamBeginCapture_v2", queue.handle, 0)
    queue.call("cuThreadExchangeStreamCaptureMode", ctypes.byref(mode))
    assert mode.value == 0
    queue.call("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(16))
    queue.call("cuThreadExchangeStreamCaptureMode", ctypes.byref(mode))
    queue.fill(memory.value, 7, 16)
    queue.call("cuStreamEndCapture", queue.handle, ctypes.byref(graph))
    executable = ctypes.c_void_p()
    queue.call("cuGraphInstantiateWithFlags", ctypes.byref(executable), graph, ctypes.c_uint64(0))
    queue.call("cuGraphLaunch", executable, queue.handle)
    queue.wait()
    found = (ctypes.c_uint8 * 16)()
    queue.call("cuMemcpyDtoH_v2", found, memory, ctypes.c_size_t(16))
    assert bytes(found) == bytes([7] * 16)
    queue.call("cuGraphDestroy", graph)
    queue.call("cuGraphExecDestroy", executable)
    queue.call("cuMemFree_v2", memory)


def in_a_thread(call):
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(call).result()


@pytest.mark.parametrize(("mode", "of_others"), [(0, 900), (1, 0), (2, 0)], ids=["global", "thread", "relaxed"])
def test_the_rules_of_the_emulator_for_threads(queue, mode, of_others):
    """A global capture forbids every thread what needs the device at once; one of a thread, its own alone."""
    graph, memory = ctypes.c_void_p(), ctypes.c_uint64()

    def allocate():
        queue.driver.cuCtxSetCurrent(queue.context)
        code = queue.driver.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(16))
        if code == 0:
            queue.driver.cuMemFree_v2(memory)
        return code

    def end():
        queue.driver.cuCtxSetCurrent(queue.context)
        return queue.driver.cuStreamEndCapture(queue.handle, ctypes.byref(graph))

    queue.call("cuStreamBeginCapture_v2", queue.handle, mode)
    assert in_a_thread(allocate) == of_others
    assert in_a_thread(end) == (0 if mode == 2 else 908)
    if mode != 2:
        assert end() == (901 if of_others else 0)
    queue.call("cuStreamBeginCapture_v2", queue.handle, mode)
    assert allocate() == (0 if mode == 2 else 900)
    assert end() == (0 if mode == 2 else 901)


FIRST = """
import ctypes, threading
import firelu, numpy as np
x = firelu.Tensor(np.linspace(-1, 1, 64), dtype="float32", device="cuda:0")
driver = ctypes.CDLL("libcuda.so.1")
context, stream, graph = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert driver.cuCtxSetCurrent(context) == 0
assert driver.cuStreamCreate(ctypes.byref(stream), 1) == 0
assert driver.cuStreamBeginCapture_v2(stream, 0) == 0
# Operators run on the default stream, their kernels are loaded now: the capture of the other stream goes on, whichever
# thread it is that loads one.
y = firelu.run_operator("LeakyRelu", x, alpha=0.5)
other = threading.Thread(target=lambda: firelu.run_operator("Add", x, x))
other.start()
other.join()
assert driver.cuStreamEndCapture(stream, ctypes.byref(graph)) == 0
print(float(y.to("cpu").numpy()[0]))
"""


def test_a_first_use_breaks_no_capture():
    environment = {**os.environ, "LD_LIBRARY_PATH": str(EMULATED), "FIRELU_EMULATOR_REPORT": "none"}
    done = subprocess.run([sys.executable, "-c", FIRST], env=environment, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("-0.5\n", "")


WITHOUT_POOLS = """
import ctypes, sys
sys.path.insert(0, "tests/cuda")
driver = ctypes.CDLL("libcuda.so", mode=ctypes.RTLD_GLOBAL)  # where the backend looks
import firelu, torch, torch_backend
import firelu.torch as ft
firelu.Tensor([0.0], device="cuda:0")
torch_backend.start()
context, stream, graph = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert driver.cuCtxSetCurrent(context) == 0
assert driver.cuStreamCreate(ctypes.byref(stream), 1) == 0
x, few, many = (torch.ones(shape).to("cuda") for shape in ((1, 2, 12, 12), (4, 4), (12, 12)))
torch_backend.stream = stream.value
assert driver.cuStreamBeginCapture_v2(stream, 0) == 0
ft.upfirdn2d(x, few, pad=(2, 1))  # needs no memory
try:
    ft.upfirdn2d(x, many, pad=(6, 5))
except firelu.DeviceError as error:
    print(error)
assert driver.cuStreamEndCapture(stream, ctypes.byref(graph)) == 0
"""


def test_without_pools_memory_is_refused_and_the_capture_goes_on():
    pytest.importorskip("torch")
    environment = {**os.environ, "LD_LIBRARY_PATH": str(EMULATED), "FIRELU_EMULATOR_REPORT": "none"}
    environment["FIRELU_EMULATOR_POOLS"] = "0"
    command = [sys.executable, "-c", WITHOUT_POOLS]
    done = subprocess.run(
        command, env=environment, cwd=EMULATED.parents[1], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("cuda:0: ")
    assert "captur" in done.stdout
