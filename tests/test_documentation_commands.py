"""Blocks of the documentation that are not Python: commands run, or name what exists; messages are the real ones.

`test_documentation.py` runs the Python blocks; the Rust block is a doc test of the crate.
"""

from __future__ import annotations

import ast
import ctypes
import inspect
import os
import re
import shlex
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import firelu
import firelu.compat
import numpy as np
import pytest
from firelu import cli
from firelu.bench.command import parser as bench_parser
from test_documentation import FENCE, PAGES, ROOT, blocks

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

MAKEFILE_NAMES = [
    "Makefile",
    *re.findall(r"^include (.+)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE),
]
MAKEFILES = "".join((ROOT / name).read_text(encoding="utf-8") for name in MAKEFILE_NAMES)
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_block_is_of_a_kind_that_is_checked(page):
    included = re.findall(r'include_str!\("\.\./(.+?)"\)', (ROOT / "src" / "lib.rs").read_text(encoding="utf-8"))
    for _, language, text in FENCE.findall(page.read_text(encoding="utf-8")):
        assert language in {"python", "rust", "console", "sh", "text", "{eval-rst}"}, f"{page.name}: {text}"
        assert language != "rust" or str(page.relative_to(ROOT)) in included, "a doc test of the crate runs it"
        assert language != "text" or page.name == "emulator.md", "a report of the emulator; nothing to run"


def run(*command: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=cwd, env=os.environ | environment, capture_output=True, text=True, check=False, timeout=300
    )


# What commands do. Each takes the words of one command, in a directory of its own.


def runs_firelu(words: list[str], directory: Path) -> None:
    if words[1] == "resample":
        image = pytest.importorskip("PIL.Image")
        image.fromarray(np.full((30, 60, 3), 200, np.uint8)).save(directory / words[2])
    done = run(sys.executable, "-m", *words, cwd=directory)
    if "--cuda-selftest" in words and not firelu.cuda_status()["usable"]:
        assert done.returncode == 1
        assert "Problem: the self-test of the CUDA kernels: cuda:0: no CUDA" in done.stdout
        return
    assert done.returncode == 0, done.stdout + done.stderr
    assert words[1] != "resample" or (directory / words[3]).exists()


def is_understood(words: list[str], directory: Path) -> None:
    """The demo and the benchmarks take a minute: their own tests run them, here their options are read."""
    options, rest = cli._parser().parse_known_args(words[1:])
    assert options.run.__module__ == f"firelu.cli.{words[1]}"
    assert not bench_parser().parse_known_args(rest)[1]


def is_a_target(words: list[str], directory: Path) -> None:
    for word in words[1:]:
        assert re.search(rf"^\.PHONY:.*\b{word}\b|^{word}:", MAKEFILES, re.MULTILINE), word


def installs(words: list[str], directory: Path) -> None:
    names = [word for word in words[2:] if not word.startswith(("-", "https://"))]
    for name in names:
        distribution, _, extra = name.partition("[")
        assert distribution in {"firelu", "torch"}
        assert all(each in PROJECT["optional-dependencies"] for each in extra.rstrip("]").split(",") if each)


def adds_the_crate(words: list[str], directory: Path) -> None:
    manifest = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))
    assert words == ["cargo", "add", manifest["package"]["name"]]


def clones_the_repository(words: list[str], directory: Path) -> None:
    assert words[2] == PROJECT["urls"]["Repository"]
    assert words[3:] == ["&&", "cd", PROJECT["name"]]


def has_the_emulator(words: list[str], directory: Path) -> None:
    assert words[0].removeprefix("LD_LIBRARY_PATH=") in MAKEFILES


def serves_a_program(words: list[str], directory: Path) -> None:
    """A program of that name says what it was given: `python -m firelu.compat`, and torchrun before it."""
    pytest.importorskip("torch")
    (directory / "package").mkdir()
    text = "import sys, firelu.compat\n"
    text += "words = [str(firelu.compat.status()['installed']), *sys.argv[1:]]\n"
    text += "sys.stdout.write(' '.join(words) + chr(10))  # at once, since processes share the output\n"
    program = next(word for word in words if word.endswith(".py") or word == "package.module")
    for name in (program, "package/module.py", "package/__init__.py"):
        (directory / name).write_text("" if name.endswith("__init__.py") else text, encoding="utf-8")
    starter = ["-m", "torch.distributed.run", *words[1:]] if words[0] == "torchrun" else words[1:]
    done = run(sys.executable, *starter, cwd=directory, OMP_NUM_THREADS="1")
    given = words[words.index(program) + 1 :]
    assert done.stdout.splitlines() == [" ".join(["True", *given])] * (2 if words[0] == "torchrun" else 1), done.stderr


def is_the_distributed_page(words: list[str], directory: Path) -> None:
    """`test_python_blocks_run` starts the page's blocks in that way."""
    processes = re.search(r"<!-- processes: (\d+) -->", (ROOT / "docs" / "distributed.md").read_text(encoding="utf-8"))
    assert processes is not None
    assert words[-2:] == [processes[1], "train.py"]


RULES: dict[str, Callable[[list[str], Path], None]] = {
    r"firelu (doctor|ops|resample)\b": runs_firelu,
    r"firelu (demo|bench)\b": is_understood,
    r"make ": is_a_target,
    r"pip install ": installs,
    r"cargo add ": adds_the_crate,
    r"git clone ": clones_the_repository,
    r"LD_LIBRARY_PATH=": has_the_emulator,
    r"(python|torchrun .*) -m firelu\.compat ": serves_a_program,
    r"torchrun --standalone ": is_the_distributed_page,
}
DROP_IN = "$ python generate.py"  # the README's block has a test of its own


def commands() -> list[tuple[str, str]]:
    found = []
    for page in PAGES:
        for _, text in [
            *blocks(page, "sh"),
            *((at, text) for at, text in blocks(page, "console") if DROP_IN not in text),
        ]:
            lines = [line.removeprefix("$ ") for line in text.splitlines() if not line.startswith(">>> ")]
            found += [(page.name, line) for line in lines]
    return found


@pytest.mark.parametrize(("page", "command"), commands(), ids=[f"{page}: {command}" for page, command in commands()])
def test_commands(page, command, tmp_path):
    rules = [check for pattern, check in RULES.items() if re.match(pattern, command)]
    assert len(rules) == 1, f"no rule for {command!r}, or several"
    rules[0](shlex.split(command, comments=True), tmp_path)


def test_prompts_call_what_exists():
    """Lines of an interpreter whose file nobody can ship: the functions and their keywords are real."""
    lines = [line[4:] for page in PAGES for _, text in blocks(page, "console") for line in text.splitlines()]
    called = 0
    for line in [line for line in lines if "firelu.compat." in line and "=" in line]:
        call = ast.parse(line).body[0].value
        function = getattr(firelu.compat, call.func.attr)
        inspect.signature(function).bind(*call.args, **{each.arg: each.value for each in call.keywords})
        called += 1
    assert called == 1


# The messages of the drop-in page, each raised for real.

PROJECT_FILES = {
    "fused_act/__init__.py": "",
    "fused_act/fused_act.py": """
        try:
            from . import fused_act_ext
        except ImportError:
            pass  # it was never compiled

        def fused_leaky_relu(input, bias, negative_slope=0.2, scale=2**0.5):
            return fused_act_ext.fused_bias_act(input, bias, input.new_empty(0), 3, 0, negative_slope, scale)
    """,
    "generate.py": """
        import torch
        from fused_act.fused_act import fused_leaky_relu

        print(tuple(fused_leaky_relu(torch.zeros(1, 3, 256, 256), torch.zeros(3)).shape))
    """,
}


@pytest.fixture
def project(tmp_path):
    for name, text in PROJECT_FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(textwrap.dedent(text), encoding="utf-8")
    return tmp_path


def test_the_drop_in_block_of_the_readme(project):
    pytest.importorskip("torch")
    (text,) = [text for _, text in blocks(ROOT / "README.md", "console") if DROP_IN in text]
    expected, lines = [], text.splitlines()
    for line in lines:
        if line.startswith("$ "):
            words = shlex.split(line[2:])
            done = run(sys.executable, *words[1:], cwd=project)
            expected += [line, (done.stdout or done.stderr).strip().splitlines()[-1]]
    assert lines == expected


def named_error(function: Callable[[], object]) -> str:
    try:
        function()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    pytest.fail("nothing was raised")


def without_extension(directory: Path) -> str:
    return run(sys.executable, "generate.py", cwd=directory).stderr


def without_cuda(directory: Path) -> str:
    extensions = pytest.importorskip("torch.utils.cpp_extension")
    if extensions.CUDA_HOME is not None:
        pytest.skip("this machine has a CUDA toolkit")
    return named_error(lambda: extensions.CUDAExtension("fused", ["fused.cpp"]))


def without_ninja(directory: Path) -> str:
    extensions = pytest.importorskip("torch.utils.cpp_extension")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(directory))
        return named_error(extensions.verify_ninja_availability)


def with_a_broken_compiler(directory: Path) -> str:
    extensions = pytest.importorskip("torch.utils.cpp_extension")
    (directory / "fused.cpp").write_text("this is not C++", encoding="utf-8")
    (directory / "ninja").write_text("#!/bin/sh\n[ $1 = --version ] && echo 1.12 || exit 1\n", encoding="utf-8")
    (directory / "ninja").chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(directory), prepend=os.pathsep)
        source = str(directory / "fused.cpp")
        return named_error(lambda: extensions.load("fused", [source], build_directory=str(directory)))


def without_a_module_of_torchvision(directory: Path) -> str:
    for name in ("torchvision/__init__.py", "torchvision/transforms/__init__.py"):
        (directory / name).parent.mkdir(exist_ok=True)
        (directory / name).write_text("", encoding="utf-8")
    code = "from torchvision.transforms.functional_tensor import rgb_to_grayscale"
    return run(sys.executable, "-c", code, cwd=directory).stderr


def with_locals_of_a_function(directory: Path) -> str:
    """What basicsr's setup.py relies on: since Python 3.13, `exec` no longer writes to a function's `locals()`."""

    def version() -> str:
        exec("__version__ = '1.4.2'")
        return locals()["__version__"]

    if sys.version_info < (3, 13):
        assert version() == "1.4.2"
        pytest.skip("Python before 3.13 does not raise it")
    return named_error(version)


def with_an_extension_of_another_torch(directory: Path) -> str:
    compiler = shutil.which("cc")
    if compiler is None or sys.platform != "linux":
        pytest.skip("needs a C compiler on Linux")
    (directory / "e.c").write_text("void missing(void); void f(void) { missing(); }", encoding="utf-8")
    library = directory / "fused_act_ext.so"
    subprocess.run([compiler, "-shared", "-fPIC", directory / "e.c", "-o", library], check=True)
    return named_error(lambda: ctypes.CDLL(str(library), mode=os.RTLD_NOW))


MESSAGES: dict[str, Callable[[Path], str]] = {
    "NameError: name 'fused_act_ext' is not defined": without_extension,
    "OSError: CUDA_HOME environment variable is not set": without_cuda,
    "RuntimeError: Ninja is required to load C++ extensions": without_ninja,
    "RuntimeError: Error building extension 'fused'": with_a_broken_compiler,
    "ModuleNotFoundError: No module named 'torchvision.transforms.functional_tensor'": without_a_module_of_torchvision,
    "KeyError: '__version__'": with_locals_of_a_function,
    "undefined symbol": with_an_extension_of_another_torch,
}


def test_every_message_of_the_drop_in_page_has_its_case():
    page = (ROOT / "docs" / "compat.md").read_text(encoding="utf-8")
    part = page.split("## Troubleshooting, by error message")[1].split("\n## ")[0]
    headed = re.findall(r"^### `(.+?)`", part, re.MULTILINE)
    beside = re.findall(r"`((?:\w+Error): [^`]+)`", part)
    assert set(headed) | set(beside) == set(MESSAGES)


@pytest.mark.parametrize("message", MESSAGES)
def test_messages_of_the_drop_in_page_are_real(message, project):
    assert message in MESSAGES[message](project)


def test_the_version_is_the_one_of_the_citation():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.search(r"^version: (.+)$", citation, re.MULTILINE)[1] == firelu.__version__
