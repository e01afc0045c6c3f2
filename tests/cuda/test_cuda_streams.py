"""Memory shared with libraries that work on a non-blocking stream, which nothing orders but what the protocols promise.

The emulated driver reports every use of memory that is not ordered after the work that made it, in every test here.
"""

import ctypes
import os

import firelu
import numpy as np
import pytest

SIZE = 4096


class Lent:
    """Memory of another library that is used on a stream of its own."""

    def __init__(self, tensor, stream, *, read_only=False):
        described = dict(tensor.__cuda_array_interface__)
        self.tensor = tensor
        self.address = described["data"][0]
        self.__cuda_array_interface__ = {**described, "data": (self.address, read_only), "stream": stream}


class Torchlike(Lent):
    """As torch's tensors: the interface names no stream, and DLPack is known."""

    def __init__(self, tensor, queue):
        super().__init__(tensor, 1)
        del self.__cuda_array_interface__["stream"]
        self.queue, self.asked = queue, []

    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()

    def __dlpack__(self, *, stream=None, **options):
        self.asked.append(stream)
        self.queue.wait()  # what a producer does to make the memory ready on the stream asked for
        return self.tensor.__dlpack__(stream=-1, **options)


def on_device(values=None):
    values = np.linspace(-1, 1, SIZE) if values is None else values
    return firelu.Tensor(values, dtype="float32", device="cuda:0")


def address_of(capsule):
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return ctypes.cast(pointer(capsule, b"dltensor"), ctypes.POINTER(ctypes.c_uint64))[0]


class Reader:
    """Reads memory as its owner would, on the owner's stream. Made before the work: making it waits for the device."""

    def __init__(self, queue):
        self.queue, self.copy = queue, on_device(np.zeros(SIZE))

    def read(self, address):
        self.queue.copy(self.copy.__cuda_array_interface__["data"][0], address, 4 * SIZE)
        self.queue.wait()
        return np.asarray(self.copy.to("cpu"))


@pytest.mark.parametrize("copy", [None, True])
def test_an_exported_copy_is_ready_on_the_consumers_stream(queue, copy):
    x, reader = on_device(), Reader(queue)
    capsule = firelu.run_operator("LeakyRelu", x, alpha=0.5).__dlpack__(stream=queue.stream, copy=copy)
    expected = np.linspace(-1, 1, SIZE).astype(np.float32)
    assert np.array_equal(reader.read(address_of(capsule)), np.where(expected < 0, expected / 2, expected))


def test_exported_memory_of_the_graph_is_a_copy_that_is_ready(queue):
    x = firelu.Tensor(np.linspace(0, 1, SIZE), dtype="float32", device="cuda:0", requires_grad=True)
    reader = Reader(queue)
    capsule = firelu.nn.functional.leaky_relu(x, 0.5).__dlpack__(stream=queue.stream)
    assert np.array_equal(reader.read(address_of(capsule)), np.linspace(0, 1, SIZE).astype(np.float32))


def test_an_output_is_ready_on_its_owners_stream(queue):
    x, reader = on_device(), Reader(queue)
    lent = Lent(on_device(np.zeros(SIZE)), queue.stream)
    assert firelu.run_operator("LeakyRelu", x, alpha=1.0, out=lent) is lent
    assert np.array_equal(reader.read(lent.address), np.linspace(-1, 1, SIZE).astype(np.float32))


def test_an_input_may_be_overwritten_by_its_owner(queue):
    t = on_device()
    lent = Lent(t, queue.stream)
    y = firelu.run_operator("LeakyRelu", lent, alpha=1.0)
    queue.fill(lent.address, 0, 4 * SIZE)
    queue.wait()
    assert np.array_equal(np.asarray(y.to("cpu")), np.linspace(-1, 1, SIZE).astype(np.float32))


def test_a_copy_is_made_before_its_owner_overwrites(queue):
    t = on_device()
    lent = Lent(t, queue.stream)
    copied = firelu.Tensor(lent)
    queue.fill(lent.address, 0, 4 * SIZE)
    queue.wait()
    assert np.array_equal(np.asarray(copied.to("cpu")), np.linspace(-1, 1, SIZE).astype(np.float32))


def test_an_interface_without_a_stream_is_asked_by_dlpack(queue):
    t = on_device()
    foreign = Torchlike(t, queue)
    queue.fill(foreign.address, 0, 4 * SIZE)
    y = firelu.run_operator("LeakyRelu", foreign)
    assert foreign.asked == [1]
    assert not np.asarray(y.to("cpu")).any()
    queue.fill(foreign.address, 1, 4 * SIZE)
    assert np.asarray(firelu.Tensor(foreign).to("cpu")).all()
    assert foreign.asked == [1, 1]


def test_read_only_memory_is_not_written(queue):
    t = on_device()
    with pytest.raises(firelu.ArgumentError, match=r"LeakyRelu: out: got memory that its owner marks as read-only"):
        firelu.run_operator("LeakyRelu", on_device(), alpha=0.5, out=Lent(t, 1, read_only=True))
    assert np.array_equal(np.asarray(t.to("cpu")), np.linspace(-1, 1, SIZE).astype(np.float32))
    lent = Lent(t, 1, read_only=True)
    assert firelu.run_operator("LeakyRelu", lent).shape == (SIZE,)  # as an input it is welcome


def doubled(x):
    return firelu.run_operator("LeakyRelu", x, alpha=2.0)


def test_lent_memory_is_used_again_after_its_consumers_work(queue):
    x, reader = on_device(), Reader(queue)
    capsule = doubled(x).__dlpack__(stream=queue.stream)
    queue.copy(reader.copy.__cuda_array_interface__["data"][0], address_of(capsule), 4 * SIZE)
    del capsule  # freed, while the consumer's copy is on its way
    doubled(on_device(np.zeros(SIZE))).to("cpu")
    queue.wait()
    expected = np.linspace(-1, 1, SIZE).astype(np.float32)
    assert np.array_equal(np.asarray(reader.copy.to("cpu")), np.where(expected < 0, 2 * expected, expected))


def test_lent_memory_outlives_the_stream_that_it_was_lent_to(queue):
    stream = ctypes.c_void_p()
    queue.call("cuStreamCreate", ctypes.byref(stream), 1)
    capsule = on_device().__dlpack__(stream=stream.value)
    queue.call("cuStreamSynchronize", stream)
    queue.call("cuStreamDestroy_v2", stream)
    del capsule
    assert np.asarray(doubled(on_device(np.ones(SIZE))).to("cpu")).all()


def test_a_driver_that_cannot_record_a_context_is_waited_for(queue, emulator):
    capsule = on_device().__dlpack__(stream=queue.stream)
    emulator.fail("cuCtxRecordEvent:1:500")  # counts begin anew
    del capsule
    calls = emulator.calls()
    emulator.fail("")
    assert calls["cuCtxSynchronize"] == 1
    assert calls["held"] == 0  # other threads go on


def test_borrowed_memory_is_kept_until_it_has_been_read(queue):
    t = on_device()
    foreign = Torchlike(t, queue)
    address = foreign.address
    y = doubled(firelu.from_dlpack(foreign))  # given back when the call returns, and overwritten by its owner
    queue.fill(address, 0, 4 * SIZE)
    queue.wait()
    assert np.asarray(y.to("cpu")).any()


def test_borrowed_memory_is_given_back_by_a_later_call(queue, emulator):
    class Owner(Torchlike):
        def __dlpack__(self, **options):
            return self.tensor.__dlpack__(stream=-1)

    t = on_device()
    emulator.fail("cuEventQuery:1:600")  # not ready
    y = doubled(firelu.from_dlpack(Owner(t, queue)))
    asked = [emulator.calls()["cuEventQuery"]]
    for _ in range(2):
        doubled(y)
        asked.append(emulator.calls()["cuEventQuery"])
    emulator.fail("")
    assert asked == [1, 2, 2]  # not ready, ready, given back


@pytest.mark.skipif(os.environ.get("FIRELU_TEST_GPU") == "1", reason="a GPU reports no missing order")
@pytest.mark.parametrize("side", ["export", "import"])
def test_what_is_not_ordered_is_reported(queue, emulator, side):
    """The tests above would fail without the order that the protocols promise: here nobody asks for it."""
    x, reader = on_device(), Reader(queue)
    if side == "export":
        y = firelu.run_operator("LeakyRelu", x, alpha=0.5)
        capsule = y.__dlpack__(stream=-1)  # the consumer says that it orders nothing
        queue.copy(reader.copy.__cuda_array_interface__["data"][0], address_of(capsule), 4 * SIZE)
    else:
        x.to("cpu")
        lent = Lent(x, 1)  # a lie: it is used on the queue
        queue.fill(lent.address, 0, 4 * SIZE)
        firelu.run_operator("LeakyRelu", lent, alpha=0.5)
    assert queue.driver.cuCtxSynchronize() == 719
    found = emulator.reports()
    assert "stream-race" in found or "unordered-use" in found
    emulator.library.firelu_emulator_recover()
