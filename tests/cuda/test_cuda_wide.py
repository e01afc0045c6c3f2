"""Tensors whose elements lie further apart than 32 bits reach: the kernels with 64-bit indices."""

import contextlib
import ctypes

import firelu
import numpy as np
import pytest

# Beyond what the kernels with 32-bit indices are given.
FAR = (1 << 30) + 8


@contextlib.contextmanager
def device_memory(size, driver):
    """Give the address of memory that this test's process owns, as another library would."""
    context, address = ctypes.c_void_p(), ctypes.c_uint64()
    assert driver.cuInit(0) == 0
    assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
    assert driver.cuCtxPushCurrent_v2(context) == 0
    assert driver.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(size)) == 0
    try:
        yield address.value
    finally:
        assert driver.cuCtxSynchronize() == 0
        assert driver.cuMemFree_v2(address) == 0
        assert driver.cuCtxPopCurrent_v2(ctypes.byref(context)) == 0
        assert driver.cuDevicePrimaryCtxRelease_v2(0) == 0


class Wide:
    """Rows that lie FAR elements apart."""

    def __init__(self, address, shape, dtype):
        size = np.dtype(dtype).itemsize
        inner = [size * int(np.prod(shape[axis + 1 :])) for axis in range(1, len(shape))]
        self.__cuda_array_interface__ = {
            "version": 3,
            "shape": shape,
            "typestr": np.dtype(dtype).str,
            "strides": (FAR * size, *inner),
            "data": (address, False),
            "stream": 1,
        }


def on_device(values):
    return firelu.Tensor(values, device="cuda:0")


def check(name, wide, values, *rest, exact=True, **args):
    """Compare an operator of the wide tensor with the same operator on the CPU."""
    tensors = [on_device(x) for x in rest]
    got = firelu.run_operator(name, wide, *tensors, **args)
    want = firelu.run_operator(name, values, *rest, **args)
    for a, b in zip(
        got if isinstance(got, tuple) else (got,), want if isinstance(want, tuple) else (want,), strict=True
    ):
        a = a.to("cpu").numpy()
        assert np.array_equal(a, b) if exact else np.allclose(a, b, rtol=1e-2, atol=1e-2), name


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_every_operator_reaches_far(dtype, emulator):
    driver = emulator.library or ctypes.CDLL("libcuda.so.1")
    random = np.random.default_rng(1)
    shape, size = (2, 3, 8, 9), np.dtype(dtype).itemsize
    values = random.uniform(-1, 1, shape).astype(dtype)
    other = random.uniform(-1, 1, shape).astype(dtype)
    bias = random.uniform(-1, 1, 3).astype(dtype)
    kernel = random.uniform(-1, 1, (4, 4)).astype(dtype)
    with device_memory((FAR + 3 * 8 * 9) * size, driver) as address:
        wide = Wide(address, shape, dtype)
        # Written through the far strides, read back through them by everything below.
        firelu.run_operator("LeakyRelu", on_device(values), alpha=1.0, out=wide)
        check("LeakyRelu", wide, values, alpha=0.3)
        check("LeakyReluGradient", wide, values, other, alpha=0.3)
        check("FusedLeakyRelu", wide, values, bias)
        check("FusedLeakyReluGradient", wide, values, other, exact=False)
        for name in ("Add", "Sub", "Mul", "Sum"):
            check(name, wide, values, other)
        check("BroadcastLike", wide, values, other, scale=0.5)
        check("ReduceSum", wide, values, axes=[0, 2, 3], exact=False)
        check("ReduceSum", wide, values, exact=False)
        check("UpFirDn2d", wide, values, kernel, exact=False)
        rows = (2, 3 * 8 * 9)
        check("UpFirDn2d", Wide(address, rows, dtype), values.reshape(rows), kernel[:2], exact=False)
        check("UpFirDn2dKernelGradient", wide, values, np.ones((2, 3, 5, 6), dtype), kernel, exact=False)
