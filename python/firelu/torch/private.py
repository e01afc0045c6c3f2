"""The names of torch that it does not promise to keep, in one place.

Each is None where this version of torch has it no longer. Whoever uses one has a way without: slower, or, where it
says so, with less. Nothing else in this package names what begins with an underscore.
"""

from __future__ import annotations

import importlib
from typing import Any

from torch.autograd import forward_ad as _forward_ad


def find(path: str) -> Any:
    """Give what a path such as ``torch._C:DispatchKey.CPU`` names; None where it is gone."""
    module, _, names = path.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for name in names.split("."):
            found = getattr(found, name)
    except (ImportError, AttributeError):
        return None
    return found


def are_there(*found: Any) -> bool:
    """Tell whether all of several names were found. Some of them have an odd idea of equality."""
    return all(one is not None for one in found)


# The dispatcher: which keys a call has, and the way below some of them.
dispatch_keys = find("torch._C:_dispatch_keys")
included_keys = find("torch._C:_dispatch_tls_local_include_set")
excluded_keys = find("torch._C:_dispatch_tls_local_exclude_set")
keys_after_autograd = find("torch._C:_after_autograd_keyset")
key_set = find("torch._C:DispatchKeySet")
key_of_cpu = find("torch._C:DispatchKey.CPU")
key_of_autograd_cpu = find("torch._C:DispatchKey.AutogradCPU")
key_of_cuda = find("torch._C:DispatchKey.CUDA")
key_of_autograd_cuda = find("torch._C:DispatchKey.AutogradCUDA")
key_of_transform = find("torch._C:DispatchKey.FuncTorchDynamicLayerBackMode")
below_autograd = find("torch._C:_AutoDispatchBelowAutograd")
excluding_keys = find("torch._C:_ExcludeDispatchKeyGuard")
redispatch = find("torch._ops:OpOverload.redispatch")

# What else may look at a call.
is_function_mode_enabled = find("torch._C:_is_torch_function_mode_enabled")
is_profiler_enabled = find("torch._C:_autograd._profiler_enabled")

# Recorded calls at one level of torch.func's transforms, and forward mode.
single_level_function = find("torch.autograd.function:_SingleLevelFunction")
enable_single_level_function = find("torch._functorch.utils:enable_single_level_autograd_function")
set_forward_mode_enabled = find("torch.autograd.forward_ad:_set_fwd_grad_enabled")
has_dual_level = find("torch.autograd.forward_ad:_current_level") is not None


def in_forward_mode() -> bool:
    """Tell whether tensors may have tangents; without that name they always may."""
    return not has_dual_level or _forward_ad._current_level >= 0


# Taking operators back, before a second import of this package declares them again.
destroy_library = find("torch.library:Library._destroy")

# Conditions on sizes that may be symbols, and what exporters look up.
check_size = find("torch:_check")
register_decomposition = find("torch._decomp:register_decomposition")
