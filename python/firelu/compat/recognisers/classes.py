"""Modules of vocoders: classes known by their base, their name and what their `forward` looks up."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from types import FunctionType, ModuleType

from ..redirection import is_redirected
from .base import Finding, left, looked_up, plain_parameters, redirected


@dataclass(frozen=True)
class KnownModule:
    """A subclass of `torch.nn.Module` whose ``forward`` takes one tensor and looks up certain names."""

    #: How the name of the class ends, as some put a model's name before it; or how names end beside which a class of
    #: any name is looked at.
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
            known = self.any_name or str(name).endswith(self.names)
            if known and isinstance(value, type) and value.__module__ == module.__name__ and _is_module(value):
                yield from self._look_at(value)

    def _look_at(self, cls: type) -> Iterator[Finding]:
        forward = inspect.unwrap(vars(cls).get("forward", None))
        if not isinstance(forward, FunctionType):
            return
        what, mentioned = f"{cls.__module__}.{cls.__qualname__}.forward", looked_up(forward.__code__)[0]
        # Code that was replaced mentions nothing any more.
        if is_redirected(forward) or (_takes_one_tensor(forward) and mentioned >= self.mentions):
            yield redirected(forward, self.served_by, what)
        elif not self.any_name and not mentioned >= self.delegates:
            wanted = ", ".join(sorted(self.mentions))
            yield left(what, f"it is not a forward that takes one tensor and uses {wanted}")


#: The activation between two resamplings is called differently everywhere; what it has is the same.
ACTIVATION = KnownModule(
    ("Activation1d", "UpSample1d"),
    frozenset({"act", "upsample", "downsample"}),
    "Activation1d",
    any_name=True,
)
SNAKE = KnownModule(("Snake", "SnakeBeta", "Snake1d"), frozenset({"alpha"}), "Snake")
UPSAMPLE = KnownModule(("UpSample1d",), frozenset({"filter", "pad_left", "pad_right"}), "UpSample1d")
DOWNSAMPLE = KnownModule(
    ("DownSample1d", "LowPassFilter1d"), frozenset({"filter", "pad_left", "pad_right"}), "DownSample1d"
)


def _takes_one_tensor(forward: FunctionType) -> bool:
    """Tell whether a forward can be called with the module and a tensor; whatever else it takes has a default."""
    parameters = plain_parameters(forward)
    return parameters is not None and len(parameters) - len(forward.__defaults__ or ()) == 2


def _is_module(cls: type) -> bool:
    """Tell whether a class is a torch module, without importing torch."""
    return any(base.__module__ == "torch.nn.modules.module" and base.__name__ == "Module" for base in cls.__mro__)
