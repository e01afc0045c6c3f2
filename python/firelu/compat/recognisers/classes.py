"""Modules of vocoders: classes known by their base, their name and what their `forward` looks up."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from types import FunctionType, ModuleType

from .base import Finding, left, looked_up, plain_parameters, redirected


@dataclass(frozen=True)
class KnownModule:
    """A subclass of `torch.nn.Module` whose ``forward`` takes one tensor and looks up certain names."""

    #: The names of the class, or of globals in whose company a class of any name is looked at.
    names: tuple[str, ...]
    #: What its ``forward`` looks up, all of it.
    mentions: frozenset[str]
    served_by: str
    any_name: bool = False
    #: What its ``forward`` may look up instead; then it delegates to a module that is served.
    delegates: frozenset[str] = frozenset({"lowpass"})

    def find(self, module: ModuleType) -> Iterator[Finding]:
        """Find the classes that the module defines itself."""
        for name, value in list(vars(module).items()):
            known = self.any_name or name in self.names
            if known and isinstance(value, type) and value.__module__ == module.__name__ and _is_module(value):
                yield from self._look_at(value)

    def _look_at(self, cls: type) -> Iterator[Finding]:
        forward = inspect.unwrap(vars(cls).get("forward", None))
        if not isinstance(forward, FunctionType):
            return
        what, parameters = f"{cls.__module__}.{cls.__qualname__}.forward", plain_parameters(forward)
        mentioned, _ = looked_up(forward.__code__)
        if parameters is not None and len(parameters) == 2 and mentioned >= self.mentions:
            yield redirected(forward, self.served_by, what)
        elif not self.any_name and not mentioned >= self.delegates:
            wanted = ", ".join(sorted(self.mentions))
            yield left(what, f"it is not a forward that takes one tensor and uses {wanted}")


#: The activation between two resamplings is called differently everywhere; what it has is the same.
ACTIVATION = KnownModule(
    ("Activation1d", "TorchActivation1d", "UpSample1d"),
    frozenset({"act", "upsample", "downsample"}),
    "Activation1d",
    any_name=True,
)
SNAKE = KnownModule(("Snake", "SnakeBeta", "Snake1d"), frozenset({"alpha"}), "Snake")
UPSAMPLE = KnownModule(("UpSample1d",), frozenset({"filter", "pad_left", "pad_right"}), "UpSample1d")
DOWNSAMPLE = KnownModule(
    ("DownSample1d", "LowPassFilter1d"), frozenset({"filter", "pad_left", "pad_right"}), "DownSample1d"
)


def _is_module(cls: type) -> bool:
    """Tell whether a class is a torch module, without importing torch."""
    return any(base.__module__ == "torch.nn.modules.module" and base.__name__ == "Module" for base in cls.__mro__)
