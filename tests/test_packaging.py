"""The built wheel, in an environment with nothing else in it and no compiler in reach."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import firelu
import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    tomllib = pytest.importorskip("tomli")

ROOT = Path(__file__).resolve().parents[1]
LARGEST = 4 << 20
CHECK = """
import numpy, firelu
x = numpy.linspace(-1, 1, 3 * 64 * 64, dtype=numpy.float32).reshape(1, 3, 64, 64)
numpy.testing.assert_array_equal(firelu.leaky_relu(x, 0.5), numpy.where(x > 0, x, 0.5 * x))
small = firelu.downsample2d(numpy.ones_like(x), firelu.make_kernel([1, 3, 3, 1]), 2)
numpy.testing.assert_allclose(small[..., 2:-2, 2:-2], 1, rtol=1e-6)
print(firelu.__file__)
"""


def run(*command: object, **options: object) -> str:
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel: one that was built already and is named in FIRELU_WHEEL, or one built as pip would build it."""
    if named := os.environ.get("FIRELU_WHEEL"):
        return Path(named).resolve(strict=True)
    if shutil.which("cargo") is None:
        pytest.skip("cargo is not installed: no wheel can be built")
    directory = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "maturin", "build", "--release", "--out", directory, cwd=ROOT)
    (built,) = directory.glob("*.whl")
    return built


@pytest.mark.full
@pytest.mark.timeout(1800)
def test_the_wheel_works_in_an_empty_environment_without_a_compiler(wheel, tmp_path):
    run(sys.executable, "-m", "venv", tmp_path / "venv")
    bin_directory = tmp_path / "venv" / ("Scripts" if os.name == "nt" else "bin")
    environment = {"PATH": str(bin_directory), "HOME": str(tmp_path)}
    for tool in ("gcc", "cc", "clang", "cargo", "rustc"):
        assert shutil.which(tool, path=environment["PATH"]) is None
    python = bin_directory / "python"
    pip_settings = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
    run(python, "-m", "pip", "install", "--only-binary", ":all:", wheel, env=environment | pip_settings)
    where = run(python, "-c", CHECK, env=environment, cwd=tmp_path)
    assert str(tmp_path) in where
    assert "All is well." in run(bin_directory / "firelu", "doctor", env=environment, cwd=tmp_path)
    assert "UpFirDn2d" in run(python, "-m", "firelu", "ops", env=environment, cwd=tmp_path)


@pytest.mark.full
@pytest.mark.timeout(1800)
def test_the_wheel_is_small_and_holds_what_it_should(wheel):
    assert wheel.stat().st_size < LARGEST
    assert "-abi3-" in wheel.name
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    for wanted in ("firelu/__init__.py", "firelu/py.typed", "firelu/_firelu.pyi", "firelu/cli/doctor.py"):
        assert wanted in names
    assert any("licenses/LICENSE-MIT" in name for name in names)
    assert not [name for name in names if "test" in name or name.endswith((".rs", ".cu"))]


@pytest.mark.full
@pytest.mark.timeout(1800)
def test_the_source_distribution_has_everything_to_build(tmp_path):
    run(sys.executable, "-m", "maturin", "sdist", "--out", tmp_path, cwd=ROOT)
    (archive,) = tmp_path.glob("*.tar.gz")
    shutil.unpack_archive(archive, tmp_path / "unpacked", filter="data")
    (source,) = (tmp_path / "unpacked").iterdir()
    for name in ("Cargo.toml", "Cargo.lock", "pyproject.toml", "README.md", "LICENSE-MIT", "src/lib.rs"):
        assert (source / name).exists(), name
    # Without isolation pip takes the maturin that is here.
    environment = os.environ | {"CARGO_TARGET_DIR": str(ROOT / "target")}
    build = ["wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", tmp_path]
    run(sys.executable, "-m", "pip", *build, archive, cwd=tmp_path, env=environment)
    (built,) = tmp_path.glob("*.whl")
    assert built.stat().st_size < LARGEST


def test_one_version():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    cargo = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))
    assert "version" in project["dynamic"]
    assert cargo["workspace"]["package"]["version"] == firelu.__version__
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert newest
    assert newest[1] == firelu.__version__


def test_the_extras_and_the_command():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert {"torch", "demo", "test", "docs"} <= set(project["optional-dependencies"])
    assert project["scripts"] == {"firelu": "firelu.cli:main"}
