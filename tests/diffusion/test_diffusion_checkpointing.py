"""Checkpointing: the gradients of the plain call, in every situation that upsets such code elsewhere."""

import gc
import weakref

import pytest

torch = pytest.importorskip("torch", reason="checkpointing needs torch")

from firelu.diffusion import CheckpointFunction, checkpoint  # noqa: E402


def make_net(dtype=torch.float64):
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.Tanh(), torch.nn.Linear(5, 3)).to(dtype)


def make_input(*shape, dtype=torch.float64, requires_grad=True):
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(1)).requires_grad_(requires_grad)


def gradients(net, x, flag):
    out = checkpoint(net, (x,), net.parameters(), flag)
    wanted = [tensor for tensor in (x, *net.parameters()) if tensor.requires_grad]
    return torch.autograd.grad(out.square().sum(), wanted)


def assert_all_equal(left, right):
    assert len(left) == len(right)
    assert all(torch.equal(a, b) for a, b in zip(left, right, strict=True))


def test_value_and_gradients_are_those_of_the_plain_call():
    net, x = make_net(), make_input(2, 4)
    assert torch.equal(checkpoint(net, (x,), net.parameters(), True), net(x))
    assert_all_equal(gradients(net, x, True), gradients(net, x, False))


def test_activations_are_computed_again_and_not_kept():
    runs, kept = [], []

    def func(x):
        inner = x.exp()
        runs.append(torch.is_grad_enabled())
        kept.append(weakref.ref(inner))
        return inner.sin()

    x = make_input(3)
    out = checkpoint(func, (x,), (), True)
    gc.collect()
    assert kept[0]() is None
    assert runs == [False]
    out.sum().backward()
    assert runs == [False, True]
    torch.testing.assert_close(x.grad, x.exp().cos() * x.exp())


def test_without_the_flag_or_a_gradient_it_is_a_plain_call():
    calls = []

    def func(x):
        calls.append(torch.is_grad_enabled())
        return x * 2

    checkpoint(func, (make_input(3),), (), False).sum().backward()
    checkpoint(func, (make_input(3, requires_grad=False),), (), True)
    with torch.no_grad():
        assert not checkpoint(func, (make_input(3),), (), True).requires_grad
    with torch.inference_mode():
        checkpoint(func, (torch.ones(3),), (), True)
    assert calls == [True, True, False, False]


def test_frozen_parameters():
    net, x = make_net(), make_input(2, 4)
    net[0].weight.requires_grad_(False)
    net[2].bias.requires_grad_(False)
    assert_all_equal(gradients(net, x, True), gradients(net, x, False))
    checkpoint(net, (x,), net.parameters(), True).sum().backward()
    assert net[0].weight.grad is None
    assert net[0].bias.grad is not None


def test_frozen_input_with_trained_parameters():
    net, x = make_net(), make_input(2, 4, requires_grad=False)
    assert_all_equal(gradients(net, x, True), gradients(net, x, False))


def test_trained_input_with_everything_frozen():
    net, x = make_net().requires_grad_(False), make_input(2, 4)
    assert_all_equal(gradients(net, x, True), gradients(net, x, False))


def test_second_derivatives():
    net, x = make_net(), make_input(2, 4)
    weights = tuple(net.parameters())

    def run(x, *_):
        return checkpoint(net, (x,), net.parameters(), True)

    assert torch.autograd.gradcheck(run, (x, *weights))
    assert torch.autograd.gradgradcheck(run, (x, *weights))


def test_third_derivative():
    x = make_input(3)

    def third(flag):
        value = checkpoint(lambda x: x.sin() * x, (x,), (), flag)
        for _ in range(3):
            (value,) = torch.autograd.grad(value.sum(), x, create_graph=True)
        return value

    torch.testing.assert_close(third(True), third(False), rtol=1e-12, atol=1e-12)


def test_gradient_penalty_trains_the_parameters():
    # The input has a history that shares parameters with the block: nothing may count twice.
    def penalty(flag):
        net = make_net()
        back = torch.nn.Linear(3, 4, dtype=torch.float64)
        torch.nn.init.constant_(back.weight, 0.1)
        x = make_input(2, 4)
        hidden = back(net(x))
        out = checkpoint(net, (hidden,), net.parameters(), flag)
        (grad,) = torch.autograd.grad(out.sum(), x, create_graph=True)
        grad.square().sum().backward()
        return [parameter.grad for parameter in net.parameters()]

    plain, checkpointed = penalty(False), penalty(True)
    torch.testing.assert_close(checkpointed, plain, rtol=1e-12, atol=1e-12)


def test_backward_twice():
    x = make_input(3)
    out = checkpoint(lambda x: x.exp(), (x,), (), True).sum()
    out.backward(retain_graph=True)
    out.backward()
    torch.testing.assert_close(x.grad, 2 * x.exp())
    with pytest.raises(RuntimeError, match="second time"):
        out.backward()


def test_outputs_of_any_kind():
    x = make_input(3)

    def func(x, label):
        order = x.argsort()
        return {"value": x.exp(), "parts": [x.sin(), None, label], "order": order, "same": x}, 7

    out, seven = checkpoint(func, (x, "label"), (), True)
    assert seven == 7
    assert out["parts"][1:] == [None, "label"]
    assert torch.equal(out["order"], x.argsort())
    assert not out["order"].requires_grad
    assert torch.equal(out["same"], x)
    (out["parts"][0].sum() + out["same"].sum()).backward()  # some outputs stay unused
    torch.testing.assert_close(x.grad, x.cos() + 1)


def test_arguments_of_any_kind():
    x, y = make_input(3), make_input(3)
    mask = torch.tensor([True, False, True])

    def func(x, extra, power, nothing, mask):
        assert nothing is None
        return torch.where(mask, x * extra["y"][0], 0.0) ** power

    checkpoint(func, (x, {"y": [y]}, 2, None, mask), (), True).sum().backward()
    torch.testing.assert_close(x.grad, torch.where(mask, 2 * x * y * y, 0.0).detach())
    torch.testing.assert_close(y.grad, torch.where(mask, 2 * x * x * y, 0.0).detach())


def test_nested_checkpoints():
    net, x = make_net(), make_input(2, 4)

    def block(x, flag):
        inner = checkpoint(net[:2], (x,), net[:2].parameters(), flag)
        return net[2](inner)

    def run(flag):
        out = checkpoint(lambda x: block(x, flag), (x,), net.parameters(), flag)
        first = torch.autograd.grad(out.square().sum(), (x, *net.parameters()), create_graph=True)
        return [*first, *torch.autograd.grad(first[0].square().sum(), (x, net[0].weight))]

    torch.testing.assert_close(run(True), run(False), rtol=1e-12, atol=1e-12)


def test_dropout_draws_the_same_numbers_again():
    net, x = torch.nn.Sequential(torch.nn.Dropout(0.5)), torch.ones(1000, requires_grad=True)
    out = checkpoint(net, (x,), (), True)
    torch.rand(10)
    state = torch.get_rng_state()
    out.sum().backward()
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(x.grad, out.detach())
    assert set(x.grad.tolist()) == {0.0, 2.0}


@pytest.mark.parametrize("backward_inside", [False, True])
def test_cpu_autocast_is_kept(backward_inside):
    net, x = make_net(torch.float32), make_input(2, 4, dtype=torch.float32)
    seen = []

    def func(x):
        out = net(x)
        seen.append(out.dtype)
        return out

    def run(flag):
        with torch.autocast("cpu", torch.bfloat16):
            out = checkpoint(func, (x,), net.parameters(), flag)
            loss = out.float().square().sum()
            if backward_inside:
                return torch.autograd.grad(loss, (x, *net.parameters()))
        return torch.autograd.grad(loss, (x, *net.parameters()))

    plain = run(False)
    assert_all_equal(run(True), plain)
    assert seen == [torch.bfloat16] * 3


def test_autocast_that_was_off_stays_off():
    net, x = make_net(torch.float32), make_input(2, 4, dtype=torch.float32)
    seen = []

    def func(x):
        out = net(x)
        seen.append(out.dtype)
        return out

    out = checkpoint(func, (x,), net.parameters(), True)
    with torch.autocast("cpu", torch.bfloat16):
        out.sum().backward()
    assert seen == [torch.float32] * 2


def test_a_weight_used_again_under_autocast_keeps_its_gradient():
    # On torch 2.6 a cast that is cached during the run without gradients cuts the second use off.
    layer, x = torch.nn.Linear(4, 4), make_input(2, 4, dtype=torch.float32)

    def run(flag):
        with torch.autocast("cpu", torch.bfloat16):
            out = layer(checkpoint(layer, (x,), layer.parameters(), flag))
        return torch.autograd.grad(out.float().sum(), (x, *layer.parameters()))

    for got, wanted in zip(run(True), run(False), strict=True):
        torch.testing.assert_close(got, wanted, rtol=2e-2, atol=2e-2)  # bfloat16 sums in another order


@pytest.mark.skipif(torch.cuda.is_available(), reason="stands in for CUDA where there is none")
def test_cuda_autocast_state_is_kept(monkeypatch):
    # Only the state, which torch keeps without a device too once it is told that CUDA might be there.
    monkeypatch.setattr("torch.amp.autocast_mode.is_autocast_available", lambda device: True)
    monkeypatch.setattr("torch.cuda.amp.common.amp_definitely_not_available", lambda: False)
    seen = []

    def func(x):
        seen.append((torch.is_autocast_enabled("cuda"), torch.get_autocast_dtype("cuda")))
        return x * 2

    x = make_input(3)
    with torch.autocast("cuda", torch.float16):
        out = checkpoint(func, (x,), (), True)
    assert not torch.is_autocast_enabled("cuda")
    out.sum().backward()
    assert seen == [(True, torch.float16)] * 2
    assert not torch.is_autocast_enabled("cuda")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_on_cuda():
    net, x = make_net(torch.float32).cuda(), make_input(2, 4, dtype=torch.float32).detach().cuda()
    net.insert(1, torch.nn.Dropout(0.5))
    x.requires_grad_()

    def run(flag):
        torch.manual_seed(3)
        with torch.autocast("cuda", torch.float16):
            out = checkpoint(net, (x,), net.parameters(), flag)
        torch.rand(5, device="cuda")
        return torch.autograd.grad(out.float().sum(), (x, *net.parameters()))

    assert_all_equal(run(True), run(False))


def test_a_parameter_listed_twice_counts_once():
    net, x = make_net(), make_input(2, 4)
    checkpoint(net, (x,), [*net.parameters(), *net.parameters()], True).square().sum().backward()
    wanted = gradients(net, x, False)
    assert_all_equal([x.grad, *(parameter.grad for parameter in net.parameters())], wanted)


def test_one_tensor_as_two_arguments_and_as_a_parameter():
    x = make_input(3)
    checkpoint(lambda a, b: a * b * x, (x, x), (x,), True).sum().backward()
    torch.testing.assert_close(x.grad, 3 * x.detach() ** 2)


def test_an_unlisted_parameter_is_refused():
    net, x = make_net(), make_input(2, 4)
    out = checkpoint(net, (x,), net[0].parameters(), True)
    with pytest.raises(RuntimeError, match=r"tensor of shape \((3|3, 5)\,?\) .* neither inputs nor params"):
        out.sum().backward()


def test_an_unlisted_activation_is_refused():
    x = make_input(3)
    hidden = x.exp()
    out = checkpoint(lambda x: x * hidden, (x,), (), True)
    with pytest.raises(RuntimeError, match="neither inputs nor params"):
        out.sum().backward()


def test_a_change_in_place_is_refused():
    x = make_input(3).exp()
    with pytest.raises(RuntimeError, match="changed an input in place"):
        checkpoint(lambda x: x.mul_(2), (x,), (), True)


def test_a_parameter_changed_before_backward_is_refused():
    net, x = make_net(), make_input(2, 4)
    out = checkpoint(net, (x,), net.parameters(), True)
    with torch.no_grad():
        net[0].weight.mul_(2)
    with pytest.raises(RuntimeError, match="changed in place between forward and backward"):
        out.sum().backward()


def test_hooks_that_copy_saved_tensors():
    net, x = make_net(), make_input(2, 4)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t.clone()):
        out = checkpoint(net, (x,), net.parameters(), True)
    grads = torch.autograd.grad(out.square().sum(), (x, *net.parameters()))
    assert_all_equal(grads, gradients(net, x, False))


def test_other_refusals():
    x = make_input(3)
    with pytest.raises(TypeError, match="must be sequences"):
        checkpoint(torch.exp, x, (), True)
    with pytest.raises(ValueError, match="leaf tensors"):
        checkpoint(torch.exp, (x,), (x.exp(),), True)
    with pytest.raises(TypeError, match="flat tuple"):
        CheckpointFunction.apply(lambda x: {"a": x.exp()}, 1, x)


def test_errors_inside_come_out_as_they_are():
    def func(x):
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        checkpoint(func, (make_input(3),), (), True)


def test_the_function_by_itself():
    net, x = make_net(), make_input(2, 4)
    assert issubclass(CheckpointFunction, torch.autograd.Function)
    out = CheckpointFunction.apply(net, 1, x, *net.parameters())
    assert torch.equal(out, net(x))
    grads = torch.autograd.grad(out.square().sum(), (x, *net.parameters()))
    assert_all_equal(grads, gradients(net, x, False))
    value, label = CheckpointFunction.apply(lambda x: (x.exp(), "label"), 1, x)
    assert label == "label"
    value.sum().backward()
    torch.testing.assert_close(x.grad, x.exp())
