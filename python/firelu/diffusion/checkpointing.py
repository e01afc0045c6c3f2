"""Gradient checkpointing: forget a block's activations and compute them again for the backward pass."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten
from torch.utils.checkpoint import get_device_states, set_device_states

#: What a checkpointed function returns.
Result = TypeVar("Result")


def checkpoint(func: Callable[..., Result], inputs: Iterable[object], params: Iterable[Tensor], flag: bool) -> Result:
    """Return `func(*inputs)`, whose activations the backward pass computes again instead of keeping them.

    `inputs` are the arguments, of any kind and nesting; tensors among them get gradients. `params` are the
    leaf tensors that `func` uses without taking them, usually `module.parameters()`; they may be frozen.
    `flag=False` just calls `func`, and so does a call in which nothing listed needs a gradient.

    The second run sees the first one's autocast state (CPU and the accelerator) and random numbers, so
    mixed precision and dropout agree. Gradients of any order work, checkpoints nest, and outputs of any
    kind come back as `func` made them. Refused with a message rather than answered wrongly: a `func` that
    changes its inputs in place, and a tensor that it uses, that needs a gradient and is not listed.

    >>> layer = torch.nn.Linear(4, 4)
    >>> checkpoint(layer, (torch.ones(2, 4),), layer.parameters(), True).shape
    torch.Size([2, 4])
    """
    if isinstance(inputs, Tensor) or isinstance(params, Tensor):
        raise TypeError("checkpoint: inputs and params must be sequences; wrap a single tensor in a tuple")
    arguments, params = tuple(inputs), tuple(params)
    leaves, structure = tree_flatten(arguments)
    needed = any(isinstance(leaf, Tensor) and leaf.requires_grad for leaf in [*leaves, *params])
    if not (flag and needed and torch.is_grad_enabled()):
        return func(*arguments)
    result_structure: Any = None

    def run(*flat: Any) -> tuple[Any, ...]:
        nonlocal result_structure
        results, result_structure = tree_flatten(func(*tree_unflatten(list(flat), structure)))
        return tuple(results)

    results = CheckpointFunction.apply(run, len(leaves), *leaves, *params)
    result: Result = tree_unflatten(list(results), result_structure)
    return result


class CheckpointFunction(torch.autograd.Function):
    """The autograd function behind `checkpoint`: `apply(run_function, length, *inputs, *params)`.

    The first `length` arguments go to `run_function`, which returns a tensor or a flat tuple (its
    non-tensors pass through); the rest are the tensors that it uses besides. `checkpoint` adds nesting.
    """

    @staticmethod
    def forward(ctx: Any, run_function: Callable[..., Any], length: int, *args: Any) -> Any:
        """Run without a graph, keeping the arguments and the state that a second run needs."""
        inputs, params = args[:length], args[length:]
        if not all(isinstance(param, Tensor) and param.is_leaf for param in params):
            raise ValueError(
                "checkpoint: params must be leaf tensors, such as a module's parameters; "
                "a computed tensor belongs among the inputs"
            )
        replay = _Replay.capture(run_function, args)
        versions = [_version(value) for value in inputs]
        with torch.no_grad(), replay.autocast(cached=False):
            outputs = run_function(*inputs)
        if versions != [_version(value) for value in inputs]:
            raise RuntimeError(
                "checkpoint: func changed an input in place and cannot be run again; let it work on a clone"
            )
        flat = outputs if isinstance(outputs, tuple) else (outputs,)
        if any(not isinstance(out, Tensor) and _holds_tensor(out) for out in flat):
            raise TypeError("CheckpointFunction: run_function must return a tensor or a flat tuple")
        ctx.set_materialize_grads(False)
        ctx.replay = replay
        # Params as they are: hooks on saved tensors may answer with copies, which func does not use.
        ctx.params, ctx.param_versions = params, [_version(param) for param in params]
        ctx.others = [None if isinstance(value, Tensor) else (value,) for value in inputs]
        ctx.save_for_backward(*(value for value in inputs if isinstance(value, Tensor)))
        return outputs

    @staticmethod
    def backward(ctx: Any, *output_grads: Any) -> Any:
        """Run again with a graph, and take its gradients; differentiable itself, so any order works."""
        tensors, params = iter(ctx.saved_tensors), ctx.params
        inputs = [next(tensors) if other is None else other[0] for other in ctx.others]
        if ctx.param_versions != [_version(param) for param in params]:
            raise RuntimeError("checkpoint: a parameter was changed in place between forward and backward")
        given = [index for index, grad in enumerate(output_grads) if grad is not None]
        gradient = _Gradient(ctx.replay, len(inputs), given, params, ctx.needs_input_grad[2:])
        arguments = [*inputs, *(output_grads[index] for index in given)]
        if torch.is_grad_enabled():  # create_graph: the gradient is a function to checkpoint like any other
            grads = CheckpointFunction.apply(gradient, len(arguments), *arguments, *params)
        else:
            grads = gradient(*arguments)
        return None, None, *grads


@dataclass(frozen=True)
class _Gradient:
    """(inputs, output gradients) -> gradients of the inputs and params, by running the block again."""

    replay: _Replay
    length: int
    given: list[int]  # the outputs whose gradients follow the inputs
    params: Sequence[Tensor]
    needed: Sequence[bool]  # for each input, then each param

    def __call__(self, *args: Any) -> tuple[Tensor | None, ...]:
        inputs, output_grads = args[: self.length], args[self.length :]
        create_graph = torch.is_grad_enabled()
        with torch.enable_grad():
            if not create_graph:  # with a graph the caller has cut the inputs off from their history already
                inputs = tuple(
                    value.detach().requires_grad_(needed) if isinstance(value, Tensor) else value
                    for value, needed in zip(inputs, self.needed, strict=False)
                )
            with self.replay.state():
                outputs = self.replay.run_function(*inputs)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        pairs = [
            (outputs[index], grad)
            for index, grad in zip(self.given, output_grads, strict=True)
            if isinstance(outputs[index], Tensor) and outputs[index].requires_grad
        ]
        listed = [*inputs, *self.params]
        # Once each: a parameter listed twice would count twice.
        wanted = {id(t): t for t, needed in zip(listed, self.needed, strict=True) if needed}
        if not pairs or not wanted:
            return (None,) * len(listed)
        _refuse_unlisted([output for output, _ in pairs], listed)
        grads = torch.autograd.grad(
            [output for output, _ in pairs],
            list(wanted.values()),
            [grad for _, grad in pairs],
            allow_unused=True,
            create_graph=create_graph,
        )
        by_id = dict(zip(wanted, grads, strict=True))
        return tuple(by_id.pop(id(tensor), None) for tensor in listed)


class _Autocast(NamedTuple):
    """The autocast state of one device type."""

    device: str
    enabled: bool
    dtype: torch.dtype

    @classmethod
    def now(cls, device: str) -> _Autocast:
        return cls(device, torch.is_autocast_enabled(device), torch.get_autocast_dtype(device))


@dataclass(frozen=True)
class _Replay:
    """A function and the surroundings of its first run."""

    run_function: Callable[..., Any]
    autocasts: list[_Autocast]
    cache_enabled: bool
    random: Tensor
    device_random: tuple[list[int], list[Tensor]]
    device_type: str

    @classmethod
    def capture(cls, run_function: Callable[..., Any], args: Iterable[Any]) -> _Replay:
        types = {arg.device.type for arg in args if isinstance(arg, Tensor)} - {"cpu", "meta"}
        device_type = min(types, default="cuda")  # one accelerator at a time, as torch has it
        return cls(
            run_function,
            [_Autocast.now(device) for device in ("cpu", device_type)],
            torch.is_autocast_cache_enabled(),
            torch.get_rng_state(),
            get_device_states(*args),
            device_type,
        )

    @contextlib.contextmanager
    def autocast(self, cached: bool) -> Iterator[None]:
        """Restore the first run's autocast; a run without gradients must not leave its casts in the cache."""
        with contextlib.ExitStack() as stack:
            for then in self.autocasts:
                if then.enabled or torch.is_autocast_enabled(then.device):
                    stack.enter_context(
                        torch.autocast(
                            then.device, then.dtype, then.enabled, cache_enabled=cached and self.cache_enabled
                        )
                    )
            yield

    @contextlib.contextmanager
    def state(self) -> Iterator[None]:
        """Restore the first run's autocast and random numbers, then the present ones."""
        devices, states = self.device_random
        with torch.random.fork_rng(devices, device_type=self.device_type), self.autocast(cached=True):
            torch.set_rng_state(self.random)
            if devices:
                set_device_states(devices, states, device_type=self.device_type)
            yield


def _version(value: Any) -> int | None:
    """Return how often a tensor was changed in place, None for anything without that count."""
    return value._version if isinstance(value, Tensor) and not value.is_inference() else None


def _holds_tensor(value: Any) -> bool:
    return any(isinstance(leaf, Tensor) for leaf in tree_leaves(value))


def _refuse_unlisted(outputs: Iterable[Tensor], listed: Iterable[Any]) -> None:
    """Raise where the graph of `outputs` ends in a leaf that is not listed: its gradient would be lost."""
    known = {id(value) for value in listed}
    pending = [output.grad_fn for output in outputs]
    seen = set(pending)
    while pending:
        node = pending.pop()
        if node is None:
            continue
        leaf = getattr(node, "variable", None)  # only the nodes that end a graph have one
        if leaf is not None and id(leaf) not in known:
            raise RuntimeError(
                f"checkpoint: func uses a tensor of shape {tuple(leaf.shape)} that needs a gradient and is "
                "in neither inputs nor params; list it, or its gradient is lost"
            )
        fresh = {following for following, _ in node.next_functions} - seen
        seen |= fresh
        pending.extend(fresh)
