"""Which devices there are, and whether the shipped CUDA kernels compute on this machine what the CPU computes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy

from ._firelu import (
    Tensor,
    as_strided,
    bfloat16_of_bits,
    bits_of_bfloat16,
    cuda_status,
    get_cpu_level,
    get_num_threads,
    operators,
    run_operator,
    schema,
    set_cuda_wide_indices,
)
from .errors import DeviceError

__all__ = ["cuda_selftest", "devices"]

_DTYPES = ("float16", "bfloat16", "float32", "float64")
_UNIT = {"float16": 2.0**-11, "bfloat16": 2.0**-8, "float32": 2.0**-24, "float64": 2.0**-53}
_LAYOUTS = ("row-major", "channels-last", "strided")
_ACTIVATIONS = ("linear", "relu", "lrelu", "tanh", "sigmoid", "elu", "selu", "softplus", "swish")
_ONE = (1, 1, 2, 2)

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
    """Run every CUDA kernel that ships on a device, in every dtype, and compare with the CPU.

    Each operator runs on memory in several orders, with indices of 32 and of 64 bits. Element-wise results must be the
    same bits; sums must agree within the bound of their rounding. Needs nothing beyond numpy. Returns the device's
    description and the number of comparisons; raises `DeviceError` with the first disagreements. Takes a few seconds.
    """
    disagreements: list[str] = []
    comparisons = 0
    covered: set[str] = set()
    try:
        for wide in (False, True):
            set_cuda_wide_indices(wide)
            for dtype, layout, (name, shapes, args) in _runs(wide):
                comparisons += 1
                covered.add(name)
                if complaint := _compare(device, dtype, layout, name, shapes, args):
                    disagreements.append(f"{name} {dtype} {layout} {shapes} {args}: {complaint}")
    finally:
        set_cuda_wide_indices(False)
    if disagreements:
        shown = "\n".join(disagreements[:10])
        raise DeviceError(f"{device}: {len(disagreements)} of {comparisons} comparisons disagree:\n{shown}")
    status = cuda_status()
    description: dict[str, Any] = next((each for each in status["devices"] if each["device"] == device), {})
    return {**description, "driver": status["driver"], "comparisons": comparisons, "operators": sorted(covered)}


def _runs(wide: bool) -> Iterator[tuple[str, str, _Case]]:
    """Yield dtypes, layouts and operators; indices of 64 bits make a difference to strided kernels alone."""
    for dtype in _DTYPES:
        for layout in ("strided",) if wide else _LAYOUTS:
            # One shape has every form of the kernels that take any strides.
            for case in _cases(plain=layout == "row-major"):
                yield dtype, layout, case
        for case in _filters(_ONE, _ONE, 161, {"pad_x0": 80, "pad_x1": 80, "pad_y0": 80, "pad_y1": 80}):
            # More taps than any tile's window holds.
            yield dtype, "row-major", case
    for dtype in _DTYPES:
        # Short rows of neighbours: the lanes of a warp read one.
        yield dtype, "row-major", ("ReduceSum", [(5, 64)], {"axes": [1]})
        # Long columns of them: one reads its own.
        yield dtype, "row-major", ("ReduceSum", [(600, 40)], {"axes": [0]})
    if not wide:
        for dtype in _DTYPES:
            # Channels side by side, on enough pixels for blocks that go down columns.
            yield dtype, "channels-last", ("FusedLeakyRelu", [(1, 64, 128, 128), (64,)], {})
        for case in _large_cases():
            for dtype in ("float16", "float32"):
                yield dtype, "row-major", case


def _large_cases() -> Iterator[_Case]:
    """Yield what takes several waves of blocks, and rows that a loader reads in its long form."""
    yield "LeakyRelu", [(1 << 22,)], {"alpha": 0.2}
    for shape in ((1, 2, 256, 256), (1, 1, 512, 512)):
        yield "UpFirDn2d", [shape, (4, 4)], {"pad_x0": 2, "pad_x1": 1, "pad_y0": 2, "pad_y1": 1}


def _cases(*, plain: bool = True) -> Iterator[_Case]:
    """Yield operators with the shapes of their inputs; each kernel that ships is used by one of them."""
    planes, small, odd = (1, 8, 32, 32), (2, 16, 4, 4), (1, 3, 5, 7)
    for shape in (planes, small, odd) if plain else (small, odd):
        channels = (shape[1],)
        yield "LeakyRelu", [shape], {"alpha": 0.2}
        yield "LeakyReluGradient", [shape, shape], {"alpha": 0.2}
        yield "FusedLeakyRelu", [shape, channels], {}
        yield "FusedLeakyReluGradient", [shape, shape, channels], {}
        yield "FusedLeakyReluGradient", [shape, None, channels], {}
        for act in _ACTIVATIONS if plain else _ACTIVATIONS[2:4]:
            yield "BiasAct", [shape, channels], {"act": act, "clamp": 0.75}
            for order in (1, 3):
                yield "BiasActGradient", [shape, shape, channels], {"act": act, "order": order}
            yield "BiasActGradient", [shape, shape, None], {"act": act, "clamp": 0.75}
        for beta, logscale in ((channels, True), (None, False)):
            waves: list[tuple[int, ...] | None] = [shape, channels, beta]
            yield "Snake", waves, {"logscale": logscale}
            yield "SnakeGradient", [shape, *waves], {"logscale": logscale}
            yield "SnakeDerivative", [shape, *waves], {"logscale": logscale, "order_x": 2, "order_alpha": 1}
        yield "Sum", [shape] * 9, {}
        for name in ("Add", "Sub", "Mul"):
            yield name, [shape, shape], {}
            yield name, [shape, (shape[1], 1, 1)], {}
        yield "ReduceSum", [shape], {"axes": [0, 2, 3], "scale": 0.5}
        yield "ReduceSum", [shape], {"axes": [1]}
        yield "ReduceSum", [shape], {}
        yield "BroadcastLike", [(shape[1], 1, 1), shape], {"scale": 0.5}
        yield "BroadcastLike", [shape, shape], {"scale": 0.5}
        filters = ((1, 1, 4), (2, 1, 4), (1, 2, 4), (3, 2, 5))
        for up, down, taps in filters if shape is planes else filters[:3]:
            args = {"up_x": up, "up_y": up, "down_x": down, "down_y": down, "gain": 1.5}
            args |= {"pad_x0": taps // 2, "pad_x1": taps, "pad_y0": taps // 2 + 1, "pad_y1": taps - 1}
            height, width = ((n * up + taps // 2 + taps - taps) // down + 1 for n in shape[2:])
            yield from _filters(shape, (*shape[:2], height, width), taps, args)
        padding = {"pad_x0": 2, "pad_x1": 2, "pad_y0": 2, "pad_y1": 2, "border": "reflect"}
        yield from _filters(shape, shape, 5, padding)
    yield "FusedLeakyReluGradient", [(1, 64, 32, 32), (1, 64, 32, 32), (64,)], {}
    for name in operators():
        if "cuda" in schema(name).devices:
            for shapes, args in schema(name).examples:
                yield name, shapes, args


def _filters(shape: tuple[int, ...], out: tuple[int, ...], taps: int, args: dict[str, Any]) -> Iterator[_Case]:
    """Yield a filter and its gradients."""
    yield "UpFirDn2d", [shape, (taps, taps)], args
    yield "UpFirDn2dGradient", [out, (taps, taps), shape], args
    yield "UpFirDn2dKernelGradient", [shape, out, (taps, taps)], args


def _values(shape: tuple[int, ...], seed: int) -> numpy.ndarray[Any, Any]:
    return numpy.random.default_rng(seed).uniform(-1, 1, shape)


def _tensor(values: numpy.ndarray[Any, Any], dtype: str) -> Tensor:
    """Make a tensor on the CPU; numpy alone has no bfloat16, and rounds to it by its bits here."""
    if dtype != "bfloat16":
        return Tensor(values, dtype=dtype)
    bits = numpy.ascontiguousarray(values, numpy.float32).view(numpy.uint32)
    return bfloat16_of_bits(((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(numpy.uint16))


def _array(tensor: Tensor) -> numpy.ndarray[Any, Any]:
    """Give the values of a tensor on the CPU as float64."""
    if tensor.dtype != "bfloat16":
        return numpy.asarray(tensor).astype(numpy.float64)
    bits = bits_of_bfloat16(tensor).astype(numpy.uint32) << 16
    values: numpy.ndarray[Any, Any] = bits.view(numpy.float32).astype(numpy.float64)
    return values


def _on_device(values: numpy.ndarray[Any, Any], dtype: str, layout: str, device: str) -> Tensor:
    """Make a tensor on a device in memory of some order."""
    shape = values.shape
    if layout == "channels-last" and len(shape) == 4:
        _, c, h, w = shape
        moved = _tensor(numpy.ascontiguousarray(values.transpose(0, 2, 3, 1)), dtype).to(device)
        return as_strided(moved, shape, (c * h * w, 1, w * c, c))
    if layout == "strided" and shape:
        # Every other element along the last axis, and rows with a gap between them.
        spread = numpy.zeros((*shape[:-1], 2 * shape[-1] + 1))
        spread[..., : 2 * shape[-1] : 2] = values
        strides = [int(numpy.prod(spread.shape[axis + 1 :])) for axis in range(len(shape))]
        return as_strided(_tensor(spread, dtype).to(device), shape, (*strides[:-1], 2))
    return _tensor(values, dtype).to(device)


def _compare(
    device: str, dtype: str, layout: str, name: str, shapes: list[tuple[int, ...] | None], args: dict[str, Any]
) -> str:
    """Run one operator on both devices; return a complaint or the empty string."""
    values = [None if shape is None else _values(shape, seed) for seed, shape in enumerate(shapes)]
    expected = run_operator(name, *[x if x is None else _tensor(x, dtype) for x in values], **args)
    there = [x if x is None else _on_device(x, dtype, layout, device) for x in values]
    got = run_operator(name, *there, **args)
    for place, (want, have) in enumerate(zip(_tuple(expected), _tuple(got), strict=True)):
        a, b = _array(want), _array(have.to("cpu"))
        if complaint := _disagreement(a, b, dtype, exact=_is_exact(name, place), terms=_terms(name, shapes)):
            return complaint
    return ""


def _tuple(result: Any) -> tuple[Any, ...]:
    return result if isinstance(result, tuple) else (result,)


def _is_exact(name: str, place: int) -> bool:
    """Tell whether both devices do the same operations in the same order."""
    return not (
        name.startswith(("UpFirDn2d", "ReduceSum", "FilteredActGradient"))
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
