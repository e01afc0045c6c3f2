"""Putting firelu in the place of the projects' kernels, and taking it away again.

Those projects reach their kernels in four ways, and each is served, whether imported before or after:

- ``from . import fused_act_ext`` (or ``upfirdn2d_ext``), ``import bias_act_plugin``: a finder gives firelu's module;
- ``torch.utils.cpp_extension.load("fused", sources=[...])``: answered where name and source files both fit;
- ``get_plugin("bias_act_plugin", ...)``: answered from its cache, before it looks for a compiler;
- a function in Python, slow, wrong or missing on the CPU: the function itself is given other code, so that every name
  bound to it follows.

What they import and nobody has any more is lent, at the end of the path: there it is never in anybody's way.

What belongs to them stands in `recognisers`; every change is a step of one `Transaction`; one lock guards both.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING, Any

from .imports import Lender, Watcher
from .lending import removed_contents, torchvision_contents
from .offering import Offer
from .recognisers import EXTENSIONS, PLUGINS, find
from .transaction import Transaction

if TYPE_CHECKING:
    from .replacements import Replacements

# Nothing is imported while it is held: a module that is being imported waits for it, and it must not wait for a module.
_lock = threading.RLock()
if hasattr(os, "register_at_fork"):
    # A child has no thread that would give back a lock which was held elsewhere.
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)


class Replaced:
    """What `install` replaced: a list of names, and a context manager that puts everything back."""

    def __init__(self, replacements: Replacements) -> None:
        """Start with nothing replaced."""
        self.replacements = replacements
        self.transaction = Transaction()
        self.left_alone: dict[str, str] = {}
        self.lends_torchvision = False
        self.ended = False

    @property
    def names(self) -> list[str]:
        """What was replaced, as dotted names."""
        return [change.what for change in self.transaction.changes]

    @property
    def fallbacks(self) -> list[tuple[str, str]]:
        """What went to the projects' own code, and why."""
        return list(self.replacements.fallbacks)

    def begin(self) -> None:
        """Replace what is loaded, and what will be."""
        self.transaction.add_finder(Watcher(self.look), 0)
        self.transaction.add_finder(Lender(self._extension_contents, self._serve_import), 0)
        self.transaction.add_finder(Lender(self._plugin_contents, self._serve_import), -1)
        self.transaction.add_finder(Lender(removed_contents, self._serve_import), -1)
        self.transaction.add_finder(Offer(self._serve_import), -1)
        for module in loaded_modules():
            self.look(module)

    def end(self) -> None:
        """Put everything back; a module whose import ends later is not looked at any more."""
        self.ended = True
        self.transaction.undo()

    def lend_torchvision(self) -> None:
        """Answer for the module that torchvision removed, where nobody else does."""
        if not self.lends_torchvision:
            self.transaction.add_finder(Lender(torchvision_contents, self._serve_import), -1)
            self.lends_torchvision = True

    def look(self, module: ModuleType) -> None:
        """Replace what a module has; one that resists is left as it was, and nobody's import fails."""
        findings = list(find(module))
        if not findings:
            return
        with _lock:
            if self.ended:
                return
            before = len(self.transaction)
            try:
                for what, why_left, replace in findings:
                    if why_left:
                        self.left_alone[what] = why_left
                    else:
                        replace(self.transaction, self.replacements)
            except Exception as error:
                self.transaction.undo(before)
                self.left_alone.update({finding.what: f"replacing it raised {error!r}" for finding in findings})

    def _extension_contents(self, fullname: str) -> dict[str, Any] | None:
        for extension in EXTENSIONS:
            if extension.folder and extension.answers_import(fullname):
                return self.replacements.contents(extension.name)
        return None

    def _plugin_contents(self, fullname: str) -> dict[str, Any] | None:
        known = any(plugin.answers_import(fullname) for plugin in PLUGINS)
        return self.replacements.contents(fullname) if known else None

    def _serve_import(self, module: ModuleType) -> None:
        with _lock:
            if not self.ended:
                self.transaction.serve_import(module)

    def __enter__(self) -> Replaced:
        """Keep firelu installed until the block ends, and until every other block has ended."""
        global _blocks
        with _lock:
            # Another thread's block may have ended since `install` gave this object.
            replaced = self if _current is self else _install(self.replacements, torchvision=self.lends_torchvision)
            _blocks += 1
            return replaced

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Put everything back at the end of the last block."""
        global _blocks
        with _lock:
            _blocks -= 1
            if _blocks == 0:
                uninstall()

    def __iter__(self) -> Iterator[str]:
        """Go through the replaced names."""
        return iter(self.names)

    def __repr__(self) -> str:
        """Name what was replaced."""
        return f"Replaced({', '.join(self.names)})"


class _Reinstalled:
    """What `uninstall` returns: as a context manager, firelu is out of the way inside the block alone."""

    def __init__(self, before: Replaced | None) -> None:
        self._before = before

    def __enter__(self) -> None:
        return None

    def __exit__(self, *details: object) -> None:
        if self._before is not None:
            _install(self._before.replacements, torchvision=self._before.lends_torchvision)


_current: Replaced | None = None
_blocks = 0


def install(*, torchvision: bool = False, mask_linear_clamp: bool | None = None) -> Replaced:
    """Replace the projects' extensions, and their slow code for the CPU, with firelu.

    Call it before or after the project is imported; a second call changes nothing. What is not one of those
    extensions is left alone. It replaces everything or, if it raises an exception, nothing.

    Args:
        torchvision: also provide ``torchvision.transforms.functional_tensor``, if it is missing: torchvision 0.17
            removed it, and basicsr imports it.
        mask_linear_clamp: whether ``bias_act`` with act="linear" passes no gradient where ``clamp`` has clipped. None
            leaves it as it is, and it begins as True; False is what the published CUDA kernel does.

    Returns:
        What was replaced so far; as a context manager, everything is put back at the end of the block.
    """
    try:
        import torch  # noqa: F401 - only to say what is missing
    except ModuleNotFoundError as missing:
        raise ImportError('firelu.compat needs torch 2.6 or later: pip install "firelu[torch]"') from missing
    from .replacements import Replacements

    replaced = _install(Replacements(), torchvision=torchvision)
    if mask_linear_clamp is not None:
        replaced.replacements.settings.mask_linear_clamp = mask_linear_clamp
    return replaced


def _install(replacements: Replacements, *, torchvision: bool) -> Replaced:
    global _current
    with _lock:
        if _current is not None and _current.ended:  # an interrupt struck while it was put back
            uninstall()
        replaced = _current or Replaced(replacements)
        try:
            if replaced is not _current:
                replaced.begin()
            if torchvision:
                replaced.lend_torchvision()
            _current = replaced
        finally:
            if replaced is not _current:
                replaced.end()
        return replaced


def uninstall() -> _Reinstalled:
    """Put back everything that `install` replaced; without an `install` nothing happens.

    Returns:
        A context manager: firelu is out of the way inside the block and back after it.
    """
    global _current
    with _lock:
        before = _current
        try:
            if before is not None:
                before.end()
        finally:
            if before is not None and not len(before.transaction):
                _current = None
    return _Reinstalled(before)


def current() -> Replaced | None:
    """Give what is installed."""
    return _current


def loaded_modules() -> list[ModuleType]:
    """Give every module that is loaded; what others put among the modules is left out."""
    return [module for module in list(sys.modules.values()) if isinstance(module, ModuleType)]
