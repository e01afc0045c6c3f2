"""The packages that network pickles import, offered where nobody else has them.

Their sources stand in the folder ``offered`` and are loaded under the names that the pickles use. What is on the path
comes first: with a repository of the family there, its own packages are imported, and none of these.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import ModuleType

FOLDER = Path(__file__).parent / "offered"
PACKAGES = ("torch_utils", "dnnlib")


class Offer(MetaPathFinder):
    """Finds the offered packages."""

    def __init__(self, served: Callable[[ModuleType], None]) -> None:
        """Take who is told of an import."""
        self._served = served

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Answer for the packages, and for what is in them where they are ours."""
        root, *inner = fullname.split(".")
        if root not in PACKAGES or (inner and not is_offered(sys.modules.get(root))):
            return None
        place = FOLDER.joinpath(root, *inner)
        # A package names no folder: Python's own finder would answer for what is inside, and nobody would forget it.
        is_package = place.is_dir()
        file = place / "__init__.py" if is_package else place.with_suffix(".py")
        if not file.exists():
            return None
        loader = _Loader(fullname, str(file), self._served)
        spec = ModuleSpec(fullname, loader, origin=str(file), is_package=is_package)
        spec.has_location = True
        return spec


class _Loader(SourceFileLoader):
    """Loads a module as Python does, and says so."""

    def __init__(self, fullname: str, path: str, served: Callable[[ModuleType], None]) -> None:
        super().__init__(fullname, path)
        self._served = served

    def exec_module(self, module: ModuleType) -> None:
        self._served(module)
        super().exec_module(module)


def is_offered(module: ModuleType | None) -> bool:
    """Tell whether a loaded module comes from here."""
    # A module that is loaded on first use is not loaded by looking.
    namespace = {} if module is None else object.__getattribute__(module, "__dict__")
    return str(namespace.get("__file__")).startswith(str(FOLDER))
