"""Look-alikes of the StyleGAN3 family run on firelu: every layout, before and after, any order, any dtype."""

from __future__ import annotations

import inspect

import firelu.compat
import lookalike_stylegan3
import plain_formulas
import pytest
import torch
from compat_checks import check_derivatives, tensors

LAYOUTS = [("torch_utils", "ada"), ("torch_utils", "stylegan3"), ("elsewhere/models/gan", "stylegan3")]


class Operators:
    """The three operators of a package, and what its own formulas computed."""

    def __init__(self, import_module, root):
        name = root.replace("/", ".")
        self.modules = {each: import_module(f"{name}.ops.{each}") for each in lookalike_stylegan3.OPERATORS}
        self.bias_act = self.modules["bias_act"].bias_act
        self.upfirdn2d = self.modules["upfirdn2d"].upfirdn2d
        self.filtered_lrelu = self.modules["filtered_lrelu"].filtered_lrelu

    @property
    def calls(self):
        return [call for module in self.modules.values() for call in module.calls]


@pytest.fixture
def operators(tree):
    """Give the operators of a StyleGAN3 look-alike, imported before the drop-in is installed."""
    return Operators(tree(lookalike_stylegan3.package("torch_utils")), "torch_utils")


@pytest.mark.parametrize(("root", "layout"), LAYOUTS)
@pytest.mark.parametrize("before", [True, False])
def test_values_and_derivatives(tree, root, layout, before):
    import_module = tree(lookalike_stylegan3.package(root, layout))
    if before:
        Operators(import_module, root)
    with firelu.compat.install():
        operators = Operators(import_module, root)
        x, b = tensors((2, 3, 7, 6), (3,))
        for act in plain_formulas.ACTIVATIONS:
            check_derivatives(
                lambda x, b, act=act: operators.bias_act(x, b, act=act, alpha=0.3, gain=1.7, clamp=1.5),
                lambda x, b, act=act: plain_formulas.bias_act(x, b, 1, act, 0.3, 1.7, 1.5),
                x,
                b,
            )
        taps = torch.tensor([0.5, 1.5, -0.25, 2.0])
        check_derivatives(
            lambda x: operators.upfirdn2d(x, taps, up=2, down=[1, 2], padding=[1, 2], gain=3),
            lambda x: plain_formulas.upfirdn2d(x, taps, 2, (1, 2), (1, 1, 2, 2), gain=3),
            x,
        )
        check_derivatives(
            lambda x, b: operators.filtered_lrelu(
                x=x, fu=taps, fd=taps, b=b, up=2, down=2, padding=[3, 2, 2, 3], clamp=1.2
            ),
            lambda x, b: plain_formulas.filtered_lrelu(x, taps, taps, b, 2, 2, (3, 2, 2, 3), clamp=1.2),
            x,
            b,
        )
        assert operators.calls == []
    operators.bias_act(x)
    assert operators.calls == ["bias_act"]


@pytest.mark.parametrize("operator", list(lookalike_stylegan3.OPERATORS))
def test_the_formulas_for_the_cpu_are_served_on_their_own(operators, operator):
    """A copy whose public function has other parameters still ends in the formula, which is served."""
    x, b = tensors((1, 2, 5, 5), (2,))
    taps = torch.ones(3) / 3
    arguments = {"bias_act": {"b": b}, "upfirdn2d": {"f": taps}, "filtered_lrelu": {"fu": taps, "fd": taps, "b": b}}
    with firelu.compat.install():
        reference = getattr(operators.modules[operator], f"_{operator}_ref")
        result = reference(x, **arguments[operator])
        torch.testing.assert_close(result, getattr(plain_formulas, operator)(x, **arguments[operator]))
    assert operators.calls == []


FILTERS = [None, torch.tensor([2.0]), torch.linspace(-1, 2, 6).reshape(2, 3), torch.linspace(0, 1, 12).double()]


@pytest.mark.parametrize("f", FILTERS, ids=["none", "one tap", "not separable", "float64"])
@pytest.mark.parametrize("flip_filter", [False, True])
def test_filters_of_every_kind(operators, f, flip_filter):
    (x,) = tensors((1, 2, 9, 8))
    with firelu.compat.install():
        check_derivatives(
            lambda x: operators.upfirdn2d(x, f, up=(2, 1), padding=(7, 5, 6, 6), flip_filter=flip_filter, gain=0.5),
            lambda x: plain_formulas.upfirdn2d(x, f, (2, 1), 1, (7, 5, 6, 6), flip_filter, 0.5),
            x,
        )
        check_derivatives(
            lambda x: operators.filtered_lrelu(x, f, f, up=2, padding=8, slope=0.1, flip_filter=flip_filter),
            lambda x: plain_formulas.filtered_lrelu(x, f, f, None, 2, 1, 8, slope=0.1, flip_filter=flip_filter),
            x,
        )
    assert operators.calls == []


@pytest.mark.parametrize("impl", ["ref", "cuda"])
def test_the_choice_of_an_implementation_keeps_working(operators, impl):
    x, taps = torch.randn(1, 2, 6, 6), torch.ones(2)
    with firelu.compat.install():
        torch.testing.assert_close(operators.bias_act(x, act="relu", impl=impl), x.relu() * 2**0.5)
        torch.testing.assert_close(operators.upfirdn2d(x, taps, impl=impl), plain_formulas.upfirdn2d(x, taps))
        torch.testing.assert_close(
            operators.filtered_lrelu(x, taps, taps, impl=impl), plain_formulas.filtered_lrelu(x, taps, taps)
        )
        with pytest.raises(AssertionError):
            operators.bias_act(x, impl="other")
    assert operators.calls == []


def test_bfloat16_third_derivatives_and_compilation(operators):
    x, b = torch.randn(2, 3, 8, 8).bfloat16(), torch.randn(3).bfloat16()
    taps = torch.ones(4) / 4
    with firelu.compat.install():
        assert operators.filtered_lrelu(x, taps, taps, b, 2, 2, 3).dtype == torch.bfloat16
        (t,) = tensors((2, 3))
        value = operators.bias_act(t, act="tanh")
        plain = torch.tanh(t)
        for _ in range(3):
            (value,) = torch.autograd.grad(value.sum(), t, create_graph=True)
            (plain,) = torch.autograd.grad(plain.sum(), t, create_graph=True)
        torch.testing.assert_close(value, plain)

        def layer(x, b):
            x = operators.filtered_lrelu(x, taps, taps, b, 2, 2, 3, clamp=256)
            return operators.upfirdn2d(operators.bias_act(x, b, act="lrelu"), taps, down=2)

        torch._dynamo.reset()
        x, b = x.float(), b.float()
        torch.testing.assert_close(torch.compile(layer, fullgraph=True, backend="aot_eager")(x, b), layer(x, b))
    assert operators.calls == []


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:FutureWarning")  # torch's own forward mode
def test_the_gradient_where_linear_was_clipped(operators):
    """firelu masks it; the published kernel lets it pass, and so does the drop-in where asked."""
    x = torch.tensor([[-3.0, 0.5, 3.0]], dtype=torch.float64, requires_grad=True)

    def gradient(act, **changed):
        (result,) = torch.autograd.grad(operators.bias_act(x, act=act, gain=2, clamp=1.5, **changed).sum(), x)
        return result[0].tolist()

    values = [[-1.5, 1.0, 1.5]]
    with firelu.compat.install():
        assert gradient("linear") == [0, 2, 0]
        assert operators.bias_act(x, gain=2, clamp=1.5).tolist() == values
    with firelu.compat.install(mask_linear_clamp=False):
        assert gradient("linear") == [2, 2, 2]
        assert gradient("relu") == [0, 2, 0]
        assert gradient("linear", impl="ref") == [2, 2, 2]
        assert operators.bias_act(x, gain=2, clamp=1.5).tolist() == values
        firelu.compat.install()
        assert gradient("linear") == [2, 2, 2], "a later call that does not say it changes nothing"
        _, tangent = torch.func.jvp(lambda x: operators.bias_act(x, clamp=1.5), (x.detach(),), (torch.ones_like(x),))
        assert tangent.tolist() == [[1, 1, 1]]
        firelu.compat.install(mask_linear_clamp=True)
        assert gradient("linear") == [0, 2, 0]
    with firelu.compat.install():
        assert gradient("linear") == [0, 2, 0]


class Elsewhere(torch.Tensor):
    """A tensor that says it is on another device."""

    is_cpu = False
    device = torch.device("xpu", 0)


@pytest.mark.parametrize(
    ("call", "why"),
    [
        (lambda o: o.bias_act(torch.ones(1, 2, 2, 2, dtype=torch.int64), gain=1), "x: got int64, takes float16"),
        (lambda o: o.bias_act(torch.ones(1, 2).as_subclass(Elsewhere)), "x: got a tensor on xpu, takes one on cpu"),
        (lambda o: o.bias_act(torch.ones(1, 2), act="own"), "act: got 'own', which is the project's own"),
        (lambda o: o.bias_act(torch.ones(1, 2), torch.ones(2).double()), "b: got torch.float64 beside"),
        (lambda o: o.upfirdn2d(torch.ones(1, 1, 2, 2), torch.ones(1, 1) + 0j), "f: got complex64"),
        (lambda o: o.filtered_lrelu(torch.ones(1, 1, 2, 2), torch.ones(1) + 0j), "fu: got complex64"),
    ],
)
@pytest.mark.filterwarnings("ignore:Casting complex values")
def test_what_is_not_served_goes_to_the_project_and_is_said_once(operators, call, why):
    expected = call(operators)
    count = len(operators.calls)
    with firelu.compat.install():
        with pytest.warns(RuntimeWarning, match="to the project's own code") as told:
            torch.testing.assert_close(call(operators), expected)
        assert why in str(told[0].message)
        assert firelu.compat.status()["fallbacks"][0]["why"].startswith(why)
        call(operators)
    assert len(operators.calls) == 3 * count


def test_a_project_with_other_defaults_keeps_them(tree):
    files = lookalike_stylegan3.package("torch_utils")
    files["torch_utils/ops/bias_act.py"] = [
        *files["torch_utils/ops/bias_act.py"],
        "activation_funcs['relu'].def_gain = 1.0\ndel activation_funcs['tanh']",
    ]
    operators = Operators(tree(files), "torch_utils")
    x = torch.randn(2, 3)
    with firelu.compat.install():
        operators.bias_act(x, act="tanh")
        with pytest.warns(RuntimeWarning, match="'relu', which is the project's own"):
            operators.bias_act(x, act="relu")


def test_what_others_import_stays(operators):
    module = operators.modules["upfirdn2d"]
    text = inspect.getsource(operators.bias_act)
    with firelu.compat.install():
        assert module._parse_padding([1, 2]) == (1, 1, 2, 2)
        assert module._get_filter_size(torch.ones(2, 3)) == (3, 2)
        assert operators.modules["bias_act"].activation_funcs["lrelu"].def_gain == 2**0.5
        assert inspect.getsource(operators.bias_act) == text
        (x,) = tensors((1, 1, 3, 3))
        torch.testing.assert_close(module.upsample2d(x, torch.ones(1, 1)), plain_formulas.upfirdn2d(x, None, 2, gain=4))
    assert operators.calls == []


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("def bias_act(x, b=None, dim=1, act='linear', alpha=None, gain=None, clamp=None): return 'theirs'", "none of"),
        ("def bias_act(x, bias, act): return 'theirs'", None),
        ("_init = None\ndef bias_act(x, bias, act): return 'theirs'", "it takes (x, bias, act)"),
        ("def _bias_act_ref(x, b, dim, act, alpha, gain, clamp): return 'theirs'", "none of bias_act"),
    ],
)
def test_one_name_is_not_enough(project, text, why):
    module = project("strange", text)()
    name = "_bias_act_ref" if "_ref" in text else "bias_act"
    with firelu.compat.install():
        left = [each["why"] for each in firelu.compat.status()["left_alone"] if each["what"].startswith("strange.")]
        assert getattr(module, name).__code__.co_consts[-1] == "theirs"
    assert len(left) == (why is not None)
    assert all(why in each for each in left)
