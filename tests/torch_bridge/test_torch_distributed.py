"""Two and three real processes over gloo give what one gives: DDP, FSDP2, DTensor."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
import torch.distributed

if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
    pytest.skip("this build of torch has no gloo", allow_module_level=True)
if torch.__version__.startswith("2.6."):
    reason = "torch 2.6's FSDP2 takes no CPU, and its derivative of a squared partial sum is wrong"
    pytest.skip(reason, allow_module_level=True)

from distributed_worker import CHECKS, OF_TWO

WORKER = Path(__file__).with_name("distributed_worker.py")
SECONDS = 540


def run(count, folder):
    """Run every check in so many processes, which leave what came of each in the folder; gives what they said."""
    path = os.pathsep.join([str(WORKER.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    logs = [folder / f"log.{rank}" for rank in range(count)]
    processes = []
    try:
        for rank, log in enumerate(logs):
            with log.open("w") as stream:
                command = [sys.executable, str(WORKER), str(rank), str(count), str(folder)]
                environment = os.environ | {"PYTHONPATH": path}
                processes.append(subprocess.Popen(command, stdout=stream, stderr=stream, env=environment))
        end = time.monotonic() + SECONDS
        while any(process.poll() is None for process in processes) and time.monotonic() < end:
            if any(process.poll() for process in processes):
                break  # One that fails leaves the others waiting for it.
            time.sleep(0.1)
    finally:
        for process in processes:
            process.kill()
            process.wait()
    return "\n".join(log.read_text() for log in logs)


# One start for all checks: starting takes longer than most of them.
@pytest.mark.timeout(600)
@pytest.mark.parametrize("count", [2, 3])
def test_processes_give_what_one_gives(count, tmp_path):
    said = run(count, tmp_path)
    failures = {}
    for name in (name for name in CHECKS if count == 2 or name not in OF_TWO):
        for rank in range(count):
            outcome = tmp_path / f"{name}.{rank}"
            text = outcome.read_text() if outcome.exists() else "did not come to its end"
            if text:
                failures[f"{name}, process {rank} of {count}"] = text
    assert not failures, said
