"""What a model keeps of a call beyond it: nothing of it would have a value when the graph runs."""

from __future__ import annotations

import dataclasses
import gc
import weakref
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch._subclasses import FakeTensor
from torch._subclasses.functional_tensor import FunctionalTensor
from torch.fx import Node

from smex.capture.holders import Place, places
from smex.errors import CaptureError

# The native library, which every import of smex loads first, defines them.
_DRAWS = (torch.ops.smex.uniform.default, torch.ops.smex.dropout_mask.default)


@dataclasses.dataclass
class _Made:
    """A tensor that was made while the model was traced."""

    tensor: weakref.ref[torch.Tensor]
    place: str
    varies: bool | None  # with the call's inputs or by chance; None: no graph was made


class Ledger:
    """The tensors that a model makes while it is traced, and what each depends on."""

    def __init__(self, num_state: int) -> None:
        self.taken = ""  # which tensor the last sweep has found, and where
        self._num_state = num_state
        self._made: dict[int, _Made] = {}
        self._varies: dict[Node, bool] = {}
        self._position: dict[Node, int] = {}

    def note(self, result: Any, nodes: Iterable[Node], path: str, line: str) -> None:
        """Takes down what a call returned, and the nodes that it added to the graph, oldest first.

        Args:
            result: of the call.
            nodes: none where no graph is made.
            path: of the module.
            line: of the user's code.
        """
        known = False
        varies = False
        for node in nodes:
            known = True
            varies = self._node_varies(node)
        for tensor in result if isinstance(result, (list, tuple)) else (result,):
            if is_traced(tensor) and (known or id(tensor) not in self._made):
                place = f"made{f' at {line}' * bool(line)}{f' in module {path!r}' * bool(path)}"
                self._add(tensor, place, varies if known else None)

    def note_given(self, state: Iterable[Any], inputs: Iterable[Any]) -> None:
        """Takes down the tensors that stand for the model's state and inputs."""
        for tensor in state:
            self._add(tensor, "of the model's state", varies=False)
        for tensor in inputs:
            self._add(tensor, "of the model's inputs", varies=True)

    def _add(self, tensor: torch.Tensor, place: str, varies: bool | None) -> None:
        self._made[id(tensor)] = _Made(weakref.ref(tensor), place, varies)

    def _node_varies(self, node: Node) -> bool:
        if node not in self._varies:
            if node.op == "placeholder":
                if node not in self._position:
                    self._position = {each: n for n, each in enumerate(_placeholders(node.graph))}
                found = self._position[node] >= self._num_state
            else:
                tags = getattr(node.target, "tags", ())
                chance = torch.Tag.nondeterministic_seeded in tags or node.target in _DRAWS
                found = chance or any(map(self._node_varies, node.all_input_nodes))
            self._varies[node] = found
        return self._varies[node]

    def of(self, tensor: torch.Tensor) -> _Made | None:
        """Returns what is known of a tensor."""
        made = self._made.get(id(tensor))
        return made if made is not None and made.tensor() is tensor else None

    def sweep(self, refuse: bool) -> None:
        """Takes the tensors that are still kept out of the dicts and lists that keep them.

        To be called when the tracer is done. Those that depend on parameters and buffers alone are
        a cache, which is filled anew when it is needed.

        Raises:
            CaptureError: `refuse`, and one varies with the inputs.
        """
        if refuse and any(made.varies for made, _ in self._places()):
            gc.collect()  # what only a cycle keeps is gone afterwards
        found = list(self._places())
        concerns = [(made, place) for made, place in found if made.varies or not refuse]
        self.taken = ""
        if concerns:
            made, place = min(concerns, key=lambda each: each[1].depth)
            self.taken = f"{made.place} is kept {place}"
        for _, place in found:
            place.clear()
        self._made.clear()
        if refuse and self.taken:
            raise CaptureError(
                f"capture: a tensor {self.taken} beyond the call, where a divided model never "
                "writes it; return it from the model instead"
            )

    def _places(self) -> Iterator[tuple[_Made, Place]]:
        """Yields where tensors are kept."""
        kept = [made for made in self._made.values() if made.tensor() is not None]
        if not kept:
            return
        tensors = [made.tensor() for made in kept]
        of = {id(tensor): made for made, tensor in zip(kept, tensors, strict=True)}
        for place in places(tensors):
            yield of[id(place.thing)], place


def is_traced(thing: Any) -> bool:
    """Returns whether it is a tensor that stands for numbers only while a tracer runs."""
    return isinstance(thing, (FunctionalTensor, FakeTensor))


def _placeholders(graph: torch.fx.Graph) -> list[Node]:
    return [node for node in graph.nodes if node.op == "placeholder"]
