"""Device memory shared with other libraries: DLPack and __cuda_array_interface__, both ways, with their streams."""

import gc
import weakref

import firelu
import numpy as np
import pytest

DTYPES = ["float16", "bfloat16", "float32", "float64"]


def to_float64(tensor):
    return np.asarray(tensor.to("cpu")).astype(np.float64)


def on_device(values, dtype="float32"):
    return firelu.Tensor(np.asarray(values, dtype=np.float64), dtype=dtype, device="cuda:0")


class Foreign:
    """An object of another library: only the interface is known of it."""

    def __init__(self, tensor, **changes):
        self.tensor = tensor
        self.__cuda_array_interface__ = {**tensor.__cuda_array_interface__, **changes}


@pytest.mark.parametrize("dtype", DTYPES)
def test_dlpack_shares_the_memory(dtype):
    t = on_device([[1, 2], [3, 4]], dtype)
    assert t.__dlpack_device__() == (2, 0)
    shared = firelu.from_dlpack(t)
    assert (shared.device, shared.dtype, shared.shape) == ("cuda:0", dtype, (2, 2))
    firelu.run_operator("LeakyRelu", on_device([[-1, 5], [6, 7]], dtype), alpha=1.0, out=shared)
    assert np.array_equal(to_float64(t), [[-1, 5], [6, 7]])


def test_dlpack_keeps_the_memory_alive():
    shared = firelu.from_dlpack(on_device(np.arange(1000)))
    gc.collect()
    assert np.array_equal(to_float64(shared), np.arange(1000))


@pytest.mark.parametrize("stream", [None, -1, 1, 2])
def test_dlpack_streams(stream):
    t = on_device([1, 2, 3])
    capsule = t.__dlpack__(stream=stream)
    del capsule


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_dlpack_on_a_stream_that_nothing_orders(queue, dtype):
    """A consumer on a non-blocking stream reads what an operator has just been told to compute."""
    t = firelu.run_operator("LeakyRelu", firelu.Tensor([-2.0, 4.0], dtype=dtype, device="cuda:0"), alpha=0.5)
    target = firelu.Tensor([0.0, 0.0], dtype=dtype, device="cuda:0")
    target.to("cpu")  # has been written
    capsule = t.__dlpack__(stream=queue.stream)
    queue.copy(*(each.__cuda_array_interface__["data"][0] for each in (target, t)), 2 * np.dtype(dtype).itemsize)
    queue.wait()
    assert to_float64(target).tolist() == [-1, 4]
    del capsule


def test_dlpack_refuses_ambiguous_streams():
    with pytest.raises(BufferError, match="stream: got 0, takes -1, 1, 2 or a stream's handle"):
        on_device([1]).__dlpack__(stream=0)


def test_the_interface_of_a_tensor():
    t = on_device([[1, 2, 3], [4, 5, 6]])
    described = t.__cuda_array_interface__
    assert (described["version"], described["shape"], described["typestr"]) == (3, (2, 3), "<f4")
    assert (described["strides"], described["stream"]) == ((12, 4), 1)
    assert described["data"][0] > 0
    assert described["data"][1] is False


def test_the_interface_is_absent_where_it_cannot_be():
    assert not hasattr(firelu.Tensor([1.0]), "__cuda_array_interface__")
    with pytest.raises(AttributeError, match="use DLPack"):
        _ = on_device([1], "bfloat16").__cuda_array_interface__


def test_foreign_memory_is_used_where_it_is():
    t, out = on_device([-1, 2, -3, 4]), on_device([0, 0, 0, 0])
    result = firelu.run_operator("LeakyRelu", Foreign(t), alpha=0.5)
    assert (result.device, to_float64(result).tolist()) == ("cuda:0", [-0.5, 2, -1.5, 4])
    target = Foreign(out)
    assert firelu.run_operator("LeakyRelu", Foreign(t), alpha=0.5, out=target) is target
    assert to_float64(out).tolist() == [-0.5, 2, -1.5, 4]
    assert to_float64(firelu.Tensor(Foreign(t))).tolist() == [-1, 2, -3, 4]


def test_foreign_strides():
    t = on_device(np.arange(12).reshape(3, 4))
    columns = Foreign(t, shape=(2, 3), strides=(8, 16))
    assert to_float64(firelu.run_operator("LeakyRelu", columns)).tolist() == [[0, 4, 8], [2, 6, 10]]
    start = t.__cuda_array_interface__["data"][0]
    backwards = Foreign(t, shape=(4,), strides=(-4,), data=(start + 12, False))
    assert to_float64(firelu.run_operator("LeakyRelu", backwards)).tolist() == [3, 2, 1, 0]


@pytest.mark.parametrize("stream", [None, 1, 2])
def test_foreign_streams(stream):
    t = on_device([-1, 2])
    assert to_float64(firelu.run_operator("LeakyRelu", Foreign(t, stream=stream), alpha=0.5)).tolist() == [-0.5, 2]


def test_foreign_memory_of_a_stream_that_nothing_orders(queue):
    t = on_device([-1, 2])
    t.to("cpu")  # has been written
    queue.fill(t.__cuda_array_interface__["data"][0], 0, 4)
    found = firelu.run_operator("LeakyRelu", Foreign(t, stream=queue.stream), alpha=0.5)
    assert to_float64(found).tolist() == [0, 2]


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"typestr": "<i4"}, firelu.DTypeError, 'typestr: got "<i4"'),
        ({"typestr": ">f4"}, firelu.DTypeError, "typestr"),
        ({"stream": 0}, firelu.ArgumentError, "stream: got 0"),
        ({"mask": object()}, firelu.ArgumentError, "mask"),
        ({"strides": (3,)}, firelu.ArgumentError, "strides"),
        ({"data": (7, False)}, firelu.DeviceError, "0x7"),
    ],
)
def test_wrong_descriptions_are_refused(changes, error, words):
    with pytest.raises(error, match=words):
        firelu.run_operator("LeakyRelu", Foreign(on_device([1, 2]), **changes))


def test_misaligned_memory_is_refused():
    t = on_device([1, 2, 3])
    address = t.__cuda_array_interface__["data"][0]
    with pytest.raises(firelu.ArgumentError, match="a multiple of the element size"):
        firelu.run_operator("LeakyRelu", Foreign(t, shape=(1,), strides=None, data=(address + 2, False)))


def test_foreign_memory_lives_as_long_as_it_is_used():
    foreign = Foreign(on_device([1, 2]))
    alive = weakref.ref(foreign)
    result = firelu.run_operator("LeakyRelu", foreign)
    del foreign
    gc.collect()
    assert alive() is None
    assert to_float64(result).tolist() == [1, 2]


def test_memory_that_the_graph_holds_is_read_only():
    x = firelu.Tensor([1.0, -2.0], device="cuda:0", requires_grad=True)
    y = firelu.nn.functional.leaky_relu(x, 0.1)
    assert y.__cuda_array_interface__["data"][1] is True
