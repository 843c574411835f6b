"""A graph of a vertex function without what it need not compute."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, fx

from smex.vertex.compile.rows import LINEAR
from smex.vertex.compile.trace import Joint, Operand, UntraceableError
from smex.vertex.words.function import EDGES

aten = torch.ops.aten

# Looks at the memory of its first argument: made again where it is needed, and never kept.
VIEWS = {
    aten.alias.default, aten.detach.default, aten.expand.default, aten.permute.default,
    aten.select.int, aten.slice.Tensor, aten.split.Tensor, aten.split_with_sizes.default,
    aten.squeeze.default, aten.squeeze.dim, aten.squeeze.dims, aten.sym_size.int, aten.t.default,
    aten.transpose.int, aten.unbind.int, aten.unsqueeze.default, aten.view.default,
    aten.chunk.default,
}  # fmt: skip


# The same tensor.
SAME = {aten.alias.default, aten.detach.default}

ZEROS = {aten.new_zeros.default, aten.zeros.default, aten.zeros_like.default}

# Zeros where their first argument is.
KEEP_ZEROS = {
    *LINEAR, *VIEWS, aten.tanh.default, aten.relu.default, aten.sin.default,
    aten.index_select.default, aten.tanh_backward.default, aten.sigmoid_backward.default,
    aten.threshold_backward.default, aten.div.Tensor, operator.getitem,
}  # fmt: skip

# Norms, and which of their arguments is the weight.
WEIGHT_OF = {aten.native_group_norm.default: 1, aten.native_layer_norm.default: 2}

PRODUCTS = {aten.mul.Tensor, aten.mm.default, aten.bmm.default}


def is_view(node: fx.Node) -> bool:
    """Returns whether the node is made again where it is needed."""
    return (
        node.target in VIEWS
        or (is_getitem(node) and is_view(node.args[0]))  # type: ignore[arg-type]
        or (
            node.op == "call_function"
            and not isinstance(node.meta.get("val"), (Tensor, tuple, list))
        )
    )


def is_getitem(node: fx.Node) -> bool:
    """Returns whether the node is one of several results of another."""
    return node.target is operator.getitem


def readers(node: fx.Node) -> list[fx.Node]:
    """Returns the calls that read a value, directly or through views.

    Views of it for themselves.
    """
    found = []
    stack = list(node.users)
    while stack:
        user = stack.pop()
        if is_view(user):
            stack.extend(user.users)
        found.append(user)
    return found


def simplify(joint: Joint) -> None:
    """Changes a graph to one of fewer calls with the same results.

    In-place calls on what nothing else sees become functional ones. Vertices without children
    gather zeros: what is zero because of that is not computed, neither are its gradients. (Zero
    times an infinite parameter counts as zero.)

    Raises:
        UntraceableError: a tensor that others see is changed.
    """
    _correct_statistics(joint.graph)
    _make_functional(joint.graph)
    _drop_aliases(joint)
    _drop_expansions(joint)
    if joint.is_leaf:
        _fold_zeros(joint)
    else:
        _gather_beside(joint)
    _merge_equal(joint)
    _drop_unused(joint)


def _correct_statistics(graph: fx.Graph) -> None:
    """Corrects the types of a norm's means and deviations under autocast.

    Torch's CPU kernels give them the type of the weight, its kernels without values that of the
    rows.
    """
    for node in graph.nodes:
        place = WEIGHT_OF.get(node.args[0].target) if is_getitem(node) else None
        if place is None or node.args[1] == 0:
            continue
        weight, value = node.args[0].args[place], node.meta["val"]
        if weight is not None and value.device.type == "cpu":
            node.meta["val"] = value.to(weight.meta["val"].dtype)


def _drop_aliases(joint: Joint) -> None:
    for node in list(joint.graph.nodes):
        if node.target in SAME:
            replace(joint, node, node.args[0])


def _drop_expansions(joint: Joint) -> None:
    """Lets element-wise calls read a column as it is, in place of its expansion to whole rows.

    What they make of columns alone for others is a column, which is expanded in turn.
    """
    results = {*joint.values.values(), *joint.gradients.values()}
    stack = [n for n in reversed(list(joint.graph.nodes)) if n.target is aten.expand.default]
    while stack:
        node = stack.pop()
        column: Any = node.args[0]
        if not _is_column_of(column, node):
            continue
        for user in list(node.users):
            if not _is_elementwise(user):
                continue
            others = [n for n in user.all_input_nodes if n is not node]
            if any(_is_wide(n, node) for n in others):
                user.replace_input_with(node, column)
                continue
            if any(isinstance(n.meta["val"], Tensor) and n.meta["val"].ndim for n in others):
                continue
            # Others may rely on how it lies in memory, as a view does.
            if user in results or not all(_is_elementwise(reader) for reader in user.users):
                continue
            with joint.graph.inserting_after(user):
                wide = joint.graph.call_function(aten.expand.default, (user, *node.args[1:]))
            wide.meta["val"] = user.meta["val"]
            replace(joint, user, wide)
            wide.update_arg(0, user)
            user.replace_input_with(node, column)
            user.meta["val"] = wide.meta["val"].narrow(-1, 0, 1)
            stack.append(wide)


def _is_column_of(column: fx.Node, node: fx.Node) -> bool:
    """Returns whether a value has the first column alone of another's shape."""
    part, whole = column.meta["val"].shape, node.meta["val"].shape
    is_same = [str(n) for n in part[:-1]] == [str(n) for n in whole[:-1]]
    return is_same and len(whole) > 1 and part[-1] == 1 and whole[-1] != 1


def _is_elementwise(node: fx.Node) -> bool:
    target, value = node.target, node.meta.get("val")
    if not isinstance(target, torch._ops.OpOverload) or node.kwargs:
        return False
    if not isinstance(value, Tensor):
        return False
    is_plain = target is not aten.clone.default and _is_pure(target)
    return is_plain and torch.Tag.pointwise in target.tags


def _is_wide(node: fx.Node, like: fx.Node) -> bool:
    """Returns whether a value has rows as long as another's."""
    value = node.meta["val"]
    return (
        isinstance(value, Tensor)
        and value.ndim > 0
        and value.shape[-1] == like.meta["val"].shape[-1]
    )


def replace(joint: Joint, node: fx.Node, by: Any) -> None:
    """Puts another node for one wherever that is read, and among the results."""
    if by is node:
        return
    node.replace_all_uses_with(by)
    for results in (joint.values, joint.gradients):
        for operand, result in results.items():
            if result is node:
                results[operand] = by


def _gather_beside(joint: Joint) -> None:
    """Children's states that are put side by side are gathered so."""
    given = {operand: node for node, operand in joint.inputs.items()}
    for node in list(joint.graph.nodes):
        if node.target is not aten.cat.default or len(node.args) < 2 or node.args[1] not in (1, -1):
            continue
        operands = [joint.inputs.get(part) for part in node.args[0]]
        first = operands[0]
        if first is None or first.role != "gather" or len(node.meta["val"].shape) != 2:
            continue
        if operands != [Operand("gather", first.name, i) for i in range(len(operands))]:
            continue
        beside = Operand("beside", first.name, len(operands))
        if beside not in given:
            with joint.graph.inserting_before(given[Operand("gather", first.name, 0)]):
                given[beside] = joint.graph.placeholder(f"beside_{first.name}")
            given[beside].meta["val"] = node.meta["val"]
            joint.inputs[given[beside]] = beside
        replace(joint, node, given[beside])


def _merge_equal(joint: Joint) -> None:
    """Puts one call in place of several with equal arguments, other than draws."""
    seen: dict[Any, fx.Node] = {}
    for node in list(joint.graph.nodes):
        if node.op != "call_function" or not _is_pure(node.target):
            continue
        key = (node.target, _hashable(node.args), _hashable(node.kwargs))
        if key in seen:
            replace(joint, node, seen[key])
        else:
            seen[key] = node


def _is_pure(target: Any) -> bool:
    """Returns whether equal arguments give equal results."""
    if not isinstance(target, torch._ops.OpOverload):
        return target is operator.getitem
    return not target._schema.is_mutable and torch.Tag.nondeterministic_seeded not in target.tags


def _hashable(value: Any) -> Any:
    if isinstance(value, Mapping):
        return tuple((name, _hashable(value[name])) for name in sorted(value))
    if isinstance(value, (tuple, list)):
        return tuple(_hashable(one) for one in value)
    return (type(value), value)  # 1, 1.0 and True are equal


def _fold_zeros(joint: Joint) -> None:
    """Drops what is zero for vertices without children."""
    zeros: set[fx.Node] = set()
    for node in list(joint.graph.nodes):
        if node.op != "call_function":
            continue
        if _is_zero(node, zeros):
            zeros.add(node)
        elif (simpler := _without_zero(node, zeros)) is not None:
            replace(joint, node, simpler)
        elif node.target is aten.addmm.default and set(node.args[1:]) & zeros and not node.kwargs:
            replace(joint, node, _repeated(joint, node, node.args[0]))
    given = {operand: node for node, operand in joint.inputs.items()}
    for operand, node in list(joint.gradients.items()):
        if node not in zeros:
            continue
        # Made of the parameter alone, unlike what the gradient was computed from.
        with joint.graph.inserting_after(given[operand]):
            zero = joint.graph.call_function(aten.zeros_like.default, (given[operand],))
        zero.meta["val"] = given[operand].meta["val"]
        joint.gradients[operand] = zero


def _is_zero(node: fx.Node, zeros: set[fx.Node]) -> bool:
    """Returns whether a call gives zeros, as some of its arguments are."""
    target, args = node.target, node.args
    if target in ZEROS:
        return True
    if target is aten.div.Tensor and args[1] in zeros:
        return False
    if target in KEEP_ZEROS:
        return args[0] in zeros
    if target in PRODUCTS:
        return any(arg in zeros for arg in args)
    if target is aten.add.Tensor or target is aten.sub.Tensor:
        return all(arg in zeros for arg in args[:2])
    if target is aten.cat.default:
        return all(arg in zeros for arg in args[0])  # type: ignore[union-attr]
    if target is aten.index_add.default:
        return args[0] in zeros and (args[3] in zeros or _has_no_rows(args[3]))
    return False


def _has_no_rows(value: Any) -> bool:
    """Returns whether it has a row for each edge, of which there are none."""
    rows = value.meta["val"].shape[0]
    return not isinstance(rows, int) and rows.node.hint == EDGES


def _without_zero(node: fx.Node, zeros: set[fx.Node]) -> fx.Node | None:
    """Returns what a sum is without the term that is zero; None where there is no such term."""
    if node.target not in (aten.add.Tensor, aten.sub.Tensor):
        return None
    first, second = node.args[:2]
    if second in zeros:
        rest = first
    elif first in zeros and node.target is aten.add.Tensor and not node.kwargs:
        rest = second
    else:
        return None
    return rest if is_like(rest, node) else None  # type: ignore[return-value]


def is_like(arg: Any, node: fx.Node) -> bool:
    """Returns whether an argument has the shape and type of a node's value."""
    value = arg.meta.get("val") if isinstance(arg, fx.Node) else None
    whole = node.meta["val"]
    return (
        isinstance(value, Tensor)
        and [str(n) for n in value.shape] == [str(n) for n in whole.shape]
        and value.dtype == whole.dtype
    )


def ancestors(nodes: Iterable[fx.Node]) -> set[fx.Node]:
    """Returns the nodes, and all that they are computed from."""
    found: set[fx.Node] = set()
    stack = list(nodes)
    while stack:
        node = stack.pop()
        if node not in found:
            found.add(node)
            stack.extend(node.all_input_nodes)
    return found


def _repeated(joint: Joint, node: fx.Node, row: Any) -> fx.Node:
    """Returns the same row for each vertex, in place of a node's value."""
    for user in list(node.users):  # which broadcast it themselves
        others = [arg for arg in user.args if arg is not node]
        is_sum = user.target is aten.add.Tensor and not user.kwargs
        if is_sum and len(others) == 1 and is_like(others[0], user):
            user.replace_input_with(node, row)
    counts = next(n for n, operand in joint.inputs.items() if operand.role == "counts")
    value = node.meta["val"]
    if str(value.shape[0]) != str(counts.meta["val"].shape[0]):
        return node
    graph = joint.graph
    with graph.inserting_before(node):
        rows = graph.call_function(aten.sym_size.int, (counts, 0))
        whole = graph.call_function(aten.expand.default, (row, [rows, *value.shape[1:]]))
        own = graph.call_function(aten.clone.default, (whole,))
    rows.meta["val"] = value.shape[0]
    whole.meta["val"] = own.meta["val"] = value
    return own


def _drop_unused(joint: Joint) -> None:
    """Removes calls that nothing needs."""
    used = ancestors([*joint.values.values(), *joint.gradients.values()])
    output = next(n for n in joint.graph.nodes if n.op == "output")
    output.args = ([*joint.values.values(), *joint.gradients.values()],)
    for node in reversed(list(joint.graph.nodes)):
        if node.op == "call_function" and node not in used and not node.users:
            joint.graph.erase_node(node)


def _make_functional(graph: fx.Graph) -> None:
    """In-place calls on a tensor that nothing else sees become ordinary ones.

    Raises:
        UntraceableError: a tensor that others see is changed.
    """
    for node in list(graph.nodes):
        if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload):
            continue
        schema = node.target._schema
        if not schema.is_mutable:
            continue
        changed = node.args[0]
        name = schema.name.split("::")[1]
        functional = _functional(name, node)
        is_local = (
            isinstance(changed, fx.Node)
            and changed.op == "call_function"
            and changed.target not in VIEWS
            and set(changed.users) == {node}
        )
        if functional is None or not is_local:
            raise UntraceableError(f"{node.target} changes a tensor in place")
        node.target = functional
        if functional is aten.bernoulli.p and len(node.args) == 1:
            node.args = (*node.args, 0.5)  # which is the default of the in-place one alone


def _functional(name: str, node: fx.Node) -> Any:
    """Returns the overload that computes what an in-place one does."""
    packet = getattr(aten, name.rstrip("_"), None)
    if packet is None or not name.endswith("_"):
        return None
    if name == "bernoulli_":
        return aten.bernoulli.p
    wanted = _argument_types(node.target)
    overloads = [getattr(packet, overload) for overload in packet.overloads()]
    fitting = [o for o in overloads if _argument_types(o) == wanted and not o._schema.is_mutable]
    return fitting[0] if fitting else None


def _argument_types(overload: Any) -> list[str]:
    return [str(argument.type) for argument in overload._schema.arguments]
