"""Projects with a `fused_leaky_relu` of their own, with other defaults and signatures: results stay theirs."""

from __future__ import annotations

import importlib
import inspect
import itertools
import sys
import tempfile
import warnings
from pathlib import Path
from random import Random

import firelu.compat
import torch
from torch.utils import cpp_extension

_numbers = itertools.count()
BODY = """import torch

calls = []

{decorator}
def fused_leaky_relu({parameters}):
    calls.append("theirs")
    {first} = {first} + {second}.reshape(1, -1, *[1] * ({first}.dim() - 2))
    return torch.nn.functional.leaky_relu({first}, {slope}) * {scale}
"""


def _project(choices: Random) -> tuple[str, bool]:
    """Write a project's text; also whether its signature is one that the drop-in knows."""
    slope, scale = round(choices.uniform(0, 1), 3), round(choices.uniform(0.5, 2), 3)
    known = choices.random() < 0.7
    names = ["input", "bias", "negative_slope", "scale"] if known else ["x", "b", "slope", "gain"]
    parameters = f"{names[0]}, {names[1]}, {names[2]}={slope}, {names[3]}={scale}"
    if not known and choices.random() < 0.5:
        parameters = f"{names[0]}, {names[1]}, *, {names[2]}={slope}, {names[3]}={scale}"
    decorator = choices.choice(["", "", "@torch.no_grad()"])
    text = BODY.format(
        decorator=decorator, parameters=parameters, first=names[0], second=names[1], slope=names[2], scale=names[3]
    )
    return text, known


def case(choices: Random) -> bool:
    """Install the drop-in before or after a project is imported, and compare what its function gives."""
    text, known = _project(choices)
    name = f"stand_in_{next(_numbers)}"
    before = (list(sys.meta_path), cpp_extension.load.__code__)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / f"{name}.py").write_text(text)
        sys.path.insert(0, folder)
        importlib.invalidate_caches()
        try:
            _compare(choices, name, known)
        finally:
            firelu.compat.uninstall()
            sys.path.remove(folder)
            sys.modules.pop(name, None)
    assert (list(sys.meta_path), cpp_extension.load.__code__) == before, "something is left behind"
    return not known


def _compare(choices: Random, name: str, known: bool) -> None:
    module = importlib.import_module(name) if choices.random() < 0.5 else None
    generator = torch.Generator().manual_seed(choices.getrandbits(60))
    shape = [choices.randint(1, 4) for _ in range(choices.randint(2, 4))]
    x, bias = torch.randn(shape, generator=generator), torch.randn(shape[1], generator=generator)
    more = choices.choice([{}, {}, {"scale" if known else "gain": 1.5}])
    with firelu.compat.install(), warnings.catch_warnings():
        warnings.simplefilter("error")
        module = module or importlib.import_module(name)
        signature, found = inspect.signature(module.fused_leaky_relu), module.fused_leaky_relu(x, bias, **more)
        assert bool(module.calls) != known, f"calls {module.calls} of a project that is {'' if known else 'not '}known"
    module.calls.clear()
    torch.testing.assert_close(found, module.fused_leaky_relu(x, bias, **more))
    assert module.calls == ["theirs"], "the function did not come back"
    assert inspect.signature(module.fused_leaky_relu) == signature
