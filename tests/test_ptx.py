"""The PTX that ships compares only what it has computed, and a kernel that does not is found."""

from __future__ import annotations

import importlib.util
import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[1]
SPEC = importlib.util.spec_from_file_location("definedness", ROOT / "cuda" / "definedness.py")
assert SPEC is not None
assert SPEC.loader is not None
definedness = importlib.util.module_from_spec(SPEC)
sys.modules[SPEC.name] = definedness  # where its data classes look for their module
SPEC.loader.exec_module(definedness)

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
