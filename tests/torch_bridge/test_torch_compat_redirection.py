"""What the drop-in changes stays what it was to everybody else, and comes back whole, whatever happens meanwhile."""

from __future__ import annotations

import importlib
import inspect
import json
import pickle
import subprocess
import sys
import textwrap
import threading
from importlib.machinery import SourceFileLoader

import firelu.compat
import pytest
import torch
from firelu.compat import transaction
from torch.nn import functional
from torch.utils import cpp_extension

# Plain torch, as projects without an extension write it; the defaults are nobody else's.
PLAIN = """
    import torch

    def fused_leaky_relu(input, bias, negative_slope=0.1, scale=1.0):
        \"\"\"Theirs.\"\"\"
        calls.append("theirs")
        return torch.nn.functional.leaky_relu(input + bias, negative_slope) * scale

    calls = []
"""
FILTER = """
    import torch

    calls = []

    {decorator}
    def upfirdn2d_native(input, kernel, up_x, up_y, down_x, down_y, pad_x0, pad_x1, pad_y0, pad_y1):
        calls.append("theirs")
        return input
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Give a writer of one module; whatever was imported is forgotten afterwards."""
    monkeypatch.syspath_prepend(tmp_path)
    names = []

    def write(name, text):
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(text), encoding="utf-8")
        names.append(name)
        importlib.invalidate_caches()
        return lambda: importlib.import_module(name)

    yield write
    firelu.compat.uninstall()
    for name in names:
        sys.modules.pop(name, None)


def state(*modules):
    """Everything that the drop-in may change."""
    return (
        list(sys.meta_path),
        cpp_extension.load,
        cpp_extension.load.__code__,
        [dict(vars(module)) for module in (cpp_extension, *modules)],
        [value.__code__ for module in modules for value in vars(module).values() if inspect.isfunction(value)],
    )


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


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_an_install_that_fails_leaves_nothing_behind(project, monkeypatch, error):
    module = project("half_way", PLAIN)()
    before = state(module)

    def fail(self):
        assert state(module) != before, "it fails when everything else is done"
        raise error("no more finders")

    monkeypatch.setattr(firelu.compat.Replaced, "lend_torchvision", fail)
    with pytest.raises(error, match="no more finders"):
        firelu.compat.install(torchvision=True)
    assert state(module) == before
    assert not firelu.compat.status()["installed"]


@pytest.mark.parametrize("before", [True, False])
def test_a_module_that_resists_is_left_as_it_was(project, monkeypatch, before):
    load = project("resists", PLAIN.replace("calls = []", "calls, fused = [], None"))
    if before:
        load()

    def fail(self, module, name, value):
        raise RuntimeError("a strange module")

    monkeypatch.setattr(transaction.Transaction, "set_global", fail)
    with firelu.compat.install() as replaced:
        module = load()
        module.fused_leaky_relu(torch.ones(1, 2), torch.ones(2))
        assert module.calls == ["theirs"]
        assert not any(name.startswith("resists") for name in replaced)
        assert "a strange module" in firelu.compat.doctor()


def test_one_step_that_cannot_be_undone_does_not_keep_the_others(monkeypatch):
    changes, undone = transaction.Transaction(), []
    for name in ("first", "second", "third"):
        changes._note(name, "step", lambda name=name: undone.append(name) if name != "second" else 1 / 0)
    with pytest.raises(ZeroDivisionError):
        changes.undo()
    assert undone == ["third", "first"]
    assert len(changes) == 0


def test_an_interrupted_uninstall_is_finished_by_the_next_call(project, monkeypatch):
    module = project("interrupted", PLAIN)()
    before = state(module)
    firelu.compat.install()
    with monkeypatch.context() as patch:
        undo = transaction.Transaction.undo

        def interrupted(self, length=0):
            undo(self, len(self) - 1)
            raise KeyboardInterrupt

        patch.setattr(transaction.Transaction, "undo", interrupted)
        with pytest.raises(KeyboardInterrupt):
            firelu.compat.uninstall()
    with firelu.compat.install():
        module.fused_leaky_relu(torch.ones(1, 2), torch.zeros(2))
        assert module.calls == []
    assert state(module) == before


def in_threads(count, work):
    failed = []

    def guarded():
        try:
            work()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=guarded) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []


@pytest.fixture
def quick_switches():
    """Let threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def test_threads_that_install_and_uninstall_leave_everything_as_it_was(project, quick_switches):
    module = project("in_threads", PLAIN)()
    before = state(module)

    def work():
        for _ in range(30):
            firelu.compat.install()
            firelu.compat.uninstall()

    in_threads(8, work)
    assert state(module) == before
    assert not firelu.compat.status()["installed"]


def test_a_block_holds_until_its_end_in_every_thread(project, quick_switches):
    module = project("in_blocks", PLAIN)()
    before = state(module)
    theirs = module.fused_leaky_relu.__code__

    def work():
        for _ in range(30):
            with firelu.compat.install():
                assert module.fused_leaky_relu.__code__ is not theirs

    in_threads(8, work)
    assert state(module) == before


def test_nested_blocks_end_with_the_outermost(project):
    module = project("nested", PLAIN)()
    theirs = module.fused_leaky_relu.__code__
    with firelu.compat.install():
        with firelu.compat.install():
            pass
        assert module.fused_leaky_relu.__code__ is not theirs
    assert module.fused_leaky_relu.__code__ is theirs


def test_calls_under_way_survive_an_uninstall(project, quick_switches):
    module = project("under_way", PLAIN)()
    x, bias = torch.tensor([[-1.0, 2.0]]), torch.zeros(2)
    done = threading.Event()

    def call():
        while not done.is_set():
            assert module.fused_leaky_relu(x, bias).shape == (1, 2)

    def change():
        try:
            for _ in range(100):
                firelu.compat.install()
                firelu.compat.uninstall()
        finally:
            done.set()

    turns = iter([change, call, call])
    in_threads(3, lambda: next(turns)())


def test_a_reloaded_module_is_served_again(project):
    module = project("reloaded", PLAIN)()
    x, bias = torch.ones(1, 2), torch.zeros(2)
    with firelu.compat.install():
        for _ in range(2):
            assert importlib.reload(module) is module
            module.fused_leaky_relu(x, bias)
            assert module.calls == []
    module.fused_leaky_relu(x, bias)
    assert module.calls == ["theirs"]
    assert not [name for name in vars(module) if "firelu" in name]


def test_an_import_that_ends_after_the_uninstall_changes_nothing(project):
    load = project("ends_later", PLAIN + "\n    import firelu.compat\n    firelu.compat.uninstall()\n")
    firelu.compat.install()
    module = load()
    module.fused_leaky_relu(torch.ones(1, 2), torch.zeros(2))
    assert module.calls == ["theirs"]


def test_a_module_keeps_its_own_loader(project):
    with firelu.compat.install():
        module = project("own_loader", PLAIN + "\n    seen = __loader__, __spec__.loader\n")()
    assert all(type(loader) is SourceFileLoader for loader in (*module.seen, module.__loader__, module.__spec__.loader))


def test_finders_that_ask_each_other_do_not_go_in_circles(project, monkeypatch):
    class Asking:
        def find_spec(self, name, path, target=None):
            for finder in sys.meta_path:
                if finder is not self and (spec := finder.find_spec(name, path, target)) is not None:
                    return spec
            return None

    monkeypatch.setattr(sys, "meta_path", [Asking(), *sys.meta_path])
    load = project("asked_for", PLAIN)
    with firelu.compat.install():
        assert load().fused_leaky_relu(torch.ones(1, 2), torch.zeros(2)).shape == (1, 2)
        assert load().calls == []


def test_a_lazy_module_is_not_loaded_by_looking(project, monkeypatch):
    project("lazy_one", "raise RuntimeError('loaded')")
    spec = importlib.util.find_spec("lazy_one")
    spec.loader = importlib.util.LazyLoader(spec.loader)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "lazy_one", module)
    spec.loader.exec_module(module)
    with firelu.compat.install():
        firelu.compat.status()
    with pytest.raises(RuntimeError, match="loaded"):
        module.anything  # noqa: B018 - this loads it


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


@pytest.mark.parametrize(
    ("input", "bias"),
    [
        (torch.ones(2, 3, 4, 5), torch.ones(5, dtype=torch.float64)),
        (torch.ones(2, 3, 4, 5), torch.ones(1, 5)),
        (torch.ones(2, 3, 4, 5), torch.ones(2, 1, 1, 1)),
        (torch.ones(2, 3, dtype=torch.int64), 1),
        (torch.ones(3), torch.ones(3)),
    ],
)
def test_what_firelu_does_not_compute_is_left_to_the_project(project, input, bias):
    module = project(
        "others", PLAIN.replace("negative_slope)", "negative_slope) if input.is_floating_point() else input")
    )()
    expected = module.fused_leaky_relu(input, bias, scale=2)
    with firelu.compat.install():
        torch.testing.assert_close(module.fused_leaky_relu(input, bias, scale=2), expected)
    assert module.calls == ["theirs"] * 2


def test_a_scale_that_learns_keeps_its_gradient(project):
    module = project("learns", PLAIN)()
    scale = torch.tensor(2.0, requires_grad=True)
    with firelu.compat.install():
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


def test_status_is_data(project):
    load = project("counted", PLAIN)
    load()
    found = firelu.compat.status()
    assert not found["installed"]
    assert "counted.fused_leaky_relu" in found["found"]
    assert "counted.fused_leaky_relu" in firelu.compat.doctor()
    with firelu.compat.install():
        found = json.loads(json.dumps(firelu.compat.status()))
        assert found["installed"]
        assert {"what": "counted.fused_leaky_relu", "how": "function"} in found["replaced"]
        assert found["found"] == []


def test_a_child_does_not_inherit_a_lock_that_is_held(tmp_path):
    script = """
        import os, threading, warnings
        import firelu.compat
        from firelu.compat import install as _  # the function; the module of the same name is beside it
        import sys
        lock = sys.modules["firelu.compat.install"]._lock
        held, release = threading.Event(), threading.Event()

        def hold():
            with lock:
                held.set()
                release.wait(0.5)

        warnings.simplefilter("ignore", DeprecationWarning)
        threading.Thread(target=hold).start()
        held.wait()
        child = os.fork()
        if child == 0:
            firelu.compat.install()
            os._exit(0)
        sys.exit(os.waitpid(child, 0)[1])
    """
    if not hasattr(sys.modules["os"], "fork"):
        pytest.skip("this system has no fork")
    subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=True, timeout=120, cwd=tmp_path)
