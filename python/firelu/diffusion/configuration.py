"""Objects from configurations: a dotted name and the arguments to call it with."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from typing import Any


def instantiate_from_config(config: Mapping[str, object], *, allowed: Iterable[str] | None = None) -> Any:
    """Import what `config["target"]` names and call it with the keywords `config["params"]`.

    A configuration from a stranger can name anything importable, `os.system` included. `allowed` closes
    that door: only these targets are imported, each an exact name (`"torch.nn.Linear"`) or a package with
    a star (`"torch.nn.*"`), which admits what the package defines, not what it imports from elsewhere.

    `KeyError` without a target, `ValueError` where the target is not allowed or not a dotted name,
    `ImportError` where it does not exist, `TypeError` where it cannot be called.

    >>> config = {"target": "fractions.Fraction", "params": {"numerator": 3}}
    >>> instantiate_from_config(config, allowed=["fractions.*"])
    Fraction(3, 1)
    """
    function = "instantiate_from_config"
    if not isinstance(config, Mapping):
        raise TypeError(f"{function}: config must be a mapping with a target, got {type(config).__name__}")
    if "target" not in config:
        raise KeyError(f"{function}: config needs the key 'target', got {sorted(map(str, config))}")
    target = config["target"]
    if not isinstance(target, str) or not all(part.isidentifier() for part in target.split(".")):
        raise ValueError(f"{function}: target must be a dotted name, got {target!r}")
    module_name, _, name = target.rpartition(".")
    if not module_name:
        raise ValueError(f"{function}: target must name a module and something in it, got {target!r}")
    allowed = None if allowed is None else tuple([allowed] if isinstance(allowed, str) else allowed)
    if allowed is not None and not any(_admits(entry, target) for entry in allowed):
        raise ValueError(f"{function}: target {target!r} is not allowed, allowed are {', '.join(allowed)}")
    try:
        found = getattr(importlib.import_module(module_name), name)
    except AttributeError:
        raise ImportError(f"{function}: module {module_name!r} has no {name!r}") from None
    home = f"{getattr(found, '__module__', None)}.{name}"
    if allowed is not None and target not in allowed and not any(_admits(entry, home) for entry in allowed):
        raise ValueError(f"{function}: target {target!r} is defined elsewhere, in {home!r}, and not allowed")
    if not callable(found):
        raise TypeError(f"{function}: target {target!r} is a {type(found).__name__}, which cannot be called")
    params: Any = config.get("params") or {}
    return found(**params)


def _admits(entry: str, name: str) -> bool:
    """Whether an entry of an allow-list covers a dotted name."""
    return name.startswith(entry[:-1]) if entry.endswith(".*") else name == entry
