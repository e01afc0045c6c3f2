"""Tensors of the CPU beside tensors of the emulated CUDA device: refused; all on the device: computed there."""

from __future__ import annotations

import ctypes
from pathlib import Path
from random import Random

import firelu
import numpy as np

from .refusals import refused_for_its_device

# Opened before the first use and by its path, it is the library that firelu finds under its name.
LIBRARY = Path(__file__).parents[4] / "target" / "emulator" / "libcuda.so"
ctypes.CDLL(str(LIBRARY), mode=ctypes.RTLD_GLOBAL)


def case(choices: Random) -> bool:
    """Put some operands of a call on the emulated device."""
    shape = (2, 3, choices.randint(1, 5), choices.randint(1, 5))
    rng = np.random.default_rng(choices.getrandbits(60))
    x, bias, kernel = (rng.standard_normal(s).astype(np.float32) for s in (shape, (3,), (2, 2)))
    operator, operands, named = choices.choice(
        [
            ("Add", [x, x], {}),
            ("Sum", [x, x, x], {}),
            ("LeakyReluGradient", [x, x], {"alpha": 0.2}),
            ("FusedLeakyRelu", [x, bias], {}),
            ("UpFirDn2d", [x, kernel], {"pad_x0": 1, "pad_y0": 1}),
        ]
    )
    there = [choices.random() < 0.5 for _ in operands]
    moved = [firelu.Tensor(a, device="cuda:0" if far else "cpu") for a, far in zip(operands, there, strict=True)]
    if any(there) and not all(there):
        refused_for_its_device(operator, lambda: firelu.run_operator(operator, *moved, **named))
        return True
    found = firelu.run_operator(operator, *moved, **named)
    np.testing.assert_allclose(
        found.to("cpu").numpy(), firelu.run_operator(operator, *operands, **named), rtol=1e-5, atol=1e-5
    )
    return False
