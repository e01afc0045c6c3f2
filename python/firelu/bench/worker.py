"""Measurements that need a process of their own, so that nothing measured before can help or hinder them.

``python -m firelu.bench.worker`` with a job in JSON writes one line of JSON for each result.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

from .._firelu import get_cpu_level, get_num_threads, set_cpu_level, set_num_threads
from . import memory
from .measure import make_malloc_reuse_memory
from .summary import COMPARED


class WorkerError(RuntimeError):
    """A process of measurements failed; the message has its last words."""


def results(job: str, **arguments: Any) -> Iterator[dict[str, Any]]:
    """Run a job in a process of its own, at this process's level and number of threads; give results as they come."""
    order = json.dumps({"job": job, "level": get_cpu_level(), "threads": get_num_threads(), "arguments": arguments})
    with tempfile.TemporaryFile("w+") as complaints:
        command = [sys.executable, "-m", "firelu.bench.worker", order]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=complaints, text=True) as process:
            assert process.stdout is not None
            for line in process.stdout:
                yield json.loads(line)
        if process.returncode != 0:
            complaints.seek(0)
            last = complaints.read().strip().splitlines()[-1:] or [f"exit status {process.returncode}"]
            raise WorkerError(f"{job}: {last[0]}")


def _torch(reuse_memory: bool, rounds: int, filter: str, quick: bool) -> Iterator[dict[str, Any]]:
    if reuse_memory and not make_malloc_reuse_memory():
        raise WorkerError("this system's malloc cannot be told to keep memory")
    import torch

    from . import torch_cases

    torch.set_num_threads(get_num_threads())
    for name, build in torch_cases.all_cases().items():
        if filter in name and (name in COMPARED or not quick):
            yield torch_cases.measure(build(), rounds, compiled=not quick)


def _torch_small_calls() -> Iterator[dict[str, Any]]:
    import torch

    from . import torch_cases

    torch.set_num_threads(get_num_threads())
    yield torch_cases.small_calls()


def _memory(name: str, shrink: int = 1) -> Iterator[dict[str, Any]]:
    yield memory.measure(name, shrink)


_JOBS: dict[str, Callable[..., Iterator[dict[str, Any]]]] = {
    "torch": _torch,
    "torch small calls": _torch_small_calls,
    "memory": _memory,
}


def main(order: str) -> None:
    """Do one job."""
    # Results have the standard output for themselves: what libraries print goes to standard error.
    channel = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    job = json.loads(order)
    set_cpu_level(job["level"])
    set_num_threads(job["threads"])
    for result in _JOBS[job["job"]](**job["arguments"]):
        print(json.dumps(result), file=channel, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
