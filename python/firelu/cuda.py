"""Which devices there are, and whether the shipped CUDA kernels compute on this machine what the CPU computes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy

from ._firelu import Tensor, cuda_status, from_dlpack, get_cpu_level, get_num_threads, run_operator
from .errors import DeviceError

__all__ = ["cuda_selftest", "devices"]

_DTYPES = ("float16", "bfloat16", "float32", "float64")
_UNIT = {"float16": 2.0**-11, "bfloat16": 2.0**-8, "float32": 2.0**-24, "float64": 2.0**-53}
_LAYOUTS = ("row-major", "channels-last")

_Case = tuple[str, list[tuple[int, ...] | None], dict[str, Any]]


def devices() -> dict[str, str]:
    """Return every device with a description; where there is no CUDA, ``"cuda"`` with the reason.

    Asking never raises, whatever driver library is installed, and starts no device: no context is made on a GPU, and
    no kernel is loaded. `cuda_status(load="cuda:0")` tells whether the kernels load.

    >>> firelu.devices()["cuda"]  # doctest: +SKIP
    'not usable: no CUDA driver library (libcuda) was found'
    """
    found = {"cpu": f"{get_cpu_level()}, {get_num_threads()} threads"}
    status = cuda_status()
    if not status["usable"]:
        return {**found, "cuda": f"not usable: {status['reason']}"}
    for each in status["devices"]:
        if "name" in each:
            memory = each["memory_bytes"] / 2**30
            text = f"{each['name']}, compute capability {each['compute_capability']}, {memory:.1f} GiB"
        else:
            text = f"not usable: {each['reason']}"
        found[each["device"]] = text
    return found


def cuda_selftest(device: str = "cuda:0") -> dict[str, Any]:
    """Run every operator on a CUDA device in every dtype and compare with the CPU.

    Element-wise results must be the same bits; sums must agree within the bound of their rounding. Returns the device's
    description and the number of comparisons; raises `DeviceError` with the first disagreements. Takes a few seconds.
    """
    disagreements: list[str] = []
    comparisons = 0
    covered: set[str] = set()
    for dtype in _DTYPES:
        for name, shapes, args in _cases():
            # numpy's DLPack has no bfloat16, and its kernels are those of float16 but for the conversion.
            for layout in _LAYOUTS[:1] if dtype == "bfloat16" else _LAYOUTS:
                comparisons += 1
                covered.add(name)
                if complaint := _compare(device, dtype, layout, name, shapes, args):
                    disagreements.append(f"{name} {dtype} {layout} {shapes} {args}: {complaint}")
    if disagreements:
        shown = "\n".join(disagreements[:10])
        raise DeviceError(f"{device}: {len(disagreements)} of {comparisons} comparisons disagree:\n{shown}")
    description: dict[str, Any] = next((each for each in cuda_status()["devices"] if each["device"] == device), {})
    return {**description, "driver": cuda_status()["driver"], "comparisons": comparisons, "operators": sorted(covered)}


def _cases() -> Iterator[_Case]:
    """Yield operators with the shapes of their inputs; each kernel that ships is used by one of them."""
    planes, small, odd = (1, 8, 32, 32), (2, 16, 4, 4), (1, 3, 5, 7)
    for shape in (planes, small, odd):
        channels = (shape[1],)
        yield "LeakyRelu", [shape], {"alpha": 0.2}
        yield "LeakyReluGradient", [shape, shape], {"alpha": 0.2}
        yield "FusedLeakyRelu", [shape, channels], {}
        yield "FusedLeakyReluGradient", [shape, shape, channels], {}
        yield "FusedLeakyReluGradient", [shape, None, channels], {}
        for act in ("linear", "relu", "lrelu", "tanh", "sigmoid", "elu", "selu", "softplus", "swish"):
            yield "BiasAct", [shape, channels], {"act": act, "clamp": 0.75}
            for order in (1, 3):
                yield "BiasActGradient", [shape, shape, channels], {"act": act, "order": order}
            yield "BiasActGradient", [shape, shape, None], {"act": act, "clamp": 0.75}
        for beta, logscale in ((channels, True), (None, False)):
            waves = [shape, channels, beta]
            yield "Snake", waves, {"logscale": logscale}
            yield "SnakeGradient", [shape, *waves], {"logscale": logscale}
            yield "SnakeDerivative", [shape, *waves], {"logscale": logscale, "order_x": 2, "order_alpha": 1}
        yield "Sum", [shape] * 9, {}
        for name in ("Add", "Sub", "Mul"):
            yield name, [shape, shape], {}
            yield name, [shape, (shape[1], 1, 1)], {}
        yield "ReduceSum", [shape], {"axes": [0, 2, 3], "scale": 0.5}
        yield "ReduceSum", [shape], {}
        yield "BroadcastLike", [(shape[1], 1, 1), shape], {"scale": 0.5}
        filters = ((1, 1, 4), (2, 1, 4), (1, 2, 4), (3, 2, 5))
        for up, down, taps in filters if shape is planes else filters[:3]:
            args = {"up_x": up, "up_y": up, "down_x": down, "down_y": down, "gain": 1.5}
            args |= {"pad_x0": taps // 2, "pad_x1": taps, "pad_y0": taps // 2 + 1, "pad_y1": taps - 1}
            height, width = ((n * up + taps // 2 + taps - taps) // down + 1 for n in shape[2:])
            out = (*shape[:2], height, width)
            yield "UpFirDn2d", [shape, (taps, taps)], args
            yield "UpFirDn2dGradient", [out, (taps, taps), shape], args
            yield "UpFirDn2dKernelGradient", [shape, out, (taps, taps)], args


def _values(shape: tuple[int, ...], seed: int) -> numpy.ndarray[Any, Any]:
    return numpy.random.default_rng(seed).uniform(-1, 1, shape)


def _compare(
    device: str, dtype: str, layout: str, name: str, shapes: list[tuple[int, ...] | None], args: dict[str, Any]
) -> str:
    """Run one operator on both devices; return a complaint or the empty string."""
    inputs: list[Any] = []
    for seed, shape in enumerate(shapes):
        if shape is None:
            inputs.append(None)
            continue
        x = Tensor(_values(shape, seed), dtype=dtype)
        if layout == "channels-last" and len(shape) == 4:
            # The channel axis moves to the end, and the view that moves it back keeps that memory.
            moved = numpy.ascontiguousarray(numpy.asarray(x).transpose(0, 2, 3, 1))
            x = from_dlpack(moved.transpose(0, 3, 1, 2))
        inputs.append(x)
    expected = run_operator(name, *inputs, **args)
    got = run_operator(name, *[x if x is None else x.to(device) for x in inputs], **args)
    for place, (want, have) in enumerate(zip(_tuple(expected), _tuple(got), strict=True)):
        a = numpy.asarray(want).astype(numpy.float64)
        b = numpy.asarray(have.to("cpu")).astype(numpy.float64)
        if complaint := _disagreement(a, b, dtype, exact=_is_exact(name, place), terms=_terms(name, shapes)):
            return complaint
    return ""


def _tuple(result: Any) -> tuple[Any, ...]:
    return result if isinstance(result, tuple) else (result,)


def _is_exact(name: str, place: int) -> bool:
    """Tell whether both devices do the same operations in the same order."""
    return not (
        name.startswith(("UpFirDn2d", "ReduceSum"))
        or (name in ("FusedLeakyReluGradient", "BiasActGradient", "SnakeGradient") and place > 0)
    )


def _terms(name: str, shapes: list[tuple[int, ...] | None]) -> int:
    """Return how many products of numbers up to 1 a result adds up."""
    sizes = [int(numpy.prod(shape)) for shape in shapes if shape is not None]
    if name in ("UpFirDn2d", "UpFirDn2dGradient"):
        return sizes[1]
    return max(sizes)


def _disagreement(
    a: numpy.ndarray[Any, Any], b: numpy.ndarray[Any, Any], dtype: str, *, exact: bool, terms: int
) -> str:
    if a.shape != b.shape:
        return f"shape {b.shape}, not {a.shape}"
    # Filters: the bound that either device keeps, with a gain of 1.5. Longer sums are made of blocks, whose errors are
    # far from adding up.
    compute = _UNIT["float64" if dtype == "float64" else "float32"]
    sums = 3 * (terms + 4) * compute * terms if terms <= 256 else 64 * compute * terms
    bound = 0.0 if exact else sums + 2 * _UNIT[dtype] * float(numpy.abs(a).max(initial=0.0))
    worst = float(numpy.abs(a - b).max()) if a.size else 0.0
    return "" if worst <= bound else f"differs by {worst:.3g}, may by {bound:.3g}"
