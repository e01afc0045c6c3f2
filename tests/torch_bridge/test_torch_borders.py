"""Border rules and upfirdn1d in torch: derivatives, transforms, compilation, export."""

from __future__ import annotations

import firelu
import firelu.torch as ft
import pytest
import torch
from firelu.torch.bridge import bridged
from firelu.torch.operators.upfirdn2d import upfirdn2d as decomposed
from torch.nn import functional

RULES = ["edge", "reflect", "symmetric", "wrap"]
MODES = {"edge": "replicate", "reflect": "reflect", "wrap": "circular"}


def picture(*shape):
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:FutureWarning")  # torch's own forward mode
@pytest.mark.parametrize("border", RULES)
def test_derivatives_of_both_tensors(border):
    x, kernel = picture(2, 3, 4).requires_grad_(), picture(2, 3).requires_grad_()

    def filtered(x, kernel):
        return ft.upfirdn2d(x, kernel, up=(2, 1), down=(1, 2), pad=(3, 7, 2, -1), border=border)

    assert torch.autograd.gradcheck(filtered, (x, kernel))
    assert torch.autograd.gradgradcheck(filtered, (x, kernel))
    # The forward derivative of a linear map is the map.
    step = picture(2, 3, 4).flip(0)
    _, derivative = torch.func.jvp(lambda x: filtered(x, kernel), (x.detach(),), (step,))
    torch.testing.assert_close(derivative, filtered(step, kernel))


@pytest.mark.parametrize("border", MODES)
def test_padding_is_that_of_torch(border):
    x, kernel = picture(2, 3, 9, 10), picture(4, 3)
    padded = functional.pad(x, (3, 2, 1, 4), mode=MODES[border])
    expected = ft.upfirdn2d(padded, kernel)
    torch.testing.assert_close(ft.upfirdn2d(x, kernel, pad=(3, 2, 1, 4), border=border), expected)
    torch.testing.assert_close(ft.upfirdn2d(x, kernel, pad=(3, 2, 1, 4), border=MODES[border]), expected)


@pytest.mark.parametrize("border", ["constant", "zeros", "replicate", "circular", *RULES])
@pytest.mark.parametrize(
    ("shape", "arguments"),
    [
        ((2, 5, 6), (1, 1, 1, 1, 2, 1, 1, 2)),
        ((2, 3, 4), (2, 3, 1, 2, 7, 9, 8, 12)),
        ((4, 1), (1, 1, 1, 1, 5, 6, -1, 9)),
    ],
)
def test_the_decomposition_is_the_operator(border, shape, arguments):
    x, kernel = picture(*shape), picture(2, 3)
    for rest in [(False, 1.0), (True, -0.5)]:
        expected = bridged("UpFirDn2d").call(x, kernel, *arguments, *rest, border)
        torch.testing.assert_close(decomposed(x, kernel, *arguments, *rest, border), expected)


def test_batches_compilation_and_export():
    x, kernel = picture(3, 2, 6, 7), picture(3, 3)

    def filtered(x):
        return ft.upfirdn2d(x, kernel, up=2, pad=(2, 3), border="reflect")

    torch.testing.assert_close(torch.vmap(filtered)(x), filtered(x))
    torch._dynamo.reset()
    compiled = torch.compile(filtered, fullgraph=True, dynamic=True, backend="aot_eager")
    for size in (6, 9):
        x = picture(2, size, size + 1).requires_grad_()
        torch.testing.assert_close(compiled(x), filtered(x))
        (gradient,) = torch.autograd.grad(compiled(x).square().sum(), x)
        (expected,) = torch.autograd.grad(filtered(x).square().sum(), x)
        torch.testing.assert_close(gradient, expected)

    class Filter(torch.nn.Module):
        def forward(self, x):
            return filtered(x)

    program = torch.export.export(Filter(), (picture(2, 6, 7),))
    torch.testing.assert_close(program.module()(picture(2, 6, 7)), filtered(picture(2, 6, 7)))
    plain = program.run_decompositions()
    torch.testing.assert_close(plain.module()(picture(2, 6, 7)), filtered(picture(2, 6, 7)))


def test_an_unknown_rule_is_refused():
    with pytest.raises(firelu.ArgumentError, match='UpFirDn2d: border: got "mirror", takes "constant", "edge"'):
        ft.upfirdn2d(picture(4, 4), picture(2, 2), border="mirror")


@pytest.mark.parametrize("border", ["constant", *RULES])
@pytest.mark.parametrize(("shape", "axis"), [((7,), 0), ((3, 7), -1), ((7, 3), 0), ((2, 7, 3), 1), ((7, 2, 3), 0)])
def test_one_dimension_is_numpys(border, shape, axis):
    x, kernel = picture(*shape), picture(4)
    for view in [x, x.transpose(0, -1).contiguous().transpose(0, -1)]:
        y = ft.upfirdn1d(view, kernel, 2, 1, (3, 9), axis=axis, border=border)
        expected = firelu.upfirdn1d(x.numpy(), kernel.numpy(), 2, 1, (3, 9), axis=axis, border=border)
        torch.testing.assert_close(y, torch.from_numpy(expected.copy()))
        if len(shape) > 1:
            assert sorted(range(len(shape)), key=y.stride) == sorted(range(len(shape)), key=view.stride)


def test_one_dimension_has_derivatives_and_compiles():
    x, kernel = picture(2, 3, 5).requires_grad_(), picture(3).requires_grad_()
    for axis in range(3):

        def filtered(x, kernel, axis=axis):
            return ft.upfirdn1d(x, kernel, 1, 2, 2, axis=axis, border="symmetric")

        assert torch.autograd.gradcheck(filtered, (x, kernel))
        torch._dynamo.reset()
        compiled = torch.compile(filtered, fullgraph=True, backend="aot_eager")
        torch.testing.assert_close(compiled(x, kernel), filtered(x, kernel))
    torch.testing.assert_close(torch.vmap(lambda x: filtered(x, kernel, 1))(x), filtered(x, kernel, 2))


def test_one_dimension_refuses():
    with pytest.raises(firelu.ArgumentError, match=r"upfirdn1d: axis: got 2, takes an axis of \(2, 3\)"):
        ft.upfirdn1d(picture(2, 3), picture(2), axis=2)
    with pytest.raises(firelu.ShapeError, match=r"upfirdn1d: kernel: got \(2, 2\), takes \(K,\)"):
        ft.upfirdn1d(picture(2, 3), picture(2, 2))
    assert ft.upfirdn1d(picture(0, 3), picture(2), pad=1, border="edge").shape == (0, 4)
