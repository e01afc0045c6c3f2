"""More than 2^31 elements: places, strides and counts beyond 32 bits."""

from __future__ import annotations

import firelu.torch as ft
import pytest
import torch

pytestmark = [pytest.mark.full, pytest.mark.timeout(1800)]
ELEMENTS = 2**31 + 2**20


def test_elementwise_beyond_32_bits():
    x = torch.full((ELEMENTS,), -1.0, dtype=torch.float16)
    x[-3:] = 2.0
    y = ft.leaky_relu(x, 0.5)
    del x
    assert y[-3:].tolist() == [2.0, 2.0, 2.0]
    assert y[:3].tolist() == y[-6:-3].tolist() == [-0.5, -0.5, -0.5]
    assert int((y == 2.0).sum()) == 3


def test_filter_beyond_32_bits():
    x = torch.zeros(ELEMENTS // 2**20, 1024, 1024, dtype=torch.float16)
    x[-1, -1, -1] = 1.0
    y = ft.upfirdn2d(x, torch.tensor([[1.0, 2.0], [3.0, 4.0]]), pad=(1, 0))
    del x
    assert y[-1, -1, -1] == 1.0
    assert int(torch.count_nonzero(y)) == 1
