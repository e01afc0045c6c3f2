"""Every Python block of the documentation runs, and every link to a file has one."""

from __future__ import annotations

import importlib.util
import json
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
# A block "python needs-cuda" or "python as-a-sketch" says why it is not run.
FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)#\s]+)")


def blocks(page: Path, language: str) -> list[tuple[int, str]]:
    """The fenced blocks of a language: the line each begins at, and its text."""
    text = page.read_text(encoding="utf-8")
    found = [match for match in FENCE.finditer(text) if match[1] == language]
    return [(text.count("\n", 0, match.start(2)), match[2]) for match in found]


def ids(pages: list[Path]) -> list[str]:
    return [str(page.relative_to(ROOT)) for page in pages]


def test_the_pages_are_found():
    assert sum(len(blocks(page, "python")) for page in PAGES) > 10


@pytest.mark.parametrize("page", PAGES, ids=ids(PAGES))
def test_python_blocks_run(page, tmp_path):
    """All blocks of a page in turn, in a process of their own: a block may use what stands above it."""
    found = blocks(page, "python")
    if not found:
        return
    lines: list[str] = []
    for start, text in found:
        lines += [""] * (start - len(lines)) + text.splitlines()  # a traceback then has the page's own lines
    source = "\n".join(lines) + "\n"
    if re.search(r"^\s*(import|from) (torch|firelu\.torch)\b", source, re.MULTILINE) and not has("torch"):
        pytest.skip("torch is not installed, and the page's blocks need it")
    script = tmp_path / page.name.replace(".md", "_md.py")
    script.write_text(source, encoding="utf-8")
    done = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{page.name}:\n{done.stdout}{done.stderr}"


def has(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


COMMANDS = [
    (page, line[2:])
    for page in PAGES
    for _, text in blocks(page, "console")
    for line in text.splitlines()
    if re.match(r"\$ firelu (doctor|ops)\b", line)
]


@pytest.mark.parametrize(("page", "command"), COMMANDS, ids=[command for _, command in COMMANDS])
def test_commands_run(page, command, tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", *command.split()], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("page", PAGES, ids=ids(PAGES))
def test_links_to_files_have_one(page):
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    missing = [target for target in LINK.findall(text) if not (page.parent / target).exists()]
    assert not missing


def test_every_page_is_in_the_navigation():
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    named = set(re.findall(r"^\s*- .*?: ([\w-]+\.md)$", navigation, re.MULTILINE))
    assert named == {page.name for page in (ROOT / "docs").glob("*.md")}


def test_the_performance_page_is_what_its_figures_give():
    writer = runpy.run_path(str(ROOT / "docs" / "write_performance.py"))
    results = json.loads((ROOT / "docs" / "performance.json").read_text(encoding="utf-8"))
    assert (ROOT / "docs" / "performance.md").read_text(encoding="utf-8") == writer["page"](results)
