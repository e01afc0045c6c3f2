"""What takes the place of the projects' things, made of firelu's torch operators: one table from name to maker."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

from ... import torch as firelu_torch
from .. import extensions, plugins
from ..fallbacks import Fallbacks
from ..recognisers import EXTENSIONS
from . import stylegan2, stylegan3, vocoders

_Function = Callable[..., Any]


class Replacements:
    """firelu's extension modules, one of each, and the makers of functions."""

    def __init__(self) -> None:
        """Make the modules."""
        self.settings = stylegan3.Settings()
        self.fallbacks = Fallbacks()
        self._modules = {}
        for extension in EXTENSIONS:
            module = ModuleType(extension.name, f"{', '.join(extension.functions)} from firelu.")
            vars(module).update(self.contents(extension.name))
            self._modules[extension.name] = module
        activations = vocoders.Activations(self.fallbacks)
        two, three = (self.fallbacks,), (self.settings, self.fallbacks)
        #: What is recognised, the function of firelu.torch that serves it, and how.
        self._makers: dict[str, tuple[str, Callable[..., _Function], tuple[Any, ...]]] = {
            "fused_leaky_relu": ("fused_leaky_relu", stylegan2.fused_leaky_relu, two),
            "upfirdn2d_native": ("upfirdn2d", stylegan2.upfirdn2d_native, two),
            "upfirdn2d_native of pairs": ("upfirdn2d", stylegan2.upfirdn2d_native_of_pairs, two),
            "bias_act": ("bias_act", stylegan3.bias_act, three),
            "upfirdn2d": ("upfirdn2d", stylegan3.upfirdn2d, three),
            "filtered_lrelu": ("filtered_lrelu", stylegan3.filtered_lrelu, three),
            "Activation1d": ("filtered_snake", activations.filtered, ()),
            "Snake": ("snake", activations.snake, ()),
            "UpSample1d": ("upfirdn1d", activations.upsample, ()),
            "DownSample1d": ("upfirdn1d", activations.downsample, ()),
        }

    def module(self, extension: str) -> ModuleType:
        """Give firelu's extension module of that name."""
        return self._modules[extension]

    def contents(self, extension: str) -> dict[str, Any]:
        """Give the functions of an extension by their names."""
        (known,) = (each for each in EXTENSIONS if each.name == extension)
        home = extensions if extension.endswith("_ext") else plugins
        return {name: getattr(home, name) for name in known.functions}

    def function(self, served_by: str, what: str) -> Callable[[_Function], _Function]:
        """Give what makes the replacement of a function, called ``what`` in messages, from the original."""
        if served_by == "load":
            return self._load
        if served_by == "load_anti_alias":
            return lambda original: lambda: self.module("anti_alias_activation_cuda")
        name, maker, arguments = self._makers[served_by]
        return partial(maker, getattr(firelu_torch, name), *arguments, what)

    def _load(self, original: _Function) -> _Function:
        def load(name: Any, *arguments: Any, **keywords: Any) -> Any:
            sources = keywords.get("sources", arguments[0] if arguments else ())
            for extension in EXTENSIONS:
                if extension.answers_build(name, sources):
                    return self.module(extension.name)
            return original(name, *arguments, **keywords)

        return load
