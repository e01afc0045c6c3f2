"""The operators through torch: against eager torch, torch.compile and convolutions, in the same run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from . import peers
from .measure import Case, Run, once

Build = Callable[[bool], Case]
TAPS = np.array([1, 3, 3, 1], np.float32) / np.float32(8)
LARGE = (1, 64, 512, 512)


def _random(*shape: int) -> Any:
    return np.random.default_rng(0).standard_normal(shape, np.float32)


def _fused(with_peers: bool) -> Case:
    import torch

    from .. import torch as ours

    x, bias = _random(1, 64, 1024, 1024), _random(64)
    tensor, torch_bias = torch.from_numpy(x), torch.from_numpy(bias)
    call: Run = lambda: ours.fused_leaky_relu(tensor, torch_bias)  # noqa: E731
    compared = peers.fused_peers(x, bias) if with_peers else {}
    compared.pop("numpy", None)
    return Case("torch: fused forward", 2 * x.nbytes, call, call, compared)


def _fused_with_backward(with_peers: bool) -> Case:
    import torch

    from .. import torch as ours

    x = torch.from_numpy(_random(1, 64, 1024, 1024)).requires_grad_()
    bias = torch.from_numpy(_random(64)).requires_grad_()
    gradient = torch.from_numpy(_random(1, 64, 1024, 1024))

    def formula(x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.leaky_relu(x + bias.view(1, -1, 1, 1), 0.2) * 2**0.5

    def both(forward: Callable[..., torch.Tensor]) -> Run:
        return lambda: torch.autograd.grad(forward(x, bias), (x, bias), gradient)

    call = both(ours.fused_leaky_relu)
    compared: dict[str, Run] = {}
    if with_peers:
        compared |= peers.both_ways("torch eager", both(formula))
        compared |= peers.both_ways("torch.compile", both(torch.compile(formula)))
    # Forward reads x and writes y; backward reads y and the gradient and writes one more.
    return Case("torch: fused forward + backward", 5 * x.numel() * 4, call, call, compared)


def _filter(name: str, shape: tuple[int, ...], pad: tuple[int, int], up: int = 1, down: int = 1) -> tuple[str, Build]:
    def build(with_peers: bool) -> Case:
        import torch

        from .. import torch as ours

        x = _random(*shape)
        tensor, kernel = torch.from_numpy(x), torch.from_numpy(np.outer(TAPS, TAPS))
        call: Run = lambda: ours.upfirdn2d(tensor, kernel, up, down, pad)  # noqa: E731
        compared: dict[str, Run] = {}
        if with_peers:
            arguments = (up, up, down, down, *pad, *pad)
            compared["upfirdn2d_native"] = lambda: ours.upfirdn2d_native(tensor, kernel, *arguments)
            compared |= peers.torch_filter_peers(x, TAPS, up, down, pad)
        result = ours.upfirdn2d(tensor, kernel, up, down, pad)
        return Case(name, x.nbytes + result.numel() * 4, call, call, compared)

    return name, build


def cases() -> Iterator[tuple[str, Build]]:
    """Give every case with its name, if torch is installed."""
    if peers.installed("torch") is None:
        return
    yield "torch: fused forward", _fused
    yield "torch: fused forward + backward", _fused_with_backward
    yield _filter("torch: blur 4x4", LARGE, (2, 1))
    yield _filter("torch: up 2", (1, 64, 256, 256), (2, 1), up=2)
    yield _filter("torch: down 2", LARGE, (1, 1), down=2)


def small_calls() -> dict[str, float]:
    """Time calls on a few elements through torch's dispatcher, without and with a gradient, in seconds."""
    if peers.installed("torch") is None:
        return {}
    import torch

    from .. import torch as ours

    picture, bias, kernel = torch.ones(1, 3, 8, 8), torch.zeros(3), torch.ones(4, 4) / 16
    calls: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
        "torch's own leaky_relu": lambda x: torch.nn.functional.leaky_relu(x, 0.2),
        "torch: leaky_relu": lambda x: ours.leaky_relu(x, 0.2),
        "torch: fused_leaky_relu": lambda x: ours.fused_leaky_relu(x, bias),
        "torch: upfirdn2d": lambda x: ours.upfirdn2d(x, kernel, pad=(2, 1)),
    }
    times: dict[str, float] = {}
    for name, call in calls.items():
        for label, x in (("", picture), (", recorded", picture.clone().requires_grad_())):
            run: Run = lambda call=call, x=x: call(x)  # type: ignore[misc]  # noqa: E731
            times[f"{name}{label}, 1x3x8x8"] = min(once(run, 200) for _ in range(200))
    return times
