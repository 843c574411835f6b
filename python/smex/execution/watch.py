"""What a model is besides its tensors' values: on it a captured program depends as on its inputs.

Modules, modes, attributes, hooks, and the shapes of parameters and buffers are read once into a
:class:`State`; until something of it is replaced, a look at the containers tells that nothing was.
"""

from __future__ import annotations

import collections
import copy
import enum
import functools
import types
import weakref
from collections.abc import Hashable, Iterator, Mapping, Set
from typing import Any

import torch

from smex._C import Contents
from smex.capture.objects import Same, kind_of, refuse_layout, slot_names
from smex.errors import SmexTypeError

_PLAIN = (bool, int, str, bytes, type(None))
_OPAQUE = (
    type,
    enum.Enum,
    types.ModuleType,
    weakref.ref,
    torch.Generator,
)
_MOST_CONTAINERS = 512
"""An object that leads to more dicts and lists is no setting: a trainer is itself alone."""
_MOST_ITEMS = 4096
"""A longer dict or list is a table, such as a vocabulary: it is itself alone too."""
_RECENT = 4

_GLOBAL_HOOKS = [
    hooks
    for name, hooks in vars(torch.nn.modules.module).items()
    if name.startswith(("_global_forward", "_global_backward")) and name.endswith("hooks")
]
"""Of all modules: dicts that are changed in place."""

_UNREAD = frozenset(
    name
    for name in vars(torch.nn.Module())
    if "state_dict" in name or name.endswith(("_kwargs", "_called", "_set", "_backward_hook"))
)
"""Of a module: what no call depends on, or what changes with its hooks."""


class State:
    """What was read; equal where a program that was captured in the one serves the other."""

    __slots__ = ("__weakref__", "_hash", "key")

    def __init__(self, key: Hashable):
        self.key = key
        self._hash = hash(key)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, State) and self._hash == other._hash and self.key == other.key
        )

    def __deepcopy__(self, memo: dict[int, Any]) -> State:
        """Of the copy that `memo` knows of the model."""
        copied = memo[id(self)] = State(_of_copy(self.key, memo))
        return copied


class Watch:
    """Tells whether a model is as it was.

    Args:
        roots: the model, and what is called with it.
    """

    def __init__(self, *roots: Any):
        self._roots = roots
        self._states: weakref.WeakValueDictionary[int, State] = weakref.WeakValueDictionary()
        self._recent: list[tuple[Any, State]] = []
        self._members: Any = None
        self.moved = False

    def unchanged(self) -> State | None:
        """Returns the state, if it is what it was at the last look."""
        if self._recent and self._recent[0][0].same():
            return self._recent[0][1]
        return None

    def look(self) -> State:
        """Returns the state.

        `moved` tells whether modules and tensors are others than at the last look.
        """
        modules = [root for root in self._roots if isinstance(root, torch.nn.Module)]
        self.moved = self._members is None or not self._members.same()
        if self.moved:
            self._members = Contents(
                vars(part)[name]
                for module in modules
                for part in module.modules()
                if not isinstance(part, torch.jit.ScriptModule)
                for name in ("_modules", "_parameters", "_buffers")
            )
        for place, (contents, state) in enumerate(self._recent):
            if contents.same():
                self._recent.insert(0, self._recent.pop(place))
                return state
        reader = Reader({id(part) for module in modules for part in module.modules()})
        roots = [*self._roots, *_GLOBAL_HOOKS]
        found = State(tuple([reader.read(root) for root in roots]))
        known = self._states.setdefault(hash(found), found)
        state = known if known == found else found
        if reader.watchable:
            self._recent = [(Contents(reader.containers), state), *self._recent[: _RECENT - 1]]
        return state

    def __deepcopy__(self, memo: dict[int, Any]) -> Watch:
        copied = Watch(*[copy.deepcopy(root, memo) for root in self._roots])
        for state in list(self._states.values()):
            twin = copy.deepcopy(state, memo)
            copied._states[hash(twin)] = twin
        return copied

    def __reduce__(self) -> Any:
        return Watch, self._roots


class Reader:
    """Reads modules, and objects that are settings, into what can be compared and hashed.

    Args:
        owners: ids of the modules whose parameters and buffers are inputs of the program.

    Attributes:
        containers: what holds everything that was read.
        watchable: whether no change is possible beside these.
    """

    def __init__(self, owners: Set[int] = frozenset()) -> None:
        self.containers: list[Any] = []
        self.watchable = True
        self._number: dict[int, int] = {}  # by id of a container, in the order of reading
        self._limit: int | None = None  # to the number of containers while an object is read
        self._owners = owners

    def read(self, thing: Any) -> Hashable:
        """Returns what two things have in common that are the same to a model."""
        kind = type(thing)
        if kind in _PLAIN:
            return kind, thing
        if kind in (float, complex):
            return kind, repr(thing)  # tells -0.0 from 0.0, and nan is itself
        if isinstance(thing, (torch.Tensor, *_OPAQUE)):
            return Same(thing)
        if id(thing) in self._number:
            return "again", self._number[id(thing)]
        if isinstance(thing, slice):
            return kind, *map(self.read, (thing.start, thing.stop, thing.step))
        self._number[id(thing)] = len(self._number)
        if isinstance(thing, torch.nn.Module):
            return self._module(thing)
        if isinstance(thing, types.FunctionType):
            defaults = self.read(thing.__defaults__), self.read(thing.__kwdefaults__)
            return Same(thing.__code__), self._cells(thing), defaults, self._attributes(thing)
        if isinstance(thing, types.MethodType):
            return self.read(thing.__func__), self.read(thing.__self__)
        if isinstance(thing, functools.partial):
            self._watch(thing.keywords)
            return kind, self.read(thing.func), self.read(thing.args), self._named(thing.keywords)
        if isinstance(thing, (tuple, list, dict, set, frozenset, collections.deque)):
            return self._container(thing), self._attributes(thing)
        if isinstance(thing, (int, float, complex, str, bytes)):  # of a class of its own
            return kind, repr(thing), self._attributes(thing)
        return self._object(thing)

    def _cells(self, function: types.FunctionType) -> Hashable:
        """Returns what a function has of the function around it."""
        cells = function.__closure__ or ()
        for cell in cells:
            self._watch(cell)
        return tuple([self.read(cell.cell_contents) for cell in cells if _is_filled(cell)])

    def _attributes(self, thing: Any) -> Hashable:
        """Those of an object that is something else besides."""
        own = getattr(thing, "__dict__", None)
        if not isinstance(own, dict):
            return None
        self._watch(own)
        return self._named(own)

    # ---- containers ----

    def _watch(self, container: Any) -> None:
        if len(self.containers) == self._limit:
            raise _TooManyError
        self.containers.append(container)

    def _container(self, thing: Any) -> Hashable:
        if len(thing) > _MOST_ITEMS:
            return Same(thing)
        if not isinstance(thing, (tuple, frozenset)):
            self._watch(thing)
        kind = type(thing)
        if isinstance(thing, dict):
            return kind, tuple([(self.read(k), self.read(v)) for k, v in thing.items()])
        if isinstance(thing, (set, frozenset)):
            return kind, frozenset([self.read(item) for item in thing])
        return kind, tuple([self.read(item) for item in thing])

    def _named(self, items: Mapping[str, Any]) -> Hashable:
        return tuple([(name, self.read(item)) for name, item in items.items()])

    # ---- modules ----

    def _module(self, module: torch.nn.Module) -> Hashable:
        if isinstance(module, torch.jit.ScriptModule):
            self.watchable = False  # its attributes are not Python's
            return Same(module), tuple(part.training for part in module.modules())
        attributes = vars(module)
        self._watch(attributes)
        parts: list[Hashable] = []
        for name, value in attributes.items():
            if name in ("_parameters", "_buffers") and id(module) in self._owners:
                self._watch(value)
                parts.append((name, tuple([(n, self._tensor(t)) for n, t in value.items()])))
            elif name not in _UNREAD:
                parts.append((name, self.read(value)))
        return type(module), tuple(parts)

    def _tensor(self, tensor: torch.Tensor | None) -> Hashable:
        """Of a parameter or buffer, whose values a program does not know."""
        if tensor is None or torch.nn.parameter.is_lazy(tensor):
            return Same(tensor)
        number = self._number.setdefault(id(tensor), len(self._number))
        return tuple(tensor.shape), tensor.dtype, number

    # ---- objects ----

    def _object(self, thing: Any) -> Hashable:
        if self._limit is not None:
            return self._parts(thing)
        mark = len(self.containers)
        numbers = len(self._number)
        self._limit = mark + _MOST_CONTAINERS
        try:
            return self._parts(thing)
        except _TooManyError:
            del self.containers[mark:]
            for late in list(self._number)[numbers:]:
                del self._number[late]
            return Same(thing)
        finally:
            self._limit = None

    def _parts(self, thing: Any) -> Hashable:
        kind = kind_of(thing)
        identity = None if kind is None else kind.identity(thing)
        if kind is not None and identity is not None:
            self._limit = None
        fields = self._fields(thing)
        if fields is None:
            return _by_value(thing)
        parts = self._named(fields)
        if kind is None or identity is None:
            return type(thing), parts
        # Graphs, and PyG's data, gather columns when they are first read and keep formats.
        return type(thing), _by_value(identity), Reader()._named(kind.read(thing))

    def _fields(self, thing: Any) -> dict[str, Any] | None:
        """Returns an object's attributes; None where Python keeps none."""
        slots = slot_names(thing)
        own = getattr(thing, "__dict__", None)
        if isinstance(own, dict):
            self._watch(own)
        elif not slots:
            return None
        if slots:
            self.watchable = False
        return {name: getattr(thing, name) for name in slots if hasattr(thing, name)} | (own or {})


def _is_filled(cell: types.CellType) -> bool:
    try:
        _ = cell.cell_contents
    except ValueError:  # its variable is assigned later, or was deleted
        return False
    return True


class _TooManyError(Exception):
    """An object leads to more than `_MOST_CONTAINERS`."""


def described(leaf: Any) -> Hashable:
    """Returns what a captured program depends on of an argument.

    Raises:
        SmexTypeError: nothing can be told of it, as of an array, or it is a tensor of a layout
            that has no boxes.
    """
    if isinstance(leaf, torch.Tensor):
        return _described_tensor(leaf)
    if type(leaf) in _PLAIN:
        return type(leaf), leaf
    found = Reader().read(leaf)
    if isinstance(found, Same) and not isinstance(leaf, Hashable):
        raise SmexTypeError(
            "partition: an argument that is not a tensor is part of the captured program and "
            f"must be hashable, got {type(leaf).__name__}; pass a tensor"
        )
    return found


def without_sizes(description: Hashable) -> Hashable:
    """Returns what is described of an argument, of a tensor without its sizes; an int is any."""
    if isinstance(description, tuple) and isinstance(description[0], tuple):
        shape, *rest = description
        return len(shape), *rest
    if isinstance(description, tuple) and description[0] is int:
        return int
    return description


def _described_tensor(tensor: torch.Tensor) -> Hashable:
    plain = type(tensor) is torch.Tensor and not tensor.is_quantized
    if not plain or tensor.is_nested or tensor.layout is not torch.strided:
        refuse_layout(tensor, "an argument")
    return tuple(tensor.shape), tensor.dtype, tensor.requires_grad


def difference(now: State, before: State) -> str:
    """Returns the name of the first attribute in which two states differ; '' where it has none."""
    return ".".join(_difference(now.key, before.key))


def _difference(now: Any, before: Any) -> Iterator[str]:
    if not (isinstance(now, tuple) and isinstance(before, tuple)) or now == before:
        return
    if len(now) == len(before) == 2 and isinstance(now[0], str) and now[0] == before[0]:
        if now[0] not in ("_modules", "_parameters", "_buffers"):
            yield now[0]
        yield from _difference(now[1], before[1])
        return
    if len(now) == len(before) == 2 and now[0] == before[0] and _is_text(now[0]):
        yield now[0][1]  # a key of a dict
    for a, b in zip(now, before, strict=False):
        if a != b:
            yield from _difference(a, b)
            return


def _is_text(key: Any) -> bool:
    return isinstance(key, tuple) and key[:1] == (str,)


def _by_value(thing: Any) -> Hashable:
    """Of what Python cannot look into: a number of another library, a range, a function."""
    try:
        hash(thing)
    except TypeError:
        return Same(thing)
    return type(thing), thing


def _of_copy(key: Any, memo: dict[int, Any]) -> Any:
    if isinstance(key, Same):
        return Same(memo.get(id(key.thing), key.thing))
    if type(key) is tuple:
        return tuple([_of_copy(part, memo) for part in key])
    if type(key) is frozenset:
        return frozenset([_of_copy(part, memo) for part in key])
    return key
