"""The benchmarks: that they compare like with like, judge rightly and leave what they promise; never how fast it is."""

from __future__ import annotations

import importlib.util
import json
import runpy
import subprocess
import sys
from pathlib import Path

import firelu
import numpy as np
import pytest
from firelu.bench import cases, command, goals, main, measure, memory, peers, resampling_cases, scaling, worker
from firelu.bench.summary import COMPARED, summary

ROOT = Path(__file__).resolve().parents[1]
FILTERS = [(1, 1, (2, 1)), (2, 1, (2, 1)), (1, 2, (1, 1))]


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(1).standard_normal(shape, np.float32)


def close(actual: object, expected: np.ndarray) -> None:
    np.testing.assert_allclose(np.asarray(actual), expected, rtol=0, atol=4e-6)


@pytest.mark.parametrize(("up", "down", "pad"), FILTERS)
def test_others_on_arrays_do_the_same_work(up, down, pad):
    x, taps = random(2, 3, 14, 18), np.array([0.1, 0.4, 0.3, 0.2], np.float32)
    expected = firelu.upfirdn2d(x, np.outer(taps, taps), up, down, pad, gain=up * up)
    compared = peers.filter_peers(x, taps, up, down, pad, float(up * up))
    wanted = {"scipy upfirdn"} if importlib.util.find_spec("scipy") else set()
    if (up, down) == (1, 1):
        wanted |= {"scipy correlate1d"} if wanted else set()
        wanted |= {peers.OPENCV} if importlib.util.find_spec("cv2") else set()
    assert set(compared) == wanted
    for run in compared.values():
        close(run(), expected)


@pytest.mark.parametrize("kernel", ["box", "triangle", "cubic", "lanczos3"])
@pytest.mark.parametrize("factor", resampling_cases.FACTORS)
def test_others_resample_to_the_same_size(kernel, factor):
    x = np.random.default_rng(2).random((3, 60, 72), np.float32)
    ours = firelu.resample(x, *factor, kernel=kernel)
    for name, run in resampling_cases.planes_peers(x, ours.shape[1:], kernel).items():
        theirs = run()
        assert theirs.shape == ours.shape
        # Away from the border, where others leave taps out. OpenCV's box is another kernel where it enlarges, Pillow's
        # where the factor is a fraction.
        same = {"torch antialias": True, "Pillow": kernel != "box" or 1 in factor}
        if same.get(name, name == "OpenCV INTER_AREA" and factor[0] < factor[1]):
            np.testing.assert_allclose(theirs[:, 14:-14, 14:-14], ours[:, 14:-14, 14:-14], rtol=0, atol=2e-5)
    pixels = (x.transpose(1, 2, 0) * 255).astype(np.uint8)
    ours = firelu.resample(pixels, *factor, axes=(0, 1), kernel=kernel)
    for run in resampling_cases.pixels_peers(pixels, ours.shape[:2], kernel).values():
        assert run().shape == ours.shape


def test_numpy_does_the_same_work():
    x, bias = random(2, 3, 4, 5), random(3)
    close(peers.leaky_relu_peers(x)["numpy"](), firelu.leaky_relu(x, 0.2))
    close(peers.fused_peers(x, bias)["numpy"](), firelu.fused_leaky_relu(x, bias))


def torch_cases():
    pytest.importorskip("torch")
    from firelu.bench import torch_cases

    return torch_cases


def small_torch_cases():
    module = torch_cases()
    yield module.leaky_relu(100)
    yield module.fused(2, 3, 4, 5)
    yield module.fused_with_backward(2, 3, 4, 5)
    for up, down, pad in FILTERS:
        yield module.upfirdn2d("filter", 2, 3, 14, 18, pad=pad, up=up, down=down)


def check_torch_cases():
    count = 0
    for case in small_torch_cases():
        first, *others = ([np.asarray(part) for part in parts] for parts in map(as_tuple, run_all(case)))
        assert len(others) >= 3
        for other in others:
            count += 1
            for actual, expected in zip(other, first, strict=True):
                np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=4e-6)
    assert count == 3 * 3 + 3 * 5


def run_all(case):
    return [run() for run in case.runs.values()]


def as_tuple(result):
    parts = result if isinstance(result, tuple) else (result,)
    return [part.detach() if hasattr(part, "detach") else part for part in parts]


def test_others_in_torch_do_the_same_work(monkeypatch):
    """The compiler is left out: it takes its time, and what it compiles is compared here."""
    monkeypatch.setattr(pytest.importorskip("torch"), "compile", lambda function: function)
    check_torch_cases()


@pytest.mark.full
@pytest.mark.filterwarnings("default")
def test_others_in_torch_do_the_same_work_compiled():
    check_torch_cases()


def test_an_other_that_does_not_run_is_left_out_with_its_reason(monkeypatch):
    module = torch_cases()

    def fails():
        raise RuntimeError("no compiler\nand a long story")

    runs = {"firelu.torch": lambda: 1, "firelu": lambda: 1, "torch.compile": fails}
    result = module.measure(module.TorchCase("a case", 800, runs), rounds=1)
    assert result["left_out"] == {"torch.compile": "RuntimeError: no compiler"}
    assert set(result["seconds"]) == {"firelu.torch", "firelu"}
    with pytest.raises(RuntimeError, match="no compiler"):
        module.measure(module.TorchCase("a case", 800, runs | {"firelu": fails}), rounds=1)


class Clock:
    """Time that passes only where a call says so."""

    now = 0.0

    def perf_counter(self) -> float:
        return self.now

    def call(self, *seconds: float):
        left = list(seconds)
        calls = []

        def run() -> None:
            calls.append(1)
            self.now += left.pop(0) if len(left) > 1 else left[0]

        return run, calls


def test_the_minimum_counts_and_slow_calls_are_timed_less(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(measure, "time", clock)
    steady, _ = clock.call(9.0, 1.0, 0.5, 0.25, 0.75)
    slow, slow_calls = clock.call(2.0)
    best = measure.fastest({"steady": steady, "slow": slow}, rounds=4)
    assert best == {"steady": 0.25, "slow": 2.0}
    assert len(slow_calls) == 3  # to warm up, to count repeats, and once for the budget


def test_the_median_is_typical(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(measure, "time", clock)
    call, _ = clock.call(9.0, 9.0, 0.25, 0.5, 0.0625, 0.5, 0.5)
    assert measure.typical({"call": call}, rounds=4) == {"call": 0.375}


def test_sizes_are_compared_turn_by_turn(monkeypatch):
    """Memory that is twice as fast in some turns changes no ratio, though one call has fewer turns than the copy."""
    turns = [[2.0], [1.0], [1.0]]
    late = [[3.0], [1.5]]
    fake = {"leaky relu": turns, "blur 4x4": late, "copy, streaming": turns, "copy, cached": [[5.0]] * 3}
    monkeypatch.setattr(scaling, "in_turns", lambda runs, rounds: fake | {"fused bias + leaky relu": turns})
    size = scaling.measure_size(1000, 3)
    assert size["copy_seconds"] == 1.0
    assert size["seconds"]["blur 4x4"] == 2.25
    assert size["ratios"] == {"leaky relu": 1.0, "fused bias + leaky relu": 1.0, "blur 4x4": 1.5}


def test_what_the_others_did_to_the_caches_is_not_timed(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(measure, "time", clock)
    last = []

    def call(name: str):
        def run() -> None:
            clock.now += 1e-4 if last == [name] else 1e-3
            last[:] = [name]

        return run

    best = measure.fastest({"one": call("one"), "other": call("other")}, rounds=3)
    assert best == pytest.approx({"one": 1e-4, "other": 1e-4})


def timing(name: str, ratio: float, allocating: float, **options) -> measure.Timing:
    return measure.Timing(name, 1.0, ratio, allocating, options.pop("peers", {}), **options)


def test_a_gradient_is_judged_by_its_forward_in_the_same_rounds(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(measure, "time", clock)
    monkeypatch.setattr(measure, "copies_of", lambda traffic: {"copy, streaming": clock.call(0.5)[0]})
    calls = [clock.call(seconds)[0] for seconds in (1.5, 1.75, 1.25, 1.5)]
    case = measure.Case("blur: input gradient", 1, calls[0], calls[1], of_forward=(1.2, calls[2], calls[3]))
    gradient = measure.measure(case, rounds=1)
    assert gradient.limits == pytest.approx((1.2 * 1.25 / 0.5, 1.2 * 1.5 / 0.5))
    assert (gradient.ratio, gradient.allocating_ratio) == (3.0, 3.5)
    assert not gradient.missed
    assert gradient.at_best == (3.0, 3.5)
    forward = measure.measure(measure.Case("blur", 1, calls[2], calls[3], goal=2.75), rounds=1)
    assert forward.limits == (2.75, 2.75)
    assert forward.missed
    assert not timing("no goal", 99, 99).missed


def example_results() -> dict:
    """A run that has something of everything, met and missed."""
    fused = {"firelu.torch": 1.0, "firelu": 1.0, "torch eager": 25.0, "torch.compile": 4.0}
    blur = {"firelu.torch": 1.0, "firelu": 0.5, "upfirdn2d_native": 60.0, "channels_last conv": 15.0}
    sizes = [(10_000, 9.0), (10**6, 1.0), (10**7, 1.2), (10**8, 2.0)]
    compared = {peers.OPENCV: 6.9, "scipy upfirdn": 50.0}
    run = command.Run(command.parser().parse_args([]))
    run.timings = [
        timing("blur 4x4", 1.4, 1.7, goal=1.5, limits=(1.5, 1.5), peers=compared, at_best=(1.3, 1.6)),
        timing("blur 4x4: input gradient", 1.6, 1.6, of_forward=1.2, limits=(1.68, 2.04), at_best=(1.5, 1.5)),
    ]
    left_out = {"torch.compile": "no compiler"}
    run.torch = {
        "new": [
            {"name": "fused forward", "copy_seconds": 0.9, "seconds": fused, "left_out": {}},
            {"name": "blur 4x4", "copy_seconds": 0.9, "seconds": blur, "left_out": left_out},
        ],
        "reused": [{"name": "fused forward", "copy_seconds": 0.9, "seconds": fused, "left_out": {}}],
    }
    run.small_calls = {"upfirdn2d, 1x3x8x8": 3e-6, "fused_leaky_relu, 1x3x8x8": 1e-6, "leaky_relu, 8 elements": 1e-6}
    run.scaling = [
        {"elements": count, "copy_seconds": 1.0, "seconds": ratios, "ratios": ratios}
        for count, ratios in ((count, {"leaky relu": 1.0, "fused": 1.0, "blur 4x4": ratio}) for count, ratio in sizes)
    ]
    run.memory = [
        {"name": name, "input_bytes": 1 << 28, "output_bytes": 1 << 28, "extra_bytes": extra}
        for name, extra in (("leaky relu", 1 << 20), ("blur 4x4", 9 << 20))
    ]
    run.notes = ["scipy is not installed"]
    return run.results()


def test_goals_are_judged():
    judged = {goal["what"]: goal["met"] for goal in example_results()["goals"]}
    assert judged == {
        "blur 4x4, with out, in copies": True,
        "blur 4x4, new array, in copies": False,
        f"blur 4x4: {peers.OPENCV} / firelu": True,
        "blur 4x4: input gradient, with out, in copies": True,
        "blur 4x4: input gradient, new array, in copies": True,
        "fused forward: torch eager, new memory / firelu.torch": True,
        "fused forward: torch.compile, new memory / firelu.torch": False,
        "fused forward: torch eager, reused memory / firelu.torch": True,
        "blur 4x4: upfirdn2d_native, new memory / firelu": True,
        "blur 4x4: upfirdn2d_native, new memory / firelu.torch": False,
        "blur 4x4: channels_last conv, new memory / firelu.torch": True,
        "upfirdn2d, 1x3x8x8, microseconds": False,
        "fused_leaky_relu, 1x3x8x8, microseconds": True,
        "leaky relu: largest step of its ratio to the copy from 10^6 elements on": True,
        "fused: largest step of its ratio to the copy from 10^6 elements on": True,
        "blur 4x4: largest step of its ratio to the copy from 10^6 elements on": False,
        "leaky relu: MiB beyond input and output": True,
        "blur 4x4: MiB beyond input and output": False,
    }


def test_goals_name_what_is_measured(monkeypatch):
    """A goal whose case or call has another name would never be judged."""
    module = torch_cases()
    for timed in (command, module):
        monkeypatch.setattr(timed, "fastest", lambda runs, **_: {name: run() is None for name, run in runs.items()})
    for case, kind, other, ours in goals.TIMES_FASTER:
        assert case in module.all_cases()
        assert kind in ("new", "reused")
        others = (module.EAGER, module.COMPILED, module.FORMULA, module.GROUPED, module.CHANNELS_LAST)
        assert other in others
        assert ours in (module.ARRAYS, module.BRIDGE)
    assert set(goals.SMALL_CALLS) <= set(command.small_calls()) | set(module.small_calls())


def test_the_page_shows_every_part_and_marks_what_is_missed():
    writer = runpy.run_path(str(ROOT / "docs" / "write_performance.py"))
    text = writer["page"](json.loads(json.dumps(example_results())))
    assert "12 of 18 targets were met" in text
    assert text.index("## Compared with other libraries") < text.index("## Performance targets and results")
    assert "than torch | than scipy" in text.partition("## Measure your machine")[0]
    for line in (
        "| blur 4x4 | 1000.00 ms | 1400.00 ms | 1.40 | **1.70** | 1.30, 1.60 | 1.50 |",
        "| blur 4x4: input gradient | 1000.00 ms | 1600.00 ms | 1.60 | 1.60 | 1.50, 1.50 | 1.2 × forward |",
        f"| blur 4x4 | {peers.OPENCV} | given | 6900.0 ms | 4.1 (≥ 4) |  |",
        "| blur 4x4 | upfirdn2d_native | new | 60000.0 ms | 120.0 (≥ 100) | **60.0** (≥ 80) |",
        "| blur 4x4 | torch.compile | new | did not run |  |  |",
        "| fused forward | torch eager | reused | 25000.0 ms | 25.0 | 25.0 (≥ 3) |",
        "| blur 4x4 | 256.0 MiB | 256.0 MiB | **9.00 MiB** |",
        "| upfirdn2d, 1x3x8x8 | **3.00 µs** | 2 µs |",
        "| blur 4x4: largest step of its ratio to the copy from 10^6 elements on | 1.67 | ≤ 1.50 |",
        "Note: scipy is not installed.",
    ):
        assert line in text
    assert firelu.get_cpu_level() in text


def test_sizes_grow_by_half_decades():
    for elements in scaling.SIZES:
        assert np.prod(scaling.shape_of(elements)) == pytest.approx(elements, rel=0.03)
        assert scaling.shape_of(elements)[3] % 16 == 0


def test_one_run_leaves_figures_and_plots(monkeypatch, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    lowest = firelu.cpu_levels()[0]
    before = firelu.get_cpu_level()
    small = dict(cases._filter("tiny", (1, 2, 32, 32), 1.5, pad=(2, 1), compare=True))
    monkeypatch.setattr(command, "all_cases", lambda: small)
    monkeypatch.setattr(scaling, "SIZES", (10_000, 31_623, 10**6, 3_162_278))
    arguments = ["--only", "cases", "scaling", "--level", lowest, "--json", "a.json", "--plot", "a.png"]
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 0
    assert firelu.get_cpu_level() == before
    printed = capsys.readouterr().out
    assert f"level {lowest}," in printed
    assert "copy, ms" in printed
    assert " goals met" not in printed
    results = json.loads(Path("a.json").read_text())
    assert results["machine"]["level"] == lowest
    assert [case["name"] for case in results["cases"]] == list(small)
    assert all(case["limits"] for case in results["cases"])
    assert [round(size["elements"], -4) for size in results["scaling"]] == [10_000, 30_000, 1_000_000, 3_160_000]
    assert Path("a.png").read_bytes().startswith(b"\x89PNG")
    assert Path("a-scaling.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        ([], ["cases", "torch", "small", "scaling", "memory"]),
        (["--quick"], ["cases", "torch"]),
        (["--scaling"], ["scaling", "memory"]),
        (["--only", "memory", "cases", "--quick"], ["cases", "memory"]),
        (["--no-peers"], ["cases", "small", "scaling", "memory"]),
    ],
)
def test_parts_are_chosen(arguments, parts):
    assert command.chosen_parts(command.parser().parse_args(arguments)) == parts


def test_goals_are_shown_on_demand(monkeypatch, capsys):
    small = dict(cases._filter("tiny", (1, 2, 32, 32), 1e-9, pad=(2, 1)))
    monkeypatch.setattr(command, "all_cases", lambda: small)
    assert main(["--only", "cases", "--quick", "--goals"]) == 0
    printed = capsys.readouterr().out
    assert " goals met, missed:\n  tiny, with out, in copies: " in printed
    assert ", target at most 0.00" in printed


def test_a_quick_run_times_what_is_compared():
    def wanted(*arguments):
        run = command.Run(command.parser().parse_args(arguments))
        return [name for name in cases.all_cases() if run.wants(name)]

    assert wanted("--quick") == list(COMPARED)
    assert len(wanted("--quick", "--only", "cases")) == len(wanted()) > 50
    assert wanted("--quick", "--filter", "fused backward") == ["fused backward with bias"]


def test_the_summary_takes_the_fastest_of_each_library_and_the_mean_of_the_cases():
    compared = [
        {"name": "blur 4x4", "allocating_seconds": 2.0, "peers_seconds": {"scipy a": 100.0, "scipy b": 80.0}},
        {"name": "up 2", "allocating_seconds": 1.0, "peers_seconds": {"scipy a": 90.0, peers.OPENCV: 1.0}},
        {"name": "not compared", "allocating_seconds": 1.0, "peers_seconds": {"scipy a": 1e9}},
    ]
    torch = [
        {"name": "up 2", "seconds": {"firelu.torch": 2.0, "firelu": 1.0, "conv": 9.0, "slow": 99.0, "torch.compile": 1}}
    ]
    assert summary(compared, {"new": torch, "reused": []}) == (
        "On this machine firelu is 4.5 times faster than torch and 60 times faster (40.0 to 90.0) than scipy."
    )
    assert summary(compared, {}) == "On this machine firelu is 60 times faster (40.0 to 90.0) than scipy."
    slower = [{"name": "up 2", "allocating_seconds": 2.0, "peers_seconds": {"scipy": 1.0}}]
    assert summary(slower, {}) == "On this machine firelu is 2.0 times slower than scipy."
    assert summary([], {}) is None


def test_a_filter_that_fits_nothing_is_an_error(capsys):
    assert main(["--filter", "no such case"]) == 2
    assert "no case has 'no such case'" in capsys.readouterr().err


def test_what_is_not_installed_is_said(monkeypatch, capsys):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "torch" else find(name))
    run = command.Run(command.parser().parse_args([]))
    run.run_torch()
    assert run.torch == {}
    assert run.notes == ["torch is not installed: its tables are left out"]


def test_a_process_that_fails_fails_the_run(monkeypatch, capsys):
    with pytest.raises(worker.WorkerError, match=r"no such job: KeyError"):
        list(worker.results("no such job"))
    run = command.Run(command.parser().parse_args([]))
    run.collect(lambda result: None, "no such job")
    assert run.failed
    assert "KeyError" in run.notes[0]


@pytest.mark.skipif(not memory.can_be_measured(), reason="the system does not tell a process its peak of memory")
@pytest.mark.parametrize("name", memory.calls())
def test_memory_stays_at_input_and_output(name):
    (result,) = worker.results("memory", name=name, shrink=8)
    assert result["input_bytes"] >= 8 << 20
    assert result["extra_bytes"] <= memory.ALLOWED


@pytest.mark.skipif(sys.platform != "linux", reason="malloc has such a switch only in glibc")
def test_malloc_can_be_made_to_reuse_memory():
    """Pages of memory that was freed need no fault again."""
    script = """
import resource, firelu.bench.measure as measure
assert measure.make_malloc_reuse_memory()
for _ in range(2):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    b"x" * (64 << 20)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 100


@pytest.mark.full
@pytest.mark.timeout(1800)
def test_torch_is_timed_with_both_kinds_of_memory(tmp_path):
    pytest.importorskip("torch")
    path = tmp_path / "results.json"
    assert main(["--only", "torch", "--quick", "--filter", "fused forward", "--json", str(path)]) == 0
    found = json.loads(path.read_text())["torch"]
    assert list(found) == ["new", "reused"]
    for kind in found.values():
        assert [case["name"] for case in kind] == ["fused forward", "fused forward + backward"]
        assert {"firelu", "firelu.torch", "torch eager"} <= set(kind[0]["seconds"])
