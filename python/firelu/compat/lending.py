"""Modules that other packages have removed and the projects still import; lent only where asked for."""

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
