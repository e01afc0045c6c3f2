"""The Tensor: recording, backward passes, memory, contexts and threads."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading

import firelu
import numpy as np
import pytest
from firelu.nn import functional


def leaf(values, dtype=np.float64):
    return firelu.Tensor(np.asarray(values, dtype), requires_grad=True)


def test_the_example_of_the_documentation():
    t = firelu.Tensor([-1.0, 0.0, 2.0], requires_grad=True)
    out = functional.leaky_relu(input_=t, negative_slope=0.1)
    np.testing.assert_array_equal(out.numpy(), np.float32([-0.1, 0.0, 2.0]))
    out.backward()
    np.testing.assert_array_equal(t.grad.numpy(), np.float32([0.1, 0.1, 1.0]))
    assert repr(out) == "Tensor([-0.1,  0. ,  2. ], grad_operator=LeakyRelu)"
    assert repr(t) == "Tensor([-1.,  0.,  2.], requires_grad=True)"
    assert repr(t.grad) == "Tensor([0.1, 0.1, 1. ])"
    assert repr(firelu.Tensor(1.5, dtype="float64")) == "Tensor(1.5, dtype=float64)"


def test_gradients_accumulate_until_cleared():
    t = leaf([1.0, 2.0])
    (t * 3.0).backward()
    (t * t).backward(gradient=[1.0, 10.0])
    np.testing.assert_array_equal(t.grad.numpy(), [3.0 + 2.0, 3.0 + 40.0])
    t.grad = None
    assert t.grad is None
    t.grad = firelu.Tensor(np.array([5.0, 5.0]))
    (t * 1.0).backward()
    np.testing.assert_array_equal(t.grad.numpy(), [6.0, 6.0])
    with pytest.raises(firelu.ShapeError):
        t.grad = firelu.Tensor(np.array([5.0]))


@pytest.mark.parametrize("other_shape", [(), (1,), (3,), (2, 1), (4, 2, 3)])
def test_arithmetic_broadcasts_as_numpy_does(other_shape):
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(2, 3)), rng.normal(size=other_shape)
    for operation in (lambda x, y: x + y, lambda x, y: x - y, lambda x, y: x * y):
        x, y = leaf(a), leaf(b)
        out = operation(x, y)
        np.testing.assert_array_equal(out.numpy(), operation(a, b))
        start = rng.normal(size=out.shape)
        out.backward(start)
        assert x.grad.shape == a.shape
        assert y.grad.shape == b.shape
        step = 1e-6
        moved = operation(a + step, b) - operation(a - step, b)
        np.testing.assert_allclose(x.grad.numpy().sum(), (start * moved).sum() / (2 * step), rtol=1e-7)


def test_numbers_arrays_and_lists_beside_a_tensor():
    t = leaf([1.0, 2.0], np.float32)
    results = [2 * t, t * np.float64(2.0), t + t, np.float32([2, 2]) * t, [2, 2] * t, t * [2.0, 2.0], t / 0.5, -t * -2]
    for result in results:
        assert isinstance(result, firelu.Tensor)
        assert result.dtype == "float32"
        np.testing.assert_array_equal(result.numpy(), [2.0, 4.0])
    np.testing.assert_array_equal((1 - t).numpy(), [0.0, -1.0])
    np.testing.assert_array_equal((np.float32([1, 1]) - t).numpy(), [0.0, -1.0])
    with pytest.raises(TypeError):
        t + object()
    with pytest.raises(firelu.ShapeError, match="Add"):
        t + leaf([1.0, 2.0, 3.0], np.float32)
    with pytest.raises(firelu.DTypeError, match="Mul"):
        t * leaf([1.0, 2.0])


def test_sum_and_mean():
    values = np.arange(24.0).reshape(2, 3, 4)
    for axis in (None, 0, -1, (0, 2)):
        for keepdims in (False, True):
            t = leaf(values)
            np.testing.assert_allclose(t.sum(axis, keepdims).numpy(), values.sum(axis=axis, keepdims=keepdims))
            mean = t.mean(axis, keepdims)
            np.testing.assert_allclose(mean.numpy(), values.mean(axis=axis, keepdims=keepdims))
            mean.backward()
            np.testing.assert_allclose(t.grad.numpy(), np.full(values.shape, mean.size / values.size))
    with pytest.raises(firelu.ArgumentError):
        leaf(values).sum(axis=3)
    with pytest.raises(firelu.ArgumentError):
        leaf(np.ones((0, 2))).mean()
    assert float(leaf([1.0, 2.0]).sum()) == 3.0


def test_grad_of_any_order():
    x = leaf([3.0, -2.0])
    value = x * x * x * x
    for expected in ([108.0, -32.0], [108.0, 48.0], [72.0, -48.0], [24.0, 24.0], [0.0, 0.0]):
        value = firelu.grad(value, x, create_graph=True)
        np.testing.assert_allclose(value.numpy(), expected)
    assert x.grad is None


def test_grad_takes_several_outputs_and_inputs_and_inner_tensors():
    x, w = leaf([3.0, -2.0]), leaf([5.0, 7.0])
    hidden = x * w
    first, second = firelu.grad([hidden, x], [x, hidden], grad_outputs=[leaf([1.0, 1.0]), None])
    np.testing.assert_array_equal(first.numpy(), [6.0, 8.0])
    np.testing.assert_array_equal(second.numpy(), [1.0, 1.0])
    np.testing.assert_array_equal(firelu.grad(x * 2.0, w).numpy(), [0.0, 0.0])
    with pytest.raises(firelu.ArgumentError, match=r"inputs\[0\]"):
        firelu.grad(x * w, x.detach())
    with pytest.raises(firelu.ArgumentError, match="grad_outputs"):
        firelu.grad([x * w], [x], [None, None])
    with pytest.raises(firelu.ArgumentError, match="ndarray"):
        firelu.grad(x * w, [np.ones(2)])


def test_the_numpy_functions_record_tensors_too():
    x, bias, kernel = leaf(np.ones((1, 2, 4, 4))), leaf([0.5, -3.0]), leaf([1.0, 2.0, 1.0])
    out = firelu.fused_leaky_relu(firelu.upfirdn2d(x, kernel, pad=(1, 1)), bias)
    out.sum().backward()
    assert x.grad.shape == (1, 2, 4, 4)
    assert bias.grad.shape == (2,)
    # A 1-D kernel is its outer product with itself, and gets a gradient through that.
    step = 1e-6

    def loss(taps):
        return firelu.fused_leaky_relu(firelu.upfirdn2d(np.ones((1, 2, 4, 4)), taps, pad=(1, 1)), bias.numpy()).sum()

    for tap in range(3):
        moved = np.eye(3)[tap] * step
        numeric = (loss(kernel.numpy() + moved) - loss(kernel.numpy() - moved)) / (2 * step)
        np.testing.assert_allclose(kernel.grad.numpy()[tap], numeric, rtol=1e-6)


def test_an_output_beside_recorded_inputs_is_refused():
    t = leaf([1.0, 2.0])
    with pytest.raises(firelu.ArgumentError, match="out"):
        firelu.leaky_relu(t, out=np.empty(2))
    out = firelu.Tensor(np.zeros(2))
    with firelu.no_grad():
        assert firelu.leaky_relu(t, out=out) is out
    saved = functional.leaky_relu(t)
    with pytest.raises(firelu.ArgumentError, match="graph"):
        firelu.leaky_relu(np.ones(2), out=saved)


def test_no_grad_as_a_block_and_as_a_decorator():
    t = leaf([1.0])

    @firelu.no_grad()
    def inside():
        return (t * t).requires_grad

    with firelu.no_grad():
        assert not (t * t).requires_grad
        with firelu.no_grad():
            pass
        assert not (t * t).requires_grad
    assert not inside()
    assert (t * t).requires_grad


def test_leaves_and_results():
    t = firelu.Tensor([1.0])
    assert t.is_leaf
    assert not t.requires_grad
    t.requires_grad = True
    out = t * t
    assert not out.is_leaf
    assert out.grad is None
    assert out.grad_operator == "Mul"
    with pytest.raises(firelu.ArgumentError, match="detach"):
        out.requires_grad = False
    assert not out.detach().requires_grad
    t.requires_grad = False
    assert not (t * t).requires_grad
    with pytest.raises(firelu.ArgumentError, match="backward"):
        t.backward()
    with pytest.raises(firelu.DeviceError):
        t.to("cuda:7")
    assert t.to("cpu") is t


def test_a_second_pass_needs_the_graph():
    t = leaf([1.0, -2.0])
    out = functional.leaky_relu(t)
    out.backward(retain_graph=True)
    out.backward()
    with pytest.raises(firelu.NoGradientError, match="retain"):
        out.backward()
    np.testing.assert_array_equal(t.grad.numpy(), [2.0, 0.02])


def test_memory_that_the_graph_holds_is_read_only():
    t = leaf([1.0, -2.0])
    out = functional.leaky_relu(t)
    array = out.numpy()
    assert not array.flags.writeable
    with pytest.raises(ValueError, match="WRITEABLE"):
        array.flags.writeable = True
    assert t.numpy().flags.writeable
    out.backward()
    assert out.numpy().flags.writeable
    assert np.shares_memory(out.numpy(), array)
    weights = leaf([1.0])
    (weights * weights).backward()
    weights.numpy()[...] -= 0.1 * weights.grad.numpy()
    np.testing.assert_allclose(weights.numpy(), [0.8])


def test_arrays_of_a_tensor():
    t = firelu.Tensor([[1.0, 2.0]])
    assert np.shares_memory(np.asarray(t), t.numpy())
    assert not np.shares_memory(np.array(t, copy=True), t.numpy())
    assert np.asarray(t, dtype="float64").dtype == np.float64
    source = np.ones(3)
    copied = firelu.Tensor(source)
    source[0] = 7
    assert copied.numpy()[0] == 1
    array = firelu.Tensor([1.0, 2.0]).numpy()
    gc.collect()
    np.testing.assert_array_equal(array, [1.0, 2.0])


def test_bad_gradients_change_nothing():
    t = leaf([1.0, 2.0])
    out = t * t
    for wrong, error in ((np.ones(3), firelu.ShapeError), (np.ones(2, np.float32), firelu.DTypeError)):
        with pytest.raises(error, match="backward"):
            out.backward(wrong)
    assert t.grad is None


def test_ten_thousand_operators_deep():
    t = leaf([1.0, -2.0])
    out = t
    for _ in range(10_000):
        out = functional.leaky_relu(out, 1.0)
    first = firelu.grad(out, t, create_graph=True)
    out.backward()
    np.testing.assert_array_equal(t.grad.numpy(), [1.0, 1.0])
    del out, first
    gc.collect()


def test_what_a_chain_keeps_and_when_it_is_freed():
    block = 8 << 20
    x = firelu.Tensor(np.ones(block // 4, np.float32), requires_grad=True)
    gc.collect()
    start = firelu.memory_stats()["in_use"]

    def blocks():
        return (firelu.memory_stats()["in_use"] - start) / block

    kernel = np.ones((1, 1), np.float32)
    image = firelu.Tensor(np.ones((8, 512, 512), np.float32), requires_grad=True)
    start += block
    out = image
    for _ in range(20):
        out = functional.upfirdn2d(out, kernel)
    assert blocks() == 1  # The gradient with respect to the input needs its shape alone.
    out.backward()
    del out, image
    start -= block
    assert blocks() == 0
    out = x
    for _ in range(20):
        out = functional.leaky_relu(out)
    assert blocks() == 20
    out.backward()
    assert blocks() == 2
    del out, x
    assert blocks() == -1  # Everything is gone, and x, which was there at the start, too.


def test_overrides_hold_for_one_thread_and_one_task():
    straight = {"LeakyRelu": lambda op, gradients: ([], gradients)}

    def slope():
        t = leaf([-1.0])
        functional.leaky_relu(t, 0.5).backward()
        return t.grad.item()

    with firelu.gradient_override(straight):
        assert slope() == 1.0
        seen = []
        thread = threading.Thread(target=lambda: seen.append(slope()))
        thread.start()
        thread.join()
        # A free-threaded Python starts threads inside what their parent is inside.
        assert seen == [1.0 if getattr(sys.flags, "thread_inherit_context", 0) else 0.5]
        with firelu.gradient_override({"LeakyRelu": None}), pytest.raises(firelu.ArgumentError):
            slope()
    assert slope() == 0.5

    async def overridden():
        with firelu.gradient_override(straight):
            await asyncio.sleep(0.01)
            return slope()

    async def plain():
        await asyncio.sleep(0.005)
        return slope()

    async def both():
        return await asyncio.gather(overridden(), plain())

    assert asyncio.run(both()) == [1.0, 0.5]
    with pytest.raises(firelu.UnknownOperatorError), firelu.gradient_override({"LeakyRellu": None}):
        pass
    with pytest.raises(firelu.ArgumentError), firelu.gradient_override({"LeakyRelu": 3}):
        pass


def test_an_override_at_the_call_or_at_the_pass():
    straight = {"LeakyRelu": lambda op, gradients: ([], gradients)}
    t = leaf([-1.0])
    with firelu.gradient_override(straight):
        recorded = functional.leaky_relu(t, 0.5)
    recorded.backward()
    plain = functional.leaky_relu(t, 0.5)
    with firelu.gradient_override(straight):
        plain.backward()
    assert t.grad.item() == 2.0


def test_an_override_that_needs_more_than_was_kept_says_so():
    def reads_input(op, gradients):
        return [firelu.create_operator("Mul", [op.inputs[0], gradients[0]], ["dX"])], ["dX"]

    t = leaf([-3.0])
    out = functional.leaky_relu(t, 0.5)
    with firelu.gradient_override({"LeakyRelu": reads_input}):
        with pytest.raises(firelu.NoGradientError, match="before the call"):
            out.backward()
        functional.leaky_relu(t, 0.5).backward()
    assert t.grad.item() == -3.0


def test_exceptions_of_a_maker_reach_the_caller():
    def failing(op, gradients):
        raise LookupError("as it should")

    t = leaf([-3.0])
    out = functional.leaky_relu(t)
    with firelu.gradient_override({"LeakyRelu": failing}), pytest.raises(LookupError, match="as it should"):
        out.backward()
    assert t.grad is None


def test_two_threads_with_separate_graphs():
    results = [None] * 4

    def work(index):
        x = leaf(np.full(50_000, index + 1.0))
        for _ in range(20):
            (x * functional.leaky_relu(x)).sum().backward()
        results[index] = x.grad.numpy().copy()

    threads = [threading.Thread(target=work, args=(index,)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for index, result in enumerate(results):
        np.testing.assert_array_equal(result, np.full(50_000, 20 * 2.0 * (index + 1)))


def test_two_graphs_run_at_the_same_time():
    """Each thread goes on only once the other is inside a call of its own graph, in both directions."""
    meeting = threading.Barrier(2, timeout=60)

    def meet(x):
        meeting.wait()
        return np.asarray(x) * 2

    def gradient(definition, gradients):
        return [firelu.create_operator("TestMeet", [gradients[0]], ["dx"])], ["dx"]

    firelu.register_operator("TestMeet", meet, ["X"], ["Y"], gradient=gradient)
    results = {}

    def work(index):
        x = leaf(np.full(1000, index + 1.0))
        out = x
        for _ in range(3):
            out = firelu.run_operator("TestMeet", functional.leaky_relu(out))
        out.backward()
        results[index] = out.numpy()[0], x.grad.numpy()[0]

    threads = [threading.Thread(target=work, args=(index,)) for index in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {0: (8.0, 8.0), 1: (16.0, 8.0)}


def test_other_threads_run_during_a_backward_pass():
    x = leaf(np.ones(1 << 21))
    out = x
    for _ in range(8):
        out = functional.leaky_relu(out)
    counted, done = [], threading.Event()

    def count():
        while not done.is_set():
            counted.append(1)

    thread = threading.Thread(target=count)
    thread.start()
    before = len(counted)
    out.backward()
    during = len(counted) - before
    done.set()
    thread.join()
    assert during > 0
