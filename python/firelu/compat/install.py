"""What is replaced, and how it comes back.

Those projects reach their kernels in three ways, and each is served, whether imported before or after:

- ``from . import fused_act_ext`` (or ``upfirdn2d_ext``): an import hook gives firelu's module;
- ``torch.utils.cpp_extension.load("fused", sources=[...])``: answered where name and source files both fit;
- a branch for the CPU in Python: the function itself is given other code, so that every name bound to it follows.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from types import CodeType, FunctionType, ModuleType, TracebackType
from typing import Any

#: The extension that a call of ``load`` means, by its name and its source files.
JIT_BUILDS = {
    ("fused", frozenset({"fused_bias_act.cpp", "fused_bias_act_kernel.cu"})): "fused_act_ext",
    ("upfirdn2d", frozenset({"upfirdn2d.cpp", "upfirdn2d_kernel.cu"})): "upfirdn2d_ext",
}
#: The global of a module that holds its extension, by what the module defines.
GLOBALS = {
    "fused_act": ("fused_leaky_relu", {"fused_act_ext": "fused_act_ext", "fused": "fused_act_ext"}),
    "upfirdn2d": ("upfirdn2d_native", {"upfirdn2d_ext": "upfirdn2d_ext", "upfirdn2d_op": "upfirdn2d_ext"}),
}
_MISSING = object()


class Replaced:
    """What `install` replaced: a list of names, and a context manager that puts everything back."""

    def __init__(self) -> None:
        """Start with nothing replaced."""
        self.names: list[str] = []
        self._undo: list[Callable[[], None]] = []

    def set(self, owner: ModuleType, name: str, value: Any) -> None:
        """Set a module's global and remember what it was."""
        before = vars(owner).get(name, _MISSING)
        if before is value:
            return

        def undo() -> None:
            # Somebody else's later value stays.
            if vars(owner).get(name, _MISSING) is not value:
                return
            if before is _MISSING:
                delattr(owner, name)
            else:
                setattr(owner, name, before)

        setattr(owner, name, value)
        self._remember(f"{owner.__name__}.{name}", undo)

    def redirect(self, function: FunctionType, target: Callable[..., Any]) -> None:
        """Give a function other code that calls ``target``, so that every name bound to it follows."""
        hidden = f"__firelu_{function.__name__}__"
        if hidden in function.__globals__:
            return
        before = (function.__code__, function.__defaults__, function.__kwdefaults__)

        def undo() -> None:
            function.__code__, function.__defaults__, function.__kwdefaults__ = before
            function.__globals__.pop(hidden, None)

        function.__globals__[hidden] = target
        function.__code__ = _forwarding_code(function.__name__, hidden)
        function.__defaults__, function.__kwdefaults__ = None, None
        self._remember(f"{function.__module__}.{function.__qualname__}", undo)

    def add_finder(self, finder: importlib.abc.MetaPathFinder) -> None:
        """Put a finder before all others."""

        def undo() -> None:
            if finder in sys.meta_path:
                sys.meta_path.remove(finder)

        sys.meta_path.insert(0, finder)
        self._remember("sys.meta_path", undo)

    def serve_module(self, fullname: str) -> None:
        """Remember that an import was served, so that it is forgotten again."""

        def undo() -> None:
            module = sys.modules.pop(fullname, None)
            parent, _, name = fullname.rpartition(".")
            owner = sys.modules.get(parent)
            if owner is not None and vars(owner).get(name) is module:
                delattr(owner, name)

        self._remember(fullname, undo)

    def restore(self) -> None:
        """Put everything back, the latest first."""
        while self._undo:
            self._undo.pop()()
        self.names.clear()

    def _remember(self, name: str, undo: Callable[[], None]) -> None:
        self.names.append(name)
        self._undo.append(undo)

    def __enter__(self) -> Replaced:
        """Keep what is installed until the block ends."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Put everything back."""
        uninstall()

    def __iter__(self) -> Any:
        """Go through the replaced names."""
        return iter(self.names)

    def __repr__(self) -> str:
        """Name what was replaced."""
        return f"Replaced({', '.join(self.names)})"


class _Reinstalled:
    """What `uninstall` returns: as a context manager, firelu is out of the way inside the block alone."""

    def __init__(self, was_installed: bool) -> None:
        self._was_installed = was_installed

    def __enter__(self) -> None:
        return None

    def __exit__(self, *details: object) -> None:
        if self._was_installed:
            install()


def _forwarding_code(name: str, hidden: str) -> CodeType:
    """Give the code of a function that passes everything on to a global."""
    namespace: dict[str, Any] = {}
    exec(f"def {name}(*args, **kwargs):\n    return {hidden}(*args, **kwargs)\n", namespace)
    code: CodeType = namespace[name].__code__
    return code


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Gives firelu's extensions for the projects' imports, and looks after their modules once loaded."""

    def __init__(self, replaced: Replaced, extensions: dict[str, ModuleType]) -> None:
        self._replaced, self._extensions = replaced, extensions

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Answer for an extension inside a package, and watch modules with the projects' names."""
        parent, _, name = fullname.rpartition(".")
        folder = name.removesuffix("_ext")
        # Only inside the folder of the same name, as the projects have it: fused_act.fused_act_ext.
        if name in self._extensions and parent.rpartition(".")[2] == folder:
            return importlib.machinery.ModuleSpec(fullname, self)
        if name not in GLOBALS:
            return None
        spec = _find_elsewhere(self, fullname, path, target)
        if spec is not None and spec.loader is not None and hasattr(spec.loader, "exec_module"):
            spec.loader = _Watching(spec.loader, self._replaced, self._extensions)
        return spec

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        """Give firelu's module."""
        return self._extensions[spec.name.rpartition(".")[2]]

    def exec_module(self, module: ModuleType) -> None:
        """Remember the import; the module is complete."""
        assert module.__spec__ is not None
        self._replaced.serve_module(module.__spec__.name)


class _Watching(importlib.abc.Loader):
    """Loads a module as its own loader does, then gives its kernels' names firelu's values."""

    def __init__(self, loader: Any, replaced: Replaced, extensions: dict[str, ModuleType]) -> None:
        self._loader, self._replaced, self._extensions = loader, replaced, extensions

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        module: ModuleType | None = self._loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        _serve(module, self._replaced, self._extensions)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)


def _find_elsewhere(
    self: _Finder, fullname: str, path: Sequence[str] | None, target: ModuleType | None
) -> importlib.machinery.ModuleSpec | None:
    for finder in sys.meta_path:
        if finder is not self and (spec := finder.find_spec(fullname, path, target)) is not None:
            return spec
    return None


def _kind_of(module: ModuleType) -> str | None:
    """Tell which of the projects' modules this is, by what it defines itself."""
    for kind, (function, _) in GLOBALS.items():
        defined = vars(module).get(function)
        ours = isinstance(defined, FunctionType) and defined.__module__ == module.__name__
        if ours and module.__name__.rpartition(".")[2] == kind and not module.__name__.startswith("firelu."):
            return kind
    return None


def _serve(module: ModuleType, replaced: Replaced, extensions: dict[str, ModuleType]) -> None:
    from .extensions import functions

    kind = _kind_of(module)
    if kind is None:
        return
    function, globals_ = GLOBALS[kind]
    for name, extension in globals_.items():
        # A module knows its extension under one of the names; where the import failed, under none yet.
        if name in vars(module) or name == extension:
            replaced.set(module, name, extensions[extension])
    replaced.redirect(vars(module)[function], functions()[function])


def _loaded_modules() -> Iterable[ModuleType]:
    return [module for module in list(sys.modules.values()) if isinstance(module, ModuleType)]


def _sources(arguments: tuple[Any, ...], keywords: dict[str, Any]) -> frozenset[str]:
    sources = keywords.get("sources", arguments[0] if arguments else ())
    sources = [sources] if isinstance(sources, (str, os.PathLike)) else sources
    return frozenset(os.path.basename(os.fspath(source)) for source in sources)


_current: Replaced | None = None


def install() -> Replaced:
    """Put firelu in the place of the projects' extensions and of their slow branches for the CPU.

    Call it before or after the project is imported; a second call changes nothing. What is not one of those
    extensions is left alone.

    Returns:
        What was replaced so far; as a context manager, everything is put back at the end of the block.
    """
    global _current
    if _current is not None:
        return _current
    from torch.utils import cpp_extension

    from .extensions import make_modules

    replaced, extensions = Replaced(), make_modules()
    load = cpp_extension.load

    def load_or_serve(name: str, *arguments: Any, **keywords: Any) -> Any:
        extension = JIT_BUILDS.get((name, _sources(arguments, keywords)))
        return load(name, *arguments, **keywords) if extension is None else extensions[extension]

    replaced.add_finder(_Finder(replaced, extensions))
    replaced.set(cpp_extension, "load", load_or_serve)
    for module in _loaded_modules():
        if vars(module).get("load") is load and module is not cpp_extension:
            replaced.set(module, "load", load_or_serve)
        _serve(module, replaced, extensions)
    _current = replaced
    return replaced


def uninstall() -> _Reinstalled:
    """Put back everything that `install` replaced; without an `install` nothing happens.

    Returns:
        A context manager: firelu is out of the way inside the block and back after it.
    """
    global _current
    was_installed, _current = _current, None
    if was_installed is not None:
        was_installed.restore()
    return _Reinstalled(was_installed is not None)


def doctor() -> str:
    """Say what `install` has replaced or would replace among the imported modules, and explain usual troubles."""
    lines = []
    if _current is None:
        found = [module.__name__ for module in _loaded_modules() if _kind_of(module)]
        lines.append("firelu.compat is not installed.")
        lines.append(f"install() would serve: {', '.join(found) or 'what is imported later; nothing fitting is yet'}.")
    else:
        lines.append(f"firelu.compat is installed and has replaced: {', '.join(_current.names)}.")
    lines += [
        "",
        "Two usual troubles next to these extensions:",
        "- basicsr's source distribution does not build on recent Python or setuptools (a KeyError '__version__' in",
        "  its setup.py): install a repaired fork of it, or put its folder on the path.",
        "- basicsr imports torchvision.transforms.functional_tensor, which torchvision 0.17 removed: use the import",
        "  torchvision.transforms.functional in that line, or install torchvision below 0.17.",
    ]
    return "\n".join(lines)
