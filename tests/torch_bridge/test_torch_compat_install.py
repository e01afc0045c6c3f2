"""Installing and uninstalling: whole or not at all, in any order, in threads, and beside other finders."""

from __future__ import annotations

import importlib.util
import inspect
import json
import os
import subprocess
import sys
import textwrap
import threading
from importlib.machinery import SourceFileLoader

import firelu.compat
import pytest
import torch
from compat_projects import PLAIN
from firelu.compat import transaction
from torch.utils import cpp_extension


def state(*modules):
    """Everything that the drop-in may change."""
    return (
        list(sys.meta_path),
        cpp_extension.load,
        cpp_extension.load.__code__,
        [dict(vars(module)) for module in (cpp_extension, *modules)],
        [value.__code__ for module in modules for value in vars(module).values() if inspect.isfunction(value)],
    )


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


def test_imports_while_others_install(tree, quick_switches):
    """Whenever an import ends, its module is served while firelu is installed and its own once it is not."""
    count = 12
    import_module = tree({f"imported_{each}.py": PLAIN for each in range(2 * count)})
    x, bias = torch.tensor([[-1.0, 2.0]]), torch.zeros(2)
    modules, done = [], threading.Event()

    def bring(first):
        for number in range(first, first + count):
            module = import_module(f"imported_{number}")
            assert module.fused_leaky_relu(x, bias).tolist() == [[pytest.approx(-0.1), 2.0]]
            modules.append(module)

    def change():
        while not done.is_set():
            with firelu.compat.install():
                pass

    turns = iter([lambda: bring(0), lambda: bring(count)])

    def work():
        next(turns)()

    changing = threading.Thread(target=change)
    changing.start()
    try:
        in_threads(2, work)
    finally:
        done.set()
        changing.join()
    assert len(modules) == 2 * count
    with firelu.compat.install():
        for module in modules:
            module.calls.clear()
            module.fused_leaky_relu(x, bias)
            assert module.calls == [], module.__name__
    for module in modules:
        module.fused_leaky_relu(x, bias)
        assert module.calls == ["theirs"], module.__name__
        assert not [name for name in vars(module) if "firelu" in name]


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
    if not hasattr(os, "fork"):
        pytest.skip("this system has no fork")
    subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=True, timeout=120, cwd=tmp_path)
