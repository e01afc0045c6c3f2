"""Functions that projects define in Python, known by name, parameters and what stands beside them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import FunctionType, ModuleType
from typing import Any

from ..transaction import Transaction
from .base import MISSING, Finding, Replacements, left, looked_up, plain_parameters, redirected
from .extensions import Extension


@dataclass(frozen=True)
class Form:
    """One way in which a function is written."""

    #: The parameters in their order, with what else they may be called: ``"x|input b|bias dim"``.
    parameters: str
    #: What serves it.
    served_by: str
    #: A last parameter that it may have.
    switch: str = ""
    #: The extension that its module uses beside it.
    extension: Extension | None = None

    def fits(self, parameters: tuple[str, ...]) -> bool:
        """Tell whether a function of these parameters is written so."""
        known = [each.split("|") for each in self.parameters.split()]
        if len(parameters) == len(known) + 1 and self.switch:
            known.append(self.switch.split("|"))
        return len(parameters) == len(known) and all(
            name in names for name, names in zip(parameters, known, strict=True)
        )

    def __str__(self) -> str:
        """Give the parameters under their first names."""
        return ", ".join(each.partition("|")[0] for each in self.parameters.split())


@dataclass(frozen=True)
class KnownFunction:
    """A function, and the forms that it has in the projects."""

    name: str
    forms: tuple[Form, ...]
    #: Globals of which a module has at least one, if the function is the one that is meant.
    beside: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The function's name."""
        return (self.name,)

    def find(self, module: ModuleType) -> Iterator[Finding]:
        """Find the function, and the extension's globals beside it."""
        namespace = vars(module)
        what, value = f"{module.__name__}.{self.name}", namespace[self.name]
        accompanied = not self.beside or any(name in namespace for name in self.beside)
        function = _unwrapped(value, self.name, namespace)
        if not isinstance(function, FunctionType):
            # A package has the module of the same name, where the function is found.
            if not (self.beside and isinstance(function, ModuleType)) and accompanied:
                yield left(what, f"it is a {type(function).__qualname__}, not a Python function")
            return
        if function.__globals__ is not namespace:
            if function.__name__ != self.name and accompanied:
                other = f"{function.__module__}.{function.__qualname__}"
                yield left(what, f"it is {other}: another function, or a wrapper that does not say what it wraps")
            return  # imported from another module, where it is found
        parameters = plain_parameters(function)
        form = next((each for each in self.forms if parameters is not None and each.fits(parameters)), None)
        if form is None or parameters is None:
            if accompanied:
                known = " or ".join(f"({each})" for each in self.forms)
                yield left(what, f"it takes {inspect.signature(function)}, not {known}")
            return
        if not accompanied and parameters[-1:] != ("use_custom_op",):  # which nobody else has
            yield left(what, f"its module has none of {', '.join(self.beside)}")
            return
        yield redirected(function, form.served_by, what)
        if form.extension is not None:
            yield from _extensions(module, form.extension)


def _unwrapped(value: Any, name: str, namespace: dict[str, Any]) -> Any:
    """Give the function inside its decorators, also inside one that does not say what it wraps."""
    function = inspect.unwrap(value) if callable(value) else value
    if isinstance(function, FunctionType) and function.__globals__ is not namespace:
        for cell in function.__closure__ or ():
            inside = cell.cell_contents
            if isinstance(inside, FunctionType) and inside.__name__ == name and inside.__globals__ is namespace:
                return inside
    return function


def _extensions(module: ModuleType, extension: Extension) -> Iterator[Finding]:
    """Find the globals that hold the extension, or would, had its import not failed."""
    mentioned = _mentioned(module)
    for name in extension.globals:
        value, what = vars(module).get(name, MISSING), f"{module.__name__}.{name}"
        if value is MISSING and name not in mentioned:
            continue
        function = extension.functions[0]
        inside = vars(value).get(function) if isinstance(value, ModuleType) else None
        if getattr(inside, "__module__", "").startswith("firelu."):
            continue  # imported or built while firelu answered
        if inside is None and value is not None and value is not MISSING:
            yield left(what, f"it is a {type(value).__qualname__} without {function}, not the extension")
            continue
        yield Finding(what, "", _setting(module, name, extension.name))


def _setting(module: ModuleType, name: str, extension: str) -> Callable[[Transaction, Replacements], None]:
    return lambda made, by: made.set_global(module, name, by.module(extension))


def _mentioned(module: ModuleType) -> set[str]:
    """Give the names that the functions of a module, and the methods of its classes, look up."""
    namespace = vars(module)
    waiting = [value for value in namespace.values() if getattr(value, "__module__", None) == module.__name__]
    codes = []
    for value in waiting:
        members = vars(value).values() if isinstance(value, type) else (value,)
        functions = (inspect.unwrap(getattr(member, "__func__", member)) for member in members)
        codes += [function.__code__ for function in functions if isinstance(function, FunctionType)]
    names, _ = looked_up(*codes)
    return names
