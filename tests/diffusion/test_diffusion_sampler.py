"""The DDIM sampler: exact models reach their data, whatever they predict, in numpy and torch."""

import numpy as np
import pytest
from firelu.diffusion import (
    ddim_sample,
    extract_into_tensor,
    make_beta_schedule,
    make_ddim_timesteps,
    noise_like,
    rescale_zero_terminal_snr,
)

SPREAD = 0.5


def schedule(zero_snr=False):
    betas = make_beta_schedule("linear", 1000)
    return np.cumprod(1 - (rescale_zero_terminal_snr(betas) if zero_snr else betas))


def exact(alphacums, prediction):
    """What a perfect model of normal data with a standard deviation of 1/2 says; checks the steps it is given."""

    def model(x, t):
        assert t.shape == (x.shape[0],)
        signal = extract_into_tensor(alphacums, t, x.shape)
        if not isinstance(x, np.ndarray):
            signal = signal.to(x.dtype)
        variance = signal * SPREAD**2 + 1 - signal
        data = signal**0.5 * SPREAD**2 / variance * x
        noise = (1 - signal) ** 0.5 / variance * x
        return {"noise": noise, "x0": data, "v": signal**0.5 * noise - (1 - signal) ** 0.5 * data}[prediction]

    return model


@pytest.mark.parametrize("eta", [0.0, 1.0])
@pytest.mark.parametrize("prediction", ["noise", "v", "x0"])
def test_exact_models_reach_the_data(prediction, eta):
    alphacums = schedule()
    steps = make_ddim_timesteps("trailing", 1000, 1000, verbose=False)  # eta = 1 needs them all
    x = noise_like((20_000, 2), rng=0)
    result = ddim_sample(exact(alphacums, prediction), x, alphacums, steps, eta, prediction=prediction, rng=1)
    # 40 000 draws have a standard error of 0.0018 (deviation) and 0.0025 (mean).
    assert abs(result.std() - SPREAD) < 0.01
    assert abs(result.mean()) < 0.01


def test_a_number_of_steps_is_trailing():
    alphacums = np.cumprod(1 - np.linspace(1e-4, 2e-2, 1000))
    x = np.random.default_rng(0).standard_normal((2, 3))
    visited: list[int] = []

    def model(x, t):
        visited.append(int(t[0]))
        return 0.1 * x

    by_number = ddim_sample(model, x, alphacums, 5)
    assert visited == [999, 799, 599, 399, 199]
    steps = make_ddim_timesteps("trailing", 5, 1000, verbose=False)
    np.testing.assert_array_equal(by_number, ddim_sample(model, x, alphacums, steps))
    with pytest.raises(ValueError, match="make_ddim_timesteps"):
        ddim_sample(model, x, alphacums, 1001)


def test_the_three_predictions_are_the_same_sampler():
    alphacums, steps = schedule(), make_ddim_timesteps("uniform", 10, 1000, verbose=False)
    x = noise_like((8, 3), rng=0)
    results = [
        ddim_sample(exact(alphacums, kind), x, alphacums, steps, prediction=kind) for kind in ("noise", "v", "x0")
    ]
    np.testing.assert_allclose(results[1], results[0], rtol=1e-9)
    np.testing.assert_allclose(results[2], results[0], rtol=1e-9)


def test_a_step_without_signal_wants_another_prediction():
    alphacums, steps = schedule(zero_snr=True), make_ddim_timesteps("trailing", 20, 1000, verbose=False)
    x = noise_like((4, 2), rng=0)
    with pytest.raises(ValueError, match=r"step 999: the model must predict 'v' or 'x0'"):
        ddim_sample(exact(alphacums, "noise"), x, alphacums, steps)
    for kind in ("v", "x0"):
        assert np.isfinite(ddim_sample(exact(alphacums, kind), x, alphacums, steps, prediction=kind)).all()
    # "uniform" never visits the step that was mended.
    assert make_ddim_timesteps("uniform", 20, 1000, verbose=False)[-1] == 951


def test_a_seed_is_repeatable_and_steps_draw_different_noise():
    alphacums, steps = schedule(), make_ddim_timesteps("uniform", 5, 1000, verbose=False)
    x, drawn = np.zeros((4, 2)), []

    def model(x, t):
        drawn.append(x.copy())
        return np.zeros_like(x)

    first = ddim_sample(model, x, alphacums, steps, 1.0, prediction="x0", rng=7)
    again = ddim_sample(model, x, alphacums, steps, 1.0, prediction="x0", rng=7)
    np.testing.assert_array_equal(first, again)
    assert len({tuple(each.ravel()) for each in drawn[1:5]}) == 4


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_type_is_kept(dtype):
    alphacums, steps = schedule(), make_ddim_timesteps("uniform", 5, 1000, verbose=False)
    x = noise_like((4, 2), rng=0, dtype=dtype)
    assert ddim_sample(lambda x, t: x, x, alphacums, steps, 1.0).dtype == dtype


def test_torch_gives_torch():
    torch = pytest.importorskip("torch")
    alphacums, steps = schedule(), make_ddim_timesteps("uniform", 5, 1000, verbose=False)
    x = noise_like((4, 2), rng=0)
    known = ddim_sample(exact(alphacums, "noise"), x, alphacums, steps)
    with torch.no_grad():
        given = torch.from_numpy(alphacums)
        found = ddim_sample(exact(given, "noise"), torch.from_numpy(x), given, torch.from_numpy(steps))
        half = ddim_sample(lambda x, t: x, torch.from_numpy(x).bfloat16(), given, steps, 1.0)
        drawn = [
            ddim_sample(
                lambda x, t: x, torch.from_numpy(x), given, steps, 1.0, generator=torch.Generator().manual_seed(3)
            )
            for _ in range(2)
        ]
    np.testing.assert_allclose(found.numpy(), known, rtol=1e-9)
    assert half.dtype == torch.bfloat16
    assert torch.equal(*drawn)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"prediction": "epsilon"}, "noise, v, x0, got 'epsilon'"),
        ({"x": 1.0}, "batch dimension"),
        ({"eta": 40.0}, "eta = 40.0 puts more noise back"),
        ({"model": lambda x, t: x[:1]}, r"gave shape \(1, 2\), x has \(4, 2\)"),
        ({"ddim_timesteps": [1, 1000]}, "step 1000, outside 0..999"),
    ],
)
def test_what_does_not_fit_is_named(changed, message):
    given = {"model": lambda x, t: x, "x": np.ones((4, 2)), "alphacums": schedule(), "ddim_timesteps": [1, 500]}
    with pytest.raises(ValueError, match=message):
        ddim_sample(**(given | changed))
