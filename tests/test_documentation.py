"""Every Python block of the documentation runs, and every link to a file has one."""

from __future__ import annotations

import importlib.util
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
PROCESSES = re.compile(r"^<!-- processes: (\d+) -->$", re.MULTILINE)
FENCE = re.compile(r"^(?:<!-- needs: (\w+) -->\n)?```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# The README is also read elsewhere, where only whole addresses lead anywhere.
REPOSITORY = re.compile(r"https://(?:github\.com/firelu/firelu/blob|raw\.githubusercontent\.com/firelu/firelu)/main/")
LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)#\s]+)")


def blocks(page: Path, language: str, *needs: str) -> list[tuple[int, str]]:
    """The fenced blocks of a language: the line each begins at, and its text. A comment before a block may name a
    module that it needs beyond firelu, torch and scipy; such blocks are given where they are asked for.
    """
    text = page.read_text(encoding="utf-8")
    found = [match for match in FENCE.finditer(text) if match[2] == language and (match[1] or "") in ("", *needs)]
    return [(text.count("\n", 0, match.start(3)), match[3]) for match in found]


def ids(pages: list[Path]) -> list[str]:
    return [str(page.relative_to(ROOT)) for page in pages]


def has(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def run_blocks(page: Path, found: list[tuple[int, str]], directory: Path) -> None:
    """Run the blocks of a page in turn, in a process of their own: a block may use what stands above it. A page may
    say that it takes several processes.
    """
    lines: list[str] = []
    for start, text in found:
        lines += [""] * (start - len(lines)) + text.splitlines()  # a traceback then has the page's own lines
    source = "\n".join(lines) + "\n"
    if re.search(r"^\s*(import|from) (torch|firelu\.torch|firelu\.compat)\b", source, re.MULTILINE) and not has(
        "torch"
    ):
        pytest.skip("torch is not installed, and the page's blocks need it")
    script = directory / page.name.replace(".md", "_md.py")
    script.write_text(source, encoding="utf-8")
    processes = PROCESSES.search(page.read_text(encoding="utf-8"))
    starter = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", processes[1]] if processes else []
    done = subprocess.run(
        [sys.executable, *starter, script], cwd=directory, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{page.name}:\n{done.stdout}{done.stderr}"


def test_the_pages_are_found():
    assert sum(len(blocks(page, "python")) for page in PAGES) > 10


@pytest.mark.parametrize("page", PAGES, ids=ids(PAGES))
def test_no_block_escapes(page):
    """A fence that the pattern misses would be a block that nobody runs."""
    text = page.read_text(encoding="utf-8")
    assert len(re.findall(r"^```", text, re.MULTILINE)) == 2 * len(FENCE.findall(text))


@pytest.mark.parametrize("page", PAGES, ids=ids(PAGES))
def test_python_blocks_run(page, tmp_path):
    if found := blocks(page, "python"):
        run_blocks(page, found, tmp_path)


NEEDS = [(page, match[1]) for page in PAGES for match in FENCE.finditer(page.read_text(encoding="utf-8")) if match[1]]


@pytest.mark.parametrize(("page", "module"), NEEDS, ids=[f"{page.name}-{module}" for page, module in NEEDS])
def test_python_blocks_with_a_need_run(page, module, tmp_path):
    if not has(module):
        pytest.skip(f"{module} is not installed, and a block of {page.name} needs it")
    run_blocks(page, blocks(page, "python", module), tmp_path)


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
    if page.name == "README.md":
        assert not LINK.findall(text)
        assert len(re.findall(REPOSITORY.pattern, text)) > 10
        text = REPOSITORY.sub("", text)
    missing = [target for target in LINK.findall(text) if not (page.parent / target).exists()]
    assert not missing


GROUPS = ["Use", "Understand", "Build"]


def navigation() -> dict[str, list[tuple[str, str]]]:
    """Give the titles and files of the pages of each group of the site."""
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    parts = re.split(r"^  - (\w+):\n", text, flags=re.MULTILINE)
    assert parts[0] == "  - Home: index.md\n"
    pages = [re.findall(r"^      - (.+): ([\w-]+\.md)$", part, re.MULTILINE) for part in parts[2::2]]
    return dict(zip(parts[1::2], pages, strict=True))


def test_every_page_is_in_the_navigation():
    assert list(navigation()) == GROUPS
    named = [page for pages in navigation().values() for _, page in pages]
    assert sorted([*named, "index.md"]) == sorted(page.name for page in (ROOT / "docs").glob("*.md"))


@pytest.mark.parametrize("group", GROUPS)
def test_the_lists_of_pages_are_one_list(group):
    """The navigation, the first page and the README name the same pages in the same order by the same titles."""
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    section = re.split(rf"^## {group}$", index, flags=re.MULTILINE)[1].partition("\n## ")[0]
    assert re.findall(r"\| \[(.+?)\]\(([\w-]+\.md)\) \|", section) == navigation()[group]
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    paragraph = re.split(rf"^\*\*{group}\*\*: ", readme, flags=re.MULTILINE)[1].partition("\n\n")[0]
    links = re.findall(rf"\[(.+?)\]\({REPOSITORY.pattern}docs/([\w-]+\.md)\)", paragraph)
    assert links == navigation()[group]


def test_the_performance_page_is_what_its_figures_give():
    writer = runpy.run_path(str(ROOT / "docs" / "write_performance.py"))
    assert (ROOT / "docs" / "performance.md").read_text(encoding="utf-8") == writer["page"](writer["results"]())
