"""``python -m firelu.bench.dropin``: whole networks on the CPU, as they are and with `firelu.compat.install()`."""

from __future__ import annotations

import argparse
import importlib.util
import math
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType

import torch
from torch import Tensor, nn

from .. import compat
from .generator import Generator

_NAME = "firelu_bench_dropin_networks"


def load_networks() -> ModuleType:
    """Load the networks under a name that is not firelu's: they stand for a stranger's project."""
    spec = importlib.util.spec_from_file_location(_NAME, Path(__file__).with_name("dropin_networks.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[_NAME] = module
    spec.loader.exec_module(module)
    return module


def cases(narrow: float, frames: int) -> dict[str, tuple[nn.Module, Tensor]]:
    """Give the networks by their names, each with its input."""
    theirs = load_networks()

    def filtered(x: Tensor, kernel: Tensor, up: int, down: int, pad: tuple[int, int]) -> Tensor:
        result: Tensor = theirs.upfirdn2d_native(x, kernel, up, up, down, down, *pad, *pad)
        return result

    torch.manual_seed(0)
    size = 256 if narrow == 1 else 32
    return {
        f"StyleGAN2, {size}x{size}": (
            Generator((theirs.fused_leaky_relu, filtered), size, narrow=narrow),
            torch.randn(1, 512),
        ),
        "StyleGAN3, 256x256": (theirs.StyleGAN3(narrow), torch.randn(1, 512)),
        f"vocoder, {frames} frames": (theirs.Vocoder(narrow), torch.randn(1, 100, frames)),
    }


def fastest(call: Callable[[], Tensor], rounds: int) -> tuple[float, Tensor]:
    """Give the shortest time of some rounds after one that warms, and the result."""
    best, result = math.inf, call()
    for _ in range(rounds):
        start = time.perf_counter()
        result = call()
        best = min(best, time.perf_counter() - start)
    return best, result


def main(argv: Sequence[str] | None = None) -> int:
    """Time the networks and print a table; returns the exit status."""
    options = argparse.ArgumentParser(prog="python -m firelu.bench.dropin", description=__doc__)
    options.add_argument("--rounds", type=int, default=5, help="how often each is run; the fastest counts (5)")
    options.add_argument("--narrow", type=float, default=1.0, help="a factor of all widths (1)")
    options.add_argument("--frames", type=int, default=94, help="of the vocoder, 256 samples each (94: one second)")
    options.add_argument("--train", action="store_true", help="forward and backward")
    given = options.parse_args(argv)
    if compat.status()["installed"]:
        raise SystemExit("firelu.bench.dropin: the drop-in is installed already: start a process of its own")
    print(f"{'network':<24}{'as it is':>12}{'drop-in':>12}{'times faster':>14}")
    for name, (network, x) in cases(given.narrow, given.frames).items():

        def run(network: nn.Module = network, x: Tensor = x) -> Tensor:
            torch.manual_seed(1)  # some add noise
            result: Tensor = network(x)
            if given.train:
                torch.autograd.backward(result.square().mean())
            return result.detach()

        with torch.set_grad_enabled(given.train):
            before, plain = fastest(run, given.rounds)
            with compat.install():
                after, ours = fastest(run, given.rounds)
                if fallbacks := compat.status()["fallbacks"]:
                    raise SystemExit(f"firelu.bench.dropin: {name}: {fallbacks}")
        # Convolutions over thousands of terms: what differs is the order of sums in float32.
        torch.testing.assert_close(ours, plain, rtol=1e-2, atol=1e-3 * float(plain.abs().max()))
        print(f"{name:<24}{before * 1e3:>9.1f} ms{after * 1e3:>9.1f} ms{before / after:>14.2f}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
