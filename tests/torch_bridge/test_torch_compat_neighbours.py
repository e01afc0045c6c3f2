"""The same operators under other names and parameters: mmcv, diffusers, motion encoders."""

from __future__ import annotations

import firelu.compat
import plain_formulas
import pytest
import torch
from compat_checks import check_derivatives, tensors

MMCV = {
    "bias_act": """
        import plain_formulas

        calls = []

        def bias_act(input, bias=None, dim=1, act='linear', alpha=None, gain=None, clamp=None, use_custom_op=True):
            calls.append("bias_act")
            return plain_formulas.bias_act(input, bias, dim, act, alpha, gain, clamp)
    """,
    "upfirdn2d": """
        import plain_formulas

        calls = []

        def upfirdn2d(input, filter, up=1, down=1, padding=0, flip_filter=False, gain=1, use_custom_op=True):
            calls.append("upfirdn2d")
            return plain_formulas.upfirdn2d(input, filter, up, down, padding, flip_filter, gain)
    """,
    "filtered_lrelu": """
        import numpy as np
        import plain_formulas

        calls = []

        def filtered_lrelu(input, filter_up=None, filter_down=None, bias=None, up=1, down=1, padding=0,
                           gain=np.sqrt(2), slope=0.2, clamp=None, flip_filter=False, use_custom_op=True):
            calls.append("filtered_lrelu")
            return plain_formulas.filtered_lrelu(
                input, filter_up, filter_down, bias, up, down, padding, gain, slope, clamp, flip_filter
            )
    """,
    "fused_bias_leakyrelu": """
        import plain_formulas

        calls = []

        def fused_bias_leakyrelu(input, bias, negative_slope=0.2, scale=2**0.5):
            calls.append("fused_bias_leakyrelu")
            return plain_formulas.bias_act(input, bias, 1, "lrelu", negative_slope, scale)
    """,
}
INIT = "\n".join(f"from .{name} import {name}" for name in MMCV)


@pytest.mark.parametrize("before", [True, False])
def test_the_four_operators_of_mmcv(tree, before):
    import_module = tree(
        {
            "mmcv/__init__.py": "",
            "mmcv/ops/__init__.py": INIT,
            **{f"mmcv/ops/{name}.py": text for name, text in MMCV.items()},
        }
    )
    if before:
        import_module("mmcv.ops")
    x, b = tensors((2, 3, 6, 5), (3,))
    taps = torch.tensor([1.0, 3.0, 3.0, 1.0]) / 8
    with firelu.compat.install() as replaced:
        ops = import_module("mmcv.ops")
        check_derivatives(
            lambda x, b: ops.bias_act(input=x, bias=b, act="swish", clamp=2.0, use_custom_op=False),
            lambda x, b: plain_formulas.bias_act(x, b, 1, "swish", None, None, 2.0),
            x,
            b,
        )
        check_derivatives(
            lambda x: ops.upfirdn2d(x, filter=taps, up=2, padding=(2, 1)),
            lambda x: plain_formulas.upfirdn2d(x, taps, 2, 1, (2, 1)),
            x,
        )
        check_derivatives(
            lambda x, b: ops.filtered_lrelu(x, taps, filter_down=taps, bias=b, up=2, down=2, padding=3, clamp=1.0),
            lambda x, b: plain_formulas.filtered_lrelu(x, taps, taps, b, 2, 2, 3, clamp=1.0),
            x,
            b,
        )
        check_derivatives(
            lambda x, b: ops.fused_bias_leakyrelu(x, b, 0.1, 2.0),
            lambda x, b: plain_formulas.bias_act(x, b, 1, "lrelu", 0.1, 2.0),
            x,
            b,
        )
        modules = [import_module(f"mmcv.ops.{name}") for name in MMCV]
        assert [call for module in modules for call in module.calls] == []
        assert {f"mmcv.ops.{name}.{name}" for name in MMCV} <= set(replaced)


DIFFUSERS = """
    import plain_formulas

    calls = []

    def upfirdn2d_native(tensor, kernel, up=1, down=1, pad=(0, 0)):
        calls.append("upfirdn2d_native")
        return plain_formulas.upfirdn2d(tensor, kernel, up, down, (pad[0], pad[1], pad[0], pad[1]))
"""


@pytest.mark.parametrize("before", [True, False])
def test_the_native_formula_of_diffusers(project, before):
    """A pair of paddings is before and after, on both axes."""
    load = project("resnet", DIFFUSERS)
    if before:
        load()
    (x,) = tensors((2, 3, 6, 5))
    kernel = torch.rand(3, 2)
    with firelu.compat.install():
        module = load()
        check_derivatives(
            lambda x: module.upfirdn2d_native(x, kernel, up=2, down=1, pad=[2, 1]),
            lambda x: plain_formulas.upfirdn2d(x, kernel, 2, 1, (2, 1, 2, 1)),
            x,
        )
        assert module.calls == []
        with pytest.warns(RuntimeWarning, match="kernel: got int64"):
            module.upfirdn2d_native(torch.ones(1, 1, 2, 2), torch.ones(1, 1, dtype=torch.int64))
    assert module.calls == ["upfirdn2d_native"]


MOTION_ENCODER = """
    import torch
    from torch.nn import functional as F

    calls = []

    def fused_leaky_relu(input, bias, negative_slope=0.2, scale=2**0.5):
        calls.append("fused_leaky_relu")
        return F.leaky_relu(input + bias, negative_slope) * scale

    def upfirdn2d_native(input, kernel, up_x, up_y, down_x, down_y, pad_x0, pad_x1, pad_y0, pad_y1):
        raise RuntimeError("the slow formula ran")

    def upfirdn2d(input, kernel, up=1, down=1, pad=(0, 0)):
        return upfirdn2d_native(input, kernel, up, up, down, down, pad[0], pad[1], pad[0], pad[1])
"""


@pytest.mark.parametrize("before", [True, False])
def test_a_motion_encoder(project, before):
    """Everything in one module of any name, and a bias that is written as it broadcasts."""
    load = project("motion_encoder", MOTION_ENCODER)
    if before:
        load()
    x, bias = tensors((2, 3, 6, 5), (1, 3, 1, 1))
    kernel = torch.rand(4, 4)
    with firelu.compat.install():
        module = load()
        check_derivatives(
            module.fused_leaky_relu,
            lambda x, bias: plain_formulas.bias_act(x, bias.reshape(-1), 1, "lrelu"),
            x,
            bias,
        )
        check_derivatives(
            lambda x: module.upfirdn2d(x, kernel, down=2, pad=(1, 2)),
            lambda x: plain_formulas.upfirdn2d(x, kernel, 1, 2, (1, 2, 1, 2)),
            x,
        )
    assert module.calls == []
