"""What would go wrong without a word is refused by name, or keeps what it is."""

from __future__ import annotations

import pathlib
import sys
import types

import firelu
import numpy as np
import pytest

op = firelu.create_operator


class TestScalars:
    """Scalars of numpy's have a type; numbers and lists of Python's have none and become float32."""

    @pytest.mark.parametrize("scalar", [np.float16, np.float32, np.float64])
    def test_keep_their_type(self, scalar):
        workspace = firelu.Workspace()
        workspace.feed("x", scalar(1.5))
        assert workspace.fetch("x").dtype == scalar
        assert firelu.Tensor(scalar(1.5)).dtype == scalar.__name__

    @pytest.mark.parametrize("value", [1.5, [1.5], (1.5,)])
    def test_python_has_no_type(self, value):
        assert firelu.Tensor(value).dtype == "float32"

    def test_beside_a_tensor_they_are_numbers(self):
        assert (firelu.Tensor([1.0]) * np.float64(2)).dtype == "float32"


class TestOtherLibraries:
    """A tensor or a lazy array turned into numpy's would lose its gradient, or be computed."""

    def test_torch_tensors_are_refused_with_the_right_function(self):
        torch = pytest.importorskip("torch")
        x = torch.ones(1, 1, 4, 4)
        for call, name in [
            (lambda: firelu.leaky_relu(x), "firelu.torch.leaky_relu"),
            (lambda: firelu.fused_leaky_relu(x), "firelu.torch.fused_leaky_relu"),
            (lambda: firelu.upfirdn2d(x, np.ones((2, 2))), "firelu.torch.upfirdn2d"),
            (lambda: firelu.upsample2d(x, np.ones((2, 2)), 2), "firelu.torch.upfirdn2d"),
            (lambda: firelu.bias_act(x), "firelu.torch.bias_act"),
            (lambda: firelu.filtered_act(x), "firelu.torch.filtered_lrelu"),
            (lambda: firelu.snake(x, np.ones(1)), "firelu.torch.snake"),
            (lambda: firelu.filtered_snake(x, np.ones(1)), "firelu.torch.filtered_snake"),
            (lambda: firelu.upfirdn1d(x, np.ones(2)), "firelu.torch.upfirdn1d"),
            (lambda: firelu.upfirdn1d(np.ones(4), torch.ones(2)), "firelu.torch.upfirdn1d"),
            (lambda: firelu.run_operator("Sum", x), "firelu.torch.register('Sum')"),
            (lambda: firelu.leaky_relu(torch.nn.Parameter(x)), "firelu.torch.leaky_relu"),
        ]:
            with pytest.raises(firelu.ArgumentError, match="got torch") as refused:
                call()
            assert f"use {name}" in str(refused.value)
        firelu_torch = pytest.importorskip("firelu.torch")
        named = {"bias_act", "filtered_lrelu", "filtered_snake", "snake", "upfirdn1d"}
        assert {"leaky_relu", "fused_leaky_relu", "upfirdn2d", "register"} | named <= set(dir(firelu_torch))

    def test_a_tensor_is_refused_where_its_gradient_would_be_lost(self):
        x, taps = np.ones((1, 1, 8)), firelu.Tensor(np.ones(12), requires_grad=True)
        with pytest.raises(
            firelu.ArgumentError, match=r"filtered_snake: down_kernel: got firelu\.Tensor, takes an array"
        ):
            firelu.filtered_snake(x, np.ones(1), down_kernel=taps)

    def test_functions_without_a_gradient_refuse_tensors_that_require_one(self):
        image, taps = (firelu.Tensor(np.full(s, 0.5), requires_grad=True) for s in ((2, 2), 2))
        for call in (
            lambda: firelu.resample(image, 2),
            lambda: firelu.resize(image, 2),
            lambda: firelu.pyramid(image, 2),
            lambda: firelu.resample(image.numpy(), 2, kernel=taps),
            lambda: firelu.make_kernel(taps),
        ):
            with pytest.raises(
                firelu.ArgumentError, match=r"got a firelu\.Tensor that requires a gradient, takes an array"
            ):
                call()
        np.testing.assert_array_equal(firelu.resample(firelu.Tensor(np.ones((2, 2))), 2), np.ones((4, 4)))

    def test_what_is_copied_on_purpose_is_accepted(self):
        torch = pytest.importorskip("torch")
        workspace = firelu.Workspace()
        workspace.feed("x", torch.ones(2))
        np.testing.assert_array_equal(workspace.fetch("x"), np.ones(2))
        assert firelu.Tensor(torch.ones(2)).shape == (2,)
        np.testing.assert_array_equal(firelu.leaky_relu(torch.ones(2).numpy()), np.ones(2))

    def test_dask_arrays_are_refused_with_a_way(self, monkeypatch):
        """With a class of dask's name and module: dask itself is not needed for this."""
        module = types.ModuleType("dask.array.core")
        lazy = type("Array", (), {"__module__": module.__name__, "__array__": lambda self, *_, **__: np.ones(3)})
        monkeypatch.setitem(sys.modules, module.__name__, module)
        with pytest.raises(firelu.ArgumentError, match=r"got dask.Array, .*: use x.map_blocks\(firelu.leaky_relu\)"):
            firelu.leaky_relu(lazy())
        with pytest.raises(firelu.ArgumentError, match=r"got dask.Array, .*: use firelu\.(dask\.)?upfirdn2d"):
            firelu.upfirdn2d(lazy(), np.ones((2, 2)))

    def test_other_arrays_go_through_numpy(self):
        class Wrapped:
            def __array__(self, *_, **__):
                return np.array([-1.0, 2.0])

        np.testing.assert_array_equal(firelu.leaky_relu(Wrapped(), 0.5), [-0.5, 2.0])


class TestErrorsInNets:
    """A net has many steps: the message says which one, and what it read and wrote."""

    def workspace(self):
        workspace = firelu.Workspace()
        workspace.feed("X", np.ones(2, np.float32))
        workspace.feed("B", np.float64(2))
        return workspace

    def test_the_step_and_its_blobs_are_named(self):
        net = [op("LeakyRelu", ["X"], ["A"]), op("Mul", ["A", "B"], ["C"], name="scale")]
        with pytest.raises(firelu.DTypeError) as failed:
            self.workspace().run(net)
        assert str(failed.value) == 'Mul (step 1, "scale": A, B -> C): B: got float64, takes float32, the type of A'

    def test_also_where_a_gradient_is_missing(self):
        firelu.register_operator("TestTrapFlat", np.sign, ["X"], ["Y"])
        net = [op("LeakyRelu", ["X"], ["A"]), op("TestTrapFlat", ["A"], ["Y"])]
        with pytest.raises(firelu.NoGradientError, match=r"^TestTrapFlat \(step 1: A -> Y\): no gradient: not written"):
            firelu.add_gradient_operators(net, {"Y": "Y_grad"})

    @pytest.mark.skipif(sys.version_info < (3, 11), reason="exceptions have no notes before Python 3.11")
    def test_an_exception_of_a_kernel_stays_itself_and_gets_a_note(self):
        def kernel(x):
            raise ZeroDivisionError("mine")

        firelu.register_operator("TestTrapRaises", kernel, ["X"], ["Y"])
        with pytest.raises(ZeroDivisionError, match=r"^mine") as failed:
            self.workspace().run([op("LeakyRelu", ["X"], ["A"]), op("TestTrapRaises", ["A"], ["Y"])])
        assert str(failed.value) == "mine"
        assert failed.value.__notes__ == ["raised in the operator TestTrapRaises (step 1: A -> Y)"]

    def test_a_kernel_of_another_shape_is_told_of_infer(self):
        firelu.register_operator("TestTrapShape", lambda x: x[:1], ["X"], ["Y"])
        with pytest.raises(firelu.ShapeError, match=r"infer="):
            firelu.run_operator("TestTrapShape", np.ones(2))


def test_a_maker_is_not_called_where_no_gradient_comes_in():
    calls = []

    def maker(definition, output_gradients):
        calls.append(output_gradients)
        first, second = output_gradients
        return [op("Sum", [first or second], ["dx"])], ["dx"]

    firelu.register_operator("TestTrapTwo", lambda x: (x, x), ["X"], ["Y", "Z"], gradient=maker, infer=lambda t: t * 2)
    definition = op("TestTrapTwo", ["X"], ["Y", "Z"])
    assert firelu.get_gradient_defs(definition, [None, None]) == ([], [None])
    assert calls == []
    assert firelu.get_gradient_defs(definition, [None, "dz"])[1] == ["dx"]
    assert calls == [[None, "dz"]]


class TestReplace:
    """The cell of a notebook can be run again."""

    def test_later_calls_use_the_new_one(self):
        firelu.register_operator("TestReplaced", lambda x: x + 1, ["X"], ["Y"])
        definition = op("TestReplaced", ["X"], ["Y"])
        firelu.register_operator("TestReplaced", lambda x, *, by: x + by, ["X"], ["Y"], args={"by": 5.0}, replace=True)
        np.testing.assert_array_equal(firelu.run_operator("TestReplaced", np.ones(1)), [6.0])
        workspace = firelu.Workspace()
        workspace.feed("X", np.ones(1))
        workspace.run(definition)
        np.testing.assert_array_equal(workspace.fetch("Y"), [6.0])
        assert [argument.name for argument in firelu.schema("TestReplaced").args] == ["by"]

    def test_a_new_name_may_be_registered_so_too(self):
        firelu.register_operator("TestReplacedNew", lambda x: x, ["X"], ["Y"], replace=True)
        assert "TestReplacedNew" in firelu.operators()

    def test_what_is_built_in_stays(self):
        with pytest.raises(firelu.ArgumentError, match="got the name of a built-in operator"):
            firelu.register_operator("LeakyRelu", lambda x: x, ["X"], ["Y"], replace=True)
        assert firelu.leaky_relu(np.array([-1.0]), 0.5) == -0.5


class TestImages:
    """The channels of an image are not resized as if they were its rows."""

    @pytest.mark.parametrize("shape", [(3, 64, 48), (1, 5, 5), (4, 480, 640)])
    def test_channels_first_are_refused_with_the_right_layout(self, shape):
        image = np.ones(shape, np.float32)
        with pytest.raises(firelu.ShapeError, match=r'would resample the colours .*: pass layout="CHW"'):
            firelu.resize(image, 0.5)
        assert firelu.resize(image, 2, layout="CHW").shape == (shape[0], 2 * shape[1], 2 * shape[2])
        assert firelu.resize(image, 2, layout="HWN").shape == (2 * shape[0], 2 * shape[1], shape[2])

    @pytest.mark.parametrize("shape", [(3, 64, 3), (3, 4, 64), (64, 3, 64), (1, 64, 4), (4, 4, 4)])
    def test_small_images_with_channels_last_are_not(self, shape):
        assert firelu.resize(np.ones(shape, np.float32), 2).shape == (2 * shape[0], 2 * shape[1], shape[2])

    def test_a_batch_is_refused_with_its_layouts(self):
        with pytest.raises(firelu.ShapeError, match=r"takes an axis for each letter of layout='HWC': pass layout=\"NH"):
            firelu.resize(np.ones((2, 3, 8, 8)), 0.5)

    @pytest.mark.parametrize("shape", [(64, 48, 3), (5, 5, 4)])
    def test_colours_last_are_refused_with_the_right_axes(self, shape):
        """Unless the axes are named: these may be no colours."""
        x = np.ones(shape, np.float32)
        smaller = tuple(-(-length // 2) for length in shape)
        for call in (lambda **axes: firelu.resample(x, 1, 2, **axes), lambda **axes: firelu.pyramid(x, 2, **axes)[1]):
            with pytest.raises(
                firelu.ShapeError, match=r"takes \(\.\.\., H, W\), .* pass axes=\(0, 1\), or axes=\(1, 2\)"
            ):
                call()
            assert call(axes=(0, 1)).shape == (*smaller[:2], shape[2])
            assert call(axes=(1, 2)).shape == call(axes=(-2, -1)).shape == (shape[0], *smaller[1:])

    @pytest.mark.parametrize("shape", [(3, 64, 48), (64, 3), (64, 48, 2), (64, 4, 4), (1, 64, 48, 3)])
    def test_other_shapes_have_their_last_axes_resampled(self, shape):
        x = np.ones(shape, np.float32)
        assert firelu.resample(x, 2).shape == (*shape[:-2], 2 * shape[-2], 2 * shape[-1])
        assert firelu.pyramid(x, 1)[0].shape == shape

    @pytest.mark.parametrize("path", ["photo.jpg", pathlib.Path("photo.jpg")])
    def test_a_path_is_no_image(self, path):
        with pytest.raises(firelu.DTypeError, match=r"resize: image: got a path, takes an array: numpy\.asarray\(PIL"):
            firelu.resize(path, 0.5)
