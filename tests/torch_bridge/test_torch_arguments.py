"""Numbers among the arguments, one-dimensional kernels, and what is remembered of a call."""

from __future__ import annotations

import subprocess
import sys

import firelu
import firelu.torch as ft
import pytest
import torch
from firelu.torch import autograd, gradients
from firelu.torch.bridge import bridged
from firelu.torch.recent import Recent
from torch.autograd import forward_ad

# The first dual tensor of a process makes torch compile its own rules, by a function that it deprecates.
pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:FutureWarning")

X = torch.tensor([[[-1.0, 2.0], [3.0, -4.0]]])
KERNEL = torch.ones(1, 1)

NUMBERS = {
    "leaky_relu alpha": lambda number: ft.leaky_relu(X, number),
    "fused_leaky_relu alpha": lambda number: ft.fused_leaky_relu(X, None, number),
    "fused_leaky_relu scale": lambda number: ft.fused_leaky_relu(X, None, 0.2, number),
    "upfirdn2d gain": lambda number: ft.upfirdn2d(X, KERNEL, gain=number),
    "upfirdn2d gain, padded": lambda number: ft.upfirdn2d(X, KERNEL, pad=[0, 0], gain=number),
}
every_number = pytest.mark.parametrize("call", NUMBERS.values(), ids=NUMBERS.keys())


@every_number
@pytest.mark.parametrize("value", [0.5, 1.0])
def test_a_number_to_learn_is_refused(call, value):
    """It would get no gradient. torch's own functions refuse it too."""
    learnt = torch.nn.Parameter(torch.tensor(value))
    for number in (learnt, learnt * 1, torch.nn.Parameter(torch.tensor([value]))):
        with pytest.raises(firelu.ArgumentError, match=r"(alpha|scale|gain): got a tensor that requires grad, takes"):
            call(number)
    with pytest.raises(TypeError):
        torch.nn.functional.leaky_relu(X, learnt)


@every_number
def test_a_number_with_a_tangent_or_under_a_transform_is_refused(call):
    number = torch.tensor(0.5)
    with pytest.raises(firelu.ArgumentError, match="requires grad"):
        torch.func.grad(lambda n: call(n).sum())(number)
    with pytest.raises(firelu.ArgumentError, match="tangent"):
        torch.func.jvp(call, (number,), (number,))
    with forward_ad.dual_level(), pytest.raises(firelu.ArgumentError, match="tangent"):
        call(forward_ad.make_dual(number, number))


@every_number
def test_a_tensor_without_dimensions_is_a_number(call):
    """As for torch's own functions; more dimensions are none."""
    assert torch.equal(call(torch.tensor(0.5)), call(0.5))
    assert torch.equal(call(torch.tensor(1.0)), call(1.0))
    assert torch.equal(call(torch.tensor(2, dtype=torch.int64)), call(2.0))
    with pytest.raises(firelu.ArgumentError, match=r"got a tensor of the shape \(1,\), takes a number"):
        call(torch.tensor([0.5]))
    with pytest.raises(TypeError):
        torch.nn.functional.leaky_relu(X, torch.tensor([0.5]))


def test_a_module_with_a_slope_to_learn_is_refused_where_it_is_used():
    module = ft.FusedLeakyReLU(1, torch.nn.Parameter(torch.tensor(0.5)))
    with pytest.raises(firelu.ArgumentError, match="FusedLeakyRelu: alpha: got a tensor that requires grad"):
        module(X)


def test_a_number_that_frees_a_tensor():
    """It is read before the tensor's address is."""
    code = """
import torch, firelu, firelu.torch as ft
class Frees:
    def __float__(self):
        x.untyped_storage().resize_(0)
        return 0.5
kernel = torch.ones(1, 1)
for call in (
    lambda: ft.leaky_relu(x, Frees()),
    lambda: ft.fused_leaky_relu(x, None, 0.2, Frees()),
    lambda: ft.upfirdn2d(x, kernel, gain=Frees()),
):
    x = torch.ones(1, 1, 1000, 3000)
    try:
        call()
    except (firelu.ArgumentError, RuntimeError, TypeError) as error:
        print("refused")
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert (result.returncode, result.stdout.split()) == (0, ["refused"] * 3), result.stderr


def test_a_compiled_call_refuses_a_number_to_learn():
    torch._dynamo.reset()
    learnt = torch.nn.Parameter(torch.tensor(0.5))
    compiled = torch.compile(lambda x, slope: ft.leaky_relu(x, slope), backend="eager")
    with pytest.raises(firelu.ArgumentError, match="requires grad"):
        compiled(X, learnt)


TAPS = [1e-4, 3e-4, 300.0, 77.7]


@pytest.mark.parametrize("taps", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("picture", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_one_dimensional_taps_are_multiplied_in_the_type_that_is_computed_in(taps, picture):
    """A picture of a single one gives the kernel back, as exact as the picture's type has it."""
    one = torch.zeros(1, 1, 7, 7, dtype=picture)
    one[..., 3, 3] = 1
    stored = torch.tensor(TAPS).to(taps)
    result = ft.upfirdn2d(one, stored)[0, 0]
    expected = torch.outer(stored.double(), stored.double()).to(picture)
    # A rounding for each of the products, and one for the result.
    of = torch.finfo(picture)
    torch.testing.assert_close(result, expected, rtol=4 * of.eps, atol=of.smallest_normal * of.eps)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("picture", [torch.float32, torch.float64], ids=str)
def test_one_dimensional_taps_keep_their_gradient(dtype, picture):
    x = torch.randn(1, 2, 6, 6, dtype=picture, generator=torch.Generator().manual_seed(0))
    taps = torch.tensor([0.1, 0.7, -0.3]).to(dtype).requires_grad_()
    ft.upfirdn2d(x, taps).square().sum().backward()
    wide = taps.detach().double().requires_grad_()
    ft.upfirdn2d(x.double(), wide).square().sum().backward()
    assert taps.grad.dtype == dtype
    torch.testing.assert_close(taps.grad.double(), wide.grad, rtol=4 * torch.finfo(dtype).eps, atol=0)


def test_taps_of_whole_numbers_are_refused_in_one_and_in_two_dimensions():
    for taps in (torch.tensor([1, 2]), torch.ones(2, 2, dtype=torch.int64)):
        with pytest.raises(firelu.DTypeError, match="UpFirDn2d: K: got int64"):
            ft.upfirdn2d(X, taps)


def test_no_cache_grows_with_the_number_of_slopes():
    x = torch.randn(2, 3, requires_grad=True)
    bias = torch.zeros(3, requires_grad=True)
    operator = bridged("FusedLeakyRelu")
    for step in range(3 * max(autograd.RECIPES_KEPT, gradients.PLANS_KEPT)):
        ft.fused_leaky_relu(x, bias, 0.2 + step * 1e-7).sum().backward()
    for step in range(gradients.PLANS_KEPT + 10):
        torch.func.jvp(lambda v, slope=step * 1e-7: ft.leaky_relu(v, slope), (x.detach(),), (x.detach(),))
    assert 0 < len(operator.recorder.recipes) <= autograd.RECIPES_KEPT
    for kept in (gradients._plan, gradients._forward_plan):
        assert kept.cache_info().maxsize == gradients.PLANS_KEPT
        assert kept.cache_info().currsize <= gradients.PLANS_KEPT
    for name in firelu.operators():
        if name in ft.operators.RULES:
            assert len(bridged(name).recorder.recipes) <= autograd.RECIPES_KEPT


def test_what_is_recent_stays_and_what_is_old_goes():
    recent: Recent[int, str] = Recent(3)
    for key in range(5):
        recent[key] = str(key)
    assert dict(recent) == {2: "2", 3: "3", 4: "4"}


def test_a_direct_call_reads_a_tensor_as_a_number_and_torch_warns():
    """A tensor never reaches the operator, so that it cannot be refused there: docs/reliability.md says so."""
    # torch warns once a process.
    code = """
import warnings, torch, firelu.torch
slope = torch.nn.Parameter(torch.tensor(0.5))
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    print(torch.ops.firelu.leaky_relu(torch.tensor([-2.0]), slope).tolist())
print([str(each.message) for each in told])
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    values, warned = result.stdout.splitlines()
    assert values == "[-1.0]"
    assert "requires_grad=True to a scalar" in warned
