"""What the drop-in knows of the projects: a table of small objects, and none of them needs torch.

A recogniser looks at the globals of one module and gives findings: what it would replace there, or what it leaves alone
and why. Projects are told by the shape of what they define, since copies of them live under any name. To serve another
family of projects, write its recogniser and add it to `RECOGNISERS`.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple, Protocol

from .transaction import Transaction

_GENERATORS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
_MISSING = object()


class Replacements(Protocol):
    """What takes the place of a project's things; made of torch operators, so it is given and not imported here."""

    def module(self, extension: str) -> ModuleType:
        """Give firelu's extension module of that name."""

    def function(self, name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Give what makes the replacement of a function from the original."""


class Finding(NamedTuple):
    """One thing in a module: what it is, and either why it is left alone or how it is replaced."""

    what: str
    why_left: str
    replace: Callable[[Transaction, Replacements], None]


class Recogniser(Protocol):
    """Knows one thing that projects define."""

    @property
    def name(self) -> str:
        """A module without this global has nothing to be found."""

    def find(self, module: ModuleType) -> Iterator[Finding]:
        """Look at a module that has the global."""


@dataclass(frozen=True)
class Extension:
    """An extension module that projects compile, and the ways in which they get at it."""

    #: Its name, inside a folder that is called as it is but for ``_ext``: ``fused_act.fused_act_ext``.
    name: str
    #: What is in it.
    functions: tuple[str, ...]
    #: The globals under which the projects' modules keep it.
    globals: tuple[str, ...]
    #: What `torch.utils.cpp_extension.load` is asked for: a name, and the names of the source files.
    build_name: str
    build_sources: frozenset[str]

    def answers_import(self, fullname: str) -> bool:
        """Tell whether an import means this extension; a stranger's of the same name stands in another folder."""
        parent, _, name = fullname.rpartition(".")
        return name == self.name and parent.rpartition(".")[2] == self.name.removesuffix("_ext")

    def answers_build(self, name: Any, sources: Any) -> bool:
        """Tell whether a call of `load` means this extension: the name alone is too common."""
        if name != self.build_name:
            return False
        if isinstance(sources, (str, os.PathLike)):
            sources = [sources]
        if not isinstance(sources, (list, tuple)):  # anything else might be exhausted by looking at it
            return False
        return {os.path.basename(os.fspath(source)) for source in sources} == self.build_sources


EXTENSIONS = (
    Extension(
        "fused_act_ext",
        ("fused_bias_act",),
        ("fused_act_ext", "fused"),
        "fused",
        frozenset({"fused_bias_act.cpp", "fused_bias_act_kernel.cu"}),
    ),
    Extension(
        "upfirdn2d_ext",
        ("upfirdn2d",),
        ("upfirdn2d_ext", "upfirdn2d_op"),
        "upfirdn2d",
        frozenset({"upfirdn2d.cpp", "upfirdn2d_kernel.cu"}),
    ),
)


@dataclass(frozen=True)
class KnownFunction:
    """A function that projects define in Python, and the extension that their module uses beside it."""

    name: str
    parameters: tuple[str, ...]
    extension: Extension

    def find(self, module: ModuleType) -> Iterator[Finding]:
        """Find the function, and the extension's globals beside it."""
        namespace = vars(module)
        what, value = f"{module.__name__}.{self.name}", namespace[self.name]
        function = inspect.unwrap(value) if callable(value) else value
        if not isinstance(function, FunctionType):
            yield _left(what, f"it is a {type(function).__qualname__}, not a Python function")
            return
        if function.__globals__ is not namespace:
            if function.__name__ != self.name:
                other = f"{function.__module__}.{function.__qualname__}"
                yield _left(what, f"it is {other}: another function, or a wrapper that does not say what it wraps")
            return  # imported from another module, where it is found
        code = function.__code__
        flags = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS | _GENERATORS
        if code.co_flags & flags or code.co_kwonlyargcount or _names(code) != self.parameters:
            yield _left(what, f"it takes {inspect.signature(function)}, not ({', '.join(self.parameters)})")
            return
        yield Finding(what, "", lambda made, by: made.redirect(function, by.function(self.name), what))
        yield from self._extensions(module)

    def _extensions(self, module: ModuleType) -> Iterator[Finding]:
        """Find the globals that hold the extension, or would, had its import not failed."""
        mentioned = _mentioned(module)
        for name in self.extension.globals:
            value, what = vars(module).get(name, _MISSING), f"{module.__name__}.{name}"
            if value is _MISSING and name not in mentioned:
                continue
            function = self.extension.functions[0]
            inside = vars(value).get(function) if isinstance(value, ModuleType) else None
            if getattr(inside, "__module__", "").startswith("firelu."):
                continue  # imported or built while firelu answered
            if inside is None and value is not None and value is not _MISSING:
                yield _left(what, f"it is a {type(value).__qualname__} without {function}, not the extension")
                continue
            yield Finding(what, "", _setting(module, name, self.extension.name))


@dataclass(frozen=True)
class Builder:
    """torch's function that compiles extensions, `torch.utils.cpp_extension.load`."""

    name: str = "load"

    def find(self, module: ModuleType) -> Iterator[Finding]:
        """Find it in torch's own module alone."""
        if module.__name__ != "torch.utils.cpp_extension":
            return
        what, function = f"{module.__name__}.{self.name}", inspect.unwrap(vars(module)[self.name])
        if not isinstance(function, FunctionType):
            yield _left(what, f"it is a {type(function).__qualname__}, not a Python function")
            return
        yield Finding(what, "", lambda made, by: made.redirect(function, by.function(self.name), what))


RECOGNISERS: tuple[Recogniser, ...] = (
    Builder(),
    KnownFunction("fused_leaky_relu", ("input", "bias", "negative_slope", "scale"), EXTENSIONS[0]),
    KnownFunction(
        "upfirdn2d_native",
        ("input", "kernel", "up_x", "up_y", "down_x", "down_y", "pad_x0", "pad_x1", "pad_y0", "pad_y1"),
        EXTENSIONS[1],
    ),
)


def find(module: ModuleType) -> Iterator[Finding]:
    """Look at a module with every recogniser; whatever is odd about it becomes a finding."""
    # A module that is loaded on first use is not loaded by looking.
    namespace = object.__getattribute__(module, "__dict__")
    present = [recogniser for recogniser in RECOGNISERS if recogniser.name in namespace]
    if not present or str(namespace.get("__name__")).partition(".")[0] == "firelu":
        return
    for recogniser in present:
        try:
            yield from list(recogniser.find(module))
        except Exception as error:
            yield _left(f"{namespace.get('__name__')}.{recogniser.name}", f"looking at it raised {error!r}")


def _left(what: str, why: str) -> Finding:
    return Finding(what, why, lambda made, by: None)


def _setting(module: ModuleType, name: str, extension: str) -> Callable[[Transaction, Replacements], None]:
    return lambda made, by: made.set_global(module, name, by.module(extension))


def _names(code: CodeType) -> tuple[str, ...]:
    return code.co_varnames[: code.co_argcount]


def _mentioned(module: ModuleType) -> set[str]:
    """Give the names that the functions of a module, and the methods of its classes, look up."""
    namespace = vars(module)
    waiting = [value for value in namespace.values() if getattr(value, "__module__", None) == module.__name__]
    mentioned: set[str] = set()
    codes: list[CodeType] = []
    for value in waiting:
        members = vars(value).values() if isinstance(value, type) else (value,)
        functions = (inspect.unwrap(getattr(member, "__func__", member)) for member in members)
        codes += [function.__code__ for function in functions if isinstance(function, FunctionType)]
    while codes:
        code = codes.pop()
        mentioned.update(code.co_names)
        codes += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return mentioned
