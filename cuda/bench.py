"""What the shipped kernels do to memory and arithmetic units, counted by the emulated driver.

    make bench-cuda

Nothing here is a measured time: no GPU is involved. Counted are the instructions, the 32-byte sectors of global memory
against the fewest that hold the operands (each read once, each result written once), and the passes over the banks of
shared memory against the fewest. From the counts and the public figures of a few GPUs follows the least time a kernel
can take there: that of the scarcest of memory bandwidth and instruction issue. It is marked as derived.
"""

from __future__ import annotations

import argparse
import ctypes
import json
from pathlib import Path
from typing import Any

LIBRARY = Path(__file__).resolve().parent.parent / "target" / "emulator" / "libcuda.so"
SECTOR = 32

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
DOWN = {"down_x": 2, "down_y": 2, "pad_x0": 1, "pad_x1": 1, "pad_y0": 1, "pad_y1": 1}
CASES: list[tuple[str, list[tuple[int, ...]], dict[str, Any], float]] = [
    ("LeakyRelu", [(1 << 20,)], {}, 1.02),
    ("LeakyReluGradient", [(1 << 20,), (1 << 20,)], {}, 1.02),
    ("FusedLeakyRelu", [(1, 16, 256, 256), (16,)], {}, 1.02),
    ("FusedLeakyReluGradient", [(1, 16, 256, 256), (1, 16, 256, 256)], {}, 1.02),
    ("Add", [(1 << 20,), (1 << 20,)], {}, 1.02),
    ("UpFirDn2d blur", [(1, 8, 256, 256), (4, 4)], BLUR, 1.25),
    ("UpFirDn2d up 2", [(1, 8, 128, 128), (4, 4)], UP, 1.25),
    ("UpFirDn2d down 2", [(1, 8, 256, 256), (4, 4)], DOWN, 1.25),
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


def measure(counters: Counters, name: str, dtype: str, layout: str, shapes: list[Any], args: Any) -> dict[str, Any]:
    """Run one case and add up its launches."""
    import firelu
    import numpy

    inputs = []
    for seed, shape in enumerate(shapes):
        values = numpy.random.default_rng(seed).uniform(-1, 1, shape)
        if name.startswith("UpFirDn2d") and seed == 1:
            values = numpy.outer([1, 3, 3, 1], [1, 3, 3, 1]) / 64.0
        values = values.astype(dtype)
        if layout == "channels-last" and len(shape) == 4:
            values = numpy.ascontiguousarray(values.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
        inputs.append(firelu.from_dlpack(values).to("cuda:0"))
    counters.take()
    results = firelu.run_operator(name.split()[0], *inputs, **args)
    results = results if isinstance(results, tuple) else (results,)
    results[0].to("cpu")
    size = {"float16": 2, "bfloat16": 2, "float32": 4, "float64": 8}[dtype]
    elements = [int(numpy.prod(t.shape)) for t in (*inputs, *results)]
    launches = counters.take()
    total = {key: sum(launch[key] for launch in launches) for key in ("sectors", "shared_waves", "ideal_shared_waves")}
    warp_instructions = sum(sum(launch["warp_instructions"].values()) for launch in launches)
    thread_instructions = sum(sum(launch["thread_instructions"].values()) for launch in launches)
    return {
        **total,
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


def main() -> None:
    """Print the table; exit with 1 where a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="also write the rows to this file")
    options = parser.parse_args()
    counters = Counters()
    rows, missed = [], []
    print("sectors/fewest, bank passes/fewest, instructions an output: counted. Microseconds: derived, not measured.")
    print(
        f"{'case':26} {'dtype':9} {'layout':14} {'sectors':>8} {'banks':>6} {'instr.':>7}  "
        + "  ".join(f"{g:>9}" for g in GPUS)
    )
    for name, shapes, args, goal in CASES:
        for dtype in ("float32", "float16"):
            for layout in ("row-major", "channels-last") if len(shapes[0]) == 4 else ("row-major",):
                row = measure(counters, name, dtype, layout, shapes, args)
                sectors = row["sectors"] / row["fewest"]
                banks = row["shared_waves"] / max(row["ideal_shared_waves"], 1)
                times = derived(row)
                rows.append({"case": name, "dtype": dtype, "layout": layout, "derived_us": times, **row})
                if sectors > goal or banks > 2:
                    missed.append(f"{name} {dtype} {layout}: sectors {sectors:.3f} (goal {goal}), banks {banks:.2f}")
                text = "  ".join(f"{times[gpu]:9.2f}" for gpu in GPUS)
                print(f"{name:26} {dtype:9} {layout:14} {sectors:8.3f} {banks:6.2f} {row['per_output']:7.1f}  {text}")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1), encoding="utf-8")
    for line in missed:
        print("beyond the goal:", line)
    raise SystemExit(bool(missed))


if __name__ == "__main__":
    main()
