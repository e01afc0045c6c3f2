"""The registry: look-up, schemas, inference, cost, definitions and their gradients."""

from __future__ import annotations

import json
import pickle
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import firelu
import firelu.cuda
import ml_dtypes
import numpy as np
import pytest
import reference

ROOT = Path(__file__).resolve().parents[1]
# A process of its own knows no operators but the built-in ones.
LIST = "import firelu; print(*firelu.operators())"
BUILT_IN = subprocess.run([sys.executable, "-c", LIST], capture_output=True, text=True, check=True).stdout.split()
# Where each operator is made: its folder under src/operators, and the function there.
MADE = [
    (path.parent.name, function)
    for path in sorted((ROOT / "src" / "operators").glob("*/mod.rs"))
    for function in re.findall(r"^pub fn (\w+)\(\) -> Operator\b", path.read_text(encoding="utf-8"), re.MULTILINE)
]
# Operators that users write as signs and methods of `firelu.Tensor`: they have no function on arrays.
WITHOUT_FUNCTION = {"arithmetic", "reduce_sum"}


def home(name: str) -> tuple[str, str]:
    """Give an operator's folder, which its files elsewhere are named after, and its name in functions."""
    [found] = [made for made in MADE if made[1].replace("_", "") == name.lower()]
    return found


def test_every_operator_that_is_made_is_registered():
    assert sorted(function.replace("_", "") for _, function in MADE) == sorted(name.lower() for name in BUILT_IN)


def text(pattern: str) -> str:
    """Give the files of the repository that have such a path, one after the other."""
    return "".join(path.read_text(encoding="utf-8") for path in sorted(ROOT.glob(pattern)))


def missing(name: str) -> Iterator[str]:
    """Yield what a built-in operator lacks."""
    folder, function = home(name)
    schema = firelu.schema(name)
    if len(schema.doc) <= 20:
        yield "a sentence that says what it computes, in its schema"
    for part in [*schema.inputs, *schema.outputs, *schema.args]:
        if not part.name or len(part.doc) <= 5:
            yield f"a name and a word about {part}, in its schema"
    if not all(argument.type for argument in schema.args):
        yield "the types of its arguments, in its schema"
    if not schema.examples:
        yield "examples, in its schema: tests of gradients, devices and torch, the self-test and the soak run them"
    if schema.gradient != "defined":
        yield "a gradient definition"
    for device in ("cpu", "cuda"):
        if device not in schema.devices:
            yield f"a kernel for the device {device}"
    if not callable(getattr(reference, function, None)):
        yield f"its slow definition: {function} in tests/reference.py"
    tests = f"tests/operators/test_{folder}.py"
    if not re.search(rf'"{name}"|firelu\.{function}\(', text(tests)):
        yield f"a test in {tests}"
    yield from missing_kernels(name, folder)
    if folder not in WITHOUT_FUNCTION and folder not in firelu.__all__:
        yield f"a function for arrays: {folder} in python/firelu, exported by __init__.py"
    family = [operator for operator in BUILT_IN if home(operator)[0] == folder]
    if not any(f"`{operator}`" in text("CHANGELOG.md") for operator in family):
        yield "a line for users in CHANGELOG.md"
    for path, pattern in {
        f"python/firelu/torch/operators/{folder}.py": f'"{name}": Rules\\(',
        "docs/reliability.md": f"`{name}`",
    }.items():
        if not re.search(pattern, text(path)):
            yield f"its place in {path}"


def missing_kernels(name: str, folder: str) -> Iterator[str]:
    """Yield what the device's kernels of an operator lack."""
    if folder not in json.loads(text("cuda/ptx/manifest.json"))["modules"]:
        yield f"its kernels in the manifest of cuda/ptx: run make ptx after writing cuda/{folder}.cu"
    for path in (f"cuda/{folder}.cu", f"cuda/ptx/{folder}.ptx"):
        if not text(path):
            yield f"its kernels: {path}"
    # Mutants of kernels that work element by element are met by what every such operator's example becomes.
    if not firelu.schema(name).identical_type_and_shape and not re.search(
        f'"{name}"', text("tests/cuda_mutations/*.rs")
    ):
        yield "its cases in tests/cuda_mutations/cases.rs"


@pytest.mark.parametrize("name", BUILT_IN)
def test_nothing_of_an_operator_is_missing(name):
    # All of it by one run: an assertion on the list itself shows its first item.
    lacking = "".join(f"\n- {what}" for what in missing(name))
    assert not lacking, f"{name} lacks what src/operators/README.md lists:{lacking}"


def test_schema_of_leaky_relu():
    schema = firelu.schema("LeakyRelu")
    assert [(a.name, a.type, a.default) for a in schema.args] == [("alpha", "float", 0.01)]
    assert schema.allow_inplace == [("X", "Y")]
    assert schema.identical_type_and_shape
    assert schema.onnx == "LeakyRelu"
    assert schema.dtypes == ["float16", "bfloat16", "float32", "float64"]
    assert firelu.schema("LeakyReluGradient").allow_inplace == [("dY", "dX")]


def test_inference_and_cost():
    schema = firelu.schema("LeakyRelu")
    assert schema.infer([((2, 3), np.float32)]) == [((2, 3), np.dtype("float32"))]
    assert schema.infer([((0,), "bfloat16")], alpha=1) == [((0,), np.dtype(ml_dtypes.bfloat16))]
    cost = schema.cost([((2, 3), "float32")])
    assert (cost.flops, cost.bytes_read, cost.bytes_written) == (12, 24, 24)
    cost = firelu.schema("LeakyReluGradient").cost([((2, 3), "float16")] * 2)
    assert (cost.flops, cost.bytes_read, cost.bytes_written) == (12, 24, 12)


def test_inference_refuses_what_a_call_would():
    schema = firelu.schema("LeakyRelu")
    for bad, error in [
        ([((2,), "int8")], firelu.DTypeError),
        ([((2**40, 2**40), "float32")], firelu.ShapeError),
        ([((-1,), "float32")], firelu.ShapeError),
        ([], firelu.ArgumentError),
        ([3], firelu.ArgumentError),
    ]:
        with pytest.raises(error):
            schema.infer(bad)


def test_definitions_round_trip():
    op = firelu.create_operator("LeakyRelu", ["X"], ["Y"], alpha=0.2, device="cuda", name="first")
    assert (op.operator, op.inputs, op.outputs, op.args) == ("LeakyRelu", ["X"], ["Y"], {"alpha": 0.2})
    assert (op.device, op.name) == ("cuda:0", "first")
    assert firelu.OperatorDef.from_json(op.to_json()) == op
    assert pickle.loads(pickle.dumps(op)) == op
    assert op != firelu.create_operator("LeakyRelu", "X", "Y")
    assert "LeakyRelu" in repr(op)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"operator": 3}', "\x00", "[" * 10_000])
def test_invalid_json(text):
    with pytest.raises(firelu.ArgumentError):
        firelu.OperatorDef.from_json(text)


def test_definitions_are_checked_when_made():
    for error, call in [
        (firelu.UnknownOperatorError, lambda: firelu.create_operator("Leaky", ["X"], ["Y"])),
        (firelu.ArgumentError, lambda: firelu.create_operator("LeakyRelu", [], ["Y"])),
        (firelu.ArgumentError, lambda: firelu.create_operator("LeakyRelu", [None], ["Y"])),
        (firelu.ArgumentError, lambda: firelu.create_operator("LeakyRelu", ["X"], [])),
        (firelu.ArgumentError, lambda: firelu.create_operator("LeakyRelu", ["X"], ["Y"], slope=1.0)),
        (firelu.ArgumentError, lambda: firelu.create_operator("LeakyRelu", ["X"], ["Y"], device="gpu")),
        (firelu.ArgumentError, lambda: firelu.create_operator("LeakyRelu", [3], ["Y"])),
    ]:
        with pytest.raises(error):
            call()


def test_gradient_definitions_of_leaky_relu():
    op = firelu.create_operator("LeakyRelu", ["X"], ["Y"], alpha=0.2)
    [gradient], names = firelu.get_gradient_defs(op, ["Y_grad"])
    assert gradient == firelu.create_operator("LeakyReluGradient", ["Y", "Y_grad"], ["X_grad"], alpha=0.2)
    assert names == ["X_grad"]
    assert firelu.get_gradient_defs(op, [None]) == ([], [None])
    negative = firelu.create_operator("LeakyRelu", ["X"], ["Y"], alpha=-0.2)
    assert firelu.get_gradient_defs(negative, ["g"])[0][0].inputs == ["X", "g"]
    in_place = firelu.create_operator("LeakyRelu", ["X"], ["X"], alpha=-0.2)
    with pytest.raises(firelu.ArgumentError, match="sign"):
        firelu.get_gradient_defs(in_place, ["g"])
    [second], names = firelu.get_gradient_defs(gradient, ["gg"])
    assert (second.operator, second.inputs, names) == (
        "LeakyReluGradient",
        ["Y", "gg"],
        [None, "Y_grad_grad"],
    )
    with pytest.raises(firelu.ArgumentError, match="output gradients"):
        firelu.get_gradient_defs(op, [])


def test_a_folder_brings_its_operators_and_kernels_and_no_device_knows_it():
    folders = [path.name for path in (ROOT / "src" / "operators").iterdir() if path.is_dir()]
    listed = re.findall(r"(\w+)::FAMILY", (ROOT / "src" / "operators" / "mod.rs").read_text())
    assert sorted(folders) == sorted(listed)
    kernels = {path.stem for path in (ROOT / "cuda").glob("*.cu")}
    assert set(folders) <= kernels
    for path in (ROOT / "src" / "devices" / "cuda").glob("*.rs"):
        assert not re.search(rf"\b({'|'.join(folders)})\b", path.read_text()), path
