"""What torch needs of each built-in operator: one file for an operator and its gradients, named like its folder."""

from __future__ import annotations

from ..rules import Rules
from . import arithmetic, bias_act, filtered_act, fused_leaky_relu, leaky_relu, reduce_sum, snake, upfirdn2d

_FILES = (arithmetic, bias_act, filtered_act, fused_leaky_relu, leaky_relu, reduce_sum, snake, upfirdn2d)

#: The names of the files: what an operator's name is in snake case, where it begins with one of them.
STEMS = tuple(file.__name__.rpartition(".")[2] for file in _FILES)

#: The rules of every built-in operator, by its name in the registry.
RULES: dict[str, Rules] = {name: rules for file in _FILES for name, rules in file.RULES.items()}
