"""For every operator of the registry, calls that show what it does."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import firelu
import firelu.torch
import numpy as np
import torch
from firelu.torch.bridge import bridged


@dataclass
class Sample:
    """A call by shapes: a tuple is a random tensor, a `Lent` a shape alone, a list several tensors."""

    operator: str
    inputs: list[Any]
    constants: dict[str, Any]
    label: str = ""

    @property
    def overload(self) -> Any:
        return bridged(self.operator).overload

    def arguments(self, dtype: torch.dtype, requires_grad: bool = False) -> tuple[Any, ...]:
        generator = torch.Generator().manual_seed(zlib.crc32(f"{self.operator}{self.label}".encode()))

        def random(shape: tuple[int, ...]) -> torch.Tensor:
            values = torch.randn(shape, generator=generator, dtype=torch.float64)
            # A step away from 0, where the derivative jumps.
            values = values + 0.1 * values.sign()
            return values.to(dtype).requires_grad_(requires_grad)

        flat: list[Any] = []
        for given in self.inputs:
            if isinstance(given, Lent):
                flat += [list(given.shape), dtype]
            elif isinstance(given, list):
                flat.append([random(shape) for shape in given])
            elif given is None:
                specs = bridged(self.operator).signature.inputs
                flat += [None, None] if specs[self.inputs.index(given)].shape_only else [None]
            else:
                flat.append(random(given))
        signature = bridged(self.operator).signature
        defaults = signature.complete(flat)[len(flat) :]
        named = dict(zip(signature.argument_names, defaults, strict=False)) | self.constants
        return (*flat, *named.values())

    def function_of_tensors(self, arguments: tuple[Any, ...]) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """Give the call as a function of its tensors, and these; one whose derivative is zero stays fixed."""
        places = [(i, None) for i, value in enumerate(arguments) if isinstance(value, torch.Tensor)] + [
            (i, j) for i, value in enumerate(arguments) if _is_tensors(value) for j in range(len(value))
        ]
        if self.operator.endswith("ReluGradient"):
            places = [place for place in places if place != (0, None)]
        tensors = tuple(arguments[i] if j is None else arguments[i][j] for i, j in places)

        def function(*values: torch.Tensor) -> Any:
            filled = [list(value) if _is_tensors(value) else value for value in arguments]
            for (i, j), value in zip(places, values, strict=True):
                if j is None:
                    filled[i] = value
                else:
                    filled[i][j] = value
            return self.overload(*filled)

        return function, tensors

    def with_numpy(self, arguments: tuple[Any, ...]) -> Any:
        signature = bridged(self.operator).signature
        inputs: list[Any] = []
        for spec, place in zip(signature.inputs, signature.places, strict=True):
            value = arguments[place]
            if spec.shape_only and value is not None:
                inputs.append(np.zeros(value, _numpy_dtype(arguments[place + 1])))
            elif isinstance(value, list):
                inputs += [_to_numpy(item) for item in value]
            else:
                inputs.append(None if value is None else _to_numpy(value))
        return firelu.run_operator(self.operator, *inputs, **self.constants)


@dataclass
class Lent:
    """A shape in the place of a tensor."""

    shape: tuple[int, ...]


def _is_tensors(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], torch.Tensor)


def _numpy_dtype(dtype: torch.dtype) -> Any:
    if dtype == torch.bfloat16:
        import ml_dtypes

        return ml_dtypes.bfloat16
    return np.dtype(str(dtype).removeprefix("torch."))


def _to_numpy(tensor: torch.Tensor) -> Any:
    if tensor.dtype == torch.bfloat16:
        return tensor.contiguous().view(torch.int16).numpy().view(_numpy_dtype(tensor.dtype))
    return tensor.detach().numpy()


FILTER = {"up_x": 2, "up_y": 3, "down_x": 1, "down_y": 2, "pad_x0": 1, "pad_x1": -1, "pad_y0": 2, "pad_y1": 1}
BLUR = {"pad_x0": 1, "pad_x1": 1, "pad_y0": 1, "pad_y1": 1, "gain": 1.5, "flip_kernel": True}

SNAKE_LAYER = {"act": "snake", "logscale": True, "up_x": 2, "down_x": 2}

SAMPLES = [
    Sample("LeakyRelu", [(2, 3, 4)], {"alpha": 0.2}),
    Sample("LeakyRelu", [(5,)], {"alpha": -0.5}, "negative slope"),
    Sample("LeakyReluGradient", [(2, 3), (2, 3)], {"alpha": 0.2}),
    Sample("FusedLeakyRelu", [(2, 3, 4), (3,)], {}),
    Sample("FusedLeakyRelu", [(2, 3, 2, 2), None], {"scale": 2.0}, "no bias"),
    Sample("FusedLeakyRelu", [(2, 3), (2,)], {"axis": 0, "scale": -1.0}, "negative scale"),
    Sample("FusedLeakyReluGradient", [(2, 3, 2), (2, 3, 2), (3,), Lent((3,))], {}),
    Sample("FusedLeakyReluGradient", [(2, 3, 2), (2, 3, 2), None, Lent((3,))], {"alpha": 0.1}, "no bias"),
    *(
        Sample("BiasAct", [(2, 3, 4), (3,)], {"act": act, "clamp": 0.7}, act)
        for act in ("linear", "relu", "lrelu", "tanh", "sigmoid", "elu", "selu", "softplus", "swish")
    ),
    Sample("BiasAct", [(2, 3, 2, 2), None], {"act": "swish", "gain": 2.0}, "no bias"),
    Sample("BiasActGradient", [(2, 3, 2), (2, 3, 2), (3,)], {"act": "softplus", "clamp": 1.1}),
    Sample("BiasActGradient", [(2, 3, 2), (2, 3, 2), None], {"act": "tanh", "order": 2, "axis": 2}, "no bias"),
    Sample("UpFirDn2d", [(2, 2, 4, 5), (3, 4)], FILTER),
    Sample("UpFirDn2d", [(3, 4), (2, 3)], BLUR, "flipped"),
    Sample("UpFirDn2d", [(2, 4, 5), (3, 4)], {**FILTER, "border": "reflect"}, "reflected"),
    Sample("UpFirDn2d", [(2, 4, 5), (3, 4)], {**FILTER, "border": "circular"}, "wrapped"),
    Sample("UpFirDn2dGradient", [(2, 7, 7), (3, 4), Lent((2, 4, 5))], FILTER),
    Sample("UpFirDn2dGradient", [(2, 7, 7), (3, 4), Lent((2, 4, 5))], {**FILTER, "border": "edge"}, "edge"),
    Sample("UpFirDn2dKernelGradient", [(2, 4, 5), (2, 7, 7), Lent((3, 4))], FILTER),
    Sample("UpFirDn2dKernelGradient", [(2, 4, 5), (2, 7, 7), Lent((3, 4))], {**FILTER, "border": "wrap"}, "wrapped"),
    Sample("FilteredAct", [(1, 2, 4, 5), (2, 3), (1, 2), (2,), None, None], {"act": "swish", "up_x": 2, "down_x": 2}),
    Sample(
        "FilteredActGradient",
        [(1, 2, 4, 5), (2, 3), (1, 2), (2,), None, None, (1, 2, 3, 4)],
        {"act": "swish", "up_x": 2, "down_x": 2},
    ),
    Sample("FilteredAct", [(1, 2, 4, 5), (2, 3), (1, 2), (2,), (2,), (2,)], SNAKE_LAYER, "snake"),
    Sample("FilteredActGradient", [(1, 2, 4, 5), (2, 3), (1, 2), None, (2,), None, (1, 2, 3, 4)], SNAKE_LAYER, "snake"),
    Sample("Snake", [(2, 3, 4), (3,), (3,)], {"logscale": True}),
    Sample("Snake", [(2, 3, 4), (4,), None], {"logscale": True, "axis": -1}, "without beta"),
    Sample("SnakeGradient", [(2, 3, 4), (2, 3, 4), (3,), (3,)], {"logscale": True}),
    Sample("SnakeGradient", [(2, 3, 4), (2, 3, 4), (2,), None], {"logscale": True, "axis": 0}, "without beta"),
    Sample("SnakeDerivative", [(2, 3, 2), (2, 3, 2), (3,), (3,)], {"logscale": True, "order_beta": 1}),
    Sample("Sum", [[(2, 3), (2, 3), (2, 3)]], {}),
    Sample("Add", [(2, 1, 3), (4, 1)], {}),
    Sample("Sub", [(2, 1, 3), (4, 1)], {}),
    Sample("Mul", [(2, 1, 3), (4, 1)], {}),
    Sample("ReduceSum", [(2, 3, 4), None], {"axes": [0, -1], "keepdims": True}),
    Sample("ReduceSum", [(2, 3, 4), Lent((3, 1))], {"scale": 0.5}, "to a shape"),
    Sample("BroadcastLike", [(3, 1), Lent((2, 3, 4))], {"scale": 2.0}),
]


def names(sample: Sample) -> str:
    return f"{sample.operator} {sample.label}".strip()
