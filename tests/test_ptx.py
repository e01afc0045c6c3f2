"""The PTX that ships compares only what it has computed; kernels that do not are found, as is bad machine code."""

from __future__ import annotations

import importlib.util
import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[1]


def load(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "cuda" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # where its data classes look for their module
    spec.loader.exec_module(module)
    return module


definedness, disassembly = load("definedness"), load("disassembly")

LOOP = """
.visible .entry loop(
	.param .u32 loop_param_0
)
{
	mov.u32 	%r1, 0;

$L__BB0_1:
	ADD
	COMPARE
	@%p1 bra 	$L__BB0_1;

	ret;
}
"""
ADD, COMPARE = "add.s32 	%r2, %r1, 256;", "setp.lt.s32 	%p1, %r2, %r1;"


@pytest.mark.parametrize("path", sorted((ROOT / "cuda" / "ptx").glob("*.ptx")), ids=lambda path: path.stem)
def test_kernels_compare_what_they_computed(path):
    assert definedness.complaints(path.read_text(encoding="utf-8")) == []


def test_a_comparison_before_its_sum_is_found():
    assert definedness.complaints(LOOP.replace("ADD", ADD).replace("COMPARE", COMPARE)) == []
    swapped = LOOP.replace("ADD", COMPARE).replace("COMPARE", ADD)
    assert definedness.complaints(swapped) == ["loop: setp.lt.s32 %p1, %r2, %r1; reads %r2"]


def test_a_branch_on_what_one_path_wrote_is_found():
    text = LOOP.replace("ADD", "@%p2 bra 	$L__BB0_1;").replace("COMPARE", "setp.lt.s32 	%p1, %r1, 5;")
    assert definedness.complaints(text) == ["loop: @%p2 bra $L__BB0_1; reads %p2"]


def listing(*instructions, kernel="upfirdn2d_filter_f32"):
    lines = [f"        /*{16 * n:04x}*/                   {text} ;" for n, text in enumerate(instructions)]
    return "\n".join([f".text.{kernel}:", *lines, ""])


def test_machine_code_that_stores_too_early_is_found():
    load, guarded, store = "LDG.E.128 R4, desc[UR4][R2.64]", "@!P0 LDG.E.128 R8, desc[UR4][R2.64]", "STS.128 [R3], R4"
    assert disassembly.complaints(listing(*[load, guarded] * 3, store, *[load] * 4, store)) == []
    assert disassembly.complaints(listing(*[load] * 5, store, load, store)) == [
        "upfirdn2d_filter_f32: 5 loads LDG.E.128 before a store, 6 are planned"
    ]
    narrow = "LDG.E R2, desc[UR4][R4.64]"
    assert "0 loads LDG.E.128" in disassembly.complaints(listing(*[narrow] * 6, store))[0]


def test_local_memory_and_noncoherent_loads_are_found():
    assert disassembly.complaints(listing("LDL R2, [R1]", "STL [R1], R2", kernel="add_f32")) == [
        "add_f32: 2 accesses to local memory"
    ]
    text = listing("LDG.E.CONSTANT R2, desc[UR4][R4.64]", kernel="add_f32")
    assert "past the coherent cache" in disassembly.complaints(text)[0]
