"""Border rules on a CUDA device: the middle by the usual kernels, the rim by its own, all against the CPU."""

from __future__ import annotations

import firelu
import numpy as np
import pytest

RULES = ["edge", "reflect", "symmetric", "wrap"]
RNG = np.random.default_rng(0)
OUTER = np.outer(RNG.standard_normal(4), RNG.standard_normal(4))
#: Shape, kernel, arguments: a middle and a rim, a rim alone, padding beyond the length, outputs far from each other.
CALLS = {
    "blur": ((2, 3, 17, 19), OUTER, {"pad": (2, 1)}),
    "up 2": ((1, 8, 20, 21), OUTER, {"up": 2, "pad": (2, 1)}),
    "down 2, not separable": ((1, 2, 24, 20), RNG.standard_normal((4, 4)), {"down": 2, "pad": (1, 2)}),
    "rim alone": ((2, 5, 4), RNG.standard_normal((5, 3)), {"up": (1, 2), "down": (2, 1), "pad": (7, 9, 8, 6)}),
    "single samples": ((3, 1, 2), OUTER, {"pad": (9, 8, 7, 6)}),
    "cropped": ((3, 9, 11), OUTER, {"pad": (-2, 4, 3, -1), "flip_kernel": True}),
    "far apart": ((2, 3, 4), RNG.standard_normal((1, 2)), {"down": (1 << 28, 7), "pad": (1 << 29, 1 << 29, 20, 30)}),
}


def both(operator, inputs, arguments):
    names = [
        "up_x",
        "up_y",
        "down_x",
        "down_y",
        "pad_x0",
        "pad_x1",
        "pad_y0",
        "pad_y1",
        "flip_kernel",
        "gain",
        "border",
    ]
    given = firelu.functional._arguments(
        arguments.get("up", 1),
        arguments.get("down", 1),
        arguments.get("pad", 0),
        arguments.get("flip_kernel", False),
        1.5,
        arguments["border"],
    )
    named = dict(zip(names, given, strict=True))
    on_device = [firelu.Tensor(value, device="cuda:0") for value in inputs]
    return firelu.run_operator(operator, *inputs, **named), firelu.run_operator(operator, *on_device, **named).to(
        "cpu"
    ).numpy()


@pytest.mark.parametrize("border", RULES)
@pytest.mark.parametrize("call", CALLS)
def test_the_device_agrees_with_the_cpu(call, border):
    shape, kernel, arguments = CALLS[call]
    arguments = {**arguments, "border": border}
    x = RNG.standard_normal(shape)
    expected, y = both("UpFirDn2d", [x, kernel], arguments)
    np.testing.assert_allclose(y, expected, rtol=1e-12, atol=1e-12)
    dy = RNG.standard_normal(y.shape)
    expected, dx = both("UpFirDn2dGradient", [dy, kernel, x], arguments)
    np.testing.assert_allclose(dx, expected, rtol=1e-11, atol=1e-11)
    expected, dk = both("UpFirDn2dKernelGradient", [x, dy, kernel], arguments)
    np.testing.assert_allclose(dk, expected, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_the_middle_has_the_bits_of_a_call_without_a_border(dtype):
    x = firelu.Tensor(RNG.standard_normal((2, 30, 33)).astype(dtype), device="cuda:0")
    kernel = firelu.Tensor(OUTER.astype(np.float32), device="cuda:0")
    pads = {"pad_x0": 2, "pad_x1": 1, "pad_y0": 2, "pad_y1": 1}
    plain = firelu.run_operator("UpFirDn2d", x, kernel, **pads).to("cpu").numpy()
    for border in RULES:
        bordered = firelu.run_operator("UpFirDn2d", x, kernel, **pads, border=border).to("cpu").numpy()
        assert np.array_equal(bordered[:, 2:-1, 2:-1], plain[:, 2:-1, 2:-1])
        assert not np.array_equal(bordered, plain)
