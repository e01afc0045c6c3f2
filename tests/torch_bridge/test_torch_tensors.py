"""Tensors as torch users have them: any strides, empty batches, errors, memory from the pool."""

from __future__ import annotations

import copy
import io
import pickle

import firelu
import firelu.torch as ft
import pytest
import torch
from firelu.torch.bridge import bridged
from firelu.torch.fake import shape_rule, symbolic
from hypothesis import given
from hypothesis import strategies as st

DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
LARGE = (2, 64, 64, 64)  # 2 MiB in float32: from the pool


@st.composite
def views(draw):
    """A tensor that is permuted, sliced, reversed in order or broadcast."""
    rank = draw(st.integers(2, 4))
    shape = draw(st.lists(st.integers(1, 6), min_size=rank, max_size=rank))
    steps = draw(st.lists(st.integers(1, 3), min_size=rank, max_size=rank))
    dtype = draw(st.sampled_from(DTYPES))
    order = draw(st.permutations(range(rank)))
    base = torch.randn([n * step for n, step in zip(shape, steps, strict=True)]).to(dtype)
    x = base[tuple(slice(None, None, step) for step in steps)].permute(order)
    if rank > 2 and draw(st.booleans()):
        x = x[:1].expand(draw(st.integers(0, 4)), *x.shape[1:])
    return x


@given(views())
def test_any_strides_give_what_a_contiguous_copy_gives(x):
    kernel = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    bias = torch.randn(x.shape[1]).to(x.dtype)
    plain = x.contiguous()
    assert torch.equal(ft.leaky_relu(x, 0.2), ft.leaky_relu(plain, 0.2))
    assert torch.equal(ft.fused_leaky_relu(x, bias), ft.fused_leaky_relu(plain, bias))
    assert torch.equal(ft.upfirdn2d(x, kernel, up=2, down=1, pad=1), ft.upfirdn2d(plain, kernel, up=2, down=1, pad=1))
    for gradient in bridged("FusedLeakyReluGradient").overload(x, x, bias):
        assert gradient.dtype == x.dtype


@given(views())
def test_formulas_for_symbols_agree_with_the_registry(x):
    """The fake kernel's formulas, evaluated on numbers, against the inference that real calls use."""
    kernel, bias = torch.ones(2, 3), torch.ones(x.shape[1], dtype=x.dtype)
    calls = [
        ("LeakyRelu", [x]),
        ("FusedLeakyRelu", [x, bias]),
        ("FusedLeakyReluGradient", [x, x, None, list(bias.shape), bias.dtype]),
        ("FusedLeakyReluGradient", [x, x, bias, None, None, 0.2, 1.0, 7 if x.dim() == 2 else 1, [True, False]]),
        ("UpFirDn2d", [x, kernel, 2, 3, 1, 2, 2, 1, 1, 1]),
        (
            "UpFirDn2dGradient",
            [ft.upfirdn2d(x, kernel, 2, 1, 2), kernel, list(x.shape), x.dtype, 2, 2, 1, 1, 2, 2, 2, 2],
        ),
        ("Sum", [[x, x]]),
        ("Mul", [x, bias[:1]]),
        ("ReduceSum", [x, None, None, [0, -1], True]),
        ("BroadcastLike", [bias[:1], list(x.shape), x.dtype]),
    ]
    for name, arguments in calls:
        if name == "FusedLeakyReluGradient" and len(arguments) > 5 and x.dim() == 2:
            arguments[2] = None  # An axis that is not there takes no bias.
        target = bridged(name)
        expected = target.kernel.infer(*arguments)
        found = symbolic(target, shape_rule(target), target.signature.complete(arguments))
        assert [(tuple(a), tuple(b), c) for a, b, c in found] == expected, name


@pytest.mark.parametrize("shape", [(2, 3, 8, 8), LARGE], ids=["small", "pooled"])
def test_channels_last_in_channels_last_out(shape):
    x = torch.randn(shape).to(memory_format=torch.channels_last).requires_grad_()
    bias = torch.zeros(shape[1], requires_grad=True)
    kernel = torch.ones(4, 4)
    for y in (
        ft.leaky_relu(x),
        ft.fused_leaky_relu(x, bias),
        ft.upfirdn2d(x, kernel, up=2, pad=(2, 1)),
        ft.upfirdn2d(x, kernel, down=2, pad=(1, 1)),
    ):
        assert y.is_contiguous(memory_format=torch.channels_last)
        (dx,) = torch.autograd.grad(y, x, torch.randn_like(y))
        assert dx.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("shape", [(0, 3, 8, 8), (2, 0, 8, 8), (0, 3)])
def test_empty_batches(shape):
    x = torch.empty(shape, requires_grad=True)
    bias = torch.zeros(shape[1], requires_grad=True)
    y = ft.fused_leaky_relu(x, bias)
    assert y.shape == shape
    y.sum().backward()
    assert x.grad.shape == shape
    assert torch.equal(bias.grad, torch.zeros(shape[1]))
    if len(shape) == 4:
        kernel = torch.ones(4, 4, requires_grad=True)
        z = ft.upfirdn2d(x, kernel, up=2, pad=(2, 1))
        assert z.shape == (*shape[:2], 16, 16)
        z.sum().backward()
        assert torch.equal(kernel.grad, torch.zeros(4, 4))


@pytest.mark.parametrize("half", [torch.float16, torch.bfloat16], ids=str)
def test_a_float32_bias_beside_a_half_input_gets_a_float32_gradient(half):
    x = torch.randn(2, 3, 4, 4).to(half).requires_grad_()
    bias = torch.randn(3, requires_grad=True)
    y = ft.fused_leaky_relu(x, bias)
    assert y.dtype == half
    y.sum().backward()
    assert x.grad.dtype == half
    assert bias.grad.dtype == torch.float32


def test_the_kernel_may_have_another_dtype_and_gets_its_gradient_in_it():
    kernel = torch.ones(3, 3, dtype=torch.float64, requires_grad=True)
    y = ft.upfirdn2d(torch.randn(1, 1, 8, 8), kernel)
    assert y.dtype == torch.float32
    y.sum().backward()
    assert kernel.grad.dtype == torch.float64


def test_a_one_dimensional_kernel_is_its_outer_product_and_gets_a_gradient():
    taps = torch.tensor([1.0, 3.0, 3.0, 1.0], dtype=torch.float64, requires_grad=True)
    x = torch.randn(1, 2, 6, 6, dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda k: ft.upfirdn2d(x, k, pad=(2, 1)), taps)


def test_errors_name_operator_and_argument():
    x = torch.randn(1, 3, 4, 4)
    with pytest.raises(firelu.ShapeError, match="FusedLeakyRelu: B: got"):
        ft.fused_leaky_relu(x, torch.zeros(4))
    with pytest.raises(firelu.ShapeError, match="UpFirDn2d: X: got"):
        ft.upfirdn2d(x, torch.ones(9, 9))
    with pytest.raises(firelu.DTypeError, match="FusedLeakyRelu: B: got float64"):
        ft.fused_leaky_relu(x, torch.zeros(3, dtype=torch.float64))
    with pytest.raises(firelu.ArgumentError, match="UpFirDn2d: up_x: got 0"):
        ft.upfirdn2d(x, torch.ones(3, 3), up=0)
    with pytest.raises(firelu.ArgumentError, match="UpFirDn2d: pad: got"):
        ft.upfirdn2d(x, torch.ones(3, 3), pad=(1, 2, 3))
    with pytest.raises(firelu.ArgumentError, match="LeakyRelu: alpha: got NaN"):
        ft.leaky_relu(x, float("nan"))


def test_the_same_errors_on_meta_tensors():
    with pytest.raises(firelu.ShapeError, match="FusedLeakyRelu: B: got"):
        ft.fused_leaky_relu(torch.empty(1, 3, 4, device="meta"), torch.zeros(4, device="meta"))
    y = ft.upfirdn2d(torch.empty(1, 3, 4, 4, device="meta"), torch.empty(4, 4, device="meta"), up=2, pad=(2, 1))
    assert y.shape == (1, 3, 8, 8)
    assert y.device.type == "meta"


def test_storage_that_was_freed_is_refused():
    x = torch.randn(8)
    x.untyped_storage().resize_(0)
    with pytest.raises(firelu.ArgumentError, match="LeakyRelu: X: got a tensor whose storage was freed"):
        ft.leaky_relu(x)


def test_negative_views_are_resolved():
    x = torch.randn(4, dtype=torch.complex64).conj().imag
    assert x.is_neg()
    assert torch.equal(ft.leaky_relu(x, 0.2), torch.nn.functional.leaky_relu(x.resolve_neg(), 0.2))


def test_large_outputs_come_from_the_pool_and_go_back():
    x = torch.randn(LARGE)
    firelu.empty_cache()
    y = ft.leaky_relu(x)
    address = y.data_ptr()
    assert address % (2 << 20) == 0
    del y
    assert ft.leaky_relu(x).data_ptr() == address


def test_a_view_keeps_pooled_memory_alive():
    x = torch.randn(LARGE)
    row = ft.leaky_relu(x, 0.2)[1, 2, 3]
    expected = row.clone()
    for _ in range(3):
        ft.leaky_relu(torch.randn(LARGE), 0.3)
    assert torch.equal(row, expected)


def test_pooled_memory_is_foreign_to_torch():
    # A tensor of its own: torch gives any foreign tensor the new shape before it refuses.
    with pytest.raises(RuntimeError, match="not resizable"):
        ft.leaky_relu(torch.randn(LARGE)).resize_(4, *LARGE)
    y = ft.leaky_relu(torch.randn(LARGE))
    assert torch.equal(copy.deepcopy(y), y)
    assert torch.equal(pickle.loads(pickle.dumps(y)), y)
    buffer = io.BytesIO()
    torch.save(y, buffer)
    buffer.seek(0)
    assert torch.equal(torch.load(buffer), y)
    before = y.clone()
    assert not y.is_shared()
    y.share_memory_()
    assert y.is_shared()
    assert torch.equal(y, before)


def test_torch_threads_are_honoured(monkeypatch):
    """The same bits for every number of threads, and one thread means the caller's alone."""
    x, bias = torch.randn(4, 64, 128, 128), torch.randn(64)
    before = torch.get_num_threads()
    results = []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            results.append(bridged("FusedLeakyReluGradient").overload(x, x, bias))
    finally:
        torch.set_num_threads(before)
    for dx, db in results[1:]:
        assert torch.equal(dx, results[0][0])
        assert torch.equal(db, results[0][1])


def test_gradients_keep_no_input_that_lends_only_its_shape():
    x = torch.randn(LARGE, requires_grad=True)
    hidden = x * 1.0
    y = ft.upfirdn2d(hidden, torch.ones(4, 4), up=2, pad=(2, 1))
    saved = [t for t in y.grad_fn.saved_tensors if t is not None]
    assert [tuple(t.shape) for t in saved] == [(4, 4)]
