"""Section: a diffusion whose score is known exactly, sampled with the schedules."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy
from firelu.diffusion import (
    extract_into_tensor,
    make_beta_schedule,
    make_ddim_sampling_parameters,
    make_ddim_timesteps,
    noise_like,
)
from matplotlib.axes import Axes
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import TextPath

from .page import Section
from .pictures import Array, Pictures

_TEXT = """
A diffusion model turns noise into data by removing a little noise at a time; how much at each step is the schedule.
Here the data is a cloud of points in the shape of three letters. What a network would have to learn, the noise in a
noisy point, is a formula for such a cloud, so the result shows the helpers of firelu.diffusion alone.
"""
_TRAINED_STEPS = 1000
_POINTS = 3000
_COLOURS = {"linear": "#c2410c", "sqrt_linear": "#1d4ed8", "sqrt": "#9ca3af", "cosine": "#1f2937"}
_SPREAD = 0.015  # the standard deviation of the data around each centre


def _letters(text: str = "FIR", rows: int = 24) -> Array:
    """Give centres [K, 2] on a grid inside the letters, centred, with a spread of about one."""
    path = TextPath((0, 0), text, size=1, prop=FontProperties(family="DejaVu Sans", weight="bold"))
    box = path.get_extents()
    step = box.height / rows
    y, x = numpy.mgrid[box.y0 : box.y1 : step, box.x0 : box.x1 : step]
    points = numpy.stack([x.ravel(), y.ravel()], axis=1)
    inside = points[path.contains_points(points)]
    return numpy.asarray((inside - inside.mean(axis=0)) / inside.std(axis=0).max())


def _noise_of(x: Array, signal: Array, centres: Array) -> Array:
    """Give the noise that is in `x` [N, 2] when `signal` [N, 1] of the data is left: the exact answer."""
    variance = signal * _SPREAD**2 + 1 - signal
    places = numpy.sqrt(signal[0]) * centres
    # The logarithm of each centre's share but for a constant, which the largest stands for.
    shares = ((x @ places.T - (places**2).sum(axis=1) / 2) / variance).astype(numpy.float32)
    shares -= shares.max(axis=1, keepdims=True)
    numpy.exp(shares, out=shares)
    mean = shares @ places / shares.sum(axis=1, keepdims=True)
    return numpy.asarray(numpy.sqrt(1 - signal) * (x - mean) / variance)


def _sample(centres: Array, schedule: str, steps: int, eta: float, keep: tuple[int, ...] = ()) -> list[Array]:
    """Give points [N, 2] at the visits in `keep` and at the end, drawn in `steps` DDIM steps."""
    rng = numpy.random.default_rng(3)
    alphacums = numpy.cumprod(1 - make_beta_schedule(schedule, _TRAINED_STEPS))
    timesteps = make_ddim_timesteps("uniform", steps, _TRAINED_STEPS, verbose=False)
    sigmas, alphas, alphas_prev = make_ddim_sampling_parameters(alphacums, timesteps, eta, verbose=False)
    x, kept = noise_like((_POINTS, 2), rng=rng), []
    for i in reversed(range(steps)):
        if i in keep:
            kept.append(x)
        signal = extract_into_tensor(alphacums, numpy.full(_POINTS, timesteps[i]), x.shape)
        noise = _noise_of(x, signal, centres)
        clean = (x - numpy.sqrt(1 - alphas[i]) * noise) / numpy.sqrt(alphas[i])
        towards = numpy.sqrt(1 - alphas_prev[i] - sigmas[i] ** 2) * noise
        x = numpy.sqrt(alphas_prev[i]) * clean + towards + sigmas[i] * noise_like(x.shape, rng=rng)
    return [*kept, x]


def _distance(points: Array, centres: Array) -> float:
    """Give the root of the mean squared distance to the nearest centre."""
    squares = (points**2).sum(axis=1)[:, None] - 2 * points @ centres.T + (centres**2).sum(axis=1)
    return float(numpy.sqrt(numpy.maximum(squares.min(axis=1), 0).mean()))


def _scatter(axis: Axes, points: Array, title: str) -> None:
    axis.scatter(points[:, 0], points[:, 1], s=2.5, c="#1f2937", alpha=0.5, linewidths=0)
    axis.set(xlim=(-2, 2), ylim=(-1.2, 1.2), aspect="equal")
    axis.set_title(title)
    axis.set_axis_off()


def section(pictures: Pictures) -> Section:
    """Draw the schedules, one run in time, and what the choices change."""
    centres = _letters()
    steps, shown = 50, (49, 16, 9, 4)
    plot, axes = plt.subplots(1, len(shown) + 1, figsize=(12, 1.9), layout="constrained")
    for axis, visit, points in zip(axes, (*shown, 0), _sample(centres, "linear", steps, 0.0, shown), strict=True):
        _scatter(axis, points, "noise" if visit == 49 else f"step {steps - visit} of {steps}")
    course = pictures.plot("diffusion", plot, f"{_POINTS} points on their way from noise to data in 50 DDIM steps.")

    table = [["schedule", "steps", "eta", "distance to the data"]]
    cases = [("linear", 5, 0.0), ("linear", 20, 0.0), ("linear", 20, 1.0), ("cosine", 20, 0.0), ("cosine", 20, 1.0)]
    plot, axes = plt.subplots(2, 3, figsize=(12, 5.4), layout="constrained")
    for name in ("linear", "sqrt_linear", "sqrt", "cosine"):
        axes[0, 0].plot(numpy.cumprod(1 - make_beta_schedule(name, _TRAINED_STEPS)), label=name, color=_COLOURS[name])
    axes[0, 0].set(title="share of the signal that is left", xlabel="step of 1000")
    axes[0, 0].legend(frameon=False, fontsize=8)
    for axis, (schedule, count, eta) in zip(axes.flat[1:], cases, strict=True):
        (points,) = _sample(centres, schedule, count, eta)
        distance = _distance(points, centres)
        table.append([schedule, str(count), f"{eta:g}", f"{distance:.3f}"])
        _scatter(axis, points, f"{schedule}, {count} steps, eta {eta:g}:\ndistance {distance:.3f}")
    choices = pictures.plot("diffusion_choices", plot, "The schedules, and what the number of steps and eta change.")
    finding = "Root-mean-square distance to the data: " + ", ".join(
        f"{schedule} in {count} steps with eta {eta} {distance}" for schedule, count, eta, distance in table[1:]
    )
    finding += f" (points of the data itself: at most {_SPREAD * 2**0.5:.3f})."
    return Section("A toy diffusion", _TEXT, [course, choices], [finding], table=table)
