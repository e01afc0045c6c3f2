"""What torch needs of each built-in operator: one file for an operator and its gradients, named like its folder."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from ..rules import Rules

#: The names of the files: what an operator's name is in snake case, where it begins with one of them.
STEMS = tuple(sorted(file.name for file in iter_modules(__path__)))

#: The rules of every built-in operator, by its name in the registry.
RULES: dict[str, Rules] = {
    name: rules for stem in STEMS for name, rules in import_module(f"{__name__}.{stem}").RULES.items()
}
