"""The parts of `firelu doctor --gpu-report`: each tries or times one thing that only a GPU can show."""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import shutil
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import firelu
import numpy

from .gpu_driver import Driver

__all__ = ["bench", "capture", "first_use", "first_use_seconds", "sanitize", "selftest", "side_stream", "torch_results"]

_CHANNELS, _SIZE = 1, 256
_Shapes = list[tuple[int, ...]]
_PADDED = {"pad_x0": 2, "pad_x1": 1, "pad_y0": 2, "pad_y1": 1}
_LAYER = {"up_x": 2, "up_y": 2, "down_x": 2, "down_y": 2, "pad_x0": 9, "pad_x1": 8, "pad_y0": 9, "pad_y1": 8}
_TAPS = (4, 4)
#: A copy of one tensor takes at least this: what the host does for a call is far less.
_LONG_ENOUGH = 0.1
_MOST_CHANNELS, _MOST_REPEATS = 2048, 20
#: Milliseconds from which one call is enough.
_TIMED = 20.0
_TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")


class _Lent:
    """Memory of another library that is used on a stream of its own."""

    def __init__(self, tensor: firelu.Tensor, stream: int) -> None:
        self.tensor = tensor
        self.__cuda_array_interface__ = {**tensor.__cuda_array_interface__, "stream": stream}


def _cases(shape: tuple[int, ...]) -> list[tuple[str, str, _Shapes, dict[str, Any]]]:
    """Return labels, operators, shapes of their inputs and arguments."""
    return [
        ("LeakyRelu", "LeakyRelu", [shape], {"alpha": 0.2}),
        ("FusedLeakyRelu", "FusedLeakyRelu", [shape, (shape[1],)], {}),
        ("Add", "Add", [shape, shape], {}),
        ("ReduceSum", "ReduceSum", [shape], {"axes": [0, 2, 3]}),
        ("UpFirDn2d blur", "UpFirDn2d", [shape, _TAPS], _PADDED),
        ("UpFirDn2d up 2", "UpFirDn2d", [shape, _TAPS], {**_PADDED, "up_x": 2, "up_y": 2}),
        ("UpFirDn2d down 2", "UpFirDn2d", [shape, _TAPS], {**_PADDED, "down_x": 2, "down_y": 2}),
        ("FilteredAct up 2", "FilteredAct", [shape, (12, 12), (12, 12), (shape[1],)], _LAYER),
    ]


def _inputs(shapes: _Shapes, dtype: str) -> list[firelu.Tensor]:
    generator = numpy.random.default_rng(0)
    return [firelu.Tensor(generator.uniform(-1, 1, shape), dtype=dtype, device="cuda:0") for shape in shapes]


def selftest() -> dict[str, Any]:
    """Launch every kernel and compare with the CPU."""
    found = firelu.cuda_selftest()
    return {name: found[name] for name in ("comparisons", "operators")}


def first_use() -> dict[str, float]:
    """Time the first call of each operator on little memory: the driver compiles its kernel."""
    seconds = {}
    for label, name, shapes, args in _cases((1, _CHANNELS, 8, 8)):
        inputs = _inputs(shapes, "float32")
        start = time.perf_counter()
        firelu.run_operator(name, *inputs, **args).to("cpu")
        seconds[label] = time.perf_counter() - start
    return seconds


def first_use_seconds() -> dict[str, float]:
    """Do so in a process of its own without the driver's cache, which would hide what compiling takes."""
    code = "import json; from firelu.cli.gpu_parts import first_use; print(json.dumps(first_use()))"
    environment = {**os.environ, "CUDA_CACHE_DISABLE": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise firelu.DeviceError(f"cuda:0: {_last_line(done.stderr)}")
    seconds: dict[str, float] = json.loads(done.stdout)
    return seconds


def _channels(driver: Driver) -> int:
    """Return how many planes a tensor of the bench has: so many that a copy of it takes long enough to be timed."""
    channels = _CHANNELS
    while channels < _MOST_CHANNELS:
        if driver.copy_milliseconds(2 * 4 * channels * _SIZE * _SIZE, _MOST_REPEATS) >= _LONG_ENOUGH:
            break
        channels *= 2
    return channels


def bench(driver: Driver) -> list[dict[str, Any]]:
    """Time each operator by events, and as a multiple of a copy of the bytes that it reads and writes."""
    shape, rows = (1, _channels(driver), _SIZE, _SIZE), []
    for dtype, size in (("float32", 4), ("float16", 2)):
        for label, name, shapes, args in _cases(shape):
            inputs = _inputs(shapes, dtype)

            def work(name: str = name, inputs: list[firelu.Tensor] = inputs, args: dict[str, Any] = args) -> Any:
                return firelu.run_operator(name, *inputs, **args)

            moved = size * (sum(each.size for each in inputs) + work().size)
            milliseconds = driver.milliseconds(work, 1)
            if milliseconds < _TIMED:
                milliseconds = driver.milliseconds(work, _MOST_REPEATS)
            of_copy = driver.copy_milliseconds(moved, _MOST_REPEATS)
            row = {"case": label, "shape": shape, "dtype": dtype, "bytes": moved, "milliseconds": milliseconds}
            rows.append({**row, "copies": milliseconds / of_copy if of_copy > 0 else None})
    return rows


def side_stream(driver: Driver) -> str:
    """Use memory of a non-blocking stream as an output, and read it there."""
    stream = driver.made("cuStreamCreate", 1)
    x, y, z = _inputs([(1 << 20,)] * 3, "float32")
    firelu.run_operator("LeakyRelu", x, alpha=1.0, out=_Lent(y, stream.value or 0))
    source, target = (ctypes.c_uint64(each.__cuda_array_interface__["data"][0]) for each in (y, z))
    driver.call("cuMemcpyDtoDAsync_v2", target, source, ctypes.c_size_t(4 * x.size), stream)
    driver.call("cuStreamSynchronize", stream)
    driver.call("cuStreamDestroy_v2", stream)
    same = numpy.array_equal(numpy.asarray(z.to("cpu")), numpy.asarray(x.to("cpu")))
    return "right" if same else "WRONG: the result was read before it was written"


def capture(driver: Driver) -> str:
    """Use a kernel for the first time while a stream is captured: the capture must go on."""
    stream = driver.made("cuStreamCreate", 1)
    x = _inputs([(64,)], "float64")[0]
    driver.call("cuStreamBeginCapture_v2", stream, 0)
    try:
        firelu.run_operator("LeakyRelu", x)
    finally:
        graph = ctypes.c_void_p()
        code = driver.library.cuStreamEndCapture(stream, ctypes.byref(graph))
    driver.call("cuStreamDestroy_v2", stream)
    return "goes on" if code == 0 else f"BROKEN: cuStreamEndCapture: error {code}"


def torch_results() -> str:
    """Compare `firelu.torch` on CUDA tensors with the CPU, forward and one step backward, if torch has CUDA."""
    try:
        torch: Any = importlib.import_module("torch")
    except ImportError as error:
        return f"not tried: {error}"
    with warnings.catch_warnings(record=True) as told:
        # Where it sees none, it warns of the reason.
        warnings.simplefilter("always")
        if not torch.cuda.is_available():
            reasons = "".join(f": {warning.message}" for warning in told)
            return f"not tried: torch {torch.__version__} sees no GPU{reasons}"
    operators: Any = importlib.import_module("firelu.torch")
    calls: dict[str, Callable[..., Any]] = {
        "leaky_relu": lambda x, b, k: operators.leaky_relu(x, 0.2),
        "fused_leaky_relu": lambda x, b, k: operators.fused_leaky_relu(x, b),
        "upfirdn2d": lambda x, b, k: operators.upfirdn2d(x, k, up=2, pad=(2, 1)),
    }
    generator = numpy.random.default_rng(0)
    shapes = ((2, 8, 32, 32), (8,), _TAPS)
    values = [torch.from_numpy(generator.uniform(-1, 1, shape).astype(numpy.float32)) for shape in shapes]
    for name, call in calls.items():
        found = []
        for device in ("cpu", "cuda"):
            y = call(*[value.to(device).requires_grad_(len(value.shape) != 2) for value in values])
            gradients = y.grad_fn.apply(torch.ones_like(y.detach().cpu()).to(device))
            gradients = gradients if isinstance(gradients, tuple) else (gradients,)
            found.append([each.detach().cpu().double() for each in (y, *gradients) if each is not None])
        for there, here in zip(*found, strict=True):
            # Sums of a thousand numbers below one: far above their rounding, far below an error.
            if not torch.allclose(there, here, rtol=1e-4, atol=1e-4):
                return f"WRONG: {name} differs from the CPU by {float((there - here).abs().max()):.3g}"
    return f"torch {torch.__version__}: {len(calls)} operators agree with the CPU"


def sanitize() -> dict[str, str]:
    """Run the self-test under each tool of compute-sanitizer, which is part of the CUDA toolkit and on PyPI."""
    program = shutil.which("compute-sanitizer")
    if program is None:
        raise firelu.DeviceError("cuda:0: compute-sanitizer is not on the path")
    found = {}
    for tool in _TOOLS:
        command = [program, "--tool", tool, "--error-exitcode", "99"]
        command += [sys.executable, "-m", "firelu", "doctor", "--cuda-selftest"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        summaries = [line.strip("= ") for line in done.stdout.splitlines() if "SUMMARY" in line]
        told = summaries[-1] if summaries else _last_line(done.stdout + done.stderr)
        found[tool] = told if done.returncode == 0 else f"WRONG: exit status {done.returncode}: {told}"
    return found


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else "it said nothing"
