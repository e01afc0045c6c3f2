"""Packages that look like neural vocoders: classes, attributes and the way to the extension, in plain torch."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

RESAMPLE = """
    import plain_formulas
    import torch
    from torch import nn
    from torch.nn import functional as F

    calls = []

    class LowPassFilter1d(nn.Module):
        def __init__(self, stride=1, padding=True, padding_mode="replicate", kernel_size=12, ratio=2):
            super().__init__()
            self.kernel_size = kernel_size
            self.pad_left = kernel_size // 2 - int(kernel_size % 2 == 0)
            self.pad_right = kernel_size // 2
            self.stride, self.padding, self.padding_mode = stride, padding, padding_mode
            self.register_buffer("filter", plain_formulas.kaiser_taps(ratio, kernel_size).view(1, 1, -1))

        def forward(self, x):
            calls.append("LowPassFilter1d")
            if self.padding:
                x = F.pad(x, (self.pad_left, self.pad_right), mode=self.padding_mode)
            weight = self.filter.expand(x.shape[1], -1, -1)
            return F.conv1d(x, weight, stride=self.stride, groups=x.shape[1])

    class UpSample1d(nn.Module):
        def __init__(self, ratio=2, kernel_size=None):
            super().__init__()
            self.ratio = ratio
            self.kernel_size = int(6 * ratio // 2) * 2 if kernel_size is None else kernel_size
            self.stride = ratio
            self.pad = self.kernel_size // ratio - 1
            self.pad_left = self.pad * self.stride + (self.kernel_size - self.stride) // 2
            self.pad_right = self.pad * self.stride + (self.kernel_size - self.stride + 1) // 2
            self.register_buffer("filter", plain_formulas.kaiser_taps(ratio, self.kernel_size).view(1, 1, -1))

        def forward(self, x):
            calls.append("UpSample1d")
            x = F.pad(x, (self.pad, self.pad), mode="replicate")
            weight = self.filter.expand(x.shape[1], -1, -1)
            x = self.ratio * F.conv_transpose1d(x, weight, stride=self.stride, groups=x.shape[1])
            return x[..., self.pad_left : -self.pad_right]

    class DownSample1d(nn.Module):
        def __init__(self, ratio=2, kernel_size=None):
            super().__init__()
            self.ratio = ratio
            size = int(6 * ratio // 2) * 2 if kernel_size is None else kernel_size
            self.lowpass = LowPassFilter1d(stride=ratio, kernel_size=size, ratio=ratio)

        def forward(self, x):
            return self.lowpass(x)
"""
ACTIVATIONS = """
    import torch
    from torch import nn

    calls = []

    class Snake(nn.Module):
        def __init__(self, in_features, alpha=1.0, alpha_trainable=True, alpha_logscale=False):
            super().__init__()
            self.alpha_logscale = alpha_logscale
            start = torch.zeros(in_features) if alpha_logscale else torch.ones(in_features)
            self.alpha = nn.Parameter(start * alpha)
            self.no_div_by_zero = 1e-9

        def forward(self, x):
            calls.append("Snake")
            alpha = self.alpha[None, :, None]
            if self.alpha_logscale:
                alpha = torch.exp(alpha)
            return x + torch.sin(x * alpha) ** 2 / (alpha + self.no_div_by_zero)

    class SnakeBeta(nn.Module):
        def __init__(self, in_features, alpha=1.0, alpha_trainable=True, alpha_logscale=False):
            super().__init__()
            self.alpha_logscale = alpha_logscale
            start = torch.zeros(in_features) if alpha_logscale else torch.ones(in_features)
            self.alpha, self.beta = nn.Parameter(start * alpha), nn.Parameter(start * alpha)
            self.no_div_by_zero = 1e-9

        def forward(self, x):
            calls.append("SnakeBeta")
            alpha, beta = self.alpha[None, :, None], self.beta[None, :, None]
            if self.alpha_logscale:
                alpha, beta = torch.exp(alpha), torch.exp(beta)
            return x + torch.sin(x * alpha) ** 2 / (beta + self.no_div_by_zero)
"""
ACT = """
    from torch import nn
    from .resample import DownSample1d, UpSample1d

    class Activation1d(nn.Module):
        def __init__(self, activation, up_ratio=2, down_ratio=2, up_kernel_size=12, down_kernel_size=12):
            super().__init__()
            self.up_ratio, self.down_ratio = up_ratio, down_ratio
            self.act = activation
            self.upsample = UpSample1d(up_ratio, up_kernel_size)
            self.downsample = DownSample1d(down_ratio, down_kernel_size)

        def forward(self, x):
            x = self.upsample(x)
            x = self.act(x)
            return self.downsample(x)
"""
# It asks nvcc for its version before it builds anything.
LOAD = """
    import pathlib
    import subprocess

    from torch.utils import cpp_extension

    def load():
        subprocess.check_output(["/nowhere/bin/nvcc", "-V"])
        source = pathlib.Path(__file__).parent.absolute()
        return cpp_extension.load(
            name="EXTENSION",
            sources=[source / "anti_alias_activation.cpp", source / "anti_alias_activation_cuda.cu"],
        )
"""
FUSED = """
    import torch
    from torch import nn
    from ..torch.resample import DownSample1d, UpSample1d
    from . import load

    anti_alias_activation_cuda = load.load()

    class FusedAntiAliasActivation(torch.autograd.Function):
        @staticmethod
        def forward(ctx, *tensors):
            return anti_alias_activation_cuda.forward(*tensors)

        @staticmethod
        def backward(ctx, dy):
            raise NotImplementedError

    class Activation1d(nn.Module):
        def __init__(self, activation, up_ratio=2, down_ratio=2, up_kernel_size=12, down_kernel_size=12, fused=True):
            super().__init__()
            self.act, self.fused = activation, fused
            self.upsample = UpSample1d(up_ratio, up_kernel_size)
            self.downsample = DownSample1d(down_ratio, down_kernel_size)

        def forward(self, x):
            if not self.fused:
                return self.downsample(self.act(self.upsample(x)))
            beta = getattr(self.act, "beta", self.act.alpha).data
            alpha = self.act.alpha.data
            if not self.act.alpha_logscale:
                alpha, beta = torch.log(alpha), torch.log(beta)
            return FusedAntiAliasActivation.apply(x, FILTERS, alpha, beta)
"""
FILTERS = {
    "two filters": "self.upsample.filter, self.downsample.lowpass.filter",
    "one filter": "self.upsample.filter",
}
# One file, parameters always logarithms, no flag that says so, filters in the modules themselves.
TRANSFORMERS = [
    RESAMPLE.partition("class LowPassFilter1d")[0],
    "class UpSample1d" + RESAMPLE.partition("class UpSample1d")[2].partition("    class DownSample1d")[0],
    """
    class DownSample1d(nn.Module):
        def __init__(self, ratio=2, kernel_size=None):
            super().__init__()
            self.even = kernel_size % 2 == 0
            self.pad_left = kernel_size // 2 - int(self.even)
            self.pad_right = kernel_size // 2
            self.stride = ratio
            self.register_buffer("filter", plain_formulas.kaiser_taps(ratio, kernel_size).view(1, 1, -1))

        def forward(self, hidden_states):
            calls.append("DownSample1d")
            hidden_states = F.pad(hidden_states, (self.pad_left, self.pad_right), mode="replicate")
            weight = self.filter.expand(hidden_states.shape[1], -1, -1)
            return F.conv1d(hidden_states, weight, stride=self.stride, groups=hidden_states.shape[1])

    class SnakeBeta(nn.Module):
        def __init__(self, in_features, alpha=1.0):
            super().__init__()
            self.alpha = nn.Parameter(torch.zeros(in_features) * alpha)
            self.beta = nn.Parameter(torch.zeros(in_features) * alpha)
            self.no_div_by_zero = 0.000000001

        def forward(self, hidden_states):
            calls.append("SnakeBeta")
            alpha, beta = (torch.exp(each.unsqueeze(0).unsqueeze(-1)) for each in (self.alpha, self.beta))
            return hidden_states + (1.0 / (beta + self.no_div_by_zero)) * torch.pow(torch.sin(hidden_states * alpha), 2)

    class TorchActivation1d(nn.Module):
        def __init__(self, activation, up_ratio=2, down_ratio=2, up_kernel_size=12, down_kernel_size=12):
            super().__init__()
            self.act = activation
            self.upsample = UpSample1d(up_ratio, up_kernel_size)
            self.downsample = DownSample1d(down_ratio, down_kernel_size)

        def forward(self, hidden_states):
            hidden_states = self.upsample(hidden_states)
            hidden_states = self.act(hidden_states)
            return self.downsample(hidden_states)
    """,
]
# Later releases put the model's name before each class, and have no other names any more.
TRANSFORMERS_LATER = [
    re.sub(r"\b(?:Torch)?(UpSample1d|DownSample1d|SnakeBeta|Activation1d)(?=[(:])", r"OmniModel\1", text)
    for text in TRANSFORMERS
]
# Another name for the activation, the upsampling under a Hann window, parameters as (1, C, 1).
DIFFUSERS = [
    RESAMPLE.partition("class LowPassFilter1d")[0],
    """
    class DownSample1d(nn.Module):
        def __init__(self, ratio=2, kernel_size=12, padding_mode="replicate"):
            super().__init__()
            self.ratio, self.padding_mode = ratio, padding_mode
            self.pad_left, self.pad_right = kernel_size // 2 + (kernel_size % 2) - 1, kernel_size // 2
            self.register_buffer("filter", plain_formulas.kaiser_taps(ratio, kernel_size).view(1, 1, -1))

        def forward(self, x):
            calls.append("DownSample1d")
            x = F.pad(x, (self.pad_left, self.pad_right), mode=self.padding_mode)
            weight = self.filter.expand(x.shape[1], -1, -1)
            return F.conv1d(x, weight, stride=self.ratio, groups=x.shape[1])

    class UpSample1d(nn.Module):
        def __init__(self, ratio=2, padding_mode="replicate"):
            super().__init__()
            self.ratio, self.padding_mode = ratio, padding_mode
            taps = plain_formulas.hann_taps(ratio)
            self.pad, self.pad_left, self.pad_right = 7, 14 * ratio, taps.numel() - ratio
            self.register_buffer("filter", taps.view(1, 1, -1))

        def forward(self, x):
            calls.append("UpSample1d")
            x = F.pad(x, (self.pad, self.pad), mode=self.padding_mode)
            weight = self.filter.expand(x.shape[1], -1, -1)
            x = self.ratio * F.conv_transpose1d(x, weight, stride=self.ratio, groups=x.shape[1])
            return x[..., self.pad_left : -self.pad_right]

    class Snake1d(nn.Module):
        def __init__(self, hidden_dim, logscale=True):
            super().__init__()
            self.alpha = nn.Parameter(torch.zeros(1, hidden_dim, 1))
            self.beta = nn.Parameter(torch.zeros(1, hidden_dim, 1))
            self.logscale = logscale

        def forward(self, hidden_states):
            calls.append("Snake1d")
            shape = hidden_states.shape
            alpha, beta = (torch.exp(each) if self.logscale else each for each in (self.alpha, self.beta))
            hidden_states = hidden_states.reshape(shape[0], shape[1], -1)
            hidden_states = hidden_states + (beta + 1e-9).reciprocal() * torch.sin(alpha * hidden_states).pow(2)
            return hidden_states.reshape(shape)

    class SnakeBeta(nn.Module):
        def __init__(self, channels, eps=1e-9, logscale=True, use_beta=True):
            super().__init__()
            self.eps, self.logscale, self.use_beta = eps, logscale, use_beta
            self.alpha = nn.Parameter(torch.zeros(channels))
            if use_beta:
                self.beta = nn.Parameter(torch.zeros(channels))

        def forward(self, hidden_states, channel_dim=1):
            calls.append("SnakeBeta")
            shape = [1] * hidden_states.dim()
            shape[channel_dim] = -1
            alpha = self.alpha.view(shape)
            beta = self.beta.view(shape) if self.use_beta else alpha
            if self.logscale:
                alpha, beta = torch.exp(alpha), torch.exp(beta)
            return hidden_states + (1.0 / (beta + self.eps)) * torch.sin(hidden_states * alpha) ** 2

    class AntiAliasAct1d(nn.Module):
        def __init__(self, act_fn, ratio=2, kernel_size=12):
            super().__init__()
            self.upsample = UpSample1d(ratio)
            self.act = act_fn
            self.downsample = DownSample1d(ratio, kernel_size)

        def forward(self, x):
            return self.downsample(self.act(self.upsample(x)))
    """,
]


def package(root, form="two filters", extension="anti_alias_activation_cuda"):
    """Give the files of a vocoder: ``<root>.torch`` without, ``<root>.cuda`` with the extension."""
    files = {
        f"{root}/__init__.py": "",
        f"{root}/activations.py": ACTIVATIONS,
        f"{root}/torch/__init__.py": "",
        f"{root}/torch/resample.py": RESAMPLE,
        f"{root}/torch/act.py": ACT,
        f"{root}/cuda/__init__.py": "",
        f"{root}/cuda/load.py": LOAD.replace("EXTENSION", extension),
        f"{root}/cuda/activation1d.py": FUSED.replace("FILTERS", FILTERS[form]),
    }
    for parent in list(PurePosixPath(root).parents)[:-1]:
        files[f"{parent}/__init__.py"] = ""
    return files
