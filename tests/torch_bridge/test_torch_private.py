"""What torch keeps to itself may go: everything works without, each name alone and all together."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from firelu.torch import private

HERE = Path(__file__).resolve().parent
PACKAGE = Path(private.__file__).parent
#: Every path that is looked up, in whatever file.
PATHS = sorted(
    {
        path.replace("{device}", "CPU")
        for file in PACKAGE.rglob("*.py")
        for path in re.findall(r'find\(\s*f?"([^"]+:[^"]+)"', file.read_text())
    }
)


def run(missing: list[str], prelude: str = "") -> str:
    script = HERE / "without_private_names.py"
    code = f"{prelude}\nimport runpy, sys\nsys.argv = [{str(script)!r}, {','.join(missing)!r}]\n"
    code += f"runpy.run_path({str(script)!r}, run_name='__main__')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_name_that_is_gone_is_none():
    assert private.find("torch._C:DispatchKey.CPU") is not None
    assert private.find("torch._C:DispatchKey.Nowhere") is None
    assert private.find("torch._C:_nowhere") is None
    assert private.find("torch._nowhere:anything") is None


def test_this_torch_has_every_name():
    """Else the tests of the other files would run the slower ways unseen."""
    assert len(PATHS) >= 20
    assert [path for path in PATHS if private.find(path) is None] == []


def test_nothing_is_missing():
    assert run([]).split("\n")[0] == "forward mode"


def test_everything_is_missing():
    assert run([path for path in PATHS if "_destroy" not in path]).split("\n")[0] == "no forward mode"


@pytest.mark.full
@pytest.mark.parametrize("path", PATHS)
def test_one_name_is_missing(path):
    run([path])


#: One of each kind, for the quick run: the full run takes them all.
FEW = ["torch._C:_dispatch_tls_local_include_set", "torch.autograd.forward_ad:_current_level"]


@pytest.mark.parametrize("path", FEW)
def test_one_name_of_a_few_is_missing(path):
    assert path in PATHS
    assert run([path]).split("\n")[0] == "forward mode"


@pytest.mark.parametrize("device", ["torch.set_default_device('meta')", "torch.device('meta').__enter__()"])
def test_imported_under_another_default_device(device):
    prelude = f"import torch\n{device}\nimport firelu.torch as ft\ntorch.set_default_device(None)\n"
    code = prelude + (
        "assert ft.leaky_relu(torch.ones(2, device='meta')).is_meta\n"
        "assert ft.leaky_relu(torch.ones(2, device='cpu')).tolist() == [1, 1]\n"
        "from firelu.torch import direct\n"
        "from torch import _C\n"
        "assert _C._dispatch_keys(torch.ones(2, device='cpu')).raw_repr() == direct._CPU\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=250)
