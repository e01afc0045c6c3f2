"""Packages that look like the StyleGAN3 family: names, parameters and the way to the plugins, on plain formulas."""

from __future__ import annotations

from pathlib import PurePosixPath

# The compiler is searched first, as on Windows, and is not there.
CUSTOM_OPS = """
    import importlib

    _cached_plugins = dict()
    builds = []

    def find_compiler():
        return None

    def get_plugin(SIGNATURE):
        if module_name in _cached_plugins:
            return _cached_plugins[module_name]
        builds.append(module_name)
        if find_compiler() is None:
            raise RuntimeError("Could not find MSVC/GCC/CLANG installation on this computer.")
        torch.utils.cpp_extension.load(name=module_name, sources=sources)
        return importlib.import_module(module_name)
"""
SIGNATURES = {
    "ada": "module_name, sources, **build_kwargs",
    "stylegan3": "module_name, sources, headers=None, source_dir=None, **build_kwargs",
}
# A decorator that does not say what it wraps.
MISC = """
    def profiled_function(fn):
        def decorator(*args, **kwargs):
            return fn(*args, **kwargs)
        decorator.__name__ = fn.__name__
        return decorator
"""
INIT = {
    # One remembers that a build failed, the other tries again on every call.
    "ada": """
        _plugin, _inited = None, False

        def _init():
            global _plugin, _inited
            if not _inited:
                _inited = True
                try:
                    _plugin = custom_ops.get_plugin("OPERATOR_plugin", sources=["OPERATOR.cpp", "OPERATOR.cu"])
                except Exception:
                    failures.append("OPERATOR")
            return _plugin is not None

        failures = []
    """,
    "stylegan3": """
        _plugin = None

        def _init():
            global _plugin
            if _plugin is None:
                _plugin = custom_ops.get_plugin(
                    module_name="OPERATOR_plugin", sources=["OPERATOR.cpp"], headers=["OPERATOR.h"], source_dir="."
                )
            return True
    """,
}
HEAD = """
    import plain_formulas
    import torch

    from .. import custom_ops
    from .. import misc

    calls = []
"""
BIAS_ACT = """
    class Spec:
        def __init__(self, def_alpha, def_gain):
            self.def_alpha, self.def_gain = def_alpha, def_gain

    activation_funcs = {
        name: Spec(alpha, gain) for name, (_, alpha, gain) in plain_formulas.ACTIVATIONS.items()
    }

    def bias_act(x, b=None, dim=1, act='linear', alpha=None, gain=None, clamp=None, impl='cuda'):
        assert isinstance(x, torch.Tensor)
        assert impl in ['ref', 'cuda']
        if impl == 'cuda' and x.device.type == 'cuda' and _init():
            return _plugin
        return _bias_act_ref(x=x, b=b, dim=dim, act=act, alpha=alpha, gain=gain, clamp=clamp)

    @misc.profiled_function
    def _bias_act_ref(x, b=None, dim=1, act='linear', alpha=None, gain=None, clamp=None):
        calls.append("bias_act")
        if act == "own":
            return x * 7
        return plain_formulas.bias_act(x, b, dim, act, alpha, gain, clamp)
"""
UPFIRDN2D = """
    def _parse_padding(padding):
        return plain_formulas.paddings(padding)

    def _get_filter_size(f):
        return (1, 1) if f is None else (f.shape[-1], f.shape[0])

    def upfirdn2d(x, f, up=1, down=1, padding=0, flip_filter=False, gain=1, impl='cuda'):
        assert impl in ['ref', 'cuda']
        if impl == 'cuda' and x.device.type == 'cuda' and _init():
            return _plugin
        return _upfirdn2d_ref(x, f, up=up, down=down, padding=padding, flip_filter=flip_filter, gain=gain)

    @misc.profiled_function
    def _upfirdn2d_ref(x, f, up=1, down=1, padding=0, flip_filter=False, gain=1):
        calls.append("upfirdn2d")
        return plain_formulas.upfirdn2d(x, f, up, down, padding, flip_filter, gain)

    def upsample2d(x, f, up=2, padding=0, flip_filter=False, gain=1, impl='cuda'):
        return upfirdn2d(x, f, up=up, padding=padding, flip_filter=flip_filter, gain=gain * up * up, impl=impl)
"""
FILTERED_LRELU = """
    import numpy as np

    def filtered_lrelu(x, fu=None, fd=None, b=None, up=1, down=1, padding=0, gain=np.sqrt(2), slope=0.2, clamp=None,
                       flip_filter=False, impl='cuda'):
        assert impl in ['ref', 'cuda']
        if impl == 'cuda' and x.device.type == 'cuda' and _init():
            return _plugin
        return _filtered_lrelu_ref(x, fu=fu, fd=fd, b=b, up=up, down=down, padding=padding, gain=gain, slope=slope,
                                   clamp=clamp, flip_filter=flip_filter)

    @misc.profiled_function
    def _filtered_lrelu_ref(x, fu=None, fd=None, b=None, up=1, down=1, padding=0, gain=np.sqrt(2), slope=0.2,
                            clamp=None, flip_filter=False):
        calls.append("filtered_lrelu")
        return plain_formulas.filtered_lrelu(x, fu, fd, b, up, down, padding, gain, slope, clamp, flip_filter)
"""
OPERATORS = {"bias_act": BIAS_ACT, "upfirdn2d": UPFIRDN2D, "filtered_lrelu": FILTERED_LRELU}


def package(root, layout="stylegan3"):
    """Give the files of a package whose operators are ``<root>.ops.<operator>``."""
    files = {
        f"{root}/__init__.py": "",
        f"{root}/custom_ops.py": CUSTOM_OPS.replace("SIGNATURE", SIGNATURES[layout]),
        f"{root}/misc.py": MISC,
        f"{root}/ops/__init__.py": "",
    }
    for parent in list(PurePosixPath(root).parents)[:-1]:
        files[f"{parent}/__init__.py"] = ""
    for operator, text in OPERATORS.items():
        init = INIT[layout].replace("OPERATOR", operator)
        files[f"{root}/ops/{operator}.py"] = [HEAD, init, text]
    return files
