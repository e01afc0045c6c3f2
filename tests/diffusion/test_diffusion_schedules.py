"""The schedules against their definitions, worked here with 50 digits."""

import math

import mpmath
import numpy as np
import pytest
from firelu.diffusion import betas_for_alpha_bar, make_beta_schedule, rescale_zero_terminal_snr
from hypothesis import given
from hypothesis import strategies as st

mpmath.mp.dps = 50
LENGTHS = [1000, 50, 7]
START, END, OFFSET = mpmath.mpf(1e-4), mpmath.mpf(2e-2), mpmath.mpf(8e-3)
CAP = mpmath.mpf(0.999)


def line(start, end, i, n):
    return start + (end - start) * i / (n - 1)


def cosine_alpha_bar(j, n):
    return mpmath.cos(mpmath.pi / 2 * (mpmath.mpf(j) / n + OFFSET) / (1 + OFFSET)) ** 2


def cosine_beta(i, n):
    return min(max(1 - cosine_alpha_bar(i + 1, n) / cosine_alpha_bar(i, n), mpmath.mpf(0)), CAP)


DEFINITIONS = {
    "linear": lambda i, n: line(mpmath.sqrt(START), mpmath.sqrt(END), i, n) ** 2,
    "scaled_linear": lambda i, n: line(mpmath.sqrt(START), mpmath.sqrt(END), i, n) ** 2,
    "sqrt_linear": lambda i, n: line(START, END, i, n),
    "sqrt": lambda i, n: mpmath.sqrt(line(START, END, i, n)),
    "cosine": cosine_beta,
    "squaredcos_cap_v2": cosine_beta,
}


def worst(betas, definition):
    n = len(betas)
    return max(abs(mpmath.mpf(float(betas[i])) - definition(i, n)) for i in range(n))


@pytest.mark.parametrize("n", LENGTHS)
@pytest.mark.parametrize("name", DEFINITIONS)
def test_schedule_is_its_definition(name, n):
    betas = make_beta_schedule(name, n)
    assert betas.dtype == np.float64
    assert betas.shape == (n,)
    assert worst(betas, DEFINITIONS[name]) < 1e-12


@pytest.mark.parametrize("n", LENGTHS)
def test_the_schedules_differ_by_more_than_the_tolerance(n):
    for name in ("linear", "sqrt_linear", "sqrt", "cosine"):
        others = [other for other in ("linear", "sqrt_linear", "sqrt", "cosine") if other != name]
        assert all(worst(make_beta_schedule(name, n), DEFINITIONS[other]) > 1e-4 for other in others)


def test_schedule_arguments_are_used():
    np.testing.assert_allclose(make_beta_schedule("sqrt_linear", 3, 0.1, 0.3), [0.1, 0.2, 0.3], atol=1e-15)
    np.testing.assert_allclose(make_beta_schedule("linear", 3, 0.01, 0.09), [0.01, 0.04, 0.09], atol=1e-15)
    wide = make_beta_schedule("cosine", 4, cosine_s=0.5)
    ratio = math.cos(math.pi / 2 * 0.75 / 1.5) ** 2 / math.cos(math.pi / 2 * 0.5 / 1.5) ** 2
    assert wide[0] == pytest.approx(1 - ratio, abs=1e-14)
    # As in the original, this one has its own fixed offset.
    np.testing.assert_array_equal(
        make_beta_schedule("squaredcos_cap_v2", 4, cosine_s=0.5), make_beta_schedule("squaredcos_cap_v2", 4)
    )


@pytest.mark.parametrize("name", DEFINITIONS)
def test_one_step(name):
    assert make_beta_schedule(name, 1).shape == (1,)


def test_unknown_schedule_lists_the_known_and_the_nearest():
    with pytest.raises(ValueError, match=r"cosin'.*linear.*squaredcos_cap_v2.*did you mean 'cosine'"):
        make_beta_schedule("cosin", 10)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (("linear", 0), ValueError, "n_timestep must be at least 1"),
        (("linear", 2.5), TypeError, "n_timestep must be an integer"),
        (("linear", 5, -0.1), ValueError, "linear_start"),
        (("sqrt", 5, 0.1, 1.5), ValueError, "linear_end"),
        (("sqrt_linear", 5, math.nan), ValueError, "linear_start"),
        (("cosine", 5, 1e-4, 2e-2, -0.5), ValueError, "cosine_s"),
        (("cosine", 5, 1e-4, 2e-2, math.inf), ValueError, "cosine_s"),
    ],
)
def test_bad_schedule_arguments(arguments, error, message):
    with pytest.raises(error, match=message):
        make_beta_schedule(*arguments)


def test_alpha_bar_is_followed_and_capped():
    betas = betas_for_alpha_bar(8, lambda t: math.exp(-3 * t), max_beta=0.999)
    np.testing.assert_allclose(np.cumprod(1 - betas), np.exp(-3 * np.arange(1, 9) / 8), rtol=1e-14)
    np.testing.assert_array_equal(betas_for_alpha_bar(2, lambda t: 1 - t, max_beta=0.25), [0.25, 0.25])


@pytest.mark.parametrize(
    "alpha_bar",
    [lambda t: t, lambda t: 0.5 + t, lambda t: -1.0, lambda t: math.nan, lambda t: 1.0 if t < 0.4 else 0.0],
)
def test_impossible_alpha_bar_is_refused(alpha_bar):
    with pytest.raises(ValueError, match=r"alpha_bar must be positive before time 1 and never rise"):
        betas_for_alpha_bar(4, alpha_bar)


@pytest.mark.parametrize("max_beta", [0.0, 1.5, math.nan])
def test_bad_max_beta(max_beta):
    with pytest.raises(ValueError, match="max_beta"):
        betas_for_alpha_bar(4, lambda t: 1 - t, max_beta)


@pytest.mark.parametrize("name", ["linear", "cosine", "squaredcos_cap_v2", "sqrt_linear", "sqrt"])
def test_rescaling_follows_the_algorithm(name):
    betas = make_beta_schedule(name, 50)
    roots, product = [], mpmath.mpf(1)
    for beta in betas:
        product *= 1 - mpmath.mpf(float(beta))
        roots.append(mpmath.sqrt(product))
    wanted = [(root - roots[-1]) * roots[0] / (roots[0] - roots[-1]) for root in roots]
    rescaled = rescale_zero_terminal_snr(betas)
    assert rescaled.dtype == np.float64
    assert rescaled[-1] == 1.0
    assert rescaled[0] == pytest.approx(betas[0], abs=1e-15)
    got = np.sqrt(np.cumprod(1 - rescaled))
    assert max(abs(mpmath.mpf(float(g)) - w) for g, w in zip(got, wanted, strict=True)) < 1e-12


@given(st.lists(st.floats(0.001, 0.5), min_size=2, max_size=40))
def test_rescaling_keeps_a_schedule_a_schedule(betas):
    rescaled = rescale_zero_terminal_snr(betas)
    assert ((rescaled >= 0) & (rescaled <= 1)).all()
    assert rescaled[-1] == 1.0
    # A schedule that already ends in nothing stays.
    np.testing.assert_allclose(rescale_zero_terminal_snr(rescaled), rescaled, atol=1e-12)


@pytest.mark.parametrize(
    "betas", [[0.1], [0.0, 0.0], [0.1, 1.0, 0.2], [0.1, 1.2], [-0.1, 0.2], [[0.1, 0.2]], [], [0.1, math.nan]]
)
def test_betas_that_cannot_be_rescaled(betas):
    with pytest.raises(ValueError, match="rescale_zero_terminal_snr"):
        rescale_zero_terminal_snr(betas)


def test_rescaling_torch_keeps_dtype_and_kind():
    torch = pytest.importorskip("torch", reason="the torch half of rescale_zero_terminal_snr needs torch")
    betas = make_beta_schedule("linear", 20)
    for dtype in (torch.float64, torch.float32, torch.bfloat16):
        rescaled = rescale_zero_terminal_snr(torch.tensor(betas, dtype=dtype, requires_grad=True))
        assert rescaled.dtype == dtype
        assert rescaled[-1] == 1.0
    exact = rescale_zero_terminal_snr(torch.tensor(betas))
    np.testing.assert_array_equal(exact.numpy(), rescale_zero_terminal_snr(betas))
