"""`firelu doctor`: what is installed, what would run where, and why."""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import json
import os
import platform
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import firelu
import numpy

from .. import _firelu
from ..bench.report import processor
from ..compat.status import lines as compat_lines
from ..compat.status import status as compat_status
from . import gpu_report
from .terminal import Terminal

if TYPE_CHECKING:
    from argparse import _SubParsersAction

_OPTIONAL = ("ml_dtypes", "torch", "scipy", "matplotlib", "PIL")
_OF_DEMO = ("scipy", "matplotlib", "pillow")
_DISTRIBUTIONS = {"PIL": "pillow"}
_SETTINGS = (
    "FIRELU_NUM_THREADS",
    "FIRELU_CPU_LEVEL",
    "FIRELU_CACHE_BYTES",
    "FIRELU_NON_TEMPORAL_BYTES",
    "OMP_NUM_THREADS",
    "CUDA_VISIBLE_DEVICES",
)
#: The one device on which kernels are loaded to see whether they do: each takes memory for the life of the process.
_FIRST_GPU = "cuda:0"
_NO_CUDA = "none found; the CPU is used, which is fine"


def add_parser(commands: _SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the sub-command."""
    parser = commands.add_parser(
        "doctor",
        help="show versions and CPU/GPU support, and run a self-test",
        description="Show installed versions, which CPU instruction set and GPUs are used and why, and run a short "
        "self-test. The exit status is 1 if something is wrong; a machine without a GPU is fine.",
    )
    parser.add_argument("--json", action="store_true", help="print everything as one JSON object")
    parser.add_argument("--cuda-selftest", action="store_true", help="run every CUDA kernel on the first GPU")
    parser.add_argument(
        "--gpu-report",
        nargs="?",
        const="firelu-gpu-report.json",
        metavar="FILE",
        help="test and time the first GPU; write FILE (%(const)s) and print a summary to paste into an issue",
    )
    parser.add_argument(
        "--compute-sanitizer",
        action="store_true",
        help="with --gpu-report: also run the self-test under compute-sanitizer, which takes minutes",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace, terminal: Terminal) -> int:
    """Examine, print, and answer with the exit status."""
    if options.gpu_report:
        return _report_gpu(options.gpu_report, terminal, sanitize=options.compute_sanitizer)
    report = examine(cuda_selftest=options.cuda_selftest)
    if options.json:
        terminal.line(json.dumps(report, indent=2))
    else:
        _print(report, terminal)
    return 1 if report["problems"] else 0


def _report_gpu(path: str, terminal: Terminal, *, sanitize: bool) -> int:
    try:
        report = gpu_report.gpu_report(sanitize=sanitize)
    except firelu.FireluError as error:
        terminal.line(f"Problem: {error}")
        return 1
    gpu_report.write(report, path)
    terminal.line(gpu_report.summary(report))
    terminal.line(f"The file {path} has all of it; please attach it, good or bad.")
    found = gpu_report.problems(report)
    for problem in found:
        terminal.line(f"Problem: {problem}")
    return 1 if found else 0


def examine(*, cuda_selftest: bool = False) -> dict[str, Any]:
    """Gather everything that `firelu doctor` prints.

    Returns:
        JSON-like: "versions", "cpu", "cuda", "torch", "compat", "operators" and "problems", a list of texts that
        is empty where all is well.
    """
    problems: list[str] = []
    cuda = _cuda(problems, selftest=cuda_selftest)
    report: dict[str, Any] = {
        "versions": _versions(),
        "cpu": _cpu(),
        "cuda": cuda,
        "torch": _torch(problems),
        "compat": compat_status(),
        "operators": {name: _operator(name, cuda) for name in firelu.operators()},
    }
    problems += _ask("environment_problems", [])
    _check_cpu(problems)
    report["problems"] = problems
    return report


def _versions() -> dict[str, str | None]:
    versions: dict[str, str | None] = {
        "firelu": firelu.__version__,
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "numpy": numpy.__version__,
        "system": platform.platform(),
    }
    for name in _OPTIONAL:
        distribution = _DISTRIBUTIONS.get(name, name)
        try:
            versions[distribution] = importlib.metadata.version(distribution)
        except importlib.metadata.PackageNotFoundError:
            versions[distribution] = None
    return versions


def _ask(function: str, otherwise: Any) -> Any:
    """Ask the extension module what only it knows; one of an older build may not."""
    ask = getattr(_firelu, function, None)
    return otherwise if ask is None else ask()


def _cpu() -> dict[str, Any]:
    return {
        "name": processor(),
        "architecture": platform.machine(),
        "cores": os.cpu_count(),
        "threads": firelu.get_num_threads(),
        "threads_source": _ask("num_threads_source", None),
        "non_temporal_stores": _ask("non_temporal_reason", None),
        "level": firelu.get_cpu_level(),
        "levels": firelu.cpu_levels(),
        "memory": firelu.memory_stats(),
        "settings": {name: os.environ[name] for name in _SETTINGS if name in os.environ},
    }


def _cuda(problems: list[str], *, selftest: bool) -> dict[str, Any]:
    status = firelu.cuda_status(load=_FIRST_GPU)
    problems += [f"{each['device']}: {each['reason']}" for each in status["devices"] if each["kernels_load"] is False]
    if selftest:
        try:
            status["selftest"] = firelu.cuda_selftest()
        except firelu.FireluError as error:
            problems.append(f"the self-test of the CUDA kernels: {error}")
    return status


def _torch(problems: list[str]) -> dict[str, Any]:
    try:
        torch: Any = importlib.import_module("torch")
    except ModuleNotFoundError:
        return {"installed": False, "reason": "not installed: pip install 'firelu[torch]'"}
    except (ImportError, OSError) as error:
        problems.append(f"torch is installed but cannot be imported: {error}")
        return {"installed": True, "reason": str(error)}
    found = {
        "installed": True,
        "version": str(torch.__version__),
        "built_for_cuda": torch.version.cuda,
        "cuda_available": bool(torch.cuda.is_available()),
        "threads": int(torch.get_num_threads()),
    }
    try:
        importlib.import_module("firelu.torch")
    except Exception as error:  # a broken bridge is what the doctor is asked about, whatever it raises
        problems.append(f"firelu.torch cannot be imported: {error}")
        return {**found, "bridge": False, "reason": str(error)}
    return {**found, "bridge": True, "reason": "firelu.torch can be imported"}


def _operator(name: str, cuda: dict[str, Any]) -> dict[str, Any]:
    devices = firelu.schema(name).devices
    if "cuda" not in devices:
        reason = "it has no CUDA kernel"
    else:
        reason = "for tensors that are on the GPU" if cuda["usable"] else cuda["reason"]
    return {"cpu": "cpu" in devices, "cuda": "cuda" in devices and cuda["usable"], "cuda_reason": reason}


def _check_cpu(problems: list[str]) -> None:
    """Compute one small known result on every level of the processor."""
    x = numpy.array([-2.0, -0.0, 0.5] * 11, dtype=numpy.float32)
    expected = numpy.where(x > 0, x, numpy.float32(0.2) * x)
    before = firelu.get_cpu_level()
    try:
        for level in firelu.cpu_levels():
            firelu.set_cpu_level(level)
            if not numpy.array_equal(firelu.run_operator("LeakyRelu", x, alpha=0.2), expected):
                problems.append(f"LeakyRelu gives a wrong result at the processor level {level}")
    finally:
        firelu.set_cpu_level(before)


def _print(report: dict[str, Any], terminal: Terminal) -> None:
    good: Callable[[str], str] = lambda text: terminal.style(text, "green")  # noqa: E731
    terminal.heading("Versions")
    terminal.pairs([(name, version or "not installed") for name, version in report["versions"].items()])
    cpu, cuda = report["cpu"], report["cuda"]
    threads = f"{cpu['threads']} of {cpu['cores']}" + (
        f", from {cpu['threads_source']}" if cpu["threads_source"] else ""
    )
    terminal.heading("Processor")
    terminal.pairs(
        [
            ("name", f"{cpu['name']} ({cpu['architecture']})"),
            ("threads", f"{threads} (FIRELU_NUM_THREADS or set_num_threads() change it)"),
            ("level", f"{cpu['level']} (this processor has: {', '.join(cpu['levels'])})"),
            ("non-temporal stores", cpu["non_temporal_stores"] or "unknown"),
            *((name, value) for name, value in cpu["settings"].items()),
        ]
    )
    terminal.heading("CUDA")
    _print_cuda(cuda, terminal)
    terminal.heading("torch")
    if report["torch"]["installed"]:
        terminal.pairs([(name.replace("_", " "), str(value)) for name, value in report["torch"].items()])
    else:
        terminal.paragraph(report["torch"]["reason"])
    terminal.heading("Drop-in (firelu.compat)")
    for text in compat_lines(report["compat"]):
        terminal.paragraph(text)
    terminal.heading("Operators")
    _print_operators(report["operators"], terminal, level=cpu["level"], with_cuda=cuda["usable"])
    terminal.line()
    if not report["problems"]:
        terminal.line(good("All is well."))
        _print_next(report["versions"], terminal)
    for problem in report["problems"]:
        terminal.line(terminal.style("Problem: ", "red") + problem)


def _print_next(versions: dict[str, str | None], terminal: Terminal) -> None:
    """Say what a newcomer may want to do next, on this machine."""
    missing = [name for name in _OF_DEMO if versions[name] is None]
    steps = [
        ("see it", "firelu demo" if not missing else "pip install 'firelu[demo]', then firelu demo"),
        ("measure it", "firelu bench --quick"),
    ]
    if versions["torch"] is None:
        steps.append(("with torch", "pip install 'firelu[torch]', then import firelu.torch"))
    steps.append(("read", "https://firelu.github.io/firelu/quick-start.html"))
    terminal.heading("Next")
    terminal.pairs(steps)


def _print_operators(operators: dict[str, Any], terminal: Terminal, *, level: str, with_cuda: bool) -> None:
    if all(where["cpu"] and (where["cuda"] or not with_cuda) for where in operators.values()):
        places = f"the CPU ({level})" + (" and on CUDA" if with_cuda else "")
        terminal.paragraph(f"all {len(operators)} run on {places}; `firelu ops` lists them")
        return
    titles, rows = [f"cpu ({level})"], {name: ["yes" if where["cpu"] else "no"] for name, where in operators.items()}
    if with_cuda:  # without a GPU each line would say no for the same reason
        titles.append("cuda")
        for name, where in operators.items():
            rows[name].append("yes" if where["cuda"] else f"no: {where['cuda_reason']}")
    terminal.table(("operator", *titles), [(name, *row) for name, row in rows.items()])


def _print_cuda(cuda: dict[str, Any], terminal: Terminal) -> None:
    if not cuda["usable"]:
        # A driver that is there and does not work is worth its reason; no driver at all is how most machines are.
        missing = cuda["reason"].startswith("no CUDA driver library")
        terminal.paragraph(_NO_CUDA if missing else f"not usable: {cuda['reason']}; the CPU is used")
        return
    rows = [("usable", "yes"), ("why", cuda["reason"])]
    if cuda["driver"]:
        rows.append(("driver", cuda["driver"]))
    for each in cuda["devices"]:
        if "name" in each:
            size = each["memory_bytes"] / 2**30
            rows.append(
                (each["device"], f"{each['name']}, compute capability {each['compute_capability']}, {size:.1f} GiB")
            )
        rows.append((f"{each['device']} kernels", each["reason"]))
    if "selftest" in cuda:
        selftest = cuda["selftest"]
        rows.append(("self-test", f"{selftest['comparisons']} results of {len(selftest['operators'])} operators agree"))
    terminal.pairs(rows)
