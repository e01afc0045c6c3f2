"""`firelu ops`: the operators, and one in detail."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import firelu
import numpy as np

from .terminal import Terminal

if TYPE_CHECKING:
    from argparse import _SubParsersAction


def add_parser(commands: _SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the sub-command."""
    parser = commands.add_parser(
        "ops",
        help="list the operators, or describe one",
        description="List the operators; with a NAME print its schema, arguments, cost and gradient definition.",
    )
    parser.add_argument("name", nargs="?", metavar="NAME", help="the operator to describe, such as LeakyRelu")
    parser.add_argument(
        "--explain",
        nargs="+",
        metavar="INPUT",
        help="print which path the CPU takes for a call on these inputs: a shape such as 1x64x512x512, "
        "or the taps of a filter such as 1,3,3,1",
    )
    parser.add_argument("--set", nargs="+", default=[], metavar="NAME=VALUE", help="arguments of the call to explain")
    parser.add_argument("--dtype", default="float32", help="the dtype of the inputs that are shapes (float32)")
    parser.add_argument("--channels-last", action="store_true", help="four-dimensional inputs are channels-last")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace, terminal: Terminal) -> int:
    """List all operators, or describe the one that was named."""
    if options.name is None:
        _list(terminal)
    else:
        name = _known(options.name)
        if name != options.name:
            terminal.line(f"{options.name} means the operator {name}.")
            terminal.line()
        if options.explain is None:
            _describe(firelu.schema(name), terminal)
        else:
            _explain(firelu.schema(name), options, terminal)
    return 0


def _explain(schema: firelu.OpSchema, options: argparse.Namespace, terminal: Terminal) -> None:
    """Print which path a call takes; nothing is computed."""
    inputs = [_array(text, options) for text in options.explain]
    arguments = dict(_argument(schema, text) for text in options.set)
    sentence = schema.explain(*inputs, **arguments)
    terminal.paragraph(sentence or f"{schema.name} has one path for every call: one pass over its inputs.")


def _array(text: str, options: argparse.Namespace) -> np.ndarray:
    """Give an array of a shape, or the kernel of some taps."""
    if "," in text:
        return firelu.make_kernel([float(tap) for tap in text.split(",")])
    try:
        shape = tuple(int(length) for length in text.split("x"))
        array = np.zeros(shape, _dtype(options.dtype))
    except (TypeError, ValueError) as error:
        message = f"ops: --explain: got {text}, takes a shape such as 1x64x512x512 or taps such as 1,3,3,1"
        raise firelu.ArgumentError(message) from error
    if options.channels_last and array.ndim == 4:
        return np.moveaxis(np.ascontiguousarray(np.moveaxis(array, 1, -1)), -1, 1)
    return array


def _dtype(name: str) -> np.dtype[Any]:
    if name == "bfloat16":
        import ml_dtypes

        bfloat16: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
        return bfloat16
    return np.dtype(name)


def _argument(schema: firelu.OpSchema, text: str) -> tuple[str, Any]:
    """Read NAME=VALUE as the schema's type."""
    name, equals, value = text.partition("=")
    types: dict[str, Callable[[str], Any]] = {
        "int": int,
        "float": float,
        "float | None": lambda text: None if text == "None" else float(text),
        "bool": lambda value: value.lower() in ("1", "true", "yes"),
    }
    known = {argument.name: types.get(argument.type, str) for argument in schema.args}
    if not equals or name not in known:
        raise firelu.ArgumentError(f"ops: --set: got {text}, takes NAME=VALUE with a NAME of {', '.join(known)}")
    try:
        return name, known[name](value)
    except ValueError as error:
        raise firelu.ArgumentError(f"ops: --set: got {text}, takes a number for {name}") from error


def _known(name: str) -> str:
    """Give the one operator whose name differs in case and underscores alone, as a function's does from it."""

    def plain(text: str) -> str:
        return text.replace("_", "").casefold()

    alike = [known for known in firelu.operators() if plain(known) == plain(name)]
    return alike[0] if name not in alike and len(alike) == 1 else name


def _inputs(schema: firelu.OpSchema) -> str:
    names = [f"[{item.name}]" if item.optional else item.name for item in schema.inputs]
    return ", ".join(names) + (", ..." if schema.variadic else "")


def _list(terminal: Terminal) -> None:
    rows = []
    for name in firelu.operators():
        schema = firelu.schema(name)
        outputs = ", ".join(output.name for output in schema.outputs)
        devices = ", ".join(schema.devices)
        rows.append((name, f"{_inputs(schema)} -> {outputs}", devices, schema.gradient.partition(":")[0]))
    terminal.table(("operator", "inputs -> outputs", "devices", "gradient"), rows, indent=0)
    terminal.line()
    terminal.line("[X]: may be omitted. `firelu ops NAME` describes one operator.")


def _describe(schema: firelu.OpSchema, terminal: Terminal) -> None:
    outputs = ", ".join(output.name for output in schema.outputs)
    terminal.heading(f"{schema.name}({_inputs(schema)}) -> {outputs}")
    terminal.paragraph(schema.doc)
    terminal.line()
    terminal.heading("Inputs")
    terminal.pairs([(item.name, _input_text(item)) for item in schema.inputs])
    terminal.heading("Outputs")
    terminal.pairs([(output.name, output.doc) for output in schema.outputs])
    if schema.args:
        terminal.heading("Arguments")
        terminal.pairs([(_argument_name(argument), _argument_text(argument)) for argument in schema.args])
    terminal.heading("Facts")
    terminal.pairs(_facts(schema))
    terminal.heading("Gradient definition")
    _gradient(schema, terminal)


def _input_text(item: firelu.Input) -> str:
    notes = [
        note
        for flag, note in ((item.optional, "may be omitted"), (item.shape_only, "only its shape and dtype are used"))
        if flag
    ]
    return item.doc + (f" ({', '.join(notes)})" if notes else "")


def _argument_name(argument: firelu.Argument) -> str:
    is_required = argument.default is None and not argument.type.endswith("| None")
    default = "required" if is_required else f"= {argument.default!r}"
    return f"{argument.name}: {argument.type} {default}"


def _argument_text(argument: firelu.Argument) -> str:
    if argument.range is None:
        return argument.doc
    low, high = argument.range
    return f"{argument.doc} ({low:.15g} to {high:.15g})"


def _facts(schema: firelu.OpSchema) -> list[tuple[str, str]]:
    in_place = ", ".join(f"{source} -> {target}" for source, target in schema.allow_inplace)
    return [
        ("dtypes", ", ".join(schema.dtypes)),
        ("devices", ", ".join(schema.devices)),
        ("in place", in_place or "no"),
        (
            "shapes",
            "every output has the first input's type and shape"
            if schema.identical_type_and_shape
            else "see the outputs; schema.infer() computes them",
        ),
        ("ONNX", schema.onnx or "no operator of the same meaning"),
        ("cost", schema.cost_formula),
    ]


def _gradient(schema: firelu.OpSchema, terminal: Terminal) -> None:
    if schema.gradient != "defined":
        terminal.paragraph(schema.gradient)
        return
    names: list[Any] = [item.name for item in schema.inputs]
    if schema.variadic:
        names = [*names[:-1], names[-1] + "0", names[-1] + "1"]
    outputs = [output.name for output in schema.outputs]
    definition = firelu.create_operator(schema.name, names, outputs)
    steps, gradients = firelu.get_gradient_defs(definition, [f"{name}_grad" for name in outputs])
    terminal.paragraph("given " + ", ".join(f"{name}_grad" for name in outputs) + ":")
    for step in steps:
        arguments = "".join(f", {name}={value!r}" for name, value in step.args.items())
        inputs = ", ".join(name or "None" for name in step.inputs)
        terminal.line(f"    {', '.join(step.outputs)} = {step.operator}({inputs}{arguments})")
    for name, gradient in zip(names, gradients, strict=True):
        terminal.line(f"    gradient of {name}: {gradient or 'none'}")
