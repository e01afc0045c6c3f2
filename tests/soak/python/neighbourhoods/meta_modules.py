"""Modules made on meta, emptied and loaded: the same bits as the module that the checkpoint is of."""

from __future__ import annotations

import copy
from random import Random

import firelu.torch as ft
import torch

ACTS = ["linear", "relu", "lrelu", "tanh", "sigmoid", "elu", "selu", "softplus", "swish"]


def _taps(choices: Random) -> list[float]:
    return [choices.uniform(0.1, 3) for _ in range(choices.randint(2, 6))]


def _signals(choices: Random):
    """Give how to make a module for signals of four channels."""
    ratio, logscale, start = choices.randint(1, 4), choices.random() < 0.5, choices.uniform(0.5, 2)
    size = choices.choice([6, 7, 12])
    return choices.choice(
        [
            lambda: ft.Snake(4, start, alpha_logscale=logscale),
            lambda: ft.SnakeBeta(4, start, alpha_logscale=logscale),
            lambda: ft.Snake1d(4),
            lambda: ft.LowPassFilter1d(0.3, 0.4, ratio, kernel_size=size),
            lambda: ft.UpSample1d(ratio, 12),
            lambda: ft.DownSample1d(ratio, size),
            lambda: ft.Activation1d(ft.SnakeBeta(4, start, alpha_logscale=logscale), ratio, ratio),
            lambda: ft.Activation1d(torch.nn.GELU()),
        ]
    )


def _pictures(choices: Random):
    """Give how to make a module for pictures of four channels."""
    taps, factor = _taps(choices), choices.randint(1, 3)
    slope, scale, act = choices.uniform(0, 1), choices.uniform(0.5, 2), choices.choice(ACTS)
    return choices.choice(
        [
            lambda: ft.FusedLeakyReLU(4, slope, scale),
            lambda: ft.BiasAct(4, act, gain=scale),
            lambda: ft.UpFirDnUpsample(taps, factor),
            lambda: ft.UpFirDnDownsample(taps, factor),
            lambda: ft.UpFirDnSmooth(taps),
            lambda: ft.FilteredLeakyReLU(4, factor, factor, taps, taps, 6, gain=scale, slope=slope),
            lambda: torch.nn.Sequential(ft.FusedLeakyReLU(4), ft.UpFirDnUpsample(taps), ft.UpFirDnSmooth(taps)),
            lambda: torch.nn.Sequential(torch.nn.Conv2d(4, 4, 3), ft.UpFirDnDownsample(taps), ft.FusedLeakyReLU(4)),
        ]
    )


def case(choices: Random) -> None:
    """Take a module by way of meta, as large models are loaded."""
    is_signal = choices.random() < 0.4
    make = (_signals if is_signal else _pictures)(choices)
    torch.manual_seed(choices.getrandbits(60))
    module = make()
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter)
    sizes = [choices.randint(16, 40)] if is_signal else [choices.randint(8, 12), choices.randint(8, 12)]
    x = torch.randn(1, 4, *sizes)
    with torch.no_grad():
        expected, state = module(x), copy.deepcopy(module.state_dict())
    if choices.random() < 0.7:
        with torch.device("meta"):
            loaded = make()
    else:
        loaded = make().to("meta")
    # What lies in fresh memory must not matter: fill some of it with rubbish first.
    rubbish = [torch.full((size,), float("nan")) for size in (4, 9, 16, 25, 36)]
    del rubbish
    way = choices.choice(["copy", "assign", "reset"])
    if way == "assign":
        loaded.load_state_dict(state, assign=True)
    else:
        loaded = loaded.to_empty(device="cpu")
        if way == "reset":
            for part in loaded.modules():
                if hasattr(part, "reset_parameters"):
                    part.reset_parameters()
        loaded.load_state_dict(state)
    with torch.no_grad():
        found = loaded(x)
    assert torch.equal(found, expected), f"{module} by way of meta and {way} differs"
