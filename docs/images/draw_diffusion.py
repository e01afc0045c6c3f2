"""Draw the pictures of docs/diffusion.md: python docs/images/draw_diffusion.py (needs matplotlib)."""

from __future__ import annotations

import runpy
from pathlib import Path

import matplotlib as mpl
import numpy as np

mpl.use("Agg")
import matplotlib.pyplot as plt
from firelu.diffusion import make_beta_schedule, make_ddim_sampling_parameters, make_ddim_timesteps

HERE = Path(__file__).parent
SCHEDULES = ["linear", "sqrt_linear", "sqrt", "cosine", "squaredcos_cap_v2"]
STYLES = ["-", "-", "-", "-", "--"]  # the last lies on the one before it
STEPS = 1000


def draw_schedules() -> None:
    """Draw the betas and the signal that is left, for the five schedules."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
    for name, style in zip(SCHEDULES, STYLES, strict=True):
        betas = make_beta_schedule(name, STEPS)
        left.semilogy(betas, style, label=name)
        right.plot(np.cumprod(1 - betas), style, label=name)
    left.set(title="beta: noise added at each step", xlabel="step", ylim=(1e-5, 1.5))
    right.set(title="alphas_cumprod: signal left after each step", xlabel="step")
    right.legend()
    save(figure, "diffusion_schedules.png")


def draw_sigmas() -> None:
    """Draw the sampler's sigmas for both spacings and several eta."""
    alphacums = np.cumprod(1 - make_beta_schedule("linear", STEPS))
    figure, axes = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained", sharey=True)
    for axis, method in zip(axes, ["uniform", "quad"], strict=True):
        steps = make_ddim_timesteps(method, 50, STEPS, verbose=False)
        for eta in (0.0, 0.25, 0.5, 1.0):
            sigmas, _, _ = make_ddim_sampling_parameters(alphacums, steps, eta, verbose=False)
            axis.plot(steps, sigmas, ".-", markersize=4, linewidth=0.8, label=f"eta = {eta}")
        axis.set(title=f'sigma at 50 "{method}" steps of the "linear" schedule', xlabel="step")
    axes[0].legend()
    save(figure, "diffusion_sigmas.png")


def draw_samples() -> None:
    """Draw the example's points beside their density."""
    example = runpy.run_path(str(HERE.parent.parent / "examples" / "ddim_toy_density.py"))
    example["draw"](example["sample"](100_000, rng=0), HERE / "diffusion_samples.png")


def save(figure: plt.Figure, name: str) -> None:
    """Write the figure without the version and the date, so that the same numbers give the same file."""
    figure.savefig(HERE / name, dpi=110, metadata={"Software": None})
    plt.close(figure)


if __name__ == "__main__":
    draw_schedules()
    draw_sigmas()
    draw_samples()
