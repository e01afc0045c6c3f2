"""Arrays of other libraries: which functions are theirs."""

from __future__ import annotations

import importlib.util
from typing import Any

from .errors import ArgumentError


def refuse(operator: str, argument: str, value: Any) -> None:
    """Refuse a torch tensor or dask array given to a function of numpy arrays, and name the function to use.

    `numpy.asarray` would accept both: a tensor would come back as an array without its gradient, and a dask array would
    be computed.
    """
    roots = {each.__module__.partition(".")[0]: each.__name__ for each in reversed(type(value).__mro__)}
    if "torch" in roots:
        use = _torch(operator)
    elif "dask" in roots:
        use = _dask(operator)
    else:
        return
    library = "torch" if "torch" in roots else "dask"
    got = f"{library}.{roots[library]}"
    raise ArgumentError(f"{operator}: {argument}: got {got}, takes a numpy array or firelu.Tensor: use {use}")


def _function(operator: str) -> str | None:
    """Give the name of an operator's function of numpy arrays: ``LeakyRelu`` is ``leaky_relu``."""
    import firelu

    names = {name.replace("_", ""): name for name in firelu.__all__ if name.islower()}
    return names.get(operator.lower().replace("_", ""))


def _torch(operator: str) -> str:
    name = _function(operator)
    if name == "filtered_act":  # torch has one function for each kind
        return "firelu.torch.filtered_lrelu, filtered_snake or snake, which take tensors and have their gradient"
    if name is None or name.endswith("_gradient"):
        return f"firelu.torch.register({operator!r}), which gives a function of tensors"
    return f"firelu.torch.{name}, which takes tensors and has their gradient"


def _dask(operator: str) -> str:
    name = _function(operator)
    if name is None:  # an operator of the user's own
        return f"x.map_blocks(lambda block: firelu.run_operator({operator!r}, block))"
    if not name.startswith(("upfirdn", "filtered")):
        return f"x.map_blocks(firelu.{name})"
    if name == "upfirdn2d" and importlib.util.find_spec("firelu.dask") is not None:
        return "firelu.dask.upfirdn2d, which computes block by block"
    return f"firelu.{name}(x.compute(), ...)"
