"""Section: an unknown blur found by gradient descent, with no derivative written by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import firelu
import matplotlib.pyplot as plt
import numpy

from .page import Section
from .pictures import Array, Pictures, grey, show, signal_to_noise

_TEXT = """
Given an image and its blurred copy, find the blur. The net below blurs X with a kernel K and compares the result with
the copy; add_gradient_operators adds its derivatives. Gradient descent on K finds the blur, and gradient descent on X
then sharpens the copy.
"""
_TAPS = 15
_SIDE = 192
_NOISE = 0.002
_KERNEL_STEPS = 600
_PICTURE_STEPS = 60


class _Loss:
    """The sum of squares of `UpFirDn2d(X, K) - T`, and its derivatives by X and K, as one net."""

    def __init__(self, target: Array) -> None:
        half = _TAPS // 2
        padding: dict[str, Any] = dict.fromkeys(("pad_x0", "pad_x1", "pad_y0", "pad_y1"), half)
        self.forward = [
            firelu.create_operator("UpFirDn2d", ["X", "K"], ["Y"], **padding, border="reflect"),
            firelu.create_operator("Sub", ["Y", "T"], ["E"]),
            firelu.create_operator("Mul", ["E", "E"], ["S"]),
            firelu.create_operator("ReduceSum", ["S"], ["L"]),
        ]
        self.backward = {
            by: firelu.add_gradient_operators(self.forward, {"L": "L_grad"}, inputs=[by]) for by in ("K", "X")
        }
        self._workspace = firelu.Workspace()
        self._workspace.feed("T", target)
        self._workspace.feed("L_grad", numpy.float32(1.0 / target.size))
        self._size = target.size

    def __call__(self, x: Array, kernel: Array, by: str) -> tuple[float, Array]:
        """Give the mean square error and its derivative by the blob "X" or "K"."""
        self._workspace.feed("X", x)
        self._workspace.feed("K", kernel)
        gradient = self.backward[by].gradients[by]
        self._workspace.run([*self.forward, *self.backward[by]], keep={"L", gradient})
        return float(self._workspace.fetch("L")) / self._size, self._workspace.fetch(gradient)


def _descend(
    start: Array, gradient: Callable[[Array], tuple[float, Array]], steps: int, clip: tuple[float, float]
) -> tuple[Array, list[float]]:
    """Gradient descent with Nesterov's momentum; the loss is quadratic, so its curvature gives the step."""
    rng = numpy.random.default_rng(0)
    at_start = gradient(start)[1]
    direction = rng.standard_normal(start.shape).astype(start.dtype)
    curvature = 1.0
    for _ in range(12):  # power iteration: the gradient's change along a direction is the curvature there
        direction = gradient(start + direction / numpy.linalg.norm(direction))[1] - at_start
        if not numpy.any(direction):  # a black image says nothing about its blur
            break
        curvature = float(numpy.linalg.norm(direction))
    value, before, run = start, start, 0
    losses: list[float] = []
    for _ in range(steps):
        ahead = value + (value - before) * (run / (run + 3))
        loss, slope = gradient(ahead)
        before, value = value, numpy.clip(ahead - slope / (1.1 * curvature), *clip)
        # Momentum that leads uphill begins anew.
        run = 0 if losses and loss > losses[-1] else run + 1
        losses.append(loss)
    return value, losses


def _stroke() -> Array:
    """Give the blur of a shaking camera: the light of a point, spread along a curved stroke."""
    time = numpy.linspace(0, 1, 400)
    x = _TAPS / 2 + 5.2 * (2 * time - 1)
    y = _TAPS / 2 + 4.4 * numpy.sin(5.5 * time - 0.4)
    edges = numpy.arange(_TAPS + 1)
    kernel = numpy.histogram2d(y, x, bins=(edges, edges))[0].astype(numpy.float32)
    kernel = firelu.upfirdn2d(kernel[None, None], firelu.make_kernel([1, 2, 1]), pad=(1, 1))[0, 0]
    return numpy.asarray(kernel / kernel.sum())


def section(pictures: Pictures) -> Section:
    """Blur, forget the blur, find it again."""
    height, width = pictures.scene.shape[2:]
    side = min(_SIDE, height, width)
    top, left = (height - side) // 2, (width - side) // 2
    sharp = numpy.ascontiguousarray(grey(pictures.scene)[..., top : top + side, left : left + side])
    truth = _stroke()
    noise = numpy.random.default_rng(1).standard_normal(sharp.shape).astype(numpy.float32) * _NOISE
    blurred = firelu.upfirdn2d(sharp, truth, pad=_TAPS // 2, border="reflect") + noise
    loss = _Loss(blurred)

    flat = numpy.full((_TAPS, _TAPS), 1 / _TAPS**2, dtype=numpy.float32)
    kernel, losses = _descend(flat, lambda k: loss(sharp, k, "K"), _KERNEL_STEPS, (0, 1))
    restored, _ = _descend(blurred, lambda x: loss(x, kernel, "X"), _PICTURE_STEPS, (0, 1))

    error = float(numpy.abs(kernel - truth).sum() / numpy.abs(truth).sum())
    start, end = signal_to_noise(blurred, sharp), signal_to_noise(restored, sharp)
    plot = plt.figure(figsize=(12, 6.6), layout="constrained")
    axes = plot.subplot_mosaic([["sharp", "blurred", "restored"], ["truth", "kernel", "loss"]])
    show(axes["sharp"], sharp, "the image")
    show(axes["blurred"], blurred, f"blurred, with noise: {start:.1f} dB")
    show(axes["restored"], restored, f"sharpened by gradient descent on X: {end:.1f} dB")
    for name, values, title in (
        ("truth", truth, "the blur"),
        ("kernel", kernel, f"found by gradient descent on K: {100 * error:.1f} % off"),
    ):
        axes[name].imshow(values, cmap="magma", vmin=0, vmax=truth.max())
        axes[name].set_title(title)
        axes[name].set_axis_off()
    axes["loss"].semilogy(losses, color="#c2410c")
    axes["loss"].axhline(_NOISE**2, color="0.6", linewidth=0.8, linestyle="--")
    axes["loss"].annotate("the noise", (0, _NOISE**2), textcoords="offset points", xytext=(4, 4), color="0.4")
    axes["loss"].set(title="mean square error", xlabel="step")
    caption = "A blur kernel found from an image and its blurred copy, and the copy sharpened with it."
    findings = [
        f"The blur kernel was found to within {100 * error:.1f} % (sum of absolute differences) in "
        f"{_KERNEL_STEPS} steps; the error fell from {losses[0]:.1e} to {losses[-1]:.1e}, where the noise is "
        f"{_NOISE**2:.1e}.",
        f"With it the blurred image went from {start:.1f} dB to {end:.1f} dB.",
    ]
    code = "\n".join(
        [*(f"forward   {step!r}" for step in loss.forward), *(f"backward  {step!r}" for step in loss.backward["K"])]
    )
    return Section("A blur, recovered", _TEXT, [pictures.plot("deblurring", plot, caption)], findings, code=code)
