"""The worked DDIM example: its points have the distribution they should."""

import importlib.util
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest

PATH = Path(__file__).parents[2] / "examples" / "ddim_toy_density.py"
COUNT = 8_000
# With 11 degrees of freedom, chi squared exceeds this once in a thousand seeds.
CHI_SQUARED = 31.26


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("ddim_toy_density", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def exact(example):
    """A large sample straight from the density."""
    rng = np.random.default_rng(1)
    chosen = rng.choice(len(example.WEIGHTS), size=1_000_000, p=example.WEIGHTS)
    return example.MEANS[chosen] + example.SPREAD * rng.standard_normal((len(chosen), 2))


def cells_and_distances(example, points):
    """How many points are nearest to each centre, and their root mean square distance from it."""
    squares = np.stack([((points - mean) ** 2).sum(axis=1) for mean in example.MEANS], axis=1)
    counts = np.bincount(squares.argmin(axis=1), minlength=len(example.MEANS))
    return counts, np.sqrt(squares.min(axis=1).mean())


def chi_squared(example, points, exact):
    counts, _ = cells_and_distances(example, points)
    expected = cells_and_distances(example, exact)[0] / len(exact) * len(points)
    return ((counts - expected) ** 2 / expected).sum()


def test_the_score_is_the_gradient_of_the_log_density(example):
    rng = np.random.default_rng(2)
    x, signal, tiny = rng.normal(size=(50, 2)), rng.uniform(0.1, 1, (50, 1)), 1e-6
    _, score = example.diffused_mixture(x, signal)
    for axis in range(2):
        above, below = x.copy(), x.copy()
        above[:, axis] += tiny
        below[:, axis] -= tiny
        logs = [np.log(example.diffused_mixture(y, signal)[0][:, 0]) for y in (above, below)]
        np.testing.assert_allclose((logs[0] - logs[1]) / (2 * tiny), score[:, axis], atol=1e-6)


@pytest.mark.parametrize(("steps", "eta"), [(200, 0.0), (333, 0.0), (1000, 1.0)])
def test_the_points_follow_the_density(example, exact, steps, eta):
    points = example.sample(COUNT, steps, eta, rng=0)
    assert chi_squared(example, points, exact) < CHI_SQUARED
    spread = cells_and_distances(example, points)[1] / cells_and_distances(example, exact)[1]
    # Five standard errors are 2.8 %, and the solver itself is off by up to 1.2 % with so many steps.
    assert abs(spread - 1) < 0.04


def test_the_check_notices_a_wrong_sampler(example, exact):
    def weak(x, step, alphacums):
        return 0.95 * example.exact_noise(x, step, alphacums)

    wrong = example.sample(COUNT, 200, model=weak, rng=0)
    assert chi_squared(example, wrong, exact) > CHI_SQUARED
    coarse = example.sample(COUNT, 5, rng=0)
    assert chi_squared(example, coarse, exact) > CHI_SQUARED


def test_ddim_is_deterministic_given_its_noise(example):
    np.testing.assert_array_equal(example.sample(50, 20, rng=3), example.sample(50, 20, rng=3))
    assert not np.array_equal(example.sample(50, 20, rng=3), example.sample(50, 20, rng=4))


@pytest.mark.parametrize("schedule", ["linear", "cosine", "squaredcos_cap_v2", "sqrt_linear", "sqrt"])
@pytest.mark.parametrize("method", ["uniform", "quad"])
def test_every_schedule_and_method_runs(example, schedule, method):
    points = example.sample(200, 27, 0.5, method, schedule, rng=0)
    assert points.shape == (200, 2)
    assert np.isfinite(points).all()


def test_the_command_draws_its_points(example, tmp_path, capsys):
    picture = tmp_path / "samples.png"
    example.main(["--count", "2000", "--steps", "27", "--output", str(picture)])
    assert "2000 points" in capsys.readouterr().out
    data = picture.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", data[16:24])
    length = struct.unpack(">I", data[33:37])[0]
    rows = np.frombuffer(zlib.decompress(data[41 : 41 + length]), np.uint8).reshape(height, width + 1)
    left, right = np.split(rows[:, 1:] < 128, 2, axis=1)
    assert left.any()
    assert right.sum() > 500
    # Where the density is drawn as empty, nearly no point falls.
    assert right[rows[:, 1 : width // 2 + 1] > 250].sum() < 0.02 * right.sum()
