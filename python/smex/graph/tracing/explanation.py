"""How message and reduce functions run, as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from smex.formula import Message
from smex.graph.function import BINARY, LETTERS, BuiltinFunction, ReduceFunction
from smex.graph.tracing.node_formula import NodeFormula
from smex.graph.tracing.symbols import Reduction

_NAMES = {op: name for name, op in BINARY.items()}


def builtin_name(message: Message) -> str | None:
    """Returns the built-in message function that a message is, such as ``u_mul_e``."""
    op, args, _ = message.term
    letters = message.letters
    if not set(letters) <= set(LETTERS):  # a tensor that all edges share
        return None
    if op == "leaf":
        return f"copy_{letters[0]}"
    if op not in _NAMES or any(arg.op != "leaf" for arg in args) or len(set(letters)) < 2:
        return None
    return f"{letters[0]}_{_NAMES[op]}_{letters[1]}"


def _described(
    field: str, output: Reduction | NodeFormula
) -> tuple[str, str | None, str, str | None]:
    if isinstance(output, NodeFormula):
        return (field, None, output.named(), None)
    return (field, output.reduce, output.formula.named(), builtin_name(output.formula))


class Unfused(NamedTuple):
    """Why functions run as they are."""

    reason: str
    function: str | None = None
    line: int | None = None
    message_bytes: int | None = None


class Explanation:
    """How a message and a reduce function run on a graph, and why.

    Attributes:
        fused: whether they run as kernels, without stored messages.
        outputs: of fused functions, (field, reducer, formula, built-in of that meaning or None);
            without a reducer the formula is one of nodes, which has reductions in it.
        reason: why they are not fused; None if they are.
        line: the line of the user's code that the reason names, if it names one.
        message_bytes: what the messages take, or would; None where that is not known in advance.
    """

    def __init__(
        self,
        message: str | BuiltinFunction,
        reduce: str | BuiltinFunction,
        message_bytes: int | None,
        outputs: Mapping[str, Reduction | NodeFormula],
        unfused: Unfused | None = None,
    ):
        self.message = message
        self.reduce = reduce
        self.message_bytes = message_bytes
        self.fused = unfused is None
        self.reason = None if unfused is None else unfused.reason
        self.line = None if unfused is None else unfused.line
        self.outputs = [_described(field, output) for field, output in outputs.items()]
        self._function = None if unfused is None else unfused.function

    def __repr__(self) -> str:
        head = f"message {self.message}, reduce {self.reduce}: "
        if self.fused:
            return "\n".join([head + "fused, no message is stored", *self._fused_lines()])
        place = f" ({self._function}" if self._function else ""
        place += f", line {self.line})" if self.line and place else ")" if place else ""
        how = "in one kernel" if isinstance(self.reduce, ReduceFunction) else "in degree buckets"
        lines = [head + "not fused", f"  why: {self.reason}{place}"]
        lines.append(f"  how: messages are stored ({self._size()}) and reduced {how}")
        return "\n".join(lines)

    def _fused_lines(self) -> list[str]:
        lines = []
        for field, reduce, formula, name in self.outputs:
            if reduce is None:
                lines.append(f'  "{field}" = {formula}  (a kernel for each reduction)')
                continue
            operator = "spmm" if reduce in ("sum", "mean") else "spmm_extremum"
            same = f", the built-in {name}" if name else ""
            lines.append(f'  "{field}" = {reduce} of {formula}  (smex::{operator}{same})')
        return [*lines, f"  messages would take {self._size()}"]

    def _size(self) -> str:
        if self.message_bytes is None:
            return "of a size not known in advance"
        size = float(self.message_bytes)
        for unit in ("bytes", "KiB", "MiB"):
            if size < 1024:
                return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
            size /= 1024
        return f"{size:.1f} GiB"
