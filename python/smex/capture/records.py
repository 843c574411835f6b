"""The plain records that a captured model consists of."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from smex.capture.objects import Objects

ROLES = ("parameter", "buffer", "input", "tangent", "constant", "intermediate")
OUTPUT_KINDS = ("output", "gradient", "buffer_update", "input_update")


@dataclasses.dataclass(frozen=True)
class ValueRef:
    """A tensor operand: the id of a value of the same graph."""

    id: int

    def __repr__(self) -> str:
        return f"%{self.id}"


@dataclasses.dataclass
class ValueRecord:
    """A tensor of the graph.

    `aliases` are the further names of a tied parameter or buffer; `tensor` is set for constants.
    """

    id: int
    name: str
    shape: tuple[int, ...]
    dtype: torch.dtype
    role: str = "intermediate"
    tensor: torch.Tensor | None = None
    aliases: tuple[str, ...] = ()
    requires_grad: bool = False

    def type_str(self) -> str:
        """`float32[64, 10]`."""
        return f"{str(self.dtype).removeprefix('torch.')}[{', '.join(map(str, self.shape))}]"


NO_REGION = -1


@dataclasses.dataclass
class OpRecord:
    """An operator call.

    `args` hold every schema argument in schema order, keyword-only ones included, defaults filled
    in; tensors are `ValueRef`s, a device is None. `outputs` are value ids, None where unused.
    `region` numbers the activation checkpoint that the call is inside of.
    """

    id: int
    target: str
    dispatch: torch._ops.OpOverload
    args: list[Any]
    outputs: list[int | None]
    module_path: str = ""
    source: str = ""
    seq_nr: int | None = None
    backward: bool = False
    region: int = NO_REGION

    def inputs(self) -> list[int]:
        """Ids of the tensor operands in order of first appearance, without duplicates."""
        return list(dict.fromkeys(operand_ids(self.args)))


@dataclasses.dataclass
class FusionRecord:
    """One call that may run instead of its members when none of them is split inside.

    `fused` has id -1; its outputs are outputs of members. `members` are op ids, ascending.
    """

    fused: OpRecord
    members: list[int]


@dataclasses.dataclass
class OutputRecord:
    """A value that leaves the graph.

    `value` is None for a gradient that does not exist (an unused parameter). `name` is the
    parameter's, buffer's or input's name, or the position of an output; `target` is the value
    that this is the gradient or the new content of.
    """

    value: int | None
    kind: str
    name: str
    target: int | None = None


def operand_ids(args: Sequence[Any]) -> list[int]:
    """Ids of all tensor operands in an argument list, in order, with duplicates."""
    ids = []
    for arg in args:
        if isinstance(arg, ValueRef):
            ids.append(arg.id)
        elif isinstance(arg, (list, tuple)):
            ids.extend(operand_ids(arg))
    return ids


def stream_position(op: OpRecord) -> int | None:
    """Returns where among its arguments a random operator has its stream; None for all others.

    One that drops nothing draws nothing.
    """
    if not op.target.startswith("smex::"):
        return None
    names = [argument.name for argument in op.dispatch._schema.arguments]
    if "stream" not in names or ("p" in names and op.args[names.index("p")] == 0):
        return None
    return names.index("stream")


def returns_view(op: OpRecord) -> bool:
    """Returns whether the operator's schema says that its first output aliases an operand."""
    returned = op.dispatch._schema.returns
    return bool(returned) and returned[0].alias_info is not None


@dataclasses.dataclass
class CapturedGraph:
    """A model's forward, or forward and backward, as a list of functional ATen calls.

    `ops` are in an order in which every value is produced before it is used. The graph's inputs
    are the values of role parameter, buffer, input and tangent; `inputs` and `tangents` list the
    last two in order.

    Attributes:
        in_spec: pytree of the call's `(args, kwargs)`.
        flat_args: the flattened call; a `ValueRef` for each tensor, the value itself otherwise.
        out_spec: pytree of the model's result (of the loss function's, with one).
        changes_spec: pytree of what the model changes of the objects that are its arguments.
        flat_outputs: the flattened result, then the flattened changes; a `ValueRef` for each
            tensor, otherwise the value.
        copies: how many calls of modules were not traced but copied.
        tangents: for each flat output the value id of its tangent, None if not differentiable.
    """

    values: list[ValueRecord]
    ops: list[OpRecord]
    outputs: list[OutputRecord]
    fusions: list[FusionRecord]
    inputs: list[int]
    tangents: list[int | None]
    in_spec: pytree.TreeSpec
    flat_args: list[Any]
    out_spec: pytree.TreeSpec
    changes_spec: pytree.TreeSpec
    flat_outputs: list[Any]
    training: bool
    name: str = "model"
    copies: int = 0
    timings: dict[str, float] = dataclasses.field(default_factory=dict)

    def result(self, leaves: list[Any], objects: Objects) -> Any:
        """Returns what the model returns, of flat outputs.

        Writes the changes into the call's objects.
        """
        count = self.out_spec.num_leaves
        result = objects.unpack(pytree.tree_unflatten(leaves[:count], self.out_spec))
        for number, parts in pytree.tree_unflatten(leaves[count:], self.changes_spec).items():
            objects.write(number, parts)
        return result

    @property
    def input_refs(self) -> list[ValueRef]:
        """The call's tensors among `flat_args`."""
        return [leaf for leaf in self.flat_args if isinstance(leaf, ValueRef)]

    @property
    def tensor_tangents(self) -> list[int | None]:
        """`tangents` of the tensors among the flat outputs."""
        return [
            tangent
            for output, tangent in zip(self.flat_outputs, self.tangents, strict=True)
            if isinstance(output, ValueRef)
        ]

    @property
    def differentiable(self) -> list[bool]:
        """Whether each tensor among the flat outputs has a tangent."""
        return [tangent is not None for tangent in self.tensor_tangents]

    @property
    def draws(self) -> bool:
        """Whether an operator draws numbers from the seed of the call."""
        return any(stream_position(op) is not None for op in self.structure.ops)

    @property
    def structure(self) -> CapturedGraph:
        """What calls of other sizes have too: these records, but for shapes and arguments."""
        return self

    def shape(self, value: int) -> tuple[int, ...]:
        """Returns the shape of a value."""
        return self.values[value].shape

    def with_role(self, role: str) -> list[ValueRecord]:
        """Returns the values of one role, in order."""
        return [value for value in self.values if value.role == role]

    def __repr__(self) -> str:
        kind = "forward+backward" if self.training else "forward"
        return (
            f"CapturedGraph({self.name}, {kind}, {len(self.ops)} ops, {len(self.values)} values, "
            f"{len(self.fusions)} fusions, {len(self.with_role('parameter'))} parameters)"
        )

    def __str__(self) -> str:
        lines = [repr(self)]
        for value in self.values:
            if value.role != "intermediate":
                lines.append(f"%{value.id}: {value.type_str()} = {value.role} {value.name}")
        lines += [self._op_str(op) for op in self.ops]
        for out in self.outputs:
            result = "None" if out.value is None else f"%{out.value}"
            lines.append(f"{out.kind} {out.name} = {result}")
        return "\n".join(lines)

    def _op_str(self, op: OpRecord) -> str:
        left = ", ".join(
            "_" if i is None else f"%{i}: {self.values[i].type_str()}" for i in op.outputs
        )
        where = "  ".join(part for part in (op.module_path, op.source) if part)
        text = f"{left} = {op.target}({', '.join(map(str, op.args))})"
        return f"{text}  # {where}" if where else text

    def print_tabular(self) -> None:
        """Prints one aligned line per op: outputs, target, operands, module, source."""
        rows = [("outputs", "target", "operands", "module", "source")]
        for op in self.ops:
            outs = " ".join("_" if i is None else f"%{i}" for i in op.outputs)
            rows.append(
                (outs, op.target, " ".join(f"%{i}" for i in op.inputs()), op.module_path, op.source)
            )
        widths = [max(len(row[c]) for row in rows) for c in range(len(rows[0]))]
        for row in rows:
            print("  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip())
