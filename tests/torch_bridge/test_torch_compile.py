"""torch.compile without a graph break, static and dynamic, forward and backward; torch.export."""

from __future__ import annotations

import firelu.torch as ft
import pytest
import torch
import torch._dynamo.config
import torch._inductor.config
from firelu.torch.bridge import bridged
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv

TAPS = torch.ones(2, 2)


class Block(torch.nn.Module):
    """Activation, blur with a kernel that learns, resampling: every operator a model uses."""

    def __init__(self) -> None:
        super().__init__()
        self.activation = ft.FusedLeakyReLU(4)
        self.kernel = torch.nn.Parameter(torch.rand(3, 3, dtype=torch.float64))
        self.up = ft.UpFirDnUpsample([1, 3, 3, 1])
        self.down = ft.UpFirDnDownsample([1, 3, 3, 1])
        self.double()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = ft.upfirdn2d(self.activation(x), self.kernel, pad=1)
        return ft.leaky_relu(self.down(y) + self.up(self.down(self.down(y))), 0.1)


def outcomes(module, x):
    x = x.detach().requires_grad_()
    module.zero_grad()
    y = module(x)
    (y**2).sum().backward()
    return [y.detach(), x.grad, *(p.grad for p in module.parameters())]


def compare(module, compiled, x):
    torch.testing.assert_close(outcomes(compiled, x), outcomes(module, x))


@torch._dynamo.config.patch(error_on_recompile=True)
def test_compiled_with_dynamic_shapes_is_one_graph_for_all_sizes():
    torch._dynamo.reset()
    module = Block()
    compiled = torch.compile(module, fullgraph=True, dynamic=True, backend="aot_eager")
    for batch, height, width in [(2, 8, 12), (3, 16, 8), (5, 12, 20)]:
        compare(module, compiled, torch.randn(batch, 4, height, width, dtype=torch.float64))


@torch._inductor.config.patch(compile_threads=1)
def test_compiled_by_inductor():
    torch._dynamo.reset()
    module = Block()
    compiled = torch.compile(module, fullgraph=True)
    x = torch.randn(2, 4, 8, 8, dtype=torch.float64)
    compare(module, compiled, x)
    # A second size makes the shapes dynamic.
    compare(module, compiled, torch.randn(3, 4, 12, 16, dtype=torch.float64))


@pytest.mark.full
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("last", [False, True], ids=["contiguous", "channels_last"])
def test_compiled_by_inductor_in_every_setting(dynamic, last):
    torch._dynamo.reset()
    module = Block()
    compiled = torch.compile(module, fullgraph=True, dynamic=dynamic)
    for size in (8, 12):
        x = torch.randn(2, 4, size, size, dtype=torch.float64)
        compare(module, compiled, x.to(memory_format=torch.channels_last) if last else x)


def test_second_derivatives_through_aot():
    """Both passes traced by hand, since compile itself differentiates once."""
    x = torch.randn(2, 3, 6, 6, dtype=torch.float64)
    kernel = torch.randn(3, 3, dtype=torch.float64)

    def penalty(x, kernel):
        def loss(x):
            return (ft.upfirdn2d(ft.fused_leaky_relu(x), kernel, up=2) ** 2).sum()

        return torch.func.grad(loss)(x).square().sum()

    torch._dynamo.reset()
    compiled = torch.compile(penalty, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x, kernel), penalty(x, kernel))


def test_export_with_dynamic_dimensions_and_back():
    module = Block().eval()
    batch, height = torch.export.Dim("batch", min=1, max=64), torch.export.Dim("height", min=2, max=64)
    program = torch.export.export(
        module,
        (torch.randn(2, 4, 16, 16, dtype=torch.float64),),
        dynamic_shapes=({0: batch, 2: 4 * height},),
    )
    targets = {str(node.target) for node in program.graph.nodes}
    assert {"firelu.fused_leaky_relu.default", "firelu.upfirdn2d.default"} <= targets
    for shape in [(2, 4, 16, 16), (5, 4, 24, 16)]:
        x = torch.randn(shape, dtype=torch.float64)
        torch.testing.assert_close(program.module()(x), module(x))


@pytest.mark.parametrize("run", [lambda x: ft.upfirdn2d(x, TAPS, up=2), ft.fused_leaky_relu, ft.leaky_relu])
def test_fake_strides_are_the_kernels(run):
    """With symbolic sizes torch must ask the fake kernels, not the decompositions made for exporters."""
    base = torch.randn(3, 8, 10, 6)
    for x in (base, base.permute(0, 3, 1, 2), base.transpose(0, 3)):
        mode = FakeTensorMode(shape_env=ShapeEnv(), allow_non_fake_inputs=True)
        symbolic = mode.from_tensor(x, static_shapes=False)
        with mode:
            fake = run(symbolic)
        assert any(isinstance(size, torch.SymInt) for size in fake.shape)
        assert [int(step) for step in fake.stride()] == list(run(x).stride())


def test_fake_strides_follow_the_input_with_symbols():
    """Permuted, sliced and channels-last inputs through a traced graph with symbolic sizes."""
    torch._dynamo.reset()
    upfirdn2d = bridged("UpFirDn2d").overload

    def run(x):
        return upfirdn2d(x, torch.ones(2, 2, dtype=x.dtype), 2, 2), ft.leaky_relu(x)

    compiled = torch.compile(run, fullgraph=True, dynamic=True, backend="aot_eager")
    base = torch.randn(3, 8, 10, 6)
    for x in (base, base.permute(0, 2, 3, 1), base.transpose(0, 3), base[:, ::2], base[:, :, 2:8, 1:]):
        for got, expected in zip(compiled(x), run(x), strict=True):
            assert got.stride() == expected.stride()
            torch.testing.assert_close(got, expected)


@pytest.mark.parametrize("dim", range(4))
@pytest.mark.parametrize("last", [False, True], ids=["contiguous", "channels_last"])
def test_sizes_that_only_the_run_tells(dim, last):
    """An unbacked size on any dimension, forward and backward."""
    bias = torch.zeros(4, requires_grad=True)
    kernel = torch.ones(2, 2)

    def run(x):
        y = ft.leaky_relu(x, 0.1)
        z = ft.upfirdn2d(y, kernel, up=2)
        # A bias has the length of the channels, so these have one that is known.
        return z if dim == 1 else ft.fused_leaky_relu(z, bias)

    x = torch.randn(3, 4, 6, 8)
    x = x.to(memory_format=torch.channels_last) if last else x
    expected = run(x)
    torch._dynamo.reset()
    torch._dynamo.decorators.mark_unbacked(x, dim)
    compiled = torch.compile(run, fullgraph=True, backend="aot_eager")
    result = compiled(x)
    torch.testing.assert_close(result, expected)
    assert result.stride() == expected.stride()


@pytest.mark.parametrize("dim", range(3))
def test_arithmetic_on_sizes_that_only_the_run_tells(dim):
    one = torch.randn(1, 1)

    def run(x, y):
        return torch.ops.firelu.add(x, y), torch.ops.firelu.mul(x, one), torch.ops.firelu.reduce_sum(x)

    x, y = torch.randn(3, 4, 5), torch.randn(3, 4, 5)
    expected = run(x, y)
    torch._dynamo.reset()
    torch._dynamo.decorators.mark_unbacked(x, dim)
    torch._dynamo.decorators.mark_unbacked(y, dim)
    torch.testing.assert_close(torch.compile(run, fullgraph=True, backend="aot_eager")(x, y), expected)


def test_numbers_that_change_from_call_to_call():
    """The compiler makes a symbol of such a number; an operator's arguments are numbers again."""
    torch._dynamo.reset()
    compiled = torch.compile(lambda x, bias, slope: ft.fused_leaky_relu(x, bias, slope, 1.5), backend="aot_eager")
    for slope in (0.1, 0.2, 0.3):
        x, bias = torch.randn(2, 3, requires_grad=True), torch.zeros(3)
        y = compiled(x, bias, slope)
        torch.testing.assert_close(y, torch.nn.functional.leaky_relu(x, slope) * 1.5)
        (gradient,) = torch.autograd.grad(y.sum(), x)
        torch.testing.assert_close(gradient, torch.where(x > 0, 1.5, 1.5 * slope))
