"""`bias_act`, `upfirdn2d` and `filtered_lrelu` of the StyleGAN3 family and of mmcv, for tensors on the CPU.

Other devices go on to the project's own code, where the plugins are firelu's. A call that the project would refuse goes
there too: its own message is the better one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ..fallbacks import Fallbacks
from .served import served, tell, why_not

_Function = Callable[..., Any]

#: Default alpha and gain of each activation, in the order of the plugin's numbers from 1 on.
DEFAULTS = {
    "linear": (0.0, 1.0),
    "relu": (0.0, 2**0.5),
    "lrelu": (0.2, 2**0.5),
    "tanh": (0.0, 1.0),
    "sigmoid": (0.0, 1.0),
    "elu": (0.0, 1.0),
    "selu": (0.0, 1.0),
    "softplus": (0.0, 1.0),
    "swish": (0.0, 2**0.5),
}


class Settings:
    """What the user chose."""

    #: Whether bias_act's linear passes no gradient where clamp has clipped; the published kernel lets it pass.
    mask_linear_clamp: bool = True


class _StraightClamp(torch.autograd.Function):
    """Clips values and lets every gradient pass, of any order and in forward mode."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, limit: float) -> Tensor:
        return x.clamp(-limit, limit)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return gradients[0], None

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        return tangents[0].view_as(tangents[0])


def bias_act(serve: _Function, settings: Settings, fallbacks: Fallbacks, what: str, original: Any) -> _Function:
    """Serve ``bias_act(x, b, dim, act, alpha, gain, clamp)``, with or without a last switch."""
    known = _known_activations(getattr(original, "__globals__", {}).get("activation_funcs"))

    def bias_act(x: Any, b: Any, dim: Any, act: Any, alpha: Any, gain: Any, clamp: Any, *switch: Any) -> Any:
        why = "" if served(x) else why_not("x", x)
        if not why and act not in known:
            why = f"act: got {act!r}, which is the project's own"
        if not why and b is not None and not (served(b) and b.dtype == x.dtype):
            why = why_not("b", b) if not served(b) else f"b: got {b.dtype} beside an x of {x.dtype}"
        if why or not (_legal(switch) and _numbers(alpha, gain, clamp) and _fits(b, x, dim)):
            tell(fallbacks, what, why)
            return original(x, b, dim, act, alpha, gain, clamp, *switch)
        limit = None if clamp is None or clamp < 0 else float(clamp)
        axis = 0 if b is None else dim
        if act == "linear" and limit is not None and not settings.mask_linear_clamp:
            return _StraightClamp.apply(serve(x, b, act, gain=gain, axis=axis), limit)
        return serve(x, b, act, alpha=alpha, gain=gain, clamp=limit, axis=axis)

    return bias_act


def _known_activations(theirs: Any) -> frozenset[str]:
    """Give the activations that firelu computes with the defaults that the project has for them."""

    def same(act: str) -> bool:
        spec = theirs.get(act) if isinstance(theirs, dict) else None
        alpha, gain = DEFAULTS[act]
        their_alpha, their_gain = getattr(spec, "def_alpha", alpha), getattr(spec, "def_gain", gain)
        # Only the leaky ReLU reads alpha; gains are written as roots of 2 in more than one way.
        return math.isclose(their_gain, gain, rel_tol=1e-6) and (act != "lrelu" or their_alpha == alpha)

    return frozenset(act for act in DEFAULTS if same(act))


def upfirdn2d(serve: _Function, settings: Settings, fallbacks: Fallbacks, what: str, original: _Function) -> _Function:
    """Serve ``upfirdn2d(x, f, up, down, padding, flip_filter, gain)``, where a pair is (x, y)."""

    def upfirdn2d(x: Any, f: Any, up: Any, down: Any, padding: Any, flip_filter: Any, gain: Any, *switch: Any) -> Any:
        why = "" if served(x) else why_not("x", x)
        if not why and f is not None and not served(f):
            why = why_not("f", f)
        pads = _paddings(padding)
        if why or pads is None or not (_legal(switch) and _numbers(gain) and x.dim() == 4 and _is_filter(f, gain)):
            tell(fallbacks, what, why)
            return original(x, f, up, down, padding, flip_filter, gain, *switch)
        kernel = x.new_ones((1, 1), dtype=torch.float32) if f is None else f
        return serve(x, kernel, up, down, pads, flip_kernel=bool(flip_filter), gain=float(gain))

    return upfirdn2d


def filtered_lrelu(
    serve: _Function, settings: Settings, fallbacks: Fallbacks, what: str, original: _Function
) -> _Function:
    """Serve ``filtered_lrelu(x, fu, fd, b, up, down, padding, gain, slope, clamp, flip_filter)``."""

    def filtered_lrelu(
        x: Any,
        fu: Any,
        fd: Any,
        b: Any,
        up: Any,
        down: Any,
        padding: Any,
        gain: Any,
        slope: Any,
        clamp: Any,
        flip_filter: Any,
        *switch: Any,
    ) -> Any:
        why = "" if served(x) else why_not("x", x)
        for name, tensor in (("fu", fu), ("fd", fd), ("b", b)):
            if not why and tensor is not None and not served(tensor):
                why = why_not(name, tensor)
        if not why and b is not None and b.dtype != x.dtype:
            why = f"b: got {b.dtype} beside an x of {x.dtype}"
        pads = _paddings(padding)
        legal = not why and pads is not None and _legal(switch) and _numbers(gain, slope, clamp) and x.dim() == 4
        if not (legal and _is_filter(fu, 1) and _is_filter(fd, 1) and _fits(b, x, 1) and type(up) is type(down) is int):
            tell(fallbacks, what, why)
            return original(x, fu, fd, b, up, down, padding, gain, slope, clamp, flip_filter, *switch)
        limit = None if clamp is None else float(clamp)
        return serve(x, fu, fd, b, up, down, pads, float(gain), float(slope), limit, bool(flip_filter))

    return filtered_lrelu


def _legal(switch: tuple[Any, ...]) -> bool:
    """Tell whether a project takes this choice; formula and kernel are the same to firelu."""
    return all(each in ("ref", "cuda") or isinstance(each, bool) for each in switch)


def _numbers(*values: Any) -> bool:
    return not any(isinstance(value, Tensor) for value in values)


def _fits(b: Any, x: Tensor, dim: Any) -> bool:
    """Tell whether a bias is one number for each index of an axis."""
    if b is None:
        return True
    return type(dim) is int and 0 <= dim < x.dim() and b.dim() == 1 and b.shape[0] == x.shape[dim]


def _is_filter(f: Any, gain: Any) -> bool:
    """Tell whether a filter has one or two axes; each of the first takes the root of the gain."""
    return f is None or f.dim() == 2 or (f.dim() == 1 and gain >= 0)


def _paddings(padding: Any) -> tuple[int, int, int, int] | None:
    """Give (x0, x1, y0, y1); None for what nobody takes."""
    if type(padding) is int:
        return padding, padding, padding, padding
    if not isinstance(padding, (list, tuple)):
        return None
    if len(padding) == 2:
        x, y = padding
        return x, x, y, y
    return tuple(padding) if len(padding) == 4 else None
