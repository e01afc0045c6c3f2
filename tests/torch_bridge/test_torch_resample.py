"""firelu.torch.resample: the numbers of firelu.resample, with gradients."""

from __future__ import annotations

import firelu
import numpy as np
import pytest

torch = pytest.importorskip("torch")
import firelu.torch as ft  # noqa: E402

BORDERS = ["reflect", "symmetric", "edge", "wrap", "constant"]


@pytest.mark.parametrize("factor", [(1, 2), (2, 1), (3, 2), (2, 3), (19, 17)])
@pytest.mark.parametrize("border", BORDERS)
def test_it_is_the_arrays_result(factor, border):
    x = np.random.default_rng(0).standard_normal((2, 3, 20, 27))
    for dtype, tolerance in [("float64", 1e-14), ("float32", 1e-6), ("float16", 2e-3)]:
        array = x.astype(dtype)
        y = ft.resample(torch.from_numpy(array), *factor, border=border)
        np.testing.assert_allclose(y.numpy(), firelu.resample(array, *factor, border=border), rtol=0, atol=tolerance)


def test_colours_last_are_refused_with_the_right_axes():
    x = torch.zeros(16, 20, 3)
    with pytest.raises(
        firelu.ShapeError, match=r"resample: input: got \(16, 20, 3\), .* pass axes=\(0, 1\), or axes=\(1, 2\)"
    ):
        ft.resample(x, 1, 2)
    assert ft.resample(x, 1, 2, axes=(0, 1)).shape == (8, 10, 3)
    assert ft.resample(x, 1, 2, axes=(1, 2)).shape == (16, 10, 2)
    assert ft.resample(x[None], 1, 2).shape == (1, 16, 10, 2)


def test_a_compiler_keeps_every_size_free():
    """A question about the shape would become a condition on sizes that the program's author declared free."""
    from torch.export import Dim, export

    class Half(torch.nn.Module):
        def forward(self, x):
            return ft.resample(x, 1, 2, kernel="box")

    sizes = {1: 2 * Dim("h", min=1, max=512), 2: 2 * Dim("w", min=1, max=512)}
    program = export(Half(), (torch.ones(3, 16, 20),), dynamic_shapes={"x": sizes}).module()
    assert program(torch.ones(3, 8, 4)).shape == (3, 4, 2)


@pytest.mark.parametrize("dtype", ["uint8", "uint16"])
def test_integers_are_rounded_and_clipped(dtype):
    x = np.random.default_rng(1).integers(0, np.iinfo(dtype).max, (30, 40, 3), dtype, endpoint=True)
    y = ft.resample(torch.from_numpy(x), 3, 2, axes=(0, 1), kernel="cubic")
    expected = firelu.resample(x, 3, 2, axes=(0, 1), kernel="cubic")
    assert str(y.dtype) == f"torch.{dtype}"
    np.testing.assert_array_equal(y.numpy(), expected)


@pytest.mark.parametrize("border", BORDERS)
def test_gradients(border):
    x = torch.randn(5, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0), requires_grad=True)

    def function(x):
        return ft.resample(x, 3, 2, kernel="cubic", border=border)

    assert torch.autograd.gradcheck(function, x)
    assert torch.autograd.gradgradcheck(function, x)
    half = x.detach().half().requires_grad_()
    ft.resample(half, 1, 2).sum().backward()
    assert half.grad.dtype == torch.float16


def test_it_compiles_whole():
    compiled = torch.compile(lambda x: ft.resample(x, 1, 2), fullgraph=True, backend="aot_eager")
    x = torch.randn(3, 16, 18)
    torch.testing.assert_close(compiled(x), ft.resample(x, 1, 2), rtol=0, atol=0)


def test_shapes_and_refusals():
    assert ft.resample(torch.zeros(0, 4), 3, 2).shape == (0, 6)
    assert ft.resample(torch.zeros(7), 3, 2, axes=0).shape == (11,)
    assert ft.resample(torch.ones(4, 4), 2, kernel=torch.ones(2) / 2).sum() == 64
    for error, call in [
        (firelu.DTypeError, lambda: ft.resample(torch.zeros(4, 4, dtype=torch.int64), 2)),
        (firelu.ArgumentError, lambda: ft.resample(torch.zeros(4, 4), 0.5)),
        (firelu.ArgumentError, lambda: ft.resample(torch.zeros(4, 4), 2, border="mirror")),
        (firelu.ArgumentError, lambda: ft.resample(torch.zeros(4, 4), 2, kernel="best")),
    ]:
        with pytest.raises(error, match=r"got .*takes"):
            call()
