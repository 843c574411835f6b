"""Objects that hold tensors, as arguments and results of a model: what pytrees do not know.

A dataclass, a cache of keys and values of transformers, a `Data` of PyG or a graph of `smex.graph`
is packed into a node of a pytree, whose leaves are its tensors, and made anew where a model reads
it. What a model changes of it is written back into the caller's own. Whatever else holds a tensor
is refused by name: captured as it is, it would be a constant on the way in and nothing on the way
out.
"""

from __future__ import annotations

import collections
import copy
import dataclasses
import functools
import sys
import types
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import torch
from torch._subclasses import FakeTensor
from torch.utils import _pytree as pytree

from smex.errors import SmexTypeError


class Same:
    """An object, equal to itself alone."""

    __slots__ = ("thing",)

    def __init__(self, thing: Any):
        self.thing = thing

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and other.thing is self.thing

    def __hash__(self) -> int:
        return id(self.thing)

    def __repr__(self) -> str:
        return f"{type(self.thing).__name__} at {id(self.thing):#x}"


class Kind(Protocol):
    """How the objects of one kind are taken apart and made."""

    def matches(self, thing: Any) -> bool:
        """Returns whether it is of this kind."""

    def read(self, thing: Any) -> dict[str, Any]:
        """Its parts by name."""

    def identity(self, thing: Any) -> Hashable:
        """Returns what two objects of one class that have the same parts may still differ in."""

    def blank(self, template: Any) -> Any:
        """Returns one like `template` without its tensors, to be filled by `write`."""

    def write(self, thing: Any, parts: Mapping[str, Any]) -> None:
        """Gives it these parts in place of its own."""


class _Attributes:
    """Objects that are their attributes: dataclasses, and caches of transformers.

    Those that are dicts too have the dict's content as one more part.
    """

    def matches(self, thing: Any) -> bool:
        is_cache = any(c.__module__ == "transformers.cache_utils" for c in type(thing).__mro__)
        return (dataclasses.is_dataclass(thing) or is_cache) and not isinstance(
            thing, (type, torch.nn.Module)
        )

    def read(self, thing: Any) -> dict[str, Any]:
        fields = dataclasses.fields(thing) if dataclasses.is_dataclass(thing) else ()
        parts = {f.name: getattr(thing, f.name) for f in fields if hasattr(thing, f.name)}
        parts |= own_attributes(thing)
        return parts | {_ITEMS: dict(thing.items())} if isinstance(thing, dict) else parts

    def identity(self, thing: Any) -> Hashable:
        return None

    def blank(self, template: Any) -> Any:
        return _builtin(template).__new__(type(template))

    def write(self, thing: Any, parts: Mapping[str, Any]) -> None:
        for name in own_attributes(thing).keys() - parts.keys():
            object.__delattr__(thing, name)
        for name, part in parts.items():
            if name != _ITEMS:
                object.__setattr__(thing, name, part)  # of frozen dataclasses too
        if _ITEMS in parts:
            base = _builtin(thing)
            base.clear(thing)
            for key, item in parts[_ITEMS].items():
                base.__setitem__(thing, key, item)


_ITEMS = "items()"
"""The part that is a dict's content: no attribute has that name."""

_HEAP_TYPE = 1 << 9
"""Py_TPFLAGS_HEAPTYPE: of classes that are made by a class statement."""


_OTHERS = frozenset({"torch", "smex", "numpy", *sys.stdlib_module_names})
"""Packages whose objects are not made of attributes that a model sets."""


def is_of_user(thing: Any) -> bool:
    """Whether it is an object of a class of the model's author, or of a library that models use."""
    cls = type(thing)
    if isinstance(thing, (type, torch.Tensor, torch.autograd.function.FunctionCtx)):
        return False
    return bool(cls.__flags__ & _HEAP_TYPE) and cls.__module__.partition(".")[0] not in _OTHERS


def _builtin(thing: Any) -> Any:
    """Returns what Python itself makes of an object: `object`, `dict`, `OrderedDict`."""
    return next(cls for cls in type(thing).__mro__ if not cls.__flags__ & _HEAP_TYPE)


def slot_names(thing: Any) -> list[str]:
    """Returns the inner names of an object's slots: of `__a` that with the name of its class."""
    return [
        name
        for cls in type(thing).__mro__
        if "__slots__" in vars(cls)
        for name, member in vars(cls).items()
        if isinstance(member, types.MemberDescriptorType)
    ]


def own_attributes(thing: Any) -> dict[str, Any]:
    """What an object of a class statement keeps: attributes, and slots by their inner names."""
    slots = {name: getattr(thing, name) for name in slot_names(thing) if hasattr(thing, name)}
    attributes = getattr(thing, "__dict__", None)
    return slots | attributes if isinstance(attributes, dict) else slots


class _PyGData:
    """`Data`, `HeteroData` and their batches of PyG: a mapping for each type."""

    def matches(self, thing: Any) -> bool:
        return any(
            c.__module__ == "torch_geometric.data.data" and c.__name__ == "BaseData"
            for c in type(thing).__mro__
        )

    def read(self, thing: Any) -> dict[str, Any]:
        stores = {f"store {n}": dict(store.items()) for n, store in enumerate(thing.stores)}
        own = {name: part for name, part in vars(thing).items() if not _is_store(name)}
        return {**stores, "own": own}

    def identity(self, thing: Any) -> Hashable:
        return tuple(str(store._key) for store in thing.stores)

    def blank(self, template: Any) -> Any:
        empty = copy.copy(template)
        for store in empty.stores:
            store._mapping = {}
        for name in [name for name in vars(empty) if not _is_store(name)]:
            empty.__dict__[name] = None
        return empty

    def write(self, thing: Any, parts: Mapping[str, Any]) -> None:
        for number, store in enumerate(thing.stores):
            known = parts[f"store {number}"]
            for name in set(store.keys()) - known.keys():
                del store[name]
            for name, part in known.items():
                store[name] = part
        for name, part in parts["own"].items():
            thing.__dict__[name] = part


def _is_store(name: str) -> bool:
    """Returns whether an attribute of a PyG object is where its tensors are."""
    return name.endswith(("_store", "_store_dict"))


class _Graph:
    """Graphs of `smex.graph`: features are parts, the structure is what tells graphs apart."""

    def matches(self, thing: Any) -> bool:
        return any(
            c.__module__ == "smex.graph.core.graph_core" and c.__name__ == "GraphCore"
            for c in type(thing).__mro__
        )

    def _frames(self, thing: Any) -> dict[str, Any]:
        frames = {f"source {name}": frame for name, frame in thing._src_frames.items()}
        if thing._is_block:
            frames |= {f"destination {name}": f for name, f in thing._dst_frames.items()}
        return frames | {f"edge {name}": frame for name, frame in thing._edge_frames.items()}

    def read(self, thing: Any) -> dict[str, Any]:
        return {name: dict(frame.items()) for name, frame in self._frames(thing).items()}

    def identity(self, thing: Any) -> Hashable:
        held = (
            thing._relations,  # the objects: a structure never changes
            thing._batch_num_nodes or {},
            thing._batch_num_edges or {},
        )
        numbers = (thing._src_num_nodes, thing._dst_num_nodes)
        return (
            thing._is_block,
            *[tuple(of_type.items()) for of_type in numbers],
            *[tuple((key, Same(each)) for key, each in of_type.items()) for of_type in held],
        )

    def blank(self, template: Any) -> Any:
        empty = template.local_var()
        for frame in self._frames(empty).values():
            frame.clear()
        return empty

    def write(self, thing: Any, parts: Mapping[str, Any]) -> None:
        for name, frame in self._frames(thing).items():
            known = parts[name]
            for feature in set(frame.keys()) - known.keys():
                del frame[feature]
            for feature, part in known.items():
                if feature not in frame or frame[feature] is not part:
                    frame[feature] = part


_KINDS: tuple[Kind, ...] = (_Graph(), _PyGData(), _Attributes())


def kind_of(thing: Any) -> Kind | None:
    """Returns what takes an object apart; None for a leaf."""
    if isinstance(thing, (torch.Tensor, int, float, str, bytes, type(None), type)):
        return None
    return next((kind for kind in _KINDS if kind.matches(thing)), None)


@dataclasses.dataclass(frozen=True)
class _Made:
    """What a packed object is made of, but for its parts. Templates do not tell objects apart."""

    kind: Kind
    cls: type
    names: tuple[str, ...]
    identity: Hashable
    template: Any = dataclasses.field(compare=False, repr=False)


class _Packed:
    """An object taken apart: a node of a pytree."""

    def __init__(self, made: _Made, parts: list[Any]):
        self.made = made
        self.parts = parts


@dataclasses.dataclass(frozen=True)
class _Known:
    """Stands for an object that was packed before: by its number."""

    number: int


def _flatten(packed: _Packed) -> tuple[list[Any], _Made]:
    return packed.parts, packed.made


def _flatten_with_keys(packed: _Packed) -> tuple[list[tuple[Any, Any]], _Made]:
    keys = [pytree.GetAttrKey(name) for name in packed.made.names]
    return list(zip(keys, packed.parts, strict=True)), packed.made


pytree.register_pytree_node(
    _Packed,
    _flatten,
    lambda parts, made: _Packed(made, list(parts)),
    flatten_with_keys_fn=_flatten_with_keys,
    serialized_type_name="smex.capture.objects._Packed",
)


class Objects:
    """The objects of one call, in the order in which they were met."""

    def __init__(self) -> None:
        self.found: list[Any] = []
        self._number: dict[int, int] = {}

    def _note(self, thing: Any) -> None:
        self._number[id(thing)] = len(self.found)
        self.found.append(thing)

    def pack(self, tree: Any) -> Any:
        """A pytree whose leaves are tensors and what holds none, but for what cannot be packed."""
        if not _has_objects(tree):
            return tree
        return pytree.tree_map(self._pack_leaf, tree)

    def _pack_leaf(self, leaf: Any) -> Any:
        kind = kind_of(leaf)
        if kind is None:
            return leaf
        if id(leaf) in self._number:
            return _Known(self._number[id(leaf)])
        self._note(leaf)
        return self._take(kind, leaf)

    def _take(self, kind: Kind, thing: Any) -> _Packed:
        parts = kind.read(thing)
        made = _Made(kind, type(thing), tuple(parts), kind.identity(thing), kind.blank(thing))
        return _Packed(made, [self.pack(part) for part in parts.values()])

    def unpack(self, tree: Any) -> Any:
        """Objects made of what `pack` returned, or of leaves in its place."""
        return pytree.tree_map(
            self._unpack_leaf, tree, is_leaf=lambda node: isinstance(node, (_Packed, _Known))
        )

    def _unpack_leaf(self, leaf: Any) -> Any:
        if isinstance(leaf, _Known):
            return self.found[leaf.number]
        if not isinstance(leaf, _Packed):
            return leaf
        thing = leaf.made.kind.blank(leaf.made.template)
        self._note(thing)  # before its parts, as `pack` does
        self._fill(thing, leaf)
        return thing

    def _fill(self, thing: Any, packed: _Packed) -> None:
        parts = [self.unpack(part) for part in packed.parts]
        packed.made.kind.write(thing, dict(zip(packed.made.names, parts, strict=True)))

    def changed(self, count: int, before: Sequence[Any]) -> dict[int, _Packed]:
        """Of the first `count` objects those whose parts are others than `before` says; packed."""
        changes = {}
        for number in range(count):
            thing = self.found[number]
            kind = kind_of(thing)
            assert kind is not None
            if not _is_same(self.parts(number), before[number]):
                changes[number] = self._take(kind, thing)
        return changes

    def identities(self) -> list[Hashable]:
        """Returns what tells each object's structure."""
        kinds = [(kind_of(thing), thing) for thing in self.found]
        return [kind.identity(thing) for kind, thing in kinds if kind is not None]

    def parts(self, number: int) -> tuple[list[Any], Any]:
        """Returns the leaves of an object's parts, and their structure."""
        kind = kind_of(self.found[number])
        assert kind is not None
        return pytree.tree_flatten(kind.read(self.found[number]))

    def write(self, number: int, packed: _Packed) -> None:
        """Gives an object the parts that a packed one has."""
        self._fill(self.found[number], packed)


def flatten_with_paths(tree: Any) -> tuple[list[tuple[Any, Any]], pytree.TreeSpec]:
    """`tree_flatten_with_path`, with numbers where a class is registered without keys."""
    leaves, spec = pytree.tree_flatten(tree)
    return list(zip(_paths(tree, ()), leaves, strict=True)), spec


def _paths(tree: Any, path: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    if pytree.tree_is_leaf(tree):
        yield path
        return
    node = pytree.SUPPORTED_NODES[pytree._get_node_type(tree)]
    if node.flatten_with_keys_fn is not None:
        keyed = node.flatten_with_keys_fn(tree)[0]
    else:
        keyed = [(pytree.SequenceKey(n), child) for n, child in enumerate(node.flatten_fn(tree)[0])]
    for key, child in keyed:
        yield from _paths(child, (*path, key))


def flatten_call(args: Any, kwargs: Any) -> tuple[list[Any], pytree.TreeSpec, Objects]:
    """Returns the leaves of a call's arguments, their structure, and the objects among them."""
    objects = Objects()
    leaves, spec = pytree.tree_flatten((args, kwargs))
    if any(kind_of(leaf) is not None for leaf in leaves):
        leaves, spec = pytree.tree_flatten(objects.pack((args, kwargs)))
    return leaves, spec, objects


def _is_same(now: tuple[list[Any], Any], before: tuple[list[Any], Any]) -> bool:
    return now[1] == before[1] and all(map(_is_unchanged, now[0], before[0]))


def _is_unchanged(now: Any, before: Any) -> bool:
    if now is before:
        return True
    plain = (bool, int, float, str, type(None))
    return isinstance(now, plain) and isinstance(before, plain) and now == before


def _has_objects(tree: Any) -> bool:
    return any(
        not isinstance(leaf, (torch.Tensor, int, float, str, type(None)))
        for leaf in pytree.tree_leaves(tree)
    )


# ---- what is refused ----

_DEPTH = 6
"""So deep tensors are looked for in objects."""

_NOT_LOOKED_INTO = (str, bytes, int, float, type, types.ModuleType, torch.nn.Module)


def refuse_hidden_tensors(tree: Any, what: str) -> None:
    """Raises SmexTypeError for a leaf that is no tensor and holds one, or is a graph's or list's.

    Args:
        tree: what `Objects.pack` returned.
        what: what the tree is.
    """
    for path, leaf in flatten_with_paths(tree)[0]:
        if isinstance(leaf, (torch.Tensor, _Known)):
            continue
        where = next((where for where, _ in hidden_tensors(leaf)), None)
        if where is not None:
            raise SmexTypeError(
                f"capture: {what}{pytree.keystr(path)} is a {type(leaf).__name__} that holds a "
                f"tensor in {where}, which cannot be seen: pass or return the tensor itself, in a "
                "dict, list or dataclass, or register the class with "
                "torch.utils._pytree.register_pytree_node"
            )


def hidden_tensors(
    thing: Any, path: str = "", depth: int = _DEPTH
) -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors that an object holds, and where: `.cache[0]`. Modules are looked at elsewhere."""
    if isinstance(thing, torch.Tensor):
        yield path, thing
    elif depth > 0 and not isinstance(thing, _NOT_LOOKED_INTO):
        for where, item in _held(thing):
            yield from hidden_tensors(item, path + where, depth - 1)


def _held(thing: Any) -> list[tuple[str, Any]]:
    """Returns what an object holds, and where."""
    held: list[tuple[str, Any]] = []
    if isinstance(thing, Mapping):
        held += [(f"[{key!r}]", item) for key, item in thing.items()]
    elif isinstance(thing, (list, tuple, set, frozenset, collections.deque)):
        held += [(f"[{number}]", item) for number, item in enumerate(thing)]
    elif isinstance(thing, functools.partial):
        held += [(".args", thing.args), (".keywords", thing.keywords)]
    return held + [(f".{name}", item) for name, item in own_attributes(thing).items()]


def refuse_layout(tensor: torch.Tensor, what: str) -> None:
    """Raises SmexTypeError for what is no dense tensor of numbers, or has no shape yet."""
    if torch.nn.parameter.is_lazy(tensor):
        raise SmexTypeError(
            f"capture: {what} is a parameter that has no shape yet: call the model once before it "
            "is captured"
        )
    if tensor.is_nested:
        raise SmexTypeError(
            f"capture: {what} is a nested tensor, whose rows have no common length; pad it "
            "(torch.nested.to_padded_tensor) and pass a mask"
        )
    if tensor.is_quantized:
        raise SmexTypeError(
            f"capture: {what} is a quantised tensor; pass its numbers, tensor.dequantize()"
        )
    plain = type(tensor).__torch_dispatch__ is torch._C._disabled_torch_dispatch_impl
    if not plain and not isinstance(tensor, FakeTensor):
        raise SmexTypeError(
            f"capture: {what} is a {type(tensor).__name__}, which is made of other tensors; pass a "
            "plain one, such as full_tensor() of a DTensor"
        )
    if tensor.layout is not torch.strided:
        raise SmexTypeError(
            f"capture: {what} is a tensor of layout {tensor.layout}, which has no boxes to divide; "
            "pass tensor.to_dense()"
        )
