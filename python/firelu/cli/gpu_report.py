"""`firelu doctor --gpu-report`: what one GPU does with firelu, as a file and as a summary to paste into an issue."""

from __future__ import annotations

import ctypes
import json
import pathlib
import time
from collections.abc import Callable
from typing import Any

import firelu
import numpy

__all__ = ["gpu_report", "summary"]

_REPEATS = 20
_SHAPE = (1, 8, 256, 256)
_Filter = dict[str, int]
_PADDED: _Filter = {"pad_x0": 2, "pad_x1": 1, "pad_y0": 2, "pad_y1": 1}
_CASES: list[tuple[str, str, list[tuple[int, ...]], dict[str, Any]]] = [
    ("LeakyRelu", "LeakyRelu", [_SHAPE], {"alpha": 0.2}),
    ("FusedLeakyRelu", "FusedLeakyRelu", [_SHAPE, (_SHAPE[1],)], {}),
    ("Add", "Add", [_SHAPE, _SHAPE], {}),
    ("ReduceSum", "ReduceSum", [_SHAPE], {"axes": [0, 2, 3]}),
    ("UpFirDn2d blur", "UpFirDn2d", [_SHAPE, (4, 4)], _PADDED),
    ("UpFirDn2d up 2", "UpFirDn2d", [_SHAPE, (4, 4)], {**_PADDED, "up_x": 2, "up_y": 2}),
    ("UpFirDn2d down 2", "UpFirDn2d", [_SHAPE, (4, 4)], {**_PADDED, "down_x": 2, "down_y": 2}),
]


class _Driver:
    """The driver library itself, for what firelu does not offer: events, streams and graphs."""

    def __init__(self) -> None:
        firelu.Tensor([0.0], device="cuda:0")  # starts the driver
        self.library = ctypes.CDLL("libcuda.so.1")
        context = ctypes.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self.call("cuCtxSetCurrent", context)

    def call(self, name: str, *arguments: Any) -> None:
        code = getattr(self.library, name)(*arguments)
        if code != 0:
            raise firelu.DeviceError(f"cuda:0: {name}: error {code}")

    def made(self, name: str, *arguments: Any) -> ctypes.c_void_p:
        handle = ctypes.c_void_p()
        self.call(name, ctypes.byref(handle), *arguments)
        return handle

    def milliseconds(self, work: Callable[[], object], repeats: int) -> float:
        """Time work on the default stream, by events around all repeats."""
        first, last, elapsed = self.made("cuEventCreate", 0), self.made("cuEventCreate", 0), ctypes.c_float()
        self.call("cuEventRecord", first, None)
        for _ in range(repeats):
            work()
        self.call("cuEventRecord", last, None)
        self.call("cuEventSynchronize", last)
        self.call("cuEventElapsedTime", ctypes.byref(elapsed), first, last)
        for event in (first, last):
            self.call("cuEventDestroy_v2", event)
        return elapsed.value / repeats


class _Lent:
    """Memory of another library that is used on a stream of its own."""

    def __init__(self, tensor: firelu.Tensor, stream: int) -> None:
        self.tensor = tensor
        self.__cuda_array_interface__ = {**tensor.__cuda_array_interface__, "stream": stream}


def gpu_report() -> dict[str, Any]:
    """Run the self-test, and time and try what only a GPU can show, on the first GPU.

    Returns:
        JSON-like: "device", "selftest", "first_use_seconds" by kernel, "bench" rows, "side_stream" and "capture";
        where a part failed, its error as a text.
    """
    status = firelu.cuda_status()
    if not status["usable"]:
        raise firelu.DeviceError(f"cuda:0: {status['reason']}")
    report: dict[str, Any] = {"firelu": firelu.__version__, "driver": status["driver"], "device": status["devices"][0]}
    driver = _Driver()
    parts: dict[str, Callable[[_Driver], Any]] = {
        "first_use_seconds": _first_use,
        # Before the self-test, which uses every kernel.
        "capture": _capture,
        "selftest": lambda _: firelu.cuda_selftest(),
        "bench": _bench,
        "side_stream": _side_stream,
    }
    for name, part in parts.items():
        try:
            report[name] = part(driver)
        except firelu.FireluError as error:
            report[name] = {"error": str(error)}
    driver.call("cuCtxSetCurrent", None)
    return report


def _inputs(shapes: list[tuple[int, ...]], dtype: str) -> list[firelu.Tensor]:
    generator = numpy.random.default_rng(0)
    return [firelu.Tensor(generator.uniform(-1, 1, shape), dtype=dtype, device="cuda:0") for shape in shapes]


def _first_use(_: _Driver) -> dict[str, float]:
    """Time the first call of each operator on little memory: the driver compiles its kernels."""
    seconds = {}
    for label, name, shapes, args in _CASES:
        small = [(*shape[:2], 8, 8) if len(shape) == 4 else shape for shape in shapes]
        inputs = _inputs(small, "float32")
        start = time.perf_counter()
        firelu.run_operator(name, *inputs, **args).to("cpu")
        seconds[label] = time.perf_counter() - start
    return seconds


def _bench(driver: _Driver) -> list[dict[str, Any]]:
    """Time each operator by events, and as a multiple of a copy of the bytes that it reads and writes."""
    rows = []
    for dtype in ("float32", "float16"):
        for label, name, shapes, args in _CASES:
            inputs = _inputs(shapes, dtype)

            def work(name: str = name, inputs: list[firelu.Tensor] = inputs, args: dict[str, Any] = args) -> Any:
                return firelu.run_operator(name, *inputs, **args)

            size = {"float32": 4, "float16": 2}[dtype]
            moved = size * (sum(each.size for each in inputs) + work().size)
            copied = driver.made("cuMemAlloc_v2", ctypes.c_size_t(moved))
            half = ctypes.c_size_t(moved // 2)
            target = ctypes.c_uint64((copied.value or 0) + moved // 2)

            def copy(target: Any = target, source: Any = copied, half: Any = half) -> None:
                driver.call("cuMemcpyDtoDAsync_v2", target, source, half, None)

            driver.call("cuMemsetD8Async", copied, ctypes.c_uint8(0), ctypes.c_size_t(moved), None)
            copy()
            milliseconds, of_copy = driver.milliseconds(work, _REPEATS), driver.milliseconds(copy, _REPEATS)
            driver.call("cuMemFree_v2", copied)
            copies = milliseconds / of_copy if of_copy > 0 else None
            rows.append({"case": label, "dtype": dtype, "milliseconds": milliseconds, "copies": copies})
    return rows


def _side_stream(driver: _Driver) -> str:
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


def _capture(driver: _Driver) -> str:
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


def summary(report: dict[str, Any]) -> str:
    """Write a report as text for people."""
    device = report["device"]
    lines = [
        f"firelu {report['firelu']}, {report['driver']}, {device.get('name')} ({device.get('compute_capability')})"
    ]
    selftest = report["selftest"]
    lines.append(f"self-test: {selftest.get('error') or str(selftest['comparisons']) + ' results agree'}")
    first = report["first_use_seconds"]
    for label, seconds in first.items():
        lines.append(f"first use: {seconds}" if label == "error" else f"first use of {label}: {seconds:.2f} s")
    if isinstance(report["bench"], list):
        for row in report["bench"]:
            copies = "no copy timed" if row["copies"] is None else f"{row['copies']:.2f} copies"
            lines.append(f"{row['case']}, {row['dtype']}: {row['milliseconds']:.4f} ms, {copies}")
    else:
        lines.append(f"bench: {report['bench']['error']}")
    lines += [f"{name.replace('_', ' ')}: {report[name]}" for name in ("side_stream", "capture")]
    return "\n".join(lines)


def write(report: dict[str, Any], path: str) -> None:
    """Write a report as JSON."""
    pathlib.Path(path).write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


def problems(report: dict[str, Any]) -> list[str]:
    """Give what went wrong, a text each; empty where all is well."""
    parts = {name: report[name] for name in ("selftest", "first_use_seconds", "bench")}
    found = [f"{name}: {part['error']}" for name, part in parts.items() if isinstance(part, dict) and "error" in part]
    tried = {name: report[name] for name in ("side_stream", "capture")}
    return found + [f"{name}: {part}" for name, part in tried.items() if part not in ("right", "goes on")]
