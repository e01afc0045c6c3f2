"""Section: operators by name, their gradients by definition."""

from __future__ import annotations

from typing import Any

import firelu
import matplotlib.pyplot as plt
import numpy

from .page import Section
from .pictures import Pictures

_TEXT = """
An operator has a name, a schema and a gradient. A gradient is itself a list of operators, so you can differentiate it
again to get higher-order derivatives. Below are two activations, looked up by name, with the derivatives that their
definitions give.
"""


def section(pictures: Pictures) -> Section:
    """Run both activations by name and their gradients by definition."""
    x = numpy.linspace(-3, 3, 601, dtype=numpy.float32)
    plot, axes = plt.subplots(1, 2, figsize=(10, 3.4), layout="constrained", sharey=True)
    code = []
    cases: list[tuple[str, dict[str, Any], str]] = [
        ("LeakyRelu", {"alpha": 0.2}, "LeakyRelu"),
        ("FusedLeakyRelu", {"alpha": 0.2, "axis": 0}, "FusedLeakyRelu with a bias of 0.75"),
    ]
    for axis, (name, arguments, title) in zip(axes, cases, strict=True):
        inputs = [item.name for item in firelu.schema(name).inputs]
        definition = firelu.create_operator(name, inputs, ["Y"], **arguments)
        steps, gradients = firelu.get_gradient_defs(definition, ["Y_grad"])
        workspace = firelu.Workspace()
        workspace.feed("X", x)
        workspace.feed("B", numpy.full_like(x, 0.75))
        workspace.feed("Y_grad", numpy.ones_like(x))
        workspace.run([definition, *steps])
        y, slope = workspace.fetch("Y"), workspace.fetch(gradients[0] or "")
        code += [f"forward   {definition!r}", *(f"backward  {step!r}" for step in steps), ""]
        axis.axhline(0, color="0.85", linewidth=0.8)
        axis.axvline(0, color="0.85", linewidth=0.8)
        axis.plot(x, y, color="#c2410c", label="y")
        axis.plot(x, slope, color="#1d4ed8", linewidth=1.2, label="dy/dx, from the definition")
        axis.set(title=title, xlabel="x")
        axis.legend(frameon=False)
    caption = "Leaky ReLU, and the fused form: bias, leaky ReLU and a scale of √2 in one pass over the memory."
    figure = pictures.plot("operators", plot, caption)
    names = ", ".join(firelu.operators())
    finding = f"{len(firelu.operators())} operators are registered: {names}."
    return Section("Operators by name", _TEXT, [figure], [finding], code="\n".join(code).strip())
