"""Without torch these tests are left out, each with the reason; a project of one module for those of the drop-in."""

from __future__ import annotations

import importlib.util
import sys
import textwrap

import firelu.compat
import pytest


class WithoutTorch(pytest.Module):
    """A file of tests that is not imported."""

    def collect(self):
        pytest.skip("torch is not installed")


if importlib.util.find_spec("torch") is None:

    def pytest_pycollect_makemodule(module_path, parent):
        return WithoutTorch.from_parent(parent, path=module_path)


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """Give a writer of packages, which returns `import_module`; whatever was imported from them is forgotten."""
    monkeypatch.syspath_prepend(tmp_path)

    def write(files):
        for name, texts in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            texts = [texts] if isinstance(texts, str) else texts
            path.write_text("\n".join(map(textwrap.dedent, texts)), encoding="utf-8")
        importlib.invalidate_caches()
        return importlib.import_module

    yield write
    firelu.compat.uninstall()
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None)).startswith(str(tmp_path)):
            del sys.modules[name]


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
