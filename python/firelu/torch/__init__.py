"""firelu for torch: every operator of the registry under ``torch.ops.firelu``, functions and modules.

Needs torch 2.6 or later (``pip install "firelu[torch]"``).

>>> import torch, firelu.torch
>>> x = torch.tensor([[-1.0, 2.0]], requires_grad=True)
>>> firelu.torch.fused_leaky_relu(x, torch.zeros(2), 0.2, 1.0)
tensor([[-0.2000,  2.0000]], grad_fn=<FusedLeakyReluBackward>)
"""

try:
    import torch as _torch  # noqa: F401 - only to say what is missing
except ModuleNotFoundError as _missing:
    raise ImportError('firelu.torch needs torch 2.6 or later: pip install "firelu[torch]"') from _missing

from . import decompositions
from .alias_free import (
    Activation1d,
    DownSample1d,
    FilteredLeakyReLU,
    LowPassFilter1d,
    Snake,
    Snake1d,
    SnakeBeta,
    UpSample1d,
)
from .bridge import register
from .filtered import filtered_lrelu, filtered_snake
from .functional import bias_act, fused_leaky_relu, leaky_relu, snake, upfirdn1d, upfirdn2d, upfirdn2d_native
from .functions import FusedLeakyReLUFunction, FusedLeakyReLUFunctionBackward, UpFirDn2d, UpFirDn2dBackward
from .modules import BiasAct, FusedLeakyReLU, UpFirDnDownsample, UpFirDnSmooth, UpFirDnUpsample
from .resampling import resample
from .sharding import register_with_dtensor as _register_with_dtensor

_register_with_dtensor()

__all__ = [
    "Activation1d",
    "BiasAct",
    "DownSample1d",
    "FilteredLeakyReLU",
    "FusedLeakyReLU",
    "FusedLeakyReLUFunction",
    "FusedLeakyReLUFunctionBackward",
    "LowPassFilter1d",
    "Snake",
    "Snake1d",
    "SnakeBeta",
    "UpFirDn2d",
    "UpFirDn2dBackward",
    "UpFirDnDownsample",
    "UpFirDnSmooth",
    "UpFirDnUpsample",
    "UpSample1d",
    "bias_act",
    "decompositions",
    "filtered_lrelu",
    "filtered_snake",
    "fused_leaky_relu",
    "leaky_relu",
    "register",
    "resample",
    "snake",
    "upfirdn1d",
    "upfirdn2d",
    "upfirdn2d_native",
]
