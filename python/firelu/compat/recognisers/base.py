"""What a recogniser is, what it finds, and how it reads functions and classes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple, Protocol

from ..transaction import Transaction

_REST = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS
_GENERATORS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
MISSING = object()


class Replacements(Protocol):
    """What takes the place of a project's things; made of torch operators, so it is given and not imported here."""

    def module(self, extension: str) -> ModuleType:
        """Give firelu's extension module of that name."""

    def function(self, served_by: str, what: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Give what makes the replacement of a function, called ``what`` in messages, from the original."""


class Finding(NamedTuple):
    """One thing in a module: what it is, and either why it is left alone or how it is replaced."""

    what: str
    why_left: str
    replace: Callable[[Transaction, Replacements], None]


class Recogniser(Protocol):
    """Knows one thing that projects define."""

    @property
    def names(self) -> tuple[str, ...]:
        """A module without any of these globals has nothing to be found."""

    def find(self, module: ModuleType) -> Iterator[Finding]:
        """Look at a module that has one of the globals."""


def left(what: str, why: str) -> Finding:
    """Give the finding of something that is left alone."""
    return Finding(what, why, lambda made, by: None)


def redirected(function: FunctionType, served_by: str, what: str) -> Finding:
    """Give the finding of a function that gets other code."""
    return Finding(what, "", lambda made, by: made.redirect(function, by.function(served_by, what), what))


def plain_parameters(function: FunctionType) -> tuple[str, ...] | None:
    """Give the names of a function's parameters; None where it takes any number of them, or is no plain function."""
    code = function.__code__
    if code.co_flags & (_REST | _GENERATORS) or code.co_kwonlyargcount:
        return None
    return code.co_varnames[: code.co_argcount]


def looked_up(*codes: CodeType) -> tuple[set[str], set[str]]:
    """Give the names that codes look up, and the texts among their constants, with what is defined inside them."""
    names: set[str] = set()
    texts: set[str] = set()
    waiting = list(codes)
    while waiting:
        code = waiting.pop()
        names.update(code.co_names)
        texts.update(constant for constant in code.co_consts if isinstance(constant, str))
        waiting += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return names, texts
