"""Look-alike packages of each import style run on firelu after `install`, and are themselves after `uninstall`."""

from __future__ import annotations

import importlib
import sys
import textwrap

import firelu.compat
import plain_formulas
import pytest
import torch
from compat_checks import check_derivatives, tensors
from torch.nn import functional
from torch.utils import cpp_extension

# Written for these tests from the packages' documented names and signatures; the arithmetic is plain torch.
FUNCTIONS = """
    import torch
    from torch import nn
    from torch.autograd import Function

    class FusedLeakyReLUFunctionBackward(Function):
        @staticmethod
        def forward(ctx, grad_output, out, negative_slope, scale):
            ctx.save_for_backward(out)
            ctx.negative_slope, ctx.scale = negative_slope, scale
            empty = grad_output.new_empty(0)
            grad_input = EXT.fused_bias_act(grad_output, empty, out, 3, 1, negative_slope, scale)
            dim = [0] + list(range(2, grad_input.ndim))
            return grad_input, grad_input.sum(dim).detach()

        @staticmethod
        def backward(ctx, gradgrad_input, gradgrad_bias):
            (out,) = ctx.saved_tensors
            gradgrad = EXT.fused_bias_act(gradgrad_input, gradgrad_bias, out, 3, 1, ctx.negative_slope, ctx.scale)
            return gradgrad, None, None, None

    class FusedLeakyReLUFunction(Function):
        @staticmethod
        def forward(ctx, input, bias, negative_slope, scale):
            out = EXT.fused_bias_act(input, bias, input.new_empty(0), 3, 0, negative_slope, scale)
            ctx.save_for_backward(out)
            ctx.negative_slope, ctx.scale = negative_slope, scale
            return out

        @staticmethod
        def backward(ctx, grad_output):
            (out,) = ctx.saved_tensors
            grads = FusedLeakyReLUFunctionBackward.apply(grad_output, out, ctx.negative_slope, ctx.scale)
            return grads[0], grads[1], None, None

    class FusedLeakyReLU(nn.Module):
        def __init__(self, channel, negative_slope=0.2, scale=2**0.5):
            super().__init__()
            self.bias = nn.Parameter(torch.zeros(channel))
            self.negative_slope, self.scale = negative_slope, scale

        def forward(self, input):
            return fused_leaky_relu(input, self.bias, self.negative_slope, self.scale)

    def fused_leaky_relu(input, bias, negative_slope=0.2, scale=2**0.5):
        return FusedLeakyReLUFunction.apply(input, bias, negative_slope, scale)
"""
FILTERS = """
    import torch
    from torch.nn import functional as F

    def upfirdn2d(input, kernel, up=1, down=1, pad=(0, 0)):
        if input.device.type == "cpu":
            return upfirdn2d_native(input, kernel, up, up, down, down, pad[0], pad[1], pad[0], pad[1])
        return EXT.upfirdn2d(input, kernel, up, up, down, down, pad[0], pad[1], pad[0], pad[1])

    def upfirdn2d_native(input, kernel, up_x, up_y, down_x, down_y, pad_x0, pad_x1, pad_y0, pad_y1):
        raise RuntimeError("the slow formula ran")
"""
# Those that are not basicsr's have a branch for the CPU that ignores the slope it was given.
WRONG_SLOPE = """
    def fused_leaky_relu(input, bias=None, negative_slope=0.2, scale=2**0.5):
        shape = (1, -1) + (1,) * (input.ndim - 2)
        return torch.nn.functional.leaky_relu(input + bias.view(shape), 0.2) * scale
"""
STYLES = ["missing", "jit", "op"]


def write(folder, files):
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))


def build(folder, style):
    """Write a package of one style; returns the names of its two public packages."""
    head = "    try:\n        from . import {0}\n    except ImportError:\n        pass\n"
    jit = (
        "    from torch.utils.cpp_extension import load\n"
        "    {0} = load('{1}', sources=['src/{2}.cpp', 'src/{2}_kernel.cu'])\n"
    )
    if style == "op":
        fused_head, filter_head = (
            jit.format("fused", "fused", "fused_bias_act"),
            jit.format("upfirdn2d_op", "upfirdn2d", "upfirdn2d"),
        )
        fused, filters = FUNCTIONS.replace("EXT", "fused"), FILTERS.replace("EXT", "upfirdn2d_op")
        write(
            folder,
            {
                "lookop/__init__.py": """
                    from .fused_act import FusedLeakyReLU, fused_leaky_relu
                    from .upfirdn2d import upfirdn2d
                """,
                "lookop/fused_act.py": fused_head + fused + WRONG_SLOPE,
                "lookop/upfirdn2d.py": filter_head + filters,
            },
        )
        return "lookop", "lookop"
    if style == "jit":
        fused_head = jit.format("fused_act_ext", "fused", "fused_bias_act")
        filter_head = jit.format("upfirdn2d_ext", "upfirdn2d", "upfirdn2d")
    else:
        fused_head, filter_head = head.format("fused_act_ext"), head.format("upfirdn2d_ext")
    root = f"look{style}"
    write(
        folder,
        {
            f"{root}/__init__.py": "",
            f"{root}/ops/__init__.py": "",
            f"{root}/ops/fused_act/__init__.py": "from .fused_act import FusedLeakyReLU, fused_leaky_relu",
            f"{root}/ops/fused_act/fused_act.py": fused_head + FUNCTIONS.replace("EXT", "fused_act_ext"),
            f"{root}/ops/upfirdn2d/__init__.py": "from .upfirdn2d import upfirdn2d",
            f"{root}/ops/upfirdn2d/upfirdn2d.py": filter_head + FILTERS.replace("EXT", "upfirdn2d_ext"),
        },
    )
    return f"{root}.ops.fused_act", f"{root}.ops.upfirdn2d"


@pytest.fixture
def package(tmp_path, monkeypatch, request):
    """Give an importer of the look-alike, and take every trace of it away afterwards."""
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)
    names = build(tmp_path, request.param)
    yield lambda: [importlib.import_module(name) for name in names]
    firelu.compat.uninstall()
    for name in set(sys.modules) - before:
        if name.startswith("look"):
            del sys.modules[name]


def plain(x, bias, slope, scale):
    return functional.leaky_relu(x + bias.view(1, -1, 1, 1), slope) * scale


def check(fused_package, filter_package):
    """Values, first and second derivatives are those of plain formulas; firelu has none of these."""
    x, bias = tensors((2, 3, 5, 6), (3,))
    for slope in (0.2, 0.3):
        check_derivatives(
            lambda x, bias, slope=slope: fused_package.fused_leaky_relu(x, bias, slope, 1.5),
            lambda x, bias, slope=slope: plain(x, bias, slope, 1.5),
            x,
            bias,
        )
    module = fused_package.FusedLeakyReLU(3, 0.1, 2.0).double()
    check_derivatives(
        lambda x, bias: torch.func.functional_call(module, {"bias": bias}, (x,)),
        lambda x, bias: plain(x, bias, 0.1, 2.0),
        x,
        bias,
    )
    kernel = torch.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=torch.float64)
    for up, down, pad in ((2, 1, (1, 0)), (1, 2, (1, 2)), (1, 1, (-1, 1))):
        check_derivatives(
            lambda x, up=up, down=down, pad=pad: filter_package.upfirdn2d(x, kernel, up=up, down=down, pad=pad),
            lambda x, up=up, down=down, pad=pad: plain_formulas.upfirdn2d(x, kernel, up, down, pad + pad),
            x,
        )


@pytest.mark.parametrize("package", STYLES, indirect=True)
def test_imported_after(package):
    with firelu.compat.install():
        check(*package())


@pytest.mark.parametrize("package", ["missing"], indirect=True)
def test_imported_before(package):
    fused_package, filter_package = package()
    bound = fused_package.fused_leaky_relu
    x = torch.randn(1, 3, 2, 2)
    with pytest.raises(NameError):
        bound(x, torch.zeros(3))
    with firelu.compat.install() as replaced:
        check(fused_package, filter_package)
        assert bound(x, torch.zeros(3)).shape == x.shape
        assert any("fused_leaky_relu" in name for name in replaced)
        assert "- lookmissing.ops.fused_act" in firelu.compat.doctor()
        assert "finder" not in firelu.compat.doctor()
    with pytest.raises(NameError):
        bound(x, torch.zeros(3))
    with pytest.raises(RuntimeError, match="the slow formula ran"):
        filter_package.upfirdn2d(x, torch.ones(1, 1))
    assert firelu.compat.doctor().startswith("off")


@pytest.mark.parametrize("package", ["missing"], indirect=True)
def test_uninstall_restores_every_object(package):
    fused_package, _ = package()
    module = sys.modules["lookmissing.ops.fused_act.fused_act"]
    before = dict(vars(module))
    code = fused_package.fused_leaky_relu.__code__
    load, finders = cpp_extension.load, list(sys.meta_path)
    first = firelu.compat.install()
    assert firelu.compat.install() is first
    assert fused_package.fused_leaky_relu.__code__ is not code
    with firelu.compat.uninstall():
        assert vars(module) == before
        assert fused_package.fused_leaky_relu.__code__ is code
        assert cpp_extension.load is load
        assert sys.meta_path == finders
    assert fused_package.fused_leaky_relu.__code__ is not code
    firelu.compat.uninstall()
    assert vars(module) == before
    firelu.compat.uninstall()


def test_strangers_are_left_alone(monkeypatch, tmp_path):
    seen = []
    monkeypatch.setattr(cpp_extension, "load", lambda name, *args, **kwargs: seen.append((name, args, kwargs)))
    with firelu.compat.install():
        cpp_extension.load("fused", sources=["my_fused.cpp"])
        cpp_extension.load("fused", ["fused_bias_act.cpp"], verbose=True)
        cpp_extension.load("other", sources=["fused_bias_act.cpp", "fused_bias_act_kernel.cu"])
        extension = cpp_extension.load("upfirdn2d", ["a/upfirdn2d.cpp", "b/upfirdn2d_kernel.cu"])
        assert extension.upfirdn2d
        with pytest.raises(ImportError):
            importlib.import_module("fused_act_ext")
        with pytest.raises(ImportError):
            importlib.import_module("json.fused_act_ext")
    assert [name for name, _, _ in seen] == ["fused", "fused", "other"]


@pytest.mark.parametrize("act", [1, 3])
@pytest.mark.parametrize("grad", [0, 1, 2])
@pytest.mark.parametrize("with_bias", [False, True])
def test_fused_bias_act(act, grad, with_bias):
    from firelu.compat.extensions import fused_bias_act

    x, refer = torch.randn(2, 3, 4), torch.randn(2, 3, 4)
    bias = torch.randn(3) if with_bias else torch.empty(0)
    total = x + (bias.view(1, 3, 1) if with_bias else 0)
    slope = 0.3 if act == 3 else 1.0
    expected = [
        torch.where(total > 0, total, slope * total) * 1.7,
        torch.where(refer > 0, total, slope * total) * 1.7,
        torch.zeros_like(x),
    ][grad]
    empty = torch.empty(0)
    torch.testing.assert_close(fused_bias_act(x, bias, refer if grad else empty, act, grad, 0.3, 1.7), expected)
    with pytest.raises(firelu.ArgumentError):
        fused_bias_act(x, bias, refer, 2, grad, 0.3, 1.7)
    with pytest.raises(firelu.ArgumentError):
        fused_bias_act(x, bias, refer, act, 3, 0.3, 1.7)


@pytest.mark.parametrize("minor", [1, 4])
def test_upfirdn2d_with_vectors_as_samples(minor):
    from firelu.compat.extensions import upfirdn2d

    (x,) = tensors((3, 5, 7, minor))
    kernel = torch.arange(1.0, 7, dtype=torch.float64).reshape(2, 3)
    assert upfirdn2d(x, kernel, 2, 1, 1, 2, 1, 2, 0, 1).is_contiguous()
    check_derivatives(
        lambda x: upfirdn2d(x, kernel, 2, 1, 1, 2, 1, 2, 0, 1),
        lambda x: plain_formulas.upfirdn2d(x.permute(0, 3, 1, 2), kernel, (2, 1), (1, 2), (1, 2, 0, 1)).permute(
            0, 2, 3, 1
        ),
        x,
    )
