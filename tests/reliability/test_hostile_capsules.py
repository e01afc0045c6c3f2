"""DLPack capsules whose contents are rubbish: refused by a typed error, given back once, nothing read."""

from __future__ import annotations

import ctypes

import firelu
import numpy as np
import pytest
from record import Tally

REFUSALS = (firelu.FireluError, BufferError, TypeError, ValueError, OverflowError)
TALLY = Tally("hostile_capsules")
FLOATS = np.arange(6, dtype=np.float32)


@pytest.fixture(scope="module", autouse=True)
def _record():
    yield
    TALLY.record()


class Described(ctypes.Structure):
    """A DLTensor, as dlpack.h has it."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Managed(ctypes.Structure):
    """A DLManagedTensor."""

    _fields_ = [("tensor", Described), ("context", ctypes.c_void_p), ("deleter", DELETER)]


class ManagedVersioned(ctypes.Structure):
    """A DLManagedTensorVersioned."""

    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", DELETER),
        ("flags", ctypes.c_uint64),
        ("tensor", Described),
    ]


new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype = ctypes.py_object
new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


class Producer:
    """Hands out one capsule; counts how often it is given back."""

    def __init__(self, versioned=False, major=1, name=None, shape=(2, 3), strides=(3, 1), **fields):
        self.given_back = 0
        self.shape = (ctypes.c_int64 * max(1, len(shape)))(*shape)
        self.strides = None if strides is None else (ctypes.c_int64 * max(1, len(strides)))(*strides)
        tensor = Described(data=FLOATS.ctypes.data, device_type=1, ndim=len(shape), code=2, bits=32, lanes=1)
        tensor.shape = ctypes.cast(self.shape, ctypes.POINTER(ctypes.c_int64))
        if self.strides is not None:
            tensor.strides = ctypes.cast(self.strides, ctypes.POINTER(ctypes.c_int64))
        for field, value in fields.items():
            setattr(tensor, field, value)

        def give_back(_):
            self.given_back += 1

        self.deleter = DELETER(give_back)
        if versioned:
            self.managed = ManagedVersioned(major=major, deleter=self.deleter, tensor=tensor)
        else:
            self.managed = Managed(tensor=tensor, deleter=self.deleter)
        self.name = name or (b"dltensor_versioned" if versioned else b"dltensor")
        self.device = (tensor.device_type, tensor.device_id)

    def __dlpack__(self, **_):
        return new_capsule(ctypes.addressof(self.managed), self.name, None)

    def __dlpack_device__(self):
        return self.device


@pytest.mark.parametrize("versioned", [False, True])
def test_an_honest_capsule_is_shared_and_given_back(versioned):
    producer = Producer(versioned)
    shared = TALLY.attempt(firelu.from_dlpack, producer)
    np.testing.assert_array_equal(shared.numpy(), FLOATS.reshape(2, 3))
    assert producer.given_back == 0
    del shared
    assert producer.given_back == 1


RUBBISH = {
    "a negative number of dimensions": {"ndim": -1},
    "more dimensions than anyone has": {"ndim": 2**31 - 1},
    "a negative length": {"shape": (2, -3)},
    "lengths beyond 64 bits": {"shape": (2**40, 2**40), "strides": None},
    "a length of 2**63 - 1": {"shape": (2**63 - 1,), "strides": (1,)},
    "strides beyond 64 bits": {"shape": (2, 3), "strides": (2**62, -(2**62))},
    "the smallest stride": {"shape": (3, 3), "strides": (-(2**63), 1)},
    "no memory": {"data": None},
    "no shape": {"shape": (2, 3), "_no_shape": True},
    "integers": {"code": 0},
    "an unknown type": {"code": 77},
    "seven bits": {"bits": 7},
    "no bits": {"bits": 0},
    "vectors": {"lanes": 4},
    "no lanes": {"lanes": 0},
    "an unknown device": {"device_type": 77},
    "a device that is not there": {"device_type": 2, "device_id": 99},
    "a negative device": {"device_type": 2, "device_id": -5},
    "an offset beyond the memory": {"byte_offset": 2**64 - 1},
}


@pytest.mark.parametrize("versioned", [False, True], ids=["plain", "versioned"])
@pytest.mark.parametrize("name", RUBBISH)
def test_rubbish_inside_is_refused(name, versioned):
    fields = dict(RUBBISH[name])
    without_shape = fields.pop("_no_shape", False)
    producer = Producer(versioned, **fields)
    if without_shape:
        producer.managed.tensor.shape = ctypes.POINTER(ctypes.c_int64)()
    assert TALLY.attempt(firelu.from_dlpack, producer, allowed=REFUSALS) is None
    # A capsule that was taken is given back; one that was left alone still belongs to its producer.
    assert producer.given_back <= 1
    np.testing.assert_array_equal(firelu.leaky_relu(np.float32([-2]), 0.5), [-1])


@pytest.mark.parametrize(
    "fields", [{"name": b"rubbish"}, {"versioned": True, "major": 2}, {"versioned": True, "major": 0}]
)
def test_another_protocol_is_refused(fields):
    producer = Producer(**fields)
    assert TALLY.attempt(firelu.from_dlpack, producer, allowed=REFUSALS) is None
    assert producer.given_back == 0
