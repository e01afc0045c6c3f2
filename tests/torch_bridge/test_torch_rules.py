"""Every built-in operator has its rules for torch, or says why it needs none."""

from __future__ import annotations

import ast
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import firelu
import pytest
from firelu.torch import operators, private
from firelu.torch.operators import RULES, STEMS
from firelu.torch.rules import Rules
from firelu.torch.signature import torch_name

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "python" / "firelu" / "torch"


def test_every_built_in_operator_has_rules():
    # A process of its own knows no operators but the built-in ones.
    code = "import firelu; print(*firelu.operators())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=250)
    built_in = set(done.stdout.split())
    lacking, unknown = built_in - set(RULES), set(RULES) - built_in
    assert not lacking, f"without rules: {sorted(lacking)}; each has them in firelu/torch/operators/<folder>.py"
    assert not unknown, f"rules of no built-in operator: {sorted(unknown)}"


@pytest.mark.parametrize("name", sorted(RULES))
def test_a_rule_is_a_function_or_a_reason(name):
    rules = RULES[name]
    for field in fields(Rules):
        rule = getattr(rules, field.name)
        if field.name == "lengths_read":
            lent = {spec.name for spec in firelu.schema(name).inputs if spec.shape_only}
            assert set(rule) <= lent
        else:
            assert callable(rule) or len(rule.split()) >= 5, f"{name}: {field.name} is neither a rule nor a sentence"
    assert callable(rules.shape), f"{name}: without a shape rule dynamic shapes are specialised"


def test_the_files_are_named_like_the_operators_folders():
    folders = {path.parent.name for path in (ROOT / "src" / "operators").glob("*/mod.rs")}
    files = {path.stem for path in Path(operators.__file__).parent.glob("*.py")} - {"__init__"}
    assert files == set(STEMS)
    assert files <= folders


def test_a_name_in_torch_begins_with_its_file():
    assert torch_name("UpFirDn2d") == "upfirdn2d"
    assert torch_name("UpFirDn2dKernelGradient") == "upfirdn2d_kernel_gradient"
    assert torch_name("FusedLeakyReluGradient") == "fused_leaky_relu_gradient"
    assert torch_name("BroadcastLike") == "broadcast_like"
    assert torch_name("My.Own2Operator") == "my_own2_operator"


def test_only_one_file_names_what_torch_keeps_to_itself():
    """Each private name has one home, where it may be missing."""
    for path in sorted(PACKAGE.rglob("*.py")):
        if path == Path(private.__file__):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("torch"):
                names = [*(node.module or "").split("."), *(alias.name for alias in node.names)]
            elif isinstance(node, ast.Import):
                names = [part for alias in node.names for part in alias.name.split(".")]
            elif isinstance(node, ast.Attribute):
                root = node
                while isinstance(root, ast.Attribute):
                    root = root.value
                is_torch = isinstance(root, ast.Name) and root.id in ("torch", "forward_ad", "DTensor", "_C")
                names = [node.attr] if is_torch else []
            else:
                continue
            private_names = [name for name in names if name.startswith("_") and not name.startswith("__")]
            assert not private_names, f"{path.relative_to(ROOT)}:{node.lineno}: {private_names}"
