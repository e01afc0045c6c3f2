"""Classes whose instances are pickled together with the source text of their module.

Loading such a pickle executes that text: only files from a source that one trusts may be loaded.
"""

from __future__ import annotations

import copy
import inspect
import sys
import uuid
from collections.abc import Callable
from types import ModuleType
from typing import Any

_VERSION = 6
_modules: dict[str, ModuleType] = {}  # by their source text
_sources: dict[str, str] = {}  # by the names of their modules
_hooks: list[Callable[[Any], Any]] = []
_classes: set[type] = set()


def persistent_class(orig_class: type[Any]) -> type[Any]:
    """Decorate a class so that instances are pickled with the source, and remember what they were made with."""
    if is_persistent(orig_class):
        return orig_class
    module = sys.modules[orig_class.__module__]
    source = _sources.get(module.__name__) or inspect.getsource(module)
    _sources[module.__name__] = source

    class Persistent(orig_class):  # type: ignore[misc]
        _orig_module_src = source
        _orig_class_name = orig_class.__name__

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self._init_args = copy.deepcopy(args)
            self._init_kwargs = copy.deepcopy(kwargs)

        @property
        def init_args(self) -> tuple[Any, ...]:
            """The positional arguments that the instance was made with."""
            args: tuple[Any, ...] = copy.deepcopy(self._init_args)
            return args

        @property
        def init_kwargs(self) -> Any:
            """The named arguments that the instance was made with."""
            from dnnlib import EasyDict  # type: ignore[import-not-found]

            return EasyDict(copy.deepcopy(self._init_kwargs))

        def __reduce__(self) -> Any:
            reduced = list(super().__reduce__())
            reduced += [None] * (3 - len(reduced))
            meta = {
                "type": "class",
                "version": _VERSION,
                "module_src": self._orig_module_src,
                "class_name": self._orig_class_name,
                "state": reduced[2],
            }
            return (_reconstruct_persistent_obj, (meta,), None, *reduced[3:])

    Persistent.__name__ = orig_class.__name__
    Persistent.__qualname__ = orig_class.__qualname__
    Persistent.__module__ = orig_class.__module__
    Persistent.__doc__ = orig_class.__doc__
    _classes.add(Persistent)
    return Persistent


def is_persistent(obj: Any) -> bool:
    """Tell whether a class, or an object's class, is persistent."""
    return (obj if isinstance(obj, type) else type(obj)) in _classes


def import_hook(hook: Callable[[Any], Any]) -> None:
    """Have a function called with what is about to be loaded, which it may change and must return."""
    _hooks.append(hook)


def _reconstruct_persistent_obj(meta: dict[str, Any]) -> Any:
    """Make an object from what was pickled; pickles call this by its name."""
    from dnnlib import EasyDict

    known = EasyDict(meta)
    known.state = EasyDict(known.state or {})
    for hook in _hooks:
        known = hook(known)
    if known.type != "class" or known.version > _VERSION:
        raise ValueError(f"persistence: got {known.type} of version {known.version}, takes class of {_VERSION} or less")
    cls = vars(_module_of(known.module_src))[known.class_name]
    if not is_persistent(cls):
        raise ValueError(f"persistence: {known.class_name} is no persistent class of the source in the file")
    obj = cls.__new__(cls)
    setstate = getattr(obj, "__setstate__", None)
    if callable(setstate):
        setstate(known.state)
    else:
        vars(obj).update(known.state)
    return obj


def _module_of(source: str) -> ModuleType:
    """Give the module of a source text, executed once."""
    if source not in _modules:
        name = f"_imported_module_{uuid.uuid4().hex}"
        module = ModuleType(name)
        sys.modules[name], _sources[name], _modules[source] = module, source, module
        try:
            exec(compile(source, f"<{name}>", "exec"), vars(module))  # what the file's owner was trusted with
        except BaseException:
            del sys.modules[name], _sources[name], _modules[source]
            raise
    return _modules[source]
