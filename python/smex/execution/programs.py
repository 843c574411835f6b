"""The programs of a net, by what they were captured for."""

from __future__ import annotations

import copy
import dataclasses
import warnings
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from typing import Any, NamedTuple

from smex.capture.family import Family
from smex.capture.origin import user_stacklevel
from smex.errors import CaptureWarning
from smex.execution.compiled import Compiled
from smex.execution.watch import State, difference
from smex.planning.boundaries import Boundaries
from smex.planning.plan import Plan

_KEPT = 128
_MANY = 8
"""Programs of the same inputs after which the user is told why."""


class Occasion(NamedTuple):
    """What a program is captured for."""

    state: State  # of the model
    call: Hashable  # inputs and modes

    def __deepcopy__(self, memo: dict[int, Any]) -> Occasion:
        return Occasion(copy.deepcopy(self.state, memo), self.call)


class Programs:
    """As many as fit; the one that was not used for longest makes room."""

    def __init__(self) -> None:
        self._known: OrderedDict[Occasion, Compiled] = OrderedDict()
        self._told = False

    def get(self, occasion: Occasion) -> Compiled | None:
        """Returns the program, if there is one."""
        found = self._known.get(occasion)
        if found is not None:
            self._known.move_to_end(occasion)
        return found

    def add(self, occasion: Occasion, program: Compiled) -> None:
        """Keeps a program; warns once where attributes of the model make many of them."""
        while len(self._known) >= _KEPT:
            self._known.popitem(last=False)
        self._known[occasion] = program
        alike = [known.state for known in self._known if known.call == occasion.call]
        if len(alike) == _MANY and not self._told:
            self._told = True
            name = difference(alike[-1], alike[-2])
            warnings.warn(
                f"partition: the model was captured {_MANY} times for the same inputs, as its "
                f"attributes change between calls{f', now {name!r}' if name else ''}: each value "
                "has a program of its own. Register a buffer, or pass a tensor, for what is "
                "another number in every call",
                CaptureWarning,
                stacklevel=user_stacklevel(),
            )

    def drop(self, is_void: Callable[[Compiled], bool]) -> None:
        """Lets programs go."""
        for occasion in [key for key, program in self._known.items() if is_void(program)]:
            del self._known[occasion]

    def __len__(self) -> int:
        return len(self._known)

    def __iter__(self) -> Iterator[Compiled]:
        return iter(self._known.values())


@dataclasses.dataclass
class Alike:
    """What is known of calls that differ in the sizes of tensors only.

    Attributes:
        captures: of them.
        plan: the latest that was searched for.
    """

    captures: Family = dataclasses.field(default_factory=Family)
    plan: Plan | None = None


class Calls:
    """The latest kinds of calls."""

    def __init__(self) -> None:
        self._known: OrderedDict[Occasion, Alike] = OrderedDict()

    def of(self, occasion: Occasion) -> Alike:
        """Returns what is known of this kind; nothing at first."""
        while len(self._known) > _MANY:
            self._known.popitem(last=False)
        alike = self._known.setdefault(occasion, Alike())
        self._known.move_to_end(occasion)
        return alike

    def cut_at(self, boundaries: Boundaries) -> None:
        """Gives plans other boundaries of vertices."""
        for alike in self._known.values():
            if alike.plan is not None:
                alike.plan = alike.plan.cut_at(boundaries)

    def __deepcopy__(self, memo: dict[int, Any]) -> Calls:
        """Returns none: the copy is another model."""
        return Calls()
