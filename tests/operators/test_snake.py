"""Snake, its gradient and its derivatives of any order: values, layouts, in place, edges, refusals."""

from __future__ import annotations

import itertools

import firelu
import ml_dtypes
import numpy as np
import pytest
import reference

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
DTYPES = [np.dtype("float16"), BFLOAT16, np.dtype("float32"), np.dtype("float64")]
UNIT = {np.dtype("float16"): 2**-11, BFLOAT16: 2**-8, np.dtype("float32"): 2**-24, np.dtype("float64"): 2**-53}
KINDS = list(itertools.product([False, True], [False, True]))  # logscale, with beta


def numbers(shape, dtype, seed=0):
    return np.random.default_rng(seed).normal(0, 1.5, shape).astype(dtype)


def of_channels(count, dtype, with_beta, seed=5):
    rng = np.random.default_rng(seed)
    alpha, beta = rng.uniform(0.4, 1.6, (2, count)).astype(dtype)
    return alpha, beta if with_beta else None


def allowed(dtype, terms):
    """Eight roundings of the largest term in the type computed in, and one of the type stored."""
    compute = UNIT[np.dtype("float64") if dtype == np.float64 else np.dtype("float32")]
    return (8 * compute + UNIT[dtype]) * terms + 1e-300


def close(got, expected, dtype, size=4.0):
    assert got.dtype == dtype
    np.testing.assert_array_less(
        np.abs(got.astype(np.float64) - expected), allowed(dtype, np.maximum(np.abs(expected), size))
    )


@pytest.mark.parametrize("level", firelu.cpu_levels())
@pytest.mark.parametrize(("logscale", "with_beta"), KINDS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_values_and_gradients_follow_the_definition(level, logscale, with_beta, dtype):
    before = firelu.get_cpu_level()
    firelu.set_cpu_level(level)
    try:
        x, dy = numbers((2, 5, 37), dtype), numbers((2, 5, 37), dtype, 1)
        alpha, beta = of_channels(5, dtype, with_beta)
        settings = {"logscale": logscale}
        close(firelu.snake(x, alpha, beta, **settings), reference.snake(x, alpha, beta, **settings), dtype, 30)
        got = firelu.snake_gradient(x, dy, alpha, beta, **settings)
        expected = reference.snake_gradient(x, dy, alpha, beta, **settings)
        close(got[0], expected[0], dtype, 60)
        for mine, theirs in zip(got[1:], expected[1:], strict=True):
            assert (mine is None) == (theirs is None)
            if mine is not None:
                close(mine, theirs, dtype, 2000)
    finally:
        firelu.set_cpu_level(before)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_layout_and_axis_gives_the_same_bits(dtype):
    x, dy = numbers((3, 4, 5, 6), dtype), numbers((3, 4, 5, 6), dtype, 1)
    for axis in range(-4, 4):
        alpha, beta = of_channels(x.shape[axis], dtype, True)
        y = firelu.snake(x, alpha, beta, axis=axis)
        gradients = firelu.snake_gradient(x, dy, alpha, beta, axis=axis)
        first = firelu.run_operator("SnakeDerivative", x, dy, alpha, beta, axis=axis)
        # The gradient by X is the derivative of order one.
        np.testing.assert_array_equal(first, gradients[0])
        for order in itertools.permutations(range(4)):
            there = [np.ascontiguousarray(array.transpose(order)) for array in (x, dy)]
            moved = [array.transpose(np.argsort(order)) for array in there]
            np.testing.assert_array_equal(firelu.snake(moved[0], alpha, beta, axis=axis), y)
            again = firelu.snake_gradient(*moved, alpha, beta, axis=axis)
            for mine, theirs in zip(again, gradients, strict=True):
                np.testing.assert_array_equal(mine, theirs)
            np.testing.assert_array_equal(firelu.run_operator("SnakeDerivative", *moved, alpha, beta, axis=axis), first)
        reversed_ = firelu.snake(x[:, ::-1, :, ::-1][:, ::-1, :, ::-1], alpha, beta, axis=axis)
        np.testing.assert_array_equal(reversed_, y)


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("shape", [(1, 7, 60_001), (3, 257, 129), (40_000, 7)])
def test_bits_do_not_depend_on_threads(threads, shape):
    x, dy = numbers(shape, np.float32), numbers(shape, np.float32, 1)
    alpha, beta = of_channels(shape[1], np.float32, True)

    def results():
        return firelu.snake(x, alpha, beta), *firelu.snake_gradient(x, dy, alpha, beta)

    before = firelu.get_num_threads()
    try:
        firelu.set_num_threads(3)
        expected = results()
        firelu.set_num_threads(threads)
        for mine, theirs in zip(results(), expected, strict=True):
            np.testing.assert_array_equal(mine, theirs)
    finally:
        firelu.set_num_threads(before)


@pytest.mark.parametrize(("logscale", "with_beta"), KINDS)
def test_derivatives_of_higher_order_follow_the_definition(logscale, with_beta):
    x, dy = numbers((1, 2, 1), np.float64), numbers((1, 2, 1), np.float64, 1)
    alpha, beta = of_channels(2, np.float64, with_beta)
    for orders in itertools.product(range(4), range(3), range(3) if with_beta else (0,)):
        settings = dict(zip(("order_x", "order_alpha", "order_beta"), orders, strict=True)) | {"logscale": logscale}
        got = firelu.run_operator("SnakeDerivative", x, dy, alpha, beta, **settings)
        expected = reference.snake_derivative(x, dy, alpha, beta, **settings)
        np.testing.assert_allclose(got, expected, rtol=1e-10, atol=1e-10)


def test_in_place_and_into_arrays():
    x, dy = numbers((2, 3, 400), np.float32), numbers((2, 3, 400), np.float32, 1)
    alpha, beta = of_channels(3, np.float32, True)
    expected, gradients = firelu.snake(x, alpha, beta), firelu.snake_gradient(x, dy, alpha, beta)
    target = np.empty((2, 3, 800), np.float32)[:, :, ::2]
    assert firelu.snake(x, alpha, beta, out=target) is target
    np.testing.assert_array_equal(target, expected)
    same = x.copy()
    assert firelu.snake(same, alpha, beta, out=same) is same
    np.testing.assert_array_equal(same, expected)
    over = dy.copy()
    got = firelu.snake_gradient(x, over, alpha, beta, out=over)
    assert got[0] is over
    for mine, theirs in zip(got, gradients, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    dx = firelu.snake_gradient(x, dy, alpha, beta, out=target)[0]
    np.testing.assert_array_equal(dx, gradients[0])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_large_calls_past_the_caches_have_the_same_bits(dtype):
    x, dy = numbers((2, 33, 1001), dtype), numbers((2, 33, 1001), dtype, 1)
    alpha, beta = of_channels(33, dtype, True)

    def results():
        return firelu.snake(x, alpha, beta), *firelu.snake_gradient(x, dy, alpha, beta)

    expected = results()
    firelu.set_non_temporal_bytes(1 << 16)
    try:
        for mine, theirs in zip(results(), expected, strict=True):
            np.testing.assert_array_equal(mine, theirs)
    finally:
        firelu.set_non_temporal_bytes(None)


@pytest.mark.parametrize("dtype", DTYPES[2:], ids=str)
def test_edges(dtype):
    info = np.finfo(dtype)
    x = np.array([[0.0, -0.0, np.inf, -np.inf, np.nan, info.max, info.tiny, 1e6]], dtype)
    alpha, beta = np.ones(8, dtype), np.full(8, 0.5, dtype)
    y = firelu.snake(x, alpha, beta)[0]
    assert y[0] == y[1] == 0
    assert np.isnan(y[2:5]).all()  # The sine of an infinity is not a number.
    # Whole periods are taken off exactly, however large the number.
    assert y[5] == info.max
    assert y[6] == info.tiny
    expected = x[0, 7].astype(np.float64) + np.sin(x[0, 7].astype(np.float64)) ** 2 / (0.5 + 1e-9)
    assert abs(y[7].astype(np.float64) - expected) <= abs(np.spacing(y[7]))
    # A frequency and divisor of zero are the identity: what is added to the divisor keeps it from being zero.
    np.testing.assert_array_equal(firelu.snake(x[:, :2], np.zeros(2, dtype)), x[:, :2])


def test_no_elements():
    for shape in ((0, 3, 4), (2, 0, 4), (2, 3, 0)):
        x, alpha = np.zeros(shape, np.float32), np.ones(shape[1], np.float32)
        assert firelu.snake(x, alpha).shape == shape
        dx, dalpha, dbeta = firelu.snake_gradient(x, x, alpha, alpha)
        assert (dx.shape, dalpha.tolist(), dbeta.tolist()) == (shape, [0] * shape[1], [0] * shape[1])


def test_numbers_in_float32_beside_a_half():
    x, alpha = numbers((2, 3, 4), np.float16), np.array([0.5, 1, 2], np.float32)
    y = firelu.snake(x, alpha)
    assert y.dtype == np.float16
    dx, dalpha, _ = firelu.snake_gradient(x, x, alpha)
    assert (dx.dtype, dalpha.dtype) == (np.float16, np.float32)


def test_refusals():
    x, alpha = np.ones((2, 3, 4)), np.ones(3)
    for error, words, call in [
        (firelu.ShapeError, r"Snake: Alpha: got \(4,\), takes \(3,\)", lambda: firelu.snake(x, np.ones(4))),
        (firelu.ShapeError, "Beta", lambda: firelu.snake(x, alpha, np.ones((3, 1)))),
        (firelu.ArgumentError, "axis: got 3", lambda: firelu.snake(x, alpha, axis=3)),
        (firelu.DTypeError, "Alpha", lambda: firelu.snake(x, np.ones(3, np.float32))),
        (firelu.DTypeError, "int64", lambda: firelu.snake(np.ones((2, 3), int), alpha)),
        (firelu.ShapeError, "dY", lambda: firelu.snake_gradient(x, x[:1], alpha)),
        (
            firelu.ArgumentError,
            "order_beta: got 1, takes 0 without Beta",
            lambda: firelu.run_operator("SnakeDerivative", x, x, alpha, order_beta=1),
        ),
        (
            firelu.ArgumentError,
            "order_x: got 9",
            lambda: firelu.run_operator("SnakeDerivative", x, x, alpha, order_x=9),
        ),
    ]:
        with pytest.raises(error, match=words):
            call()
