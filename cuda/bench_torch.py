"""Host time of `firelu.torch` on tensors of a CUDA device, against the short way on the CPU, in one run.

    make bench-cuda-torch

The device is the emulated one, the tensors are torch's own with the memory of `tests/cuda/torch_backend`. A call is
timed with the queue left alone, so that no kernel runs meanwhile. What the stand-in takes for a result's memory is its
own, not firelu's: the time of a new tensor is measured beside it and told. What the emulated driver takes to queue a
launch, more than a real one, is part of the figures.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
ROUNDS, CALLS = 15, 200


def microseconds(call: Callable[[], Any], settle: Callable[[], Any]) -> float:
    """Return the median time of a call; what it has queued is waited for outside."""
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        for _ in range(CALLS):
            call()
        times.append((time.perf_counter() - start) / CALLS * 1e6)
        settle()
    return statistics.median(times)


def main() -> None:
    """Print a row for each operator."""
    import ctypes

    library = ctypes.CDLL(str(ROOT / "target" / "emulator" / "libcuda.so"), mode=ctypes.RTLD_GLOBAL)
    sys.path.insert(0, str(ROOT / "tests" / "cuda"))
    import firelu
    import firelu.torch as operators
    import torch
    import torch_backend

    firelu.Tensor([0.0], device="cuda:0")
    torch_backend.start()
    settle = library.cuCtxSynchronize
    taps = torch.outer(torch.tensor([1.0, 3, 3, 1]), torch.tensor([1.0, 3, 3, 1])) / 64
    calls: dict[str, Callable[..., Any]] = {
        "leaky_relu": lambda x, b, k: operators.leaky_relu(x, 0.2),
        "fused_leaky_relu": lambda x, b, k: operators.fused_leaky_relu(x, b),
        "upfirdn2d, up 2": lambda x, b, k: operators.upfirdn2d(x, k, up=2, pad=(2, 1)),
    }
    print("microseconds a call: the CPU's short way, the device, of which a new tensor there and here")
    for recorded in (False, True):
        for name, call in calls.items():
            found = {}
            for device in ("cpu", "cuda"):
                x = torch.ones(1, 4, 4, 4).to(device).requires_grad_(recorded)
                b, k = torch.ones(4).to(device), taps.to(device)
                found[device] = microseconds(lambda call=call, x=x, b=b, k=k: call(x, b, k), settle)
                plain = x.detach()
                found[f"empty {device}"] = microseconds(lambda plain=plain: torch.empty_like(plain), settle)
            stand_in = found["empty cuda"] - found["empty cpu"]
            print(
                f"{name:20} {'recorded' if recorded else '':9} {found['cpu']:6.2f} {found['cuda']:6.2f} "
                f"{found['empty cuda']:6.2f} {found['empty cpu']:6.2f}  "
                f"ratio {found['cuda'] / found['cpu']:.2f}, without the stand-in's memory "
                f"{(found['cuda'] - stand_in) / found['cpu']:.2f}"
            )


if __name__ == "__main__":
    main()
