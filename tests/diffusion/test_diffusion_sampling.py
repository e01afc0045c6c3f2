"""DDIM's steps and coefficients, and the noise."""

import math

import mpmath
import numpy as np
import pytest
from firelu.diffusion import (
    StepRangeError,
    extract_into_tensor,
    make_beta_schedule,
    make_ddim_sampling_parameters,
    make_ddim_timesteps,
    noise_like,
)

mpmath.mp.dps = 50
METHODS = ["uniform", "quad"]


def original(method, wanted, total):
    """The well-known formula, with its flaws."""
    if method == "uniform":
        return np.asarray(list(range(0, total, total // wanted))) + 1
    return (np.linspace(0, np.sqrt(total * 0.8), wanted) ** 2).astype(int) + 1


def is_valid(steps, wanted, total):
    return len(steps) == wanted and (np.diff(steps) > 0).all() and steps[0] >= 0 and steps[-1] < total


@pytest.mark.parametrize("total", [1000, 1024, 999, 997, 100, 50, 7, 2, 1])
@pytest.mark.parametrize("method", METHODS)
def test_every_count_gives_that_many_rising_steps_in_range(method, total):
    agreed = 0
    for wanted in range(1, min(total, 1000) + 1):
        steps = make_ddim_timesteps(method, wanted, total, verbose=False)
        assert steps.dtype == np.int64
        assert is_valid(steps, wanted, total), (wanted, steps)
        known = original(method, wanted, total)
        if is_valid(known, wanted, total):
            agreed += 1
            np.testing.assert_array_equal(steps, known)
    assert agreed > 0 or total == 1


def test_the_original_fails_where_users_say_so():
    # The property above is worth something only if the original does not have it.
    for wanted in (3, 9, 27, 36, 37, 101, 111):
        assert not is_valid(original("uniform", wanted, 1000), wanted, 1000)
    assert is_valid(original("quad", 29, 1000), 29, 1000)
    assert not any(is_valid(original("quad", wanted, 1000), wanted, 1000) for wanted in range(30, 1001))


@pytest.mark.parametrize("total", [1000, 999, 50, 7, 1])
def test_trailing_steps_are_even_and_end_with_the_last(total):
    for wanted in range(1, total + 1):
        steps = make_ddim_timesteps("trailing", wanted, total, verbose=False)
        assert is_valid(steps, wanted, total), (wanted, steps)
        assert steps[-1] == total - 1
        assert np.ptp(np.diff(steps, prepend=-1)) <= 1


def test_trailing_steps_are_those_of_other_libraries():
    # diffusers and the paper that named them: round(arange(T, 0, -T / n)) - 1, from the last on.
    for wanted in (1, 4, 10, 20, 25, 27, 50, 333):
        known = np.round(np.arange(1000, 0, -1000 / wanted))[:wanted].astype(np.int64) - 1
        steps = make_ddim_timesteps("trailing", wanted, 1000, verbose=False)
        np.testing.assert_array_equal(steps, known[::-1])


def test_ten_of_a_hundred():
    steps = make_ddim_timesteps("uniform", 10, 100, verbose=False)
    np.testing.assert_array_equal(steps, np.arange(1, 100, 10))


@pytest.mark.parametrize("total", [1000, 50, 7, 1])
@pytest.mark.parametrize("method", METHODS)
def test_legacy_is_the_original_to_the_letter(method, total):
    for wanted in range(1, total + 1):
        steps = make_ddim_timesteps(method, wanted, total, verbose=False, legacy=True)
        np.testing.assert_array_equal(steps, original(method, wanted, total))
    beyond = total + 5
    if method == "quad":
        steps = make_ddim_timesteps(method, beyond, total, verbose=False, legacy=True)
        np.testing.assert_array_equal(steps, original(method, beyond, total))
    else:
        with pytest.raises(ValueError, match="at most"):
            make_ddim_timesteps(method, beyond, total, verbose=False, legacy=True)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("wanted", [0, -3, 101])
def test_a_count_out_of_range(method, wanted):
    with pytest.raises(ValueError, match=f"num_ddim_timesteps must be .*got {wanted}"):
        make_ddim_timesteps(method, wanted, 100, verbose=False)


def test_other_bad_arguments():
    with pytest.raises(NotImplementedError, match=r"uniform, quad, trailing; did you mean 'trailing'\?$"):
        make_ddim_timesteps("trailling", 10, 1000)
    with pytest.raises(NotImplementedError, match=r"'cubic'.*uniform, quad, trailing"):
        make_ddim_timesteps("cubic", 10, 100)
    with pytest.raises(TypeError, match="num_ddim_timesteps must be an integer"):
        make_ddim_timesteps("uniform", 10.5, 100)
    with pytest.raises(ValueError, match="num_ddpm_timesteps"):
        make_ddim_timesteps("uniform", 1, 0)


def test_only_verbose_prints(capsys):
    steps = make_ddim_timesteps("uniform", 2, 10, verbose=False)
    make_ddim_sampling_parameters(np.linspace(0.9, 0.1, 10), steps, 0.0, verbose=False)
    assert capsys.readouterr().out == ""
    make_ddim_timesteps("uniform", 2, 10)
    assert capsys.readouterr().out == "Selected timesteps for ddim sampler: [1 6]\n"
    make_ddim_sampling_parameters(np.linspace(0.9, 0.1, 10), steps, 0.5)
    printed = capsys.readouterr().out
    assert "a_t" in printed
    assert "eta = 0.5" in printed


@pytest.mark.parametrize("eta", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("name", ["linear", "cosine"])
def test_parameters_are_their_definition(name, eta):
    alphacums = np.cumprod(1 - make_beta_schedule(name, 1000))
    steps = make_ddim_timesteps("uniform", 37, 1000, verbose=False)
    sigmas, alphas, alphas_prev = make_ddim_sampling_parameters(alphacums, steps, eta, verbose=False)
    assert sigmas.dtype == alphas.dtype == alphas_prev.dtype == np.float64
    np.testing.assert_array_equal(alphas, alphacums[steps])
    np.testing.assert_array_equal(alphas_prev, [alphacums[0], *alphacums[steps[:-1]]])
    for sigma, now, before in zip(sigmas, alphas, alphas_prev, strict=True):
        now, before = mpmath.mpf(float(now)), mpmath.mpf(float(before))
        exact = mpmath.mpf(eta) * mpmath.sqrt((1 - before) / (1 - now) * (1 - now / before))
        assert abs(mpmath.mpf(float(sigma)) - exact) < 1e-12
    assert (sigmas > 0).all() == (eta > 0)


def test_parameters_at_the_ends_of_the_signal():
    # All signal, then none: nothing is divided by zero.
    sigmas, _, _ = make_ddim_sampling_parameters([1.0, 1.0, 0.5, 0.0], [0, 1, 2, 3], 1.0, verbose=False)
    np.testing.assert_array_equal(sigmas, [0.0, 0.0, 0.0, math.sqrt(0.5)])


def test_parameters_in_another_dtype():
    given = np.array([0.9, 0.8, 0.5], dtype=np.float32)
    assert make_ddim_sampling_parameters(given, [1, 2], 1.0, verbose=False)[0].dtype == np.float64
    results = make_ddim_sampling_parameters(given, [1, 2], 1.0, verbose=False, dtype=np.float32)
    assert {result.dtype for result in results} == {np.dtype(np.float32)}


@pytest.mark.parametrize("step", [-1, 10, 1000])
def test_a_step_out_of_range_is_named(step):
    for error in (ValueError, IndexError, StepRangeError):
        with pytest.raises(error, match=f"step {step}, outside 0..9"):
            make_ddim_sampling_parameters(np.linspace(0.9, 0.1, 10), [1, step], 0.0, verbose=False)


@pytest.mark.parametrize(
    ("alphacums", "steps", "eta", "error", "message"),
    [
        ([0.9, 1.1], [0], 0.0, ValueError, "alphacums must be in"),
        ([0.9, math.nan], [0], 0.0, ValueError, "alphacums must be finite"),
        ([], [0], 0.0, ValueError, "alphacums must be 1-D"),
        ([0.9, 0.8], [], 0.0, ValueError, "ddim_timesteps must be 1-D"),
        ([0.9, 0.8], [0.5], 0.0, TypeError, "ddim_timesteps must be integers"),
        ([0.9, 0.8, 0.7], [2, 1], 0.0, ValueError, "signal grows at step 1"),
        ([0.9, 0.8], [1], -1.0, ValueError, "eta"),
        ([0.9, 0.8], [1], math.nan, ValueError, "eta"),
    ],
)
def test_bad_parameters(alphacums, steps, eta, error, message):
    with pytest.raises(error, match=message):
        make_ddim_sampling_parameters(alphacums, steps, eta, verbose=False)


def test_extract_numpy():
    a = np.linspace(0, 1, 11)
    out = extract_into_tensor(a, np.array([3, 10], dtype=np.uint8), (2, 3, 8, 8))
    np.testing.assert_array_equal(out, a[[3, 10]].reshape(2, 1, 1, 1))
    assert extract_into_tensor(a, [3], (5, 4)).shape == (1, 1)
    rows = extract_into_tensor(np.arange(6.0).reshape(2, 3), np.array([[2], [0]]), (2, 7))
    np.testing.assert_array_equal(rows, [[2.0], [3.0]])


@pytest.mark.parametrize(
    ("a", "t", "shape", "error", "message"),
    [
        (np.ones(5), [5, 0], (2, 3), StepRangeError, "step 5, outside 0..4"),
        (np.ones(5), [-1, 0], (2, 3), StepRangeError, "step -1"),
        (np.ones(5), [0.5], (1, 3), TypeError, "integers"),
        (np.ones(5), 3, (1, 3), ValueError, "takes a of shape"),
        (np.ones((2, 5)), [0, 1], (2, 3), ValueError, "takes a of shape"),
        (np.ones(5), [0, 1, 2], (2, 3), ValueError, "batch size 3"),
        (np.ones(5), [0], (), ValueError, "x_shape"),
    ],
)
def test_bad_extraction(a, t, shape, error, message):
    with pytest.raises(error, match=message):
        extract_into_tensor(a, t, shape)


def test_noise_in_numpy():
    noise = noise_like((3, 4, 5), rng=np.random.default_rng(7))
    np.testing.assert_array_equal(noise, np.random.default_rng(7).standard_normal((3, 4, 5)))
    np.testing.assert_array_equal(noise, noise_like((3, 4, 5), rng=7))
    assert not np.array_equal(noise_like((50,)), noise_like((50,)))
    assert noise_like((2, 0)).shape == (2, 0)
    assert noise_like(()).shape == ()
    assert noise_like(5).shape == (5,)


def test_noise_is_standard_normal():
    noise = noise_like((200_000,), rng=3)
    assert abs(noise.mean()) < 5 / math.sqrt(noise.size)
    assert abs(noise.var() - 1) < 5 * math.sqrt(2 / noise.size)


def test_repeated_noise_in_numpy():
    noise = noise_like((4, 3, 2), repeat=True, rng=7)
    np.testing.assert_array_equal(noise, np.stack([noise_like((1, 3, 2), rng=7)[0]] * 4))
    noise[0] = 0  # every sample has memory of its own
    assert noise[1].any()
    assert noise_like((0, 3), repeat=True).shape == (0, 3)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "bfloat16"])
def test_noise_dtypes(dtype):
    if dtype == "bfloat16":
        dtype = pytest.importorskip("ml_dtypes", reason="numpy's bfloat16 comes from ml_dtypes").bfloat16
    noise = noise_like((1000,), rng=1, dtype=dtype)
    assert noise.dtype == np.dtype(dtype)
    drawn = np.random.default_rng(1).standard_normal(1000, dtype="float64" if dtype == "float64" else "float32")
    np.testing.assert_array_equal(noise, drawn.astype(dtype))


def test_bad_noise():
    with pytest.raises(ValueError, match="repeat needs a batch dimension"):
        noise_like((), repeat=True)
    with pytest.raises(ValueError, match="shape must be at least 0"):
        noise_like((2, -1))
    with pytest.raises(TypeError, match="dtype must be a float"):
        noise_like((2,), dtype=np.int32)
    with pytest.raises(TypeError, match="shape"):
        noise_like((2.5,))
