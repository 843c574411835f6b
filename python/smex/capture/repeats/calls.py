"""Which calls of a model's modules are traced, observed or copied."""

from __future__ import annotations

import contextlib
import itertools
import sys
from collections.abc import Callable, Hashable, Iterator
from typing import Any

import torch
from torch._decomp import decompositions
from torch.fx.experimental.proxy_tensor import get_proxy_mode

from smex._logging import logger
from smex.capture.origin import OriginMode, user_line
from smex.capture.repeats.copies import (
    Additions,
    Copy,
    Maker,
    NotRepeatedError,
    Origin,
    Traced,
    last_node,
)
from smex.capture.repeats.held import Unsure, is_trusted_class
from smex.capture.repeats.kinds import Kind, Sight, StepOfLSTM
from smex.capture.repeats.observing import is_user_forward
from smex.capture.repeats.structure import Call, Result, Structure, Tree, argument_key
from smex.capture.side_effects import Ledger
from smex.capture.user_code import replaced

_MOST_KINDS = 8
"""Of calls with one key; where more differ, each is traced."""


class Repeats:
    """The calls of one capture, of which the model is run twice: without a graph, and with one.

    `origins` are those of the calls that were copied, or traced to be; `used` tells if any was.
    `additions` are those of their gradients.

    Args:
        origins: knows where calls come from.
        ledger: is told of the tensors that are made.
    """

    def __init__(self, origins: OriginMode, ledger: Ledger) -> None:
        self.origins: dict[int, Origin] = {}
        self.additions = Additions()
        self.used = False
        self._where = origins
        self._ledger = ledger
        self._counts: dict[Hashable, int] = {}
        self._kinds: dict[Hashable, list[Kind]] = {}
        self._given_up: set[Hashable] = set()
        self._traced: dict[int, Traced] = {}  # by id of a kind
        self._touched: list[tuple[Kind, list[torch.Tensor], list[int]]] = []
        self._numbers = itertools.count()
        self._busy = False
        self._modes = (0, 0)
        self._step = StepOfLSTM(decompositions.lstm_cell)

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Decides about the calls of modules inside: one run of the model."""
        original = torch.nn.Module.__call__
        self._busy = False
        self._modes = _mode_counts()

        def call(module: torch.nn.Module, /, *args: Any, **kwargs: Any) -> Any:
            if self._busy or not _is_candidate(module) or _mode_counts() != self._modes:
                return original(module, *args, **kwargs)
            return self._call(original, module, args, kwargs)

        def step(*args: Any, **kwargs: Any) -> Any:
            return (self._step if self._busy else self._step_of_lstm)(*args, **kwargs)

        try:
            with (
                replaced(torch.nn.Module, "__call__", call),
                replaced(decompositions, "lstm_cell", step),
            ):
                yield
            self._look_back()
        finally:
            self._touched = []
            for kind in itertools.chain(*self._kinds.values()):
                kind.forget()

    @property
    def held(self) -> dict[int, torch.Tensor]:
        """Tensors by id that the calls read and do not make."""
        kinds = itertools.chain(*self._kinds.values())
        return {id(tensor): tensor for kind in kinds for tensor in kind.held.tensors}

    def _step_of_lstm(self, *args: Any, **kwargs: Any) -> Any:
        """A step of torch's LSTM, which is a function of its arguments alone."""
        return self._call(torch.nn.Module._call_impl, self._step, args, kwargs)

    def close(self) -> None:
        """Lets everything go but `origins`, when the graph is there."""
        self._kinds.clear()
        for traced in self._traced.values():
            traced.forget()
        self._traced.clear()
        self.additions.forget()

    def _call(self, original: Callable, module: torch.nn.Module, args: Any, kwargs: Any) -> Any:
        def run(given: Any = None) -> Any:
            now_args, now_kwargs = (args, kwargs) if given is None else given
            return original(module, *now_args, **now_kwargs)

        try:
            with torch._C.DisableTorchFunction():
                call = self._taken(module, args, kwargs)
                kind = None if call is None else self._kind_of(call)
        except Unsure:
            return run()
        if call is None:
            return run()
        if kind is not None and kind.verified:
            return self._copy(kind, call, run)
        count = self._counts[call.key] = self._counts.get(call.key, 0) + 1
        if count == 1 or get_proxy_mode() is not None:
            return run()
        return self._observe(kind, call, run, (args, kwargs))

    def _taken(self, module: torch.nn.Module, args: Any, kwargs: Any) -> Call | None:
        line = "" if is_user_forward(module) else user_line(sys._getframe(1))
        tree = Tree((args, kwargs))
        key = (type(module), line, tree.kinds, argument_key(tree.leaves), self._ambient())
        if key in self._given_up:
            return None
        return Call.of(module, tree, Structure.of(module), key, line)

    def _ambient(self) -> Hashable:
        """Returns the settings that calls depend on."""
        if torch._C._is_any_autocast_enabled():
            raise Unsure("autocast keeps what it has cast")
        return (
            torch.is_grad_enabled(),
            torch.is_inference_mode_enabled(),
            torch.get_default_dtype(),
            torch.are_deterministic_algorithms_enabled(),
            torch._C._get_flash_sdp_enabled(),
            torch._C._get_mem_efficient_sdp_enabled(),
            torch._C._get_math_sdp_enabled(),
            self._where.region is None,
        )

    def _kind_of(self, call: Call) -> Kind | None:
        return next((kind for kind in self._kinds.get(call.key, ()) if kind.matches(call)), None)

    def _give_up(self, call: Call, reason: object) -> None:
        name = type(call.module).__name__
        logger.debug("capture: each call of %s is traced: %s", name, reason)
        self._given_up.add(call.key[0])
        self._kinds.pop(call.key, None)

    # ---- what a call reads ----

    def _observe(self, kind: Kind | None, call: Call, run: Callable, given: Any) -> Any:
        """Runs a call, and learns what it reads or that an earlier one was equal."""
        if sys.getprofile() is not None:
            self._give_up(call, "a profiler runs")
            return run()
        sight = Sight(call, self._where)
        self._busy = True
        try:
            with sight.watching():
                output = run()
        finally:
            self._busy = False
        try:
            with torch._C.DisableTorchFunction():
                sight.check(given)
                result = Result.of(output, call.tensors)
                if kind is not None:
                    kind.verify(sight, result)
                else:
                    self._add_kind(Kind(call, sight.seen, result))
        except Unsure as reason:
            self._give_up(call, reason)
        return output

    def _add_kind(self, kind: Kind) -> None:
        kinds = self._kinds.setdefault(kind.call.key, [])
        if len(kinds) == _MOST_KINDS:
            raise Unsure("too many of them differ")
        kinds.append(kind)

    # ---- copies ----

    def _copy(self, kind: Kind, call: Call, run: Callable) -> Any:
        self.used = True
        number = next(self._numbers)
        traced, runs = None, None
        if get_proxy_mode() is not None:
            traced = self._traced.get(id(kind))
            if traced is None:
                runs = run
                traced = Traced(
                    number, next(self._numbers), call, self._where.path, self._where.region
                )
                self._traced[id(kind)] = traced
            self.origins[number] = self._origin(traced, call)
        maker = Maker(kind, number, traced, runs, self._numbers.__next__, self.additions)
        outputs = self._outputs(maker, call)
        self._touch(kind, [*call.tensors, *outputs])
        nodes = [] if get_proxy_mode() is None else [last_node()]
        self._ledger.note(outputs, nodes, self._where.path, call.line)
        return kind.result.made(call.tensors, outputs)

    def _outputs(self, maker: Maker, call: Call) -> list[torch.Tensor]:
        self._busy = True
        grad = torch.is_grad_enabled()
        try:
            if grad and any(tensor.requires_grad for tensor in call.tensors):
                return list(Copy.apply(maker, *call.tensors))
            with torch.no_grad():
                return maker.outputs(call.tensors, grad)
        finally:
            self._busy = False

    def _origin(self, traced: Traced, call: Call) -> Origin:
        region = self._where.region
        if traced.call is call:
            return Origin(None, {}, region, traced.number, region)
        names = self._where.module_names
        mapped = {traced.path: self._where.path}
        for a, b in zip(traced.call.structure.parts, call.structure.parts, strict=True):
            one, other = names.get(id(a)), names.get(id(b))
            if (one is None) != (other is None):
                raise NotRepeatedError("a module has no name")
            if one is not None and other is not None:
                mapped[one] = other
        lines = {traced.call.line: call.line}
        return Origin(mapped, lines, region, traced.number, traced.region)

    def _touch(self, kind: Kind, tensors: list[torch.Tensor]) -> None:
        with torch._C.DisableTorchFunction():
            self._touched.append((kind, tensors, [tensor._version for tensor in tensors]))

    def _look_back(self) -> None:
        """Gives up calls whose tensors were changed in place afterwards: copies share no memory."""
        with torch._C.DisableTorchFunction():
            for kind, tensors, versions in self._touched:
                if [tensor._version for tensor in tensors] == versions:
                    continue
                if get_proxy_mode() is not None:
                    raise NotRepeatedError("a tensor is changed in place")
                self._give_up(kind.call, "a tensor of it is changed in place")


def _mode_counts() -> tuple[int, int]:
    return torch._C._len_torch_function_stack(), torch._C._len_torch_dispatch_stack()


def _is_candidate(module: torch.nn.Module) -> bool:
    """Returns whether copies of a module's calls may pay."""
    if isinstance(module, torch.jit.ScriptModule):
        return False
    if module._modules or isinstance(module, torch.nn.RNNCellBase):
        return True
    cls: Any = type(module)
    return not is_trusted_class(cls)
