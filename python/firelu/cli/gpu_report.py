"""`firelu doctor --gpu-report`: what one GPU does with firelu, as a file and as a summary to paste into an issue."""

from __future__ import annotations

import json
import pathlib
import platform
from collections.abc import Callable
from typing import Any

import firelu
import numpy

from . import gpu_parts
from .gpu_driver import Driver

__all__ = ["gpu_report", "problems", "summary", "write"]


def gpu_report(*, sanitize: bool = False) -> dict[str, Any]:
    """Run the self-test, and time and try what only a GPU can show, on the first GPU.

    Args:
        sanitize: also run the self-test under compute-sanitizer, which takes minutes.

    Returns:
        JSON-like: "firelu", "driver", "system", "device", "first_use_seconds" by operator, "capture", "selftest",
        "bench" rows, "side_stream", "torch" and, if asked for, "compute_sanitizer"; where a part failed, a
        dictionary with its "error".
    """
    status = firelu.cuda_status()
    if not status["usable"]:
        raise firelu.DeviceError(f"cuda:0: {status['reason']}")
    described = status["devices"][0]
    report: dict[str, Any] = {
        "firelu": firelu.__version__,
        "driver": status["driver"],
        "system": f"{platform.platform()}, Python {platform.python_version()}, numpy {numpy.__version__}",
        "device": {name: described.get(name) for name in ("name", "compute_capability", "memory_bytes")},
    }
    driver = Driver()
    parts: dict[str, Callable[[], Any]] = {
        "first_use_seconds": gpu_parts.first_use_seconds,
        # Before the self-test, which uses every kernel.
        "capture": lambda: gpu_parts.capture(driver),
        "selftest": gpu_parts.selftest,
        "bench": lambda: gpu_parts.bench(driver),
        "side_stream": lambda: gpu_parts.side_stream(driver),
        "torch": gpu_parts.torch_results,
    }
    if sanitize:
        parts["compute_sanitizer"] = gpu_parts.sanitize
    for name, part in parts.items():
        try:
            report[name] = part()
        except (firelu.FireluError, RuntimeError) as error:  # the second is torch's
            report[name] = {"error": str(error)}
    driver.close()
    return report


def summary(report: dict[str, Any]) -> str:
    """Write a report as text for people."""
    device = report["device"]
    memory = f"{device['memory_bytes'] / 2**30:.1f} GiB" if device["memory_bytes"] else "memory unknown"
    lines = [
        f"firelu {report['firelu']}, driver for {report['driver']}",
        f"{device['name']}, compute capability {device['compute_capability']}, {memory}",
        report["system"],
    ]
    writers: dict[str, Callable[[Any], list[str]]] = {
        "selftest": lambda of: [
            f"self-test: {of['comparisons']} results of {len(of['operators'])} operators agree with the CPU"
        ],
        "first_use_seconds": _first_use_lines,
        "bench": _bench_lines,
        "compute_sanitizer": lambda of: [f"compute-sanitizer, {tool}: {told}" for tool, told in of.items()],
    }
    for name in ("selftest", "side_stream", "capture", "torch", "compute_sanitizer", "first_use_seconds", "bench"):
        label = name.replace("_", " ")
        match report.get(name):
            case None:
                pass
            case {"error": error}:
                lines.append(f"{label}: FAILED: {error}")
            case str(text):
                lines.append(f"{label}: {text}")
            case found:
                lines += writers[name](found)
    return "\n".join(lines)


def _first_use_lines(seconds: dict[str, float]) -> list[str]:
    return [
        "first use, in seconds, of which most is the driver compiling one kernel (its cache is off):",
        *(f"  {label:18} {taken:8.2f}" for label, taken in seconds.items()),
    ]


def _bench_lines(rows: list[dict[str, Any]]) -> list[str]:
    shape = " x ".join(map(str, rows[0]["shape"]))
    lines = [f"time of a call on {shape}; a copy is the time of copying as many bytes as it reads and writes:"]
    for row in rows:
        copies = "no copy timed" if row["copies"] is None else f"{row['copies']:8.2f} copies"
        lines.append(f"  {row['case']:18} {row['dtype']:8} {row['milliseconds']:10.4f} ms {copies}")
    return lines


def write(report: dict[str, Any], path: str) -> None:
    """Write a report as JSON."""
    pathlib.Path(path).write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


def problems(report: dict[str, Any]) -> list[str]:
    """Give what went wrong, a text each; empty where all is well."""
    found = []
    for name, part in report.items():
        told = [part] if isinstance(part, str) else list(part.values()) if isinstance(part, dict) else []
        if isinstance(part, dict) and "error" in part:
            found.append(f"{name}: {part['error']}")
        found += [f"{name}: {text}" for text in told if str(text).startswith(("WRONG", "BROKEN"))]
    return found
