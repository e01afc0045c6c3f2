"""The pool of output memory: recycled, limited, emptied."""

from __future__ import annotations

import gc

import firelu
import numpy as np
import pytest

X = np.zeros(5 << 20, np.float32)


@pytest.fixture(autouse=True)
def _restore_limit():
    limit = firelu.memory_stats()["limit"]
    yield
    firelu.set_cache_limit(limit)


def address(array):
    return array.__array_interface__["data"][0]


def test_freed_memory_serves_the_next_call():
    firelu.empty_cache()
    before = firelu.memory_stats()
    y = firelu.leaky_relu(X)
    first = address(y)
    assert firelu.memory_stats()["in_use"] - before["in_use"] >= y.nbytes
    del y
    assert firelu.memory_stats()["cached"] >= X.nbytes
    assert address(firelu.leaky_relu(X)) == first
    assert firelu.memory_stats()["recycled"] > before["recycled"]


def test_views_keep_the_memory():
    y = firelu.leaky_relu(X - 1, 0.5)
    view = y[:10]
    del y
    gc.collect()
    for _ in range(3):
        firelu.leaky_relu(X)
    np.testing.assert_array_equal(view, np.full(10, -0.5, np.float32))


def test_the_limit_is_kept_and_the_cache_empties():
    firelu.set_cache_limit(0)
    assert firelu.memory_stats()["cached"] == 0
    firelu.leaky_relu(X)
    assert firelu.memory_stats()["cached"] == 0
    firelu.set_cache_limit(1 << 30)
    firelu.leaky_relu(X)
    assert firelu.memory_stats()["cached"] >= X.nbytes
    firelu.empty_cache()
    assert firelu.memory_stats()["cached"] == 0


def test_repeated_calls_do_not_grow():
    firelu.empty_cache()
    for _ in range(50):
        firelu.leaky_relu(X)
    stats = firelu.memory_stats()
    assert stats["cached"] <= 3 * X.nbytes
    assert stats["in_use"] == 0
