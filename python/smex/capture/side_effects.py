"""What a model keeps of a call beyond it: nothing of it would have a value when the graph runs."""

from __future__ import annotations

import collections
import dataclasses
import gc
import types
import weakref
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch._subclasses import FakeTensor
from torch._subclasses.functional_tensor import FunctionalTensor
from torch.fx import Node
from torch.utils import _pytree as pytree

import smex._C  # type: ignore[import-not-found,unused-ignore]  # noqa: F401  (defines smex::uniform)
from smex.errors import CaptureError

_CONTAINERS = (dict, list, set, collections.OrderedDict, collections.defaultdict, collections.deque)
_MODULE_STATE = frozenset(vars(torch.nn.Module()))
_ABSENT = object()
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
            if _is_traced(tensor) and (known or id(tensor) not in self._made):
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
        """What is known of a tensor."""
        made = self._made.get(id(tensor))
        return made if made is not None and made.tensor() is tensor else None

    def sweep(self, refuse: bool) -> None:
        """Takes the tensors that are still kept out of the dicts and lists that keep them.

        To be called when the tracer is done. Those that depend on parameters and buffers alone are
        a cache, which is filled anew when it is needed.

        Raises:
            CaptureError: `refuse`, and one varies with the inputs.
        """
        kept = [(m, tensor) for m in self._made.values() if (tensor := m.tensor()) is not None]
        self._made.clear()
        if not kept:
            return
        found: list[tuple[bool, str]] = []
        tensors = tuple(tensor for _, tensor in kept)
        for holder in gc.get_referrers(*tensors):
            for made, tensor in kept if holder is not tensors else []:
                where = _taken_from(holder, tensor)
                if where and made.varies:
                    # What keeps one tensor alive may keep others in the tracer's own variables.
                    text = f"{made.place} is kept {where}"
                    found.append((isinstance(holder, types.CellType), text))
        if refuse and found:
            raise CaptureError(
                f"capture: a tensor {min(found)[1]} beyond the call, where a divided model never "
                "writes it; return it from the model instead"
            )


def _is_traced(thing: Any) -> bool:
    """Whether it is a tensor that stands for numbers only while a tracer runs."""
    return isinstance(thing, (FunctionalTensor, FakeTensor))


def _placeholders(graph: torch.fx.Graph) -> list[Node]:
    return [node for node in graph.nodes if node.op == "placeholder"]


def _taken_from(holder: Any, tensor: torch.Tensor | None) -> str:
    """Removes a tensor from what holds it; where that was, or nothing."""
    if isinstance(holder, dict):
        keys = [key for key, value in holder.items() if value is tensor]
        for key in keys:
            del holder[key]
        return f"under {keys[0]!r} in a dict" if keys else ""
    if isinstance(holder, (list, collections.deque)):
        places = [n for n, value in enumerate(holder) if value is tensor]
        for n in reversed(places):
            del holder[n]
        return f"in a {type(holder).__name__}" if places else ""
    if isinstance(holder, types.CellType):
        return "in a variable of an enclosing function"
    return ""


class Attributes:
    """What modules keep beside parameters, buffers and submodules, as it is before a call.

    Python runs once, or twice, when a model is captured, and never again: an attribute that the
    model sets is put back.
    """

    def __init__(self, *models: Callable | None) -> None:
        modules: dict[int, tuple[str, torch.nn.Module]] = {}
        for model in models:
            if isinstance(model, torch.nn.Module):
                for name, module in model.named_modules():
                    modules.setdefault(id(module), (name, module))
        self._before = [
            (
                name,
                module,
                {key: (item, _copy(item)) for key, item in attributes_of(module).items()},
            )
            for name, module in modules.values()
            if not isinstance(module, torch.jit.ScriptModule)
        ]

    def put_back(self, ledger: Ledger, tell: Callable[[str], None]) -> None:
        """Restores all attributes; `tell` is given the text of a warning for each counter.

        Raises:
            CaptureError: the model has kept a tensor that varies with the inputs.
        """
        refused = ""
        for name, module, before in self._before:
            now = attributes_of(module)
            for key in before.keys() | now.keys():
                old, content = before.get(key, (_ABSENT, None))
                new = now.get(key, _ABSENT)
                if new is old and _is_same(new, content):
                    continue
                path = f"{name}.{key}" if name else key
                refused = refused or _refusal(path, new, ledger)
                if _is_number(old) and _is_number(new):
                    tell(
                        f'capture: the model changes its attribute "{path}" from {old} to {new} '
                        "when it is called; a captured model does not: it stays as it was. "
                        "Register a buffer if results depend on it"
                    )
                _restore(module, key, old, content)
        if refused:
            raise CaptureError(refused)


def attributes_of(module: torch.nn.Module) -> dict[str, Any]:
    """What a module has of its own beside parameters, buffers, submodules and hooks."""
    return {key: value for key, value in vars(module).items() if key not in _MODULE_STATE}


def _copy(value: Any) -> Any:
    """A container's content now; None for what is no container."""
    return value.copy() if type(value) in _CONTAINERS else None


def _is_same(value: Any, content: Any) -> bool:
    if content is None:
        return True
    if len(value) != len(content):
        return False
    if isinstance(value, dict):
        return all(key in value and value[key] is item for key, item in content.items())
    if isinstance(value, set):
        return value == content
    return all(a is b for a, b in zip(value, content, strict=True))


def _restore(module: torch.nn.Module, key: str, old: Any, content: Any) -> None:
    if old is _ABSENT:
        del module.__dict__[key]
        return
    module.__dict__[key] = old
    if content is not None:
        old.clear()
        old.extend(content) if isinstance(old, (list, collections.deque)) else old.update(content)


def _refusal(path: str, new: Any, ledger: Ledger) -> str:
    """Why a new value of an attribute cannot be, or nothing."""
    for leaf in pytree.tree_leaves(new):
        made = ledger.of(leaf) if isinstance(leaf, torch.Tensor) else None
        if made is not None and made.varies:
            return (
                f'capture: the model keeps a tensor {made.place} as its attribute "{path}", which '
                "a divided model never writes: return the tensor instead, or register a buffer of "
                "its shape under that name, which calls hand on"
            )
    return ""


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and type(value) is not bool
