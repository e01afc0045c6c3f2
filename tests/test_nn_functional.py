"""`firelu.nn.functional` has every function that tensors differentiate through, under its name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import firelu
import numpy as np
import pytest
from firelu import FireluError, Tensor
from firelu.nn import functional

KERNEL = firelu.make_kernel([1, 3, 3, 1])
TAPS = firelu.kernels.kaiser(0.25, 0.3, 12)

#: A call of each function on tensors, and the shapes that it takes.
CALLS: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]]]] = {
    "bias_act": (lambda x, b: functional.bias_act(x, b, "swish"), [(2, 3), (3,)]),
    "bias_act_gradient": (lambda x, dy, b: functional.bias_act_gradient(x, dy, b, "tanh"), [(2, 3), (2, 3), (3,)]),
    "downsample2d": (lambda x: functional.downsample2d(x, KERNEL), [(1, 6, 8)]),
    "filter2d": (lambda x: functional.filter2d(x, KERNEL, border="edge"), [(1, 5, 6)]),
    "filtered_act": (
        lambda x, b: functional.filtered_act(x, 2 * TAPS, TAPS, b, "softplus", up=2, down=2, pad=(11, 10)),
        [(1, 2, 4, 5), (2,)],
    ),
    "filtered_snake": (
        lambda x, a, b: functional.filtered_snake(x, a, b, logscale=True),
        [(2, 3, 9), (3,), (3,)],
    ),
    "fused_leaky_relu": (lambda x, b: functional.fused_leaky_relu(x, b), [(2, 3), (3,)]),
    "fused_leaky_relu_gradient": (lambda y, dy: functional.fused_leaky_relu_gradient(y, dy), [(2, 3), (2, 3)]),
    "leaky_relu": (functional.leaky_relu, [(2, 3)]),
    "leaky_relu_gradient": (functional.leaky_relu_gradient, [(2, 3), (2, 3)]),
    "snake": (lambda x, a: functional.snake(x, a), [(2, 3), (3,)]),
    "snake_gradient": (lambda x, dy, a, b: functional.snake_gradient(x, dy, a, b), [(2, 3), (2, 3), (3,), (3,)]),
    "upfirdn1d": (lambda x, k: functional.upfirdn1d(x, k, 2, 3, (2, 1), border="reflect"), [(2, 9), (4,)]),
    "upfirdn2d": (lambda x, k: functional.upfirdn2d(x, k, 2, 1, (2, 1)), [(1, 4, 5), (3, 2)]),
    "upfirdn2d_gradient": (lambda dy, k: functional.upfirdn2d_gradient(dy, k, (1, 4, 4)), [(1, 3, 3), (2, 2)]),
    "upfirdn2d_kernel_gradient": (
        lambda x, dy: functional.upfirdn2d_kernel_gradient(x, dy, (2, 2)),
        [(1, 4, 4), (1, 3, 3)],
    ),
    "upsample2d": (lambda x: functional.upsample2d(x, KERNEL), [(1, 3, 4)]),
}


def _arrays(name: str) -> list[np.ndarray[Any, Any]]:
    random = np.random.default_rng(len(name))
    return [random.uniform(0.2, 1.0, shape) for shape in CALLS[name][1]]


def _all(results: Any) -> list[Any]:
    return [each for each in (results if isinstance(results, tuple) else (results,)) if each is not None]


def test_every_function_is_here() -> None:
    assert sorted(CALLS) == functional.__all__
    assert set(functional.__all__) <= set(firelu.__all__)


@pytest.mark.parametrize("name", CALLS)
def test_tensors_give_what_arrays_give(name: str) -> None:
    call, arrays = CALLS[name][0], _arrays(name)
    expected = _all(call(*arrays))
    found = _all(call(*(Tensor(array, requires_grad=True) for array in arrays)))
    for tensor, array in zip(found, expected, strict=True):
        assert isinstance(tensor, Tensor)
        assert tensor.requires_grad
        assert np.array_equal(tensor.numpy(), array)


@pytest.mark.parametrize("name", CALLS)
def test_every_function_has_its_derivatives(name: str) -> None:
    call = CALLS[name][0]
    firelu.gradcheck(lambda *inputs: _all(call(*inputs)), *_arrays(name), order=2)


def test_a_filtered_snake_writes_to_arrays_of_its_shape_alone() -> None:
    x, alpha = np.random.default_rng(0).standard_normal((2, 3, 16)), np.ones(3)
    expected = firelu.filtered_snake(x, alpha)
    out = np.empty((2, 3, 32))[..., ::2]
    assert firelu.filtered_snake(x, alpha, out=out) is out
    assert np.array_equal(out, expected)
    with pytest.raises(FireluError, match=r"out: got an array of \(3, 2, 16\), takes an array of \(2, 3, 16\)"):
        firelu.filtered_snake(x, alpha, out=np.empty((3, 2, 16)))
    with pytest.raises(FireluError, match="takes None beside a tensor"):
        functional.filtered_snake(Tensor(x), Tensor(alpha), out=Tensor(x))
    with pytest.raises(FireluError, match=r"up_kernel: got firelu\.Tensor, takes an array"):
        functional.filtered_snake(Tensor(x), Tensor(alpha), up_kernel=Tensor(np.ones(12)))
