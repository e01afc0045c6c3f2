"""The registry: look-up, schemas, inference, cost, definitions and their gradients."""

from __future__ import annotations

import pickle
import re
from pathlib import Path

import firelu
import ml_dtypes
import numpy as np
import pytest
import reference

BUILT_IN = [
    "Add",
    "BroadcastLike",
    "FusedLeakyRelu",
    "FusedLeakyReluGradient",
    "LeakyRelu",
    "LeakyReluGradient",
    "Mul",
    "ReduceSum",
    "Sub",
    "Sum",
    "UpFirDn2d",
    "UpFirDn2dGradient",
    "UpFirDn2dKernelGradient",
]
# Operators that share a folder share a test file.
FILES = dict.fromkeys(["Add", "BroadcastLike", "Mul", "ReduceSum", "Sub", "Sum"], "arithmetic")
ROOT = Path(__file__).resolve().parents[1]


def snake_case(name: str) -> str:
    return "".join("_" + c.lower() if c.isupper() and i else c.lower() for i, c in enumerate(name))


def test_the_built_in_operators():
    assert [name for name in firelu.operators() if not name.startswith("Test")] == sorted(BUILT_IN)


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_operator_is_documented_and_has_a_reference(name):
    schema = firelu.schema(name)
    assert schema.name == name
    assert len(schema.doc) > 20
    for part in [*schema.inputs, *schema.outputs, *schema.args]:
        assert part.name
        assert len(part.doc) > 5, part
    for argument in schema.args:
        assert argument.type
    assert "cpu" in schema.devices
    assert schema.gradient == "defined"
    assert callable(getattr(reference, snake_case(name)))


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


def test_every_built_in_operator_has_a_test_file():
    stems = {path.stem.removeprefix("test_") for path in (ROOT / "tests" / "operators").glob("test_*.py")}
    for name in BUILT_IN:
        stem = FILES.get(name) or snake_case(name).removesuffix("_gradient").removesuffix("_kernel")
        assert stem in stems, f"{name} has no tests/operators/test_{stem}.py"


def test_a_folder_brings_its_operators_and_kernels_and_no_device_knows_it():
    folders = [path.name for path in (ROOT / "src" / "operators").iterdir() if path.is_dir()]
    listed = re.findall(r"(\w+)::FAMILY", (ROOT / "src" / "operators" / "mod.rs").read_text())
    assert sorted(folders) == sorted(listed)
    kernels = {path.stem for path in (ROOT / "cuda").glob("*.cu")}
    assert set(folders) <= kernels
    for path in (ROOT / "src" / "devices" / "cuda").glob("*.rs"):
        assert not re.search(rf"\b({'|'.join(folders)})\b", path.read_text()), path
