"""Names that other packages have removed and the projects still import; lent only where they are missing."""

from __future__ import annotations

import importlib
from typing import Any

FUNCTIONAL_TENSOR = "torchvision.transforms.functional_tensor"


def torchvision_contents(fullname: str) -> dict[str, Any] | None:
    """Give the contents of the module that torchvision 0.17 removed: what the projects import from it."""
    if fullname != FUNCTIONAL_TENSOR:
        return None
    functional = importlib.import_module("torchvision.transforms.functional")
    return {"rgb_to_grayscale": functional.rgb_to_grayscale}


def removed_contents(fullname: str) -> dict[str, Any] | None:
    """Give what setuptools 82 and Python 3.12 removed: ``parse_version`` and ``strtobool``, under their old names."""
    contents: dict[str, dict[str, Any]] = {
        "pkg_resources": {"parse_version": parse_version},
        "distutils": {"__path__": []},
        "distutils.util": {"strtobool": strtobool},
    }
    return contents.get(fullname)


def parse_version(version: str) -> Any:
    """Give a version as an object that compares as PEP 440 says."""
    try:
        from packaging.version import Version
    except ModuleNotFoundError:  # torch brings a copy of its own
        from torch._vendor.packaging.version import Version  # type: ignore[assignment]
    return Version(version)


def strtobool(val: str) -> int:
    """Give 1 for y, yes, t, true, on and 1, and 0 for n, no, f, false, off and 0, in letters of any size."""
    lowered = val.lower()
    if lowered in ("y", "yes", "t", "true", "on", "1"):
        return 1
    if lowered in ("n", "no", "f", "false", "off", "0"):
        return 0
    raise ValueError(f"strtobool: val: got {val!r}, takes yes or no, true or false, on or off, 1 or 0")
