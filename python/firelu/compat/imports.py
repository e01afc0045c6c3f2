"""The finders that answer the projects' imports, and look at every module once it is loaded."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import BuiltinImporter, ExtensionFileLoader, FrozenImporter, ModuleSpec
from types import ModuleType
from typing import Any

#: Modules that are no Python source define nothing that could be redirected.
_COMPILED = (BuiltinImporter, FrozenImporter, ExtensionFileLoader)


class Watcher(MetaPathFinder):
    """Stands before all other finders, lets them find, and has every Python module looked at after it is executed."""

    def __init__(self, look: Callable[[ModuleType], None]) -> None:
        """Take what is called with each module; it must not raise."""
        self._look = look
        self._under_way = threading.local()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find as the finders behind this one do."""
        with self._once(fullname) as first:
            spec = self._find_behind(fullname, path, target) if first else None
        if spec is None or not hasattr(spec.loader, "exec_module"):
            return spec
        loader: Any = spec.loader
        if not isinstance(loader, (_Watched, *_COMPILED)) and loader not in _COMPILED:
            spec.loader = _Watched(loader, self._look)  # type: ignore[assignment]
        return spec

    def _find_behind(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None) -> ModuleSpec | None:
        finders = list(sys.meta_path)
        # Those before this one were asked already.
        for finder in finders[finders.index(self) + 1 :] if self in finders else []:
            find_spec = getattr(finder, "find_spec", None)
            spec: ModuleSpec | None = None if find_spec is None else find_spec(fullname, path, target)
            if spec is not None:
                return spec
        return None

    @contextmanager
    def _once(self, fullname: str) -> Iterator[bool]:
        """Tell whether a name is not being found already: a finder that asks all others must not go in circles."""
        names: set[str] = vars(self._under_way).setdefault("names", set())
        if fullname in names:
            yield False
            return
        names.add(fullname)
        try:
            yield True
        finally:
            names.discard(fullname)


class _Watched:
    """Loads a module as its own loader does, then has it looked at. Before the module runs, its own loader is back."""

    def __init__(self, loader: Any, look: Callable[[ModuleType], None]) -> None:
        self._loader, self._look = loader, look

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        module: ModuleType | None = self._loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        loader: Any = self
        if module.__spec__ is not None and module.__spec__.loader is loader:
            module.__spec__.loader = self._loader
        if module.__loader__ is loader:
            module.__loader__ = self._loader
        self._loader.exec_module(module)
        self._look(module)

    def __getattr__(self, name: str) -> Any:
        if name == "_loader":  # a copy under construction
            raise AttributeError(name)
        return getattr(self._loader, name)


class Lender(MetaPathFinder, Loader):
    """Answers imports with modules that are made on the spot."""

    def __init__(self, contents: Callable[[str], dict[str, Any] | None], served: Callable[[ModuleType], None]) -> None:
        """Take what gives a module's contents by its full name, None for a stranger, and who is told of an import."""
        self._contents, self._served = contents, served

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Answer for the modules there are contents for."""
        contents = self._contents(fullname)
        if contents is None:
            return None
        return ModuleSpec(fullname, self, origin="firelu.compat", is_package="__path__" in contents)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Leave it to the import system."""
        return None

    def exec_module(self, module: ModuleType) -> None:
        """Fill the module."""
        self._served(module)
        vars(module).update(self._contents(module.__name__) or {})
