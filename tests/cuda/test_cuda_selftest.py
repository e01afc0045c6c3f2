"""The self-test that a person with a GPU runs: it needs numpy alone and launches every kernel that ships."""

import json
import os
import pathlib

import firelu
import pytest

ROOT = pathlib.Path(__file__).parents[2]


@pytest.mark.skipif(os.environ.get("FIRELU_TEST_GPU") == "1", reason="a GPU does not count")
def test_it_launches_every_kernel_that_ships(emulator, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "ml_dtypes", None)  # as on a plain install
    emulator.library.firelu_emulator_clear_counters()
    result = firelu.cuda_selftest()
    assert set(result["operators"]) == {n for n in firelu.operators() if "cuda" in firelu.schema(n).devices}
    launched = {launch["kernel"] for launch in json.loads(emulator.counters())}
    manifest = json.loads((ROOT / "cuda/ptx/manifest.json").read_text(encoding="utf-8"))
    ships = {kernel for module in manifest["modules"].values() for kernel in module["kernels"]}
    assert sorted(ships - launched) == []
