"""The examples run, and do what they say."""

from __future__ import annotations

import runpy
from pathlib import Path

EXAMPLES = Path(__file__).parent.parent / "examples"


def test_a_filter_and_a_bias_are_recovered():
    learn = runpy.run_path(str(EXAMPLES / "learn_filter.py"))["learn"]
    kernel_error, bias_error, losses = learn()
    assert kernel_error < 1e-6
    assert bias_error < 1e-6
    assert losses[-1] < 1e-12 < losses[0]
