"""Run in a process of its own: firelu.torch where torch lacks the private names on the command line."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import firelu
import torch

PRIVATE = Path(firelu.__file__).parent / "torch" / "private.py"


def load_private(missing: set[str]) -> ModuleType:
    """Load `firelu.torch.private` as it is where torch lacks names: `find` does not find them."""
    spec = importlib.util.spec_from_file_location("firelu.torch.private", PRIVATE)
    module = importlib.util.module_from_spec(spec)
    asked: set[str] = set()

    def doing_without(find):
        def found(path):
            asked.add(path)
            return None if path in missing else find(path)

        return found

    tree = ast.parse(PRIVATE.read_text())
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == "find":
            node.decorator_list.append(ast.Name("doing_without", ast.Load()))
    module.__dict__["doing_without"] = doing_without
    exec(compile(ast.fix_missing_locations(tree), PRIVATE, "exec"), module.__dict__)
    # Names that are looked up later: those of autocast's keys and of DTensor.
    later = {path for path in missing if path.startswith(("torch._C:DispatchKey.Autocast", "torch.distributed"))}
    assert missing - later <= asked, f"nobody asks for {sorted(missing - later - asked)}"
    return module


def plain(x, bias, kernel):
    act = torch.nn.functional.leaky_relu(x + bias.view(-1, 1, 1), 0.2) * 2**0.5
    padded = torch.nn.functional.pad(act, (1, 1, 1, 1))
    flat = torch.nn.functional.conv2d(padded.reshape(-1, 1, *padded.shape[-2:]), kernel.flip((0, 1))[None, None])
    return torch.nn.functional.leaky_relu(flat.reshape(*x.shape[:-2], *flat.shape[-2:]), 0.1)


def check(ft) -> None:
    def chain(x, bias, kernel):
        return ft.leaky_relu(ft.upfirdn2d(ft.fused_leaky_relu(x, bias), kernel, pad=1), 0.1)

    def outcomes(function):
        generator = torch.Generator().manual_seed(0)
        shapes = [(2, 3, 5, 5), (3,), (3, 3)]
        leaves = [torch.randn(shape, generator=generator, dtype=torch.float64, requires_grad=True) for shape in shapes]
        y = function(*leaves)
        first = torch.autograd.grad(y.pow(3).sum(), leaves, create_graph=True)
        second = torch.autograd.grad(sum(g.pow(2).sum() for g in first), leaves)
        with torch.no_grad():
            batch = torch.stack([leaves[0], -leaves[0]])
            many = torch.vmap(lambda v: function(v, leaves[1], leaves[2]))(batch)
        return [y, *first, *second, many]

    torch.testing.assert_close(outcomes(chain), outcomes(plain))
    # Lists of tensors, and a derivative that is asked for only some of the inputs.
    a, b = (torch.randn(3, dtype=torch.float64, requires_grad=True) for _ in range(2))
    total = torch.ops.firelu.sum([a, b.detach(), a])
    assert torch.equal(torch.autograd.grad(total.sum(), a)[0], torch.full((3,), 2.0, dtype=torch.float64))
    assert torch.autograd.gradcheck(torch.ops.firelu.mul, (a, b))
    assert ft.leaky_relu(torch.ones(2, 3, device="meta")).shape == (2, 3)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        half = torch.randn(2, 3).bfloat16()
        assert ft.fused_leaky_relu(half, torch.zeros(3, dtype=torch.float64)).dtype == torch.bfloat16
    # Forward mode is right or refused, never zero.
    x = torch.tensor([-1.0, 2.0])
    try:
        assert torch.func.jvp(lambda v: ft.leaky_relu(v, 0.5), (x,), (torch.ones(2),))[1].tolist() == [0.5, 1.0]
        assert torch.func.hessian(lambda v: (ft.leaky_relu(v, 0.5) ** 3).sum())(x).diagonal().tolist() == [-0.75, 12.0]
        print("forward mode")
    except firelu.NoGradientError as refused:
        print("no forward mode" if "forward mode: got a tensor with a tangent" in str(refused) else refused)


def main() -> None:
    missing = set(filter(None, sys.argv[1].split(",")))
    sys.modules["firelu.torch.private"] = load_private(missing)
    check(importlib.import_module("firelu.torch"))
    if "torch.library:Library._destroy" not in missing:
        # A second import, as after one that was broken off.
        for name in [name for name in sys.modules if name.startswith("firelu.torch")]:
            del sys.modules[name]
        sys.modules["firelu.torch.private"] = load_private(missing)
        check(importlib.import_module("firelu.torch"))


main()
