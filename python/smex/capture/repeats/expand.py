"""The bodies in a traced graph, and whether their calls may be copied."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.fx import Node

from smex.capture.repeats.copies import Additions, NotRepeatedError, Origin
from smex.capture.repeats.operators import ENTER, LEAVE, REPEAT

_LIFTS = (torch.ops.aten.lift_fresh.default, torch.ops.aten.lift_fresh_copy.default)


class Body:
    """The calls between an `enter` and its `leave`.

    Attributes:
        forward: the body whose results these may read, itself where it is a forward one.
        constants: nodes outside that these read.
        arrivals: by node, which results are there after it.
    """

    def __init__(self, enter: Node, members: list[Node], leave: Node, forward: Body | None):
        self.enter = enter
        self.members = members
        self.leave = leave
        self.forward = forward or self
        self.constants: list[Node] = []
        self.arrivals: dict[Node, list[int]] = {}

    @property
    def is_backward(self) -> bool:
        """Whether it is of a backward pass."""
        return self.forward is not self


class Bodies:
    """What is copied in a graph.

    Args:
        graph: that was traced.
        origins: of the calls, by number.
        additions: of the calls' gradients.

    Attributes:
        members: nodes that a body has.
        sums: of an `enter` or a `repeat` the additions of a result to what came before it: by the
            result's number the node that picks it and the addition.

    Raises:
        NotRepeatedError: calls depend on what differs from copy to copy.
    """

    def __init__(
        self,
        graph: torch.fx.Graph,
        origins: dict[int, Origin] | None = None,
        additions: Additions | None = None,
    ) -> None:
        self.origins = origins or {}
        self.sums: dict[Node, dict[int, tuple[Node, Node]]] = {}
        self.members: set[Node] = set()
        self._of: dict[int, Body] = {}
        if not self.origins or additions is None:
            return
        self._find(graph)
        for body in self._of.values():
            self._check_inputs(body)
        for body in self._of.values():
            self._check_users(body)
            self._check_names(body)
        for number, body in self._of.items():
            for result, node, sums in additions.arrivals.get(number, ()):
                while node._erased:  # nothing read it
                    node = node._prev
                while sums and _is_sum(node._next):
                    node, sums = node._next, sums - 1
                body.arrivals.setdefault(node, []).append(result)
        for node in graph.nodes:
            if node.target is ENTER or node.target is REPEAT:
                self._find_sums(node, additions.summed.get(node.args[1:3], ()))

    def body(self, node: Node) -> Body:
        """Returns the body of an `enter` or a `repeat`."""
        return self._of[node.args[1]]  # type: ignore[index]

    @property
    def copies(self) -> int:
        """How many calls are copied."""
        return sum(origin.names is not None for origin in self.origins.values())

    def _find(self, graph: torch.fx.Graph) -> None:
        forward: dict[int, Body] = {}  # by number of the call that was traced
        enter: Node | None = None
        members: list[Node] = []
        for node in graph.nodes:
            if node.target is ENTER:
                enter, members = node, []
            elif node.target is LEAVE:
                assert enter is not None
                first = self.origins[enter.args[2]].first  # type: ignore[index]
                body = Body(enter, members, node, forward.get(first))
                forward.setdefault(first, body)
                self._of[enter.args[1]] = body  # type: ignore[index]
                self.members.update(members)
                self.members.add(node)
                enter = None
            elif enter is not None:
                members.append(node)

    def _check_inputs(self, body: Body) -> None:
        own = {*body.members, body.enter}
        if body.is_backward:
            own |= {*body.forward.members, body.forward.enter}
        seen: dict[Node, None] = {}
        for member in (*body.members, body.leave):
            for node in member.all_input_nodes:
                if node not in own and not is_number(node):
                    seen[node] = None
        for node in seen:
            if not _is_constant(node):
                raise NotRepeatedError(f"a call reads {node.name}, which it was not given")
        body.constants = list(seen)

    def _check_users(self, body: Body) -> None:
        for member in (body.enter, *body.members):
            for user in member.users:
                if user not in self.members and not (_is_constant(member) or is_number(member)):
                    raise NotRepeatedError(f"{user.name} reads what is inside of a call")

    def _check_names(self, body: Body) -> None:
        """Every module of a body has a counterpart in each copy."""
        first = self.origins[body.forward.enter.args[2]].first  # type: ignore[index]
        names = {node.meta["smex_origin"][0] for node in body.members if "smex_origin" in node.meta}
        names.discard("")
        for origin in self.origins.values():
            if origin.first == first and origin.names is not None and names - origin.names.keys():
                raise NotRepeatedError("a call calls a module that is not its own")

    def _find_sums(self, node: Node, summed: Sequence[int]) -> None:
        """A gradient of several parts is summed in the order in which they come."""
        body = self._of[node.args[1]]  # type: ignore[index]
        if not body.is_backward:
            return
        parts: tuple[Node, ...] = body.leave.args[0]  # type: ignore[assignment]
        made = node if node.target is REPEAT else body.leave
        for user in made.users:
            number: int = user.args[1]  # type: ignore[assignment]
            sums = [each for each in user.users if _is_sum(each) and each.args[1] is user]
            if sums and number in summed:
                if _is_sum(parts[number]):
                    raise NotRepeatedError("a gradient is summed in another order")
                self.sums.setdefault(node, {})[number] = (user, sums[0])


def _is_sum(node: Node) -> bool:
    return bool(node.meta.get("is_gradient_acc")) and node.target is torch.ops.aten.add.Tensor


def is_number(node: Node) -> bool:
    """Returns whether a node computes with sizes, which are those of all calls."""
    number = (int, float, torch.SymInt, torch.SymFloat, torch.SymBool)
    return isinstance(node.meta.get("val"), number)


def _is_constant(node: Node) -> bool:
    while node.target in _LIFTS:
        node = node.all_input_nodes[0]
    return node.op == "get_attr"
