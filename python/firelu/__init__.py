"""The operators behind StyleGAN-type and diffusion models, on numpy arrays, with gradients to any order.

>>> import numpy, firelu
>>> firelu.leaky_relu(numpy.array([-1.0, 2.0]), 0.2)
array([-0.2,  2. ])
>>> firelu.run_operator("LeakyRelu", numpy.array([-1.0, 2.0]), alpha=0.2)
array([-0.2,  2. ])
"""

from ._firelu import (
    Argument,
    Input,
    OpCost,
    OperatorDef,
    OpSchema,
    Output,
    Tensor,
    __version__,
    cpu_levels,
    create_operator,
    empty_cache,
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

__all__ = [
    "Argument",
    "ArgumentError",
    "DTypeError",
    "DeviceError",
    "FireluError",
    "Input",
    "NoGradientError",
    "OpCost",
    "OpSchema",
    "OperatorDef",
    "Output",
    "ShapeError",
    "Tensor",
    "UnknownOperatorError",
    "__version__",
    "cpu_levels",
    "create_operator",
    "downsample2d",
    "empty_cache",
    "filter2d",
    "fused_leaky_relu",
    "fused_leaky_relu_gradient",
    "get_cpu_level",
    "get_gradient_defs",
    "get_num_threads",
    "leaky_relu",
    "leaky_relu_gradient",
    "make_kernel",
    "memory_stats",
    "operators",
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
