"""What lies beside single calls, as random cases: each neighbourhood is a module with `case(choices)`.

A case is a function of its `random.Random`; it raises where something is wrong, and gives True where what it tried was
refused, as it must be.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from random import Random

#: The name of each in the report, and its module.
NEIGHBOURHOODS = {
    "forward mode": "forward_mode",
    "shared workspaces and tensors": "sharing",
    "forks while nets run": "forks",
    "mixed devices, meta": "devices",
    "mixed devices, emulated CUDA": "emulated_devices",
    "modules made on meta": "meta_modules",
    "stand-in projects": "stand_ins",
}


def case_of(name: str) -> Callable[[Random], bool | None]:
    """Give a neighbourhood's case; what it needs is imported only now."""
    return importlib.import_module(f"{__name__}.{NEIGHBOURHOODS[name]}").case
