"""Draw the picture of docs/resample.md: python docs/images/draw_kernels.py (needs firelu[demo])."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import numpy as np
from firelu import kernels

mpl.use("Agg")
import matplotlib.pyplot as plt

NAMES = ("box", "triangle", "mitchell", "cubic", "lanczos3", "kaiser")


def main() -> None:
    """Draw how much of each frequency the kernels let through when they halve a picture."""
    figure, axis = plt.subplots(figsize=(9, 3.6), layout="constrained")
    frequency = np.linspace(0, 0.5, 400)
    for name in NAMES:
        taps = kernels.by_name(name, 2).astype(np.float64)
        phases = np.exp(-2j * np.pi * frequency[:, None] * np.arange(len(taps)))
        axis.plot(frequency, 20 * np.log10(np.abs(phases @ taps) + 1e-6), label=f"{name}, {len(taps)} taps")
    axis.axvspan(0.25, 0.5, color="0.93", zorder=0)
    axis.annotate("these frequencies become aliases", (0.375, 1), ha="center", color="0.35")
    axis.set(xlabel="cycles per sample", ylabel="response, dB", ylim=(-70, 6), xlim=(0, 0.5))
    axis.legend(frameon=False, loc="lower left")
    figure.savefig(Path(__file__).parent / "kernels.png", dpi=110, metadata={"Software": None})


if __name__ == "__main__":
    main()
