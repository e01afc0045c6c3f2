"""Resampling as image libraries do it: the same kernel against the same kernel, in float32 planes and in uint8.

``python -m firelu.bench.resampling_cases --write docs/resample.md`` writes this machine's table of that page, beside
those of others; with ``--only``, the rows that contain a text, such as "uint8" or "| cubic |", beside those that stand
there.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from .._firelu import get_cpu_level, get_num_threads
from ..resampling import resample
from .measure import Array, Case, Run
from .peers import installed
from .report import processor

Build = Callable[[bool], Case]

FACTORS = ((1, 2), (1, 3), (2, 3), (2, 1), (4, 1))
SIDE = 2048
# The names that others have for the kernels.
_PILLOW = {"box": "BOX", "triangle": "BILINEAR", "cubic": "BICUBIC", "lanczos3": "LANCZOS"}
_TORCH = {"triangle": "bilinear", "cubic": "bicubic"}


def planes_peers(x: Array, size: tuple[int, int], kernel: str) -> dict[str, Run]:
    """Give the resizing of (C, H, W) float32 to a height and width, by those who have the kernel."""
    peers: dict[str, Run] = {}
    if kernel == "box" and (cv2 := installed("cv2")):
        peers["OpenCV INTER_AREA"] = lambda: np.stack(
            [cv2.resize(plane, size[::-1], interpolation=cv2.INTER_AREA) for plane in x]
        )
    if kernel in _TORCH and (functional := installed("torch.nn.functional")):
        tensor = installed("torch").from_numpy(x)[None]
        peers["torch antialias"] = lambda: functional.interpolate(tensor, size, mode=_TORCH[kernel], antialias=True)[
            0
        ].numpy()
    if image := installed("PIL.Image"):
        pictures, name = [image.fromarray(plane) for plane in x], getattr(image, _PILLOW[kernel])
        peers["Pillow"] = lambda: np.stack([np.asarray(each.resize(size[::-1], name)) for each in pictures])
    if kernel == "lanczos3" and (cv2 := installed("cv2")):
        # Eight taps whatever the factor: shrinking aliases.
        peers["OpenCV INTER_LANCZOS4"] = lambda: np.stack(
            [cv2.resize(plane, size[::-1], interpolation=cv2.INTER_LANCZOS4) for plane in x]
        )
    # These two have kernels of their own, which alias or blur: their time is what people spend today.
    if kernel == "cubic" and (transform := installed("skimage.transform")):
        peers["scikit-image resize"] = lambda: transform.resize(x, (len(x), *size), order=3, anti_aliasing=True)
    if kernel == "cubic" and (ndimage := installed("scipy.ndimage")):
        zoom = (1, size[0] / x.shape[1], size[1] / x.shape[2])
        peers["scipy zoom"] = lambda: ndimage.zoom(x, zoom, order=3, mode="grid-constant", grid_mode=True)
    return peers


def pixels_peers(x: Array, size: tuple[int, int], kernel: str) -> dict[str, Run]:
    """Give the resizing of (H, W, 3) uint8 to a height and width."""
    peers: dict[str, Run] = {}
    if image := installed("PIL.Image"):
        picture, name = image.fromarray(x), getattr(image, _PILLOW[kernel])
        peers["Pillow"] = lambda: np.asarray(picture.resize(size[::-1], name))
    if kernel == "box" and (cv2 := installed("cv2")):
        peers["OpenCV INTER_AREA"] = lambda: cv2.resize(x, size[::-1], interpolation=cv2.INTER_AREA)
    if kernel in _TORCH and (functional := installed("torch.nn.functional")):
        tensor = installed("torch").from_numpy(x).permute(2, 0, 1)[None]
        peers["torch antialias"] = lambda: (
            functional.interpolate(tensor, size, mode=_TORCH[kernel], antialias=True)[0].permute(1, 2, 0).numpy()
        )
    if kernel == "lanczos3" and (cv2 := installed("cv2")):
        # Eight taps whatever the factor: shrinking aliases.
        peers["OpenCV INTER_LANCZOS4"] = lambda: cv2.resize(x, size[::-1], interpolation=cv2.INTER_LANCZOS4)
    return peers


def _case(name: str, x: Array, axes: tuple[int, int], factor: tuple[int, int], kernel: str, peers: Any) -> Case:
    out = np.empty_like(resample(x, *factor, axes=axes, kernel=kernel))
    size = out.shape[axes[0]], out.shape[axes[1]]
    return Case(
        name,
        x.nbytes + out.nbytes,
        lambda: resample(x, *factor, axes=axes, kernel=kernel, out=out),
        lambda: resample(x, *factor, axes=axes, kernel=kernel),
        peers(x, size, kernel) if peers else {},
    )


def resampling_cases(side: int = SIDE) -> Iterator[tuple[str, Build]]:
    """Yield the cases by name."""
    for kernel in _PILLOW:
        for up, down in FACTORS:
            name = f"resample {kernel} {up}/{down}"

            def planes(
                with_peers: bool, name: str = name, kernel: str = kernel, up: int = up, down: int = down
            ) -> Case:
                x = np.random.default_rng(0).random((3, side, side), np.float32)
                return _case(name, x, (1, 2), (up, down), kernel, planes_peers if with_peers else None)

            def pixels(
                with_peers: bool, name: str = name, kernel: str = kernel, up: int = up, down: int = down
            ) -> Case:
                x = np.random.default_rng(0).integers(0, 255, (side, side, 3), np.uint8)
                return _case(f"{name} uint8", x, (0, 1), (up, down), kernel, pixels_peers if with_peers else None)

            yield name, planes
            yield f"{name} uint8", pixels


# Away from the border, where others leave taps out, and within which the widest kernel here ends.
_MARGIN = 64
_START, _END = "<!-- table: start -->", "<!-- table: end -->"


def _error(result: Array, exact: Array, axes: tuple[int, int], margin: int) -> float:
    """Give the root of the mean square of the differences inside."""
    inside = [slice(None)] * exact.ndim
    for axis in axes:
        inside[axis] = slice(margin, -margin)
    difference = np.asarray(result, np.float64)[tuple(inside)] - exact[tuple(inside)]
    return float(np.sqrt(np.mean(difference**2)))


def _ratio(ours: Run, theirs: Run, turns: int) -> tuple[float, float, float]:
    """Give the median of our time over theirs, turn by turn, and both medians in milliseconds."""
    ours(), theirs()
    times: list[tuple[float, float]] = []
    for _ in range(turns):
        start = time.perf_counter()
        ours()
        middle = time.perf_counter()
        theirs()
        times.append((middle - start, time.perf_counter() - middle))
    mine, other = zip(*times, strict=True)
    return median(a / b for a, b in times), 1e3 * median(mine), 1e3 * median(other)


def table(side: int, turns: int, only: str = "") -> Iterator[str]:
    """Yield the rows that contain a text: times on a picture of this side, errors on a smaller one."""
    rng = np.random.default_rng(0)
    kinds: list[tuple[str, tuple[int, int], Any, Callable[[int], Array]]] = [
        ("float32 planes", (1, 2), planes_peers, lambda n: rng.random((3, n, n), np.float32)),
        ("uint8 pixels", (0, 1), pixels_peers, lambda n: rng.integers(0, 256, (n, n, 3), np.uint8)),
    ]
    for kind, axes, peers, make in kinds:
        large, small = make(side), make(min(side, 384))
        for (up, down), kernel in itertools.product(FACTORS, _PILLOW):
            ours = partial(resample, up=up, down=down, axes=axes, kernel=kernel)
            sizes = [tuple(-(-x.shape[axis] * up // down) for axis in axes) for x in (large, small)]
            fast, checked = peers(large, sizes[0], kernel), peers(small, sizes[1], kernel)
            rows = {name: f"| {kind} | {up}/{down} | {kernel} | {name} |" for name in fast}
            rows = {name: row for name, row in rows.items() if only in row}
            if not rows:
                continue
            exact = ours(small.astype(np.float64))
            if small.dtype == np.uint8:
                exact = exact.clip(0, 255)
            margin = max(2, _MARGIN * up // down // 2)
            mine = _error(ours(small), exact, axes, margin)
            for name, row in rows.items():
                slow = name.startswith(("scikit", "scipy"))
                ratio, us, them = _ratio(partial(ours, large), fast[name], 1 if slow else turns)
                their = _error(checked[name](), exact, axes, margin)
                yield f"{row} {us:.1f} | {them:.1f} | {ratio:.2f} | {mine:.2g} | {their:.2g} |"


_HEAD = [
    "| | factor | kernel | against | ours, ms | theirs, ms | ours / theirs | our error | their error |",
    "|---|---|---|---|---|---|---|---|---|",
]


def _named(row: str) -> str:
    """Give what a row is about."""
    return "|".join(row.split("|")[:5])


def _summary(rows: Iterable[str]) -> str:
    """Say how many times firelu's time each library took, over all rows of a table."""
    ratios: dict[str, list[float]] = {}
    for row in rows:
        _, _, _, _, against, ours, theirs, *_ = (cell.strip() for cell in row.split("|"))
        # Times are written to a tenth of a millisecond: smaller ones count as half of that.
        ratios.setdefault(against.split()[0], []).append(float(theirs) / max(float(ours), 0.05))
    spans = (f"{library} {_plain(min(found))} to {_plain(max(found))}" for library, found in ratios.items())
    return f"Times of other libraries, as multiples of firelu's: {', '.join(spans)}."


def _plain(number: float) -> str:
    return f"{number:.0f}" if number >= 10 else f"{number:.1f}"


def merged(page: str, rows: list[str], machine: str) -> str | None:
    """Put rows on a page, in the table of a machine: in the place of those about the same, or behind the others."""
    before, _, rest = page.partition(_START)
    old, found, after = rest.partition(_END)
    if not found:
        return None
    tables: dict[str, dict[str, str]] = {}
    current = ""
    for line in old.splitlines():
        if line.startswith("Measured on "):
            current = line
        elif current and line.count("|") == _HEAD[0].count("|") and line not in _HEAD:
            tables.setdefault(current, {})[_named(line)] = line
    tables.setdefault(machine, {}).update({_named(row): row for row in rows})
    lines = [before + _START, ""]
    for heading, table_rows in tables.items():
        kinds = sorted({row.split("|")[1] for row in table_rows})
        ordered = [row for kind in kinds for row in table_rows.values() if row.split("|")[1] == kind]
        lines += [heading, _summary(ordered), "", *_HEAD, *ordered, ""]
    return "\n".join([*lines, _END + after])


def main(arguments: list[str]) -> int:
    """Print the table, or write it between its marks on a page."""
    parser = argparse.ArgumentParser(prog="python -m firelu.bench.resampling_cases", description=__doc__)
    parser.add_argument("--side", type=int, default=SIDE, help=f"the side of the images ({SIDE})")
    parser.add_argument("--turns", type=int, default=7, help="how many turns (7)")
    parser.add_argument("--only", default="", metavar="TEXT", help='only rows with this text, such as "uint8"')
    parser.add_argument("--write", type=Path, metavar="PAGE", help="a page with the marks of the table")
    options = parser.parse_args(arguments)
    print("\n".join(_HEAD))
    lines = []
    for line in table(options.side, options.turns, options.only):
        print(line, flush=True)
        lines.append(line)
    if options.write:
        about = f"{processor()}, {get_cpu_level()}, {get_num_threads()} threads, side {options.side}"
        machine = f"Measured on {about}."
        page = merged(options.write.read_text(encoding="utf-8"), lines, machine)
        if page is None:
            parser.error(f"{options.write} has no marks {_START} and {_END}")
        options.write.write_text(page, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
