"""Forward mode: tangents of every operator, alone and among torch.func's transforms."""

from __future__ import annotations

import functools
import subprocess
import sys

import firelu
import firelu.torch as ft
import pytest
import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.func import grad, hessian, jacfwd, jacrev, jvp, linearize, vjp, vmap
from torch_samples import SAMPLES, Sample, names

pytestmark = [
    # The first dual tensor of a process makes torch compile its own rules, by a function that it deprecates.
    pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:FutureWarning"),
    # What `linearize` folds.
    pytest.mark.filterwarnings("ignore:Attempted to insert a get_attr Node:UserWarning"),
]

every_sample = pytest.mark.parametrize("sample", SAMPLES, ids=names)


def flat(results) -> tuple[Tensor, ...]:
    return results if isinstance(results, tuple) else (results,)


def random_like(tensors: tuple[Tensor, ...], seed: int = 0) -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(seed)
    return tuple(torch.randn(t.shape, generator=generator, dtype=t.dtype) for t in tensors)


def by_reverse_mode(function, tensors, tangents) -> list[Tensor]:
    """The same tangents by two reverse passes: the gradient of the gradient with respect to the cotangent."""
    tensors = tuple(t.detach().requires_grad_() for t in tensors)
    outputs = flat(function(*tensors))
    results = []
    for output in outputs:
        cotangent = torch.zeros_like(output, requires_grad=True)
        gradients = torch.autograd.grad(output, tensors, cotangent, create_graph=True, allow_unused=True)
        there = [(g, t) for g, t in zip(gradients, tangents, strict=True) if g is not None and g.requires_grad]
        if not there:
            results.append(torch.zeros_like(output))
            continue
        found = torch.autograd.grad([g for g, _ in there], cotangent, [t for _, t in there], allow_unused=True)[0]
        results.append(torch.zeros_like(output) if found is None else found)
    return results


def test_every_built_in_operator_is_among_the_samples():
    """The samples are the schemas' own examples: an operator of the registry cannot be left out."""
    # A process of its own knows no operators but the built-in ones.
    program = "import firelu; print(*firelu.operators())"
    built_in = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert {sample.operator for sample in SAMPLES} == set(built_in.split())


@every_sample
def test_gradcheck_in_forward_mode(sample: Sample):
    """Against finite differences, also batched, with undefined tangents, and reverse over forward."""
    arguments = sample.arguments(torch.float64, requires_grad=True)
    function, tensors = sample.function_of_tensors(arguments)
    # gradcheck makes batches by an older vmap than torch.vmap, which takes no lists of tensors; the tangents of the
    # second are sums of several parts.
    batched = sample.operator not in ("Sum", "FilteredActGradient")
    assert torch.autograd.gradcheck(function, tensors, check_forward_ad=True, check_batched_forward_grad=batched)
    assert torch.autograd.gradgradcheck(function, tensors, check_fwd_over_rev=True, check_rev_over_rev=True)


@every_sample
def test_each_tangent_alone_and_all_together(sample: Sample):
    function, tensors = sample.function_of_tensors(sample.arguments(torch.float64))
    tangents = random_like(tensors)
    for chosen in [*range(len(tensors)), None]:
        given = tuple(t if chosen in (place, None) else torch.zeros_like(t) for place, t in enumerate(tangents))
        values, found = jvp(function, tensors, given)
        expected = by_reverse_mode(function, tensors, given)
        torch.testing.assert_close(flat(values), flat(function(*tensors)))
        torch.testing.assert_close(list(flat(found)), expected)
        with forward_ad.dual_level():
            duals = [
                forward_ad.make_dual(x, t) if chosen in (place, None) else x
                for place, (x, t) in enumerate(zip(tensors, tangents, strict=True))
            ]
            for output, tangent in zip(flat(function(*duals)), expected, strict=True):
                unpacked = forward_ad.unpack_dual(output).tangent
                assert unpacked is not None or not tangent.any()
                torch.testing.assert_close(torch.zeros_like(tangent) if unpacked is None else unpacked, tangent)


@every_sample
def test_jacobians_of_both_modes_agree(sample: Sample):
    function, tensors = sample.function_of_tensors(sample.arguments(torch.float64))
    places = tuple(range(len(tensors)))

    def curved(*values: Tensor) -> tuple[Tensor, ...]:
        return tuple(output.sin() for output in flat(function(*(value**3 for value in values))))

    torch.testing.assert_close(jacfwd(curved, places)(*tensors), jacrev(curved, places)(*tensors))


@every_sample
def test_hessians_of_every_nesting_agree(sample: Sample):
    function, tensors = sample.function_of_tensors(sample.arguments(torch.float64))
    tensors = tuple(t.flatten()[:2].reshape(-1) for t in tensors), tensors

    def loss(first: Tensor) -> Tensor:
        # Two numbers move every tensor, so that the hessians stay small.
        moved = [t * (1 + 0.1 * first[0]) + first[1] ** 2 for t in tensors[1]]
        return sum(((output**3).sum() for output in flat(function(*moved))), start=first.new_zeros(()))

    point = torch.tensor([0.3, 0.2], dtype=torch.float64)
    expected = jacrev(jacrev(loss))(point)
    assert expected.abs().max() > 0
    for nesting in (hessian, lambda f: jacfwd(jacfwd(f)), lambda f: jacrev(jacfwd(f))):
        torch.testing.assert_close(nesting(loss)(point), expected)
    direction = torch.tensor([1.0, -2.0], dtype=torch.float64)
    torch.testing.assert_close(jvp(grad(loss), (point,), (direction,))[1], expected @ direction)
    torch.testing.assert_close(grad(lambda v: jvp(loss, (v,), (direction,))[1])(point), expected @ direction)


@every_sample
def test_transforms_equal_differences_of_values(sample: Sample):
    """`jvp`, `jacfwd`, `linearize` and `hessian` against numeric derivatives, which know of no mode at all."""
    function, tensors = sample.function_of_tensors(sample.arguments(torch.float64))
    directions = random_like(tensors, 1)

    def curve(point: Tensor) -> Tensor:
        # Two numbers move every tensor, so that Jacobians stay small.
        moved = [t * (1 + 0.1 * point[0]) + d * point[1] for t, d in zip(tensors, directions, strict=True)]
        return torch.cat([(output**3).flatten() for output in flat(function(*moved))])

    def loss(point: Tensor) -> Tensor:
        return curve(point).sum()

    point = torch.tensor([0.3, 0.2], dtype=torch.float64)
    axes = torch.eye(2, dtype=torch.float64)

    def differences(f, at: Tensor, step: float) -> Tensor:
        def central(of: Tensor) -> Tensor:
            return f(at + of) - f(at - of)

        return torch.stack([(8 * central(step * a) - central(2 * step * a)) / (12 * step) for a in axes], -1)

    # Rounding leaves about 1e-16 / step of a value, what is cut off about step ** 4 of its derivatives.
    jacobian = differences(curve, point, 1e-6)
    size = 1 + float(curve(point).abs().max() + jacobian.abs().max())
    close = functools.partial(torch.testing.assert_close, rtol=0, atol=1e-7 * size)
    assert jacobian.abs().max() > 0
    direction = torch.tensor([1.0, -2.0], dtype=torch.float64)
    close(jvp(curve, (point,), (direction,))[1], jacobian @ direction)
    close(jacfwd(curve)(point), jacobian)
    close(linearize(curve, point)[1](direction), jacobian @ direction)
    # Of values alone too: the second step divides what the first one left of rounding.
    curvature = differences(lambda at: differences(loss, at, 5e-5), point, 5e-5)
    size = 1 + float(curve(point).abs().sum() + curvature.abs().max())
    torch.testing.assert_close(hessian(loss)(point), curvature, rtol=0, atol=1e-5 * size)


def chain(x: Tensor, bias: Tensor, kernel: Tensor) -> Tensor:
    y = ft.upfirdn2d(ft.fused_leaky_relu(x, bias), kernel, up=2, down=1, pad=(2, 1))
    return ft.leaky_relu(y, 0.1) ** 3


def plain_chain(x: Tensor, bias: Tensor, kernel: Tensor) -> Tensor:
    act = torch.nn.functional.leaky_relu(x + bias.view(-1, 1, 1), 0.2) * 2**0.5
    y = ft.upfirdn2d_native(act, kernel, 2, 2, 1, 1, 2, 1, 2, 1)
    return torch.nn.functional.leaky_relu(y, 0.1) ** 3


@pytest.fixture
def operands() -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(1)
    shapes = [(2, 3, 4, 4), (3,), (3, 3)]
    return tuple(torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes)


def test_a_chain_of_operators_equals_plain_torch(operands):
    directions = random_like(operands, 2)
    expected = jvp(plain_chain, operands, directions)
    torch.testing.assert_close(jvp(chain, operands, directions), expected)
    output, linear = linearize(chain, *operands)
    torch.testing.assert_close((output, linear(*directions)), expected)
    again = random_like(operands, 3)
    torch.testing.assert_close(linear(*again), jvp(plain_chain, operands, again)[1])


def test_tangents_of_tangents(operands):
    first, second = random_like(operands, 2), random_like(operands, 3)

    def twice(function):
        return jvp(lambda *v: jvp(function, v, first)[1], operands, second)

    torch.testing.assert_close(twice(chain), twice(plain_chain))


def test_batches_of_tangents_and_of_points(operands):
    x, bias, kernel = operands
    stack = torch.stack([x, 2 * x, -x])
    directions = torch.randn_like(stack)

    def along(function):
        return vmap(lambda point, d: jvp(lambda v: function(v, bias, kernel), (point,), (d,))[1])(stack, directions)

    torch.testing.assert_close(along(chain), along(plain_chain))

    def over(function):
        return jvp(vmap(lambda v: function(v, bias, kernel)), (stack,), (directions,))

    torch.testing.assert_close(over(chain), over(plain_chain))

    def kernels(function):
        many = torch.stack([kernel, kernel.flip(0)])
        return jvp(vmap(lambda k: function(x, bias, k)), (many,), (many.sin(),))

    torch.testing.assert_close(kernels(chain), kernels(plain_chain))


def test_reverse_mode_of_dual_tensors(operands):
    x, bias, kernel = operands
    (direction,) = random_like((x,), 4)

    def by_hand(function):
        leaf = x.detach().requires_grad_()
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(leaf, direction)
            tangent = forward_ad.unpack_dual(function(dual, bias, kernel).sum()).tangent
            (through,) = torch.autograd.grad(tangent, leaf)
            (gradient,) = torch.autograd.grad(function(dual, bias, kernel).sum(), dual)
            return through, forward_ad.unpack_dual(gradient).tangent

    torch.testing.assert_close(by_hand(chain), by_hand(plain_chain))


@pytest.mark.parametrize("mode", [torch.no_grad, torch.enable_grad])
def test_tangents_do_not_depend_on_the_mode_of_reverse(mode):
    with mode(), forward_ad.dual_level():
        dual = forward_ad.make_dual(torch.tensor([-1.0, 2.0]), torch.ones(2))
        for y in (ft.leaky_relu(dual, 0.5), torch.ops.firelu.leaky_relu(dual, 0.5)):
            assert forward_ad.unpack_dual(y).tangent.tolist() == [0.5, 1.0]
    assert forward_ad.unpack_dual(dual).tangent is None


def test_the_hessian_of_a_cubed_activation():
    x = torch.tensor([-1.0, 2.0])
    found = hessian(lambda v: (ft.leaky_relu(v, 0.5) ** 3).sum())(x).diagonal()
    torch.testing.assert_close(found, torch.tensor([-0.75, 12.0]))


def test_the_tangent_of_an_output_is_its_own():
    """Sum hands its tangent on: writing to the output's must not write to the input's."""
    with forward_ad.dual_level():
        tangent = torch.ones(3)
        dual = forward_ad.make_dual(torch.zeros(3), tangent)
        total = torch.ops.firelu.sum([dual])
        total.mul_(2)
        assert tangent.tolist() == [1, 1, 1]
        assert forward_ad.unpack_dual(total).tangent.tolist() == [2, 2, 2]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
def test_tangents_have_the_dtype_of_the_output(dtype):
    x, bias = torch.randn(2, 3, 4, 4).to(dtype), torch.randn(3)
    for tangents in [(x, bias), (x, torch.zeros(3)), (torch.zeros_like(x), bias)]:
        y, tangent = jvp(lambda v, b: ft.fused_leaky_relu(v, b), (x, bias), tangents)
        assert tangent.dtype == y.dtype == dtype
        slope = torch.where(y > 0, 1.0, 0.2).double() * 2**0.5
        expected = slope * (tangents[0].double() + tangents[1].double().view(3, 1, 1))
        torch.testing.assert_close(tangent.double(), expected, rtol=2**-7, atol=2**-7)
    kernel = torch.randn(3, 3)
    y, tangent = jvp(lambda v, k: ft.upfirdn2d(v, k), (x, kernel), (x, kernel))
    assert tangent.dtype == dtype
    torch.testing.assert_close(tangent.double(), 2 * y.double(), rtol=2**-6, atol=2**-6)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_compiled_forward_mode(operands, backend):
    """A compiled graph enters levels that Python's side of torch knows nothing of."""
    torch._dynamo.reset()
    directions = random_like(operands, 2)

    def by_transform(function, *values):
        return jvp(function, values[:3], values[3:])

    def by_duals(function, *values):
        with forward_ad.dual_level():
            duals = [forward_ad.make_dual(*pair) for pair in zip(values[:3], values[3:], strict=True)]
            return tuple(forward_ad.unpack_dual(function(*duals)))

    for run in (by_transform, by_duals):
        compiled = torch.compile(lambda *values, run=run: run(chain, *values), fullgraph=True, backend=backend)
        expected = by_transform(plain_chain, *operands, *directions)
        torch.testing.assert_close(compiled(*operands, *directions), expected)


@pytest.fixture(scope="module")
def own():
    """Operators of the user's own: with a gradient, with one that cannot be transposed, and without."""

    def cube_gradient(op, gradients):
        x, dx = op.inputs[0], op.inputs[0] + "_grad"
        if gradients[0] is None:
            return [], [None]
        return [firelu.create_operator("TestForwardCubeGradient", [x, gradients[0]], [dx])], [dx]

    def cube_gradient_gradient(op, gradients):
        # One operator for both derivatives: it reads dy, though nobody asks for the part that depends on it.
        x, dy = op.inputs
        outputs = [f"{x}_grad", f"{dy}_grad"]
        return [firelu.create_operator("TestForwardCubeSecond", [x, dy, gradients[0]], outputs)], outputs

    def dead_end(op, gradients):
        dx = op.inputs[0] + "_grad"
        return [firelu.create_operator("TestForwardDeadEndGradient", [gradients[0]], [dx])], [dx]

    firelu.register_operator("TestForwardCube", lambda x: x**3, ["X"], ["Y"], gradient=cube_gradient)
    firelu.register_operator(
        "TestForwardCubeGradient",
        lambda x, dy: 3 * x**2 * dy,
        ["X", "dY"],
        ["dX"],
        infer=lambda types: [types[0]],
        gradient=cube_gradient_gradient,
    )
    firelu.register_operator(
        "TestForwardCubeSecond",
        lambda x, dy, ddx: (6 * x * dy * ddx, 3 * x**2 * ddx),
        ["X", "dY", "ddX"],
        ["X_grad", "dY_grad"],
        infer=lambda types: [types[0], types[0]],
    )
    firelu.register_operator("TestForwardNone", lambda x: x + 1, ["X"], ["Y"])
    firelu.register_operator("TestForwardDeadEnd", lambda x: x + 1, ["X"], ["Y"], gradient=dead_end)
    firelu.register_operator("TestForwardDeadEndGradient", lambda x: x * 1, ["X"], ["Y"])
    firelu.register_operator("TestForwardConstant", lambda x: x * 0, ["X"], ["Y"])
    firelu.register_gradient("TestForwardConstant", None)
    return ft.register


def test_an_operator_of_ones_own_has_tangents(own):
    cube = own("TestForwardCube")
    x, direction = torch.randn(4, dtype=torch.float64), torch.randn(4, dtype=torch.float64)
    torch.testing.assert_close(jvp(cube, (x,), (direction,)), (x**3, 3 * x**2 * direction))
    torch.testing.assert_close(jacfwd(cube)(x), torch.diag(3 * x**2))
    torch.testing.assert_close(jacrev(jacrev(lambda v: cube(v).sum()))(x), torch.diag(6 * x))
    # A tangent of the gradient would need the third derivative, which nobody has written.
    with pytest.raises(firelu.NoGradientError, match=r"TestForwardCubeGradient: .*TestForwardCubeSecond"):
        hessian(lambda v: cube(v).sum())(x)


def test_where_there_is_no_gradient_a_tangent_is_refused(own):
    x = torch.ones(3)
    for name in ("TestForwardNone", "TestForwardDeadEnd"):
        operator = own(name)
        assert operator(x).tolist() == [2, 2, 2]
        with pytest.raises(firelu.NoGradientError, match=f"{name}: .*tangent"):
            jvp(operator, (x,), (x,))
        with forward_ad.dual_level(), pytest.raises(firelu.NoGradientError, match=name):
            operator(forward_ad.make_dual(x, x))
        with forward_ad.dual_level():
            assert operator(x).tolist() == [2, 2, 2]


def test_a_gradient_that_is_not_needed_is_zero(own):
    x = torch.ones(3)
    assert jvp(own("TestForwardConstant"), (x,), (x,))[1].tolist() == [0, 0, 0]


def test_an_overridden_gradient_stays_out_of_torch():
    """`gradient_override` is for nets and tensors; it must not find its way into what is kept for torch."""
    x = torch.tensor([-1.0, 2.0])

    def nothing(op, gradients):
        return [], [None] * len(op.inputs)

    with firelu.gradient_override({"LeakyReluGradient": nothing, "LeakyRelu": nothing}):
        assert jvp(lambda v: ft.leaky_relu(v, 0.375), (x,), (torch.ones(2),))[1].tolist() == [0.375, 1.0]


def test_vjp_and_jvp_are_transposed(operands):
    directions = random_like(operands, 5)
    output, tangent = jvp(chain, operands, directions)
    (cotangent,) = random_like((output,), 6)
    gradients = vjp(chain, *operands)[1](cotangent)
    left = (tangent * cotangent).sum()
    right = sum((g * d).sum() for g, d in zip(gradients, directions, strict=True))
    torch.testing.assert_close(left, right)
