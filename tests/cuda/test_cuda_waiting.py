"""What makes the host wait for the device, counted by the emulated driver: nothing but copies to and from it."""

import ctypes

import firelu
import numpy as np
import pytest

WAITS = {"cuStreamSynchronize", "cuCtxSynchronize", "cuEventSynchronize", "cuMemcpyHtoD_v2", "cuMemcpyDtoH_v2"}


def made(emulator, use):
    """Give the driver calls of the second of two uses: the first one loads kernels."""
    use()
    before = emulator.calls()
    use()
    return {
        name: count - before.get(name, 0) for name, count in emulator.calls().items() if count > before.get(name, 0)
    }


def tensor(shape, dtype="float32", **options):
    return firelu.Tensor(np.random.default_rng(0).normal(size=shape), dtype=dtype, device="cuda:0", **options)


X = (1, 4, 16, 16)
TAPS = firelu.make_kernel([1, 3, 3, 1])
USES = {
    "recorded UpFirDn2d": lambda x, k, b: firelu.nn.functional.upfirdn2d(x, k, up=2, pad=(2, 1)),
    "recorded FusedLeakyRelu": lambda x, k, b: firelu.nn.functional.fused_leaky_relu(x, b),
    "by a number": lambda x, k, b: x * 2.0,
    "negated": lambda x, k, b: -x,
    "divided": lambda x, k, b: x / 3,
    "backward of a filter": lambda x, k, b: firelu.nn.functional.upfirdn2d(x, k, up=2, pad=(2, 1)).sum().backward(),
    "backward from all": lambda x, k, b: firelu.nn.functional.fused_leaky_relu(x, b).backward(),
    "zeros of no dependence": lambda x, k, b: firelu.grad([(x * x).sum()], [b]),
}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("use", USES)
def test_nothing_waits_or_uploads(emulator, use, dtype):
    x, b = tensor(X, dtype, requires_grad=True), tensor((4,), dtype, requires_grad=True)
    k = firelu.Tensor(TAPS, dtype=dtype, device="cuda:0")
    calls = made(emulator, lambda: USES[use](x, k, b))
    assert not WAITS & calls.keys(), calls
    assert "cuLaunchKernel" in calls


def test_a_wait_is_counted(emulator, queue):
    """What the tests here forbid is seen where it happens."""
    x = tensor(X)
    assert WAITS & made(emulator, lambda: x.to("cpu")).keys()
    assert WAITS & made(emulator, lambda: firelu.Tensor(np.ones(4), device="cuda:0")).keys()
    before = emulator.calls()["held"]
    # By a library that does not let go of the interpreter.
    assert ctypes.PyDLL(emulator.library._name).cuStreamSynchronize(queue.handle) == 0
    assert emulator.calls()["held"] == before + 1


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("value", [0.0, 1.0, -0.1])
def test_filled_memory_has_the_value(dtype, value):
    x = firelu.Tensor(np.ones((3, 5)), dtype=dtype, device="cuda:0")
    here = firelu.Tensor(np.ones((3, 5)), dtype=dtype)
    assert np.array_equal(np.asarray((x * value).to("cpu")), np.asarray(here * value))
    ones = tensor((3, 5), dtype, requires_grad=True)
    (ones * value).backward()
    assert np.array_equal(np.asarray(ones.grad.to("cpu")), np.asarray(here * value))


def test_the_interpreter_is_never_held_while_the_device_is_waited_for(emulator):
    before = emulator.calls()["held"]
    x = tensor((64, 64))
    x.to("cpu")
    repr(x)
    firelu.Tensor(x)
    firelu.run_operator("ReduceSum", x)  # small, and its kernels are compiled on first use
    firelu.run_operator("LeakyRelu", np.ones(4, np.float32), device="cuda:0")
    x.__dlpack__(copy=True)
    (x * 3.0).to("cpu")
    assert emulator.calls()["held"] == before


def test_memory_is_kept_when_something_is_waited_for(emulator):
    x = tensor((256, 256))

    def use():
        firelu.run_operator("LeakyRelu", x).to("cpu")

    for _ in range(3):  # as much as is ever in use at once
        use()
    before = emulator.calls()["maps"]
    for _ in range(5):
        use()
    assert emulator.calls()["maps"] == before


def test_the_settings_of_the_default_pool_are_left_alone(queue):
    pool, threshold = ctypes.c_void_p(), ctypes.c_uint64(1)
    tensor((4,))
    queue.call("cuDeviceGetDefaultMemPool", ctypes.byref(pool), 0)
    queue.call("cuMemPoolGetAttribute", pool, 4, ctypes.byref(threshold))
    assert threshold.value == 0


# One look at the current context, two changes of it, and what the operator needs; the same again for the free.
MOST_CALLS = {"LeakyRelu": 9, "UpFirDn2d": 9}


@pytest.mark.parametrize("name", MOST_CALLS)
def test_driver_calls_of_an_operator(emulator, name):
    x = tensor(X)
    inputs = [x, firelu.Tensor(TAPS, device="cuda:0")] if name == "UpFirDn2d" else [x]
    args = {"pad_x0": 2, "pad_x1": 1, "pad_y0": 2, "pad_y1": 1} if name == "UpFirDn2d" else {}
    calls = made(emulator, lambda: firelu.run_operator(name, *inputs, **args))
    assert sum(calls.values()) <= MOST_CALLS[name], calls


def test_a_code_that_is_in_no_list_is_a_value(emulator):
    x = tensor((8,))
    for code in (36, 919, 123456):
        emulator.fail(f"cuLaunchKernel:1:{code}")
        with pytest.raises(firelu.DeviceError, match=f"cuLaunchKernel: error {code}"):
            firelu.run_operator("LeakyRelu", x)
    emulator.fail("")
