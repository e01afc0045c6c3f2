"""Time embeddings and the per-sample mean, in numpy."""

import math

import mpmath
import numpy as np
import pytest
from firelu.diffusion import mean_flat, timestep_embedding

mpmath.mp.dps = 50


def exact_embedding(step, dim, max_period):
    half = dim // 2
    angles = [mpmath.mpf(float(step)) * mpmath.mpf(max_period) ** (-mpmath.mpf(k) / half) for k in range(half)]
    return [*map(mpmath.cos, angles), *map(mpmath.sin, angles), *[mpmath.mpf(0)] * (dim % 2)]


@pytest.mark.parametrize("dim", [1, 2, 3, 7, 64, 321])
@pytest.mark.parametrize("max_period", [10000, 100.0])
# float32: an angle near 999 is known to three roundings of 2^-24, so to 1.8e-4.
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-12), (np.float32, 2e-4)])
def test_embedding_is_its_definition(dim, max_period, dtype, tolerance):
    steps = np.array([0, 0.25, 1, 17.5, 999], dtype=dtype)
    embedding = timestep_embedding(steps, dim, max_period)
    assert embedding.shape == (5, dim)
    assert embedding.dtype == dtype
    for row, step in zip(embedding, steps, strict=True):
        exact = exact_embedding(step, dim, max_period)
        assert max(abs(mpmath.mpf(float(x)) - e) for x, e in zip(row, exact, strict=True)) < tolerance


def test_odd_dimension_ends_in_zero():
    embedding = timestep_embedding(np.array([3.0, 4.0]), 7)
    np.testing.assert_array_equal(embedding[:, -1], [0, 0])
    np.testing.assert_array_equal(embedding[:, :-1], timestep_embedding(np.array([3.0, 4.0]), 6))


def test_integer_steps_give_float32():
    steps = np.array([0, 500, 999])
    embedding = timestep_embedding(steps, 8)
    assert embedding.dtype == np.float32
    np.testing.assert_array_equal(embedding, timestep_embedding(steps.astype(np.float32), 8))
    np.testing.assert_array_equal(embedding, timestep_embedding([0, 500, 999], 8))


def test_half_steps_lose_nothing():
    bfloat16 = pytest.importorskip("ml_dtypes", reason="numpy's bfloat16 comes from ml_dtypes").bfloat16
    for half in (np.float16, bfloat16):
        steps = np.array([1, 250, 996], dtype=half)  # 996 has 8 bits: bfloat16 holds it
        exact = timestep_embedding(np.array([1, 250, 996]), 32)
        np.testing.assert_array_equal(timestep_embedding(steps, 32), exact)
        rounded = timestep_embedding(steps, 32, dtype=half)
        assert rounded.dtype == np.dtype(half)
        np.testing.assert_array_equal(rounded, exact.astype(half))


def test_repeat_only():
    steps = np.array([3, 8])
    repeated = timestep_embedding(steps, 5, repeat_only=True)
    np.testing.assert_array_equal(repeated, [[3] * 5, [8] * 5])
    assert repeated.dtype == steps.dtype
    assert timestep_embedding(steps, 5, repeat_only=True, dtype=np.float16).dtype == np.float16


def test_no_steps():
    assert timestep_embedding(np.empty(0), 6).shape == (0, 6)


@pytest.mark.parametrize(
    ("steps", "dim", "max_period", "error", "message"),
    [
        (3.0, 4, 100, ValueError, r"timesteps must be 1-D, got shape \(\)"),
        ([[1.0]], 4, 100, ValueError, "1-D"),
        ([1.0], 0, 100, ValueError, "dim must be at least 1"),
        ([1.0], 4.0, 100, TypeError, "dim must be an integer"),
        ([1j], 4, 100, TypeError, "timesteps must be integers or floats, got complex128"),
        ([True], 4, 100, TypeError, "got bool"),
        ([1.0], 4, 0, ValueError, "max_period"),
        ([1.0], 4, math.nan, ValueError, "max_period"),
    ],
)
def test_bad_embedding(steps, dim, max_period, error, message):
    with pytest.raises(error, match=message):
        timestep_embedding(steps, dim, max_period)


def test_mean_of_each_sample():
    values = np.arange(96.0).reshape(2, 3, 4, 4)
    np.testing.assert_array_equal(mean_flat(values), [23.5, 71.5])
    np.testing.assert_array_equal(mean_flat(values[:, ::2, ::-1]), values[:, ::2].mean(axis=(1, 2, 3)))
    np.testing.assert_array_equal(mean_flat(np.array([[1, 2], [3, 4]])), [1.5, 3.5])
    np.testing.assert_array_equal(mean_flat([[1.0, 3.0]]), [2.0])


def test_mean_of_one_number_each_is_unchanged():
    values = np.array([3.0, -1.0, 2.0])
    assert mean_flat(values) is values
    scalar = np.array(3.0)
    assert mean_flat(scalar) is scalar


def test_mean_of_half_types_is_rounded_once():
    bfloat16 = pytest.importorskip("ml_dtypes", reason="numpy's bfloat16 comes from ml_dtypes").bfloat16
    for half in (np.float16, bfloat16):
        values = np.full((2, 5000), 3, dtype=half)  # a sum in half precision would stall or overflow
        result = mean_flat(values)
        assert result.dtype == np.dtype(half)
        np.testing.assert_array_equal(result.astype(float), [3, 3])


def test_mean_of_complex_is_refused():
    with pytest.raises(TypeError, match="mean_flat: takes floats or integers, got complex128"):
        mean_flat(np.ones((2, 2), dtype=complex))
