"""Look-alikes of vocoders run on firelu: their loader, their extension, the modules in plain torch, training too."""

from __future__ import annotations

import copy
import inspect
import pickle

import firelu.compat
import lookalike_vocoder
import plain_formulas
import pytest
import torch
from compat_checks import check_derivatives, tensors
from torch import nn


def plain(module, x, alpha, beta=None, logscale=False, up=None, offset=None):
    """The activation by its formula, with the module's own filters."""
    u = plain_formulas.upsample1d(x, module.upsample.filter if up is None else up, 2, offset)
    v = plain_formulas.snake(u, alpha, beta, logscale)
    return plain_formulas.downsample1d(v, getattr(module.downsample, "lowpass", module.downsample).filter, 2)


def check(module, logscale, *projects, **plain_arguments):
    """Values, first and second derivatives by signal and parameters, for which no code of the projects runs."""
    module = module.double()
    module(torch.ones(1, 3, 8, dtype=torch.float64))  # its class is tried at the first call
    for project in projects:
        project.calls.clear()
    names = [name for name, _ in module.named_parameters()]
    x, *values = tensors((2, 3, 11), *[parameter.shape for parameter in module.parameters()])
    values = [(value.detach().abs() + 0.3).requires_grad_() for value in values]

    def ours(x, *values):
        return torch.func.functional_call(module, dict(zip(names, values, strict=True)), (x,))

    check_derivatives(
        ours,
        lambda x, *values: plain(
            module, x, *(each.reshape(-1) for each in values), logscale=logscale, **plain_arguments
        ),
        x,
        *values,
    )
    assert [call for project in projects for call in project.calls] == []


@pytest.mark.parametrize("root", ["alias_free_activation", "some/vocoder/alias_free"])
@pytest.mark.parametrize("kind", ["Snake", "SnakeBeta"])
@pytest.mark.parametrize("logscale", [False, True])
@pytest.mark.parametrize("before", [True, False])
def test_the_modules_in_plain_torch(tree, root, kind, logscale, before):
    import_module, name = tree(lookalike_vocoder.package(root)), root.replace("/", ".")
    if before:
        import_module(f"{name}.torch.act")
    with firelu.compat.install():
        act, activations = import_module(f"{name}.torch.act"), import_module(f"{name}.activations")
        resample = import_module(f"{name}.torch.resample")
        module = act.Activation1d(getattr(activations, kind)(3, alpha_logscale=logscale))
        module(torch.randn(1, 3, 8))  # tried
        resample.calls.clear(), activations.calls.clear()
        x = torch.randn(2, 3, 50, requires_grad=True)
        torch.testing.assert_close(module(x), plain(module, x, *module.parameters(), logscale=logscale))
        module(x).square().sum().backward()
        assert all(parameter.grad is not None for parameter in module.parameters())
        assert resample.calls == activations.calls == []
        check(module, logscale, resample, activations)
    module(torch.randn(1, 3, 8).double())
    assert resample.calls == ["UpSample1d", "LowPassFilter1d"]


@pytest.mark.parametrize("form", list(lookalike_vocoder.FILTERS))
@pytest.mark.parametrize("fused", [True, False])
def test_the_extension_is_not_built(tree, form, fused):
    import_module = tree(lookalike_vocoder.package("alias_free_activation", form, extension=f"any_{fused:d}_name"))
    with pytest.raises(FileNotFoundError, match="nvcc"):
        import_module("alias_free_activation.cuda.activation1d")
    with firelu.compat.install():
        cuda = import_module("alias_free_activation.cuda.activation1d")
        activations = import_module("alias_free_activation.activations")
        resample = import_module("alias_free_activation.torch.resample")
        for logscale in (False, True):
            module = cuda.Activation1d(activations.SnakeBeta(3, alpha_logscale=logscale), fused=fused)
            check(module, logscale, resample, activations)  # also backwards, where the extension has nothing
        module = module.float()
        filters = [module.upsample.filter, module.downsample.lowpass.filter][: 2 if form == "two filters" else 1]
        x, alpha, beta = torch.randn(2, 3, 9), torch.randn(3), torch.randn(3)
        torch.testing.assert_close(
            cuda.anti_alias_activation_cuda.forward(x, *filters, alpha, beta),
            plain(module, x, alpha, beta, logscale=True),
        )
        check_derivatives(
            lambda *tensors: cuda.anti_alias_activation_cuda.forward(tensors[0], *filters, *tensors[1:]),
            lambda *tensors: plain(module, *tensors, logscale=True),
            *tensors((2, 3, 9), (3,), (3,)),
        )
        with pytest.raises(firelu.ArgumentError, match="forward: got 3 tensors, takes x, up_filter"):
            cuda.anti_alias_activation_cuda.forward(x, alpha, beta)


def test_a_load_of_something_else_stays(project):
    module = project("loads", "def load():\n    return 'theirs', 'anti_alias_activation.cpp'\n")()
    with firelu.compat.install():
        assert module.load()[0] == "theirs"


@pytest.mark.parametrize(
    ("text", "prefix"), [(lookalike_vocoder.TRANSFORMERS, ""), (lookalike_vocoder.TRANSFORMERS_LATER, "OmniModel")]
)
def test_the_classes_of_transformers(tree, text, prefix):
    """No flag says that parameters are logarithms: the class is tried."""
    import_module = tree({"modeling_omni.py": text})
    with firelu.compat.install() as replaced:
        omni = import_module("modeling_omni")
        name = f"{prefix}Activation1d" if prefix else "TorchActivation1d"
        snake = getattr(omni, f"{prefix}SnakeBeta")
        module = getattr(omni, name)(snake(3))
        module(torch.randn(1, 3, 8))
        assert omni.calls, "of the trial"
        check(module, True, omni)
        names = (name, *(f"{prefix}{each}" for each in ("SnakeBeta", "UpSample1d", "DownSample1d")))
        assert {f"modeling_omni.{each}.forward" for each in names} <= set(replaced)
        assert not any("modeling_omni" in each["what"] for each in firelu.compat.status()["left_alone"])
        alone, x = snake(3).double(), torch.randn(1, 3, 8).double()
        alone(x)
        omni.calls.clear()
        torch.testing.assert_close(alone(x), plain_formulas.snake(x, alone.alpha, alone.beta, True))
        assert omni.calls == []


@pytest.mark.parametrize("use_beta", [False, True])
@pytest.mark.parametrize("logscale", [False, True])
def test_a_snake_with_another_argument(tree, logscale, use_beta):
    """Where its other arguments have their defaults it is served, alone or between filters."""
    vocoder = tree({"vocoder.py": lookalike_vocoder.DIFFUSERS})("vocoder")
    snake = vocoder.SnakeBeta(3, logscale=logscale, use_beta=use_beta)
    with torch.no_grad():
        for parameter in snake.parameters():
            parameter.add_(torch.tensor([0.5, 0.7, 0.9]))
    x = torch.randn(3, 3, 3)
    elsewhere = snake(x, channel_dim=2)
    with firelu.compat.install():
        snake(x)
        vocoder.calls.clear()
        torch.testing.assert_close(snake(x), plain_formulas.snake(x, *snake.parameters(), logscale=logscale))
        torch.testing.assert_close(snake(x, 1), snake(x))
        assert vocoder.calls == []
        with pytest.warns(RuntimeWarning, match=r"called with other arguments than \(1,\)"):
            torch.testing.assert_close(snake(x, channel_dim=2), elsewhere)
        module = vocoder.AntiAliasAct1d(snake)
        check(module, logscale, vocoder, up=plain_formulas.hann_taps(), offset=14)
        torch.testing.assert_close(
            torch.compile(snake, fullgraph=True, backend="aot_eager")(x.double(), channel_dim=2), elsewhere.double()
        )


@pytest.mark.parametrize("logscale", [False, True])
def test_the_classes_of_diffusers(tree, logscale):
    """A class of another name, a filter that is not centred, parameters of (1, C, 1)."""
    import_module = tree({"vocoder.py": lookalike_vocoder.DIFFUSERS})
    with firelu.compat.install():
        vocoder = import_module("vocoder")
        module = vocoder.AntiAliasAct1d(vocoder.Snake1d(3, logscale))
        with torch.no_grad():
            for parameter in module.parameters():
                parameter.add_(0.5)
        module(torch.randn(1, 3, 8))
        vocoder.calls.clear()
        x = torch.randn(1, 3, 40)
        expected = plain(module, x, *module.parameters(), logscale=logscale, up=plain_formulas.hann_taps(), offset=14)
        torch.testing.assert_close(module(x), expected)
        assert vocoder.calls == []
        check(module, logscale, vocoder, up=plain_formulas.hann_taps(), offset=14)


@pytest.mark.parametrize("ratio", [2, 3, 4])
@pytest.mark.parametrize("size", [None, 12, 13])
def test_resampling_on_its_own(tree, ratio, size):
    resample = tree(lookalike_vocoder.package("alias"))("alias.torch.resample")
    up, down = resample.UpSample1d(ratio, size), resample.DownSample1d(ratio, size)
    lowpass = resample.LowPassFilter1d(kernel_size=9)
    x = torch.randn(2, 3, 31)
    expected = up(x), down(x), lowpass(x)
    with firelu.compat.install():
        for module in (up, down, lowpass):
            module(x)
        resample.calls.clear()
        torch.testing.assert_close((up(x), down(x), lowpass(x)), expected)
        assert resample.calls == []
        (t,) = tensors((1, 2, 9))
        for module in (up.double(), down.double(), lowpass.double()):
            module(t)
        resample.calls.clear()
        check_derivatives(up, lambda t: plain_formulas.upsample1d(t, up.filter, ratio), t)
        check_derivatives(down, lambda t: plain_formulas.downsample1d(t, down.lowpass.filter, ratio), t)
        check_derivatives(lowpass, lambda t: plain_formulas.downsample1d(t, lowpass.filter, 1), t)
        assert resample.calls == []


@pytest.fixture
def activation(tree):
    """Give the class of an activation and its module of snakes."""
    import_module = tree(lookalike_vocoder.package("alias"))
    return import_module("alias.torch.act").Activation1d, import_module("alias.activations")


def test_other_ratios_and_sizes(activation):
    build, activations = activation
    x = torch.randn(1, 2, 20)
    modules = [build(activations.Snake(2), 3, 3, 18, 18), build(activations.Snake(2), 2, 2, 13, 11)]
    expected = [module(x) for module in modules]
    with firelu.compat.install():
        for module, value in zip(modules, expected, strict=True):
            torch.testing.assert_close(module(x), value)
            activations.calls.clear()
            torch.testing.assert_close(module(x), value)
            assert activations.calls == []


def changed(build, activations, how):
    """Give an activation that is not of the known form, and why."""
    module = build(activations.SnakeBeta(2))
    if how == "hook":
        module.act.register_forward_hook(lambda *arguments: None)
        return module, "one of its modules has hooks"
    if how == "other act":
        module.act = nn.PReLU(2)
        return module, "its parameters are not alpha"
    if how == "ratios":
        return build(activations.Snake(2), up_ratio=4, down_ratio=2), "it upsamples by 4 and downsamples by 2"
    if how == "padding":
        module.downsample.lowpass.padding_mode = "constant"
        return module, "whose padding repeats the edges"
    if how == "no padding":
        module.downsample.lowpass.padding = False
        return module, "its padding does not keep the length"
    if how == "crop":
        module.upsample.pad_left += 1
        return module, "its padding does not repeat the edges"
    assert how == "formula"

    class Tripled(activations.SnakeBeta):
        def forward(self, x):
            return 3 * super().forward(x)

    module.act = Tripled(2)
    return module, "its code computes something else than its attributes say"


@pytest.mark.parametrize("how", ["hook", "other act", "ratios", "padding", "no padding", "crop", "formula"])
def test_what_is_of_another_form_is_left_alone(activation, how):
    module, why = changed(*activation, how)
    x = torch.randn(1, 2, 20)
    expected = module(x)
    with firelu.compat.install():
        with pytest.warns(RuntimeWarning) as told:
            torch.testing.assert_close(module(x), expected)
        assert any(why in str(each.message) for each in told)
        torch.testing.assert_close(module(x), expected)


@pytest.mark.parametrize(
    ("x", "why"),
    [
        (torch.ones(1, 2, 5, dtype=torch.float64), "its parameters are not torch.float64, one for each channel"),
        (torch.ones(2, 5), "input: got 2 dimensions, takes 3"),
        (torch.ones(1, 2, 5, dtype=torch.complex64), "input: got complex64, takes float16"),
    ],
)
def test_tensors_that_are_not_served(activation, x, why):
    _, activations = activation
    snake = activations.Snake(2)
    expected = snake(x)
    with firelu.compat.install(), pytest.warns(RuntimeWarning, match="to the project's own code") as told:
        torch.testing.assert_close(snake(x), expected)
    assert why in str(told[0].message)


def test_parameters_beyond_a_trial_do_not_matter(activation):
    """Whether a class is served does not depend on the values that a network happens to have."""
    build, activations = activation
    module = build(activations.Snake(2))
    with torch.no_grad():
        module.act.alpha.fill_(float("nan"))
    with firelu.compat.install():
        assert module(torch.ones(1, 2, 5)).isnan().all()
        assert firelu.compat.status()["fallbacks"] == []


def test_a_module_stays_what_it_was(activation):
    build, activations = activation
    module, text = build(activations.Snake(2)), inspect.getsource(build.forward)
    x = torch.randn(1, 2, 9)
    names = list(vars(module)), list(module.state_dict())
    with firelu.compat.install():
        expected = module(x)
        assert (list(vars(module)), list(module.state_dict())) == names
        assert inspect.getsource(build.forward) == text
        for same in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
            torch.testing.assert_close(same(x), expected)
        torch._dynamo.reset()
        torch.testing.assert_close(torch.compile(module, fullgraph=True, backend="aot_eager")(x), expected)


def test_halves(activation):
    build, activations = activation
    module, x = build(activations.SnakeBeta(2, alpha_logscale=True)), torch.randn(1, 2, 40)
    expected = module(x)
    with firelu.compat.install():
        for dtype in (torch.bfloat16, torch.float16):
            result = module.to(dtype)(x.to(dtype))
            assert result.dtype == dtype
            # Taps and signal are rounded to 8 bits: a few units in the last place of values around 4.
            torch.testing.assert_close(result.float(), expected, rtol=2e-2, atol=5e-2)
        assert firelu.compat.status()["fallbacks"] == []


@pytest.mark.parametrize(
    "text",
    [
        "class Snake:\n    def forward(self, alpha): return 'theirs'",
        "from torch import nn\nclass Snake(nn.Module):\n    def forward(self, x): return 'theirs'",
        "from torch import nn\nclass Snake(nn.Module):\n    def forward(self, x, y): return 'theirs' or self.alpha",
    ],
)
def test_a_class_that_only_has_the_name(project, text):
    module = project("game", text)()
    with firelu.compat.install():
        assert "theirs" in module.Snake.forward.__code__.co_consts
        left = [each["why"] for each in firelu.compat.status()["left_alone"] if each["what"].startswith("game.")]
    assert len(left) == ("nn" in text)
