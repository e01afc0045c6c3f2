"""A slice of each neighbourhood of the soak, the same cases in every run; `make soak` is what looks for new ones."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "soak" / "python"))
from neighbourhoods import NEIGHBOURHOODS

ROOT = Path(__file__).parents[2]
SOAK = ROOT / "tests" / "soak" / "python"
# How many cases take about a second; forks and those of torch are the slow ones.
CASES = {"forks": 5, "forward_mode": 40, "stand_ins": 20}
TORCH = {"forward_mode", "devices", "meta_modules", "stand_ins"}


@pytest.mark.parametrize("name", NEIGHBOURHOODS)
def test_a_slice_of_each_neighbourhood(name):
    module = NEIGHBOURHOODS[name]
    if module in TORCH:
        pytest.importorskip("torch")
    if module == "forks" and sys.platform != "linux":
        pytest.skip("forks")
    if module == "emulated_devices" and not (ROOT / "target" / "emulator" / "libcuda.so").exists():
        pytest.skip("the emulated driver is not built: make emulator")
    # A process of its own: a driver once found stays found, and children are forked from a small parent.
    command = [sys.executable, "-W", "ignore", str(SOAK / "soak.py"), "--batch", name, "7", str(CASES.get(module, 60))]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr[-2000:]
    report = json.loads(result.stdout.splitlines()[-1])
    assert report["failures"] == []
    assert report["cases"] == CASES.get(module, 60)
    assert (report["refused"] > 0) == (module in ("devices", "emulated_devices", "stand_ins"))
