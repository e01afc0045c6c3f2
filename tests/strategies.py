"""Random arrays: every dtype, any shape, any strides, every kind of value."""

from __future__ import annotations

import ml_dtypes
import numpy as np
from hypothesis import strategies as st

DTYPES = [np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16), np.dtype(np.float32), np.dtype(np.float64)]
SPECIAL = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-7, -1e-7, 6e-8, -1e-40, 1e-310, 65504.0]

dtypes = st.sampled_from(DTYPES)
shapes = st.lists(st.integers(0, 6), max_size=5).map(tuple) | st.tuples(st.integers(0, 300))


@st.composite
def arrays(draw, shape, dtype, special=True):
    """An array of this shape and dtype: a permuted, sliced, reversed, broadcast or unaligned view."""
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    layout = draw(st.sampled_from(["plain", "permuted", "sliced", "reversed", "broadcast", "unaligned"]))
    values = rng.standard_normal(shape) * 10.0 ** rng.integers(-3, 4)
    if special and draw(st.booleans()) and values.size:
        values = np.where(rng.random(shape) < 0.3, rng.choice(SPECIAL, shape), values)
    with np.errstate(over="ignore", invalid="ignore"):
        array = np.asarray(values).astype(dtype)
    if not shape:
        return np.asarray(array)
    if layout == "permuted":
        order = draw(st.permutations(range(len(shape))))
        return np.ascontiguousarray(array.transpose(order)).transpose(np.argsort(order))
    if layout == "sliced":
        big = np.zeros(tuple(2 * n + 1 for n in shape), dtype)
        view = big[tuple(slice(1, 2 * n + 1, 2) for n in shape)]
        view[...] = array
        return view
    if layout == "reversed":
        backwards = tuple(slice(None, None, -1) for _ in shape)
        return np.ascontiguousarray(array[backwards])[backwards]
    if layout == "broadcast":
        return np.broadcast_to(array[:1], shape)
    if layout == "unaligned":
        raw = np.zeros(array.nbytes + 1, np.uint8)[1:].view(np.uint8)
        view = np.ndarray(shape, dtype, raw.data)
        view[...] = array
        return view
    return array
