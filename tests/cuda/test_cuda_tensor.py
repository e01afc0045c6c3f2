"""Tensors on a CUDA device: copies, operators, autograd, errors."""

import firelu
import numpy as np
import pytest

DTYPES = ["float16", "bfloat16", "float32", "float64"]
RNG = np.random.default_rng(0)


def to_float64(tensor):
    return np.asarray(tensor.to("cpu")).astype(np.float64)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (3,), (0, 4), (2, 3, 5, 7)])
def test_copies_keep_every_value(dtype, shape):
    values = firelu.Tensor(RNG.normal(size=shape), dtype=dtype)
    there = values.to("cuda:0")
    assert (there.device, there.dtype, there.shape) == ("cuda:0", dtype, shape)
    assert there.to("cuda:0") is there
    assert np.array_equal(to_float64(there), np.asarray(values).astype(np.float64))


def test_made_on_the_device_and_shown():
    t = firelu.Tensor([1.0, -2.0], device="cuda:0")
    assert repr(t) == "Tensor([ 1., -2.], device=cuda:0)"
    with pytest.raises(firelu.DeviceError, match=r"use \.to\(\"cpu\"\) first"):
        t.numpy()


def test_operators_run_where_their_inputs_are():
    x = RNG.normal(size=(2, 8, 5, 6)).astype(np.float32)
    here = firelu.run_operator("LeakyRelu", x, alpha=0.2)
    there = firelu.run_operator("LeakyRelu", firelu.Tensor(x, device="cuda:0"), alpha=0.2)
    assert there.device == "cuda:0"
    assert np.array_equal(np.asarray(there.to("cpu")), here)
    moved = firelu.run_operator("LeakyRelu", x, alpha=0.2, device="cuda:0")
    assert np.array_equal(np.asarray(moved.to("cpu")), here)


def test_out_and_in_place():
    x = firelu.Tensor(RNG.normal(size=1000), dtype="float32")
    there, out = x.to("cuda:0"), firelu.Tensor(np.zeros(1000, np.float32), device="cuda:0")
    assert firelu.run_operator("LeakyRelu", there, out=out) is out
    expected = to_float64(firelu.run_operator("LeakyRelu", x))
    assert np.array_equal(to_float64(out), expected)
    firelu.run_operator("LeakyRelu", there, out=there)
    assert np.array_equal(to_float64(there), expected)


def test_devices_are_not_mixed():
    x = firelu.Tensor([1.0, 2.0])
    with pytest.raises(firelu.DeviceError, match="LeakyReluGradient: dY is there, other inputs are on cpu"):
        firelu.run_operator("LeakyReluGradient", x, x.to("cuda:0"))
    with pytest.raises(firelu.DeviceError, match="the output Y is there"):
        firelu.run_operator("LeakyRelu", x, out=firelu.Tensor([0.0, 0.0], device="cuda:0"))


def test_a_device_that_is_not_there():
    with pytest.raises(firelu.DeviceError, match="cuda:7: there are 1 CUDA devices, numbered from 0"):
        firelu.Tensor([1.0], device="cuda:7")


def test_gradients_are_those_of_the_cpu():
    x, k = RNG.normal(size=(2, 4, 9, 10)), firelu.make_kernel([1, 3, 3, 1])
    results = {}
    for device in ("cpu", "cuda:0"):
        t = firelu.Tensor(x, dtype="float64", device=device, requires_grad=True)
        taps = firelu.Tensor(k, dtype="float64", device=device, requires_grad=True)
        bias = firelu.Tensor(np.arange(4.0), dtype="float64", device=device, requires_grad=True)
        y = firelu.nn.functional.upfirdn2d(t, taps, up=2, pad=(2, 1))
        y = firelu.nn.functional.fused_leaky_relu(y, bias)
        (y * y).mean().backward()
        results[device] = [to_float64(leaf.grad) for leaf in (t, taps, bias)]
        assert t.grad.device == device
    for here, there in zip(results["cpu"], results["cuda:0"], strict=True):
        np.testing.assert_allclose(there, here, rtol=1e-12, atol=1e-13)


def test_devices_are_described():
    assert set(firelu.devices()) == {"cpu", "cuda:0"}
    assert "compute capability" in firelu.devices()["cuda:0"]


def test_errors_carry_the_drivers_words(emulator):
    x = firelu.Tensor([1.0, 2.0], device="cuda:0")
    emulator.fail("cuLaunchKernel:1:700")
    with pytest.raises(
        firelu.DeviceError, match="launching leaky_relu_f32: cuLaunchKernel: CUDA_ERROR_ILLEGAL_ADDRESS: "
    ):
        firelu.run_operator("LeakyRelu", x)
    emulator.fail("cuMemAllocFromPoolAsync:1:2")
    with pytest.raises(firelu.FireluError, match="cuda:0: out of memory: could not allocate 8 bytes"):
        firelu.run_operator("LeakyRelu", x)
    emulator.fail("")
    assert np.array_equal(to_float64(firelu.run_operator("LeakyRelu", x)), [1.0, 2.0])


def test_results_never_vary():
    y, dy = (firelu.Tensor(RNG.normal(size=(3, 8, 33, 64)), dtype="float32", device="cuda:0") for _ in range(2))
    first = firelu.run_operator("FusedLeakyReluGradient", y, dy)
    second = firelu.run_operator("FusedLeakyReluGradient", y, dy)
    for a, b in zip(first, second, strict=True):
        assert np.array_equal(to_float64(a), to_float64(b))
