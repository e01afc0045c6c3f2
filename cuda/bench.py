"""What the shipped kernels do to memory and arithmetic units, counted by the emulated driver.

    make bench-cuda

Nothing here is a measured time: no GPU is involved. Counted are the PTX instructions, the 32-byte sectors of global
memory against the fewest that hold the operands (each read once, each result written once), the passes over the banks
of shared memory that the worst access takes for one, and the round trips to memory that a block makes one after the
other. Caches are not counted on: what a second block reads again counts again. From the counts and the public figures
of a few GPUs follows the time that a kernel takes there at least, as `docs/cuda.md` describes; it is marked as derived.
"""

from __future__ import annotations

import argparse
import ctypes
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

LIBRARY = Path(__file__).resolve().parent.parent / "target" / "emulator" / "libcuda.so"
SECTOR = 32
DTYPES = ("float32", "float16", "bfloat16", "float64")


class Gpu(NamedTuple):
    """Public figures of a GPU; the latency is that of memory under load, as microbenchmarks have it."""

    bandwidth: float  # GB/s
    processors: int
    clock: float  # GHz; each processor issues one warp instruction on each of its four schedulers a clock
    latency: float  # microseconds
    threads: int  # that a processor holds
    shared: int  # KiB of shared memory that a processor has for blocks


GPUS = {
    "T4": Gpu(320, 40, 1.59, 0.50, 1024, 64),
    "RTX 3060": Gpu(360, 28, 1.78, 0.50, 1536, 100),
    "A100 40GB": Gpu(1555, 108, 1.41, 0.50, 2048, 164),
    "H100 SXM": Gpu(3350, 132, 1.83, 0.62, 2048, 228),
}
# Of a block, before its first and after its last access: launch, index arithmetic, barriers.
START = 0.7
THREADS = 256
# Blocks that registers allow, by the launch bounds of the kernels; those of few registers are bound by threads.
RESIDENT = {
    "upfirdn2d_channels_last_f16": 3,
    "upfirdn2d_channels_last_bf16": 3,
    "upfirdn2d": 4,
    "fused_leaky_relu_gradient_columns": 2,
}
# The share of the peak bandwidth aimed at in float32 and float16; on the H100 small planes of float16 have their own.
SHARES = {"A100 40GB": 0.8, "H100 SXM": 0.7}
SMALL_HALVES = 0.5
MOST_TRIPS = 6
TILED = ("upfirdn2d_filter_", "upfirdn2d_up2_", "upfirdn2d_down2_")
# Held to the same round trips; bound by their arithmetic, so that no share of the bandwidth is aimed at.
TILED_TOO = ("filtered_act_", "upfirdn2d_general_", "upfirdn2d_channels_last_")

# Operator, shapes of the inputs (None where one is left out), arguments, and the goal for sectors over the fewest.
BLUR = {"pad_x0": 2, "pad_x1": 1, "pad_y0": 2, "pad_y1": 1}
UP = {"up_x": 2, "up_y": 2, **BLUR}
UP_12 = {"up_x": 2, "up_y": 2, "pad_x0": 6, "pad_x1": 5, "pad_y0": 6, "pad_y1": 5}
DOWN = {"down_x": 2, "down_y": 2, "pad_x0": 1, "pad_x1": 1, "pad_y0": 1, "pad_y1": 1}
LAYER = {"up_x": 2, "up_y": 2, "down_x": 2, "down_y": 2, "pad_x0": 9, "pad_x1": 8, "pad_y0": 9, "pad_y1": 8}
LAYER |= {"up_gain": 4.0, "clamp": 256.0}
LAYER_4 = LAYER | {"up_x": 4, "up_y": 4, "pad_x0": 19, "pad_x1": 18, "pad_y0": 19, "pad_y1": 18, "up_gain": 16.0}
ROWS = {"act": "snake", "up_x": 2, "down_x": 2, "pad_x0": 6, "pad_x1": 5, "down_pad_x0": 5, "down_pad_x1": 6}
ROWS |= {"up_gain": 2.0, "border": "edge", "down_border": "edge", "axis": -3}
ROWS_OF = [(1, 12), (1, 12), None]
TAPS_12, TAPS_24 = [(12, 12), (12, 12)], [(24, 24), (12, 12)]
GRADIENT = "FilteredActGradient"
# Which inputs are filters.
FILTERS = {"UpFirDn2d": (1,), "FilteredAct": (1, 2)}
CASES: list[tuple[str, list[Any], dict[str, Any], float]] = [
    ("LeakyRelu", [(1 << 20,)], {}, 1.02),
    ("LeakyReluGradient", [(1 << 20,), (1 << 20,)], {}, 1.02),
    ("FusedLeakyRelu", [(1, 16, 256, 256), (16,)], {}, 1.02),
    ("FusedLeakyRelu", [(1, 512, 64, 64), (512,)], {}, 1.02),
    ("FusedLeakyReluGradient", [(1, 16, 256, 256), (1, 16, 256, 256)], {}, 1.02),
    ("FusedLeakyReluGradient", [(1, 512, 64, 64), (1, 512, 64, 64)], {}, 1.02),
    ("Add", [(1 << 20,), (1 << 20,)], {}, 1.02),
    ("ReduceSum", [(16, 64, 32, 32)], {"axes": [0, 2, 3]}, 1.02),
    ("ReduceSum rows", [(2048, 256)], {"axes": [1]}, 1.02),
    ("UpFirDn2d blur", [(1, 8, 64, 64), (4, 4)], BLUR, 1.25),
    ("UpFirDn2d up 2", [(1, 8, 64, 64), (4, 4)], UP, 1.25),
    ("UpFirDn2d down 2", [(1, 8, 64, 64), (4, 4)], DOWN, 1.25),
    ("UpFirDn2d blur", [(1, 8, 256, 256), (4, 4)], BLUR, 1.25),
    ("UpFirDn2d blur", [(1, 8, 512, 512), (4, 4)], BLUR, 1.25),
    ("UpFirDn2d up 2", [(1, 8, 128, 128), (4, 4)], UP, 1.25),
    ("UpFirDn2d up 2", [(1, 8, 256, 256), (4, 4)], UP, 1.25),
    ("UpFirDn2d down 2", [(1, 8, 256, 256), (4, 4)], DOWN, 1.25),
    ("UpFirDn2d down 2", [(1, 8, 512, 512), (4, 4)], DOWN, 1.25),
    ("UpFirDn2d up 2, 12 taps", [(1, 8, 256, 256), (12, 12)], UP_12, 1.25),
    ("FilteredAct up 2", [(1, 64, 84, 84), *TAPS_12, (64,)], LAYER, 1.25),
    ("FilteredAct up 2", [(1, 3, 276, 276), *TAPS_12, (3,)], LAYER, 1.25),
    ("FilteredAct up 4", [(1, 64, 52, 52), *TAPS_24, (64,)], LAYER_4, 1.25),
    ("FilteredAct radial", [(1, 64, 84, 84), *TAPS_12, (64,)], LAYER, 1.25),
    ("FilteredAct rows", [(1, 16, 1, 8192), *ROWS_OF, (16,), (16,)], ROWS, 1.25),
    ("FilteredAct rows", [(1, 4, 1, 65536), *ROWS_OF, (4,), (4,)], ROWS, 1.25),
    (f"{GRADIENT} up 2", [(1, 64, 84, 84), *TAPS_12, (64,), None, None, (1, 64, 82, 82)], LAYER, 1.25),
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

    operator = name.split()[0]
    inputs: list[Any] = []
    for seed, shape in enumerate(shapes):
        if shape is None:
            inputs.append(None)
            continue
        values = numpy.random.default_rng(seed).uniform(-1, 1, shape)
        is_filter = seed in FILTERS.get(operator.removesuffix("Gradient"), ())
        if is_filter:
            values = numpy.outer(numpy.hanning(shape[0] + 2)[1:-1], numpy.hanning(shape[1] + 2)[1:-1])
            if name.endswith("radial") and seed == 2:  # no outer product any more
                values += numpy.eye(*shape)
        if layout == "channels-last" and len(shape) == 4:
            values = numpy.ascontiguousarray(values.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
        # Filters are kept in float32 where tensors are of a half type.
        inputs.append(in_memory(values, "float32" if is_filter and dtype != "float64" else dtype).to("cuda:0"))
    counters.take()
    results = firelu.run_operator(operator, *inputs, **args)
    results = results if isinstance(results, tuple) else (results,)
    results[0].to("cpu")
    size = {"float16": 2, "bfloat16": 2, "float32": 4, "float64": 8}[dtype]
    elements = [int(numpy.prod(t.shape)) for t in (*inputs, *results) if t is not None]
    launches = counters.take()
    thread_instructions = sum(sum(launch["thread_instructions"].values()) for launch in launches)
    return {
        "sectors": sum(launch["sectors"] for launch in launches),
        "banks": max(launch["worst_bank_conflict"] for launch in launches),
        "launches": launches,
        "trips": max(launch["most_round_trips"] for launch in launches),
        "tiled": any(launch["kernel"].startswith(TILED + TILED_TOO) for launch in launches),
        "fewest": sum(elements) * size / SECTOR,
        "per_output": thread_instructions / int(numpy.prod(results[0].shape)),
    }


def resident(launch: dict[str, Any], gpu: Gpu) -> int:
    """Return how many blocks of a launch a processor holds at once."""
    by_registers = next(
        (n for stem, n in RESIDENT.items() if launch["kernel"].startswith(stem)), gpu.threads // THREADS
    )
    by_shared = gpu.shared * 1024 // (launch["shared_bytes"] + 1024)
    return max(1, min(by_registers, by_shared, gpu.threads // THREADS))


def parts(launch: dict[str, Any], gpu: Gpu) -> dict[str, float]:
    """Return the microseconds that each resource takes for a launch, were it alone."""
    blocks = launch["grid"][0]
    instructions = sum(launch["warp_instructions"].values())
    issue = instructions / (gpu.processors * 4 * gpu.clock * 1e3)
    # A block waits for its trips and issues its own instructions; the resident ones do so side by side.
    alone = launch["round_trips"] * gpu.latency + blocks * START + instructions / (4 * gpu.clock * 1e3)
    return {
        "memory": launch["sectors"] * SECTOR / (gpu.bandwidth * 1e3),
        "issue": issue,
        "latency": alone / (gpu.processors * resident(launch, gpu)),
    }


def derived(row: dict[str, Any], gpu: Gpu) -> float:
    """Return the least microseconds of all launches, in the steady state of a large tensor."""
    return sum(max(parts(launch, gpu).values()) for launch in row["launches"])


def share(row: dict[str, Any], gpu: Gpu) -> float:
    """Return the share of the peak bandwidth, counting each operand once."""
    return row["fewest"] * SECTOR / (gpu.bandwidth * 1e3) / derived(row, gpu)


def has_layouts(name: str, shapes: list[Any]) -> bool:
    """Return whether a case is counted in channels-last order too; FilteredAct has no tiles of channels."""
    return len(shapes[0]) == 4 and not name.startswith("FilteredAct")


def count(counters: Counters, cases: list[Any], dtypes: tuple[str, ...] = DTYPES) -> Iterator[dict[str, Any]]:
    """Yield one row for every case, dtype and layout."""
    for name, shapes, args, goal in cases:
        for dtype in dtypes:
            for layout in ("row-major", "channels-last") if has_layouts(name, shapes) else ("row-major",):
                row = measure(counters, name, dtype, layout, shapes, args)
                yield {"case": name, "shape": shapes[0], "dtype": dtype, "layout": layout, "goal": goal, **row}


def complaint(row: dict[str, Any]) -> str:
    """Return what is beyond the goals, or the empty string."""
    sectors = row["sectors"] / row["fewest"]
    found = []
    if sectors > row["goal"]:
        found.append(f"sectors {sectors:.3f} (goal {row['goal']})")
    if row["banks"] > 2:
        found.append(f"banks {row['banks']} (goal 2)")
    if row["tiled"] and row["trips"] > MOST_TRIPS:
        found.append(f"round trips {row['trips']} (goal {MOST_TRIPS})")
    where = f"{row['case']} {row['shape']} {row['dtype']} {row['layout']}"
    return f"{where}: {', '.join(found)}" if found else ""


def shortfalls(row: dict[str, Any]) -> list[str]:
    """Return the GPUs on which a tiled filter stays below the share of bandwidth that is aimed at."""
    by_memory = any(launch["kernel"].startswith(TILED) for launch in row["launches"])
    if not by_memory or row["dtype"] not in ("float32", "float16"):
        return []
    small = row["dtype"] == "float16" and row["shape"][-1] <= 64
    goals = {**SHARES, **({"H100 SXM": SMALL_HALVES} if small else {})}
    where = f"{row['case']} {row['shape']} {row['dtype']}"
    shares = {gpu: share(row, GPUS[gpu]) for gpu in goals}
    return [f"{where}: {s:.0%} on {gpu} (goal {goals[gpu]:.0%})" for gpu, s in shares.items() if s < goals[gpu]]


def main() -> None:
    """Print the table; exit with 1 where a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="also write the rows to this file")
    options = parser.parse_args()
    counters = Counters()
    rows = []
    print("Counted: sectors over the fewest, passes of the worst access over its banks, dependent round trips a block,")
    print("PTX instructions an output. Derived, not measured: the share of each GPU's peak bandwidth, in percent.")
    print(
        f"{'case':27} {'shape':>18} {'dtype':9} {'layout':14} {'sectors':>7} {'banks':>5} {'trips':>5} {'instr.':>6}  "
        + "  ".join(f"{g:>9}" for g in GPUS)
    )
    for row in count(counters, CASES):
        derived_us = {name: derived(row, gpu) for name, gpu in GPUS.items()}
        rows.append({**row, "derived_us": derived_us, "share": {name: share(row, gpu) for name, gpu in GPUS.items()}})
        shape = "x".join(map(str, row["shape"]))
        shares = "  ".join(f"{100 * rows[-1]['share'][gpu]:9.0f}" for gpu in GPUS)
        print(
            f"{row['case']:27} {shape:>18} {row['dtype']:9} {row['layout']:14} {row['sectors'] / row['fewest']:7.3f} "
            f"{row['banks']:5} {row['trips']:5} {row['per_output']:6.1f}  {shares}"
        )
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1), encoding="utf-8")
    missed = [text for text in map(complaint, rows) if text]
    below = [text for row in rows for text in shortfalls(row)]
    print(*(f"beyond the goal: {text}" for text in missed), *(f"below the goal: {text}" for text in below), sep="\n")
    print(f"{len(rows)} rows, {len(missed)} beyond a goal, {len(below)} shares below theirs")
    raise SystemExit(bool(missed))


if __name__ == "__main__":
    main()
