"""Other code for a function that somebody has already imported: every name bound to it follows.

The function stays the object that it was, so it is pickled, compared and imported as before. Its new code takes the
same parameters, and its defaults are not touched: a project's own defaults hold, and `inspect` shows what it did.
"""

from __future__ import annotations

import inspect
import itertools
import weakref
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any

_numbers = itertools.count()
_codes: weakref.WeakSet[CodeType] = weakref.WeakSet()


def is_redirected(function: FunctionType) -> bool:
    """Tell whether a function has code from here."""
    return function.__code__ in _codes


def copy_of(function: FunctionType) -> FunctionType:
    """Give a function of the same code, which stays itself when the first gets other code."""
    copy = FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    copy.__kwdefaults__ = function.__kwdefaults__
    copy.__qualname__, copy.__module__ = function.__qualname__, function.__module__
    return copy


def forwarding_code(function: FunctionType, target: Callable[..., Any]) -> CodeType:
    """Give code with a function's parameters that passes all of them on to ``target``.

    The target is a global of the function for as long as the code lives, which a call under way outlasts: torch.compile
    follows globals, and refuses functions among a code's constants.
    """
    namespace, hidden = function.__globals__, f"__firelu_{next(_numbers)}__"
    before = function.__code__
    taken, passed = _parameters(before)
    # Free variables are named, though never reached: a function keeps its cells, and its code must have as many.
    kept = "".join(f"; {name}" for name in before.co_freevars)
    lines = ["def enclosing():", *(f"    {name} = None" for name in before.co_freevars)]
    lines += [f"    def forward({taken}): return {hidden}({passed}){kept}", "    return forward"]
    made: dict[str, Any] = {}
    # Nothing is executed but two definitions, whose names come from a code object.
    exec(compile("\n".join(lines), before.co_filename, "exec"), made)
    names = {"co_name": before.co_name, "co_firstlineno": before.co_firstlineno}
    if hasattr(before, "co_qualname"):
        names["co_qualname"] = before.co_qualname
    code: CodeType = made["enclosing"]().__code__.replace(**names)
    _codes.add(code)
    namespace[hidden] = target
    weakref.finalize(code, namespace.pop, hidden, None).atexit = False
    return code


def _parameters(code: CodeType) -> tuple[str, str]:
    """Give the parameters as a definition writes them, and as a call passes them on."""
    names = iter(code.co_varnames)
    positional = list(itertools.islice(names, code.co_argcount))
    keywords = list(itertools.islice(names, code.co_kwonlyargcount))
    taken, passed = list(positional), list(positional)
    if code.co_posonlyargcount:
        taken.insert(code.co_posonlyargcount, "/")
    if code.co_flags & inspect.CO_VARARGS:
        rest = next(names)
        taken.append(f"*{rest}")
        passed.append(f"*{rest}")
    elif keywords:
        taken.append("*")
    taken += keywords
    passed += [f"{name}={name}" for name in keywords]
    if code.co_flags & inspect.CO_VARKEYWORDS:
        rest = next(names)
        taken.append(f"**{rest}")
        passed.append(f"**{rest}")
    return ", ".join(taken), ", ".join(passed)
