"""Names that setuptools 82 and Python 3.12 removed, lent where they are missing and nowhere else."""

from __future__ import annotations

import importlib
import sys

import firelu.compat
import pytest

HIDDEN = ("pkg_resources", "distutils")
PROJECT = """
    from pkg_resources import parse_version
    from distutils.util import strtobool

    newer = parse_version("2.6.0+cpu") >= parse_version("1.7.0a")
    older = parse_version("1.10.0") < parse_version("1.9.1")
    flags = [strtobool(text) for text in ("Yes", "on", "1", "False", "n", "0")]
"""


class Hiding:
    """A finder that does not find what was removed."""

    def __init__(self, finder):
        self._finder = finder

    def find_spec(self, name, path=None, target=None):
        return None if name.partition(".")[0] in HIDDEN else self._finder.find_spec(name, path, target)

    def __getattr__(self, name):
        return getattr(self._finder, name)


@pytest.fixture
def without(monkeypatch):
    """Take both packages away."""
    for name in [name for name in sys.modules if name.partition(".")[0] in HIDDEN]:
        monkeypatch.delitem(sys.modules, name)
    finders = [finder for finder in sys.meta_path if hasattr(finder, "find_spec")]
    monkeypatch.setattr(sys, "meta_path", [Hiding(finder) for finder in finders])


def test_a_project_that_imports_them_is_imported(project, without):
    load = project("imports_them", PROJECT)
    with pytest.raises(ModuleNotFoundError, match="pkg_resources"):
        load()
    with firelu.compat.install():
        module = load()
        assert (module.newer, module.older, module.flags) == (True, False, [1, 1, 1, 0, 0, 0])
        with pytest.raises(ValueError, match="strtobool: val: got 'perhaps', takes yes or no"):
            module.strtobool("perhaps")
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module("distutils.core")
        with pytest.raises(ImportError):
            importlib.import_module("pkg_resources.extern")
    assert not set(HIDDEN) & set(sys.modules)


def test_without_packaging_torch_s_copy_is_taken(project, without, monkeypatch):
    monkeypatch.setitem(sys.modules, "packaging", None)
    monkeypatch.setitem(sys.modules, "packaging.version", None)
    with firelu.compat.install():
        assert not project("imports_them", PROJECT)().older


def test_what_is_there_is_not_lent(tree):
    tree({"pkg_resources/__init__.py": "parse_version = 'theirs'"})
    sys.modules.pop("pkg_resources", None)
    with firelu.compat.install():
        assert importlib.import_module("pkg_resources").parse_version == "theirs"
