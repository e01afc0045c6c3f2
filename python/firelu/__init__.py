"""Resampling and the operators of StyleGAN and neural vocoders, on numpy arrays, with gradients to any order.

>>> import numpy, firelu
>>> firelu.leaky_relu(numpy.array([-1.0, 2.0]), 0.2)
array([-0.2,  2. ])
>>> firelu.run_operator("LeakyRelu", numpy.array([-1.0, 2.0]), alpha=0.2)
array([-0.2,  2. ])
"""

from . import kernels, nn
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
    get_non_temporal_bytes,
    get_num_threads,
    memory_stats,
    operators,
    run_operator,
    schema,
    set_cache_limit,
    set_cpu_level,
    set_non_temporal_bytes,
    set_num_threads,
)
from .activations import bias_act, bias_act_gradient, snake, snake_gradient
from .autograd import (
    Net,
    add_gradient_operators,
    grad,
    gradient_override,
    no_grad,
    register_gradient,
    register_operator,
)
from .checking import gradcheck
from .cuda import cuda_selftest, devices
from .errors import (
    ArgumentError,
    DeviceError,
    DTypeError,
    FireluError,
    GradcheckError,
    NoGradientError,
    ShapeError,
    UnknownOperatorError,
)
from .filtered import filtered_act, filtered_snake
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
from .resampling import pyramid, resample, resize
from .signals import upfirdn1d

__all__ = [
    "Argument",
    "ArgumentError",
    "DTypeError",
    "DeviceError",
    "FireluError",
    "GradcheckError",
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
    "bias_act",
    "bias_act_gradient",
    "cpu_levels",
    "create_operator",
    "cuda_selftest",
    "cuda_status",
    "devices",
    "downsample2d",
    "empty_cache",
    "filter2d",
    "filtered_act",
    "filtered_snake",
    "from_dlpack",
    "fused_leaky_relu",
    "fused_leaky_relu_gradient",
    "get_cpu_level",
    "get_gradient_defs",
    "get_non_temporal_bytes",
    "get_num_threads",
    "grad",
    "gradcheck",
    "gradient_override",
    "kernels",
    "leaky_relu",
    "leaky_relu_gradient",
    "make_kernel",
    "memory_stats",
    "nn",
    "no_grad",
    "operators",
    "pyramid",
    "register_gradient",
    "register_operator",
    "resample",
    "resize",
    "run_operator",
    "schema",
    "set_cache_limit",
    "set_cpu_level",
    "set_non_temporal_bytes",
    "set_num_threads",
    "snake",
    "snake_gradient",
    "upfirdn1d",
    "upfirdn2d",
    "upfirdn2d_gradient",
    "upfirdn2d_kernel_gradient",
    "upsample2d",
]
