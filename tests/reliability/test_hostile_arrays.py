"""Arrays that lie, change, raise or return rubbish: the right answer or a typed error, never a crash."""

from __future__ import annotations

import threading

import firelu
import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from record import Tally
from strategies import arrays, dtypes, shapes

REFUSALS = (firelu.FireluError, TypeError, ValueError, MemoryError)
X = np.linspace(-2, 2, 24, dtype=np.float32).reshape(1, 2, 3, 4)
K = np.ones((2, 2), np.float32)
TALLY = Tally("hostile_arrays")


@pytest.fixture(scope="module", autouse=True)
def _record():
    yield
    TALLY.record()


CALLS = {
    "leaky_relu": lambda x: firelu.leaky_relu(x, 0.5),
    "leaky_relu_gradient": lambda x: firelu.leaky_relu_gradient(X, x, 0.5),
    "fused_leaky_relu": lambda x: firelu.fused_leaky_relu(x, np.ones(2, np.float32)),
    "fused_leaky_relu_gradient": lambda x: firelu.fused_leaky_relu_gradient(x, X),
    "upfirdn2d": lambda x: firelu.upfirdn2d(x, K, up=2, pad=1),
    "upfirdn2d kernel": lambda k: firelu.upfirdn2d(X, k, pad=8),
    "upfirdn2d_gradient": lambda x: firelu.upfirdn2d_gradient(x, K, (1, 2, 4, 5)),
    "upfirdn2d_kernel_gradient": lambda x: firelu.upfirdn2d_kernel_gradient(x, X[..., 1:, 1:], (2, 2)),
    "Add": lambda x: firelu.run_operator("Add", x, X),
    "ReduceSum": lambda x: firelu.run_operator("ReduceSum", x),
    "Tensor": firelu.Tensor,
}


@pytest.fixture(params=CALLS, ids=str)
def call(request):
    return CALLS[request.param]


class Liar(np.ndarray):
    """A subclass that lies about everything a subclass can lie about."""

    shape = property(lambda self: (10**6,) * 4)
    strides = property(lambda self: (10**9,) * 4)
    dtype = property(lambda self: np.dtype(np.float64))
    size = property(lambda self: 10**12)
    ndim = property(lambda self: 40)
    nbytes = property(lambda self: -1)
    flags = property(lambda self: None)
    __array_interface__ = property(lambda self: {"data": (1, False), "shape": (1 << 40,)})
    __array_struct__ = property(lambda self: 1)

    def __len__(self):
        return -1

    def __array_finalize__(self, other):
        pass

    def __getitem__(self, key):
        raise RuntimeError("no items here")


def numbers(result):
    results = result if isinstance(result, tuple) else (result,)
    return [np.asarray(part).astype(np.float64) for part in results]


def test_a_subclass_cannot_lie(call):
    # The memory that numpy itself knows of is used, whatever the subclass says; functions written in Python
    # may believe its dtype, which then is refused or rounds otherwise.
    plain = TALLY.attempt(call, X, allowed=firelu.FireluError)
    if plain is None:
        with pytest.raises(firelu.FireluError):
            call(X.view(Liar))
        return
    lying = TALLY.attempt(call, X.view(Liar), allowed=REFUSALS)
    if lying is not None:
        for left, right in zip(numbers(plain), numbers(lying), strict=True):
            np.testing.assert_allclose(left, right, rtol=1e-6)


def producer(**methods):
    return type("Producer", (), methods)()


def raising(error):
    def method(self, *args, **kwargs):
        raise error

    return method


RUBBISH = [
    producer(__array__=raising(RuntimeError("no array"))),
    producer(__array__=raising(KeyboardInterrupt())),
    producer(__array__=lambda self, *a, **k: "not an array"),
    producer(__array__=lambda self, *a, **k: None),
    producer(__array__=lambda self, *a, **k: np.array([object()])),
    producer(__array_interface__={"shape": (4,), "typestr": "<f4", "data": (0, True), "version": 3}),
    producer(__array_interface__={"shape": (-4,), "typestr": "<f4", "data": b"x", "version": 3}),
    producer(__array_interface__={"shape": (1 << 62, 1 << 62), "typestr": "<f4", "data": b"12345678"}),
    producer(__array_interface__="rubbish"),
    producer(__array_struct__=3),
    producer(__len__=lambda self: 1 << 62, __getitem__=raising(IndexError("none"))),
    producer(__len__=lambda self: -1),
    producer(__float__=raising(OverflowError("too much"))),
    iter([1.0, 2.0]),
    {1.0: 2.0},
    b"bytes",
    "text",
    object(),
    [[1.0], [1.0, [2.0]]],
    float,
    np.float32,
]


@pytest.mark.parametrize("rubbish", RUBBISH, ids=lambda value: type(value).__name__)
def test_rubbish_is_refused_or_computed(call, rubbish):
    allowed = (*REFUSALS, RuntimeError, KeyboardInterrupt, OverflowError, IndexError, DeprecationWarning)
    with np.errstate(all="ignore"):
        TALLY.attempt(call, rubbish, allowed=allowed)
    np.testing.assert_array_equal(firelu.leaky_relu(np.float32([-2, 2]), 0.5), [-1, 2])


@pytest.mark.skipif(not hasattr(firelu, "from_dlpack"), reason="this build has no from_dlpack")
@pytest.mark.parametrize(
    "capsule",
    [
        raising(RuntimeError("no")),
        lambda self, **k: None,
        lambda self, **k: 7,
        lambda self, **k: X,
        raising(MemoryError()),
    ],
    ids=["raises", "None", "int", "array", "MemoryError"],
)
@pytest.mark.parametrize("device", [(1, 0), (2, 0), (99, 99), None, (1,), "cpu", (1 << 70, 0)], ids=str)
def test_dlpack_producers(capsule, device):
    source = producer(__dlpack__=capsule, __dlpack_device__=lambda self: device)
    with pytest.raises((*REFUSALS, RuntimeError, BufferError, AttributeError, OverflowError)):
        firelu.from_dlpack(source)
    TALLY.calls += 1
    TALLY.refused += 1


@pytest.mark.skipif(not hasattr(firelu, "from_dlpack"), reason="this build has no from_dlpack")
def test_a_capsule_is_used_once():
    capsule = X.__dlpack__()
    source = producer(__dlpack__=lambda self, **k: capsule, __dlpack_device__=lambda self: (1, 0))
    np.testing.assert_array_equal(firelu.from_dlpack(source).numpy(), X)
    with pytest.raises((*REFUSALS, RuntimeError, BufferError)):
        firelu.from_dlpack(source)


SIZES = [
    (2**31, 2**31, 2**31),
    (2**62, 2),
    (2**63 - 1,),
    (2**63,),
    (2**64,),
    (10**30,),
    (-1,),
    (2**40, 2**40, 0),
]


@pytest.mark.parametrize("shape", SIZES, ids=str)
@pytest.mark.parametrize("name", firelu.operators())
def test_sizes_that_leave_64_bits(name, shape):
    schema = firelu.schema(name)
    for dtype in schema.dtypes:
        inputs = [(shape, dtype)] * max(1, len(schema.inputs))
        for question in (schema.infer, schema.cost):
            answer = TALLY.attempt(question, inputs, allowed=(*REFUSALS, OverflowError))
            if question == schema.cost and answer is not None:
                assert min(answer.flops, answer.bytes_read, answer.bytes_written) >= 0


@pytest.mark.parametrize("shape", [(2**40, 2**20, 0), (0, 2**60), (1,) * 32], ids=str)
def test_real_arrays_of_odd_shapes(shape):
    x = np.zeros(shape, np.float32)
    assert firelu.leaky_relu(x).shape == shape
    assert firelu.run_operator("Add", x, x).shape == shape


def test_a_view_as_large_as_the_address_space():
    wide = np.broadcast_to(np.float32(1), (2**60,))
    with pytest.raises(MemoryError):
        firelu.leaky_relu(wide)
    with pytest.raises((MemoryError, *REFUSALS)):
        firelu.fused_leaky_relu_gradient(wide[None], wide[None])


@given(data=st.data(), shape=shapes, dtype=dtypes)
def test_any_array_in_any_place(data, shape, dtype):
    x = data.draw(arrays(shape, dtype))
    for call in CALLS.values():
        with np.errstate(all="ignore"):
            TALLY.attempt(call, x, allowed=REFUSALS)


def test_arrays_written_by_another_thread():
    # Values are unspecified, each is one that was there; memory stays whole.
    x = np.zeros(1 << 20, np.float32)
    guard = np.full(1 << 20, 7, np.float32)
    stop = threading.Event()

    def write():
        value = 0.0
        while not stop.is_set():
            value = 1.0 - value
            x.fill(value)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(200):
            y = firelu.leaky_relu(x)
            assert np.isin(y, (0.0, 1.0)).all()
            y = firelu.upfirdn2d(x.reshape(4, 512, 512), K, pad=(1, 0))
            assert ((y >= 0) & (y <= 4)).all()
    finally:
        stop.set()
        writer.join()
    np.testing.assert_array_equal(guard, 7)


def test_an_out_array_may_be_shared_by_threads():
    # Two calls into one array: contents unspecified, both calls end.
    out = np.empty(1 << 20, np.float32)
    x = np.ones(1 << 20, np.float32)
    threads = [threading.Thread(target=lambda: [firelu.leaky_relu(x, out=out) for _ in range(50)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    np.testing.assert_array_equal(out, x)


def test_an_array_that_is_resized_or_freed_between_calls():
    x = np.ones(1000, np.float32)
    y = firelu.leaky_relu(x)
    x.resize(10, refcheck=False)
    np.testing.assert_array_equal(y, np.ones(1000))
    assert firelu.leaky_relu(x).shape == (10,)


def test_a_masked_array_is_its_data():
    """The mask is not looked at, as by `numpy.asarray`; the page on reliability says so."""
    masked = np.ma.array(np.float32([-2, 4]), mask=[True, False])
    for result in (firelu.leaky_relu(masked, 0.5), firelu.run_operator("LeakyRelu", masked, alpha=0.5)):
        assert type(result) is np.ndarray
        np.testing.assert_array_equal(result, [-1, 4])


def test_types_that_look_like_ours():
    for dtype in (ml_dtypes.float8_e4m3fn, np.complex64, np.longdouble, np.int8, "datetime64[s]", "V4", "S4"):
        with pytest.raises(firelu.DTypeError, match="LeakyRelu"):
            firelu.leaky_relu(np.zeros(3, dtype))
