"""The forward of vocoders' modules: snake, resampling by a low-pass filter, and the activation between two of these.

A module's attributes say which numbers go into the formula. That its own code computes that formula is not believed but
tried, once for each class and set of numbers: both run on a short signal, and one that differs is left alone.
"""

from __future__ import annotations

import copy
import threading
import weakref
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from ..fallbacks import Fallbacks
from .served import served, tell, why_not

_Function = Callable[..., Any]
_Serve = Callable[..., Tensor]
#: Two short signals are the same if they differ by less: rounding of half types, of sums in another order.
_ROUNDING = {torch.float16: 2e-2, torch.bfloat16: 1e-1}
_LENGTH = 9


class UnknownFormError(Exception):
    """The module is not of the known form; the text says why."""


class Snake(NamedTuple):
    """x + sin²(alpha x) / beta by channel; ``logscale`` is None where only a trial can tell."""

    alpha: Tensor
    beta: Tensor | None
    logscale: bool | None

    @property
    def numbers(self) -> tuple[Hashable, ...]:
        """What makes one snake of a class differ from another."""
        return self.beta is None, self.logscale

    @property
    def parameters(self) -> tuple[Tensor, ...]:
        """Those that there are."""
        return (self.alpha,) if self.beta is None else (self.alpha, self.beta)


class Filter(NamedTuple):
    """Taps, the ratio, and at which tap the first output begins: its sum starts ``offset`` samples before the first."""

    taps: Tensor
    ratio: int
    offset: int

    @property
    def numbers(self) -> tuple[int, int, int]:
        """What makes one filter of a class differ from another, but for the taps."""
        return self.taps.numel(), self.ratio, self.offset


class Plan(NamedTuple):
    """What a module's attributes say that it computes."""

    #: What makes one module of a class differ from another, but for the values of parameters and taps.
    numbers: Hashable
    #: Whether parameters are logarithms; None where only a trial can tell.
    logscale: bool | None
    #: Those that have a number for each channel.
    parameters: tuple[Tensor, ...]
    compute: Callable[[Tensor, bool], Tensor]


def read_snake(module: nn.Module) -> Snake:
    """Read the parameters of a snake activation."""
    parameters = vars(module).get("_parameters", {})
    alpha, beta = parameters.get("alpha"), parameters.get("beta")
    others = set(parameters) - {"alpha", "beta"}
    if alpha is None or others or not _by_channel(alpha) or (beta is not None and beta.shape != alpha.shape):
        raise UnknownFormError("its parameters are not alpha, or alpha and beta, with one number for each channel")
    flag = getattr(module, "alpha_logscale", getattr(module, "logscale", None))
    logscale = bool(flag) if flag is not None else None
    return Snake(alpha.reshape(-1), None if beta is None else beta.reshape(-1), logscale)


def read_upsampling(module: nn.Module) -> Filter:
    """Read an upsampling filter: edges repeated ``pad`` times, a transposed convolution, both ends cropped."""
    taps, ratio = _taps(module), _integer(module, "ratio")
    pad, left, right = (_integer(module, name) for name in ("pad", "pad_left", "pad_right"))
    size, offset = taps.numel(), left - ratio * pad
    reaches = size - 1 - offset < ratio * (pad + 1) and offset - 1 < ratio * pad
    if getattr(module, "stride", ratio) != ratio or size + (2 * pad - 1) * ratio != left + right or not reaches:
        raise UnknownFormError("its padding does not repeat the edges as far as the filter reaches")
    return Filter(taps, ratio, offset)


def read_downsampling(module: nn.Module) -> Filter:
    """Read a low-pass filter that keeps every ratio-th sample; it may stand in a module of its own."""
    module = getattr(module, "lowpass", module)
    taps, ratio = _taps(module), _integer(module, "stride" if hasattr(module, "stride") else "ratio")
    left, right = _integer(module, "pad_left"), _integer(module, "pad_right")
    if not getattr(module, "padding", True) or left + right != taps.numel() - 1:
        raise UnknownFormError("its padding does not keep the length")
    return Filter(taps, ratio, left)


def plan_filtered_snake(serve: _Serve, module: Any) -> Plan:
    """Plan a module with ``act``, ``upsample`` and ``downsample``."""
    parts = (module.upsample, module.act, module.downsample)
    for part in (*parts, getattr(parts[2], "lowpass", None)):
        if part is not None and not _untouched(part):
            raise UnknownFormError("one of its modules has hooks, or a forward of its own")
    up, snake, down = read_upsampling(parts[0]), read_snake(parts[1]), read_downsampling(parts[2])
    if up.ratio != down.ratio:
        raise UnknownFormError(f"it upsamples by {up.ratio} and downsamples by {down.ratio}")

    def compute(x: Tensor, logscale: bool) -> Tensor:
        up_taps = aligned(up.taps, up.offset, lambda size: (size - up.ratio) // 2)
        down_taps = aligned(down.taps, down.offset, lambda size: size // 2 - (size % 2 == 0))
        return serve(x, snake.alpha, snake.beta, up_taps, down_taps, ratio=up.ratio, logscale=logscale)

    numbers = (*map(type, parts), *up.numbers, *down.numbers, *snake.numbers, getattr(module, "fused", None))
    return Plan(numbers, snake.logscale, snake.parameters, compute)


def plan_snake(serve: _Serve, module: Any) -> Plan:
    """Plan a snake on its own."""
    snake = read_snake(module)

    def compute(x: Tensor, logscale: bool) -> Tensor:
        return serve(x, snake.alpha, snake.beta, logscale=logscale)

    return Plan(snake.numbers, snake.logscale, snake.parameters, compute)


def plan_upsampling(serve: _Serve, module: Any) -> Plan:
    """Plan an upsampling on its own."""
    up = read_upsampling(module)

    def compute(x: Tensor, logscale: bool) -> Tensor:
        pad = (up.taps.numel() - 1 - up.offset, up.offset)
        return serve(x, up.taps, up=up.ratio, pad=pad, gain=float(up.ratio), border="edge")

    return Plan(up.numbers, False, (), compute)


def plan_downsampling(serve: _Serve, module: Any) -> Plan:
    """Plan a downsampling on its own; its filter is applied as it stands."""
    down = read_downsampling(module)

    def compute(x: Tensor, logscale: bool) -> Tensor:
        pad = (down.offset, down.taps.numel() - 1 - down.offset)
        return serve(x, down.taps, down=down.ratio, pad=pad, flip_kernel=True, border="edge")

    return Plan(down.numbers, False, (), compute)


def aligned(taps: Tensor, begins: int, natural: Callable[[int], int]) -> Tensor:
    """Add zeros to taps until the offset that a filter of their number has by nature is the one that is wanted."""
    size = taps.numel()
    for added in range(2 * size):
        for before in (0, added):
            if natural(size + added) == begins + before:
                return nn.functional.pad(taps, (before, added - before)) if added else taps
    raise UnknownFormError("its filter stands too far from the middle")


class Activations:
    """Makes the forwards, and remembers which classes have been tried."""

    def __init__(self, fallbacks: Fallbacks) -> None:
        """Begin with no class tried."""
        self._fallbacks = fallbacks
        self._verdicts: weakref.WeakKeyDictionary[type, dict[Hashable, bool | None]] = weakref.WeakKeyDictionary()
        self._trial = threading.local()

    def filtered(self, serve: _Function, what: str, original: _Function) -> _Function:
        """Serve a module with ``act``, ``upsample`` and ``downsample``."""
        return self._served(what, original, partial(plan_filtered_snake, serve))

    def snake(self, serve: _Function, what: str, original: _Function) -> _Function:
        """Serve a snake on its own."""
        return self._served(what, original, partial(plan_snake, serve))

    def upsample(self, serve: _Function, what: str, original: _Function) -> _Function:
        """Serve an upsampling on its own."""
        return self._served(what, original, partial(plan_upsampling, serve))

    def downsample(self, serve: _Function, what: str, original: _Function) -> _Function:
        """Serve a downsampling on its own."""
        return self._served(what, original, partial(plan_downsampling, serve))

    def _served(self, what: str, original: _Function, plan: Callable[[Any], Plan]) -> _Function:
        defaults = getattr(original, "__defaults__", None) or ()

        def forward(module: Any, x: Any, *others: Any) -> Any:
            # A trial wants the project's own code, and what is being compiled is fused by the compiler.
            if torch.compiler.is_compiling() or getattr(self._trial, "under_way", False):
                return original(module, x, *others)
            why = "" if served(x) else why_not("input", x)
            if not why and not all(map(_same, others, defaults)):
                why = f"it was called with other arguments than {defaults}"
            if not why and x.dim() != 3:
                why = f"input: got {x.dim()} dimensions, takes 3"
            if not why:
                try:
                    planned = plan(module)
                    if any(each.dtype != x.dtype or each.numel() != x.shape[1] for each in planned.parameters):
                        raise UnknownFormError(f"its parameters are not {x.dtype}, one for each channel")
                    verdicts = self._verdicts.setdefault(type(module), {})
                    if planned.numbers not in verdicts:
                        verdicts[planned.numbers] = self._try(module, original, plan, planned.logscale)
                    logscale = verdicts[planned.numbers]
                    if logscale is None:
                        raise UnknownFormError("its code computes something else than its attributes say")
                    return planned.compute(x, logscale)
                except UnknownFormError as reason:
                    why = str(reason)
            tell(self._fallbacks, what, why)
            return original(module, x, *others)

        return forward

    def _try(
        self, module: nn.Module, original: _Function, plan: Callable[[Any], Plan], known: bool | None
    ) -> bool | None:
        """Give the scale with which both compute the same; None where they do not."""
        try:
            sample, x = _sample(module)
            tolerance = _ROUNDING.get(x.dtype, 1e-3)
            with torch.no_grad(), self._originals():
                expected = original(sample, x)
            for logscale in (False, True) if known is None else (known,):
                with torch.no_grad():
                    result = plan(sample).compute(x, logscale)
                if result.shape == expected.shape and torch.allclose(
                    result, expected.to(x.dtype), tolerance, tolerance
                ):
                    return logscale
        except Exception as error:  # nobody's network stops for a trial, and the next call tries again
            raise UnknownFormError(f"trying it raised {error!r}") from error
        return None

    @contextmanager
    def _originals(self) -> Iterator[None]:
        """Have this thread run the projects' own code."""
        self._trial.under_way = True
        try:
            yield
        finally:
            self._trial.under_way = False


def _sample(module: nn.Module) -> tuple[nn.Module, Tensor]:
    """Give a copy of a module with parameters that tell formulas apart, and a signal for it."""
    sample = copy.copy(module)
    values = vars(sample)
    values["_modules"] = dict(module._modules)
    snake = module if "alpha" in module._parameters else module._modules.get("act")
    filtering = next((each for each in module.buffers()), None)
    dtype = torch.float32 if filtering is None else filtering.dtype
    channels = 2
    if snake is not None:
        alpha = snake._parameters["alpha"]
        assert alpha is not None
        channels, dtype = alpha.numel(), alpha.dtype if filtering is None else dtype
        owner = sample if snake is module else copy.copy(snake)
        parameters: dict[str, Tensor | None] = {}
        for name, low, high in (("alpha", 0.4, 0.9), ("beta", 1.3, 0.7)):
            if snake._parameters.get(name) is not None:
                numbers = torch.linspace(low, high, channels, dtype=torch.float64).to(alpha.dtype)
                parameters[name] = nn.Parameter(numbers.reshape(alpha.shape))
        vars(owner)["_parameters"] = parameters
        if owner is not sample:
            values["_modules"]["act"] = owner
    place = torch.arange(channels * _LENGTH, dtype=torch.float64).reshape(1, channels, _LENGTH)
    return sample, (1.7 * torch.sin(1 + place * 0.77)).to(dtype)


def _same(given: object, default: object) -> bool:
    """Tell whether an argument is its default; arrays are not compared number by number."""
    return given is default or (type(given) is type(default) in (bool, int, float, str) and given == default)


def _untouched(module: Any) -> bool:
    """Tell whether a call of a module is a call of its class's forward and nothing else."""
    hooks = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    values = vars(module) if isinstance(module, nn.Module) else {"forward": None}
    return "forward" not in values and not any(values.get(name) for name in hooks)


def _by_channel(parameter: Tensor) -> bool:
    """Tell whether a parameter is (C,) or (1, C, 1)."""
    shape = tuple(parameter.shape)
    return len(shape) == 1 or (len(shape) == 3 and shape[0] == shape[2] == 1)


def _taps(module: Any) -> Tensor:
    taps: Any = getattr(module, "filter", None)
    if (
        not served(taps)
        or taps.numel() != taps.shape[-1]
        or getattr(module, "padding_mode", "replicate") != "replicate"
    ):
        raise UnknownFormError("it has no filter of (1, 1, K) whose padding repeats the edges")
    return cast("Tensor", taps.reshape(-1))


def _integer(module: Any, name: str) -> int:
    value = getattr(module, name, None)
    if type(value) is not int:
        raise UnknownFormError(f"it has no integer {name}")
    return value
