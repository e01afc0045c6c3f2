"""The modules, functions and classes that existing code names."""

from __future__ import annotations

import copy
import io
import pickle

import firelu
import firelu.torch as ft
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st


def test_fused_leaky_relu_module():
    module = ft.FusedLeakyReLU(3)
    assert torch.equal(module.bias, torch.zeros(3))
    assert list(module.state_dict()) == ["bias"]
    x = torch.randn(2, 3, 4, 4)
    expected = torch.nn.functional.leaky_relu(x, 0.2) * 2**0.5
    torch.testing.assert_close(module(x), expected)
    without = ft.FusedLeakyReLU(3, bias=False)
    assert without.bias is None
    assert list(without.state_dict()) == []
    torch.testing.assert_close(without(x), expected)
    assert repr(module) == "FusedLeakyReLU(3, negative_slope=0.2, scale=1.41421, bias=True)"


MODULES = [
    lambda: ft.FusedLeakyReLU(3),
    lambda: ft.UpFirDnUpsample([1, 3, 3, 1]),
    lambda: ft.UpFirDnDownsample([1, 3, 3, 1]),
    lambda: ft.UpFirDnSmooth([1, 3, 3, 1], upsample_factor=2, kernel_size=3),
    lambda: ft.UpFirDnSmooth([1, 3, 3, 1], downsample_factor=2, kernel_size=3),
]


@pytest.mark.parametrize("make", MODULES)
def test_modules_are_copied_pickled_saved_and_moved(make):
    module, x = make(), torch.randn(1, 3, 8, 8)
    expected = module(x)
    buffer = io.BytesIO()
    torch.save(module, buffer)
    buffer.seek(0)
    others = [copy.deepcopy(module), pickle.loads(pickle.dumps(module)), torch.load(buffer, weights_only=False)]
    for other in others:
        assert torch.equal(other(x), expected)
    fresh = make()
    assert not fresh.load_state_dict(module.state_dict(), strict=True).missing_keys
    torch.testing.assert_close(module.double()(x.double()), expected.double(), atol=1e-5, rtol=1e-5)
    assert module.to("meta")(x.double().to("meta")).shape == expected.shape


def test_resampling_kernels_are_not_in_checkpoints():
    for make in MODULES[1:]:
        assert list(make().state_dict()) == []


@pytest.mark.parametrize("factor", [2, 3, 4])
@pytest.mark.parametrize("taps", [[1, 1], [1, 2, 1], [1, 3, 3, 1], [1, 2, 3, 2, 1]])
def test_resampling_gives_the_size_and_keeps_a_constant(factor, taps):
    x = torch.ones(1, 2, 12 * factor, 12 * factor)
    down = ft.UpFirDnDownsample(taps, factor)(x)
    assert down.shape == (1, 2, 12, 12)
    torch.testing.assert_close(down[:, :, 3:9, 3:9], torch.ones(1, 2, 6, 6))
    up = ft.UpFirDnUpsample(taps, factor)(x)
    assert up.shape == (1, 2, 12 * factor**2, 12 * factor**2)
    if len({sum(taps[phase::factor]) for phase in range(factor)}) == 1:
        middle = up[:, :, factor * 4 : -factor * 4, factor * 4 : -factor * 4]
        torch.testing.assert_close(middle, torch.ones_like(middle))


@pytest.mark.parametrize("kernel_size", [1, 3, 5])
@pytest.mark.parametrize("factor", [2, 3])
def test_smoothing_beside_a_convolution_gives_the_right_size(factor, kernel_size):
    taps = [1, 3, 3, 1] if kernel_size < 5 else [1, 5, 10, 10, 5, 1]
    x, weight = torch.randn(1, 1, 12, 12), torch.randn(1, 1, kernel_size, kernel_size)
    smooth = ft.UpFirDnSmooth(taps, upsample_factor=factor, kernel_size=kernel_size)
    wide = torch.nn.functional.conv_transpose2d(x, weight, stride=factor)
    assert smooth(wide).shape == (1, 1, 12 * factor, 12 * factor)
    smooth = ft.UpFirDnSmooth(taps, downsample_factor=factor, kernel_size=kernel_size)
    assert torch.nn.functional.conv2d(smooth(x), weight, stride=factor).shape == (1, 1, 12 // factor, 12 // factor)
    alone = ft.UpFirDnSmooth(taps, kernel_size=kernel_size)
    assert torch.nn.functional.conv2d(alone(x), weight).shape == x.shape
    with pytest.raises(firelu.ArgumentError, match="at most one of them"):
        ft.UpFirDnSmooth(taps, 2, 2)


@given(
    shape=st.tuples(st.integers(1, 2), st.integers(1, 3), st.integers(3, 9), st.integers(3, 9)),
    taps=st.tuples(st.integers(1, 5), st.integers(1, 5)),
    up=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    down=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    pad=st.lists(st.integers(-1, 4), min_size=4, max_size=4),
)
def test_upfirdn2d_equals_the_plain_formula_and_its_classes(shape, taps, up, down, pad):
    pad = [pad[0] + 2, pad[1], pad[2] + 2, pad[3]]
    assume(shape[3] * up[0] + pad[0] + pad[1] >= taps[1] and shape[2] * up[1] + pad[2] + pad[3] >= taps[0])
    x = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    kernel = torch.randn(taps, dtype=torch.float64, requires_grad=True)
    y = ft.upfirdn2d(x, kernel, up, down, pad)
    plain = ft.upfirdn2d_native(x, kernel, *up, *down, *pad)
    torch.testing.assert_close(y, plain)
    torch.testing.assert_close(ft.UpFirDn2d.apply(x, kernel, up, down, pad), plain)
    dy = torch.randn_like(y)
    dx, dk = torch.autograd.grad(y, (x, kernel), dy)
    plain_dx, plain_dk = torch.autograd.grad(plain, (x, kernel), dy)
    torch.testing.assert_close(dx, plain_dx)
    torch.testing.assert_close(dk, plain_dk)
    transposed: list[int] = []
    for axis in (0, 1):
        before, count, size, out = pad[2 * axis], taps[1 - axis], shape[3 - axis], y.shape[3 - axis]
        transposed += [count - before - 1, size * up[axis] - out * down[axis] + before - up[axis] + 1]
    through_class = ft.UpFirDn2dBackward.apply(
        dy, kernel, kernel.flip((0, 1)), up, down, pad, transposed, x.shape, y.shape[2:]
    )
    torch.testing.assert_close(through_class, plain_dx)


def test_fused_classes_take_the_known_order_and_have_second_derivatives():
    x = torch.randn(2, 3, 4, dtype=torch.float64, requires_grad=True)
    bias = torch.randn(3, dtype=torch.float64, requires_grad=True)
    out = ft.FusedLeakyReLUFunction.apply(x, bias, 0.2, 1.5)
    plain = 1.5 * torch.nn.functional.leaky_relu(x + bias.view(1, -1, 1), 0.2)
    torch.testing.assert_close(out, plain)
    dy = torch.randn_like(out, requires_grad=True)
    got = ft.FusedLeakyReLUFunctionBackward.apply(dy, out, 0.2, 1.5)
    expected = torch.autograd.grad(plain, (x, bias), dy, create_graph=True)
    torch.testing.assert_close(got, expected)
    torch.testing.assert_close(
        torch.autograd.grad(got[0].square().sum() + got[1].square().sum(), dy),
        torch.autograd.grad(expected[0].square().sum() + expected[1].square().sum(), dy),
    )


def loaded_empty(make, state):
    with torch.device("meta"):
        module = make()
    module = module.to_empty(device="cpu")
    module.load_state_dict(state, strict=True)
    return module


def loaded_assigned(make, state):
    with torch.device("meta"):
        module = make()
    module.load_state_dict(state, strict=True, assign=True)
    return module


def loaded_reset(make, state):
    """As FSDP makes modules: memory, then `reset_parameters` of everyone who has something of its own."""
    with torch.device("meta"):
        module = make()
    for part in module.modules():
        if list(part.parameters(recurse=False)) or list(part.buffers(recurse=False)):
            part.to_empty(device="cpu", recurse=False)
            part.reset_parameters()
    module.load_state_dict(state, strict=True)
    return module


def loaded_twice(make, state):
    """Emptied while it has values, and moved to meta and back."""
    module = make().to_empty(device="cpu").to("meta").to_empty(device="cpu")
    module.load_state_dict(state, strict=True)
    return module


def loaded_under_default_device(make, state):
    torch.set_default_device("meta")
    try:
        module = make()
    finally:
        torch.set_default_device(None)
    module = module.double().to_empty(device="cpu").float()
    module.load_state_dict(state, strict=True)
    return module


LOADED = [loaded_empty, loaded_assigned, loaded_reset, loaded_twice, loaded_under_default_device]


PICTURES, SIGNALS = (1, 3, 8, 8), (1, 3, 24)
LOADABLE = {
    **{f"{place}": (make, PICTURES) for place, make in enumerate(MODULES)},
    "BiasAct": (lambda: ft.BiasAct(3, "swish"), PICTURES),
    "FilteredLeakyReLU": (lambda: ft.FilteredLeakyReLU(3, 2, 2, [1.0, 3, 3, 1], [[1.0, 2], [3, 4]], 4), PICTURES),
    "FilteredLeakyReLU without filters": (lambda: ft.FilteredLeakyReLU(3), PICTURES),
    "Snake": (lambda: ft.Snake(3), SIGNALS),
    "SnakeBeta": (lambda: ft.SnakeBeta(3, alpha_logscale=True), SIGNALS),
    "Snake1d": (lambda: ft.Snake1d(3), SIGNALS),
    "LowPassFilter1d": (lambda: ft.LowPassFilter1d(), SIGNALS),
    "UpSample1d": (lambda: ft.UpSample1d(3), SIGNALS),
    "DownSample1d": (lambda: ft.DownSample1d(3), SIGNALS),
    "Activation1d": (lambda: ft.Activation1d(ft.SnakeBeta(3)), SIGNALS),
    "Activation1d of another": (lambda: ft.Activation1d(torch.nn.GELU()), SIGNALS),
}


def test_every_module_is_loaded_by_way_of_meta():
    made = {type(part) for make, _ in LOADABLE.values() for part in make().modules()}
    offered = {value for value in vars(ft).values() if isinstance(value, type) and issubclass(value, torch.nn.Module)}
    assert offered <= made


@pytest.mark.parametrize("make", [make for make, _ in LOADABLE.values()], ids=LOADABLE.keys())
def test_reset_parameters_gives_what_a_new_module_has(make):
    """After `to_empty` nothing is left of parameters and buffers; `reset_parameters` brings all of them back."""
    with torch.device("meta"):
        module = make()
    module = module.to_empty(device="cpu")
    for tensor in [*module.parameters(), *module.buffers()]:
        tensor.detach().fill_(torch.nan)
    for part in module.modules():
        if list(part.parameters(recurse=False)) or list(part.buffers(recurse=False)):
            part.reset_parameters()
    new = make()
    for found, expected in zip(
        [*module.parameters(), *module.buffers()], [*new.parameters(), *new.buffers()], strict=True
    ):
        torch.testing.assert_close(found, expected, rtol=0, atol=0)


def test_taps_without_values_cannot_be_reset():
    module = ft.FilteredLeakyReLU(3, up_taps=torch.ones(4, device="meta")).to_empty(device="cpu")
    with pytest.raises(firelu.ArgumentError, match="FilteredLeakyReLU: up_taps: got a tensor on meta"):
        module.reset_parameters()


@pytest.mark.parametrize("load", LOADED)
@pytest.mark.parametrize(("make", "shape"), LOADABLE.values(), ids=LOADABLE.keys())
def test_modules_made_on_meta_and_loaded_are_whole(make, shape, load):
    """A strict load says that every key is there: the kernels, which are no keys, must be there too."""
    torch.manual_seed(0)
    whole = make()
    for parameter in whole.parameters():
        torch.nn.init.normal_(parameter)
    module = load(make, whole.state_dict())
    x = torch.randn(shape)
    assert torch.equal(module(x), whole(x))
    nested = load(
        lambda: torch.nn.Sequential(torch.nn.Identity(), make()), {f"1.{k}": v for k, v in whole.state_dict().items()}
    )
    assert torch.equal(nested(x), whole(x))


@pytest.mark.parametrize("make", MODULES[1:])
def test_a_kernel_moves_with_its_module(make):
    module = make()
    module.kernel.mul_(3)
    changed = module.kernel.clone()
    for move in (lambda m: m.double(), lambda m: m.half(), lambda m: m.float(), lambda m: m.to("cpu"), copy.deepcopy):
        module = move(module)
        torch.testing.assert_close(module.kernel.float(), changed, rtol=2**-10, atol=0)
    assert torch.equal(module.to(torch.float32).to_empty(device="cpu").kernel, module.kernel)
    module.reset_parameters()
    torch.testing.assert_close(3 * module.kernel, changed, rtol=2**-10, atol=0)
    assert make().to("meta").kernel.is_meta
    assert make().to("meta")(torch.empty(1, 3, 8, 8, device="meta")).is_meta


def test_a_kernel_without_values_is_refused():
    with pytest.raises(firelu.ArgumentError, match="make_kernel: taps: got a tensor on meta"):
        ft.UpFirDnUpsample(torch.ones(4, device="meta"))


def test_a_module_loaded_by_assignment_is_compiled():
    torch._dynamo.reset()
    module = loaded_assigned(lambda: ft.UpFirDnUpsample([1, 3, 3, 1]), {})
    x = torch.randn(1, 3, 8, 8)
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(x), ft.UpFirDnUpsample([1, 3, 3, 1])(x))
