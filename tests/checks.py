"""Checks that every operator shares: it equals its reference, and bad calls change nothing."""

from __future__ import annotations

import numpy as np

# Half types are computed in float32 and rounded once; the reference is rounded from float64.
ULPS = {"float16": 2.0**-11, "bfloat16": 2.0**-8, "float32": 2.0**-23, "float64": 2.0**-51}


def widen(array: np.ndarray) -> np.ndarray:
    """The same values in float64."""
    return np.asarray(array).astype(np.float64)


def assert_rounds_to(result: np.ndarray, expected: np.ndarray) -> None:
    """The result is the float64 value rounded to its dtype, but for one unit in the last place."""
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        rounded = widen(expected.astype(result.dtype))
    got = widen(result)
    assert got.shape == rounded.shape
    np.testing.assert_array_equal(np.isnan(got), np.isnan(rounded))
    finite = np.isfinite(rounded) & np.isfinite(got)
    np.testing.assert_array_equal(got[~finite & ~np.isnan(got)], rounded[~finite & ~np.isnan(got)])
    smallest = {"float16": 2.0**-24, "bfloat16": 2.0**-133, "float32": 2.0**-149, "float64": 2.0**-1074}
    allowed = ULPS[result.dtype.name] * np.abs(rounded[finite]) * 2 + smallest[result.dtype.name]
    assert (np.abs(got[finite] - rounded[finite]) <= allowed).all()


def bits(array: np.ndarray) -> np.ndarray:
    """The array's bits, so that NaN equals itself and -0 differs from 0."""
    array = np.ascontiguousarray(array)
    return array.view(f"u{array.dtype.itemsize}")


def assert_same_bits(first: np.ndarray, second: np.ndarray) -> None:
    """Every bit is the same."""
    assert first.dtype == second.dtype
    np.testing.assert_array_equal(bits(first), bits(second))
