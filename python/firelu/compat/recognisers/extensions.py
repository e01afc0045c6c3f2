"""The extension modules that projects compile, and the ways in which they get at them."""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterator
from dataclasses import dataclass
from types import FunctionType, ModuleType
from typing import Any

from .base import Finding, left, looked_up, plain_parameters, redirected


@dataclass(frozen=True)
class Extension:
    """An extension module, and by what a request for it is known."""

    name: str
    #: What is in it.
    functions: tuple[str, ...]
    #: The names of all its source files, or of none: then each begins as the extension does.
    sources: frozenset[str]
    #: The name under which `torch.utils.cpp_extension.load` is asked for it; None for any.
    build_name: str | None
    #: The folder from which it is imported; empty for none, None where it is never imported.
    folder: str | None = None
    #: The globals under which the projects' modules keep it.
    globals: tuple[str, ...] = ()

    def answers_import(self, fullname: str) -> bool:
        """Tell whether an import means this extension; a stranger's of the same name stands in another folder."""
        parent, _, name = fullname.rpartition(".")
        return name == self.name and self.folder is not None and parent.rpartition(".")[2] == self.folder

    def answers_build(self, name: Any, sources: Any) -> bool:
        """Tell whether a call of `load` means this extension: the name alone is too common."""
        if self.build_name is not None and name != self.build_name:
            return False
        if isinstance(sources, (str, os.PathLike)):
            sources = [sources]
        if not isinstance(sources, (list, tuple)):  # anything else might be exhausted by looking at it
            return False
        files = {os.path.basename(os.fspath(source)) for source in sources}
        if self.sources:
            return files == self.sources
        return bool(files) and all(file.startswith(self.name.removesuffix("_plugin")) for file in files)


def _plugin(operator: str, *functions: str) -> Extension:
    name = f"{operator}_plugin"
    return Extension(name, functions, frozenset(), name, folder="")


#: What `get_plugin` is asked for in projects of the StyleGAN3 family.
PLUGINS = (
    _plugin("bias_act", "bias_act"),
    _plugin("upfirdn2d", "upfirdn2d"),
    _plugin("filtered_lrelu", "filtered_lrelu", "filtered_lrelu_act_"),
)
FUSED_ACT = Extension(
    "fused_act_ext",
    ("fused_bias_act",),
    frozenset({"fused_bias_act.cpp", "fused_bias_act_kernel.cu"}),
    "fused",
    "fused_act",
    ("fused_act_ext", "fused"),
)
UPFIRDN2D = Extension(
    "upfirdn2d_ext",
    ("upfirdn2d",),
    frozenset({"upfirdn2d.cpp", "upfirdn2d_kernel.cu"}),
    "upfirdn2d",
    "upfirdn2d",
    ("upfirdn2d_ext", "upfirdn2d_op"),
)
#: The vocoders build it under names of their own.
ANTI_ALIAS = Extension(
    "anti_alias_activation_cuda",
    ("forward",),
    frozenset({"anti_alias_activation.cpp", "anti_alias_activation_cuda.cu"}),
    None,
)
EXTENSIONS = (FUSED_ACT, UPFIRDN2D, *PLUGINS, ANTI_ALIAS)


@dataclass(frozen=True)
class Builder:
    """torch's function that compiles extensions, `torch.utils.cpp_extension.load`."""

    names: tuple[str, ...] = ("load",)

    def find(self, module: ModuleType) -> Iterator[Finding]:
        """Find it in torch's own module alone."""
        if module.__name__ != "torch.utils.cpp_extension":
            return
        what, function = f"{module.__name__}.load", inspect.unwrap(vars(module)["load"])
        if not isinstance(function, FunctionType):
            yield left(what, f"it is a {type(function).__qualname__}, not a Python function")
            return
        yield redirected(function, "load", what)


@dataclass(frozen=True)
class VocoderLoader:
    """A vocoder's own `load()`, which asks nvcc for its version before it builds."""

    names: tuple[str, ...] = ("load",)

    def find(self, module: ModuleType) -> Iterator[Finding]:
        """Find a function without parameters that names the source files."""
        function = vars(module)["load"]
        if not isinstance(function, FunctionType) or function.__globals__ is not vars(module):
            return
        _, texts = looked_up(function.__code__)
        files = {os.path.basename(text) for text in texts}
        if plain_parameters(function) == () and files >= ANTI_ALIAS.sources:
            yield redirected(function, "load_anti_alias", f"{module.__name__}.load")


@dataclass(frozen=True)
class PluginCache:
    """Where `get_plugin` keeps what it has built: a plugin found there is never built, on no system."""

    names: tuple[str, ...] = ("get_plugin",)

    def find(self, module: ModuleType) -> Iterator[Finding]:
        """Find the dictionary beside the function."""
        namespace = vars(module)
        function, cache = namespace["get_plugin"], namespace.get("_cached_plugins")
        if not isinstance(function, FunctionType) or function.__globals__ is not namespace:
            return
        code, what = function.__code__, f"{module.__name__}.get_plugin"
        if code.co_varnames[: min(2, code.co_argcount)] != ("module_name", "sources"):
            yield left(what, f"it takes {inspect.signature(function)}, not (module_name, sources, ...)")
            return
        if not isinstance(cache, dict):
            yield left(what, "there is no dictionary _cached_plugins beside it")
            return
        for plugin in PLUGINS:
            yield self._entry(module, cache, plugin)

    @staticmethod
    def _entry(module: ModuleType, cache: dict[Any, Any], plugin: Extension) -> Finding:
        what = f"{module.__name__}._cached_plugins[{plugin.name!r}]"
        inside = getattr(cache.get(plugin.name), plugin.functions[0], None)
        if inside is not None and not getattr(inside, "__module__", "").startswith("firelu."):
            return left(what, "it was built before")
        return Finding(what, "", lambda made, by: made.set_item(cache, plugin.name, by.module(plugin.name), what))
