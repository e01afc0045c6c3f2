"""What was found, replaced and left alone, as data and as text."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from pathlib import Path
from typing import TypedDict

from .install import current, loaded_modules
from .lending import FUNCTIONAL_TENSOR
from .recognisers import find

_PAGE = "https://firelu.github.io/firelu/compat.html"
#: Distributions that bring those extensions, or use them.
_PROJECTS = ("basicsr", "gfpgan", "facexlib", "realesrgan", "codeformer", "mmcv", "diffusers", "transformers")


class Status(TypedDict):
    """What the drop-in found, replaced and left alone."""

    installed: bool
    replaced: list[dict[str, str]]
    found: list[str]
    left_alone: list[dict[str, str]]
    fallbacks: list[dict[str, str]]
    projects: dict[str, str]
    advice: list[str]


def status() -> Status:
    """Say what the drop-in found, replaced and left alone; needs no torch and imports nothing.

    Returns:
        JSON-like: "installed"; "replaced", a list of {"what", "how"}; "found", what `install` would replace among the
        modules that are imported by now; "left_alone", a list of {"what", "why"}; "fallbacks", the same for calls that
        went to the project's own code; "projects", the versions of the installed distributions that are known to use
        such extensions; "advice", a list of texts.
    """
    replaced = current()
    changes = [] if replaced is None else replaced.transaction.changes
    done = {change.what for change in changes}
    left = {} if replaced is None else dict(replaced.left_alone)
    found = []
    for module in loaded_modules():
        for finding in find(module):
            if finding.why_left:
                left[finding.what] = finding.why_left
            elif finding.what not in done and finding.what not in left:
                found.append(finding.what)
    projects = _projects()
    return {
        "installed": replaced is not None,
        "replaced": [change._asdict() for change in changes],
        "found": found,
        "left_alone": [{"what": what, "why": why} for what, why in left.items()],
        "fallbacks": [] if replaced is None else [{"what": what, "why": why} for what, why in replaced.fallbacks],
        "projects": projects,
        "advice": _advice(projects, lent=replaced is not None and replaced.lends_torchvision),
    }


def doctor() -> str:
    """Say what `install` has replaced or would replace among the imported modules, and what to do about problems."""
    return "\n".join(lines(status()))


def lines(found: Status) -> list[str]:
    """Give a status as lines of text."""
    text = []
    # The finders serve imports to come; a reader looks for what has changed in a project.
    replaced = [change for change in found["replaced"] if change["how"] != "finder"]
    if replaced:
        text.append("firelu.compat is installed and has replaced:")
        text += [f"- {change['what']} ({change['how']})" for change in replaced]
    elif found["installed"]:
        text.append("firelu.compat is installed; none of the imported modules has anything to replace so far.")
    else:
        text.append("off: firelu.compat.install(), or python -m firelu.compat script.py, turns it on.")
        would = ", ".join(found["found"]) or "projects imported later; none is imported yet"
        text.append(f"It would serve {would}.")
    text += [f"Left alone: {each['what']}: {each['why']}." for each in found["left_alone"]]
    text += [f"Left to the project's own code: {each['what']}: {each['why']}." for each in found["fallbacks"]]
    if found["projects"]:
        text.append("Projects here: " + ", ".join(f"{name} {version}" for name, version in found["projects"].items()))
    return [*text, *found["advice"], f"Troubleshooting by error message: {_PAGE}"]


def _projects() -> dict[str, str]:
    found = {}
    for name in _PROJECTS:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _advice(projects: dict[str, str], *, lent: bool) -> list[str]:
    """Name the troubles that this environment has."""
    uses = [name for name in ("basicsr", "gfpgan", "realesrgan") if name in projects]
    if not uses or lent or not _torchvision_lacks_module():
        return []
    return [
        f"{', '.join(uses)}: the torchvision installed here has no {FUNCTIONAL_TENSOR}, which basicsr imports: "
        "use firelu.compat.install(torchvision=True), or python -m firelu.compat."
    ]


def _torchvision_lacks_module() -> bool:
    """Look for the module's file, since importing torchvision takes seconds."""
    try:
        spec = importlib.util.find_spec("torchvision")
    except ValueError:  # somebody put a module without a spec in its place
        return False
    folders = [] if spec is None else list(spec.submodule_search_locations or [])
    return bool(folders) and not any((Path(each) / "transforms" / "functional_tensor.py").exists() for each in folders)
