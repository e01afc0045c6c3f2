"""vmap, torch.func, autocast, inference mode and saved-tensor hooks."""

from __future__ import annotations

import firelu.torch as ft
import pytest
import torch
from firelu.torch.bridge import bridged
from torch_samples import SAMPLES, Sample, names


@pytest.mark.parametrize("sample", SAMPLES, ids=names)
@pytest.mark.parametrize("in_dim", [0, 1, -1])
def test_vmap_equals_a_loop(sample: Sample, in_dim: int):
    function, tensors = sample.function_of_tensors(sample.arguments(torch.float64))
    for batched in range(len(tensors) + 1):
        if batched < len(tensors):
            chosen = [place == batched for place in range(len(tensors))]
        else:
            chosen = [True] * len(tensors)
        if not any(chosen):
            continue
        dims = [in_dim if on and (t.dim() or in_dim == 0) else None for on, t in zip(chosen, tensors, strict=True)]
        stacks = [t if dim is None else torch.stack([t, 2 * t, -t], dim) for t, dim in zip(tensors, dims, strict=True)]
        result = torch.vmap(function, tuple(dims))(*stacks)
        for index in range(3):
            single = function(
                *(s if dim is None else s.select(dim, index) for s, dim in zip(stacks, dims, strict=True))
            )
            outputs = result if isinstance(result, tuple) else (result,)
            singles = single if isinstance(single, tuple) else (single,)
            for output, expected in zip(outputs, singles, strict=True):
                torch.testing.assert_close(output[index], expected)


def test_vmap_over_an_empty_batch():
    kernel = torch.ones(0, 3, 3)
    y = torch.vmap(ft.upfirdn2d, (None, 0))(torch.randn(1, 1, 8, 8), kernel)
    assert y.shape == (0, 1, 1, 6, 6)
    z = torch.vmap(ft.fused_leaky_relu)(torch.randn(0, 2, 3), torch.randn(0, 3))
    assert z.shape == (0, 2, 3)


def test_func_grad_of_any_order_and_per_sample_gradients():
    x = torch.randn(2, 3, 6, 6, dtype=torch.float64)
    bias = torch.randn(3, dtype=torch.float64)
    kernel = torch.randn(3, 3, dtype=torch.float64)

    def loss(b, k, x):
        return (ft.upfirdn2d(ft.fused_leaky_relu(x, b), k, pad=1) ** 3).sum()

    def plain(b, k, x):
        act = torch.nn.functional.leaky_relu(x + b.view(-1, 1, 1), 0.2) * 2**0.5
        return (ft.upfirdn2d_native(act, k, 1, 1, 1, 1, 1, 1, 1, 1) ** 3).sum()

    for argument in (0, 1):
        torch.testing.assert_close(
            torch.func.grad(loss, argument)(bias, kernel, x), torch.func.grad(plain, argument)(bias, kernel, x)
        )
        torch.testing.assert_close(
            torch.func.jacrev(torch.func.grad(loss, argument), argument)(bias, kernel, x),
            torch.func.jacrev(torch.func.grad(plain, argument), argument)(bias, kernel, x),
        )
    per_sample = torch.vmap(torch.func.grad(loss), (None, None, 0))(bias, kernel, x.unsqueeze(1))
    expected = [torch.func.grad(plain)(bias, kernel, one.unsqueeze(0)) for one in x]
    torch.testing.assert_close(per_sample, torch.stack(expected))


@pytest.mark.parametrize("half", [torch.bfloat16, torch.float16], ids=str)
def test_autocast_runs_in_the_dtype_of_the_input(half):
    convolution = torch.nn.Conv2d(3, 4, 3, padding=1)
    activation = ft.FusedLeakyReLU(4)
    smooth = ft.UpFirDnDownsample([1, 3, 3, 1])
    x = torch.randn(2, 3, 8, 8)
    with torch.autocast("cpu", dtype=half):
        hidden = convolution(x)
        assert hidden.dtype == half
        y = activation(hidden)
        assert y.dtype == half
        z = smooth(y)
        assert z.dtype == half
        assert ft.leaky_relu(x).dtype == torch.float32
    z.float().sum().backward()
    assert activation.bias.grad.dtype == torch.float32
    assert convolution.weight.grad.dtype == torch.float32


def test_autocast_promotes_inputs_that_must_agree():
    x = torch.randn(2, 3).bfloat16()
    with pytest.raises(TypeError):
        bridged("LeakyReluGradient").overload(x, x.float())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert bridged("LeakyReluGradient").overload(x, x.float()).dtype == torch.float32
        assert bridged("Sum").overload([x, x.float()]).dtype == torch.float32
        assert ft.fused_leaky_relu(x, torch.zeros(3, dtype=torch.float64)).dtype == torch.bfloat16


def test_inference_mode_and_no_grad():
    x = torch.randn(3, 4, requires_grad=True)
    with torch.inference_mode():
        assert ft.leaky_relu(x).is_inference()
    with torch.no_grad():
        assert not ft.leaky_relu(x).requires_grad
    assert ft.leaky_relu(x).requires_grad


def test_saved_tensor_hooks_and_checkpointing():
    x = torch.randn(2, 3, 8, 8, dtype=torch.float64, requires_grad=True)
    packed: list[torch.Size] = []

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        packed.append(tensor.shape)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        y = ft.fused_leaky_relu(x)
    assert packed == [x.shape]
    (direct,) = torch.autograd.grad(y.sum(), x)
    again = torch.utils.checkpoint.checkpoint(ft.fused_leaky_relu, x, use_reentrant=False)
    assert torch.equal(torch.autograd.grad(again.sum(), x)[0], direct)


def test_backward_after_an_in_place_change_is_refused():
    x = torch.randn(4, requires_grad=True)
    y = ft.leaky_relu(x)
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
