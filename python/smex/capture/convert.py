"""From a traced FX graph to records: calls normalised, fused calls expanded, dead ones dropped."""

from __future__ import annotations

import dataclasses
import itertools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._higher_order_ops.effects import with_effects
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from smex.capture.edge_order import EdgeOrders
from smex.capture.expansions import expand
from smex.capture.random_ops import NO_GENERATOR
from smex.capture.records import (
    NO_REGION,
    CapturedGraph,
    FusionRecord,
    OpRecord,
    OutputRecord,
    ValueRecord,
    ValueRef,
    operand_ids,
    stream_position,
)
from smex.capture.repeats import Origin, is_number
from smex.capture.repeats.operators import ENTER, REPEAT
from smex.capture.trace import NOBODY, Trace, is_tensor_mark, is_token
from smex.errors import CaptureError
from smex.formula import Message, shape_of

aten = torch.ops.aten

# Functional graphs share no storage: these only repeat their operand.
_PERHAPS_IDENTITIES = {aten._to_copy.default, aten.copy.default, aten.expand.default}
_IDENTITIES = {
    aten.alias.default,
    aten.clone.default,
    aten.contiguous.default,
    aten.detach.default,
    aten.detach_.default,
    aten.lift.default,
    aten.lift_fresh.default,
    aten.lift_fresh_copy.default,
}
_VIEWS = {aten.view.default, aten._unsafe_view.default, aten.reshape.default}
# Their outputs are contiguous whatever the operands' strides are.
_FRESH = {aten.bmm.default, aten.cat.default, aten.mm.default, aten.stack.default}
# The edges by source, which their gradients read: by then they are calls of their own.
_OUT_EDGES = {
    "smex::attention": 1,
    "smex::gat_attention": 1,
    "smex::sddmm": 1,
    "smex::spmm": 1,
    "smex::spmm_extremum": 1,
    "smex::typed_outer": 1,
    "smex::typed_sddmm": 1,
    "smex::typed_spmm": 1,
}
_VALUES_OF_EDGES = "smex::sddmm"
# The second output tells what the first weighs: parts of it over some of the keys need both.
_ATTENTION = "smex::scaled_dot_product"
# ATen's call is worth more than its one member.
_SOLE_MEMBER = {"aten::native_layer_norm_backward"}
# Their positions along a dimension differ from each other.
_PERMUTED = {"aten::topk", "aten::sort", "aten::sort.stable"}
_NO_OUTPUT = {aten._assert_async.msg, aten._assert_tensor_metadata.default}


@dataclasses.dataclass
class _Operand:
    """What an FX node stands for. `loose`: the real strides may differ from the traced ones."""

    id: int
    loose: bool = False


@dataclasses.dataclass
class _Fused:
    op: OpRecord
    first: int
    last: int


class Converter:
    """Builds a CapturedGraph from a Trace. Value and op ids are final after `finish`."""

    def __init__(self, traced: Trace) -> None:
        self._trace = traced
        self._values: list[ValueRecord] = []
        self._ops: list[OpRecord] = []
        self._fused: list[_Fused] = []
        self._templates: dict[Any, torch.fx.Graph | None] = {}
        self._schemas: dict[Any, tuple[str, list[tuple[str, Any, bool]]]] = {}
        self._origins: dict[int, tuple[str, str]] = {}
        self._origin: tuple[str, str, int | None] = ("", "", None)
        self._region = NO_REGION
        self._inside: dict[int, dict[torch.fx.Node, Any]] = {}  # by number of a copied call
        self._copied: tuple[int, Origin] | None = None
        self._done: set[torch.fx.Node] = set()  # nodes of which the calls have been made
        self._regions: dict[Any, int] = {}  # numbers of the traced ones in order of appearance
        self._transposed: dict[int, _Operand] = {}
        self._zeros: set[int] = set()
        self._permuted: dict[int, int] = {}  # positions by the dimension along which they differ
        self._orders = EdgeOrders(self._values, self._value, self._append)
        self._nobodys: set[int] = set()  # tangents of parameters that the model changes

    def convert(self) -> CapturedGraph:
        """Returns the finished graph. May be called once."""
        env: dict[torch.fx.Node, Any] = {}
        placeholders = []
        bodies = self._trace.bodies
        for node in self._trace.graph.nodes:
            if node in bodies.members or node in self._done:
                continue
            if is_token(node):
                env[node] = None
            elif node.op == "placeholder":
                placeholders.append(node)
            elif node.op == "output":
                results = node.args[0]
            elif node.op == "get_attr":
                env[node] = self._constant(node)
            else:
                if placeholders:
                    self._add_inputs(placeholders, env)
                    placeholders = []
                if node.target is ENTER or node.target is REPEAT:
                    self._copy(node, env)
                else:
                    self._locate(node)
                    self._call(node, env)
        if placeholders:
            self._add_inputs(placeholders, env)
        result_ids = [None if r is None or env[r] is None else env[r].id for r in results]
        return self._finish(self._without_void(result_ids))

    def _without_void(self, result_ids: list[int | None]) -> list[int | None]:
        """Leaves out gradients that only come from the tangent of a changed parameter: none."""
        if not self._nobodys:
            return result_ids
        real, void = 1, 2
        read = dict.fromkeys(self._nobodys, void)
        read |= {value.id: real for value in self._values if value.role == "tangent"}
        for op in self._ops:
            if op.outputs[0] in self._nobodys:
                continue
            found = 0
            for operand in operand_ids(op.args):
                found |= read.get(operand, 0)
            read |= {output: found for output in op.outputs if output is not None}
        return [
            None if i is None or (result and result[0] == "gradient" and read.get(i) == void) else i
            for result, i in zip(self._trace.results, result_ids, strict=True)
        ]

    # Values.

    def _value(self, name: str, tensor: torch.Tensor, role: str = "intermediate") -> ValueRecord:
        record = ValueRecord(len(self._values), name, tuple(tensor.shape), tensor.dtype, role)
        self._values.append(record)
        return record

    def _add_inputs(self, placeholders: list[torch.fx.Node], env: dict) -> None:
        traced = self._trace
        slots, names = traced.slots, traced.input_names
        first_tangent = len(slots) + len(names) + traced.num_carriers
        for position, node in enumerate(placeholders):
            fake = node.meta["val"]
            if position < len(slots):
                slot = slots[position]
                value = self._value(slot.names[0], fake, slot.role)
                value.aliases = tuple(slot.names[1:])
                value.requires_grad = slot.tensor.requires_grad
            elif position < len(slots) + len(names):
                value = self._value(names[position - len(slots)], fake, "input")
                value.requires_grad = traced.input_requires_grad[position - len(slots)]
            elif position < first_tangent:  # only its size is read, which is a number
                continue
            else:
                k = traced.tangent_of[position - first_tangent]
                if k != NOBODY:
                    value = self._value(f"tangent{k}", fake, "tangent")
                else:
                    value = self._value("", fake)
                    self._nobodys.add(value.id)
                    zeros = [list(fake.shape), 0, fake.dtype, None, None, None]
                    self._ops.append(self._op("aten::full", aten.full.default, zeros, [value.id]))
            env[node] = _Operand(value.id)

    def _constant(self, node: torch.fx.Node) -> _Operand:
        tensor = getattr(self._trace.module, str(node.target))
        if not isinstance(tensor, torch.Tensor):
            user = next(iter(node.users))
            self._locate(user)
            hint = f"; {NO_GENERATOR}" if isinstance(tensor, torch.Generator) else ""
            raise CaptureError(
                f"capture: {user.target} at {self._origin[1]} is given a {type(tensor).__name__}, "
                f"which is no tensor{hint}"
            )
        if self._trace.training and tensor.requires_grad:
            self._locate(next(iter(node.users)))
            line = self._origin[1]
            what = self._trace.outside.get(id(tensor), f"a parameter of shape {list(tensor.shape)}")
            raise CaptureError(
                f"capture: {what}{f', used at {line},' if line else ''} is none of the model's own "
                "parameters and would get no gradient: make it one (nn.Parameter, nn.ParameterList "
                "or nn.ModuleList as an attribute), pass it as a tensor, or detach() it"
            )
        value = self._value("", tensor, "constant")
        value.tensor = tensor
        return _Operand(value.id)

    # Calls that are copied.

    def _copy(self, node: torch.fx.Node, env: dict) -> None:
        """Makes the calls of a body, on the operands of an `enter` or a `repeat`."""
        body = self._trace.bodies.body(node)
        number: Any = node.args[2]
        given: Any = node.args[0]
        self._copied = (number, self._trace.bodies.origins[number])
        if not body.is_backward:
            self._inside[number] = env if self._copied[1].names is None else {}
        inner = self._inside[number]
        inner[body.enter] = [env[operand] for operand in given]
        for outer in body.constants:
            inner[outer] = env[outer]
        results: Any = body.leave.args[0]
        sums = self._trace.bodies.sums.get(node, {})
        for member in (body.enter, *body.members):
            if member.op == "get_attr":
                inner[member] = self._own_constant(member, env)
            elif member is not body.enter:
                self._locate(member)
                self._call(member, inner)
            for result in body.arrivals.get(member, ()) if sums else ():
                if result in sums:
                    self._add_up(*sums[result], inner[results[result]], env)
        env[node] = env[body.leave] = [inner[result] for result in results]
        self._copied = None

    def _add_up(
        self, picked: torch.fx.Node, addition: torch.fx.Node, operand: _Operand, env: dict
    ) -> None:
        """Adds a gradient to what came before it when it is there, as torch does."""
        copied, self._copied = self._copied, None
        env[picked] = operand
        self._locate(addition)
        self._call(addition, env)
        self._done.add(addition)
        self._copied = copied

    def _own_constant(self, node: torch.fx.Node, env: dict) -> _Operand:
        """A constant of each copy, unless it is a tensor that all of them read."""
        tensor = getattr(self._trace.module, str(node.target))
        if node in env and any(tensor is shared for shared in self._trace.shared):
            return env[node]
        env[node] = self._constant(node)
        return env[node]

    # Calls.

    def _locate(self, node: torch.fx.Node) -> None:
        """Notes where a node comes from; a backward node takes its forward node's place."""
        seq_nr: Any = None if node.meta.get("is_gradient_acc") else node.meta.get("seq_nr")
        origin = node.meta.get("smex_origin")
        if origin is not None and seq_nr is not None:
            self._origins.setdefault(seq_nr, origin)
        if origin is None:
            origin = self._origins.get(seq_nr, ("", ""))
        region: Any = node.meta.get("smex_region")
        if self._copied is not None:
            number, copied = self._copied
            origin = copied.of(*origin)
            if region is not None and copied.names is not None:
                region = copied.region if region == copied.outer else (number, region)
        self._origin = (*origin, seq_nr)
        self._region = (
            NO_REGION if region is None else self._regions.setdefault(region, len(self._regions))
        )

    def _call(self, node: torch.fx.Node, env: dict) -> None:
        target: Any = node.target
        if target is operator.getitem:
            env[node] = env[node.args[0]][node.args[1]]
            return
        if is_number(node):  # see `AnySizes`
            return
        if target is with_effects and node.args[1] is aten._linalg_check_errors.default:
            self._check_info(node, env)
            env[node] = [None]
            return
        if not isinstance(target, torch._ops.OpOverload):
            raise CaptureError(f"capture: cannot represent the call {node.format_node()}")
        if target in _NO_OUTPUT:
            return
        _refuse_layout(node, self._origin[1])
        source = self._identity(node, env)
        if source is not None:
            env[node] = source
            return
        name, args = self._normalise(node, env)
        loose = target not in _FRESH and any(o.loose for o in self._operands(node, env))
        if target in _VIEWS:
            traced_input = node.all_input_nodes[0].meta["val"]
            exact = not loose and traced_input.is_contiguous()
            target = aten.view.default if exact else aten.reshape.default
            name = "aten::view" if exact else "aten::reshape"
        scattered = self._scattered(name, args)
        if scattered is not None:
            name, target, args = scattered
        expansion = expand(name, args)
        if expansion is None or not self._expand(expansion, node, name, args, env):
            made = node.meta["val"]
            fakes = [made] if isinstance(made, torch.Tensor) else made
            outputs = self._orders.call(name, target, args, fakes)
            if outputs is None:
                outputs = self._outputs(node)
                self._append(name, target, args, outputs)
            self._bind(node, outputs, loose, env)
        self._remember(node, name, args, env)

    def _remember(self, node: torch.fx.Node, name: str, args: list, env: dict) -> None:
        """Notes what is known of a call's results."""
        made = env[node]
        if node.target is aten.t.default:
            self._transposed[made.id] = env[node.args[0]]
        elif name == "aten::full" and args[1] == 0:
            self._zeros.add(made.id)
        elif name in _PERMUTED and made[1] is not None:
            dim = args[2 if name != "aten::sort" else 1]
            self._permuted[made[1].id] = dim % max(len(self._values[made[1].id].shape), 1)

    def _scattered(self, name: str, args: list) -> tuple[str, Any, list] | None:
        """What is written into zeros as one call, which can be cut along the dimension; or None.

        Written at positions that differ, or added up: the gradient of what was chosen by position.
        """
        if name not in ("aten::scatter.src", "aten::scatter_add") or not hasattr(
            torch.ops.smex, "scatter_sum"
        ):
            return None
        zeros, dim, index, source = args
        shape, taken, given = (self._values[v.id].shape for v in (zeros, index, source))
        if zeros.id not in self._zeros or not shape or taken != given:
            return None
        if self._values[index.id].dtype != torch.int64 or len(taken) != len(shape):
            return None
        dim %= len(shape)
        same = all(d == dim or taken[d] == size for d, size in enumerate(shape))
        differ = taken[dim] == 1 or self._permuted.get(index.id) == dim
        if not same or not (differ or name == "aten::scatter_add"):
            return None
        call = torch.ops.smex.scatter_sum.default
        return "smex::scatter_sum", call, [source, index, dim, list(shape), []]

    def _append(self, name: str, target: Any, args: list, outputs: list[int | None]) -> None:
        self._ops.append(self._op(name, target, args, outputs))

    def _op(self, name, dispatch, args, outputs) -> OpRecord:
        path, source, seq_nr = self._origin
        if name in _OUT_EDGES:
            args = [[] if n == _OUT_EDGES[name] else arg for n, arg in enumerate(args)]
        if name == _VALUES_OF_EDGES and len(args) > 4 and args[4] is not None:
            features = [self._values[operand.id].shape[1:] for operand in args[3]]
            if shape_of(Message.parse(args[2]).term, features) == tuple(args[4]):
                args[4] = None  # nothing is summed, and a tile of it has another shape
        return OpRecord(
            -1, name, dispatch, args, outputs, path, source, seq_nr, region=self._region
        )

    def _identity(self, node: torch.fx.Node, env: dict) -> _Operand | None:
        """Returns the operand that a call merely repeats, or None."""
        target = node.target
        # A copy into a tensor repeats what is copied.
        repeated = 1 if target is aten.copy.default else 0
        first = node.args[repeated] if len(node.args) > repeated else None
        if not isinstance(first, torch.fx.Node) or first not in env:
            return None
        operand = env[first]
        before: Any = first.meta.get("val")
        after: Any = node.meta.get("val")
        if target in _IDENTITIES:
            pass
        elif target is aten.t.default and operand.id in self._transposed:
            return self._transposed[operand.id]
        elif target in _VIEWS or target in _PERHAPS_IDENTITIES:
            if before.shape != after.shape or before.dtype != after.dtype:
                return None
        else:
            return None
        same = before is not None and before.stride() == after.stride()
        return _Operand(operand.id, operand.loose or not same)

    def _operands(self, node: torch.fx.Node, env: dict) -> list[_Operand]:
        return [env[n] for n in node.all_input_nodes if isinstance(env.get(n), _Operand)]

    def _normalise(self, node: torch.fx.Node, env: dict) -> tuple[str, list[Any]]:
        """Every schema argument in schema order, defaults filled in, tensors as references."""
        target: Any = node.target
        cached = self._schemas.get(target)
        if cached is None:
            schema = target._schema
            name = schema.name + (f".{schema.overload_name}" if schema.overload_name else "")
            spec = [
                (a.name, a.default_value, str(a.type) in ("Device", "Optional[Device]"))
                for a in schema.arguments
            ]
            cached = self._schemas[target] = (name, spec)
        name, spec = cached
        args = []
        for position, (arg_name, default, is_device) in enumerate(spec):
            if position < len(node.args):
                arg = node.args[position]
            else:
                arg = node.kwargs.get(arg_name, default)
            args.append(None if is_device else self._convert(arg, env))
        return name, args

    def _convert(self, arg: Any, env: dict) -> Any:
        if isinstance(arg, torch.fx.Node):
            if is_number(arg):
                return arg.meta["val"]
            operand = env[arg]  # None where an expansion leaves an output out
            return None if operand is None else ValueRef(operand.id)
        if isinstance(arg, (list, tuple)):
            return [self._convert(item, env) for item in arg]
        return arg

    def _outputs(self, node: torch.fx.Node) -> list[int | None]:
        fakes = node.meta["val"]
        if isinstance(fakes, torch.Tensor):
            return [self._value("", fakes).id]
        return [None if fake is None else self._value("", fake).id for fake in fakes]

    def _bind(self, node: torch.fx.Node, outputs: Sequence[int | None], loose: bool, env) -> None:
        operands = [None if i is None else _Operand(i, loose) for i in outputs]
        env[node] = operands[0] if isinstance(node.meta["val"], torch.Tensor) else operands

    def _check_info(self, node: torch.fx.Node, env: dict) -> None:
        """Leaves the error of a matrix that cannot be factored to whoever reads the factors."""
        info: Any = node.args[2]
        item = info
        while item.target is not operator.getitem:  # a batch is reshaped
            item = item.all_input_nodes[0]
        producer = item.args[0]
        factors = next(n for n in producer.users if n.target is operator.getitem and n.args[1] == 0)
        tensors = [self._as_recorded(n.meta["val"], env[n]) for n in (factors, info)]
        message = f"{node.args[3]}: a matrix is singular, or not positive-definite"
        with torch.no_grad(), self._trace.fake_mode, _Recorder(tensors) as recorder:
            first, second = recorder.operands
            template = recorder.finish([_checked(first, second, message)])
        inner: dict[torch.fx.Node, Any] = {}
        operands = iter((env[factors], env[info]))
        results: Any
        for member in template.nodes:
            if member.op == "placeholder":
                inner[member] = next(operands)
            elif member.op == "output":
                results = member.args[0]
                env[factors] = env[producer][0] = inner[results[0]]
            else:
                self._call(member, inner)

    # Expansions.

    def _expand(self, expansion, node: torch.fx.Node, name: str, args: list, env: dict) -> bool:
        """Inlines the members of an expansion and keeps the call itself beside them.

        False where there is none for these shapes.
        """
        first = len(self._ops)
        template = self._template(expansion, node, name, args, env)
        if template is None:
            return False
        inner: dict[torch.fx.Node, Any] = {}
        operands = iter(n for n in _tensor_nodes(node) if env[n] is not None)
        for member in template.nodes:
            if member.op == "placeholder":
                inner[member] = env[next(operands)]
            elif member.op == "output":
                results = member.args[0]
            else:
                self._call(member, inner)
        outputs = [None if r is None else inner[r].id for r in results]
        fakes = node.meta["val"]
        count = 1 if isinstance(fakes, torch.Tensor) else len(fakes)
        loose = any(operand.loose for operand in self._operands(node, env))
        self._bind(node, outputs[:count], loose, env)
        fused = self._op(name, node.target, args, outputs[:count])
        self._fused.append(_Fused(fused, first, len(self._ops)))
        return True

    def _template(self, expansion, node, name, args, env) -> torch.fx.Graph | None:
        """Returns the expansion of a call of this kind, recorded once for each signature."""
        nodes = [n for n in _tensor_nodes(node) if env[n] is not None]
        tensors = [self._as_recorded(n.meta["val"], env[n]) for n in nodes]
        # Sizes may be symbols, which have no hash.
        signature = [(*t.shape, t.dtype, *t.stride()) for t in tensors]
        key = (name, str(signature), repr(_mapped_refs(args, lambda: "%")))
        if key not in self._templates:
            with torch.no_grad(), self._trace.fake_mode, _Recorder(tensors) as recorder:
                remaining = iter(recorder.operands)
                made = expansion(*_mapped_refs(args, lambda: next(remaining)))
                self._templates[key] = None if made is NotImplemented else recorder.finish(made)
        return self._templates[key]

    def _as_recorded(self, fake: torch.Tensor, operand: _Operand) -> torch.Tensor:
        """A node's fake tensor with the dtype that the record has: expansions may be wider."""
        dtype = self._values[operand.id].dtype
        if fake.dtype == dtype:
            return fake
        with torch.no_grad(), self._trace.fake_mode:
            return fake.to(dtype)

    # The finished graph.

    def _finish(self, result_ids: list[int | None]) -> CapturedGraph:
        live_ops, live = self._live(result_ids)
        renumbered: dict[int, int] = {}
        kept = [v for v in self._values if v.role not in ("intermediate", "constant")]
        kept += [v for v in self._values if v.role == "constant" and v.id in live]
        produced = [i for k in live_ops for i in self._ops[k].outputs if i in live]
        kept += [self._values[i] for i in produced]
        for new, value in enumerate(kept):
            renumbered[value.id] = new
            value.id = new
        op_ids = {old: new for new, old in enumerate(live_ops)}
        ops = [self._renumber(self._ops[k], renumbered, op_ids[k]) for k in live_ops]
        _name(kept, ops)
        fusions = self._fusions(renumbered, op_ids)
        graph = self._assemble(kept, ops, fusions, result_ids, renumbered)
        _mark_backward(graph)
        _sink_backward(graph)
        _number_random_ops(graph)
        return graph

    def _live(self, result_ids: list[int | None]) -> tuple[list[int], set[int]]:
        live = {i for i in result_ids if i is not None}
        kept = []
        for k in range(len(self._ops) - 1, -1, -1):
            op = self._ops[k]
            if not live.isdisjoint(op.outputs):
                kept.append(k)
                live.update(operand_ids(op.args))
                if op.target == _ATTENTION:
                    live.update(i for i in op.outputs if i is not None)
        # A fused call may read what its members do not, which costs nothing where it is there.
        for fused in self._fused:
            operands = operand_ids(fused.op.args)
            live.update(i for i in operands if self._values[i].role == "constant")
        return kept[::-1], live

    def _renumber(self, op: OpRecord, values: dict[int, int], new_id: int) -> OpRecord:
        op.id = new_id
        op.outputs = [None if i is None else values.get(i) for i in op.outputs]
        op.args = [_renumber_arg(arg, values) for arg in op.args]
        return op

    def _fusions(self, values: dict[int, int], op_ids: dict[int, int]) -> list[FusionRecord]:
        fusions = []
        for fused in self._fused:
            members = [op_ids[k] for k in range(fused.first, fused.last) if k in op_ids]
            if len(members) > 1 or (members and fused.op.target in _SOLE_MEMBER):
                # A statistic that only the members' mathematics does not read may be gone.
                fusions.append(FusionRecord(self._renumber(fused.op, values, -1), members))
        return fusions

    def _assemble(self, values, ops, fusions, result_ids, renumbered) -> CapturedGraph:
        traced = self._trace
        first_tangent = len(traced.slots) + len(traced.input_names)
        outputs = []
        by_position: dict[int, Any] = {}
        for result, old in zip(traced.results, result_ids, strict=True):
            if result is None:
                continue
            kind, position = result
            value = None if old is None else renumbered[old]
            if kind == "output":
                by_position[position] = value
                continue
            if kind == "update":
                kind = "input_update" if values[position].role == "input" else "buffer_update"
                if value == position:
                    continue  # unchanged
            outputs.append(OutputRecord(value, kind, values[position].name, position))
        results = [OutputRecord(by_position[k], "output", str(k)) for k in sorted(by_position)]
        tensors = iter(range(len(results)))
        flat_outputs, tangents = [], []
        given = [k for k in traced.tangent_of if k != NOBODY]
        tangent_ids = {k: first_tangent + j for j, k in enumerate(given)}
        for leaf in traced.flat_outputs:
            k = next(tensors) if is_tensor_mark(leaf) else None
            flat_outputs.append(leaf if k is None else ValueRef(by_position[k]))
            tangents.append(None if k is None else tangent_ids.get(k))
        inputs = [v.id for v in values if v.role == "input"]
        remaining = iter(inputs)
        return CapturedGraph(
            values=values,
            ops=ops,
            outputs=results + outputs,
            fusions=fusions,
            inputs=inputs,
            tangents=tangents,
            in_spec=traced.in_spec,
            flat_args=[
                ValueRef(next(remaining)) if isinstance(a, torch.Tensor) else a
                for a in traced.flat_args
            ],
            out_spec=traced.out_spec,
            changes_spec=traced.changes_spec,
            flat_outputs=flat_outputs,
            training=bool(given),
            copies=traced.bodies.copies,
        )


class _Recorder(TorchDispatchMode):
    """Writes the ATen calls of a short function into an FX graph: make_fx without its generality.

    `operands` are what to call the function with: distinct tensors, one for each placeholder.
    """

    def __init__(self, tensors: Sequence[torch.Tensor]) -> None:
        super().__init__()
        self._graph = torch.fx.Graph()
        self._node_of: dict[int, torch.fx.Node] = {}
        self._alive: list[Any] = []  # so that an id stands for one tensor
        self.operands = [tensor.detach() for tensor in tensors]
        for position, operand in enumerate(self.operands):
            self._bind(operand, self._graph.placeholder(f"operand_{position}"))

    def _bind(self, tensor: torch.Tensor, node: torch.fx.Node) -> None:
        node.meta["val"] = tensor
        self._node_of[id(tensor)] = node

    def _nodes(self, arg: Any) -> Any:
        if isinstance(arg, torch.Tensor):
            return self._node_of[id(arg)]
        if isinstance(arg, (list, tuple)):
            return [self._nodes(item) for item in arg]
        if isinstance(arg, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            node = self._graph.create_node("get_attr", "number")
            node.meta["val"] = arg
            return node
        return arg

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        results = func(*args, **kwargs)
        if not isinstance(results, (torch.Tensor, list, tuple)):
            return results  # a question about a tensor, such as its device
        operands = tuple(self._nodes(arg) for arg in args)
        named = {key: self._nodes(arg) for key, arg in kwargs.items()}
        node = self._graph.call_function(func, operands, named)
        self._alive.append(results)
        if isinstance(results, torch.Tensor):
            self._bind(results, node)
            return results
        node.meta["val"] = results
        for position, result in enumerate(results):
            if isinstance(result, torch.Tensor):
                item = self._graph.call_function(operator.getitem, (node, position))
                self._bind(result, item)
        return results

    def finish(self, results: Sequence[torch.Tensor | None]) -> torch.fx.Graph:
        """Returns the graph, whose output lists the results."""
        self._graph.output([None if r is None else self._node_of[id(r)] for r in results])
        return self._graph


def _checked(factors: torch.Tensor, info: torch.Tensor, message: str) -> torch.Tensor:
    """Returns the factors; an error where `info` is not 0."""
    zero = torch.ops.smex.bounded(info, 0, 0, message).to(factors.dtype)
    return factors + zero.view(*info.shape, *[1] * (factors.dim() - info.dim()))


def _refuse_layout(node: torch.fx.Node, line: str) -> None:
    """Tiles are boxes of dense tensors."""
    made = node.meta.get("val")
    for tensor in made if isinstance(made, (list, tuple)) else (made,):
        if isinstance(tensor, torch.Tensor) and tensor.layout is not torch.strided:
            hint = (
                "; make the embedding with sparse=False"
                if "embedding" in str(node.target) or "_sparse_coo" in str(node.target)
                else ""
            )
            raise CaptureError(
                f"capture: {node.target}{f' at {line}' if line else ''} makes a tensor of layout "
                f"{tensor.layout}, which has no boxes to divide{hint}"
            )


def _tensor_nodes(node: torch.fx.Node) -> list[torch.fx.Node]:
    """Returns the tensor arguments of a call in schema order, repeated ones repeated."""
    given = pytree.tree_leaves((*node.args, *node.kwargs.values()))
    return [a for a in given if isinstance(a, torch.fx.Node) and not is_number(a)]


def _mapped_refs(args: Any, function: Callable[[], Any]) -> Any:
    """`args` with what a function returns in the place of each reference, in lists too."""
    if isinstance(args, (list, tuple)):
        return [_mapped_refs(arg, function) for arg in args]
    return function() if isinstance(args, ValueRef) else args


def _renumber_arg(arg: Any, values: dict[int, int]) -> Any:
    if isinstance(arg, ValueRef):
        new = values.get(arg.id)
        return None if new is None else ValueRef(new)
    if isinstance(arg, list):
        return [_renumber_arg(item, values) for item in arg]
    return arg


def _name(values: list[ValueRecord], ops: list[OpRecord]) -> None:
    """Names constants by their number, results by their operator and its number."""
    constants = [value for value in values if value.role == "constant"]
    for n, value in enumerate(constants):
        value.name = f"constant_{n}"
    counts: dict[str, int] = {}
    for op in ops:
        name = op.target.partition("::")[2].partition(".")[0]
        n = counts[name] = counts.get(name, -1) + 1
        name += f"_{n}" * (n > 0)
        for i, output in enumerate(op.outputs):
            if output is not None:
                values[output].name = name if len(op.outputs) == 1 else f"{name}_{i}"


def _mark_backward(graph: CapturedGraph) -> None:
    """Sets `backward` on every op that no result of the forward needs.

    What only gradients need is computed among them, even if no tangent goes into it, so that what
    the forward leaves behind is not larger than what it computes anyway.
    """
    if all(tangent is None for tangent in graph.tangents):
        return
    needed = {out.value for out in graph.outputs if out.kind != "gradient"} - {None}
    for op in reversed(graph.ops):
        op.backward = needed.isdisjoint(op.outputs)
        if not op.backward:
            needed.update(op.inputs())
    for fusion in graph.fusions:
        fusion.fused.backward = all(graph.ops[k].backward for k in fusion.members)


def _sink_backward(graph: CapturedGraph) -> None:
    """Moves backward ops that stand among those of the forward to just before their first reader.

    They run in the backward pass, and what they read is made again for the first of them: at its
    beginning that would save nothing. Members of fusions stay.
    """
    ops = graph.ops
    last = max((op.id for op in ops if not op.backward), default=-1)
    runs_at: dict[int, int] = {}  # members of fusions, which may run where the first one stands
    for fusion in graph.fusions:
        for k in fusion.members:
            runs_at[k] = min(fusion.members[0], runs_at.get(k, k))
    place = {op.id: op.id for op in ops}  # where each goes
    read_at: dict[int, int] = {}  # by value the place of its first reader
    for op in reversed(ops):
        if op.backward and op.id < last and op.id not in runs_at:
            place[op.id] = min(read_at.get(i, len(ops)) for i in op.outputs if i is not None)
        for i in op.inputs():
            read_at[i] = min(runs_at.get(op.id, place[op.id]), read_at.get(i, len(ops)))
    order = sorted(ops, key=lambda op: (place[op.id], op.id))
    numbers = {op.id: n for n, op in enumerate(order)}
    for fusion in graph.fusions:
        fusion.members = sorted(numbers[k] for k in fusion.members)
    for n, op in enumerate(order):
        op.id = n
    graph.ops = order


def _number_random_ops(graph: CapturedGraph) -> None:
    """Gives each random op its own stream of random numbers, and a gradient that of its forward."""
    streams = itertools.count()
    of_result: dict[int, int] = {}
    for op in graph.ops:
        position = stream_position(op)
        if position is None:
            continue
        given = [of_result[i] for i in op.inputs() if i in of_result]
        is_gradient = op.target == f"{_ATTENTION}_backward"
        op.args[position] = given[-1] if is_gradient else next(streams)
        if op.target == _ATTENTION:
            # The sums of exponentials, which nothing but its gradient reads.
            of_result |= {i: op.args[position] for i in op.outputs[1:] if i is not None}
