"""What the shipped kernels do to memory and arithmetic units, counted by the emulated driver.

    make bench-cuda

Nothing here is a measured time: no GPU is involved. Counted are the PTX instructions, the 32-byte sectors of global
memory against the fewest that hold the operands (each read once, each result written once), and the passes over the
banks of shared memory that the worst access takes for one. Caches are not counted on: what a second block reads again
counts again. From the counts and the public figures of a few GPUs follows the least time a kernel can take there: that
of the scarcest of memory bandwidth and instruction issue. It is marked as derived.
"""

from __future__ import annotations

import argparse
import ctypes
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

LIBRARY = Path(__file__).resolve().parent.parent / "target" / "emulator" / "libcuda.so"
SECTOR = 32
DTYPES = ("float32", "float16", "bfloat16", "float64")

# Public figures: memory bandwidth in GB/s, multiprocessors, boost clock in GHz. Each multiprocessor issues one warp
# instruction on each of its four schedulers a clock.
GPUS = {
    "T4": (320, 40, 1.59),
    "RTX 3060": (360, 28, 1.78),
    "A100 40GB": (1555, 108, 1.41),
    "H100 SXM": (3350, 132, 1.83),
}

# Operator, shapes of the inputs, arguments, and the goal for sectors over the fewest.
BLUR = {"pad_x0": 2, "pad_x1": 1, "pad_y0": 2, "pad_y1": 1}
UP = {"up_x": 2, "up_y": 2, **BLUR}
UP_12 = {"up_x": 2, "up_y": 2, "pad_x0": 6, "pad_x1": 5, "pad_y0": 6, "pad_y1": 5}
DOWN = {"down_x": 2, "down_y": 2, "pad_x0": 1, "pad_x1": 1, "pad_y0": 1, "pad_y1": 1}
CASES: list[tuple[str, list[tuple[int, ...]], dict[str, Any], float]] = [
    ("LeakyRelu", [(1 << 20,)], {}, 1.02),
    ("LeakyReluGradient", [(1 << 20,), (1 << 20,)], {}, 1.02),
    ("FusedLeakyRelu", [(1, 16, 256, 256), (16,)], {}, 1.02),
    ("FusedLeakyRelu", [(1, 512, 64, 64), (512,)], {}, 1.02),
    ("FusedLeakyReluGradient", [(1, 16, 256, 256), (1, 16, 256, 256)], {}, 1.02),
    ("FusedLeakyReluGradient", [(1, 512, 64, 64), (1, 512, 64, 64)], {}, 1.02),
    ("Add", [(1 << 20,), (1 << 20,)], {}, 1.02),
    ("UpFirDn2d blur", [(1, 8, 256, 256), (4, 4)], BLUR, 1.25),
    ("UpFirDn2d blur", [(1, 8, 512, 512), (4, 4)], BLUR, 1.25),
    ("UpFirDn2d up 2", [(1, 8, 128, 128), (4, 4)], UP, 1.25),
    ("UpFirDn2d up 2", [(1, 8, 256, 256), (4, 4)], UP, 1.25),
    ("UpFirDn2d down 2", [(1, 8, 256, 256), (4, 4)], DOWN, 1.25),
    ("UpFirDn2d down 2", [(1, 8, 512, 512), (4, 4)], DOWN, 1.25),
    ("UpFirDn2d up 2, 12 taps", [(1, 8, 256, 256), (12, 12)], UP_12, 1.25),
]


class Counters:
    """The emulated driver's counters of each launch."""

    def __init__(self) -> None:
        # Opened first, it is the library that firelu finds.
        self.library = ctypes.CDLL(str(LIBRARY), mode=ctypes.RTLD_GLOBAL)
        self.seen = 0

    def take(self) -> list[dict[str, Any]]:
        """Return the launches since the last time."""
        read = self.library.firelu_emulator_counters
        read.restype, read.argtypes = ctypes.c_size_t, [ctypes.c_void_p, ctypes.c_size_t]
        buffer = ctypes.create_string_buffer(read(None, 0) + 1)
        read(buffer, len(buffer))
        launches = json.loads(buffer.value.decode())
        new, self.seen = launches[self.seen :], len(launches)
        return new


def in_memory(values: Any, dtype: str) -> Any:
    """Return a tensor that lies in memory as `values` do; numpy itself has no bfloat16."""
    import firelu
    import torch

    return firelu.from_dlpack(torch.from_numpy(values).to(getattr(torch, dtype)))


def measure(counters: Counters, name: str, dtype: str, layout: str, shapes: list[Any], args: Any) -> dict[str, Any]:
    """Run one case and add up its launches."""
    import firelu
    import numpy

    inputs = []
    for seed, shape in enumerate(shapes):
        values = numpy.random.default_rng(seed).uniform(-1, 1, shape)
        if name.startswith("UpFirDn2d") and seed == 1:
            values = numpy.outer(numpy.hanning(shape[0] + 2)[1:-1], numpy.hanning(shape[1] + 2)[1:-1])
        if layout == "channels-last" and len(shape) == 4:
            values = numpy.ascontiguousarray(values.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
        # Filters are kept in float32 where tensors are of a half type.
        is_filter = name.startswith("UpFirDn2d") and seed == 1
        inputs.append(in_memory(values, "float32" if is_filter and dtype != "float64" else dtype).to("cuda:0"))
    counters.take()
    results = firelu.run_operator(name.split()[0], *inputs, **args)
    results = results if isinstance(results, tuple) else (results,)
    results[0].to("cpu")
    size = {"float16": 2, "bfloat16": 2, "float32": 4, "float64": 8}[dtype]
    elements = [int(numpy.prod(t.shape)) for t in (*inputs, *results)]
    launches = counters.take()
    warp_instructions = sum(sum(launch["warp_instructions"].values()) for launch in launches)
    thread_instructions = sum(sum(launch["thread_instructions"].values()) for launch in launches)
    return {
        "sectors": sum(launch["sectors"] for launch in launches),
        "banks": max(launch["worst_bank_conflict"] for launch in launches),
        "kernels": [launch["kernel"] for launch in launches],
        "fewest": sum(elements) * size / SECTOR,
        "warp_instructions": warp_instructions,
        "per_output": thread_instructions / int(numpy.prod(results[0].shape)),
    }


def derived(row: dict[str, Any]) -> dict[str, float]:
    """Return the least microseconds on each GPU."""
    times = {}
    for gpu, (bandwidth, processors, clock) in GPUS.items():
        memory = row["sectors"] * SECTOR / (bandwidth * 1e3)
        issue = row["warp_instructions"] / (processors * 4 * clock * 1e3)
        times[gpu] = max(memory, issue)
    return times


def count(counters: Counters, cases: list[Any], dtypes: tuple[str, ...] = DTYPES) -> Iterator[dict[str, Any]]:
    """Yield one row for every case, dtype and layout."""
    for name, shapes, args, goal in cases:
        for dtype in dtypes:
            for layout in ("row-major", "channels-last") if len(shapes[0]) == 4 else ("row-major",):
                row = measure(counters, name, dtype, layout, shapes, args)
                yield {"case": name, "shape": shapes[0], "dtype": dtype, "layout": layout, "goal": goal, **row}


def complaint(row: dict[str, Any]) -> str:
    """Return what is beyond the goals, or the empty string."""
    sectors = row["sectors"] / row["fewest"]
    if sectors <= row["goal"] and row["banks"] <= 2:
        return ""
    where = f"{row['case']} {row['shape']} {row['dtype']} {row['layout']}"
    return f"{where}: sectors {sectors:.3f} (goal {row['goal']}), banks {row['banks']} (goal 2)"


def main() -> None:
    """Print the table; exit with 1 where a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="also write the rows to this file")
    options = parser.parse_args()
    counters = Counters()
    rows = []
    print("Counted: sectors over the fewest, passes of the worst access over its banks, PTX instructions an output.")
    print("Derived, not measured: the least microseconds on each GPU, from the counts and its public figures.")
    print(
        f"{'case':23} {'shape':>18} {'dtype':9} {'layout':14} {'sectors':>7} {'banks':>5} {'instr.':>6}  "
        + "  ".join(f"{g:>9}" for g in GPUS)
    )
    for row in count(counters, CASES):
        rows.append({**row, "derived_us": derived(row)})
        shape = "x".join(map(str, row["shape"]))
        times = "  ".join(f"{rows[-1]['derived_us'][gpu]:9.2f}" for gpu in GPUS)
        print(
            f"{row['case']:23} {shape:>18} {row['dtype']:9} {row['layout']:14} "
            f"{row['sectors'] / row['fewest']:7.3f} {row['banks']:5} {row['per_output']:6.1f}  {times}"
        )
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1), encoding="utf-8")
    missed = [text for text in map(complaint, rows) if text]
    print(*(f"beyond the goal: {text}" for text in missed), f"{len(rows)} rows, {len(missed)} beyond a goal", sep="\n")
    raise SystemExit(bool(missed))


if __name__ == "__main__":
    main()
