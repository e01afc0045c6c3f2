"""basicsr and GFPGAN as pip installs them, with random weights; their sources are not opened.

The other tests of the drop-in have look-alikes of their own. A weekly job installs the projects and runs this file.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import textwrap

import pytest

# The extension's published interface, in plain torch: without firelu the projects find this one on a CPU.
COMPARED = """
    import sys, types
    import torch
    import torch.nn.functional as F
    import firelu.compat

    def fused_bias_act(input, bias, refer, act, grad, alpha, scale):
        if grad:
            return torch.where(refer > 0, input, alpha * input) * scale
        return F.leaky_relu(input + bias.view(1, -1, *[1] * (input.dim() - 2)), alpha) * scale

    def run(net, arguments):
        torch.manual_seed(1)  # noise is drawn on the way
        net.zero_grad()
        image = net(*arguments)[0]
        image.square().mean().backward()
        return [image.detach()] + [p.grad.clone() for p in net.parameters() if p.grad is not None]

    replaced = firelu.compat.install(torchvision=True)
    torch.manual_seed(0)
    net, arguments = make()
    net.double()
    ours = run(net, arguments)
    found = [name for name in replaced.names if name.startswith("basicsr.ops") or name.startswith("gfpgan")]
    assert found, replaced.names
    firelu.compat.uninstall()
    plain = types.SimpleNamespace(fused_bias_act=fused_bias_act)
    sys.modules["basicsr.ops.fused_act.fused_act"].fused_act_ext = plain
    theirs = run(net, arguments)
    assert len(ours) == len(theirs) > 10
    for mine, other in zip(ours, theirs, strict=True):
        assert (mine - other).abs().max() <= 1e-9 * other.abs().max()
    print(tuple(ours[0].shape), len(ours) - 1)
"""
MADE = {
    "basicsr": """
        def make():
            from basicsr.archs.stylegan2_arch import StyleGAN2Generator
            return StyleGAN2Generator(64), ([torch.randn(2, 512, dtype=torch.float64)],)
    """,
    "gfpgan": """
        def make():
            from gfpgan.archs.gfpganv1_arch import GFPGANv1
            style = dict(input_is_latent=True, different_w=True, sft_half=True)
            net = GFPGANv1(64, num_style_feat=512, channel_multiplier=1, **style)
            return net, (torch.randn(1, 3, 64, 64, dtype=torch.float64),)
    """,
}


@pytest.mark.parametrize("project", MADE)
def test_an_installed_project_computes_what_it_computes_without_firelu(project):
    if importlib.util.find_spec(project) is None:
        pytest.skip(f"{project} is not installed")
    script = "import torch\n" + textwrap.dedent(MADE[project]) + textwrap.dedent(COMPARED)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("(")
