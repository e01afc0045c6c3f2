"""Settings that every test shares."""

from __future__ import annotations

import os

import firelu
import hypothesis
import pytest

# The quick run tries the same cases every time; the full run searches.
hypothesis.settings.register_profile("quick", max_examples=60, deadline=None, derandomize=True)
hypothesis.settings.register_profile("full", max_examples=2000, deadline=None)
hypothesis.settings.load_profile(os.environ.get("FIRELU_HYPOTHESIS_PROFILE", "quick"))


@pytest.fixture(params=firelu.cpu_levels())
def cpu_level(request):
    """Run the test once for every instruction-set level of this processor."""
    before = firelu.get_cpu_level()
    firelu.set_cpu_level(request.param)
    yield request.param
    firelu.set_cpu_level(before)


@pytest.fixture
def num_threads():
    """Give a setter for the number of threads; the old number comes back afterwards."""
    before = firelu.get_num_threads()
    yield firelu.set_num_threads
    firelu.set_num_threads(before)
