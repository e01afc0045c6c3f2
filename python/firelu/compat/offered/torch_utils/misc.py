"""Small helpers that networks of the family call."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Sized
from contextlib import contextmanager, nullcontext
from functools import lru_cache, wraps
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn


def constant(value: Any, shape: Any = None, dtype: Any = None, device: Any = None, memory_format: Any = None) -> Tensor:
    """Give a tensor of fixed values, made once for each place and type."""
    value = np.asarray(value)
    shape = None if shape is None else tuple(shape)
    dtype = torch.get_default_dtype() if dtype is None else dtype
    device = torch.device("cpu" if device is None else device)
    layout = torch.contiguous_format if memory_format is None else memory_format
    return _constant(value.tobytes(), value.shape, value.dtype.str, shape, dtype, device, layout)


@lru_cache(maxsize=256)
def _constant(
    data: bytes, own_shape: tuple[int, ...], kind: str, shape: Any, dtype: Any, device: Any, layout: Any
) -> Tensor:
    value = np.frombuffer(data, kind).reshape(own_shape).copy()
    tensor = torch.as_tensor(value, dtype=dtype, device=device)
    tensor = tensor if shape is None else tensor.expand(shape)
    return tensor.contiguous(memory_format=layout)


def nan_to_num(
    input: Tensor, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None, *, out: Any = None
) -> Tensor:
    """Put numbers in the place of NaN and infinities."""
    return torch.nan_to_num(input, nan=nan, posinf=posinf, neginf=neginf, out=out)


def symbolic_assert(condition: Any, message: str = "") -> None:
    """Assert something that a tracer may see."""
    torch._assert(condition, message)


class suppress_tracer_warnings:  # noqa: N801 - the name that networks use
    """Hide the warnings of torch.jit.trace inside a block."""

    def __enter__(self) -> None:
        """Begin to hide them."""
        self._catcher = warnings.catch_warnings()
        self._catcher.__enter__()
        warnings.simplefilter("ignore", category=torch.jit.TracerWarning)  # type: ignore[attr-defined]

    def __exit__(self, *details: Any) -> None:
        """Show them again."""
        self._catcher.__exit__(*details)


def assert_shape(tensor: Tensor, ref_shape: Any) -> None:
    """Raise unless a tensor has a shape, in which None stands for any size."""
    fits = len(ref_shape) == tensor.ndim
    if fits and not torch._C._get_tracing_state():  # a tracer's sizes are tensors
        fits = all(want is None or int(size) == int(want) for size, want in zip(tensor.shape, ref_shape, strict=True))
    if not fits:
        raise AssertionError(f"assert_shape: tensor: got {list(tensor.shape)}, takes {list(ref_shape)}")


def profiled_function(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Name a function's calls for the profiler."""

    @wraps(fn)
    def profiled(*args: Any, **kwargs: Any) -> Any:
        with torch.autograd.profiler.record_function(fn.__name__):
            return fn(*args, **kwargs)

    return profiled


class InfiniteSampler(torch.utils.data.Sampler[int]):
    """Goes through a data set forever, in an order that is shuffled within a moving window."""

    def __init__(
        self,
        dataset: Sized,
        rank: int = 0,
        num_replicas: int = 1,
        shuffle: bool = True,
        seed: int = 0,
        window_size: float = 0.5,
    ) -> None:
        super().__init__()
        self.dataset, self.rank, self.num_replicas = dataset, rank, num_replicas
        self.shuffle, self.seed, self.window_size = shuffle, seed, window_size

    def __iter__(self) -> Iterator[int]:
        """Yield every num_replicas-th index, from rank on."""
        order, random = np.arange(len(self.dataset)), np.random.RandomState(self.seed)
        if self.shuffle:
            random.shuffle(order)
        window = int(np.rint(order.size * self.window_size)) if self.shuffle else 0
        step = 0
        while True:
            place = step % order.size
            if step % self.num_replicas == self.rank:
                yield int(order[place])
            if window >= 2:
                other = (place - random.randint(window)) % order.size
                order[place], order[other] = order[other], order[place]
            step += 1


def params_and_buffers(module: nn.Module) -> list[Tensor]:
    """Give a module's parameters and buffers."""
    return [*module.parameters(), *module.buffers()]


def named_params_and_buffers(module: nn.Module) -> list[tuple[str, Tensor]]:
    """Give a module's parameters and buffers with their names."""
    return [*module.named_parameters(), *module.named_buffers()]


def copy_params_and_buffers(src_module: nn.Module, dst_module: nn.Module, require_all: bool = False) -> None:
    """Copy values by name; with ``require_all``, none may be missing in the source."""
    sources = dict(named_params_and_buffers(src_module))
    for name, tensor in named_params_and_buffers(dst_module):
        if name in sources:
            tensor.copy_(sources[name].detach()).requires_grad_(tensor.requires_grad)
        elif require_all:
            raise KeyError(f"copy_params_and_buffers: {name}: got no such tensor in the source")


@contextmanager
def ddp_sync(module: nn.Module, sync: bool) -> Iterator[None]:
    """Have a distributed module exchange gradients, or not, inside a block."""
    distributed = isinstance(module, nn.parallel.DistributedDataParallel)
    with module.no_sync() if distributed and not sync else nullcontext():  # type: ignore[operator]
        yield


def check_ddp_consistency(module: nn.Module, ignore_regex: str | None = None) -> None:
    """Raise unless all processes have the same values."""
    for name, tensor in named_params_and_buffers(module):
        fullname = f"{type(module).__name__}.{name}"
        if ignore_regex is not None and re.fullmatch(ignore_regex, fullname):
            continue
        mine = tensor.detach()
        mine = nan_to_num(mine) if mine.is_floating_point() else mine
        theirs = mine.clone()
        torch.distributed.broadcast(tensor=theirs, src=0)
        if not bool((mine == theirs).all()):
            raise AssertionError(f"check_ddp_consistency: {fullname} differs from that of the first process")


def print_module_summary(module: nn.Module, inputs: Any, max_nesting: int = 3, skip_redundant: bool = True) -> Any:
    """Run a module once, print what each part has and gives, and return the outputs."""
    rows: list[tuple[str, int, int, str]] = []
    names = {each: name or "<top-level>" for name, each in module.named_modules()}
    counted: set[int] = set()

    def note(each: nn.Module, _: Any, outputs: Any) -> None:
        own = [tensor for tensor in params_and_buffers(each) if id(tensor) not in counted]
        counted.update(map(id, own))
        parameters = sum(tensor.numel() for tensor in own if isinstance(tensor, nn.Parameter))
        buffers = sum(tensor.numel() for tensor in own if not isinstance(tensor, nn.Parameter))
        given = outputs if isinstance(outputs, (tuple, list)) else [outputs]
        shapes = ", ".join(str(list(tensor.shape)) for tensor in given if isinstance(tensor, Tensor))
        if own or not skip_redundant:
            rows.append((names[each], parameters, buffers, shapes))

    near = [each for each, name in names.items() if name.count(".") < max_nesting]
    hooks = [each.register_forward_hook(note) for each in near]
    try:
        outputs = module(*inputs)
    finally:
        for hook in hooks:
            hook.remove()
    print(f"{type(module).__name__:<32}{'Parameters':>12}{'Buffers':>12}  Output shape")
    for name, parameters, buffers, shapes in rows:
        print(f"{name:<32}{parameters:>12}{buffers:>12}  {shapes}")
    return outputs
