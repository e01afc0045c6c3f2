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

QUICK_SHAPES = ((1 << 20,), (8, 64, 64), (1, 16, 256, 256), (1, 8, 256, 256), (1, 16, 1, 8192))
QUICK = [case for case in bench.CASES if case[1][0] in QUICK_SHAPES]


@pytest.mark.parametrize("case", QUICK, ids=lambda case: f"{case[0]} {case[1][0]}")
def test_sectors_and_banks_in_float16(case):
    assert [text for row in bench.count(bench.Counters(), [case], ("float16",)) if (text := bench.complaint(row))] == []


def missed(name):
    """Whether a case is beyond its goals: FilteredAct's tiles of planes, of which docs/cuda.md has the figures."""
    return name.startswith("FilteredAct") and "rows" not in name


def marked(case):
    """Give a case that the suite notices once it meets its goals."""
    reason = "tiles of FilteredAct read too much twice: docs/cuda.md"
    marks = [pytest.mark.xfail(strict=True, reason=reason)] if missed(case[0]) else []
    return pytest.param(case, id=f"{case[0]} {case[1][0]}", marks=marks)


@pytest.mark.full
@pytest.mark.parametrize("case", [marked(case) for case in bench.CASES])
def test_sectors_and_banks(case):
    assert [text for row in bench.count(bench.Counters(), [case]) if (text := bench.complaint(row))] == []


def test_a_row_beyond_its_goal_is_told():
    row = {"case": "x", "shape": (1,), "dtype": "float32", "layout": "row-major", "goal": 1.02, "fewest": 100}
    row |= {"sectors": 102, "banks": 2, "tiled": True, "trips": 6}
    assert bench.complaint(row) == ""
    assert "sectors 1.030 (goal 1.02)" in bench.complaint({**row, "sectors": 103})
    assert "banks 3 (goal 2)" in bench.complaint({**row, "banks": 3})
    assert "round trips 7 (goal 6)" in bench.complaint({**row, "trips": 7})


def test_the_scarcest_of_bandwidth_issue_and_latency_is_the_time():
    gpu = bench.Gpu(bandwidth=1000, processors=10, clock=1.0, latency=0.5, threads=2048, shared=100)
    launch = {"kernel": "upfirdn2d_filter_f32", "grid": [80, 1, 1], "shared_bytes": 24 * 1024}
    launch |= {"warp_instructions": {"float": 80_000}, "sectors": 1_000_000, "round_trips": 160}
    assert bench.resident(launch, gpu) == 4
    assert bench.resident({**launch, "shared_bytes": 48 * 1024}, gpu) == 2
    assert bench.resident({**launch, "kernel": "add_f32", "shared_bytes": 0}, gpu) == 8
    # Two trips of half a microsecond, 0.7 around them and 0.25 of issue: 80 blocks, 40 at a time.
    assert bench.parts(launch, gpu) == pytest.approx({"memory": 32.0, "issue": 2.0, "latency": 2 * (1.0 + 0.7 + 0.25)})
    row = {"launches": [launch, launch], "fewest": 1_000_000}
    assert bench.derived(row, gpu) == pytest.approx(64.0)
    assert bench.share(row, gpu) == pytest.approx(0.5)


def test_four_taps_take_one_launch():
    counters = bench.Counters()
    cases = [("UpFirDn2d", [(1, 8, 16, 16), (4, 4)], args, 0) for args in (bench.BLUR, bench.UP, bench.DOWN)]
    rows = list(bench.count(counters, cases, ("float32",)))
    assert {row["layout"] for row in rows} == {"row-major", "channels-last"}
    assert [len(row["launches"]) for row in rows] == [1] * 6
