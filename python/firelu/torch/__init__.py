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
from .bridge import register
from .functional import fused_leaky_relu, leaky_relu, upfirdn2d, upfirdn2d_native
from .functions import FusedLeakyReLUFunction, FusedLeakyReLUFunctionBackward, UpFirDn2d, UpFirDn2dBackward
from .modules import FusedLeakyReLU, UpFirDnDownsample, UpFirDnSmooth, UpFirDnUpsample
from .sharding import register_with_dtensor as _register_with_dtensor

_register_with_dtensor()

__all__ = [
    "FusedLeakyReLU",
    "FusedLeakyReLUFunction",
    "FusedLeakyReLUFunctionBackward",
    "UpFirDn2d",
    "UpFirDn2dBackward",
    "UpFirDnDownsample",
    "UpFirDnSmooth",
    "UpFirDnUpsample",
    "decompositions",
    "fused_leaky_relu",
    "leaky_relu",
    "register",
    "upfirdn2d",
    "upfirdn2d_native",
]
