"""For every operator of the registry, the examples of its schema as calls of torch."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
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
        for place, given in enumerate(self.inputs):
            if isinstance(given, Lent):
                flat += [list(given.shape), dtype]
            elif isinstance(given, list):
                flat.append([random(shape) for shape in given])
            elif given is None:
                specs = bridged(self.operator).signature.inputs
                flat += [None, None] if specs[place].shape_only else [None]
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


def _samples() -> Iterator[Sample]:
    for name in firelu.operators():
        schema = firelu.schema(name)
        for shapes, constants in schema.examples:
            inputs: list[Any] = [
                Lent(shape) if spec.shape_only and shape is not None else shape
                for spec, shape in zip(schema.inputs, shapes, strict=False)
            ]
            label = " ".join(f"{argument}={value}" for argument, value in constants.items())
            yield Sample(name, [shapes] if schema.variadic else inputs, constants, label)


SAMPLES = list(_samples())


def names(sample: Sample) -> str:
    return f"{sample.operator} {sample.label}".strip()
