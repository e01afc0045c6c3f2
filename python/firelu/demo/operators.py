"""Section: operators by name, their gradients by definition."""

from __future__ import annotations

import firelu
import matplotlib.pyplot as plt
import numpy

from .page import Section
from .pictures import Pictures

_TEXT = """
An operator has a name, a schema and a gradient. The gradient is no code of its own: it is a list of definitions that
name operators again, so derivatives of derivatives come by asking once more. Below are the two activations, looked up
by name, with the derivative that their definitions give.
"""


def section(pictures: Pictures) -> Section:
    """Run both activations by name and their gradients by definition."""
    x = numpy.linspace(-3, 3, 601, dtype=numpy.float32)
    plot, axes = plt.subplots(1, 2, figsize=(10, 3.4), layout="constrained", sharey=True)
    code = []
    for axis, (name, arguments) in zip(
        axes, [("LeakyRelu", {"alpha": 0.2}), ("FusedLeakyRelu", {"alpha": 0.2, "axis": 0})], strict=True
    ):
        bias = [] if name == "LeakyRelu" else [numpy.full(x.shape, 0.75, dtype=numpy.float32)]
        y = firelu.run_operator(name, x, *bias, **arguments)
        names = ["X", "B"][: 1 + len(bias)]
        definition = firelu.create_operator(name, names, ["Y"], **arguments)
        steps, _ = firelu.get_gradient_defs(definition, ["Y_grad"])
        slope = _run(steps, {"X": x, "Y": y, "Y_grad": numpy.ones_like(y)})["X_grad"]
        code += [f"forward   {definition!r}", *(f"backward  {step!r}" for step in steps), ""]
        axis.axhline(0, color="0.85", linewidth=0.8)
        axis.axvline(0, color="0.85", linewidth=0.8)
        axis.plot(x, y, color="#c2410c", label="y")
        axis.plot(x, slope, color="#1d4ed8", linewidth=1.2, label="dy/dx, from the definition")
        axis.set(title=name + (" with a bias of 0.75" if bias else ""), xlabel="x")
        axis.legend(frameon=False)
    caption = "Leaky ReLU, and the fused form: bias, leaky ReLU and a scale of √2 in one pass over the memory."
    figure = pictures.plot("operators", plot, caption)
    names = ", ".join(firelu.operators())
    finding = f"{len(firelu.operators())} operators are registered: {names}."
    return Section("Operators by name", _TEXT, [figure], [finding], code="\n".join(code).strip())


def _run(steps: list[firelu.OperatorDef], blobs: dict[str, numpy.ndarray]) -> dict[str, numpy.ndarray]:
    """Run definitions on named arrays; this is all that a gradient needs."""
    blobs = dict(blobs)
    for step in steps:
        inputs = [blobs[name] if name else None for name in step.inputs]
        outputs = firelu.run_operator(step.operator, *inputs, **step.args)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        blobs.update(zip(step.outputs, outputs, strict=False))
    return blobs
