"""What a call of a module is made of: the modules inside, their tensors, and the arguments."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Iterator, Sequence
from typing import Any

import torch
from torch._subclasses.functional_tensor import FunctionalTensor

from smex.capture.repeats.held import Unsure, plain

_HOOKS = tuple(
    name
    for name in vars(torch.nn.Module())
    if name.startswith(("_forward", "_backward")) and name.endswith("hooks")
)
_PLAIN_TENSOR_ATTRIBUTES = {"elem"}  # what FunctionalTensor keeps


@dataclasses.dataclass
class Structure:
    """A module taken apart. `shape` is equal for two that differ in attributes alone."""

    shape: tuple[Hashable, ...]
    parts: list[torch.nn.Module]
    holders: list[tuple[dict[str, Any], str, int]]  # of parameters and buffers: dict, name, number
    tensors: list[torch.Tensor]

    @staticmethod
    def of(module: torch.nn.Module) -> Structure:
        """Takes a module apart.

        Raises:
            Unsure: it has hooks, or is a script.
        """
        reader = _Reader()
        reader.read(module)
        return Structure(tuple(reader.shape), reader.parts, reader.holders, reader.tensors)

    def put(self, tensors: Sequence[torch.Tensor]) -> None:
        """Gives the modules other parameters and buffers."""
        for held, name, number in self.holders:
            held[name] = tensors[number]
        for part in self.parts:
            if isinstance(part, torch.nn.RNNBase):
                part._flat_weights = [getattr(part, name) for name in part._flat_weights_names]

    def as_put(self, tensors: Sequence[torch.Tensor]) -> bool:
        """Returns whether the modules have what they were given."""
        return all(held.get(name) is tensors[number] for held, name, number in self.holders)


class _Reader:
    def __init__(self) -> None:
        self.shape: list[Hashable] = []
        self.parts: list[torch.nn.Module] = []
        self.holders: list[tuple[dict[str, Any], str, int]] = []
        self.tensors: list[torch.Tensor] = []
        self._number: dict[int, int] = {}
        self._index: dict[int, int] = {}

    def read(self, module: torch.nn.Module) -> None:
        if id(module) in self._index:
            self.shape.append(self._index[id(module)])
            return
        if isinstance(module, torch.jit.ScriptModule):
            raise Unsure("a script")
        state = vars(module)
        if any(state[name] for name in _HOOKS) or "forward" in state:
            raise Unsure("a module with hooks")
        self._index[id(module)] = len(self.parts)
        self.parts.append(module)
        self.shape.append((type(module), state["training"]))
        for role in ("_parameters", "_buffers"):
            for name, tensor in state[role].items():
                self.shape.append(name)
                self.shape.append(None if tensor is None else self._tensor(state[role], name))
        for name, part in state["_modules"].items():
            self.shape.append(name)
            if part is None:
                self.shape.append(None)
            else:
                self.read(part)
        self.shape.append("end")

    def _tensor(self, held: dict[str, Any], name: str) -> Hashable:
        tensor = held[name]
        number = self._number.setdefault(id(tensor), len(self.tensors))
        if number == len(self.tensors):
            self.tensors.append(tensor)
        self.holders.append((held, name, number))
        return number, meta_of(tensor)


def meta_of(tensor: torch.Tensor) -> Hashable:
    """Returns what a traced call depends on of a tensor."""
    sizes = fixed_sizes(tensor.shape), fixed_sizes(tensor.stride())
    return *sizes, tensor.dtype, tensor.requires_grad


def fixed_sizes(sizes: Sequence[Any]) -> tuple[Hashable, ...]:
    """Returns sizes to be compared and hashed: of symbols what they stand for."""
    return tuple(size if isinstance(size, int) else size.node.expr for size in sizes)


def is_plain_tensor(tensor: torch.Tensor) -> bool:
    """Returns whether it is a tensor of the tracer, without attributes of a user's."""
    return type(tensor) is FunctionalTensor and vars(tensor).keys() <= _PLAIN_TENSOR_ATTRIBUTES


@dataclasses.dataclass
class Call:
    """One call of a module, taken apart.

    `tensors` are those of the arguments, then those of the modules, each once; `places` has for
    each leaf of the arguments and each tensor of the structure its number among them, or -1;
    `values` are the leaves that are no tensors.
    """

    module: torch.nn.Module
    args: Tree  # of (args, kwargs)
    structure: Structure
    key: tuple[Hashable, Hashable]
    line: str
    tensors: list[torch.Tensor]
    places: list[int]
    values: list[Any]

    @staticmethod
    def of(
        module: torch.nn.Module, args: Tree, structure: Structure, key: Hashable, line: str
    ) -> Call:
        """Takes down the tensors of a call."""
        number: dict[int, int] = {}
        tensors: list[torch.Tensor] = []
        places = []
        for leaf in (*args.leaves, *structure.tensors):
            if isinstance(leaf, torch.Tensor):
                n = number.setdefault(id(leaf), len(tensors))
                if n == len(tensors):
                    tensors.append(leaf)
                places.append(n)
            else:
                places.append(-1)
        values = [leaf for leaf in args.leaves if not isinstance(leaf, torch.Tensor)]
        return Call(module, args, structure, (key, tuple(places)), line, tensors, places, values)

    def state(self, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Of tensors in the place of its own those of the modules."""
        return [tensors[n] for n in self.places[len(self.args.leaves) :]]

    def arguments(self, tensors: Sequence[torch.Tensor]) -> Any:
        """Returns `(args, kwargs)` with tensors in the place of its own."""
        leaves = [
            leaf if n < 0 else tensors[n]
            for leaf, n in zip(self.args.leaves, self.places, strict=False)
        ]
        return self.args.made(leaves)

    def forget(self) -> None:
        """Lets its tensors go."""
        self.tensors = []
        self.args.leaves = []
        self.structure.tensors = []


@dataclasses.dataclass
class Result:
    """What a call returned: its structure, and by leaf ("input" or "output", number) or a value."""

    tree: Tree
    leaves: tuple[tuple[str, Any], ...]
    outputs: list[torch.Tensor]

    @staticmethod
    def of(result: Any, inputs: Sequence[torch.Tensor]) -> Result:
        """Takes a result apart.

        Raises:
            Unsure: it holds something else than tensors and plain values.
        """
        tree = Tree(result)
        given = {id(tensor): n for n, tensor in enumerate(inputs)}
        number: dict[int, int] = {}
        outputs: list[torch.Tensor] = []
        leaves: list[tuple[str, Any]] = []
        for leaf in tree.leaves:
            if id(leaf) in given:
                leaves.append(("input", given[id(leaf)]))
            elif isinstance(leaf, torch.Tensor):
                if not is_plain_tensor(leaf):
                    raise Unsure(f"a {type(leaf).__name__} is returned")
                n = number.setdefault(id(leaf), len(outputs))
                if n == len(outputs):
                    outputs.append(leaf)
                leaves.append(("output", n))
            elif plain(leaf):
                leaves.append(("value", leaf))
            else:
                raise Unsure(f"a {type(leaf).__name__} is returned")
        tree.leaves = []
        return Result(tree, tuple(leaves), outputs)

    def made(self, inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]) -> Any:
        """Returns the same structure with other tensors."""
        of: dict[str, Sequence[torch.Tensor]] = {"input": inputs, "output": outputs}
        return self.tree.made([of[k][v] if k in of else v for k, v in self.leaves])


class Tree:
    """Nested tuples, lists and dicts taken apart: `kinds` is equal for those of equal structure."""

    def __init__(self, thing: Any):
        self.leaves: list[Any] = []
        self._kinds: list[Hashable] = []
        self._take(thing)
        self.kinds = tuple(self._kinds)

    def _take(self, thing: Any) -> None:
        kind = type(thing)
        if kind is tuple or kind is list:
            self._kinds.append((kind, len(thing)))
            for item in thing:
                self._take(item)
        elif kind is dict:
            keys = tuple(thing)
            if not all(map(plain, keys)):
                raise Unsure("a dict with other keys than texts and numbers")
            self._kinds.append((kind, keys))
            for item in thing.values():
                self._take(item)
        else:
            self._kinds.append(None)
            self.leaves.append(thing)

    def made(self, leaves: Sequence[Any]) -> Any:
        """Returns the same structure with other leaves."""
        return _made(iter(self.kinds), iter(leaves))

    def unchanged(self, thing: Any) -> bool:
        """Returns whether a structure is still what it was when it was taken apart."""
        now = Tree(thing)
        return now.kinds == self.kinds and all(
            a is b for a, b in zip(now.leaves, self.leaves, strict=True)
        )


def _made(kinds: Iterator[Any], leaves: Iterator[Any]) -> Any:
    described = next(kinds)
    if described is None:
        return next(leaves)
    kind, of = described
    if kind is dict:
        return {key: _made(kinds, leaves) for key in of}
    return kind([_made(kinds, leaves) for _ in range(of)])


def argument_key(leaves: Sequence[Any]) -> tuple[Hashable, ...]:
    """Returns what equal calls have in common of the leaves of their arguments.

    Raises:
        Unsure: a tensor is of a class of its own.
    """
    number: dict[int, int] = {}
    key: list[Hashable] = []
    for leaf in leaves:
        if isinstance(leaf, torch.Tensor):
            if not is_plain_tensor(leaf):
                raise Unsure(f"a {type(leaf).__name__} among the arguments")
            known = number.setdefault(id(leaf), len(number))
            key.append((known, meta_of(leaf)))
        elif plain(leaf):
            key.append((type(leaf), repr(leaf) if isinstance(leaf, (float, complex)) else leaf))
        else:
            key.append(str(type(leaf)))
    return tuple(key)
