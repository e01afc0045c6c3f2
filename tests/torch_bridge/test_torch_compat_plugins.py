"""The plugins of the StyleGAN3 family: found before a compiler is searched, importable, and right in any order."""

from __future__ import annotations

import importlib
import sys

import firelu.compat
import lookalike_stylegan3
import plain_formulas
import pytest
import torch
from compat_checks import check_derivatives, tensors
from firelu.compat import plugins
from torch.utils import cpp_extension

NAMES = ("bias_act_plugin", "upfirdn2d_plugin", "filtered_lrelu_plugin")
EMPTY = torch.empty(0)


@pytest.mark.parametrize("layout", ["ada", "stylegan3"])
@pytest.mark.parametrize("before", [True, False])
def test_a_plugin_is_there_before_a_compiler_is_searched(tree, layout, before):
    """On Windows the search for a compiler raises, and nothing that hooks the build would ever be asked."""
    import_module = tree(lookalike_stylegan3.package("torch_utils", layout))
    if before:
        import_module("torch_utils.custom_ops")
    with firelu.compat.install() as replaced:
        custom_ops = import_module("torch_utils.custom_ops")
        for name in NAMES:
            operator = import_module(f"torch_utils.ops.{name.removesuffix('_plugin')}")
            assert operator._init()
            assert callable(getattr(operator._plugin, name.removesuffix("_plugin")))
            assert custom_ops.get_plugin(name, ["anything.cpp"], extra_cuda_cflags=[]) is operator._plugin
            assert f"torch_utils.custom_ops._cached_plugins[{name!r}]" in replaced
        assert custom_ops.builds == []
        with pytest.raises(RuntimeError, match="Could not find MSVC"):
            custom_ops.get_plugin("stranger_plugin", ["stranger.cpp"])
    assert custom_ops._cached_plugins == {}


def test_a_build_that_failed_before_is_not_tried_again(tree):
    """One variant asks for the plugin on every call."""
    import_module = tree(lookalike_stylegan3.package("torch_utils"))
    operator = import_module("torch_utils.ops.bias_act")
    for _ in range(2):
        with pytest.raises(RuntimeError, match="Could not find"):
            operator._init()
    assert len(operator.custom_ops.builds) == 2
    with firelu.compat.install():
        assert operator._init()
        assert operator._init()
    assert len(operator.custom_ops.builds) == 2


def test_a_plugin_that_was_built_stays(tree):
    custom_ops = tree(lookalike_stylegan3.package("torch_utils"))("torch_utils.custom_ops")
    built = type(sys)("bias_act_plugin")
    built.bias_act = lambda *arguments: "theirs"
    custom_ops._cached_plugins["bias_act_plugin"] = built
    with firelu.compat.install():
        assert custom_ops.get_plugin("bias_act_plugin", []) is built
        what = "torch_utils.custom_ops._cached_plugins['bias_act_plugin']"
        assert {"what": what, "why": "it was built before"} in firelu.compat.status()["left_alone"]
    assert custom_ops._cached_plugins == {"bias_act_plugin": built}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("def get_plugin(module_name, sources): pass", "there is no dictionary _cached_plugins beside it"),
        ("_cached_plugins = {}\ndef get_plugin(kind): pass", "it takes (kind), not (module_name, sources, ...)"),
    ],
)
def test_other_functions_of_the_name_are_left_alone(project, text, why):
    module = project("others", text)()
    with firelu.compat.install():
        assert {"what": "others.get_plugin", "why": why} in firelu.compat.status()["left_alone"]
        assert not getattr(module, "_cached_plugins", {})


@pytest.mark.parametrize("name", NAMES)
def test_plugins_are_importable_where_there_are_none(name, tree):
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module(name)
    with firelu.compat.install():
        assert callable(getattr(importlib.import_module(name), name.removesuffix("_plugin")))
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module(f"json.{name}")
    assert name not in sys.modules
    tree({f"{name}.py": "own = True"})
    with firelu.compat.install():
        assert importlib.import_module(name).own


def test_a_build_of_a_plugin_is_answered(monkeypatch):
    built = []
    monkeypatch.setattr(cpp_extension, "load", lambda name, *args, **kwargs: built.append(name))
    with firelu.compat.install():
        sources = ["filtered_lrelu.cpp", "filtered_lrelu_wr.cu", "filtered_lrelu_rd.cu"]
        assert cpp_extension.load(name="filtered_lrelu_plugin", sources=sources).filtered_lrelu_act_
        cpp_extension.load(name="bias_act_plugin", sources=["mine.cpp"])
    assert built == ["bias_act_plugin"]


class BiasAct(torch.autograd.Function):
    """Calls the plugin as the family does: the input is read for swish, for others the output; linear reads nothing."""

    @staticmethod
    def forward(ctx, x, b, act, alpha, gain, clamp):
        y = plugins.bias_act(x, b, EMPTY, EMPTY, EMPTY, 0, 1, act, alpha, gain, clamp)
        ctx.save_for_backward(x, b, y)
        ctx.arguments = (1, act, alpha, gain, clamp)
        return y

    @staticmethod
    def backward(ctx, dy):
        x, b, y = ctx.saved_tensors
        dx = BiasActGradient.apply(dy, x, b, y.detach(), ctx.arguments)
        return dx, _bias_gradient(dx), None, None, None, None


class BiasActGradient(torch.autograd.Function):
    """The first derivative, and its own."""

    @staticmethod
    def forward(ctx, dy, x, b, y, arguments):
        name = plugins.ACTIVATIONS[arguments[1] - 1]
        kept = (b, x, EMPTY) if name == "swish" else (EMPTY, EMPTY, EMPTY if name == "linear" else y)
        ctx.save_for_backward(dy, *kept)
        ctx.arguments = arguments
        return plugins.bias_act(dy, *kept, EMPTY, 1, *arguments)

    @staticmethod
    def backward(ctx, d_dx):
        dy, *kept = ctx.saved_tensors
        d_dy = plugins.bias_act(d_dx, *kept, EMPTY, 1, *ctx.arguments)
        dx = plugins.bias_act(d_dx, *kept, dy, 2, *ctx.arguments)
        return d_dy, dx, _bias_gradient(dx), None, None


def _bias_gradient(dx):
    return dx.sum([0, *range(2, dx.dim())])


@pytest.mark.parametrize("clamp", [-1.0, 1.5])
@pytest.mark.parametrize("act", range(1, 10))
def test_bias_act(act, clamp):
    name = plugins.ACTIVATIONS[act - 1]
    if name == "linear":
        clamp = -1.0  # it keeps nothing that could tell what was clipped
    check_derivatives(
        lambda x, b: BiasAct.apply(x, b, act, 0.3, 1.7, clamp),
        lambda x, b: plain_formulas.bias_act(x, b, 1, name, 0.3, 1.7, clamp),
        *tensors((2, 3, 4, 5), (3,)),
    )


@pytest.mark.parametrize("act", range(1, 10))
def test_bias_act_from_an_input_that_was_kept(act):
    """A derivative that is given the input alone computes the output again."""
    x, dy, direction = (each.detach() for each in tensors((2, 3, 4), (2, 3, 4), (2, 3, 4)))
    y = plugins.bias_act(x, EMPTY, EMPTY, EMPTY, EMPTY, 0, 1, act, 0.3, 1.7, 1.5)
    for order, first in ((1, EMPTY), (2, dy)):
        from_input = plugins.bias_act(direction, EMPTY, x, EMPTY, first, order, 1, act, 0.3, 1.7, 1.5)
        from_both = plugins.bias_act(direction, EMPTY, x, y, first, order, 1, act, 0.3, 1.7, 1.5)
        torch.testing.assert_close(from_input, from_both)


def test_bias_act_refuses_what_nobody_passes():
    arguments = (EMPTY, EMPTY, EMPTY, EMPTY)
    with pytest.raises(firelu.ArgumentError, match="bias_act: act: got 10, takes 1 to 9"):
        plugins.bias_act(torch.ones(1, 1), *arguments, 0, 1, 10, 0.0, 1.0, -1.0)
    with pytest.raises(firelu.ArgumentError, match="bias_act: grad: got 3, takes 0, 1 or 2"):
        plugins.bias_act(torch.ones(1, 1), *arguments, 3, 1, 1, 0.0, 1.0, -1.0)


def test_upfirdn2d():
    (x,) = tensors((1, 2, 5, 6))
    kernel = torch.rand(2, 3)
    check_derivatives(
        lambda x: plugins.upfirdn2d(x, kernel, 2, 1, 1, 2, 1, 2, 0, 1, True, 1.5),
        lambda x: plain_formulas.upfirdn2d(x, kernel, (2, 1), (1, 2), (1, 2, 0, 1), True, 1.5),
        x,
    )


class FilteredLeakyRelu(torch.autograd.Function):
    """The generic path, which a plugin asks for by answering -1: filter, activate in place, filter.

    With signs it applies what they say instead of deciding anew: that is the gradient, and the gradient's gradient.
    """

    @staticmethod
    def forward(ctx, x, fu, fd, si, sx, sy, up, down, padding, gain, slope, clamp, flip):
        write = si.numel() == 0
        answer = plugins.filtered_lrelu(
            x, fu, fd, EMPTY, si, up, down, *padding, sx, sy, gain, slope, clamp, flip, write
        )
        assert answer[2] == -1
        y = plain_formulas.upfirdn2d(x, fu, up, 1, padding, flip, up**2)
        signs = plugins.filtered_lrelu_act_(y, si, sx, sy, gain, slope, clamp, write)
        assert write or signs.numel() == 0
        ctx.save_for_backward(fu, fd, signs if write else si)
        ctx.arguments = (x.shape, sx, sy, up, down, padding, gain, slope, flip)
        return plain_formulas.upfirdn2d(y, fd, 1, down, 0, flip)

    @staticmethod
    def backward(ctx, dy):
        fu, fd, signs = ctx.saved_tensors
        shape, sx, sy, up, down, (x0, _, y0, _), gain, slope, flip = ctx.arguments
        before = [(fu.numel() - 1) + (fd.numel() - 1) - first for first in (x0, y0)]
        after = [shape[axis] * up - dy.shape[axis] * down + first - (up - 1) for axis, first in ((3, x0), (2, y0))]
        padding = (before[0], after[0], before[1], after[1])
        dx = FilteredLeakyRelu.apply(
            dy,
            fd,
            fu,
            signs,
            sx - (fu.numel() - 1) + x0,
            sy - (fu.numel() - 1) + y0,
            down,
            up,
            padding,
            gain * up**2 / down**2,
            slope,
            -1.0,
            not flip,
        )
        return dx, *[None] * 12


@pytest.mark.parametrize("clamp", [-1.0, 0.7])
def test_filtered_lrelu_takes_the_generic_path(clamp):
    """Signs are written once and read by both derivatives."""
    fu, fd = torch.rand(4), torch.rand(5)
    arguments = (2, 3, (5, 4, 3, 6), 1.3, 0.2)
    check_derivatives(
        lambda x: FilteredLeakyRelu.apply(x, fu, fd, EMPTY, 0, 0, *arguments, clamp, False),
        lambda x: plain_formulas.filtered_lrelu(x, fu, fd, None, *arguments, None if clamp < 0 else clamp),
        *tensors((1, 2, 6, 7)),
    )
