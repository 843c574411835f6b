"""Captures of calls that differ in the sizes of their inputs."""

from __future__ import annotations

import contextlib
import functools
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch

from smex._logging import logger
from smex.capture.convert import Converter
from smex.capture.objects import Objects, flatten_with_paths
from smex.capture.origin import user_stacklevel
from smex.capture.records import CapturedGraph
from smex.capture.repeats import NotRepeatedError
from smex.capture.session import captured, may_repeat, name_of, tracing
from smex.capture.sizes import AnySizes, Shapes, Symbols
from smex.capture.trace import Trace, argument_names, trace
from smex.errors import CaptureWarning, SmexError

_MANY = 8
"""Captures for other ints alone after which the user is told."""

_TRIES = 3
"""So often a model is traced with symbols; one that cannot be, or needs others each time, is not
tried for ever."""


class Family:
    """The captures of one model for calls that are alike but for the sizes of tensors and for ints.

    The first is a capture as any other. At the second the sizes and the ints that have changed are
    symbols of one more trace, of which later ones are made, in a small part of the time. Where the
    model cannot be traced so, or takes another way for some of them, they are captured one by one.

    Attributes:
        traces: how often the model was traced.
    """

    def __init__(self) -> None:
        self.traces = 0
        self._last: Shapes | None = None
        self._free: list[frozenset[int]] = []  # the dimensions that have changed
        self._known: list[AnySizes] = []
        self._tries = 0
        self._of_ints = 0  # captures for another int alone

    def capture(
        self,
        model: Callable,
        args: tuple,
        kwargs: dict[str, Any],
        loss_fn: Callable | None,
        training: bool,
    ) -> CapturedGraph:
        """Returns the capture of a call, see :func:`smex.capture`."""
        shapes = _shapes(args, kwargs)
        call = functools.partial(trace, model, args, kwargs, loss_fn, training)
        if shapes is not None and self._last is not None:
            with tracing() as started:
                found = next((known for known in self._known if known.holds(shapes)), None)
                found = found or self._trace(call, shapes)
                if found is not None:
                    graph = found.at(shapes)
                    graph.name = name_of(model)
                    graph.timings = {"trace": 0.0, "convert": time.perf_counter() - started}
                    return graph
        if shapes is not None and self._last is not None:
            self._note_ints(shapes, model, args, kwargs, loss_fn)
        self._last = shapes
        self.traces += 1
        return captured(model, args, kwargs, loss_fn, training)

    def _note_ints(
        self,
        shapes: Shapes,
        model: Callable,
        args: tuple,
        kwargs: dict[str, Any],
        loss_fn: Callable | None,
    ) -> None:
        """Warns once where an int among the arguments makes one capture after the other."""
        assert self._last is not None
        keyed = flatten_with_paths((args, kwargs))[0]
        names = argument_names(model, loss_fn, args, keyed, int)
        first = len(shapes) - len(names)
        differ = [n for n, shape in enumerate(shapes) if shape != self._last[n]]
        if not differ or differ[0] < first:
            return
        self._of_ints += 1
        if self._of_ints == _MANY:
            name = names[differ[0] - first]
            warnings.warn(
                f"partition: the model was captured {_MANY} times for the same tensors, as its "
                f'argument "{name}" is another int in each call, now {shapes[differ[0]][0]}, which '
                "the model depends on by more than sizes and positions: pass a tensor, as "
                f"torch.tensor([{name}]), and index with it (index_copy_, index_select)",
                CaptureWarning,
                stacklevel=user_stacklevel(),
            )

    def _trace(self, call: Callable[..., Trace], shapes: Shapes) -> AnySizes | None:
        """Returns a new trace, in which all sizes that have changed so far are symbols."""
        assert self._last is not None
        free = self._free or [frozenset()] * len(shapes)
        self._free = [
            before | {d for d, size in enumerate(shape) if size != last[d]}
            for before, shape, last in zip(free, shapes, self._last, strict=True)
        ]
        if not Symbols(self._free, shapes).places or self._tries == _TRIES:
            return None
        self._tries += 1
        self.traces += 1
        try:
            found = _with_symbols(call, self._free, shapes)
        except Exception as error:
            # Nothing is lost: the call is captured as it is, and its own error told.
            logger.info("sizes of inputs cannot be symbols: %s", error, exc_info=not _ours(error))
            self._tries = _TRIES
            return None
        if not found.holds(shapes):
            return None
        self._known.append(found)
        self._last = shapes
        return found


def _with_symbols(
    call: Callable[..., Trace], free: Sequence[frozenset[int]], shapes: Shapes
) -> AnySizes:
    """Returns a trace with copies of equal calls, and where that fails without."""
    if may_repeat():
        symbols = Symbols(free, shapes)
        with contextlib.suppress(NotRepeatedError):
            return _any_sizes(call(repeats=True, symbols=symbols), symbols)
    symbols = Symbols(free, shapes)
    return _any_sizes(call(repeats=False, symbols=symbols), symbols)


def _any_sizes(traced: Trace, symbols: Symbols) -> AnySizes:
    return AnySizes(Converter(traced).convert(), symbols)


def _ours(error: Exception) -> bool:
    return isinstance(error, SmexError)


def _shapes(args: tuple, kwargs: dict[str, Any]) -> Shapes | None:
    """Of the inputs in the order in which they are traced; None where some are in other objects."""
    objects = Objects()
    leaves = torch.utils._pytree.tree_leaves(objects.pack((args, kwargs)))
    if objects.found:
        return None
    shapes = [tuple(leaf.shape) for leaf in leaves if isinstance(leaf, torch.Tensor)]
    return shapes + [(leaf,) for leaf in leaves if type(leaf) is int]
