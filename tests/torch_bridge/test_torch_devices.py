"""Tensors of different devices are refused before there is any output, in every order."""

from __future__ import annotations

import itertools

import firelu
import firelu.torch as ft
import pytest
import torch
from firelu.torch.bridge import bridged
from torch._subclasses import FakeTensorMode
from torch_samples import SAMPLES, Sample, names


def moved(arguments, chosen, device):
    """The call with the chosen ones of its tensors on another device."""
    count = itertools.count()

    def move(value):
        if isinstance(value, torch.Tensor):
            return value.to(device) if next(count) in chosen else value
        return [move(item) for item in value] if isinstance(value, list) and value else value

    return [move(value) for value in arguments]


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("sample", SAMPLES, ids=names)
def test_a_meta_tensor_beside_others_is_refused(sample: Sample, requires_grad: bool):
    arguments = sample.arguments(torch.float32, requires_grad=requires_grad)
    tensors = bridged(sample.operator).signature.tensors(arguments)
    count = sum(tensor is not None for tensor in tensors)
    every = range(count)
    for size in range(1, count):
        for chosen in itertools.combinations(every, size):
            with pytest.raises(firelu.DeviceError, match=rf"{sample.operator}: \w+: got a tensor on \w+, takes one on"):
                sample.overload(*moved(arguments, chosen, "meta"))
    result = sample.overload(*moved(arguments, every, "meta"))
    for output in result if isinstance(result, tuple) else (result,):
        assert output.is_meta


def test_functions_refuse_what_was_left_on_meta():
    x, meta = torch.ones(1, 2, 2, 2), {"device": "meta"}
    for call in (
        lambda: ft.upfirdn2d(x, torch.ones(1, 1, **meta)),
        lambda: ft.upfirdn2d(x.to("meta"), torch.ones(1, 1)),
        lambda: ft.fused_leaky_relu(x, torch.zeros(2, **meta)),
        lambda: ft.fused_leaky_relu(x.to("meta"), torch.zeros(2)),
        lambda: torch.ops.firelu.sum([x, x, x.to("meta")]),
        lambda: torch.ops.firelu.sum([x.to("meta"), x, x]),
        lambda: torch.ops.firelu.add(x, x.to("meta")),
        lambda: ft.FusedLeakyReLU(2).to("meta")(x),
        lambda: ft.UpFirDnUpsample([1, 3, 3, 1])(x.to("meta")),
    ):
        with pytest.raises(firelu.DeviceError, match="meta"):
            call()


def test_fake_tensors_of_different_devices_are_refused():
    with FakeTensorMode():
        x, other = torch.ones(2, 3), torch.ones(2, 3, device="meta")
        assert ft.leaky_relu(x).device.type == "cpu"
        for pair in ([x, other], [other, x]):
            with pytest.raises(firelu.DeviceError, match="Sum: X: got a tensor on"):
                torch.ops.firelu.sum(pair)


def test_a_fake_kernel_gives_no_real_memory():
    x = torch.ones(2, 3)
    for name in ("LeakyRelu", "FusedLeakyRelu"):
        with pytest.raises(firelu.DeviceError, match=f"{name}: fake kernel: got a tensor on cpu"):
            bridged(name).fake(x)
