"""What makes the host wait for the device, counted by the emulated driver: nothing but copies to and from it."""

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
