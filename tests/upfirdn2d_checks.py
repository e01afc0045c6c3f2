"""What the tests of UpFirDn2d share: how far a result may be from the reference."""

from __future__ import annotations

import numpy as np
import reference
from checks import widen


def bound(dtype, terms, magnitude):
    """(n + 4) roundings of the sum of magnitudes in the compute type, and one more to a half type."""
    epsilon = 2.0**-53 if dtype.name == "float64" else 2.0**-24
    last = {"float16": 2.0**-11, "bfloat16": 2.0**-8}.get(dtype.name, 0.0)
    smallest = {"float16": 2.0**-24, "bfloat16": 2.0**-133}.get(dtype.name, 0.0)
    return (terms + 4) * epsilon * magnitude + last * magnitude + smallest


def assert_within(result, expected, magnitude, terms):
    finite = np.isfinite(widen(result))
    error = np.abs(widen(result) - expected)
    limit = bound(result.dtype, terms, magnitude)
    assert (error[finite] <= limit[finite]).all(), float((error - limit)[finite].max())
    if result.dtype.name != "float16":
        assert finite.all()


def magnitudes(x, kernel, arguments):
    return reference.upfirdn2d(np.abs(widen(x)), np.abs(widen(kernel)), **{**arguments, "gain": abs(arguments["gain"])})


def operator_arguments(arguments):
    names = ["up_x", "up_y", "down_x", "down_y", "pad_x0", "pad_x1", "pad_y0", "pad_y1"]
    values = [*arguments["up"], *arguments["down"], *arguments["pad"]]
    rest = {name: arguments[name] for name in ("flip_kernel", "gain", "border") if name in arguments}
    return dict(zip(names, values, strict=True)) | rest
