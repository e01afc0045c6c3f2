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
CASES = [(count, name) for count in (2, 3) for name in CHECKS if count == 2 or name not in OF_TWO]


@pytest.fixture(scope="module")
def outcomes(request, tmp_path_factory):
    """Run every check in so many processes; gives the folder with what came of each, and what the processes said."""
    folder = tmp_path_factory.mktemp("processes")
    path = os.pathsep.join([str(WORKER.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    logs = [folder / f"log.{rank}" for rank in range(request.param)]
    processes = []
    try:
        for rank, log in enumerate(logs):
            with log.open("w") as stream:
                command = [sys.executable, str(WORKER), str(rank), str(request.param), str(folder)]
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
    return folder, request.param, "\n".join(log.read_text() for log in logs)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("outcomes", "name"), CASES, indirect=["outcomes"])
def test_processes_give_what_one_gives(outcomes, name):
    folder, count, said = outcomes
    for rank in range(count):
        outcome = folder / f"{name}.{rank}"
        assert outcome.exists(), f"process {rank} of {count} did not come to the end of {name}:\n{said}"
        assert outcome.read_text() == ""
