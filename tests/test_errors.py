"""Bad calls raise the right class with a message that names everything, and change nothing."""

from __future__ import annotations

import pickle

import firelu
import numpy as np
import pytest
from checks import assert_same_bits

X = np.array([-1.0, 2.0, 3.0], np.float32)


def read_only():
    array = X.copy()
    array.flags.writeable = False
    return array


def overlapping():
    return np.lib.stride_tricks.as_strided(np.zeros(4, np.float32), (3,), (0,))


BAD_INPUTS = [
    (np.arange(3), firelu.DTypeError, "int64"),
    (np.array([1j]), firelu.DTypeError, "complex128"),
    (np.array([True]), firelu.DTypeError, "bool"),
    (np.array([object()]), firelu.DTypeError, "object"),
    (np.array(["a"]), firelu.DTypeError, "U1"),
    (np.zeros(3, np.longdouble), firelu.DTypeError, "float128"),
    (np.zeros(3, [("a", "f4")]), firelu.DTypeError, "a"),
    ([[1.0], [1.0, 2.0]], firelu.ArgumentError, "numpy.asarray"),
    (None, firelu.ArgumentError, "required"),
]


@pytest.mark.parametrize(("bad", "error", "word"), BAD_INPUTS, ids=lambda value: str(value)[:20])
def test_bad_inputs(bad, error, word):
    out = X.copy()
    with pytest.raises(error, match=word) as caught:
        firelu.leaky_relu(bad, out=out)
    assert "LeakyRelu" in str(caught.value)
    assert "X" in str(caught.value)
    assert_same_bits(out, X)


BAD_OUTPUTS = [
    (lambda x: np.zeros(4, np.float32), firelu.ShapeError),
    (lambda x: np.zeros((3, 1), np.float32), firelu.ShapeError),
    (lambda x: np.zeros(3, np.float64), firelu.DTypeError),
    (lambda x: np.zeros(3, ">f4"), firelu.DTypeError),
    (lambda x: np.zeros(3, np.int32), firelu.DTypeError),
    (lambda x: read_only(), firelu.ArgumentError),
    (lambda x: overlapping(), firelu.ArgumentError),
    (lambda x: [0.0, 0.0, 0.0], firelu.ArgumentError),
    (lambda x: (None, None), firelu.ArgumentError),
    (lambda x: x[::-1], firelu.ArgumentError),
]


@pytest.mark.parametrize(("make", "error"), BAD_OUTPUTS)
def test_bad_outputs(make, error):
    x = X.copy()
    out = make(x)
    before = np.array(out, copy=True) if isinstance(out, np.ndarray) else None
    with pytest.raises(error, match="LeakyRelu: out"):
        firelu.leaky_relu(x, out=out)
    assert_same_bits(x, X)
    if before is not None:
        np.testing.assert_array_equal(out, before)


def test_partial_overlap_is_refused():
    memory = np.arange(4, dtype=np.float32) - 2
    before = memory.copy()
    with pytest.raises(firelu.ArgumentError, match="overlaps the input X"):
        firelu.leaky_relu(memory[:-1], out=memory[1:])
    assert_same_bits(memory, before)


BAD_ARGUMENTS = [
    ({"alpha": "a"}, "alpha"),
    ({"alpha": float("nan")}, "finite"),
    ({"alpha": float("inf")}, "finite"),
    ({"alpha": None}, "alpha"),
    ({"alpha": [0.1]}, "alpha"),
    ({"alpha": 10**400}, "alpha"),
    ({"alfa": 0.1}, "did you mean alpha"),
]


@pytest.mark.parametrize(("arguments", "word"), BAD_ARGUMENTS, ids=str)
def test_bad_arguments(arguments, word):
    with pytest.raises(firelu.ArgumentError, match=word):
        firelu.run_operator("LeakyRelu", X, **arguments)


def test_arity():
    for inputs in [(), (X, X)]:
        with pytest.raises(firelu.ArgumentError, match="LeakyRelu: inputs"):
            firelu.run_operator("LeakyRelu", *inputs)
    with pytest.raises(firelu.ShapeError, match=r"LeakyReluGradient: dY: got \(2,\), takes \(3,\)"):
        firelu.leaky_relu_gradient(X, X[:2])
    with pytest.raises(firelu.DTypeError, match="the type of Y"):
        firelu.leaky_relu_gradient(X, X.astype(np.float64))


def test_unknown_operators_get_the_nearest_names():
    with pytest.raises(firelu.UnknownOperatorError, match="did you mean LeakyRelu") as caught:
        firelu.run_operator("leaky_relu", X)
    assert isinstance(caught.value, KeyError)
    assert not str(caught.value).startswith("'")


def test_devices():
    with pytest.raises(firelu.ArgumentError, match="cuda:0"):
        firelu.Tensor([1.0], device="gpu")


def test_classes():
    assert issubclass(firelu.ShapeError, ValueError)
    assert issubclass(firelu.DTypeError, TypeError)
    assert issubclass(firelu.ArgumentError, ValueError)
    assert issubclass(firelu.UnknownOperatorError, KeyError)
    assert issubclass(firelu.NoGradientError, NotImplementedError)
    assert issubclass(firelu.DeviceError, RuntimeError)
    for name in ["ShapeError", "DTypeError", "ArgumentError", "UnknownOperatorError", "NoGradientError"]:
        error = getattr(firelu, name)
        assert issubclass(error, firelu.FireluError)
        assert error.__module__ == "firelu"
        copy = pickle.loads(pickle.dumps(error("words")))
        assert (type(copy), str(copy)) == (error, "words")
