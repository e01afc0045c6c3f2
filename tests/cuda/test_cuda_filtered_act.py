"""FilteredAct in one launch: the CPU's bits, one launch and no memory of the upsampled size, what memory sees."""

from __future__ import annotations

import json

import firelu
import numpy as np
import pytest

ACTS = ["linear", "relu", "lrelu", "tanh", "sigmoid", "elu", "selu", "softplus", "swish", "snake"]
BORDERS = ["constant", "edge", "reflect", "symmetric", "wrap"]
LAYER = {"up_x": 2, "up_y": 2, "down_x": 2, "down_y": 2, "pad_x0": 9, "pad_x1": 8, "pad_y0": 9, "pad_y1": 8}
TAPS = firelu.make_kernel(np.hanning(14)[1:-1])
FULL = (TAPS + np.eye(12) / 12).astype(np.float32)


def both(name, inputs, arguments):
    """Give the results of the CPU and of the device."""
    host = firelu.run_operator(name, *inputs, **arguments)
    on_device = [None if value is None else firelu.Tensor(value).to("cuda:0") for value in inputs]
    device = firelu.run_operator(name, *on_device, **arguments)
    if not isinstance(host, tuple):
        host, device = (host,), (device,)
    return host, [np.asarray(value.to("cpu").numpy()) for value in device]


def numbers(rng, act, channels, dtype):
    """Give bias, alpha and beta."""
    bias = rng.standard_normal(channels).astype(dtype)
    if act != "snake":
        return [bias, None, None]
    return [bias, *(rng.uniform(0.5, 2.0, channels).astype(dtype) for _ in range(2))]


def assert_bits(host, device):
    np.testing.assert_array_equal(np.asarray(host).view(f"u{host.itemsize}"), device.view(f"u{device.itemsize}"))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("act", ACTS)
def test_a_layer_has_the_bits_of_the_cpu(emulator, act, dtype):
    rng = np.random.default_rng(3)
    x = rng.standard_normal((2, 3, 20, 37)).astype(dtype)
    given = numbers(rng, act, 3, dtype)
    for fu, fd in ((TAPS, TAPS), (TAPS, FULL), (FULL, TAPS)):
        host, device = both("FilteredAct", [x, fu, fd, *given], {**LAYER, "act": act, "clamp": 2.0})
        assert_bits(host[0], device[0])
        dy = rng.standard_normal(host[0].shape).astype(dtype)
        host, device = both("FilteredActGradient", [x, fu, fd, *given, dy], {**LAYER, "act": act, "clamp": 2.0})
        assert_bits(host[0], device[0])
        for sums, found in zip(host[1:], device[1:], strict=True):
            # As many terms as the middle grid has, each rounded once.
            tolerance = {"float16": 1e-3, "float32": 1e-4, "float64": 1e-11}[dtype]
            np.testing.assert_allclose(
                found, sums, rtol=tolerance, atol=tolerance * max(1, np.abs(sums).max(initial=0))
            )
    assert emulator.reports() == ""


def random_call(rng):
    """Give a call of any factors, taps, paddings and borders."""
    dtype = rng.choice(["float16", "float32", "float64"])
    act = rng.choice(ACTS)
    arguments = {"act": str(act), "border": str(rng.choice(BORDERS)), "down_border": str(rng.choice(BORDERS))}
    arguments |= {name: int(rng.integers(1, 5)) for name in ("up_x", "up_y", "down_x", "down_y")}
    for name in ("pad", "down_pad"):
        arguments |= {f"{name}_{at}": int(rng.integers(-1, 6)) for at in ("x0", "x1", "y0", "y1")}
    arguments |= {"flip_kernel": bool(rng.integers(2)), "up_gain": 2.0, "logscale": bool(rng.integers(2))}
    shape = (int(rng.integers(1, 3)), 2, int(rng.integers(1, 24)), int(rng.integers(1, 60)))
    kernels = []
    for _ in range(2):
        rows, columns = (int(n) for n in rng.integers(1, 9, 2))
        outer = np.outer(rng.standard_normal(rows), rng.standard_normal(columns))
        kernels.append((outer if rng.integers(2) else rng.standard_normal((rows, columns))).astype("float32"))
    return [rng.standard_normal(shape).astype(dtype), *kernels, *numbers(rng, act, 2, dtype)], arguments


@pytest.mark.parametrize("seed", range(60))
def test_any_call_has_the_bits_of_the_cpu_in_one_launch_or_agrees_by_parts(emulator, seed):
    inputs, arguments = random_call(np.random.default_rng(seed))
    try:
        firelu.run_operator("FilteredAct", *inputs, **arguments)
    except firelu.ShapeError:
        return  # Nothing is left after padding and cropping.
    before = len(json.loads(emulator.counters()))
    host, device = both("FilteredAct", inputs, arguments)
    kernels = [launch["kernel"] for launch in json.loads(emulator.counters())[before:]]
    if any(kernel.startswith("filtered_act_") for kernel in kernels):
        assert len([kernel for kernel in kernels if not kernel.startswith("copy")]) == 1
        assert_bits(host[0], device[0])
    else:
        # Arrays between are rounded to the type, and filters may be summed along x first.
        tolerance = {"float16": 2e-2, "float32": 1e-4, "float64": 1e-11}[str(inputs[0].dtype)]
        size = max(1.0, np.abs(host[0].astype("float64")).max(initial=0.0))
        np.testing.assert_allclose(
            device[0].astype("float64"), host[0].astype("float64"), rtol=0, atol=tolerance * size
        )
    assert emulator.reports() == ""


@pytest.mark.parametrize("gradient", [False, True])
def test_nothing_of_upsampled_size_is_allocated(emulator, gradient):
    x = firelu.Tensor(np.ones((1, 4, 64, 64), np.float32)).to("cuda:0")
    taps = firelu.Tensor(TAPS).to("cuda:0")
    dy = firelu.run_operator("FilteredAct", x, taps, taps, **LAYER)
    dy.to("cpu")  # what was launched is counted once it has run
    before, launched = emulator.calls(), len(json.loads(emulator.counters()))
    if gradient:
        result = firelu.run_operator("FilteredActGradient", x, taps, taps, None, None, None, dy, **LAYER)[0]
    else:
        result = firelu.run_operator("FilteredAct", x, taps, taps, **LAYER)
    allocations = {
        name: count - before.get(name, 0) for name, count in emulator.calls().items() if name.startswith("cuMemAlloc")
    }
    result.to("cpu")
    # The results themselves: one, and in the gradient the three of the omitted numbers, which have no elements.
    assert sum(allocations.values()) == (4 if gradient else 1)
    assert len(json.loads(emulator.counters())) - launched == 1
