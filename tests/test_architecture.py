"""The map of docs/architecture.md holds: layers, doors, no import cycles, no heaps of files. Sources are read alone."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

# From the top down: a layer uses what stands to its right, never what stands to its left.
LAYERS = ["python", "graph", "registry", "operators", "resampling", "filters", "devices", "core"]
# The crates of the repository, by the name that others use.
MANIFESTS = [ROOT / "Cargo.toml", *(ROOT / "src").rglob("Cargo.toml"), *(ROOT / "tests").glob("*/Cargo.toml")]
CRATES = {
    re.search(r'^name = "([\w-]+)"', path.read_text(encoding="utf-8"), re.MULTILINE)[1].replace("-", "_"): (
        path.parent / "src" if (path.parent / "src").exists() else path.parent
    )
    for path in [*MANIFESTS, ROOT / "cuda" / "emulator" / "Cargo.toml"]
}

# What only some files may name, and why they.
DOORS = {
    r"\b(pyo3|numpy)::": {r"src/python/((tensor|interop|resampling)/)?\w+\.rs": "the only code that knows Python"},
    r"\bcudarc\b": {r"src/devices/cuda/\w+\.rs": "the only code that talks to the driver"},
    r"\brayon\b": {r"src/devices/cpu/parallel\.rs": "one place decides how work is split between threads"},
    r"\blibc\b": {
        r"src/devices/cpu/memory/mod\.rs": "huge pages are asked for with mmap and madvise",
        r"src/devices/cpu/fork\.rs": "a fork waits for open sections: pthread_atfork",
    },
    r"\b(core|std)::arch\b": {
        r"src/devices/cpu/simd/\w+\.rs": "the lanes of element-wise formulas",
        r"src/devices/cpu/copy\.rs": "copies past the caches, which compute nothing",
        r"src/devices/cpu/float_mode\.rs": "the control word of a thread's arithmetic",
        r"src/filters/levels/\w+\.rs": "the registers of filter loops, a file for each level",
    },
}
MOST_FILES = 18

SKIPPED = re.compile(
    r"""(?P<comment>//[^\n]*|/\*.*?\*/)|(?P<text>\bb?r(?P<hashes>\#*)".*?"(?P=hashes)|b?"(?:\\.|[^"\\])*"|b?'(?:\\.|[^'\\\n])')""",
    re.DOTALL,
)


def closing(code: str, start: int) -> int:
    """Give the place after the brace that closes the one at ``start``."""
    depth = 0
    for place in range(start, len(code)):
        depth += {"{": 1, "}": -1}.get(code[place], 0)
        if depth == 0:
            return place + 1
    raise ValueError("a brace is never closed")


def production(text: str) -> tuple[str, list[str]]:
    """Give Rust code without comments, texts and what is compiled for tests alone, and the modules left out."""
    code = SKIPPED.sub(lambda match: "" if match["comment"] else '""', text)
    tests = []
    while match := re.search(r"#\[cfg\((?:all\()?test\b[^\]]*\]", code):
        end = next(place for place in range(match.end(), len(code)) if code[place] in ";{")
        if module := re.search(r"\bmod (\w+)\s*$", code[match.end() : end]):
            tests.append(module[1])
        end = closing(code, end) if code[end] == "{" else end + 1
        code = code[: match.start()] + code[end:]
    return code, tests


def leaves(tree: str) -> Iterator[tuple[str, str]]:
    """Yield the paths of a ``use``, braces resolved, each with the name it has afterwards."""
    tree = tree.strip()
    if "{" not in tree:
        path, _, name = tree.partition(" as ")
        path = path.strip().removesuffix("::self")
        yield path, name.strip() or path.rpartition("::")[2]
        return
    head, rest = tree.split("{", 1)
    rest, depth, part = rest[: rest.rindex("}")], 0, ""
    for character in rest + ",":
        depth += {"{": 1, "}": -1}.get(character, 0)
        if character == "," and depth == 0:
            if part.strip():
                yield from leaves(head.strip() + part.strip())
            part = ""
        else:
            part += character


@dataclass
class Crate:
    """The files of a crate by their module's path, what each names of the crates, and the root's own names."""

    name: str
    files: dict[tuple[str, ...], Path] = field(default_factory=dict)
    named: dict[tuple[str, ...], set[tuple[str, ...]]] = field(default_factory=dict)
    at_root: dict[str, tuple[str, ...]] = field(default_factory=dict)


def paths_in(code: str) -> Iterator[str]:
    """Yield every path that code names, in ``use`` lines and elsewhere."""
    for tree in re.findall(r"\buse\s+([^;]+);", code):
        yield from (path for path, _ in leaves(tree))
    rest = re.sub(r"\buse\s+[^;]+;", "", code)
    yield from re.findall(r"(?<![\w:])\w+(?:::\w+)+", rest)


def absolute(crate: str, module: tuple[str, ...], children: set[str], path: str) -> tuple[str, ...] | None:
    """Give a path from its crate's name on, or nothing where it names neither a crate of ours nor a module."""
    first, *rest = path.split("::")
    if first in CRATES:
        return (first, *rest)
    if first == "crate":
        return (crate, *rest)
    if first in children:
        return (crate, *module, first, *rest)
    base = list(module)
    if first == "self":
        return (crate, *base, *rest)
    while first == "super" and base:
        base.pop()
        if not rest or rest[0] != "super":
            return (crate, *base, *rest)
        first, *rest = rest
    return None


def read_crate(name: str) -> Crate:
    """Read a crate from its root on, file by file, as the compiler does."""
    crate, folder = Crate(name), CRATES[name]
    waiting = [((), folder / "lib.rs", folder)]
    while waiting:
        module, path, inside = waiting.pop()
        code, tests = production(path.read_text(encoding="utf-8"))
        children = re.findall(r"^(?:pub(?:\([^)]*\))? )?mod (\w+);", code, re.MULTILINE)
        for child in children:
            flat, nested = inside / f"{child}.rs", inside / child / "mod.rs"
            assert child not in tests
            waiting.append(((*module, child), flat if flat.exists() else nested, inside / child))
        found = (absolute(name, module, set(children), each) for each in paths_in(code))
        crate.files[module] = path
        crate.named[module] = {each for each in found if each}
        if not module:
            trees = re.findall(r"\bpub use\s+([^;]+);", code)
            for each, alias in (leaf for tree in trees for leaf in leaves(tree)):
                if target := absolute(name, (), set(children), each):
                    crate.at_root[alias] = target
    return crate


LIBRARY = {name: read_crate(name) for name in CRATES}


def module_of(path: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """Give the crate and the module in which a name stands; a name of a crate's root stands where it comes from."""
    crate = LIBRARY[path[0]]
    if len(path) > 1 and (path[1],) not in crate.files and path[1] in crate.at_root:
        return module_of((*crate.at_root[path[1]], *path[2:]))
    module = path[1:]
    while module not in crate.files:
        module = module[:-1]
    return path[0], module


def layer(crate: str, module: tuple[str, ...]) -> str | None:
    """Give the layer of a module: the folder of src that it stands in. The library's own root has none."""
    path = LIBRARY[crate].files[module].relative_to(ROOT)
    name = Path(path.parts[1]).stem
    return name if path.parts[0] == "src" and name != "lib" else None


def test_the_crates_were_read():
    files = {path for crate in LIBRARY.values() for path in crate.files.values()}
    unread = {path for path in rust_files() if not {"tests", "main"} & set(path.with_suffix("").parts)} - files
    assert not unread, "no module declares these files: remove them, or declare them"
    assert {layer(name, module) for name, crate in LIBRARY.items() for module in crate.files} == {*LAYERS, None}


def test_a_layer_uses_only_what_stands_below_it():
    wrong = []
    for name, crate in LIBRARY.items():
        for module, paths in crate.named.items():
            above = layer(name, module)
            for path in paths:
                below = layer(*module_of(path))
                if above and below and LAYERS.index(above) > LAYERS.index(below):
                    wrong.append(f"{crate.files[module].relative_to(ROOT)} ({above}) names {'::'.join(path)} ({below})")
    order = " → ".join(LAYERS)
    assert wrong == [], f"{order} is the direction: move what is needed down, or the code that needs it up"


def rust_files() -> list[Path]:
    return sorted((ROOT / "src").rglob("*.rs"))


@pytest.mark.parametrize("door", DOORS)
def test_a_dependency_has_one_door(door):
    users = []
    for path in rust_files():
        if "tests" not in path.relative_to(ROOT).parts and re.search(door, production(path.read_text())[0]):
            users.append(path.relative_to(ROOT).as_posix())
    assert users, f"nothing names {door}: drop it from the doors"
    strangers = [path for path in users if not any(re.fullmatch(pattern, path) for pattern in DOORS[door])]
    assert not strangers, f"{door} is named by {', '.join(DOORS[door])} alone: go through them"
    unused = [pattern for pattern in DOORS[door] if not any(re.fullmatch(pattern, path) for path in users)]
    assert not unused, "these no longer need their door: close it"


def cycles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Give the groups of nodes each of which is reached from every other."""
    reached: dict[str, set[str]] = {}
    for start in graph:
        found, waiting = set(), [start]
        while waiting:
            for node in graph.get(waiting.pop(), set()) - found:
                found.add(node)
                waiting.append(node)
        reached[start] = found
    groups = {tuple(sorted(b for b in reached[a] if a in reached.get(b, ()))) for a in graph if a in reached[a]}
    return sorted(list(group) for group in groups)


@pytest.mark.parametrize("name", CRATES)
def test_rust_files_do_not_import_each_other_in_circles(name):
    crate = LIBRARY[name]
    graph: dict[str, set[str]] = {}
    for module, paths in crate.named.items():
        used = {found for other, found in map(module_of, paths) if other == name and found != module}
        # A file of a folder may name what the folder's own file declares for all of them.
        used = {found for found in used if found != module[: len(found)]}
        graph["::".join(module)] = {"::".join(found) for found in used}
    assert cycles(graph) == [], "move what both need into a file of its own, which names neither"


def imported(tree: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """Yield what a module imports while it is imported itself: no functions, nothing for type checkers alone."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            for other in node.orelse:
                yield from imported(ast.Module([other], []))
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from imported(node)


def python_graph(sources: dict[str, tuple[str, bool]]) -> dict[str, set[str]]:
    """Give what each module imports of the others. A source is a text, and whether it is a package's."""
    graph: dict[str, set[str]] = {}
    for name, (text, is_package) in sources.items():
        package = name if is_package else name.rpartition(".")[0]
        graph[name] = set()
        for node in imported(ast.parse(text)):
            if isinstance(node, ast.Import):
                graph[name] |= {alias.name for alias in node.names} & sources.keys()
                continue
            parts = package.split(".")
            base = ".".join(parts[: len(parts) - node.level + 1]) if node.level else ""
            module = ".".join(filter(None, [base, node.module]))
            for alias in node.names:
                inner = f"{module}.{alias.name}"
                graph[name] |= {inner if inner in sources else module} & sources.keys()
        graph[name] -= {name}
    return graph


def test_python_modules_do_not_import_each_other_in_circles():
    sources = {}
    for path in (ROOT / "python" / "firelu").rglob("*.py"):
        parts = path.relative_to(ROOT / "python").with_suffix("").parts
        is_package = parts[-1] == "__init__"
        sources[".".join(parts[:-1] if is_package else parts)] = (path.read_text(encoding="utf-8"), is_package)
    for path in (ROOT / "python" / "firelu").rglob("*.pyi"):
        sources[".".join(path.relative_to(ROOT / "python").with_suffix("").parts)] = ("", False)  # compiled modules
    graph = python_graph(sources)
    assert sum(map(len, graph.values())) > 50
    assert cycles(graph) == [], "move what both need into a module of its own, or import it where it is used"


def test_no_folder_is_a_heap():
    folders: dict[Path, int] = {}
    for path in [*rust_files(), *(ROOT / "cuda").rglob("*.rs"), *(ROOT / "tests").rglob("*.rs")]:
        folders[path.parent] = folders.get(path.parent, 0) + 1
    heaps = {str(path.relative_to(ROOT)): count for path, count in folders.items() if count > MOST_FILES}
    assert heaps == {}, (
        f"more than {MOST_FILES} files have no plan that a reader sees: make folders of what belongs together"
    )


def test_the_reader_of_rust_sees_what_is_there():
    text = """
        use crate::{graph::{self, tape as t}, with_element}; // use crate::hidden;
        const TEXT: &str = "use crate::text; { \\" // ";
        const QUOTE: char = '"';
        #[cfg(test)]
        mod tests { use crate::python; fn f() { if a { b } } }
        #[cfg(test)]
        mod more;
        fn g() -> crate::registry::Table { super::other::call::<'a>(r#"crate::raw { "#) }
    """
    code, tests = production(text)
    assert tests == ["tests", "more"]
    named = {absolute("firelu", ("operators", "add"), set(), path) for path in paths_in(code)} - {None}
    found = {"::".join(path) for path in named if path}
    assert found == {
        "firelu::graph",
        "firelu::graph::tape",
        "firelu::with_element",
        "firelu::registry::Table",
        "firelu::operators::other::call",
    }
    assert module_of(("firelu", "with_element")) == ("firelu_core", ())
    assert module_of(("firelu", "core", "error", "Error")) == ("firelu_core", ("error",))


def test_the_reader_of_python_sees_what_is_there():
    sources = {
        "p": ("from . import a", True),
        "p.a": ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from . import c\nfrom .q import b", False),
        "p.c": ("import p.a", False),
        "p.q": ("", True),
        "p.q.b": ("def f():\n    from .. import a\ntry:\n    from ..c import x\nexcept ImportError:\n    pass", False),
    }
    graph = python_graph(sources)
    assert graph == {"p": {"p.a"}, "p.a": {"p.q.b"}, "p.c": {"p.a"}, "p.q": set(), "p.q.b": {"p.c"}}
    assert cycles(graph) == [["p.a", "p.c", "p.q.b"]]
