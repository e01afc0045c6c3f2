"""A hundred thousand mixed calls, good and bad: no memory is lost."""

from __future__ import annotations

import gc
import os
import sys

import firelu
import numpy as np
import pytest
from record import record

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc, forks or sends signals")

X = np.linspace(-2, 2, 2 * 3 * 8 * 8, dtype=np.float32).reshape(2, 3, 8, 8)
HALF, B, K = X.astype(np.float16), np.ones(3, np.float32), np.ones((3, 3), np.float32)
LARGE = np.ones((1, 3, 512, 512), np.float32)
DEFINITION = firelu.create_operator("FusedLeakyRelu", ["X", "B"], ["Y"], alpha=0.2)


def refused(call):
    try:
        call()
    except firelu.FireluError:
        return
    raise AssertionError("this call must be refused")


def tape():
    if "requires_grad" not in dir(firelu.Tensor):
        return
    t = firelu.Tensor(X, requires_grad=True)
    (firelu.nn.functional.leaky_relu(t, 0.2) * t).sum().backward()


MIX = [
    lambda: firelu.leaky_relu(X),
    lambda: firelu.leaky_relu(HALF[:, ::-1], out=np.empty_like(HALF)),
    lambda: firelu.fused_leaky_relu(X, B),
    lambda: firelu.fused_leaky_relu_gradient(X.transpose(0, 2, 3, 1).copy().transpose(0, 3, 1, 2), X),
    lambda: firelu.upfirdn2d(X, K, up=2, pad=2),
    lambda: firelu.upfirdn2d_gradient(X, K, (2, 3, 10, 10)),
    lambda: firelu.upfirdn2d_kernel_gradient(X, X[..., 2:, 2:], (3, 3)),
    lambda: firelu.run_operator("Sum", HALF, HALF, HALF, HALF, HALF, HALF),
    lambda: firelu.run_operator("ReduceSum", X, axes=[0, 2]),
    lambda: firelu.Tensor(X).numpy(),
    lambda: firelu.OperatorDef.from_json(DEFINITION.to_json()),
    lambda: firelu.get_gradient_defs(DEFINITION, ["Y_grad"]),
    lambda: firelu.schema("UpFirDn2d").cost([(X.shape, "float32"), ((3, 3), "float32")]),
    lambda: refused(lambda: firelu.leaky_relu(np.arange(3))),
    lambda: refused(lambda: firelu.fused_leaky_relu(X, np.ones(4, np.float32))),
    lambda: refused(lambda: firelu.leaky_relu(X, "steep")),
    lambda: refused(lambda: firelu.upfirdn2d(X, K, up=0)),
    lambda: refused(lambda: firelu.OperatorDef.from_json("{")),
    lambda: refused(lambda: firelu.run_operator("LeekyRelu", X)),
    tape,
]


def resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def run(calls):
    for index in range(calls):
        MIX[index % len(MIX)]()
        if index % 1000 == 0:
            firelu.leaky_relu(LARGE)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("calls", [10_000, pytest.param(100_000, marks=pytest.mark.full)])
def test_mixed_calls_keep_no_memory(calls):
    run(max(calls // 5, 4000))
    gc.collect()
    objects, before = len(gc.get_objects()), resident()
    run(calls)
    gc.collect()
    growth = resident() - before
    record("memory_growth", calls=calls, bytes=growth, objects=len(gc.get_objects()) - objects)
    # An allocator may keep a few pages more; one leaked word of each of 100,000 calls would be 800 kB.
    assert growth < 512 << 10
    assert firelu.memory_stats()["in_use"] == 0
