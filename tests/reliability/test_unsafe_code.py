"""`unsafe` stands where the architecture has it, and nowhere else."""

from __future__ import annotations

import pathlib
import re

ROOT = pathlib.Path(__file__).parents[2]

# Where it may stand, and what for.
ALLOWED = {
    r"src/core/tensor\.rs": "memory of tensors",
    r"src/devices/(cpu|cuda)/((memory|simd|activations|walk)/)?\w+\.rs": "threads, registers, memory and drivers",
    r"src/filters/plan/(layout|taps)\.rs": "the taps of a kernel and the rows of a plane are read through strides",
    r"src/filters/window\.rs": "windows are copied through the strides of planes, and added up",
    r"src/filters/rate\.rs": "the loop of multiply-adds is called at a level that was detected",
    r"src/filters/filter/\w+\.rs": "tiles call the loops on rows that the plan cut",
    r"src/filters/kernel_gradient/\w+\.rs": "tiles call the loops on rows that the plan cut",
    r"src/filters/pipeline/\w+\.rs": "rows pass from loop to loop through a tile's memory",
    r"src/filters/loops/(short/)?\w+\.rs": "arithmetic on pointers to rows; the contract stands in loops/mod.rs",
    r"src/filters/levels/\w+\.rs": "registers, and the loops compiled for them",
    r"src/filters/tests/\w+\.rs": "tests keep the contract of the loops that they call",
    r"src/resampling/\w+\.rs": "rows of arrays, and registers of columns between the filters",
    r"src/operators/\w+/(cpu|cuda)(\.rs|/\w+\.rs)": "kernels: from checked tensors to memory",
    r"src/python/((tensor|interop|resampling)/)?\w+\.rs": "the bridge to Python's memory",
}


def code(path: pathlib.Path) -> str:
    """Give a file without its comments."""
    return re.sub(r"//.*", "", path.read_text())


def test_unsafe_code_is_confined():
    files = [path for path in ROOT.joinpath("src").rglob("*.rs") if re.search(r"\bunsafe\b", code(path))]
    assert len(files) > 10
    strangers = [
        str(path.relative_to(ROOT))
        for path in files
        if not any(re.fullmatch(pattern, path.relative_to(ROOT).as_posix()) for pattern in ALLOWED)
    ]
    assert strangers == [], "write it with what the files of ALLOWED offer, or give the file a reason there"
    needed = {
        pattern for pattern in ALLOWED for path in files if re.fullmatch(pattern, path.relative_to(ROOT).as_posix())
    }
    assert needed == set(ALLOWED), "a file that needs no unsafe is not allowed any"


def test_each_block_must_say_why_it_holds():
    # The lints fail the build: here it is only looked after that nobody turns them off.
    manifest = (ROOT / "Cargo.toml").read_text()
    assert 'undocumented_unsafe_blocks = "deny"' in manifest
    assert 'unsafe_op_in_unsafe_fn = "deny"' in manifest
    for path in ROOT.joinpath("src").rglob("*.rs"):
        assert not re.search(r"allow\(.*(undocumented_unsafe_blocks|unsafe_op_in_unsafe_fn)", path.read_text()), path
        vacuous = re.search(r"SAFETY: (ffi|safe|ok|trust me|as needed)\b[.\s]", path.read_text(), re.IGNORECASE)
        assert vacuous is None, f"{path}: {vacuous and vacuous.group()}"
