"""Importing firelu opens no connection, starts no process and runs no code but its own and numpy's."""

from __future__ import annotations

import itertools
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).parents[2]

AUDIT = """
import sys
import numpy, array_api_compat
events = []
def hook(event, args):
    forbidden = ("socket.", "subprocess.", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork",
                 "urllib.", "http.", "ftplib.", "smtplib.", "ctypes.dlopen", "shutil.", "os.remove", "os.rename",
                 "os.mkdir", "tempfile.", "webbrowser.")
    if event.startswith(forbidden):
        events.append((event, repr(args)[:200]))
    if event == "open" and args[1] is not None and any(letter in str(args[1]) for letter in "wax+"):
        events.append((event, repr(args)[:200]))
    if event == "import" and args[0].split(".")[0] in ("torch", "requests", "ctypes.util"):
        events.append((event, args[0]))
before = set(sys.modules)
sys.addaudithook(hook)
import firelu
firelu.leaky_relu(numpy.ones(3))
print(events)
print(sorted({name.split(".")[0] for name in set(sys.modules) - before}))
"""


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=ROOT)


def test_import_does_no_input_or_output_of_its_own():
    result = run(sys.executable, "-c", AUDIT)
    assert result.returncode == 0, result.stderr
    events, modules = result.stdout.splitlines()
    assert events == "[]"
    foreign = [
        name for name in eval(modules) if name not in sys.stdlib_module_names and name not in ("firelu", "numpy")
    ]
    assert foreign == []


def test_import_needs_no_network():
    # In a network namespace of its own there is not even a loopback.
    program = "import firelu, numpy; print(firelu.leaky_relu(numpy.float32([-1]), 0.5)[0])"
    isolated = run("unshare", "--map-root-user", "--net", sys.executable, "-c", program)
    if isolated.returncode != 0 and "unshare" in isolated.stderr:
        isolated = run(sys.executable, "-c", "import socket; socket.socket = None\n" + program)
    assert isolated.stdout.strip() == "-0.5", isolated.stderr


def terms(expression):
    """The licences of an SPDX expression: every one of an AND, one of an OR is enough."""
    return [
        [part.strip(" ()") for part in re.split(r" OR |/", alternative)]
        for alternative in re.split(r"\bAND\b", expression)
    ]


def test_licences_and_sources_of_all_crates():
    allowed = re.search(r"^allow = \[(.*?)\]", (ROOT / "deny.toml").read_text(), re.DOTALL | re.MULTILINE)
    allowed = set(re.findall(r'"([^"]+)"', allowed.group(1)))
    result = run("cargo", "metadata", "--format-version=1", "--locked", "--offline", "--all-features")
    if result.returncode != 0:
        result = run("cargo", "metadata", "--format-version=1", "--locked", "--all-features")
    assert result.returncode == 0, result.stderr
    packages = json.loads(result.stdout)["packages"]
    assert len(packages) > 20
    for package in packages:
        if package["source"] is not None:
            assert "crates.io-index" in package["source"], package["name"]
        needed = terms(package["license"] or "")
        assert all(set(alternatives) & allowed for alternatives in needed), (package["name"], package["license"])


def test_every_dependency_is_locked_and_has_its_reason():
    manifest = (ROOT / "Cargo.toml").read_text()
    lock = (ROOT / "Cargo.lock").read_text()
    table = r"^\[(?:workspace\.|target\..*\.)?(?:dev-)?dependencies\]\n((?:.+\n)*)"
    tables = re.findall(table, manifest, flags=re.MULTILINE)
    lines = [line for table in tables for line in ("", *table.splitlines())]
    pairs = [(before, line) for before, line in itertools.pairwise(lines) if re.match(r"[a-z]", line)]
    assert len(pairs) > 5
    for before, line in pairs:
        name = line.split("=")[0].strip()
        # The reason stands in the workspace's table, or it is a part of firelu.
        if "workspace = true" in line or "path =" in line:
            continue
        assert f'name = "{name}"' in lock, f"{name} is not locked"
        assert "#" in line or before.startswith("#"), f"{name} has no reason beside it"
    assert (ROOT / "deny.toml").exists()
