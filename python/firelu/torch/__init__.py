"""firelu for torch: every operator of the registry under ``torch.ops.firelu``, functions and modules.

Needs torch 2.6 or later (``pip install "firelu[torch]"``).

>>> import torch, firelu.torch
>>> x = torch.tensor([[-1.0, 2.0]], requires_grad=True)
>>> firelu.torch.fused_leaky_relu(x, torch.zeros(2), 0.2, 1.0)
tensor([[-0.2000,  2.0000]], grad_fn=<FusedLeakyReluBackward>)
"""

from . import decompositions as _decompositions  # noqa: F401
from .bridge import register
from .functional import fused_leaky_relu, leaky_relu, upfirdn2d, upfirdn2d_native
from .functions import FusedLeakyReLUFunction, FusedLeakyReLUFunctionBackward, UpFirDn2d, UpFirDn2dBackward
from .modules import FusedLeakyReLU, UpFirDnDownsample, UpFirDnSmooth, UpFirDnUpsample

__all__ = [
    "FusedLeakyReLU",
    "FusedLeakyReLUFunction",
    "FusedLeakyReLUFunctionBackward",
    "UpFirDn2d",
    "UpFirDn2dBackward",
    "UpFirDnDownsample",
    "UpFirDnSmooth",
    "UpFirDnUpsample",
    "fused_leaky_relu",
    "leaky_relu",
    "register",
    "upfirdn2d",
    "upfirdn2d_native",
]
