"""Rows are computed several at a time, streamed and laid out in other ways: none of that changes a bit."""

from __future__ import annotations

import firelu
import numpy as np
import pytest
from checks import assert_same_bits
from strategies import DTYPES

RNG = np.random.default_rng(0)
KERNELS = {
    "4x4": np.outer(RNG.standard_normal(4), RNG.standard_normal(4)),
    "3x3": np.outer(RNG.standard_normal(3), RNG.standard_normal(3)),
    "3x4": np.outer(RNG.standard_normal(3), RNG.standard_normal(4)),
    "8x4": np.outer(RNG.standard_normal(8), RNG.standard_normal(4)),
    "6x3": np.outer(RNG.standard_normal(6), RNG.standard_normal(3)),
    "4x4 without factors": RNG.standard_normal((4, 4)),
}
#: Factors along x and y, and paddings.
FORMS = {
    "plain": (1, 1, (2, 1, 2, 1)),
    "plain, cropped": (1, 1, (-1, 3, 3, -1)),
    "up 2": (2, 1, (2, 1, 2, 1)),
    "up 2, other phase": (2, 1, (1, 2, 1, 2)),
    "down 2": (1, 2, (1, 1, 1, 1)),
    "down 2, other phase": (1, 2, (2, 1, 2, 1)),
    "up 2 along x": ((2, 1), 1, (2, 1, 2, 1)),
    "up 2 along y": ((1, 2), 1, (2, 1, 4, 3)),
    "up 2 along y, down 2 along x": ((1, 2), (2, 1), (2, 1, 4, 3)),
    "down 2 along y": (1, (1, 2), (2, 1, 2, 1)),
}


def pair(factor):
    return factor if isinstance(factor, tuple) else (factor, factor)


def row_by_row(x, kernel, up, down, pad):
    """The same call, an output row at a time: all others are cropped away."""
    height, ((_, up_y), (_, down_y)) = x.shape[-2], (pair(up), pair(down))
    rows = (height * up_y + pad[2] + pad[3] - kernel.shape[0]) // down_y + 1
    above = [pad[2] - row * down_y for row in range(rows)]
    pads = [(*pad[:2], before, kernel.shape[0] - height * up_y - before) for before in above]
    return np.concatenate([firelu.upfirdn2d(x, kernel, up, down, each) for each in pads], axis=-2)


#: Other numbers of taps are summed in an order that follows from the shape: a row alone may have another.
ALIKE = [
    (kernel, form)
    for kernel, taps in KERNELS.items()
    for form, (up, down, _) in FORMS.items()
    if taps.shape[1] == 4 or pair(up)[0] == pair(down)[0] == 1
]


@pytest.mark.parametrize(("kernel", "form"), ALIKE)
def test_rows_at_once_are_the_rows_one_by_one(cpu_level, kernel, form):
    up, down, pad = FORMS[form]
    for height in [*range(6, 17), 21]:
        for width in (3, 16, 33, 70, 150):
            x = RNG.standard_normal((2, height, width)).astype(np.float32)
            together = firelu.upfirdn2d(x, KERNELS[kernel], up, down, pad)
            assert_same_bits(together, row_by_row(x, KERNELS[kernel], up, down, pad))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("form", FORMS)
def test_channels_last_rows_have_the_same_bits(cpu_level, form, dtype):
    """Numbers of channels that fill lines, that do not, and that are too many for that."""
    up, down, pad = FORMS[form]
    for channels in (8, 16, 24, 32, 48, 64, 96, 160):
        for height, width in ((6, 5), (8, 40), (9, 3)):
            x = RNG.standard_normal((2, channels, height, width)).astype(dtype)
            last = np.ascontiguousarray(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
            for kernel in (KERNELS["4x4"], KERNELS["3x4"], KERNELS["8x4"]):
                result = firelu.upfirdn2d(last, kernel, up, down, pad)
                assert result.transpose(0, 2, 3, 1).flags.c_contiguous
                assert_same_bits(np.ascontiguousarray(result), firelu.upfirdn2d(x, kernel, up, down, pad))


def placed(shape, dtype, offset):
    """Memory that starts so many bytes after the start of a line, with bytes around it that are nobody's."""
    count = int(np.prod(shape)) * np.dtype(dtype).itemsize
    memory = np.full(count + 256, 0x5A, np.uint8)
    start = -memory.ctypes.data % 64 + 64 + offset
    return memory, memory[start : start + count].view(dtype).reshape(shape)


@pytest.fixture
def small_cache():
    """A last-level cache that small arrays exceed."""
    firelu.set_non_temporal_bytes(4 << 20)
    yield
    firelu.set_non_temporal_bytes(None)


def check_streamed(form, width, channels_last, dtype, planes, offsets):
    """That rows past the caches have the bits of others wherever they start, and that nothing else is written."""
    (up, down, pad), kernel = FORMS[form], KERNELS["4x4"]
    size = np.dtype(dtype).itemsize
    height = 4 + firelu.get_non_temporal_bytes() // (planes * width * size * (1 if form == "plain" else 2))
    x = RNG.standard_normal((1, planes, height, width), np.float32).astype(dtype)
    # Each plane is so small that it is not streamed.
    expected = np.concatenate([firelu.upfirdn2d(x[:, i : i + 1], kernel, up, down, pad) for i in range(planes)], axis=1)
    if channels_last:
        x = np.ascontiguousarray(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
        expected = np.ascontiguousarray(expected.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    for offset in offsets:
        shape = expected.transpose(0, 2, 3, 1).shape if channels_last else expected.shape
        memory, out = placed(shape, dtype, offset)
        out = out.transpose(0, 3, 1, 2) if channels_last else out
        firelu.upfirdn2d(x, kernel, up, down, pad, out=out)
        assert_same_bits(np.ascontiguousarray(out), np.ascontiguousarray(expected))
        around = np.ones(memory.size, bool)
        start = out.ctypes.data - memory.ctypes.data
        around[start : start + out.nbytes] = False
        assert (memory[around] == 0x5A).all()


@pytest.mark.parametrize("channels_last", [False, True], ids=["planes", "channels last"])
@pytest.mark.parametrize("form", ["plain", "up 2", "down 2"])
@pytest.mark.parametrize("width", [512, 509])
def test_streamed_rows_have_the_same_bits_wherever_they_start(small_cache, cpu_level, width, form, channels_last):
    check_streamed(form, width, channels_last, np.float32, 16, (0, 4, 16, 48))


@pytest.mark.parametrize(
    ("dtype", "offsets"), [(np.float16, (2, 16, 62)), (np.float64, (8, 48))], ids=["half", "double"]
)
def test_streamed_pixels_that_begin_within_a_line(small_cache, cpu_level, dtype, offsets):
    """Several lines a pixel, the last pixels of a row fewer than are on their way at once."""
    check_streamed("up 2", 509, True, dtype, 64, offsets)
