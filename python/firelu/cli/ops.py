"""`firelu ops`: the operators, and one in detail."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

import firelu

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
    parser.set_defaults(run=run)


def run(options: argparse.Namespace, terminal: Terminal) -> int:
    """List all operators, or describe the one that was named."""
    if options.name is None:
        _list(terminal)
    else:
        name = _known(options.name)
        if name != options.name:
            terminal.line(f"There is no operator {options.name}; this is {name}.")
            terminal.line()
        _describe(firelu.schema(name), terminal)
    return 0


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
        for flag, note in ((item.optional, "may be omitted"), (item.shape_only, "lends only its shape and dtype"))
        if flag
    ]
    return item.doc + (f" ({', '.join(notes)})" if notes else "")


def _argument_name(argument: firelu.Argument) -> str:
    default = "required" if argument.default is None else f"= {argument.default!r}"
    return f"{argument.name}: {argument.type} {default}"


def _argument_text(argument: firelu.Argument) -> str:
    if argument.range is None:
        return argument.doc
    low, high = argument.range
    return f"{argument.doc} ({low:g} to {high:g})"


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
