"""The messages of docs/troubleshooting.md are those that firelu gives."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import firelu
import numpy as np
import pytest
from firelu.diffusion import make_ddim_sampling_parameters

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
MESSAGES = re.findall(r"^### `(.+)`$", PAGE, re.MULTILINE)
IMAGE = np.ones((2, 3, 4, 4), np.float32)


def torch_tensor():
    torch = pytest.importorskip("torch")
    firelu.leaky_relu(torch.ones(3))


def read_only():
    target = np.ones(3)
    target.setflags(write=False)
    firelu.leaky_relu(np.ones(3), out=target)


def registered_twice():
    for _ in range(2):
        firelu.register_operator("MySquare", lambda x: x * x, ["X"], ["Y"])


def another_shape():
    firelu.register_operator("MyHalve", lambda x: x[::2], ["X"], ["Y"], replace=True)
    firelu.run_operator("MyHalve", np.ones(4))


def inside_a_net():
    workspace = firelu.Workspace()
    workspace.feed("X", np.ones(2, np.float32))
    workspace.feed("B", np.float64(2))
    make = firelu.create_operator
    workspace.run([make("LeakyRelu", ["X"], ["A"]), make("Mul", ["A", "B"], ["C"])])


def without_a_gradient():
    firelu.register_operator("MyLogistic", lambda x: 1 / (1 + np.exp(-x)), ["X"], ["Y"], replace=True)
    firelu.run_operator("MyLogistic", firelu.Tensor([1.0], requires_grad=True)).backward()


def backward_twice():
    x = firelu.Tensor([1.0], requires_grad=True)
    y = x * x
    y.backward()
    y.backward()


def steps_that_overshoot():
    make_ddim_sampling_parameters(np.linspace(0.9, 0.1, 1000), [1, 1000], 0.0, verbose=False)


RAISED = {
    "LeakyRelu: X: got int64,": lambda: firelu.leaky_relu(np.arange(3)),
    "UpFirDn2d: X: got uint8,": lambda: firelu.filter2d(np.zeros((3, 8, 8), np.uint8), firelu.make_kernel([1, 1])),
    "LeakyRelu: X: got torch.Tensor,": torch_tensor,
    "resample: x: got (480, 640, 3),": lambda: firelu.resample(np.zeros((480, 640, 3), np.uint8), 1, 2),
    "FusedLeakyRelu: B: got (4,),": lambda: firelu.fused_leaky_relu(IMAGE, np.zeros(4, np.float32)),
    "FusedLeakyRelu: B: got float64,": lambda: firelu.fused_leaky_relu(IMAGE, np.zeros(3)),
    "UpFirDn2d: X: got (2, 2),": lambda: firelu.upfirdn2d(np.ones((2, 2)), np.ones((3, 3))),
    "UpFirDn2d: pad:": lambda: firelu.upfirdn2d(IMAGE, np.ones((2, 2)), pad=(1, 2, 3)),
    "LeakyRelu: out:": read_only,
    "unknown operator": lambda: firelu.run_operator("LeekyRelu", IMAGE),
    "LeakyRelu: alhpa:": lambda: firelu.run_operator("LeakyRelu", IMAGE, alhpa=0.1),
    "MySquare: name:": registered_twice,
    "MyHalve: Y:": another_shape,
    "Mul (step 1:": inside_a_net,
    "MyLogistic: no gradient": without_a_gradient,
    "Mul: no gradient": backward_twice,
    "make_ddim_sampling_parameters:": steps_that_overshoot,
}
PRINTED = {
    "FIRELU_NUM_THREADS:": ({"FIRELU_NUM_THREADS": "abc"}, "import firelu"),
    "cuda:0: no CUDA": ({}, "import firelu; firelu.Tensor([1.0], device='cuda:0')"),
    "firelu demo: needs": (
        {},
        "import sys; sys.modules['matplotlib'] = None; from firelu.cli import main; main(['demo', '-o', '.'])",
    ),
}


def test_every_message_has_its_case():
    cases = [*RAISED, *PRINTED]
    assert len(MESSAGES) == len(cases)
    for message in MESSAGES:
        assert len([case for case in cases if message.startswith(case)]) == 1, message


def message_of(case: str) -> str:
    return next(message for message in MESSAGES if message.startswith(case))


@pytest.mark.parametrize("case", RAISED)
def test_what_is_raised(case):
    with pytest.raises((firelu.FireluError, ValueError)) as failed:
        RAISED[case]()
    assert str(failed.value) == message_of(case)


@pytest.mark.parametrize("case", PRINTED)
def test_what_is_printed(case, tmp_path):
    settings, code = PRINTED[case]
    if case.startswith("cuda") and firelu.cuda_status()["driver"]:
        pytest.skip("this machine has a CUDA driver")
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=os.environ | settings,
        capture_output=True,
        text=True,
        check=False,
    )
    assert message_of(case) in done.stderr
