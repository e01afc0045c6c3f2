"""Memory shared with other libraries by DLPack."""

from __future__ import annotations

import gc

import firelu
import numpy as np
import pytest


def test_numpy_and_back_share_memory():
    t = firelu.Tensor(np.arange(6.0).reshape(2, 3))
    array = np.from_dlpack(t)
    assert np.shares_memory(array, t.numpy())
    array = array if array.flags.writeable else t.numpy()
    array[0, 0] = 5
    assert t.numpy()[0, 0] == 5
    back = firelu.from_dlpack(array)
    assert np.shares_memory(back.numpy(), array)
    assert back.dtype == "float64"


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("view", [np.s_[:], np.s_[::2], np.s_[:, ::-1], np.s_[1:1], np.s_[0, 0]])
def test_any_view_of_an_array(dtype, view):
    source = np.asarray(np.arange(24.0).astype(dtype).reshape(4, 6)[view])
    imported = firelu.from_dlpack(source)
    np.testing.assert_array_equal(imported.numpy(), source)
    np.testing.assert_array_equal(firelu.leaky_relu(imported, 0.5).numpy(), source)


def test_the_memory_lives_as_long_as_somebody_uses_it():
    imported = firelu.from_dlpack(np.arange(1000.0))
    gc.collect()
    np.testing.assert_array_equal(imported.numpy(), np.arange(1000.0))
    exported = np.from_dlpack(firelu.Tensor(np.arange(1000.0)))
    gc.collect()
    np.testing.assert_array_equal(exported, np.arange(1000.0))
    # A capsule that nobody takes frees what it holds.
    start = firelu.memory_stats()["in_use"]
    for version in (None, (1, 0)):
        capsule = firelu.Tensor(np.ones(1 << 20)).__dlpack__(max_version=version)
        assert firelu.memory_stats()["in_use"] > start
        del capsule
        assert firelu.memory_stats()["in_use"] == start


def test_read_only_memory_stays_read_only():
    source = np.ones(3)
    source.flags.writeable = False
    try:
        imported = firelu.from_dlpack(source)
    except BufferError:
        pytest.skip("this numpy exports no read-only arrays")
    assert not imported.numpy().flags.writeable
    assert not np.shares_memory(np.from_dlpack(imported), source)


def test_what_the_graph_holds_is_exported_as_a_copy():
    t = firelu.Tensor([1.0, -1.0], requires_grad=True)
    out = firelu.nn.functional.leaky_relu(t)
    exported = np.from_dlpack(out)
    assert not np.shares_memory(exported, out.numpy())
    with pytest.raises(BufferError, match="graph"):
        out.__dlpack__(copy=False)
    out.backward()
    assert np.shares_memory(np.from_dlpack(out), out.numpy())
    assert not np.shares_memory(np.from_dlpack(_Capsule(t, copy=True)), t.numpy())


class _Capsule:
    """An object that exports a tensor with fixed arguments."""

    def __init__(self, tensor, **arguments):
        self.tensor, self.arguments = tensor, arguments

    def __dlpack__(self, **_):
        return self.tensor.__dlpack__(**self.arguments)

    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()


def test_both_protocols_and_bfloat16():
    for version in (None, (0, 8), (1, 0), (1, 3)):
        for dtype in ("float16", "bfloat16", "float32", "float64"):
            if dtype == "bfloat16":
                pytest.importorskip("ml_dtypes")
            t = firelu.Tensor([1.0, -2.0], dtype=dtype)
            back = firelu.from_dlpack(_Capsule(t, max_version=version))
            assert back.dtype == dtype
            assert np.shares_memory(back.numpy(), t.numpy())


def test_torch_and_back():
    torch = pytest.importorskip("torch")
    if not hasattr(torch, "float16"):  # A folder of tests of that name stands in where it is not installed.
        pytest.skip("torch is not installed")
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        source = torch.arange(6, dtype=dtype).reshape(2, 3).t()
        imported = firelu.from_dlpack(source)
        assert imported.shape == (3, 2)
        back = torch.from_dlpack(imported)
        assert back.data_ptr() == source.data_ptr()
        assert torch.equal(back, source)


def test_refusals():
    with pytest.raises(firelu.ArgumentError, match="__dlpack__"):
        firelu.from_dlpack([1.0])
    with pytest.raises(firelu.DTypeError):
        firelu.from_dlpack(np.arange(3))
    t = firelu.Tensor([1.0])
    assert t.__dlpack_device__() == (1, 0)
    assert not hasattr(t, "__cuda_array_interface__")
    with pytest.raises(BufferError, match="dl_device"):
        t.__dlpack__(dl_device=(2, 0))
    with pytest.raises(BufferError, match="stream"):
        t.__dlpack__(stream=1)
    used = _Capsule(t)
    capsule = used.tensor.__dlpack__()
    used.__class__ = type("Used", (_Capsule,), {"__dlpack__": lambda self, **_: capsule})
    firelu.from_dlpack(used)
    with pytest.raises(firelu.ArgumentError, match="used"):
        firelu.from_dlpack(used)
