"""The operators behind StyleGAN-type and diffusion models, on numpy arrays, with gradients to any order.

>>> import numpy, firelu
>>> firelu.leaky_relu(numpy.array([-1.0, 2.0]), 0.2)
array([-0.2,  2. ])
>>> firelu.run_operator("LeakyRelu", numpy.array([-1.0, 2.0]), alpha=0.2)
array([-0.2,  2. ])
"""

from . import nn
from ._firelu import (
    Argument,
    Input,
    OpCost,
    OperatorDef,
    OpSchema,
    Output,
    Tensor,
    Workspace,
    __version__,
    cpu_levels,
    create_operator,
    cuda_status,
    empty_cache,
    from_dlpack,
    get_cpu_level,
    get_gradient_defs,
    get_num_threads,
    memory_stats,
    operators,
    run_operator,
    schema,
    set_cache_limit,
    set_cpu_level,
    set_num_threads,
)
from .autograd import (
    Net,
    add_gradient_operators,
    grad,
    gradient_override,
    no_grad,
    register_gradient,
    register_operator,
)
from .cuda import cuda_selftest, devices
from .errors import (
    ArgumentError,
    DeviceError,
    DTypeError,
    FireluError,
    NoGradientError,
    ShapeError,
    UnknownOperatorError,
)
from .functional import (
    fused_leaky_relu,
    fused_leaky_relu_gradient,
    leaky_relu,
    leaky_relu_gradient,
    upfirdn2d,
    upfirdn2d_gradient,
    upfirdn2d_kernel_gradient,
)
from .kernels import downsample2d, filter2d, make_kernel, upsample2d
from .selftest import cuda_selftest

__all__ = [
    "Argument",
    "ArgumentError",
    "DTypeError",
    "DeviceError",
    "FireluError",
    "Input",
    "Net",
    "NoGradientError",
    "OpCost",
    "OpSchema",
    "OperatorDef",
    "Output",
    "ShapeError",
    "Tensor",
    "UnknownOperatorError",
    "Workspace",
    "__version__",
    "add_gradient_operators",
    "cpu_levels",
    "create_operator",
    "cuda_selftest",
    "cuda_status",
    "devices",
    "downsample2d",
    "empty_cache",
    "filter2d",
    "from_dlpack",
    "fused_leaky_relu",
    "fused_leaky_relu_gradient",
    "get_cpu_level",
    "get_gradient_defs",
    "get_num_threads",
    "grad",
    "gradient_override",
    "leaky_relu",
    "leaky_relu_gradient",
    "make_kernel",
    "memory_stats",
    "nn",
    "no_grad",
    "operators",
    "register_gradient",
    "register_operator",
    "run_operator",
    "schema",
    "set_cache_limit",
    "set_cpu_level",
    "set_num_threads",
    "upfirdn2d",
    "upfirdn2d_gradient",
    "upfirdn2d_kernel_gradient",
    "upsample2d",
]
