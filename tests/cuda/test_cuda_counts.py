"""What the kernels do to memory, counted by the emulated driver: the goals of `make bench-cuda`."""

import importlib.util
import os
import pathlib

import pytest

pytest.importorskip("torch")
if os.environ.get("FIRELU_TEST_GPU") == "1":
    pytest.skip("a GPU does not count", allow_module_level=True)

PATH = pathlib.Path(__file__).parents[2] / "cuda" / "bench.py"
SPECIFICATION = importlib.util.spec_from_file_location("cuda_bench", PATH)
bench = importlib.util.module_from_spec(SPECIFICATION)
SPECIFICATION.loader.exec_module(bench)

QUICK = [case for case in bench.CASES if case[1][0] in ((1 << 20,), (1, 16, 256, 256), (1, 8, 256, 256))]


@pytest.mark.parametrize("case", QUICK, ids=lambda case: f"{case[0]} {case[1][0]}")
def test_sectors_and_banks_in_float16(case):
    assert [text for row in bench.count(bench.Counters(), [case], ("float16",)) if (text := bench.complaint(row))] == []


@pytest.mark.full
@pytest.mark.parametrize("case", bench.CASES, ids=lambda case: f"{case[0]} {case[1][0]}")
def test_sectors_and_banks(case):
    assert [text for row in bench.count(bench.Counters(), [case]) if (text := bench.complaint(row))] == []


def test_a_row_beyond_its_goal_is_told():
    row = {"case": "x", "shape": (1,), "dtype": "float32", "layout": "row-major", "goal": 1.02, "fewest": 100}
    assert bench.complaint({**row, "sectors": 102, "banks": 2}) == ""
    assert "sectors 1.030 (goal 1.02)" in bench.complaint({**row, "sectors": 103, "banks": 2})
    assert "banks 3 (goal 2)" in bench.complaint({**row, "sectors": 100, "banks": 3})
