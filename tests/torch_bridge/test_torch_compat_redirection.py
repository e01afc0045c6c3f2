"""What the drop-in replaces stays what it was to everybody else; what it does not know is left alone."""

from __future__ import annotations

import inspect
import pickle

import firelu.compat
import pytest
import torch
from compat_projects import PLAIN
from firelu.compat import transaction
from torch.nn import functional
from torch.utils import cpp_extension

FILTER = """
    import torch

    calls = []

    {decorator}
    def upfirdn2d_native(input, kernel, up_x, up_y, down_x, down_y, pad_x0, pad_x1, pad_y0, pad_y1):
        calls.append("theirs")
        return input
"""


def apply(module, image):
    return module.upfirdn2d_native(image, torch.ones(1, 1), 1, 1, 1, 1, 0, 0, 0, 0)


@pytest.mark.parametrize("before", [True, False])
def test_a_function_keeps_its_defaults_and_its_signature(project, before):
    load = project("own_defaults", PLAIN)
    module = load() if before else None
    x, bias = torch.tensor([[-1.0, 2.0]]), torch.zeros(2)
    with firelu.compat.install():
        module = load()
        function = module.fused_leaky_relu
        torch.testing.assert_close(function(x, bias), torch.tensor([[-0.1, 2.0]]))
        torch.testing.assert_close(function(bias=bias, input=x, scale=2.0), torch.tensor([[-0.2, 4.0]]))
        assert module.calls == []
        assert str(inspect.signature(function)) == "(input, bias, negative_slope=0.1, scale=1.0)"
        assert inspect.getsource(function).startswith("def fused_leaky_relu(input, bias, negative_slope=0.1")
        assert (function.__name__, function.__doc__) == ("fused_leaky_relu", "Theirs.")
        assert pickle.loads(pickle.dumps(function)) is function
        with pytest.raises(TypeError, match=r"fused_leaky_relu\(\) missing 1 required positional argument: 'bias'"):
            function(x)
    function(x, bias)
    assert module.calls == ["theirs"]


def test_parameters_of_every_kind_are_passed_on():
    def function(a, b=2, /, c=3, *rest, d, e=5, **others):
        return a, b, c, rest, d, e, others

    before, expected = inspect.signature(function), function(1, 7, 8, 9, d=4, f=6)
    changes = transaction.Transaction()
    changes.redirect(function, lambda original: lambda *a, **k: ("new", original(*a, **k)), "function")
    assert function(1, 7, 8, 9, d=4, f=6) == ("new", expected)
    assert function(1, d=4) == ("new", (1, 2, 3, (), 4, 5, {}))
    assert inspect.signature(function) == before
    changes.undo()
    assert function(1, 7, 8, 9, d=4, f=6) == expected


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("def upfirdn2d_native(x, k, up=1, down=1, pad=(0, 0)):\n    return 'theirs'\n", "it takes (x, k, up=1"),
        ("def upfirdn2d_native(*args, **kwargs):\n    return 'theirs'\n", "it takes (*args, **kwargs)"),
        ("class upfirdn2d_native:\n    pass\n", "it is a type, not a Python function"),
        ("import json\nupfirdn2d_native = json.dumps\n", "it is json.dumps"),
        ("upfirdn2d_native = None\n", "it is a NoneType"),
    ],
)
@pytest.mark.parametrize("before", [True, False])
def test_strangers_of_the_same_name_are_left_alone(project, text, reason, before):
    load = project("upfirdn2d", text)
    if before:
        load()
    with firelu.compat.install():
        module = load()
        if "theirs" in text:
            assert module.upfirdn2d_native(1, 2) == "theirs"
        (why,) = [each["why"] for each in firelu.compat.status()["left_alone"] if each["what"].startswith("upfirdn2d.")]
        assert why.startswith(reason)
        assert f"Left alone: upfirdn2d.upfirdn2d_native: {reason}" in firelu.compat.doctor()


def test_a_global_that_is_no_extension_stays(project):
    load = project("own_flag", PLAIN + "\n    fused = True\n")
    with firelu.compat.install():
        assert load().fused is True
        assert {"what": "own_flag.fused", "why": "it is a bool without fused_bias_act, not the extension"} in (
            firelu.compat.status()["left_alone"]
        )
        assert not hasattr(load(), "fused_act_ext")


@pytest.mark.parametrize("before", [True, False])
def test_a_decorated_function_stays_decorated(project, before):
    load = project("decorated", FILTER.format(decorator="@torch.no_grad()"))
    if before:
        load()
    image = torch.ones(1, 1, 2, 2, requires_grad=True)
    with firelu.compat.install() as replaced:
        module = load()
        filtered = module.upfirdn2d_native(image, 2 * torch.ones(1, 1), 1, 1, 1, 1, 0, 0, 0, 0)
        torch.testing.assert_close(filtered, 2 * torch.ones(1, 1, 2, 2))
        assert not filtered.requires_grad
        assert "decorated.upfirdn2d_native" in replaced
    assert apply(module, image) is image
    assert module.calls == ["theirs"]


def test_a_decorator_that_hides_its_function_is_left_alone(project):
    text = """
        import contextlib

        def hide(function):
            return lambda *args: function(*args)

        {0}
    """
    function = "@hide\n{0}def upfirdn2d_native(a, b):\n{0}    return 'theirs'"
    load = project("hidden", text.format(function.format(" " * 8)))
    with firelu.compat.install():
        assert load().upfirdn2d_native(1, 2) == "theirs"


@pytest.mark.parametrize("before", [True, False])
def test_a_closure_is_served(project, before):
    load = project(
        "closure",
        """
            import torch

            def make(first, second):
                def fused_leaky_relu(input, bias=None, negative_slope=0.3, scale=2.0):
                    return first + second
                return fused_leaky_relu

            fused_leaky_relu = make("the", "irs")
        """,
    )
    if before:
        load()
    with firelu.compat.install():
        module = load()
        torch.testing.assert_close(module.fused_leaky_relu(torch.tensor([[-1.0]])), torch.tensor([[-0.6]]))
        assert inspect.getclosurevars(module.fused_leaky_relu).nonlocals == {"first": "the", "second": "irs"}
    assert module.fused_leaky_relu(None) == "theirs"


@pytest.mark.parametrize("shape", [(3,), (1, 3, 1, 1), (3, 1, 1)])
def test_a_bias_that_broadcasts(project, shape):
    """A module of any name is found by what it defines; its bias may be written as it is added."""
    module = project("motion_encoder", PLAIN)()
    x, bias = torch.randn(2, 3, 4, 5, dtype=torch.float64), torch.randn(shape, dtype=torch.float64, requires_grad=True)
    expected = functional.leaky_relu(x + bias.reshape(1, 3, 1, 1), 0.2) * 1.5
    with firelu.compat.install():
        result = module.fused_leaky_relu(x, bias, 0.2, 1.5)
    torch.testing.assert_close(result, expected)
    (gradient,), (other,) = (torch.autograd.grad(each.square().sum(), bias) for each in (result, expected))
    assert gradient.shape == shape
    torch.testing.assert_close(gradient, other)
    assert module.calls == []


def test_a_float_bias_beside_halves(project):
    module = project("halves", PLAIN)()
    x, bias = torch.randn(2, 3, 4).half(), torch.randn(3)
    with firelu.compat.install():
        result = module.fused_leaky_relu(x, bias, 1, 2)
    torch.testing.assert_close(result, (2 * (x.float() + bias[:, None])).half())
    assert module.calls == []


@pytest.mark.parametrize(
    ("input", "bias", "why"),
    [
        (torch.ones(2, 3, 4, 5), torch.ones(5, dtype=torch.float64), "bias: got torch.float64 of (5,)"),
        (torch.ones(2, 3, 4, 5), torch.ones(1, 5), "bias: got torch.float32 of (1, 5)"),
        (torch.ones(2, 3, 4, 5), torch.ones(2, 1, 1, 1), "bias: got torch.float32 of (2, 1, 1, 1)"),
        (torch.ones(2, 3, dtype=torch.int64), 1, "input: got int64, takes float16, bfloat16, float32 and float64"),
        (torch.ones(2, 3), 1, "bias: got a int, takes a tensor"),
        (torch.ones(3), torch.ones(3), "input: got 1 dimensions, takes 2 or more"),
    ],
)
def test_what_firelu_does_not_compute_is_left_to_the_project(project, input, bias, why):
    module = project(
        "others", PLAIN.replace("negative_slope)", "negative_slope) if input.is_floating_point() else input")
    )()
    expected = module.fused_leaky_relu(input, bias, scale=2)
    with firelu.compat.install():
        with pytest.warns(RuntimeWarning, match="leaves others.fused_leaky_relu to the project") as told:
            torch.testing.assert_close(module.fused_leaky_relu(input, bias, scale=2), expected)
        assert why in str(told[0].message)
        assert told[0].filename == __file__
        module.fused_leaky_relu(input, bias, scale=2)  # a second time nothing is said
        (fallback,) = firelu.compat.status()["fallbacks"]
        assert fallback["what"] == "others.fused_leaky_relu"
        assert why in fallback["why"]
        assert "Left to the project's own code: others.fused_leaky_relu: " + why in firelu.compat.doctor()
    assert module.calls == ["theirs"] * 3


def test_a_scale_that_learns_keeps_its_gradient(project):
    module = project("learns", PLAIN)()
    scale = torch.tensor(2.0, requires_grad=True)
    with firelu.compat.install(), pytest.warns(RuntimeWarning, match="scale: got a tensor"):
        module.fused_leaky_relu(torch.ones(1, 2), torch.zeros(2), 0.2, scale).sum().backward()
    assert scale.grad == 2


def test_a_redirected_function_compiles_into_one_graph(project):
    module = project("compiled", PLAIN)()
    x, bias = torch.randn(2, 3, 4, 4), torch.randn(1, 3, 1, 1)
    expected = module.fused_leaky_relu(x, bias)
    with firelu.compat.install():
        torch._dynamo.reset()
        compiled = torch.compile(lambda x, bias: module.fused_leaky_relu(x, bias), fullgraph=True, backend="aot_eager")
        torch.testing.assert_close(compiled(x, bias), expected)
    assert module.calls == ["theirs"]


def test_a_derivative_without_its_output_is_linear():
    """A derivative is linear in what it is applied to; an output that is not given counts as zero, as a bias does."""
    from firelu.compat.extensions import fused_bias_act

    empty, first, second = torch.empty(0), torch.randn(2, 3, 4), torch.randn(2, 3, 4)

    def derivative(gradient, refer=empty, act=3):
        return fused_bias_act(gradient, empty, refer, act, 1, 0.3, 1.7)

    torch.testing.assert_close(derivative(first - 2 * second), derivative(first) - 2 * derivative(second))
    torch.testing.assert_close(derivative(first), derivative(first, torch.zeros_like(first)))
    torch.testing.assert_close(derivative(first), first * 0.3 * 1.7)
    torch.testing.assert_close(derivative(first, act=1), first * 1.7)


def test_an_extension_takes_a_bias_of_any_shape():
    from firelu.compat.extensions import fused_bias_act

    x, bias, empty = torch.randn(2, 3, 4, 5), torch.randn(3), torch.empty(0)
    torch.testing.assert_close(
        fused_bias_act(x, bias.view(1, 3, 1, 1), empty, 3, 0, 0.3, 1.7), fused_bias_act(x, bias, empty, 3, 0, 0.3, 1.7)
    )


def test_build_keeps_what_load_is():
    signature, source = inspect.signature(cpp_extension.load), inspect.getsource(cpp_extension.load)
    load = cpp_extension.load
    with firelu.compat.install():
        assert load("fused", ["fused_bias_act.cpp", "fused_bias_act_kernel.cu"]).fused_bias_act, "a name bound before"
        assert load(sources=("upfirdn2d.cpp", "upfirdn2d_kernel.cu"), name="upfirdn2d").upfirdn2d
        assert inspect.signature(cpp_extension.load) == signature
        assert inspect.getsource(cpp_extension.load) == source
