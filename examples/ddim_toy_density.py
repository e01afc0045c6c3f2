"""A complete DDIM sampler in numpy: noise becomes a toy 2-D density whose score is known exactly.

The density is a mixture of Gaussians on a spiral. Diffused to any step it is again such a mixture, so its
score, which a network would have to learn, is a formula. Run

    python examples/ddim_toy_density.py --steps 50 --eta 0 --output samples.png

to draw the density (left) and the sampler's points (right).
"""

from __future__ import annotations

import argparse
import struct
import zlib
from pathlib import Path

import numpy as np
from firelu.diffusion import (
    extract_into_tensor,
    make_beta_schedule,
    make_ddim_sampling_parameters,
    make_ddim_timesteps,
    mean_flat,
    noise_like,
)

TURNS = np.linspace(0.5, 2.5, 12) * np.pi
MEANS = np.stack([np.cos(TURNS), np.sin(TURNS)], axis=1) * TURNS[:, None] / 2.5  # [K, 2]
WEIGHTS = TURNS / TURNS.sum()  # [K]
SPREAD = 0.15  # the standard deviation of each Gaussian


def diffused_mixture(x, signal):
    """Return the density at `x` [N, 2] after diffusion to `signal` [N, 1], and its score [N, 2]."""
    variance = signal * SPREAD**2 + 1 - signal  # [N, 1]
    shrink = np.sqrt(signal)  # [N, 1]: diffusion pulls the centres towards 0
    squares = (x**2).sum(axis=1, keepdims=True) - 2 * shrink * (x @ MEANS.T) + signal * (MEANS**2).sum(axis=1)
    terms = WEIGHTS * np.exp(-squares / (2 * variance)) / (2 * np.pi * variance)  # [N, K]
    density = terms.sum(axis=1, keepdims=True)  # [N, 1]
    share = terms / np.maximum(density, np.finfo(float).tiny)
    return density, (shrink * (share @ MEANS) - x) / variance


def exact_noise(x, step, alphacums):
    """Return what a perfect network predicts: the noise in `x` [N, 2] at the steps `step` [N]."""
    signal = extract_into_tensor(alphacums, step, x.shape)
    return -np.sqrt(1 - signal) * diffused_mixture(x, signal)[1]


def sample(count, steps=50, eta=0.0, method="uniform", schedule="linear", rng=None, model=exact_noise):
    """Draw `count` points, [count, 2], in `steps` DDIM steps from noise to data."""
    rng, total = np.random.default_rng(rng), 1000  # as many steps as a network would be trained with
    alphacums = np.cumprod(1 - make_beta_schedule(schedule, total))
    timesteps = make_ddim_timesteps(method, steps, total, verbose=False)
    sigmas, alphas, alphas_prev = make_ddim_sampling_parameters(alphacums, timesteps, eta, verbose=False)
    x = noise_like((count, 2), rng=rng)
    for i in reversed(range(steps)):
        noise = model(x, np.full(count, timesteps[i]), alphacums)
        clean = (x - np.sqrt(1 - alphas[i]) * noise) / np.sqrt(alphas[i])
        towards_x = np.sqrt(1 - alphas_prev[i] - sigmas[i] ** 2) * noise
        x = np.sqrt(alphas_prev[i]) * clean + towards_x + sigmas[i] * noise_like(x.shape, rng=rng)
    return x


def draw(points, path, size=320, extent=3.8):
    """Write a PNG: the density on the left, a histogram of `points` on the right."""
    edges = np.linspace(-extent, extent, size + 1)
    centres = (edges[1:] + edges[:-1]) / 2
    grid = np.stack(np.meshgrid(centres, centres), axis=-1).reshape(-1, 2)
    density = diffused_mixture(grid, np.ones((len(grid), 1)))[0].reshape(size, size)
    counts = np.histogram2d(points[:, 1], points[:, 0], bins=(edges, edges))[0]
    panels = [np.sqrt(np.clip(panel / (np.quantile(panel, 0.999) or 1), 0, 1)) for panel in (density, counts)]
    grey = (255 * (1 - np.concatenate(panels, axis=1)[::-1])).astype(np.uint8)  # y points up
    rows = np.pad(grey, ((0, 0), (1, 0))).tobytes()  # each row begins with its filter, 0: none

    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", grey.shape[1], grey.shape[0], 8, 0, 0, 0, 0)
    body = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows, 9)) + chunk(b"IEND", b"")
    Path(path).write_bytes(b"\x89PNG\r\n\x1a\n" + body)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=20_000, help="points to draw (20000)")
    parser.add_argument("--steps", type=int, default=50, help="DDIM steps of 1000 (50)")
    parser.add_argument("--eta", type=float, default=0.0, help="0 is DDIM, 1 is DDPM (0)")
    parser.add_argument("--method", choices=["uniform", "quad"], default="uniform", help="spacing of steps")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", default="ddim_samples.png", help="the picture (ddim_samples.png)")
    options = parser.parse_args(arguments)
    points = sample(options.count, options.steps, options.eta, options.method, rng=options.seed)
    nearest = 2 * np.min([mean_flat((points - mean) ** 2) for mean in MEANS], axis=0)  # [count]
    draw(points, options.output)
    distance = nearest.mean() ** 0.5
    print(f"{options.count} points, {distance:.3f} (rms) from the nearest centre; wrote {options.output}")


if __name__ == "__main__":
    main()
