"""The registry of Specs on the command line: ``python -m smex.specs list|show``."""

from __future__ import annotations

import argparse
import ast
import inspect
import sys
from typing import Any

import torch

from smex.errors import SmexValueError
from smex.operators import checked_name, operator_named
from smex.specs import definition, targets
from smex.specs.strategies import OperatorCall
from smex.tdl import REGISTRY
from smex.text import aligned


def _family(target: str) -> str:
    return REGISTRY[target].source.__module__.rpartition(".")[2]


def _list(text: str) -> int:
    found = [target for target in targets() if text in target or text == _family(target)]
    for line in aligned([(target, _family(target)) for target in found], indent=""):
        print(line)
    print(f"{len(found)} of {len(targets())} registered", file=sys.stderr)
    return 0 if found else 1


def _argument(kind: str, text: str) -> Any:
    """For a tensor its shape, such as 4,6; a list of tensors has / between them."""
    if kind.startswith("List[Tensor"):
        return [_argument("Tensor", part) for part in text.split("/")]
    if "Tensor" in kind:
        shape = [int(size) for size in text.strip("[]").split(",") if size]
        return torch.empty(shape, device="meta")
    return ast.literal_eval(text)


def _call(target: str, texts: list[str]) -> OperatorCall:
    """Returns the call with these arguments, in the order of the schema.

    Raises:
        SmexValueError: they do not fit the operator.
    """
    op = operator_named(target, "show")
    arguments = op._schema.arguments
    if len(texts) > len(arguments):
        raise SmexValueError(
            f"{target} takes {len(arguments)} arguments, found {len(texts)}: {' '.join(texts)}"
        )
    try:
        args = [_argument(str(a.type), text) for a, text in zip(arguments, texts)]
        names = [a.name for a in arguments if a.kwarg_only]
        count = len(arguments) - len(names)
        return OperatorCall(op, args[:count], dict(zip(names, args[count:])))
    except (RuntimeError, TypeError, ValueError, SyntaxError) as error:
        raise SmexValueError(
            f"{target}: {' '.join(texts)} does not fit {op._schema}: {error}; give a shape such as "
            "4,6 for a tensor, and a Python value for anything else"
        ) from None


def _show(target: str, arguments: list[str]) -> int:
    found = definition(target) if "::" in target else None
    if found is None:
        name, _ = checked_name(target, "show")
        near = [t for t in targets() if t.partition(".")[0] == name]
        print(f"{target} has no Spec{'; there are ' + ', '.join(near) if near else ''}")
        return 1
    print(inspect.getsource(found.source).rstrip())
    for argument, rule in found.local.items():
        print(f"in a tile, {argument} follows the rule {rule!r}")
    if arguments:
        spec = _call(target, arguments).spec
        if spec is None:
            print("does not describe this call")
            return 1
        print(spec.text())
        for split in spec.splits():
            kinds = sorted({kind.name for kind in split.reduces if kind is not None})
            kind = f"reduces by {', '.join(kinds)}" if kinds else "concatenates"
            step = f", in steps of {split.granule}" if split.granule > 1 else ""
            print(f"can be divided along {spec.indices[split.index].name}: {kind}{step}")
    return 0


def main(arguments: list[str] | None = None) -> int:
    """Runs one command; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m smex.specs", description="Which operators have a Spec, and what it says."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    listing = commands.add_parser("list", help="the operators that have a Spec")
    listing.add_argument("text", nargs="?", default="", help="part of a name, or a family")
    show = commands.add_parser("show", help="one operator's Spec")
    show.add_argument("operator", help="such as aten::mm or aten::add.Tensor")
    show.add_argument(
        "argument",
        nargs="*",
        help="its arguments: of tensors the shapes, 4,6 6,5; after -- where one is negative",
    )
    parsed = parser.parse_args(arguments)
    try:
        if parsed.command == "list":
            return _list(parsed.text)
        return _show(parsed.operator, parsed.argument)
    except SmexValueError as error:
        print(error, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
