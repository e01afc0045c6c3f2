"""``python -m firelu.bench.dropin``: whole networks on the CPU, as they are and with `firelu.compat.install()`."""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType

import torch
from torch import Tensor, nn

from .. import compat
from .generator import Generator
from .report import processor

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
        f"BigVGAN base, {frames} frames": (theirs.Vocoder(narrow), torch.randn(1, 100, frames)),
    }


def in_turns(call: Callable[[], Tensor], seconds: float) -> tuple[float, float]:
    """Time a call as it is and with the drop-in, in turns, and compare the results.

    Args:
        call: what to run.
        seconds: when to stop; each way runs at least twice, the first time to warm up.

    Returns:
        The shortest time of each way, in seconds.
    """
    best = [math.inf, math.inf]
    end = time.perf_counter() + seconds
    turns = 0
    while turns < 2 or time.perf_counter() < end:
        plain, before = _timed(call)
        with compat.install():
            ours, after = _timed(call)
            if fallbacks := compat.status()["fallbacks"]:
                raise SystemExit(f"firelu.bench.dropin: {fallbacks}")
        if turns == 0:
            # Convolutions over thousands of terms: what differs is the order of sums in float32.
            torch.testing.assert_close(ours, plain, rtol=1e-2, atol=1e-3 * float(plain.abs().max()))
        else:
            best = [min(best[0], before), min(best[1], after)]
        turns += 1
    return best[0], best[1]


def _timed(call: Callable[[], Tensor]) -> tuple[Tensor, float]:
    start = time.perf_counter()
    result = call()
    return result, time.perf_counter() - start


def measure(narrow: float, frames: int, seconds: float, train: bool) -> Iterator[dict[str, str | float]]:
    """Time each network; gives its name, its seconds as it is and with the drop-in, and their ratio."""
    for name, (network, x) in cases(narrow, frames).items():

        def run(network: nn.Module = network, x: Tensor = x) -> Tensor:
            torch.manual_seed(1)  # some add noise
            result: Tensor = network(x)
            if train:
                torch.autograd.backward(result.square().mean())
            return result.detach()

        with torch.set_grad_enabled(train):
            plain, ours = in_turns(run, seconds)
        yield {"network": name, "plain": plain, "firelu": ours, "ratio": plain / ours}


def main(argv: Sequence[str] | None = None) -> int:
    """Time the networks and print a table; returns the exit status."""
    options = argparse.ArgumentParser(prog="python -m firelu.bench.dropin", description=__doc__)
    options.add_argument("--seconds", type=float, default=20.0, help="how long each network is timed (20)")
    options.add_argument("--narrow", type=float, default=1.0, help="a factor of all widths (1)")
    options.add_argument("--frames", type=int, default=94, help="of the vocoder, 256 samples each (94: one second)")
    options.add_argument("--train", action="store_true", help="forward and backward; alone, forward")
    options.add_argument("--json", type=Path, metavar="FILE", help="write the figures to a file, too")
    given = options.parse_args(argv)
    if compat.status()["installed"]:
        raise SystemExit("firelu.bench.dropin: the drop-in is installed already: start a process of its own")
    print(f"{'network':<24}{'plain torch':>14}{'firelu':>12}{'ratio':>9}")
    rows = []
    for row in measure(given.narrow, given.frames, given.seconds, given.train):
        print(f"{row['network']:<24}{row['plain']:>12.2f} s{row['firelu']:>10.2f} s{row['ratio']:>8.1f}x", flush=True)
        rows.append(row)
    if given.json:
        about = {"processor": processor(), "threads": torch.get_num_threads(), "torch": torch.__version__}
        text = json.dumps({**about, "train": given.train, "networks": rows}, indent=1)
        given.json.write_text(text + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
