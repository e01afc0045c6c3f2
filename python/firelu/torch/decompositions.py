"""The operators in terms of torch's own, for exporters that know nothing of firelu.

`torch.onnx.export(dynamo=True)` takes them apart with these, so that a model leaves torch as standard ONNX. Eager
calls, `torch.compile` and `torch.export` keep firelu's kernels.
"""

from __future__ import annotations

from . import private
from .bridge import bridged
from .operators import RULES
from .operators.arithmetic import add, mul, sub
from .operators.fused_leaky_relu import fused_leaky_relu
from .operators.leaky_relu import leaky_relu
from .operators.upfirdn2d import upfirdn2d

__all__ = ["add", "fused_leaky_relu", "leaky_relu", "mul", "sub", "upfirdn2d"]


def _register() -> None:
    for name, rules in RULES.items():
        if isinstance(rules.decompose, str):
            continue
        operator = bridged(name)
        private.register_decomposition(operator.overload)(rules.decompose)
        # With symbolic sizes torch takes shapes and strides from a decomposition, unless a meta function stands beside
        # it: the decomposition's strides are those of torch's kernels, not of ours.
        private.register_decomposition(operator.overload, type="meta")(operator.fake)


# Without torch's table an exporter says which operator it does not know.
if private.register_decomposition is not None:
    _register()
