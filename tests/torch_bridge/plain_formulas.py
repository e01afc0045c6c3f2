"""The operators in plain torch, step by step, for the look-alikes of projects and for what they are compared with."""

from __future__ import annotations

import torch
from torch.nn import functional

#: Name: formula of (input, alpha), default alpha, default gain.
ACTIVATIONS = {
    "linear": (lambda t, _: t, 0.0, 1.0),
    "relu": (lambda t, _: functional.relu(t), 0.0, 2**0.5),
    "lrelu": (lambda t, alpha: functional.leaky_relu(t, alpha), 0.2, 2**0.5),
    "tanh": (lambda t, _: torch.tanh(t), 0.0, 1.0),
    "sigmoid": (lambda t, _: torch.sigmoid(t), 0.0, 1.0),
    "elu": (lambda t, _: functional.elu(t), 0.0, 1.0),
    "selu": (lambda t, _: functional.selu(t), 0.0, 1.0),
    "softplus": (lambda t, _: functional.softplus(t), 0.0, 1.0),
    "swish": (lambda t, _: t * torch.sigmoid(t), 0.0, 2**0.5),
}


def bias_act(x, b=None, dim=1, act="linear", alpha=None, gain=None, clamp=None):
    formula, default_alpha, default_gain = ACTIVATIONS[act]
    if b is not None:
        x = x + b.reshape([-1 if axis == dim else 1 for axis in range(x.dim())])
    x = formula(x, default_alpha if alpha is None else alpha) * (default_gain if gain is None else gain)
    return x if clamp is None or clamp < 0 else x.clamp(-clamp, clamp)


def pairs(value):
    return (value, value) if isinstance(value, int) else tuple(value)


def paddings(value):
    values = pairs(value)
    return (values[0], values[0], values[1], values[1]) if len(values) == 2 else values


def kernel_of(f, like):
    if f is None:
        return torch.ones(1, 1, dtype=like.dtype)
    return (torch.outer(f, f) if f.dim() == 1 else f).to(like.dtype)


def upfirdn2d(x, f, up=1, down=1, padding=0, flip_filter=False, gain=1):
    """A pair of factors or paddings is (x, y)."""
    (up_x, up_y), (down_x, down_y) = pairs(up), pairs(down)
    batch, channels, height, width = x.shape
    x = x.reshape(batch, channels, height, 1, width, 1)
    x = functional.pad(x, (0, up_x - 1, 0, 0, 0, up_y - 1)).reshape(batch * channels, 1, height * up_y, width * up_x)
    x = functional.pad(x, paddings(padding))
    kernel = kernel_of(f, x) * gain
    x = functional.conv2d(x, (kernel if flip_filter else kernel.flip((0, 1)))[None, None])
    x = x[:, :, ::down_y, ::down_x]
    return x.reshape(batch, channels, *x.shape[2:])


def filtered_lrelu(
    x, fu=None, fd=None, b=None, up=1, down=1, padding=0, gain=2**0.5, slope=0.2, clamp=None, flip_filter=False
):
    x = bias_act(x, b)
    x = upfirdn2d(x, fu, up=up, padding=padding, flip_filter=flip_filter, gain=up**2)
    x = bias_act(x, act="lrelu", alpha=slope, gain=gain, clamp=clamp)
    return upfirdn2d(x, fd, down=down, flip_filter=flip_filter)


def snake(x, alpha, beta=None, logscale=False):
    """The channels are the axis 1."""
    beta = alpha if beta is None else beta
    alpha, beta = (each.reshape(1, -1, *[1] * (x.dim() - 2)) for each in (alpha, beta))
    if logscale:
        alpha, beta = alpha.exp(), beta.exp()
    return x + torch.sin(x * alpha) ** 2 / (beta + 1e-9)


def upsample1d(x, taps, ratio, offset=None):
    """u[n] = ratio * sum of x[i] h[n + offset - ratio * i], where x repeats its edges."""
    size, channels = taps.numel(), x.shape[1]
    offset = (size - ratio) // 2 if offset is None else offset
    reach = size // ratio + 1
    padded = functional.pad(x, (reach, reach), mode="replicate")
    weight = taps.to(x.dtype).reshape(1, 1, -1).expand(channels, 1, -1)
    u = ratio * functional.conv_transpose1d(padded, weight, stride=ratio, groups=channels)
    start = offset + reach * ratio
    return u[..., start : start + x.shape[-1] * ratio]


def downsample1d(x, taps, ratio):
    size, channels = taps.numel(), x.shape[1]
    padded = functional.pad(x, (size // 2 - (size % 2 == 0), size // 2), mode="replicate")
    weight = taps.to(x.dtype).reshape(1, 1, -1).expand(channels, 1, -1)
    return functional.conv1d(padded, weight, stride=ratio, groups=channels)


def kaiser_taps(ratio=2, size=12):
    """The low-pass filter that anti-aliased activations of this kind have."""
    cutoff, half_width = 0.5 / ratio, 0.6 / ratio
    attenuation = 2.285 * (size // 2 - 1) * torch.pi * 4 * half_width + 7.95
    if attenuation > 50:
        beta = 0.1102 * (attenuation - 8.7)
    else:
        beta = 0.5842 * (attenuation - 21) ** 0.4 + 0.07886 * (attenuation - 21) if attenuation >= 21 else 0.0
    window = torch.kaiser_window(size, periodic=False, beta=beta, dtype=torch.float64)
    place = torch.arange(size, dtype=torch.float64) - size // 2 + (0.5 if size % 2 == 0 else 0.0)
    taps = window * torch.sinc(2 * cutoff * place)
    return (taps / taps.sum()).float()


def hann_taps(ratio=2):
    """The other upsampling filter: a sinc under a Hann window, 14 * ratio + 1 taps."""
    place = 0.99 * (torch.arange(14 * ratio + 1, dtype=torch.float64) / ratio - 7)
    taps = 0.99 / ratio * torch.sinc(place) * torch.cos(torch.pi * place.clamp(-6, 6) / 12) ** 2
    return taps.float()


def filtered_snake(x, alpha, beta=None, up_kernel=None, down_kernel=None, *, ratio=2, logscale=False):
    up_kernel = kaiser_taps(ratio, 6 * ratio) if up_kernel is None else up_kernel
    down_kernel = kaiser_taps(ratio, 6 * ratio) if down_kernel is None else down_kernel
    return downsample1d(snake(upsample1d(x, up_kernel, ratio), alpha, beta, logscale), down_kernel, ratio)
