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
