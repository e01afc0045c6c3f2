"""A small StyleGAN2-like pair trains with firelu and with plain torch formulas to the same losses."""

from __future__ import annotations

import firelu.torch as ft
import pytest
import torch
from torch import nn
from torch.nn import functional

TAPS = [1, 3, 3, 1]


class PlainActivation(nn.Module):
    def __init__(self, channel):
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(channel))

    def forward(self, x):
        return functional.leaky_relu(x + self.bias.view(1, -1, *[1] * (x.dim() - 2)), 0.2) * 2**0.5


class PlainResample(nn.Module):
    """The same kernels and padding by the formula of torch operations."""

    def __init__(self, like):
        super().__init__()
        self.like = [like]
        self.register_buffer("kernel", like.kernel.clone(), persistent=False)

    def forward(self, x):
        like = self.like[0]
        return ft.upfirdn2d_native(x, self.kernel, like.up, like.up, like.down, like.down, *like.pad)


def activation(channel, plain):
    return PlainActivation(channel) if plain else ft.FusedLeakyReLU(channel)


def resample(module, plain):
    return PlainResample(module) if plain else module


class ModulatedConvolution(nn.Module):
    """A convolution whose weights are scaled by a style and normalised, with optional upsampling."""

    def __init__(self, channels_in, channels_out, style, plain, up=False):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(channels_out, channels_in, 3, 3))
        self.to_style = nn.Linear(style, channels_in)
        self.smooth = resample(ft.UpFirDnSmooth(TAPS, upsample_factor=2, kernel_size=3), plain) if up else None
        self.activation = activation(channels_out, plain)

    def forward(self, x, style):
        batch, _, height, width = x.shape
        scales = 1 + self.to_style(style)
        weight = self.weight[None] * scales[:, None, :, None, None]
        weight = weight * torch.rsqrt(weight.square().sum((2, 3, 4), keepdim=True) + 1e-8)
        x = x.reshape(1, -1, height, width)
        if self.smooth is None:
            y = functional.conv2d(x, weight.flatten(0, 1), padding=1, groups=batch)
        else:
            y = functional.conv_transpose2d(x, weight.transpose(1, 2).flatten(0, 1), stride=2, groups=batch)
        y = y.view(batch, -1, *y.shape[2:])
        return self.activation(y if self.smooth is None else self.smooth(y))


class Generator(nn.Module):
    def __init__(self, plain, latent=8, channels=8):
        super().__init__()
        self.mapping = nn.ModuleList([nn.Linear(latent, latent) for _ in range(2)])
        self.mapping_activations = nn.ModuleList([activation(latent, plain) for _ in range(2)])
        self.constant = nn.Parameter(torch.randn(1, channels, 4, 4))
        self.first = ModulatedConvolution(channels, channels, latent, plain)
        self.second = ModulatedConvolution(channels, channels, latent, plain, up=True)
        self.to_rgb = nn.ModuleList([nn.Conv2d(channels, 3, 1) for _ in range(2)])
        self.skip = resample(ft.UpFirDnUpsample(TAPS), plain)

    def style(self, z):
        for linear, act in zip(self.mapping, self.mapping_activations, strict=True):
            z = act(linear(z))
        return z

    def forward(self, style):
        x = self.first(self.constant.expand(style.shape[0], -1, -1, -1), style)
        rgb = self.to_rgb[0](x)
        x = self.second(x, style)
        return self.skip(rgb) + self.to_rgb[1](x)


class Discriminator(nn.Module):
    def __init__(self, plain, channels=8):
        super().__init__()
        self.from_rgb = nn.Conv2d(3, channels, 1)
        self.activations = nn.ModuleList([activation(channels, plain) for _ in range(2)])
        self.smooth = resample(ft.UpFirDnSmooth(TAPS, downsample_factor=2, kernel_size=3), plain)
        self.convolution = nn.Conv2d(channels, channels, 3, stride=2, bias=False)
        self.skip = nn.Sequential(resample(ft.UpFirDnDownsample(TAPS), plain), nn.Conv2d(channels, channels, 1))
        self.final = nn.Linear(channels * 16, 1)

    def forward(self, x):
        x = self.activations[0](self.from_rgb(x))
        y = self.activations[1](self.convolution(self.smooth(x)))
        return self.final(((y + self.skip(x)) / 2**0.5).flatten(1))


def train(plain, steps):
    torch.manual_seed(0)
    generator, discriminator = Generator(plain).double(), Discriminator(plain).double()
    optimisers = [torch.optim.Adam(m.parameters(), 2e-3, betas=(0.0, 0.99)) for m in (generator, discriminator)]
    rng = torch.Generator().manual_seed(1)
    mean_length, history = torch.zeros((), dtype=torch.float64), []
    for _ in range(steps):
        real = torch.randn(4, 3, 8, 8, generator=rng, dtype=torch.float64).requires_grad_()
        z = torch.randn(4, 8, generator=rng, dtype=torch.float64)
        noise = torch.randn(4, 3, 8, 8, generator=rng, dtype=torch.float64) / 8

        score = discriminator(real)
        fake = generator(generator.style(z)).detach()
        (slope,) = torch.autograd.grad(score.sum(), real, create_graph=True)
        r1 = slope.square().sum((1, 2, 3)).mean()
        loss = functional.softplus(discriminator(fake)).mean() + functional.softplus(-score).mean() + 5 * r1
        optimisers[1].zero_grad()
        loss.backward()
        optimisers[1].step()

        style = generator.style(z)
        image = generator(style)
        (slope,) = torch.autograd.grad((image * noise).sum(), style, create_graph=True)
        lengths = slope.square().sum(1).sqrt()
        mean_length = mean_length.lerp(lengths.mean().detach(), 0.01)
        path = (lengths - mean_length).square().mean()
        loss_generator = functional.softplus(-discriminator(image)).mean() + 2 * path
        optimisers[0].zero_grad()
        loss_generator.backward()
        optimisers[0].step()
        history.append([value.item() for value in (loss, r1, loss_generator, path)])
    return torch.tensor(history, dtype=torch.float64)


def test_losses_equal_those_of_plain_torch():
    ours, plain = train(False, 6), train(True, 6)
    assert (ours[:, 1] > 0).all()
    assert (ours[:, 3] > 0).all()
    torch.testing.assert_close(ours, plain, rtol=1e-9, atol=1e-12)


@pytest.mark.full
def test_losses_equal_those_of_plain_torch_for_longer():
    torch.testing.assert_close(train(False, 100), train(True, 100), rtol=1e-6, atol=1e-8)
