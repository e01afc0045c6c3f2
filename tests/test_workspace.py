"""Nets of definitions: the workspace, backward construction, and operators of the user's own."""

from __future__ import annotations

import threading

import firelu
import numpy as np
import pytest
from firelu import create_operator as op


def test_a_net_forward_and_backward():
    net = firelu.Net([op("LeakyRelu", ["X"], ["A"], alpha=0.5), op("Mul", ["A", "X"], ["Y"])])
    assert firelu.Net.from_json(net.to_json()) == net
    backward = firelu.add_gradient_operators(net, {"Y": "Y_grad"})
    ws = firelu.Workspace()
    x = np.array([-2.0, 3.0])
    ws.feed("X", x)
    ws.feed("Y_grad", np.ones(2))
    ws.run(net + backward)
    np.testing.assert_array_equal(ws.fetch("Y"), [2.0, 9.0])
    np.testing.assert_array_equal(ws.fetch("X_grad"), [-2.0, 6.0])
    assert backward.gradients["X"] == "X_grad"
    assert {"X", "Y", "A", "X_grad", "Y_grad"} <= set(ws.blobs())
    assert "X" in ws
    assert len(ws) == len(ws.blobs())
    assert "X: float64(2,)" in repr(ws)


def test_what_is_fed_and_fetched_is_the_workspaces_own():
    ws = firelu.Workspace()
    x = np.array([1.0, 2.0])
    ws.feed("X", x)
    x[0] = 9
    fetched = ws.fetch("X")
    np.testing.assert_array_equal(fetched, [1.0, 2.0])
    with pytest.raises(ValueError, match="read-only"):
        fetched[0] = 3
    ws.run(op("LeakyRelu", ["X"], ["X"]))
    np.testing.assert_array_equal(fetched, [1.0, 2.0])
    ws.feed("L", [1, 2])
    assert ws.fetch("L").dtype == np.float32
    ws.feed("T", firelu.Tensor([1.0]))
    ws.remove("T")
    assert "T" not in ws
    with pytest.raises(firelu.ArgumentError):
        ws.remove("T")


def test_a_failed_run_leaves_every_blob_as_it_was():
    ws = firelu.Workspace()
    ws.feed("X", [-1.0, 2.0])
    good = op("LeakyRelu", ["X"], ["X"], alpha=0.5)
    bad = [
        (op("LeakyRelu", ["missing"], ["Y"]), firelu.ArgumentError, "missing"),
        (op("LeakyReluGradient", ["X", "X"], ["Y"], device="cuda:0"), firelu.DeviceError, "step 1"),
    ]
    for step, error, text in bad:
        with pytest.raises(error, match=text):
            ws.run([good, step])
        assert ws.blobs() == ["X"]
        np.testing.assert_array_equal(ws.fetch("X"), np.float32([-1.0, 2.0]))
    for wrong in (3, ["X"], [None]):
        with pytest.raises(firelu.ArgumentError, match="OperatorDef"):
            ws.run(wrong)
    with pytest.raises(firelu.ArgumentError, match="unknown blob"):
        ws.fetch("Q")


def test_only_what_is_kept_stays():
    ws = firelu.Workspace()
    ws.feed("X", [-4.0])
    net = [op("LeakyRelu", ["X"], ["A"], alpha=0.5), op("LeakyRelu", ["A"], ["Y"], alpha=0.5)]
    ws.run(net, keep=["Y"])
    assert ws.blobs() == ["X", "Y"]
    with pytest.raises(firelu.ArgumentError, match="keep"):
        ws.run(net, keep=["Z"])


def test_a_run_that_keeps_little_holds_little():
    block = 4 << 20
    image = np.ones((4, 512, 512), np.float32)
    ws = firelu.Workspace()
    ws.feed("B0", image)
    ws.feed("K", np.ones((1, 1), np.float32))
    net = [op("UpFirDn2d", [f"B{i}", "K"], [f"B{i + 1}"]) for i in range(20)]
    backward = firelu.add_gradient_operators(net, {"B20": "G"}, inputs=["B0"])
    ws.feed("G", image)
    # The peak is what the pool ever had to take from the system: blocks that are free are used again.
    firelu.empty_cache()
    start = firelu.memory_stats()["in_use"] + firelu.memory_stats()["cached"]
    ws.run(net + backward, keep=["B0_grad"])
    stats = firelu.memory_stats()
    assert (stats["in_use"] + stats["cached"] - start) / block <= 3
    np.testing.assert_array_equal(ws.fetch("B0_grad"), image)


def test_gradients_of_gradients_are_nets():
    net = [op("Mul", ["X", "X"], ["S"]), op("Mul", ["S", "X"], ["Y"])]
    first = firelu.add_gradient_operators(net, {"Y": "Y_grad"})
    second = firelu.add_gradient_operators(net + first, {"X_grad": "V"}, inputs=["X"])
    third = firelu.add_gradient_operators(net + first + second, {second.gradients["X"]: "W"}, inputs=["X"])
    ws = firelu.Workspace()
    for name, value in {"X": [2.0], "Y_grad": [1.0], "V": [1.0], "W": [1.0]}.items():
        ws.feed(name, value)
    ws.run(net + first + second + third)
    fetched = [ws.fetch(name).item() for name in ("X_grad", second.gradients["X"], third.gradients["X"])]
    assert fetched == [12.0, 12.0, 6.0]


def test_refusals_of_backward_construction():
    in_place = [op("LeakyRelu", ["X"], ["X"], alpha=0.5), op("LeakyRelu", ["X"], ["X"], alpha=0.5)]
    with pytest.raises(firelu.ArgumentError, match=r"overwritten since by LeakyRelu \(step 1\)"):
        firelu.add_gradient_operators(in_place, {"X": "dX"})
    with pytest.raises(firelu.ArgumentError, match="alpha >= 0 in place"):
        firelu.add_gradient_operators(op("LeakyRelu", ["X"], ["X"], alpha=-0.5), {"X": "dX"})
    with pytest.raises(firelu.ArgumentError, match="did you mean Ypsilon"):
        firelu.add_gradient_operators(op("LeakyRelu", ["X"], ["Ypsilon"]), {"Ypsilom": "dY"})


@pytest.fixture(scope="module")
def cube():
    """A user's operator: x cubed times a factor, with a gradient of its own."""

    def maker(definition, gradients):
        x, dy = definition.inputs[0], gradients[0]
        steps = [
            op("TestCubeSlope", [x], ["slope"], factor=definition.args.get("factor", 1.0)),
            op("Mul", ["slope", dy], ["dx"]),
        ]
        return steps, ["dx"]

    def slope_maker(definition, gradients):
        six = [op("TestCubeCurve", [definition.inputs[0]], ["c"], factor=definition.args.get("factor", 1.0))]
        return [*six, op("Mul", ["c", gradients[0]], ["dx"])], ["dx"]

    register = firelu.register_operator
    register("TestCube", lambda x, factor: factor * x**3, ["X"], ["Y"], args={"factor": 1.0}, gradient=maker)
    slope = lambda x, factor: factor * 3 * x**2  # noqa: E731
    register("TestCubeSlope", slope, ["X"], ["Y"], args={"factor": 1.0}, gradient=slope_maker)
    register("TestCubeCurve", lambda x, factor: factor * 6 * x, ["X"], ["Y"], args={"factor": 1.0})
    return "TestCube"


def test_a_users_operator_in_numpy_nets_and_autograd(cube):
    x = np.array([2.0, -1.0])
    np.testing.assert_array_equal(firelu.run_operator(cube, x, factor=2.0), 2 * x**3)
    net = [op(cube, ["X"], ["Y"], factor=2.0)]
    backward = firelu.add_gradient_operators(net, {"Y": "dY"})
    ws = firelu.Workspace()
    ws.feed("X", x)
    ws.feed("dY", np.ones(2))
    ws.run(net + backward)
    np.testing.assert_array_equal(ws.fetch("X_grad"), 6 * x**2)
    t = firelu.Tensor(x, requires_grad=True)
    first = firelu.grad(firelu.run_operator(cube, t, factor=2.0), t, create_graph=True)
    np.testing.assert_array_equal(first.numpy(), 6 * x**2)
    second = firelu.grad(first, t, create_graph=True)
    np.testing.assert_array_equal(second.numpy(), 12 * x)
    with pytest.raises(firelu.NoGradientError, match="TestCubeCurve"):
        firelu.grad(second, t)
    firelu.register_gradient("TestCubeCurve", None)
    np.testing.assert_array_equal(firelu.grad(second, t, retain_graph=True).numpy(), [0.0, 0.0])
    with pytest.raises(firelu.ArgumentError, match="second gradient"):
        firelu.register_gradient(cube, None)


def test_a_users_operator_with_shapes_of_its_own():
    def infer(types, times):
        (shape, dtype), other = types
        assert other is None or other[1] == "float32"
        return [((times, *shape), dtype), ((), dtype)]

    def kernel(x, y, times):
        return np.repeat(x[None] + (0 if y is None else y), times, 0), x.sum()

    firelu.register_operator(
        "TestRepeat", kernel, ["X", "Y"], ["Z", "T"], args={"times": 2}, optional=["Y"], infer=infer
    )
    repeated, total = firelu.run_operator("TestRepeat", np.float32([1, 2]), times=3)
    assert repeated.shape == (3, 2)
    assert total == 3
    assert firelu.schema("TestRepeat").infer([((5,), "float32"), None], times=4)[0][0] == (4, 5)
    repeated, _ = firelu.run_operator("TestRepeat", np.float32([1, 2]), np.float32([1, 1]))
    np.testing.assert_array_equal(repeated, [[2, 3], [2, 3]])


def test_mistakes_of_a_users_operator_are_named():
    register = firelu.register_operator
    register("TestWrongShape", lambda x: x[:1], ["X"], ["Y"])
    register("TestWrongDtype", lambda x: x.astype(np.float32), ["X"], ["Y"])
    register("TestWrongCount", lambda x: (x, x), ["X"], ["Y"])
    register("TestRaises", lambda x: 1 // 0, ["X"], ["Y"])
    register("TestWrongMaker", lambda x: x, ["X"], ["Y"], gradient=lambda op, gradients: None)
    x = np.ones(2)
    ws = firelu.Workspace()
    ws.feed("X", x)
    for name, error in {
        "TestWrongShape": firelu.ShapeError,
        "TestWrongDtype": firelu.DTypeError,
        "TestWrongCount": firelu.ArgumentError,
        "TestRaises": ZeroDivisionError,
    }.items():
        with pytest.raises(error):
            firelu.run_operator(name, x)
        with pytest.raises(error):
            ws.run([op("LeakyRelu", ["X"], ["X"]), op(name, ["X"], ["Y"])])
        assert ws.blobs() == ["X"]
    t = firelu.Tensor(x, requires_grad=True)
    with pytest.raises(firelu.FireluError, match="TestWrongMaker"):
        firelu.run_operator("TestWrongMaker", t).backward()
    with pytest.raises(firelu.ArgumentError, match="registered already"):
        register("TestRaises", lambda x: x, ["X"], ["Y"])
    with pytest.raises(firelu.ArgumentError, match="callable"):
        register("TestNoKernel", 3, ["X"], ["Y"])
    with pytest.raises(firelu.ArgumentError, match="reserved"):
        register("TestReserved", lambda x: x, ["X"], ["Y"], args={"out": 1})
    with pytest.raises(firelu.ArgumentError, match="names of inputs"):
        register("TestNames", lambda x: x, ["X"], ["Y"], optional=["Z"])
    with pytest.raises(firelu.ArgumentError, match="inplace"):
        register("TestNames", lambda x: x, ["X"], ["Y"], inplace=[("X", "Z")])


def test_a_kernel_may_use_the_workspace_that_runs_it():
    ws = firelu.Workspace()
    ws.feed("X", [1.0])
    firelu.register_operator("TestLooksBack", lambda x: x + ws.fetch("X"), ["X"], ["Y"])
    ws.run(op("TestLooksBack", ["X"], ["Y"]))
    assert ws.fetch("Y").item() == 2.0


def test_several_threads_share_a_workspace():
    ws = firelu.Workspace()
    ws.feed("X", np.ones(1000))

    def work(index):
        for _ in range(50):
            ws.run([op("LeakyRelu", ["X"], [f"Y{index}"]), op("Add", ["X", f"Y{index}"], [f"Z{index}"])])

    threads = [threading.Thread(target=work, args=(index,)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for index in range(4):
        np.testing.assert_array_equal(ws.fetch(f"Z{index}"), np.full(1000, 2.0))


def test_gradients_of_another_shape_are_refused_in_nets_as_on_tensors():
    # A step that sums, and the output's gradient itself where the output has another shape.
    makers = {
        "summed": lambda definition, gradients: ([op("ReduceSum", [gradients[0]], ["dx"])], ["dx"]),
        "passed on": lambda definition, gradients: ([], [gradients[0]]),
    }
    firelu.register_operator(
        "TestHalves", lambda x: x[::2].copy(), ["X"], ["Y"], infer=lambda types: [((types[0][0][0] // 2,), types[0][1])]
    )
    x = np.float32([1, 2, 3, 4])
    for name, maker in makers.items():
        with firelu.gradient_override({"TestHalves": maker}):
            leaf = firelu.Tensor(x, requires_grad=True)
            with pytest.raises(firelu.ShapeError, match="TestHalves"):
                firelu.run_operator("TestHalves", leaf).backward()
            net = [op("TestHalves", ["X"], ["Y"])]
            backward = firelu.add_gradient_operators(net, {"Y": "dY"})
        ws = firelu.Workspace()
        ws.feed("X", x)
        ws.feed("dY", np.ones(2, np.float32))
        with pytest.raises(firelu.ShapeError, match=r"takes \(4,\)"):
            ws.run(net + backward)
        assert ws.blobs() == ["X", "dY"], name
        assert firelu.Net.from_json(backward.to_json()) == backward
    assert [step.like for step in firelu.add_gradient_operators([op("LeakyRelu", ["X"], ["Y"])], {"Y": "dY"})] == [{}]
