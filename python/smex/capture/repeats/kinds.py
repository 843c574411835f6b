"""Learning which calls are equal: by running one and looking at all that it reads and changes."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from smex._C import Contents
from smex.capture.holders import places
from smex.capture.origin import OriginMode
from smex.capture.repeats.held import Held, Unsure, equal
from smex.capture.repeats.observing import Observation, hold, observed
from smex.capture.repeats.operators import described
from smex.capture.repeats.structure import Call, Result, meta_of

_FEWEST_CALLS = 4
"""A module that makes fewer calls of torch is traced as fast as it is copied."""

_OWN_REFERENCES = 3
"""To a tensor that nothing of Python holds: torch's, a variable's and that of the question."""

_ABSENT = object()


class StepOfLSTM(torch.nn.Module):
    """A function that torch makes a step of an LSTM of, as a module without parameters."""

    def __init__(self, function: Callable) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Returns the hidden state and that of the cell."""
        return self.function(*args, **kwargs)


class Kind:
    """Calls that are equal to one that was observed."""

    def __init__(self, call: Call, seen: Observation, result: Result) -> None:
        self.call = call
        self.seen = seen
        self.held: Held = hold(seen, call.structure.parts, call.values)
        self.verified = False
        self.result = result
        self.metas = list(map(meta_of, result.outputs))
        self.described = described(result.outputs)
        self.smooth = [output.requires_grad for output in result.outputs]

    def matches(self, call: Call) -> bool:
        """Returns whether a call of the same key does what this one did."""
        mine = self.call
        if call.structure.shape != mine.structure.shape or not self.held.same():
            return False
        for number, name in self.seen.reads:
            a, b = (vars(c.structure.parts[number]).get(name, _ABSENT) for c in (mine, call))
            if not equal(a, b):
                return False
        return all(map(equal, mine.values, call.values))

    def returns(self, result: Result) -> bool:
        """Returns whether a result differs in no more than tensors' values."""
        return (
            result.tree.kinds == self.result.tree.kinds
            and equal(result.leaves, self.result.leaves)
            and list(map(meta_of, result.outputs)) == self.metas
        )

    def verify(self, sight: Sight, result: Result) -> None:
        """Compares with one more call that matches.

        Raises:
            Unsure: the calls change what they read, or differ.
        """
        if not self.held.same():
            raise Unsure("it changes what it reads")
        if not sight.seen.within(self.seen):
            raise Unsure("its next call reads more")
        if not self.returns(result):
            raise Unsure("its next call returns something else")
        sight.check_kept(result.outputs)
        self.verified = True

    def forget(self) -> None:
        """Lets the tensors of a run go."""
        self.call.forget()
        self.result.outputs = []


class Sight:
    """What one call reads, makes and changes."""

    def __init__(self, call: Call, origins: OriginMode) -> None:
        self._call = call
        self._origins = origins
        self._made: list[torch.Tensor] = []
        self.seen = Observation()

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Observes the call, which is made inside."""
        parts = self._call.structure.parts
        with torch._C.DisableTorchFunction():
            self._versions = [tensor._version for tensor in self._call.tensors]
        state = [vars(part) for part in parts]
        held = [own[role] for own in state for role in ("_modules", "_parameters", "_buffers")]
        self._contents = Contents([*state, *held])
        with observed(parts) as self.seen, self._origins.noted(self._made.append):
            yield

    def check(self, given: Any) -> None:
        """Raises Unsure if the call has changed something, or is too short.

        Args:
            given: the arguments.
        """
        is_cell = isinstance(self._call.module, (torch.nn.RNNCellBase, StepOfLSTM))
        if len(self._made) < _FEWEST_CALLS and not is_cell:
            raise Unsure("it is short")
        if [tensor._version for tensor in self._call.tensors] != self._versions:
            raise Unsure("it changes a tensor that it is given")
        if not self._contents.same():
            raise Unsure("it changes attributes")
        if not self._call.args.unchanged(given):
            raise Unsure("it changes its arguments")

    def check_kept(self, outputs: Sequence[torch.Tensor]) -> None:
        """Raises Unsure if a tensor that the call has made is kept, but for its outputs."""
        known = {id(tensor) for tensor in (*self._call.tensors, *outputs)}
        kept = []
        while self._made:
            tensor = self._made.pop()
            if id(tensor) not in known and sys.getrefcount(tensor) > _OWN_REFERENCES:
                known.add(id(tensor))
                kept.append(tensor)
        if kept and any(True for _ in places(kept)):
            raise Unsure("it keeps a tensor")
