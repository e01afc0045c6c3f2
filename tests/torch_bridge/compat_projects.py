"""The text of a project, for the tests of the drop-in."""

from __future__ import annotations

# Plain torch, as projects without an extension write it; the defaults are nobody else's.
PLAIN = """
    import torch

    def fused_leaky_relu(input, bias, negative_slope=0.1, scale=1.0):
        \"\"\"Theirs.\"\"\"
        calls.append("theirs")
        return torch.nn.functional.leaky_relu(input + bias, negative_slope) * scale

    calls = []
"""
