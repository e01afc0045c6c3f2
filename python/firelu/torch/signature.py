"""How a registered operator is declared to torch: its name, its parameters and their places."""

from __future__ import annotations

import keyword
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .._firelu import Argument, Input, OpSchema
from ..errors import ArgumentError
from .operators import STEMS

_ARGUMENT_TYPES = {
    "bool": "bool",
    "int": "int",
    "float": "float",
    "float | None": "float?",
    "str": "str",
    "list[int]": "int[]",
    "list[float]": "float[]",
}


def torch_name(operator: str) -> str:
    """Give the name under ``torch.ops.firelu``: ``LeakyRelu`` is ``leaky_relu``, ``UpFirDn2d`` is ``upfirdn2d``.

    A name that begins with that of a file of `operators` is spelt as the file is.
    """
    for stem in STEMS:
        word = stem.replace("_", "")
        if operator.lower().startswith(word):
            operator = stem + operator[len(word) :]
            break
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", operator.replace(".", "_")).lower()


@dataclass(frozen=True)
class Parameter:
    """One positional parameter of the torch operator."""

    type: str
    name: str
    #: Its default as torch's schema language writes it; None where it has none.
    default: str | None
    #: The default's value.
    value: Any = None

    def __str__(self) -> str:
        """Give the parameter as a schema writes it."""
        return f"{self.type} {self.name}" + ("" if self.default is None else f"={self.default}")


#: Words of torch's schema language: Python's, but for those that it has no use for.
_RESERVED = frozenset(keyword.kwlist) - {
    "async", "await", "except", "finally", "from", "lambda", "nonlocal", "try", "yield",
}  # fmt: skip


def check_spelling(schema: OpSchema, signature: Signature) -> None:
    """Refuse what torch's schema language cannot say, before torch sees it.

    Raises:
        ArgumentError: for a name that is no identifier, stands twice or is reserved, and for a default that torch
            cannot read.
    """
    takes = "letters, digits and _, not first a digit, and no word of torch's schema language"
    for what, name in [("name", signature.name), *(("parameters", p.name) for p in signature.parameters)]:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) or name in _RESERVED:
            raise ArgumentError(f"{schema.name}: {what}: got {name!r} as torch's name, takes {takes}")
    names = [parameter.name for parameter in signature.parameters]
    for name in names:
        if names.count(name) > 1:
            raise ArgumentError(
                f"{schema.name}: parameters: got {name!r} twice as torch's name, takes names of their own"
            )
    for argument in schema.args:
        values = argument.default if isinstance(argument.default, list) else [argument.default]
        for value in values:
            if isinstance(value, float) and value and not sys.float_info.min <= abs(value) <= sys.float_info.max:
                can = "a default that torch's schema language can say: finite and not subnormal"
                raise ArgumentError(f"{schema.name}: {argument.name}: got {value!r}, takes {can}")
            if isinstance(value, str) and not _UNSPEAKABLE.isdisjoint(value):
                can = "a default that torch's schema language can say: text without a newline or a zero byte"
                raise ArgumentError(f"{schema.name}: {argument.name}: got {value!r}, takes {can}")


_UNSPEAKABLE = frozenset("\n\0")


def _literal(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(_literal(item) for item in value) + "]"
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return repr(value)


class Signature:
    """The parameters in order: inputs, arguments, and which outputs are wanted where there are several.

    An input that lends only its shape becomes ``<name>_shape`` and ``<name>_dtype``, so that nobody keeps its
    memory; a repeated input becomes a list.
    """

    def __init__(self, schema: OpSchema) -> None:
        self.operator = schema.name
        self.name = torch_name(schema.name)
        self.inputs: list[Input] = schema.inputs
        self.variadic = schema.variadic
        self.outputs = len(schema.outputs)
        #: For each input, the place of its first parameter.
        self.places: list[int] = []
        parameters: list[Parameter] = []
        for index, spec in enumerate(schema.inputs):
            self.places.append(len(parameters))
            is_list = schema.variadic and index + 1 == len(schema.inputs)
            parameters += _input_parameters(spec, is_list)
        #: The places of tensors; inputs that lend only their shape are none.
        self.tensor_places = [p for spec, p in zip(self.inputs, self.places, strict=True) if not spec.shape_only]
        #: The place of the first argument.
        self.first_argument = len(parameters)
        parameters += [_argument_parameter(argument) for argument in schema.args]
        #: The place of the list of wanted outputs, None where there is one output.
        self.wanted_place = len(parameters) if self.outputs > 1 else None
        if self.wanted_place is not None:
            every = [True] * self.outputs
            parameters.append(Parameter(f"bool[{self.outputs}]", "wanted", _literal(every), every))
        self.argument_names = [argument.name for argument in schema.args]
        self.parameters = _without_early_defaults(parameters)

    @property
    def declaration(self) -> str:
        """Give the operator in torch's schema language."""
        results = "Tensor" if self.outputs == 1 else "(" + ", ".join(["Tensor"] * self.outputs) + ")"
        return f"{self.name}({', '.join(map(str, self.parameters))}) -> {results}"

    def complete(self, arguments: Sequence[Any]) -> list[Any]:
        """Add the trailing defaults, which torch's dispatcher leaves out of a call."""
        missing = self.parameters[len(arguments) :]
        return [*arguments, *(parameter.value for parameter in missing)]

    def tensors(self, arguments: Sequence[Any]) -> list[Any]:
        """Give the tensors of a call, one for each input, None where it is omitted or lends only its shape."""
        tensors: list[Any] = []
        for spec, place in zip(self.inputs, self.places, strict=True):
            value = arguments[place] if place < len(arguments) and not spec.shape_only else None
            if isinstance(value, (list, tuple)):
                tensors += value
            else:
                tensors.append(value)
        return tensors

    def constants(self, arguments: Sequence[Any]) -> tuple[Any, ...]:
        """Give the operator's own arguments of a complete call; lists as tuples."""
        values = arguments[self.first_argument : self.first_argument + len(self.argument_names)]
        return tuple(tuple(value) if isinstance(value, list) else value for value in values)

    def wanted(self, arguments: Sequence[Any]) -> tuple[bool, ...]:
        """Give which outputs a complete call wants."""
        return (True,) if self.wanted_place is None else tuple(map(bool, arguments[self.wanted_place]))


def _input_parameters(spec: Input, is_list: bool) -> list[Parameter]:
    name, mark = spec.name.lower(), "?" if spec.optional else ""
    default = "None" if spec.optional else None
    if spec.shape_only:
        return [
            Parameter(f"SymInt[]{mark}", f"{name}_shape", default),
            Parameter(f"ScalarType{mark}", f"{name}_dtype", default),
        ]
    return [Parameter("Tensor[]" if is_list else f"Tensor{mark}", name, default)]


def _argument_parameter(argument: Argument) -> Parameter:
    value = argument.default
    is_required = value is None and not argument.type.endswith("| None")
    default = None if is_required else _literal(value)
    return Parameter(_ARGUMENT_TYPES[argument.type], argument.name, default, value)


def _without_early_defaults(parameters: list[Parameter]) -> list[Parameter]:
    """Torch takes no parameter without a default after one with."""
    last = max((i for i, parameter in enumerate(parameters) if parameter.default is None), default=-1)
    return [Parameter(p.type, p.name, None, p.value) if i < last else p for i, p in enumerate(parameters)]
