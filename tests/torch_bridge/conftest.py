"""Without torch these tests are left out, each with the reason."""

from __future__ import annotations

import importlib.util

import pytest


class WithoutTorch(pytest.Module):
    """A file of tests that is not imported."""

    def collect(self):
        pytest.skip("torch is not installed")


if importlib.util.find_spec("torch") is None:

    def pytest_pycollect_makemodule(module_path, parent):
        return WithoutTorch.from_parent(parent, path=module_path)
