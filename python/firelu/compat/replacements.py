"""What takes the place of the projects' things, made of firelu's torch operators."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any, cast

import torch
from torch import Tensor

from .. import torch as firelu_torch
from . import extensions
from .recognisers import EXTENSIONS

_DEVICES = ("cuda", "meta")
_DTYPES = frozenset({torch.float16, torch.bfloat16, torch.float32, torch.float64})
_HALVES = (torch.float16, torch.bfloat16)

_Function = Callable[..., Any]


class Replacements:
    """firelu's extension modules, one of each, and the makers of functions."""

    def __init__(self) -> None:
        """Make the modules."""
        self._modules = {}
        for extension in EXTENSIONS:
            module = ModuleType(extension.name, f"{', '.join(extension.functions)} from firelu.")
            vars(module).update(self.contents(extension.name))
            self._modules[extension.name] = module

    def module(self, extension: str) -> ModuleType:
        """Give firelu's extension module of that name."""
        return self._modules[extension]

    def contents(self, extension: str) -> dict[str, Any]:
        """Give the functions of an extension by their names."""
        (known,) = (each for each in EXTENSIONS if each.name == extension)
        return {name: getattr(extensions, name) for name in known.functions}

    def function(self, name: str) -> Callable[[_Function], _Function]:
        """Give what makes the replacement of a function from the original."""
        makers = {"fused_leaky_relu": _fused_leaky_relu, "upfirdn2d_native": _upfirdn2d_native, "load": self._load}
        return makers[name]

    def _load(self, original: _Function) -> _Function:
        def load(name: Any, *arguments: Any, **keywords: Any) -> Any:
            sources = keywords.get("sources", arguments[0] if arguments else ())
            for extension in EXTENSIONS:
                if extension.answers_build(name, sources):
                    return self.module(extension.name)
            return original(name, *arguments, **keywords)

        return load


def _served(tensor: Any) -> bool:
    """Tell whether firelu computes with this tensor; what it does not is left to the project's own formula."""
    # A device's name takes longer to read than all the rest.
    place = isinstance(tensor, Tensor) and (tensor.is_cpu or tensor.device.type in _DEVICES)
    return place and tensor.dtype in _DTYPES


def _fused_leaky_relu(original: _Function) -> _Function:
    def fused_leaky_relu(input: Any, bias: Any, negative_slope: Any, scale: Any) -> Any:
        # A slope or scale that is a tensor may want a gradient, which only the project's formula gives it.
        numbers = type(negative_slope) is type(scale) is float
        numbers = numbers or not (isinstance(negative_slope, Tensor) or isinstance(scale, Tensor))
        if numbers and _served(input) and input.dim() > 1:
            if bias is None:
                return firelu_torch.fused_leaky_relu(input, None, negative_slope, scale)
            channels = _channel_bias(input, bias)
            if channels is not None:
                return firelu_torch.fused_leaky_relu(input, channels, negative_slope, scale)
        return original(input, bias, negative_slope, scale)

    return fused_leaky_relu


def _channel_bias(input: Tensor, bias: Any) -> Tensor | None:
    """Give a bias as (C,) that is written so, or as it broadcasts, such as (1, C, 1, 1); None for any other."""
    if not _served(bias):
        return None
    if bias.dtype != input.dtype and not (bias.dtype == torch.float32 and input.dtype in _HALVES):
        return None
    if bias.dim() == 1:
        return cast("Tensor", bias)
    broadcast = (1,) * (input.dim() - bias.dim()) + tuple(bias.shape)
    channels = tuple(size if axis == 1 else 1 for axis, size in enumerate(input.shape))
    return cast("Tensor", bias.reshape(-1)) if broadcast == channels else None


def _upfirdn2d_native(original: _Function) -> _Function:
    def upfirdn2d_native(
        input: Tensor,
        kernel: Tensor,
        up_x: int,
        up_y: int,
        down_x: int,
        down_y: int,
        pad_x0: int,
        pad_x1: int,
        pad_y0: int,
        pad_y1: int,
    ) -> Any:
        pads = (pad_x0, pad_x1, pad_y0, pad_y1)
        if _served(input) and _served(kernel) and input.dim() == 4 and kernel.dim() == 2:
            return firelu_torch.upfirdn2d(input, kernel, (up_x, up_y), (down_x, down_y), pads)
        return original(input, kernel, up_x, up_y, down_x, down_y, *pads)

    return upfirdn2d_native
