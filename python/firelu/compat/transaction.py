"""Every change that the drop-in makes is made here, together with what undoes it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.abc import MetaPathFinder
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

from .redirection import copy_of, forwarding_code, is_redirected

_MISSING = object()


class Change(NamedTuple):
    """One change: what was changed, as a dotted name, and how."""

    what: str
    how: str


class Transaction:
    """Changes in their order, each undone in the reverse one.

    A change is written down before it is made, and undoing one that was not made does nothing: wherever an exception
    strikes, everything can be put back. What somebody else changed afterwards stays as they left it.
    """

    def __init__(self) -> None:
        """Begin with nothing changed."""
        self._steps: list[tuple[Change, Callable[[], None]]] = []

    @property
    def changes(self) -> list[Change]:
        """What was changed, in order."""
        return [change for change, _ in list(self._steps)]

    def __len__(self) -> int:
        """Count the changes: where to go back to with `undo`."""
        return len(self._steps)

    def undo(self, length: int = 0) -> None:
        """Put back all but the first ``length`` changes, the latest first; one that fails does not stop the others."""
        failed: Exception | None = None
        while len(self._steps) > length:
            _, step = self._steps[-1]
            try:
                step()
            except Exception as error:
                failed = failed or error
            # Only now: an interrupted step is done again, and doing it twice does no harm.
            self._steps.pop()
        if failed is not None:
            raise failed

    def set_global(self, module: ModuleType, name: str, value: Any) -> None:
        """Set a module's global."""
        self.set_item(vars(module), name, value, f"{module.__name__}.{name}")

    def set_item(self, mapping: dict[Any, Any], key: Any, value: Any, what: str) -> None:
        """Set an entry of a dictionary."""
        before = mapping.get(key, _MISSING)
        if before is value:
            return

        def undo() -> None:
            if mapping.get(key, _MISSING) is not value:
                return
            if before is _MISSING:
                del mapping[key]
            else:
                mapping[key] = before

        self._note(what, "extension", undo)
        mapping[key] = value

    def redirect(
        self, function: FunctionType, replacement: Callable[[Callable[..., Any]], Callable[..., Any]], what: str
    ) -> None:
        """Give a function the code of its replacement, which is made from a copy of the function."""
        if is_redirected(function):
            return
        code, before = forwarding_code(function, replacement(copy_of(function))), function.__code__

        def undo() -> None:
            if function.__code__ is code:
                function.__code__ = before

        self._note(what, "function", undo)
        function.__code__ = code

    def add_finder(self, finder: MetaPathFinder, position: int) -> None:
        """Put a finder on the import path, 0 before and -1 after all others."""

        def undo() -> None:
            if finder in sys.meta_path:
                sys.meta_path.remove(finder)

        self._note("sys.meta_path", "finder", undo)
        sys.meta_path.insert(len(sys.meta_path) if position < 0 else position, finder)

    def serve_import(self, module: ModuleType) -> None:
        """Note that an import was answered, so that it is forgotten again."""
        fullname = module.__name__

        def undo() -> None:
            if sys.modules.get(fullname) is module:
                del sys.modules[fullname]
            parent, _, name = fullname.rpartition(".")
            owner = sys.modules.get(parent)
            if owner is not None and vars(owner).get(name) is module:
                delattr(owner, name)

        self._note(fullname, "import", undo)

    def _note(self, what: str, how: str, undo: Callable[[], None]) -> None:
        self._steps.append((Change(what, how), undo))
