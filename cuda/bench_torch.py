"""Host time of `firelu.torch` on tensors of a CUDA device, against the short way on the CPU, in one run.

    make bench-cuda-torch

The device is the emulated one, the tensors are torch's own with the memory of `tests/cuda/torch_backend`. A call is
timed with the queue left alone, so that no kernel runs meanwhile. What the stand-in takes for a result's memory and
what the emulated driver takes for its two calls, the context that is current and a launch, are not firelu's: both are
measured beside it and told.
"""

from __future__ import annotations

import ctypes
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


KERNEL = b".version 6.0 .target sm_50 .address_size 64 .visible .entry nothing(.param .u64 p) { ret; }"


def driver_microseconds(library: ctypes.CDLL) -> float:
    """Return what the emulated driver takes for the calls of an operator, less what `ctypes` takes to make them."""
    module, kernel, context = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    assert library.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
    assert library.cuCtxSetCurrent(context) == 0
    assert library.cuModuleLoadData(ctypes.byref(module), KERNEL) == 0
    assert library.cuModuleGetFunction(ctypes.byref(kernel), module, b"nothing") == 0
    number = ctypes.c_uint64()
    parameters = (ctypes.c_void_p * 1)(ctypes.addressof(number))
    calls = {
        "cuLaunchKernel": (kernel, 1, 1, 1, 256, 1, 1, 0, None, parameters, None),
        "cuCtxGetCurrent": (ctypes.byref(context),),
    }
    absolute = ctypes.CDLL(None).labs
    total = 0.0
    for name, arguments in calls.items():
        function = getattr(library, name)
        total += microseconds(lambda f=function, a=arguments: f(*a), library.cuCtxSynchronize)
        total -= microseconds(lambda a=arguments: absolute(*a), library.cuCtxSynchronize)
    return total


def main() -> None:
    """Print a row for each operator."""
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
    driver = driver_microseconds(library)
    print(f"the emulated driver's own time for the calls of an operator: {driver:.2f} microseconds")
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
                f"{(found['cuda'] - stand_in) / found['cpu']:.2f}, nor the emulated driver's time "
                f"{(found['cuda'] - stand_in - driver) / found['cpu']:.2f}"
            )


if __name__ == "__main__":
    main()
