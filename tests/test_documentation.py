"""Every Python block of the documentation runs, and every link to a file has one."""

from __future__ import annotations

import doctest
import importlib
import importlib.util
import inspect
import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import firelu
import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
PROCESSES = re.compile(r"^<!-- processes: (\d+) -->$", re.MULTILINE)
FENCE = re.compile(r"^(?:<!-- needs: (\w+) -->\n)?```([\w{}-]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
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


SHOWN = re.compile(r"^( *)print\((.+)\)  # (.+)$", re.MULTILINE)


def checked(text: str) -> str:
    """Give a block whose ``print(...)  # text`` lines fail where they print something else than the comment says."""

    def check(match: re.Match[str]) -> str:
        printed = f"__import__('io').StringIO() as _shown: print({match[2]}, file=_shown)"
        return f"{match[1]}with {printed}; assert _shown.getvalue().strip() == {match[3]!r}, _shown.getvalue()"

    return SHOWN.sub(check, text)


def run_blocks(page: Path, found: list[tuple[int, str]], directory: Path) -> None:
    """Run the blocks of a page in turn, in a process of their own: a block may use what stands above it. A page may
    say that it takes several processes.
    """
    lines: list[str] = []
    for start, text in found:
        lines += [""] * (start - len(lines)) + checked(text).splitlines()  # a traceback then has the page's own lines
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


def test_a_wrong_comment_is_found():
    exec(checked("print(1 + 1)  # 2"))
    with pytest.raises(AssertionError, match="2"):
        exec(checked("print(1 + 1)  # 3"))
    with pytest.raises(AssertionError, match="2"):
        exec(checked("if True:\n    print(1 + 1)  # 3"))


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


FENCES = [(page, match) for page in PAGES for match in FENCE.finditer(page.read_text(encoding="utf-8"))]
NEEDS = list(dict.fromkeys((page, match[1]) for page, match in FENCES if match[1]))


@pytest.mark.parametrize(("page", "module"), NEEDS, ids=[f"{page.name}-{module}" for page, module in NEEDS])
def test_python_blocks_with_a_need_run(page, module, tmp_path):
    if not has(module):
        pytest.skip(f"{module} is not installed, and a block of {page.name} needs it")
    run_blocks(page, blocks(page, "python", module), tmp_path)


@pytest.mark.parametrize("page", PAGES, ids=ids(PAGES))
def test_links_to_files_have_one(page):
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    if page.name == "README.md":
        assert not LINK.findall(text)
        assert len(re.findall(REPOSITORY.pattern, text)) > 10
        text = REPOSITORY.sub("", text)
    missing = [target for target in LINK.findall(text) if not (page.parent / target).exists()]
    assert not missing


GROUPS = ["Start", "Guides", "Reference", "Internals"]


def navigation() -> dict[str, list[tuple[str, str]]]:
    """Give the titles and files of the pages of each group of the site: the tables of its first page."""
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    parts = re.split(r"^## (\w+)$", index, flags=re.MULTILINE)
    pages = [re.findall(r"\| \[(.+?)\]\(([\w-]+\.md)\) \|", part) for part in parts[2::2]]
    return dict(zip(parts[1::2], pages, strict=True))


def test_every_page_is_in_the_navigation():
    assert list(navigation()) == GROUPS
    named = [page for pages in navigation().values() for _, page in pages]
    assert sorted([*named, "index.md"]) == sorted(page.name for page in (ROOT / "docs").glob("*.md"))


def test_the_site_has_the_navigation_of_its_first_page():
    settings = runpy.run_path(str(ROOT / "docs" / "conf.py"))
    trees = settings["navigation"]((ROOT / "docs" / "index.md").read_text(encoding="utf-8"))
    assert re.findall(r"^:caption: (\w+)$", trees, re.MULTILINE) == GROUPS
    listed = re.findall(r"^(.+) <([\w-]+)>$", trees, re.MULTILINE)
    assert [(title, f"{page}.md") for title, page in listed] == [
        pair for each in navigation().values() for pair in each
    ]


@pytest.mark.parametrize("group", GROUPS)
def test_the_readme_names_the_pages_of_the_navigation(group):
    """In the same order, by the same titles."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    paragraph = re.split(rf"^\*\*{group}\*\*: ", readme, flags=re.MULTILINE)[1].partition("\n\n")[0]
    links = re.findall(rf"\[(.+?)\]\({REPOSITORY.pattern}docs/([\w-]+\.md)\)", paragraph)
    assert links == navigation()[group]


def run_on(processor: str, date: str, slower: float, *cases: str, beside: bool = True) -> dict[str, Any]:
    """A run of the benchmarks as its file has it: torch takes ``slower`` times firelu's time, scipy ten times that."""
    timed = {"copy_seconds": 1.0, "with_out_seconds": 1.0, "allocating_seconds": 1.0, "ratio": 1.0, "goal": None}
    timed |= {"allocating_ratio": slower, "of_forward": None, "limits": None, "ratios_at_best": [1.0, 1.0]}
    peers = {"scipy upfirdn": 10 * slower} if beside else {}
    in_torch = [{"name": name, "seconds": {"torch eager": slower, "firelu.torch": 1.0}} for name in cases]
    return {
        "date": date,
        "machine": {"processor": processor, "threads": 2, "level": "avx2", "non_temporal_bytes": 1 << 20},
        "cases": [timed | {"name": name, "peers_seconds": peers} for name in cases],
        "torch": {"new": in_torch} if beside else {},
    }


def test_the_newest_run_of_each_kind_and_machine_counts():
    writer = runpy.run_path(str(ROOT / "docs" / "write_performance.py"))
    quick = ("fused forward", "blur 4x4")
    own = run_on("own", "2026-01-02", 4, *quick, "up 3")
    others = [
        run_on("b", "2026-01-05", 6, *quick),
        run_on("b", "2026-01-03", 7, *quick),  # older
        run_on("b", "2026-01-03", 8, *quick, "up 3", beside=False),
        run_on("b", "2026-01-04", 9, *quick, "up 3", beside=False),
        run_on("c", "2026-01-01", 2, *quick),
        run_on("own", "2026-01-03", 5, *quick),  # newer than the whole run
    ]
    summary = writer["summary_section"]([own, *others])
    rows = [line.split(" | ")[:2] for line in summary.splitlines() if ", 2 threads, avx2" in line]
    assert [(row[0][2:3], row[1][:3]) for row in rows] == [("o", "5.0"), ("b", "6.0"), ("c", "2.0")]
    tables = [writer["other_machine_section"](run) for run in writer["tabulated"](own, others)]
    assert [re.findall(r"Compared with a copy: (\w+)", text) for text in tables] == [["b"], ["c"]]
    assert "2026-01-04" in tables[0]
    assert "up 3" in tables[0]
    assert "quick" not in tables[0]
    assert "A quick run" in tables[1]

    before = (
        "| time on a CPU: old |\n| derivatives |\n\nTimes are multiples of firelu's, once\nupon a time.\n\nThe rest.\n"
    )
    text = writer["readme_section"](before, [own, *others])
    assert "| time on a CPU: bias + leaky ReLU | **1** | – | 2 to 6 | – |\n" in text
    assert "| time on a CPU: upfirdn2d | **1** | – | 2 to 6 (the fastest formula) | 20 to 60 |\n| derivatives |" in text
    assert "own with 2 threads, b with 2 threads and c with 2 threads." in text
    assert '"5.0 times faster than torch, 50 times faster than scipy".\n\nThe rest.\n' in text
    assert "old" not in text
    assert "once" not in text


def test_the_readme_quotes_figures_that_were_measured():
    writer = runpy.run_path(str(ROOT / "docs" / "write_performance.py"))
    runs = [writer["results"](), *writer["others_results"]()]
    assert len({run["machine"]["processor"] for run in runs}) > 1  # more than one machine
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert writer["readme_section"](readme, runs) == readme
    assert all(run["machine"]["processor"] in readme for run in runs if run["torch"])


def test_the_drop_in_page_has_the_figures_that_were_measured():
    writer = runpy.run_path(str(ROOT / "docs" / "write_dropin.py"))
    text = writer["PAGE"].read_text(encoding="utf-8")
    assert writer["tables"](writer["results"]()) in text
    assert writer["page"](text, writer["results"]()) == text


WIDEST = {"pages": 112, "docstrings": 106}  # columns that fit the site's column on a screen of 1280 pixels


@pytest.mark.parametrize("page", PAGES, ids=ids(PAGES))
def test_code_fits_the_column(page):
    wide = [line for _, text in blocks(page, "python") for line in text.splitlines() if len(line) > WIDEST["pages"]]
    assert not wide


def test_examples_of_docstrings_fit_the_column():
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "python" / "firelu").rglob("*.py")]
    examples = [line.strip() for text in sources for line in re.findall(r"^ *(?:>>>|\.\.\.) .*$", text, re.MULTILINE)]
    assert len(examples) > 100
    assert not [line for line in examples if len(line) > WIDEST["docstrings"]]


PACKAGE = ROOT / "python" / "firelu"
WITH_EXAMPLES = sorted(
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")
    for path in PACKAGE.rglob("*.py")
    if re.search(r"^ *>>> ", path.read_text(encoding="utf-8"), re.MULTILINE)
)


@pytest.mark.parametrize("module", WITH_EXAMPLES)
def test_examples_of_docstrings_run(module):
    if module.startswith(("firelu.torch", "firelu.diffusion")) and not has("torch"):
        pytest.skip("torch is not installed, and the examples need it")
    if module.startswith("firelu.dask") and not (has("dask") and has("zarr")):
        pytest.skip("dask or zarr is not installed, and the examples need it")
    result = doctest.testmod(importlib.import_module(module))
    assert not result.failed
    assert result.attempted or module == "firelu.cuda"  # whose answer depends on the machine


def test_every_public_name_is_in_the_reference():
    """Whole modules by `automodule`, single names by `autofunction` and `autoclass`."""
    text = "".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs").glob("reference*.md"))
    single = set(re.findall(r"auto(?:function|class):: (?:firelu\.)?(\w+)$", text, re.MULTILINE))
    modules = [importlib.import_module(name) for name in re.findall(r"automodule:: ([\w.]+)$", text, re.MULTILINE)]
    listed = single.union(*(vars(module) for module in modules))
    values = {"Argument", "Input", "Output"}  # parts of OpSchema, described there
    assert sorted(set(firelu.__all__) - listed - values - {"__version__", "kernels", "nn"}) == []


def test_the_performance_page_is_what_its_figures_give():
    writer = runpy.run_path(str(ROOT / "docs" / "write_performance.py"))
    assert (ROOT / "docs" / "performance.md").read_text(encoding="utf-8") == writer["page"](writer["results"]())


def documented() -> list[tuple[str, object]]:
    """Give every function and class that the reference shows, by its name."""
    found: dict[str, object] = {}
    for page in (ROOT / "docs").glob("reference*.md"):
        text = page.read_text(encoding="utf-8")
        for name in re.findall(r"auto(?:function|class):: (?:firelu\.)?(\w+)$", text, re.MULTILINE):
            found[f"firelu.{name}"] = getattr(firelu, name)
        for name, members in re.findall(r"automodule:: ([\w.]+)\n   :members:(.*)$", text, re.MULTILINE):
            if name.startswith(("firelu.torch", "firelu.compat", "firelu.diffusion")) and not has("torch"):
                continue
            if name.startswith("firelu.dask") and not (has("dask") and has("zarr")):
                continue
            module = importlib.import_module(name)
            own = [each for each, value in vars(module).items() if getattr(value, "__module__", None) == name]
            chosen = [each.strip() for each in members.split(",") if each.strip()]
            names = chosen or getattr(module, "__all__", None) or [each for each in own if not each.startswith("_")]
            found.update({f"{name}.{each}": getattr(module, each) for each in names})
    kinds = (inspect.isroutine, inspect.isclass)
    return [(name, value) for name, value in sorted(found.items()) if any(kind(value) for kind in kinds)]


# What a file, a configuration or a driver gives may be anything.
ANYTHING = {
    "firelu.compat.load_pickle",
    "firelu.cuda_selftest",
    "firelu.diffusion.configuration.instantiate_from_config",
}


def test_the_reference_has_types():
    """`Any` in a signature tells a reader nothing, and a type checker less."""
    shown = documented()
    assert len(shown) > 90
    untyped = {}
    for name, value in shown:
        members = [value] if inspect.isroutine(value) else [m for k, m in vars(value).items() if not k.startswith("_")]
        for member in [each for each in members if inspect.isfunction(each) and each.__module__.startswith("firelu")]:
            kinds = [str(kind) for kind in member.__annotations__.values()]
            if bad := [kind for kind in kinds if re.search(r"(?<!NDArray\[)\bAny\b", kind)]:
                untyped[name] = bad
    overloaded = {"firelu.diffusion.sampling.extract_into_tensor"}  # its overloads have types
    assert sorted(set(untyped) - ANYTHING - overloaded) == []
    assert set(untyped) >= ANYTHING


def contrast(first: str, second: str) -> float:
    """Give the contrast of two colours, #rrggbb, by the formula of WCAG 2."""

    def luminance(colour: str) -> float:
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    light, dark = sorted((luminance(first), luminance(second)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_coloured_text_can_be_read():
    """Links of the site and of the demo page, on their lightest and darkest grounds: at least 4.5 to 1."""
    assert contrast("#ffffff", "#ff6e42") < 4.5 < contrast("#ffffff", "#000000")
    options = runpy.run_path(str(ROOT / "docs" / "conf.py"))["html_theme_options"]
    page = (ROOT / "python" / "firelu" / "demo" / "page.py").read_text(encoding="utf-8")
    light, dark = re.findall(r"--mark: (#\w{6}); --quiet: (#\w{6})", page)
    for ground, colours in [
        ("#ffffff", [*options["light_css_variables"].values(), *light]),
        ("#f8f9fb", [*options["light_css_variables"].values(), *light]),  # the site's navigation
        ("#202020", [*options["dark_css_variables"].values(), *dark]),
    ]:
        assert all(contrast(ground, colour) >= 4.5 for colour in colours)
