"""The CUDA branch of `firelu.torch`, on torch's own tensors of ``cuda:0`` whose memory is the emulated driver's."""

import ctypes

import firelu
import pytest

torch = pytest.importorskip("torch")

import firelu.torch as ft  # noqa: E402
import torch_backend  # noqa: E402

TAPS = torch.outer(torch.tensor([1.0, 3, 3, 1]), torch.tensor([1.0, 3, 3, 1])) / 64
DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


@pytest.fixture(autouse=True, scope="module")
def backend():
    """Give torch a CUDA backend on this driver; a compiler is part of what the tests need."""
    assert torch_backend.COMPILER, "a C++ compiler is missing"
    firelu.Tensor([0.0], device="cuda:0")  # starts the driver
    return torch_backend.start()


@pytest.fixture
def side_stream(queue):
    """Make a non-blocking stream torch's current one."""
    torch_backend.stream = queue.stream
    yield queue
    torch_backend.stream = 0


def values(*shape, dtype=torch.float32, device="cpu"):
    generator = torch.Generator().manual_seed(len(shape))
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype).to(device)


CALLS = {
    "leaky_relu": lambda x, b, k: ft.leaky_relu(x, 0.2),
    "fused_leaky_relu": lambda x, b, k: ft.fused_leaky_relu(x, b),
    "blur": lambda x, b, k: ft.upfirdn2d(x, k, pad=(2, 1)),
    "up": lambda x, b, k: ft.upfirdn2d(x, k, up=2, pad=(2, 1)),
    "down": lambda x, b, k: ft.upfirdn2d(x, k, down=2, pad=(1, 1)),
}


def made(emulator, use):
    """Give the driver calls of the second of two uses: the first one loads kernels."""
    use()
    before = emulator.calls()
    use()
    return {name: n - before.get(name, 0) for name, n in emulator.calls().items() if n > before.get(name, 0)}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", CALLS)
def test_forward_and_backward_are_those_of_the_cpu(name, dtype, side_stream):
    """The engine of a CUDA build asks its run-time library for contexts: the recorded step is called without it."""
    there, here = [], []
    for device, results in (("cuda", there), ("cpu", here)):
        x = values(2, 4, 16, 16, dtype=dtype, device=device).requires_grad_()
        b = values(4, dtype=dtype, device=device).requires_grad_()
        y = CALLS[name](x, b, TAPS.to(dtype).to(device))
        assert y.device.type == device
        gradients = y.grad_fn.apply(values(*y.shape, dtype=dtype).to(device))
        side_stream.wait()
        gradients = gradients if isinstance(gradients, tuple) else (gradients,)
        results.extend(t.detach().cpu() for t in (y, *gradients) if t is not None)
    for a, e in zip(there, here, strict=True):
        assert a.dtype == e.dtype
        assert a.shape == e.shape
        assert torch.allclose(a.double(), e.double(), rtol=4 * torch.finfo(dtype).eps, atol=16 * torch.finfo(dtype).eps)


@pytest.mark.parametrize("name", CALLS)
def test_one_launch_and_nothing_else(emulator, name):
    x, b, k = values(2, 4, 16, 16, device="cuda"), values(4, device="cuda"), TAPS.to("cuda")
    calls = made(emulator, lambda: CALLS[name](x, b, k))
    # The stand-in's own, for the result.
    memory = {"cuMemAlloc_v2", "cuCtxSetCurrent", "cuThreadExchangeStreamCaptureMode"}
    # Which context is current is a question to the thread, not to the device.
    assert {name: n for name, n in calls.items() if name not in memory} == {"cuCtxGetCurrent": 1, "cuLaunchKernel": 1}


def test_the_short_way_is_taken(monkeypatch):
    """The dispatcher is not reached by plain tensors, and is by those under a mode."""
    from firelu.torch import direct

    x, b = values(2, 4, 8, 8, device="cuda"), values(4, device="cuda")
    expected = ft.fused_leaky_relu(x, b).cpu()
    ways = []
    overload = torch.ops.firelu.fused_leaky_relu.default

    class Watch(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            ways.append(function)
            return function(*args, **(kwargs or {}))

    keys = torch._C._dispatch_keys(x).raw_repr()
    assert direct._is_plain_cuda(x, keys)
    assert keys != direct._CPU
    with Watch():
        assert torch.equal(ft.fused_leaky_relu(x, b).cpu(), expected)
    assert overload in ways


def test_work_is_put_on_the_current_stream(emulator, side_stream):
    """Nothing orders a non-blocking stream but itself: a kernel on another would be reported as a race."""
    x, k = values(1, 2, 32, 32, device="cuda"), TAPS.to("cuda")
    y = ft.upfirdn2d(x, k, up=2, pad=(2, 1))
    z = ft.leaky_relu(y, 0.2)
    copy = torch.empty_like(z)
    side_stream.copy(copy.data_ptr(), z.data_ptr(), z.nbytes)
    side_stream.wait()
    expected = ft.leaky_relu(ft.upfirdn2d(x.cpu(), k.cpu(), up=2, pad=(2, 1)), 0.2)
    assert torch.allclose(copy.cpu(), expected, rtol=1e-6, atol=1e-6)


def test_tensors_of_two_devices_are_refused():
    with pytest.raises((firelu.DeviceError, RuntimeError), match=r"device|cuda"):
        ft.fused_leaky_relu(values(1, 4, 8, 8, device="cuda"), values(4))


@pytest.mark.parametrize(("taps", "up"), [(4, 1), (4, 2), (6, 3), (12, 2)])
def test_filters_are_captured_and_replayed(side_stream, taps, up):
    """Kernels are loaded, and memory is asked for, while the stream is captured: the first use may be there."""
    x, k = values(1, 2, 12, 20, device="cuda"), values(taps, taps, device="cuda")
    before, after = values(1, 2, 12, 20), values(2, 1, 12, 20).reshape(1, 2, 12, 20)
    graph, executable = ctypes.c_void_p(), ctypes.c_void_p()
    side_stream.call("cuStreamBeginCapture_v2", side_stream.handle, 0)
    y = ft.upfirdn2d(x, k, up=up, pad=(taps // 2, taps // 2))
    side_stream.call("cuStreamEndCapture", side_stream.handle, ctypes.byref(graph))
    side_stream.call("cuGraphInstantiateWithFlags", ctypes.byref(executable), graph, ctypes.c_uint64(0))
    for contents in (before, after):
        x.copy_(contents)
        side_stream.call("cuGraphLaunch", executable, side_stream.handle)
        side_stream.wait()
        expected = ft.upfirdn2d(contents, k.cpu(), up=up, pad=(taps // 2, taps // 2))
        assert torch.allclose(y.cpu(), expected, rtol=1e-5, atol=1e-4)
    side_stream.call("cuGraphExecDestroy", executable)
    side_stream.call("cuGraphDestroy", graph)


def test_the_report_of_a_gpu_compares_torch_with_the_cpu(monkeypatch):
    from firelu.cli import gpu_parts

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert gpu_parts.torch_results() == f"torch {torch.__version__}: 3 operators agree with the CPU"
    upfirdn2d = ft.upfirdn2d
    monkeypatch.setattr(ft, "upfirdn2d", lambda x, k, **options: upfirdn2d(x, k, gain=1.0 + x.is_cuda, **options))
    assert gpu_parts.torch_results().startswith("WRONG: upfirdn2d differs from the CPU by ")
