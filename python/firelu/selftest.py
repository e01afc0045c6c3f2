"""Every CUDA kernel beside the CPU's, on small inputs: what to run on a GPU that firelu has never met."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._firelu import Tensor, operators, run_operator, schema
from .errors import DeviceError

Shape = tuple[int, ...]
Case = tuple[list[Shape | None], dict[str, Any]]

_DIGITS = {"float16": 10, "bfloat16": 7, "float32": 23, "float64": 52}  # of the significand, in bits
_PICTURE, _KERNEL = (2, 3, 17, 19), (4, 3)
_RESAMPLING: list[dict[str, Any]] = [
    {"pad_x0": 2, "pad_x1": 1, "pad_y0": 2, "pad_y1": 1},
    {"up_x": 2, "up_y": 2, "pad_x0": 2, "pad_x1": 1, "pad_y0": 2, "pad_y1": 1},
    {"down_x": 2, "down_y": 2, "pad_x0": 1, "pad_x1": 1, "pad_y0": 1, "pad_y1": 1, "flip_kernel": True},
    {"up_x": 3, "down_y": 2, "pad_x0": -1, "pad_x1": 4, "gain": 1.5},
]


def _cases(name: str) -> list[Case]:
    """Give shapes of inputs (None where one is omitted) and arguments for an operator."""
    if name.startswith("UpFirDn2d"):
        cases: list[Case] = []
        for arguments in _RESAMPLING:
            types = [(_PICTURE, "float32"), (_KERNEL, "float32")]
            output: Shape = schema("UpFirDn2d").infer(types, **arguments)[0][0]
            inputs: dict[str, list[Shape | None]] = {
                "UpFirDn2d": [_PICTURE, _KERNEL],
                "UpFirDn2dGradient": [output, _KERNEL, _PICTURE],
                "UpFirDn2dKernelGradient": [_PICTURE, output, _KERNEL],
            }
            cases.append((inputs[name], arguments))
        return cases
    known: dict[str, list[Case]] = {
        "Add": [([(4, 5, 6), (4, 5, 6)], {}), ([(4, 5, 6), (5, 1)], {})],
        "BroadcastLike": [([(5, 1), (4, 5, 6)], {"scale": 0.5})],
        "FusedLeakyRelu": [([(2, 5, 9, 11), (5,)], {}), ([(7, 5), None], {"scale": 2.0})],
        "FusedLeakyReluGradient": [([(2, 5, 9, 11), (2, 5, 9, 11)], {}), ([(7, 5), (7, 5), (5,)], {})],
        "LeakyRelu": [([(3, 1, 333)], {"alpha": 0.2})],
        "LeakyReluGradient": [([(3, 333), (3, 333)], {"alpha": 0.2})],
        "ReduceSum": [([(6, 50, 7)], {}), ([(6, 50, 7)], {"axes": [0, 2]}), ([(6, 50, 7), (50, 1)], {"scale": 0.25})],
        "Sum": [([(4, 99), (4, 99), (4, 99)], {})],
    }
    known["Sub"] = known["Mul"] = known["Add"]
    return known.get(name, [])


def _dtype(name: str) -> np.dtype[Any] | None:
    if name != "bfloat16":
        return np.dtype(name)
    try:
        import ml_dtypes
    except ModuleNotFoundError:
        return None
    bfloat16: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
    return bfloat16


def _check(name: str, case: Case, dtype: np.dtype[Any], device: str) -> None:
    shapes, arguments = case
    rng = np.random.default_rng(len(shapes))
    arrays = [None if shape is None else rng.standard_normal(shape).astype(dtype) for shape in shapes]
    expected = run_operator(name, *arrays, **arguments)
    found = run_operator(
        name, *(None if array is None else Tensor(array, device=device) for array in arrays), **arguments
    )
    expected, found = (each if isinstance(each, tuple) else (each,) for each in (expected, found))
    for place, (ours, theirs) in enumerate(zip(expected, found, strict=True)):
        ours, theirs = ours.astype(np.float64), theirs.to("cpu").numpy().astype(np.float64)
        # Sums of a few dozen terms are taken in another order; what is wrong is wrong by far more.
        bound = 32 * float(2.0 ** -_DIGITS[dtype.name]) * max(float(np.abs(ours).max(initial=0)), 1.0)
        error = float(np.abs(ours - theirs).max(initial=0))
        if not error <= bound:
            output = schema(name).outputs[place].name
            raise DeviceError(
                f"{device}: {name}: {output}: got values that differ from the CPU's by {error:.3g}, takes at most "
                f"{bound:.3g} ({dtype.name}, shapes {shapes}, {arguments})"
            )


def cuda_selftest(device: str = "cuda:0") -> dict[str, int]:
    """Run every operator's CUDA kernels in every dtype on small inputs, and compare with the CPU.

    Args:
        device: the GPU to try.

    Returns:
        How many calls were compared, by operator.

    Raises:
        DeviceError: there is no such device, a kernel does not load or fails, or a result differs.
    """
    compared: dict[str, int] = {}
    Tensor([0.0], device=device)  # where there is no device, this says why
    for name in operators():
        description = schema(name)
        if "cuda" not in description.devices:
            continue
        for case in _cases(name):
            for dtype in filter(None, map(_dtype, description.dtypes)):
                _check(name, case, dtype, device)
                compared[name] = compared.get(name, 0) + 1
    return compared
