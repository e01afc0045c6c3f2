"""Gradients: of tensors, of nets, and of operators that a user writes."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, TypeVar, cast, overload

from . import _firelu
from ._firelu import Context, OperatorDef, Tensor, context_variable
from .errors import ArgumentError
from .typing import ArgumentValue, DTypeLike, NumpyArray

Function = TypeVar("Function", bound=Callable[..., Any])
GradientMaker = Callable[[OperatorDef, list[str | None]], tuple[Sequence[OperatorDef], Sequence[str | None]]]


class _InContext:
    """Sets the context variable inside a with block: it holds for this thread and task alone.

    One object serves any number of threads and tasks, also nested: what was in force before is kept in their own
    context, not in the object.
    """

    def _change(self, context: Context) -> Context:
        raise NotImplementedError

    def __enter__(self) -> None:
        before = context_variable.get()
        context_variable.set(self._change(before))
        _entered.set(((self, before), *_entered.get()))

    def __exit__(self, *_: object) -> None:
        entered = _entered.get()
        for place, (other, before) in enumerate(entered):
            if other is self:
                _entered.set(entered[place + 1 :])
                context_variable.set(before)
                return
        raise RuntimeError(f"{type(self).__name__}: left in another thread or task than it was entered in")

    def __call__(self, function: Function) -> Function:
        """Give the function, run inside: of a generator or coroutine every part between two yields or awaits."""
        if inspect.isasyncgenfunction(function):
            wrapper = self._asynchronous_generator(function)
        elif inspect.iscoroutinefunction(function):
            wrapper = self._coroutine(function)
        elif inspect.isgeneratorfunction(function):
            wrapper = self._generator(function)
        else:
            wrapper = self._plain(function)
        return cast("Function", functools.update_wrapper(wrapper, function))

    def _plain(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **keywords: Any) -> Any:
            with self:
                return function(*args, **keywords)

        return call

    def _generator(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def generate(*args: Any, **keywords: Any) -> Any:
            return (yield from _stepwise(self, function(*args, **keywords)))

        return generate

    def _coroutine(self, function: Callable[..., Any]) -> Callable[..., Any]:
        async def run(*args: Any, **keywords: Any) -> Any:
            return await _Stepwise(self, function(*args, **keywords))

        return run

    def _asynchronous_generator(self, function: Callable[..., Any]) -> Callable[..., Any]:
        async def generate(*args: Any, **keywords: Any) -> Any:
            generator = function(*args, **keywords)
            step = generator.__anext__()
            while True:
                try:
                    result = await _Stepwise(self, step)
                except StopAsyncIteration:
                    return
                try:
                    sent = yield result
                except GeneratorExit:
                    await _Stepwise(self, generator.aclose())
                    raise
                except BaseException as error:
                    step = generator.athrow(error)
                else:
                    step = generator.asend(sent)

        return generate


_entered: ContextVar[tuple[tuple[_InContext, Context], ...]] = ContextVar("firelu_entered", default=())


def _stepwise(inside: _InContext, generator: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
    """Run a generator inside a context, and whoever resumes it outside."""
    step: Callable[[], Any] = functools.partial(next, generator)
    while True:
        try:
            with inside:
                result = step()
        except StopIteration as stop:
            return stop.value
        try:
            sent = yield result
        except GeneratorExit:
            with inside:
                generator.close()
            raise
        except BaseException as error:
            step = functools.partial(generator.throw, error)
        else:
            step = functools.partial(generator.send, sent)


class _Stepwise:
    """Awaits what it is given, inside a context between any two suspensions."""

    def __init__(self, inside: _InContext, awaited: Awaitable[Any]) -> None:
        self._inside, self._awaited = inside, awaited

    def __await__(self) -> Generator[Any, Any, Any]:
        return (yield from _stepwise(self._inside, self._awaited.__await__()))


class no_grad(_InContext):  # noqa: N801 (the name users know)
    """Record nothing inside: ``with firelu.no_grad(): ...``, or as a decorator, also of generators and coroutines.

    >>> import firelu
    >>> t = firelu.Tensor([1.0], requires_grad=True)
    >>> with firelu.no_grad():
    ...     (t + t).requires_grad
    False
    """

    def _change(self, context: Context) -> Context:
        return context.with_recording(False)


class gradient_override(_InContext):  # noqa: N801
    """Use other gradients than the registered ones inside: ``with firelu.gradient_override({name: maker}): ...``.

    A maker is called with an `OperatorDef` and the names of its output gradients, and returns backward definitions
    and the names of the input gradients, as `firelu.get_gradient_defs` does; None stands for no gradient. It serves
    nets and operators on tensors that are called, or whose backward pass is run, inside the block, in this thread and
    task alone. A maker that reads other values than the registered gradient must be in force at the call.

    >>> import firelu
    >>> t = firelu.Tensor([-1.0, 2.0], requires_grad=True)
    >>> with firelu.gradient_override({"LeakyRelu": lambda op, gradients: ([], gradients)}):
    ...     firelu.nn.functional.leaky_relu(t).backward()
    >>> t.grad
    Tensor([1., 1.])
    """

    def __init__(self, makers: Mapping[str, GradientMaker | None]) -> None:
        self._makers = dict(makers)

    def _change(self, context: Context) -> Context:
        return context.with_gradients(self._makers)


@overload
def grad(
    outputs: Tensor | Sequence[Tensor],
    inputs: Tensor,
    grad_outputs: Tensor | Sequence[Tensor | None] | None = None,
    create_graph: bool = False,
    *,
    retain_graph: bool | None = None,
) -> Tensor: ...
@overload
def grad(
    outputs: Tensor | Sequence[Tensor],
    inputs: Sequence[Tensor],
    grad_outputs: Tensor | Sequence[Tensor | None] | None = None,
    create_graph: bool = False,
    *,
    retain_graph: bool | None = None,
) -> tuple[Tensor, ...]: ...
def grad(
    outputs: Tensor | Sequence[Tensor],
    inputs: Tensor | Sequence[Tensor],
    grad_outputs: Tensor | Sequence[Tensor | None] | None = None,
    create_graph: bool = False,
    *,
    retain_graph: bool | None = None,
) -> Tensor | tuple[Tensor, ...]:
    """Return the gradients of outputs with respect to inputs, without touching any ``.grad``.

    Args:
        outputs: a tensor or a sequence of them.
        inputs: tensors that require a gradient, leaves or not.
        grad_outputs: what to start from, of each output's shape; ones by default.
        create_graph: record the pass too, so that its results can be differentiated again.
        retain_graph: keep what the graph has saved for another pass; by default the same as ``create_graph``.

    Returns:
        A tensor for a single input, else a tuple; zeros where the outputs do not depend on an input.

    >>> import firelu
    >>> x = firelu.Tensor([3.0], requires_grad=True)
    >>> first = firelu.grad(x * x * x, x, create_graph=True)
    >>> first, firelu.grad(first, x)
    (Tensor([27.], grad_operator=Sum), Tensor([18.]))
    """
    single = isinstance(inputs, Tensor)
    ends = _tensors("outputs", outputs)
    if grad_outputs is None:
        starts: list[Tensor | None] = [None] * len(ends)
    elif isinstance(grad_outputs, Tensor):
        starts = [grad_outputs]
    else:
        starts = list(grad_outputs)
    keep = create_graph if retain_graph is None else retain_graph
    found = _firelu.grad(ends, _tensors("inputs", inputs), starts, keep, create_graph)
    return found[0] if single else tuple(found)


def _tensors(argument: str, value: Tensor | Sequence[Tensor]) -> list[Tensor]:
    tensors = [value] if isinstance(value, Tensor) else list(value)
    for tensor in tensors:
        if not isinstance(tensor, Tensor):
            raise ArgumentError(f"grad: {argument}: got {type(tensor).__name__}, takes firelu.Tensor")
    return tensors


class Net(list[OperatorDef]):
    """A list of operator definitions, with JSON both ways.

    Attributes:
        gradients: for the result of `add_gradient_operators`, the name of each blob's gradient.
    """

    def __init__(self, definitions: Iterable[OperatorDef] = (), gradients: Mapping[str, str] | None = None) -> None:
        super().__init__(definitions)
        self.gradients: dict[str, str] = dict(gradients or {})

    def to_json(self) -> str:
        """Return the net as JSON text: an array of definitions."""
        return _firelu.net_to_json(self)

    @classmethod
    def from_json(cls, text: str) -> Net:
        """Read a net from JSON text."""
        return cls(_firelu.net_from_json(text))


def add_gradient_operators(
    net: OperatorDef | Iterable[OperatorDef],
    output_gradients: Mapping[str, str],
    inputs: Sequence[str] | None = None,
) -> Net:
    """Return the backward definitions of a net.

    Args:
        net: forward definitions, in the order they run.
        output_gradients: blob to the blob that holds its gradient, for the outputs to start from.
        inputs: the blobs whose gradients are wanted; all by default.

    Returns:
        Definitions to run after the net. Their ``gradients`` attribute maps each blob that has a gradient to the
        blob that then holds it: ``<name>_grad`` for blobs that the net is fed, unless that name is taken.

    >>> import firelu
    >>> net = [firelu.create_operator("Mul", ["X", "X"], ["Y"])]
    >>> backward = firelu.add_gradient_operators(net, {"Y": "Y_grad"})
    >>> ws = firelu.Workspace()
    >>> ws.feed("X", [3.0]); ws.feed("Y_grad", [1.0])
    >>> ws.run(net + backward)
    >>> ws.fetch(backward.gradients["X"])
    array([6.], dtype=float32)
    """
    wanted = None if inputs is None else list(inputs)
    definitions, gradients = _firelu.add_gradient_operators(net, dict(output_gradients), wanted)
    return Net(definitions, gradients)


def register_operator(
    name: str,
    kernel: Callable[..., NumpyArray | tuple[NumpyArray, ...]],
    inputs: Sequence[str],
    outputs: Sequence[str],
    *,
    args: Mapping[str, ArgumentValue] | None = None,
    doc: str = "",
    optional: Sequence[str] = (),
    shape_only: Sequence[str] = (),
    variadic: bool = False,
    inplace: Sequence[tuple[str, str]] = (),
    infer: Callable[..., Sequence[tuple[Sequence[int], DTypeLike]]] | None = None,
    gradient: GradientMaker | None = None,
    replace: bool = False,
) -> None:
    """Register an operator of your own, for `run_operator`, nets and autograd.

    Args:
        name: a new name.
        kernel: called with numpy arrays (None where an input is omitted) and the arguments as keywords; returns an
            array, or a tuple of one for each output. Its arrays are copies, so it may keep or change them.
        inputs: the names of the inputs.
        outputs: the names of the outputs.
        args: argument name to default, whose type is the argument's.
        doc: what it computes.
        optional: the inputs that may be omitted.
        shape_only: the inputs of which the operator reads only shape and dtype, so that no graph keeps their values.
        variadic: whether the last input may be repeated.
        inplace: pairs of an input's and an output's name that may be the same blob.
        infer: called with a list of (shape, dtype name) for the inputs, None where one is omitted, and the
            arguments as keywords; returns a list of (shape, dtype) for the outputs. By default all inputs
            and outputs have the first input's shape and dtype.
        gradient: see `register_gradient`.
        replace: register it also where an operator of yours has this name, as in a notebook's cell that is run again.
            Later calls use the new one; built-in operators cannot be replaced.

    >>> import firelu
    >>> def maker(op, output_gradients):
    ...     x, dy, dx = op.inputs[0], output_gradients[0], op.inputs[0] + "_grad"
    ...     steps = [
    ...         firelu.create_operator("Mul", [x, dy], ["half"]),
    ...         firelu.create_operator("Sum", ["half", "half"], [dx]),
    ...     ]
    ...     return steps, [dx]
    >>> firelu.register_operator("DocSquare", lambda x: x * x, ["X"], ["Y"], gradient=maker)
    >>> firelu.run_operator("DocSquare", firelu.Tensor([3.0]))
    Tensor([9.])
    """
    pairs = [(str(first), str(second)) for first, second in inplace]
    _firelu.register_operator(
        name,
        kernel,
        list(inputs),
        list(outputs),
        dict(args or {}),
        doc,
        list(optional),
        list(shape_only),
        variadic,
        pairs,
        infer,
        gradient,
        replace,
    )
    bridge = sys.modules.get(f"{__package__}.torch.bridge")
    if replace and bridge is not None:
        bridge.forget(name)  # torch has declared the earlier one


def register_gradient(name: str, maker: GradientMaker | None) -> None:
    """Register the gradient of an operator that has none.

    Args:
        name: the operator.
        maker: called with an `OperatorDef` and the name of each output's gradient (None where it is zero, never all
            of them); returns the backward definitions, none in place, and the name of each input's gradient (None where
            it is zero). The names it is given are unique, and only they and what the definitions write may be read.
            None stands for an operator through which no gradient flows.
    """
    _firelu.register_gradient(name, maker)
