"""Operators of a user's own that lie about what they take and give, and arrays that change under a call."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import firelu
import numpy as np
import pytest
from firelu import create_operator as op

X = np.float32([1, 2])


def register(name, kernel=lambda *arrays, **_: arrays[-1], inputs=("X",), outputs=("Y",), **options):
    firelu.register_operator(name, kernel, list(inputs), list(outputs), **options)


def test_an_optional_first_input_lends_nothing_where_it_is_omitted():
    register("TestOptionalFirst", inputs=["A", "B"], optional=["A"])
    np.testing.assert_array_equal(firelu.run_operator("TestOptionalFirst", None, X), X)
    assert firelu.schema("TestOptionalFirst").infer([None, ((2,), "float32")])[0][0] == (2,)
    with pytest.raises(firelu.ShapeError, match=r"TestOptionalFirst: B: got \(2,\), takes \(3,\), the shape of A"):
        firelu.run_operator("TestOptionalFirst", np.ones(3, np.float32), X)
    with pytest.raises(firelu.ArgumentError, match="TestOptionalFirst: inputs: got 1"):
        firelu.run_operator("TestOptionalFirst", X)


def test_all_inputs_optional_and_none_given():
    register("TestAllOptional", optional=["X"])
    schema = firelu.schema("TestAllOptional")
    ws = firelu.Workspace()
    for call in (
        lambda: firelu.run_operator("TestAllOptional", None),
        lambda: firelu.run_operator("TestAllOptional"),
        lambda: schema.infer([]),
        lambda: schema.cost([]),
        lambda: ws.run(op("TestAllOptional", [None], ["Y"])),
    ):
        with pytest.raises(firelu.ArgumentError, match=r"TestAllOptional.*: inputs: got none, takes at least one"):
            call()


def test_a_variadic_schema_has_an_input_to_repeat():
    with pytest.raises(firelu.ArgumentError, match="variadic: got no inputs"):
        register("TestNoInputs", inputs=[], variadic=True, infer=lambda types: types)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_infer_gives_as_many_types_as_there_are_outputs(count):
    name = f"TestInfer{count}"
    register(name, lambda x: (x, x), outputs=["A", "B"], infer=lambda types: types * count)
    schema = firelu.schema(name)
    some = np.empty_like(X)
    for call in (
        lambda: firelu.run_operator(name, X),
        lambda: firelu.run_operator(name, X, out=(some, some.copy(), some.copy())),
        lambda: firelu.run_operator(name, firelu.Tensor(X)),
        lambda: schema.infer([((2,), "float32")]),
        lambda: schema.cost([((2,), "float32")]),
    ):
        with pytest.raises(firelu.ArgumentError, match=f"{name}: infer: got {count} types, takes 2"):
            call()


def test_one_rule_for_the_number_of_inputs():
    register("TestArity", inputs=["A", "B"], optional=["A"])
    # A definition is refused as the call is: the last required input must be there.
    with pytest.raises(firelu.ArgumentError, match="TestArity: inputs: got 1, takes A, B"):
        op("TestArity", ["X"], ["Y"])
    with pytest.raises(firelu.ArgumentError, match="TestArity: B: got nothing"):
        op("TestArity", ["X", None], ["Y"])
    op("TestArity", [None, "X"], ["Y"])


def test_no_panic_reaches_python_but_as_an_error_of_firelu():
    # Every function that Python can call stands behind the one guard.
    root = Path(__file__).parents[2] / "src/python"
    for path in root.glob("*.rs"):
        source = path.read_text()
        found = re.findall(r"(.*)\n#\[(?:pyfunction|pymethods)\]", source)
        assert all(line == "#[guarded]" for line in found), path
        assert "catch_unwind" not in source or path.name == "entry.rs"
        assert not re.search(r"py\.detach\(|Python::(try_)?attach\(", source) or path.name in (
            "entry.rs",
            "errors.rs",  # Attached already.
            "interop.rs",  # A destructor, which gives up where the interpreter is gone.
        ), path


def test_an_operand_that_resizes_an_earlier_one():
    code = """
import numpy, firelu
for size in (10, 3 * 10**6):
    x = numpy.ones(size)
    class Resizes:
        def __array__(self, dtype=None, copy=None):
            x.resize(1, refcheck=False)
            return numpy.ones(size)
    print(firelu.run_operator("Mul", x, Resizes()).sum() == size)
    x = numpy.ones(size)
    try:
        # The output is converted last, and the inputs are looked at after it.
        firelu.run_operator("Sum", x, Resizes())
    except firelu.ShapeError as error:
        print(error)
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0] == lines[2] == "True"
    assert all("takes (1,), the shape of" in line for line in (lines[1], lines[3]))


@pytest.mark.parametrize("call", ["upfirdn1d", "filtered_snake"])
def test_operands_and_numbers_that_resize_an_array_of_which_a_view_is_filtered(call):
    """A view keeps no array from being resized: everything is converted before there is one."""
    code = f"""
import numpy, firelu
size = 3 * 10**6
def resizes(value, methods):
    def method(self, *_, **__):
        array.resize((1,) * array.ndim, refcheck=False)
        return value
    return type("Resizes", (), dict.fromkeys(methods, method))()
def number(value):
    return resizes(value, ["__index__" if isinstance(value, int) else "__float__"])
def operand(length):
    return resizes(numpy.full(length, 1 / length), ["__array__"])
calls = {{
    "upfirdn1d": [
        lambda x, out: firelu.upfirdn1d(x, operand(1), out=out),
        lambda x, out: firelu.upfirdn1d(x, numpy.ones(1), up=number(1), out=out),
        lambda x, out: firelu.upfirdn1d(x, numpy.ones(1), down=number(1), out=out),
        lambda x, out: firelu.upfirdn1d(x, numpy.ones(1), pad=(0, number(0)), out=out),
        lambda x, out: firelu.upfirdn1d(x, numpy.ones(1), gain=number(1.0), out=out),
        lambda x, out: firelu.upfirdn1d(x, numpy.ones(1), flip_kernel=number(1), out=out),
    ],
    "filtered_snake": [
        lambda x, out: firelu.filtered_snake(x, operand(1), out=out),
        lambda x, out: firelu.filtered_snake(x, numpy.ones(1), operand(1), out=out),
        lambda x, out: firelu.filtered_snake(x, numpy.ones(1), up_kernel=operand(12), out=out),
        lambda x, out: firelu.filtered_snake(x, numpy.ones(1), down_kernel=operand(12), out=out),
        lambda x, out: firelu.filtered_snake(x, numpy.ones(1), logscale=number(1), out=out),
    ],
}}["{call}"]
for each in calls:
    for shape in [(1, size), (1, 1, size)]:
        for chosen in "x", "out":
            x, out = numpy.ones(shape), numpy.empty(shape)
            array = x if chosen == "x" else out
            try:
                each(x, out)
            except (firelu.ShapeError, firelu.ArgumentError) as error:
                pass
            else:
                raise AssertionError((calls.index(each), shape, chosen))
            assert array.size == 1
            each(numpy.ones(shape), None)
print("done")
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert (result.returncode, result.stdout) == (0, "done\n"), result.stderr


def test_an_inference_that_resizes_an_operand():
    code = """
import numpy, firelu
x = numpy.ones(3 * 10**6)
def infer(types):
    x.resize(1, refcheck=False)
    return types
firelu.register_operator("Resizes", lambda x: x, ["X"], ["Y"], infer=infer)
for out in (None, x):
    x.resize(3 * 10**6, refcheck=False)
    try:
        firelu.run_operator("Resizes", numpy.ones(3 * 10**6) if out is x else x, out=out)
    except firelu.ArgumentError as error:
        print(error)
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("was resized while the call was prepared") == 2


def test_a_kernel_that_resizes_its_output():
    code = """
import numpy, firelu
out = numpy.empty(3 * 10**6)
moves = {
    "resize": lambda: out.resize(1, refcheck=False),
    "state": lambda: out.__setstate__((1, (1,), numpy.dtype("f8"), False, bytes(8))),
}
def kernel(x, move=""):
    # The second time inside another call, whose own output stays.
    if move == "nested":
        return firelu.run_operator("Moves", x, move="resize", out=numpy.empty_like(x))
    moves[move]()
    return x
firelu.register_operator("Moves", kernel, ["X"], ["Y"], args={"move": ""})
for move in ("resize", "state", "nested"):
    for size in (3 * 10**6, 1000):
        out = numpy.empty(size)
        try:
            firelu.run_operator("Moves", numpy.ones(size), move=move, out=out)
        except firelu.ArgumentError as error:
            print(error)
        assert out.size == 1
moves["stay"] = lambda: None
out = numpy.empty(5)
assert firelu.run_operator("Moves", numpy.ones(5), move="stay", out=out) is out and (out == 1).all()
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("Moves: out: got an array that its kernel has resized") == 6


def test_a_result_that_resizes_an_earlier_one():
    code = """
import numpy, firelu
def kernel(x):
    first = numpy.ones(3 * 10**6)
    class Second:
        def __array__(self, dtype=None, copy=None):
            first.resize(1, refcheck=False)
            return numpy.ones(3 * 10**6)
    return first, Second()
firelu.register_operator("Two", kernel, ["X"], ["A", "B"])
try:
    firelu.run_operator("Two", numpy.ones(3 * 10**6))
except firelu.ShapeError as error:
    print(error)
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    assert "Two: A: got (1,), takes (3000000,)" in result.stdout


def test_numbers_of_numpy_serve_as_numbers_and_truth_values_do_not():
    expected = firelu.leaky_relu(np.float32([-2]), 0.5)
    for half in (np.float64(0.5), np.float32(0.5), np.float16(0.5), np.array(0.5), np.array(0.5, np.float32)):
        np.testing.assert_array_equal(firelu.run_operator("LeakyRelu", np.float32([-2]), alpha=half), expected)
    for wrong in (True, np.True_, np.array(True), np.array([0.5]), "0.5"):
        with pytest.raises(firelu.ArgumentError, match="LeakyRelu: alpha"):
            firelu.run_operator("LeakyRelu", np.float32([-2]), alpha=wrong)
    assert firelu.run_operator("LeakyRelu", np.float64([-1]), alpha=2**53)[0] == -(2.0**53)
    with pytest.raises(firelu.ArgumentError, match=r"alpha: got 9007199254740993, takes .* up to 2\^53"):
        firelu.run_operator("LeakyRelu", np.float32([-2]), alpha=2**53 + 1)
    for flip in (True, np.True_, np.array(True), 1):
        firelu.run_operator("ReduceSum", X, keepdims=flip)


def test_settings_refuse_what_is_no_number():
    for wrong in (-1, 0, 1025, 2**80, 1.5, "two", None):
        with pytest.raises(firelu.ArgumentError, match=r"set_num_threads: threads: got .*, takes 1 to 1024"):
            firelu.set_num_threads(wrong)
    for wrong in (-1, 2**80, 1.5, "two", None):
        with pytest.raises(firelu.ArgumentError, match="set_cache_limit: bytes: got"):
            firelu.set_cache_limit(wrong)


def test_outputs_without_elements_that_no_array_can_have():
    empty = np.empty((0, 2**31, 1), np.float32)
    with pytest.raises(firelu.ShapeError, match=r"UpFirDn2d: .*takes a size below 2\^63 bytes"):
        firelu.run_operator("UpFirDn2d", empty, np.ones((1, 1), np.float32), up_x=2**15, up_y=2**15)


def test_an_argument_given_twice_in_json():
    text = '{"operator": "LeakyRelu", "inputs": ["X"], "outputs": ["Y"], "args": {"alpha": 0.1, "alpha": 0.2}}'
    with pytest.raises(firelu.ArgumentError, match="the argument `alpha` twice"):
        firelu.OperatorDef.from_json(text)
    with pytest.raises(firelu.ArgumentError, match="the argument `alpha` twice"):
        firelu.Net.from_json(f"[{text}]")
