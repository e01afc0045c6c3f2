"""Whole programs: `python -m firelu.compat`, and the module that torchvision removed."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import textwrap

import firelu.compat
import pytest

PROGRAM = """
    import json, sys
    import helper  # beside the program

    assert __name__ == "__main__"
    assert sys.modules["__main__"].__dict__ is globals()
    import torch
    value = helper.fused_leaky_relu(torch.tensor([[-1.0]]), torch.zeros(1)).item()
    print(json.dumps([sys.argv, round(value, 4), __file__]))
    if sys.argv[1:] == ["--raise"]:
        raise RuntimeError("from the program")
    sys.exit(7)
"""
HELPER = """
    def fused_leaky_relu(input, bias, negative_slope=0.25, scale=2.0):
        raise RuntimeError("the slow formula ran")
"""
TORCHVISION = {
    "torchvision/__init__.py": "",
    "torchvision/transforms/__init__.py": "from . import functional",
    "torchvision/transforms/functional.py": "def rgb_to_grayscale(img, num_output_channels=1):\n    return 'grey'\n",
}

ASKS = "from torchvision.transforms.functional_tensor import rgb_to_grayscale\nprint(rgb_to_grayscale(None))\n"


@pytest.fixture
def folder(tmp_path):
    for name, text in {"program.py": PROGRAM, "helper.py": HELPER}.items():
        (tmp_path / name).write_text(textwrap.dedent(text), encoding="utf-8")
    return tmp_path


def run(*arguments, cwd):
    """Run the command in a folder."""
    return subprocess.run(
        [sys.executable, "-m", "firelu.compat", *arguments], cwd=cwd, capture_output=True, text=True, check=False
    )


def test_a_program_runs_as_it_would_alone(folder):
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    done = run(os.path.join("..", "program.py"), "--torchvision", "-m", "x", cwd=elsewhere)
    assert done.returncode == 7, done.stderr
    script = str(folder / "program.py")
    assert json.loads(done.stdout) == [[script, "--torchvision", "-m", "x"], -0.5, script]


def test_a_folder_runs_as_it_would_alone(folder):
    (folder / "program.py").rename(folder / "__main__.py")
    done = run(str(folder), "one", cwd=folder.parent)
    assert done.returncode == 7, done.stderr
    assert json.loads(done.stdout)[0][1:] == ["one"]


def test_a_program_that_raises_is_seen_to(folder):
    done = run("program.py", "--raise", cwd=folder)
    assert done.returncode == 1
    assert done.stderr.endswith("RuntimeError: from the program\n")


def test_a_module_runs_as_it_would_alone(folder):
    done = run("-m", "program", "--help", cwd=folder)
    assert done.returncode == 7, done.stderr
    arguments, value, file = json.loads(done.stdout)
    assert (arguments[1:], value) == (["--help"], -0.5)
    assert arguments[0] == file == str(folder / "program.py")


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        ([], 2, "the script or module to run is missing"),
        (["--nonsense", "program.py"], 2, "unrecognized arguments: --nonsense"),
        (["missing.py"], 2, "firelu.compat: missing.py: no such file\n"),
        (["-m", "missing.module"], 1, "firelu.compat: no module named missing.module\n"),
    ],
)
def test_what_cannot_run_is_named(folder, arguments, status, message):
    done = run(*arguments, cwd=folder)
    assert done.returncode == status
    assert message in done.stderr
    assert "Traceback" not in done.stderr


LATER = """
    import sys
    {hidden} = None
    import firelu.compat

    firelu.compat.install()
    {then}
"""


@pytest.mark.parametrize(
    ("hidden", "then"),
    [
        ("sys.modules['setuptools']", "pass  # which only those need who compile"),
        ("nothing", "from torch.utils.cpp_extension import load\n    assert load('upfirdn2d', {sources}).upfirdn2d"),
    ],
)
def test_the_compiler_is_served_when_it_is_imported(hidden, then, folder):
    then = then.format(sources=["upfirdn2d.cpp", "upfirdn2d_kernel.cu"])
    script = textwrap.dedent(LATER.format(hidden=hidden, then=then))
    subprocess.run([sys.executable, "-c", script], check=True, cwd=folder)


def test_without_torch_it_says_what_is_missing(folder):
    script = (
        "import sys; sys.modules['torch'] = None; from firelu.compat.__main__ import main; sys.exit(main(['x.py']))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=folder, check=False)
    assert done.returncode == 1
    assert done.stderr == 'firelu.compat needs torch 2.6 or later: pip install "firelu[torch]"\n'


def test_help(folder):
    done = run("--help", cwd=folder)
    assert done.returncode == 0
    assert "script.py | -m module" in done.stdout


@pytest.fixture
def torchvision(tmp_path, monkeypatch):
    """Stand in for torchvision: its public names, without the module that went."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
        monkeypatch.delitem(sys.modules, name)
    for name, text in TORCHVISION.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path / "torchvision"
    firelu.compat.uninstall()
    for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
        del sys.modules[name]


def functional_tensor():
    return importlib.import_module("torchvision.transforms.functional_tensor")


def test_the_removed_module_is_lent_where_asked_for(torchvision):
    with firelu.compat.install(), pytest.raises(ModuleNotFoundError):
        functional_tensor()
    finders = list(sys.meta_path)
    with firelu.compat.install(torchvision=True):
        assert functional_tensor().rgb_to_grayscale(None) == "grey"
        assert "functional_tensor" in vars(sys.modules["torchvision.transforms"])
        with firelu.compat.uninstall(), pytest.raises(ModuleNotFoundError):
            functional_tensor()
        assert functional_tensor().rgb_to_grayscale(None) == "grey"
    assert sys.meta_path == finders
    assert "functional_tensor" not in vars(sys.modules["torchvision.transforms"])
    with pytest.raises(ModuleNotFoundError):
        functional_tensor()


def test_a_program_meets_the_removed_module(tmp_path):
    """Without a word from the user: basicsr imports it, and does not run otherwise."""
    for name, text in {**TORCHVISION, "asks.py": ASKS}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    assert run("asks.py", cwd=tmp_path).stdout == "grey\n"
    refused = run("--no-torchvision", "asks.py", cwd=tmp_path)
    assert refused.returncode == 1
    assert refused.stderr.endswith("No module named 'torchvision.transforms.functional_tensor'\n")


def test_it_can_be_asked_for_later(torchvision):
    first = firelu.compat.install()
    assert firelu.compat.install(torchvision=True) is first
    assert functional_tensor().rgb_to_grayscale(None) == "grey"


def test_a_module_that_is_there_is_not_lent(torchvision):
    (torchvision / "transforms" / "functional_tensor.py").write_text("own = True\n", encoding="utf-8")
    importlib.invalidate_caches()
    with firelu.compat.install(torchvision=True):
        assert functional_tensor().own


def test_the_doctor_advises_where_a_project_needs_it(torchvision, monkeypatch):
    from firelu.compat import status as _  # noqa: F401 - the function; its module is beside it

    module = sys.modules["firelu.compat.status"]
    monkeypatch.setattr(module, "_projects", lambda: {"basicsr": "1.4.2"})
    assert "install(torchvision=True)" in firelu.compat.doctor()
    with firelu.compat.install(torchvision=True):
        assert "install(torchvision=True)" not in firelu.compat.doctor()
    monkeypatch.setattr(module, "_projects", dict)
    assert "torchvision" not in firelu.compat.doctor()
