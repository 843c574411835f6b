"""Nets: modules that run as programs on several workers."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import itertools
import json
import os
import pathlib
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch._compile import _disable_dynamo
from torch._guards import TracingContext
from torch.distributed.device_mesh import DeviceMesh
from torch.utils import _pytree as pytree

from smex._C import (
    Executor,
    PlainArguments,
    digest,
    gather_outputs,
    home_tiles,
    moved_bytes,
    spilled_bytes,
)
from smex._logging import logger
from smex.capture import ValueRef, as_arguments
from smex.capture.autocast import autocast_for
from smex.capture.objects import Objects, flatten_call
from smex.capture.swap import all_slots
from smex.distributed.collectives import CollectiveOptions, choose_collectives
from smex.distributed.outcomes import together
from smex.distributed.world import World
from smex.errors import RankFailure, SmexRuntimeError, SmexTypeError, SmexValueError
from smex.execution.agreement import Agreement
from smex.execution.calls import refuse_export, refuse_tracer, refuse_tracers
from smex.execution.compiled import Compiled
from smex.execution.cut import Keeping
from smex.execution.differences import (
    Equals,
    described_inputs,
    described_modules,
    described_state,
    refuse_differences,
)
from smex.execution.given_plan import GivenPlan
from smex.execution.messages import message_order
from smex.execution.model_attributes import attribute_of_model
from smex.execution.model_file import example_call, write
from smex.execution.norms import count_in_torchs_norms
from smex.execution.programs import Alike, Calls, Occasion, Programs
from smex.execution.recut import Recuts, TimedCall, timed_call
from smex.execution.running_statistics import RunningStatistics
from smex.execution.saved import Optimizers, by_name
from smex.execution.scaling import refuse_lbfgs
from smex.execution.shards import ShardedState
from smex.execution.statistics import merged_stats
from smex.execution.trace import trace_json
from smex.execution.watch import State, Watch, described, without_sizes
from smex.planning.boundaries import Boundaries
from smex.planning.carried import Carried
from smex.planning.options import Shards
from smex.planning.pins import Pin, Pins
from smex.planning.plan import Plan
from smex.planning.search import for_other_sizes, search, search_again
from smex.planning.semantic import SemanticGraph
from smex.planning.vertex_costs import VertexCosts

if TYPE_CHECKING:  # it takes a second to import
    from torch.distributed.tensor import DTensor

_CAPTURES = threading.RLock()
_HOST = torch.device("cpu")
_FX_TRACE = inspect.unwrap(torch.fx.Tracer.trace).__code__
_UPDATE_BN = inspect.unwrap(torch.optim.swa_utils.update_bn).__code__
_DDP = torch.nn.parallel.DistributedDataParallel.__module__
_LBFGS = "torch.optim.lbfgs"
_FRAMES_OF_OTHERS = 4
_MODULE_WALKS = {
    inspect.unwrap(walk).__code__
    for walk in (torch.nn.Module.modules, torch.nn.Module.named_modules)
}


def _refuse_others(frame: Any) -> None:
    """Raises SmexRuntimeError where torch would take shards of one process for the model's."""
    for _ in range(_FRAMES_OF_OTHERS):
        if frame is None:
            return
        if frame.f_globals.get("__name__") == _LBFGS:
            refuse_lbfgs()
        if frame.f_globals.get("__name__") == _DDP:
            raise SmexRuntimeError(
                "DistributedDataParallel: the net is divided among the ranks already, and its "
                "gradients are those of all: use it as it is"
            )
        frame = frame.f_back


class _LastCall(NamedTuple):
    """The program and the run of a net's last call."""

    compiled: Compiled
    session: Any


class _UsualCall:
    """A call that is made again and again: told in microseconds from others.

    Args:
        net: that was called.
        compiled: the call's program.
        args: of the call.
        kwargs: of the call.
    """

    def __init__(
        self, net: PartitionedModule, compiled: Compiled, args: tuple, kwargs: dict[str, Any]
    ):
        self.compiled = compiled
        self._state = None if compiled.changed_inputs else net._watch.unchanged()
        self._trained = net._state.trained()
        self._arguments = PlainArguments(args, kwargs)

    def take(
        self, net: PartitionedModule, args: tuple, kwargs: dict[str, Any]
    ) -> list[torch.Tensor] | None:
        """Returns the tensors of a call that the program is for; None where it may not be."""
        if (
            self._state is None
            or net._watch.unchanged() is not self._state
            or net._state.trained() != self._trained
            or torch.compiler.is_exporting()
            or TracingContext.try_get() is not None
        ):
            return None
        return self._arguments.take(args, kwargs)


class PartitionedModule(torch.nn.Module):
    """A model split over workers; see `smex.partition`."""

    def __init__(
        self,
        model: torch.nn.Module,
        workers: int,
        loss_fn: Callable | None,
        devices: list[torch.device],
        options: dict[str, Any],
        plan: GivenPlan | None,
        keep_model: bool,
        world: World,
        local_inputs: bool,
        collectives: CollectiveOptions,
    ):
        super().__init__()
        self.workers = workers
        self.devices = devices
        self._world = world
        self._local_inputs = local_inputs
        self._collectives = collectives
        self.training = model.training
        self._options = options  # of the search
        self._given_plan = plan
        self._model = [model]  # in a list: its parameters are not this module's
        self._loss = [loss_fn]  # likewise
        self._watch = Watch(model, loss_fn)
        keeping = Keeping.OWN if keep_model else Keeping.GIVEN_UP
        homes = devices if options["device_memory"] is None else [_HOST] * len(devices)
        self._state = ShardedState(self, model, loss_fn, homes, keeping, world)
        count_in_torchs_norms(self._state)
        self._agreement = Agreement(world, whole_inputs=not local_inputs)
        self._programs = Programs()
        self._calls = Calls()
        learned = isinstance(options["boundaries"], str) and options["boundaries"] == "learned"
        self._recuts = Recuts() if learned else None
        self._making_seconds = 0.0  # of the latest program
        self._first: Compiled | None = None
        self._last: _LastCall | None = None
        self._usual: _UsualCall | None = None
        self._told_call: tuple[str, str] | None = None  # inputs and modes of the last captured

    @property
    def _loss_fn(self) -> Callable | None:
        return self._loss[0]

    def __getstate__(self) -> dict[str, Any]:
        """Gives the copy of a net shards of its own; the last run's values stay here."""
        self._state.count_copy()
        return {**self.__dict__, "_last": None, "_usual": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._state.belong_to(self)
        count_in_torchs_norms(self._state)

    # ---- planning ----

    def prepare(
        self, args: tuple | torch.Tensor, kwargs: dict[str, Any] | None = None
    ) -> PartitionedModule:
        """Captures, plans and lowers for these inputs; nothing is computed."""
        self._get_compiled(as_arguments(args), kwargs or {})
        return self

    @property
    def plan(self) -> Plan:
        """The plan of the first captured call."""
        if self._first is None:
            raise SmexRuntimeError(
                "plan: the model has not been captured yet; call the net once or pass args= to "
                "smex.partition"
            )
        return self._first.plan

    def _refuse_no_target(self, args: tuple, kwargs: dict[str, Any]) -> None:
        if self._loss_fn is not None and len(args) < (1 if kwargs else 2):
            raise SmexTypeError(
                "partition: a net with loss_fn= is called as net(*inputs, target), with the target "
                f"as the last positional argument, got {len(args)} of them; for outputs without a "
                "loss partition the model without loss_fn"
            )

    def _refuse_trace_of_nothing(self) -> None:
        """Raises SmexTypeError where the model takes inputs."""
        try:
            inspect.signature(self._model[0].forward).bind()
        except TypeError as error:
            raise SmexTypeError(
                'trace: it runs the net and needs its inputs, as in net.trace("trace.json", x), '
                "and the target where the net has a loss_fn; got none"
            ) from error

    def _get_compiled(self, args: tuple, kwargs: dict[str, Any]) -> Compiled:
        leaves, spec, _ = flatten_call(args, kwargs)
        return self._compiled_for(leaves, spec, args, kwargs)

    def _compiled_for(
        self, leaves: list[Any], spec: pytree.TreeSpec, args: tuple, kwargs: dict[str, Any]
    ) -> Compiled:
        """Returns the program of a call, which is captured at its first call of this signature."""
        self._refuse_no_target(args, kwargs)
        wants_grad = torch.is_grad_enabled()
        signature = tuple(map(described, leaves))
        autocast = tuple(
            torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else None
            for device in ("cpu", "cuda")
        )
        state = self._look()
        trained = self._state.trained()
        dtype = torch.get_default_dtype()
        modes = (spec, wants_grad, trained, autocast, dtype)
        occasion = Occasion(state, (signature, *modes))
        compiled = self._programs.get(occasion)
        if compiled is None:
            # One capture at a time in the process: torch's tracers are not made for more.
            with _CAPTURES, torch.inference_mode(False):  # shards are used in other modes too
                compiled = self._programs.get(occasion)
                if compiled is None:
                    kind = Occasion(state, (tuple(map(without_sizes, signature)), *modes))
                    compiled = self._compile(args, kwargs, wants_grad, self._calls.of(kind))
                    self._programs.add(occasion, compiled)
        return compiled

    def _look(self) -> State:
        """Returns what the model is; what the user has replaced in it is taken over."""
        state = self._watch.unchanged()
        if state is None:
            with _CAPTURES:  # whoever captures the model has other tensors in it
                state = self._watch.look()
                if self._watch.moved:
                    self._usual = None  # its program may read what has gone
                    gone = self._state.follow()
                    self._programs.drop(lambda program: not gone.isdisjoint(program.state_names))
        return state

    def _compile(
        self, args: tuple, kwargs: dict[str, Any], wants_grad: bool, alike: Alike
    ) -> Compiled:
        if self._world.is_alone:
            return self._compile_together(args, kwargs, wants_grad, alike)
        inputs = described_inputs(self._model[0], self._loss_fn, args, kwargs)
        passed = ", ".join(f"{name} {value}" for name, value in inputs.items())
        modes = "in training mode" if self.training else "in evaluation mode"
        modes += "" if wants_grad else " without gradients"
        told = passed
        if self._told_call is not None:
            passed_before, modes_before = self._told_call
            told += f", after calls with {passed_before}"
            if modes != modes_before:
                told = f"{passed} {modes}, after calls with {passed_before} {modes_before}"
        with self._world.during("net(...)", f", for the first time with {told}"):
            self._refuse_differences(inputs, wants_grad)
            compiled = self._compile_together(args, kwargs, wants_grad, alike)
        self._told_call = (passed, modes)
        return compiled

    def _refuse_differences(self, inputs: Mapping[str, str], wants_grad: bool) -> None:
        """Raises SmexRuntimeError on all ranks where the call or the model differs between them."""
        hint = "every rank must have the same model and pass arguments of the same shapes"
        if self._local_inputs:
            hint += (
                ', inputs="local" too: leave out what is too much (drop_last=True of a '
                'DataLoader), or pass whole batches, inputs="whole"'
            )
        described = {
            **inputs,
            **described_state(all_slots(self._model[0], self._loss_fn)),
            "torch.is_grad_enabled()": str(wants_grad),
            "torch.is_autocast_enabled()": str(torch.is_autocast_enabled(self.devices[0].type)),
        }
        refuse_differences(self._world, "partition", described, hint)

    def _compile_together(
        self, args: tuple, kwargs: dict[str, Any], wants_grad: bool, alike: Alike
    ) -> Compiled:
        started = time.perf_counter()
        what = f"the {len(self._programs) + 1}. kind of call"
        with Equals(self._world, what, lambda: described_modules(self._model[0])) as others:
            self._state.refuse_converted()
            with self._state.frozen_as_shards(), autocast_for(self.devices[0].type):
                captured = alike.captures.capture(
                    self._model[0], *self._whole(args, kwargs), self._loss_fn, wants_grad
                )
            self._world.check()
            graph = SemanticGraph(captured)
            plan = None if alike.plan is None else for_other_sizes(graph, alike.plan)
            if plan is None:
                plan = alike.plan = self._find_plan(graph)
            self._world.check()
            program = plan.program()
            if not self._world.is_alone:
                gather_outputs(plan.graph.native, self._world.ranks, program)
                others.check(digest(program), str(program))
        carriers = choose_collectives(self._world, program, self.devices, self._collectives)
        overlap = os.environ.get("SMEX_OVERLAP", "1") != "0"
        messages = (
            message_order(self._world, plan, program, carriers.collectives) if overlap else ([], [])
        )
        executor = Executor(
            program,
            devices=[str(device) for device in self.devices],
            sibling=None if self._first is None else self._first.executor,
            take=True,
            overlap=overlap,
            messages=messages,
            collectives=carriers.collectives,
            **self._world.executor_options(),
        )
        if not self._world.is_alone:
            plan.carried = Carried(self._world.size, executor.volumes, tuple(carriers.reasons))
        plan.forget_program()  # the executor has it
        compiled = Compiled(graph, plan, executor.program, executor, self._local_inputs)
        seconds = self._making_seconds = time.perf_counter() - started
        logger.info("program %d: %r in %.2f s", len(self._programs) + 1, graph, seconds)
        self._adopt_state(compiled)
        if self._first is None:
            self._first = compiled
        if plan is not alike.plan:
            plan.graph.forget_native()
            graph.forget_native()
        return compiled

    def _whole(self, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
        """Returns the arguments as they are to the model; of local inputs as those of all ranks."""
        if not self._local_inputs:
            return args, kwargs

        def of_all(tensor: torch.Tensor) -> torch.Tensor:
            if tensor.dim() == 0:
                return tensor
            rows = tensor.shape[0] * self._world.size
            return (
                tensor.detach()
                .new_empty((rows, *tensor.shape[1:]))
                .requires_grad_(tensor.requires_grad)
            )

        whole: tuple[tuple, dict[str, Any]] = pytree.tree_map_only(
            torch.Tensor, of_all, (args, kwargs)
        )
        return whole

    def _pins(self, graph: SemanticGraph) -> Pins:
        """Returns what the search keeps to; local inputs are cut by rows among the ranks."""
        if not self._local_inputs:
            return self._options["pinned"]
        captured = graph.captured
        rows = {
            captured.structure.values[ref.id].name: 0
            for ref in captured.input_refs
            if len(captured.shape(ref.id)) > 0
        }
        given = self._options["pinned"]
        if isinstance(given, Mapping):
            return {**given, **rows}
        given = [given] if isinstance(given, Pin) else list(given)
        return [*given, *(Pin(name, dim) for name, dim in rows.items())]

    def _find_plan(self, graph: SemanticGraph) -> Plan:
        """Returns the user's plan or the best, at first; later calls keep its parameters' tiles."""
        if self._first is None and self._given_plan is not None:
            plan = self._given_plan.on(graph)
            if plan.workers != self.workers:
                raise SmexValueError(
                    f"partition: the plan is for {plan.workers} workers, asked for {self.workers}"
                )
            return plan.in_device_memory(self._options["device_memory"])
        if self._first is None:
            return search(graph, self.workers, **{**self._options, "pinned": self._pins(graph)})
        first = self._first.plan
        # What the user pinned stays so, as far as it is here; of a given plan only what has shards.
        pinned = {} if self._given_plan is not None else first.pinned
        pinned = {
            name: pin
            for name, pin in pinned.items()
            if name in graph.value_by_name and name not in self._state.cuts
        }
        shards = {n: Shards(cut.placement, cut.boxes) for n, cut in self._state.cuts.items()}
        return search_again(graph, first, shards, pinned)

    # ---- modes and state ----

    def train(self, mode: bool = True) -> PartitionedModule:
        """Sets the mode of the model and all its modules, and of the loss.

        Modes of single modules are theirs: `model.bn.eval()` counts at the net's next call.
        """
        super().train(mode)
        for module in (self._model[0], self._loss_fn):
            if isinstance(module, torch.nn.Module):
                module.train(mode)
        return self

    def named_modules(
        self, memo: set[Any] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, torch.nn.Module]]:
        """This module alone, as it has no others; `swa_utils.update_bn` sees the model's norms."""
        caller: Any = sys._getframe(1)
        yield from super().named_modules(memo, prefix, remove_duplicate)
        while caller.f_code in _MODULE_WALKS:
            caller = caller.f_back
        if caller.f_code is _UPDATE_BN:
            for name, module in self._model[0].named_modules():
                if isinstance(module, torch.nn.modules.batchnorm._BatchNorm):
                    write = functools.partial(self._write_buffers, name)
                    yield f"{prefix}.{name}".lstrip("."), RunningStatistics(module, write)

    def _write_buffers(self, module_name: str) -> None:
        """Gives the shards of a module's buffers the values of the model's own."""
        for slot in all_slots(self._model[0], None):
            for module, name in slot.holders:
                if slot.role == "buffer" and module is self._model[0].get_submodule(module_name):
                    self._state.write(slot.names[0], getattr(module, name))

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, torch.Tensor) and "_model" in self.__dict__:
            raise SmexRuntimeError(
                f'partition: "{name}" cannot be set: the net has shards and not the model\'s own '
                "parameters; net.load_state_dict(...) changes them"
            )
        super().__setattr__(name, value)

    def named_parameters(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, Any]]:
        """The shards, as `shard0.layer.weight`: the number of the tile and the model's own name.

        Raises:
            SmexRuntimeError: before the model has been captured there are none, and an optimiser
                made of nothing would train nothing.
        """
        refuse_export(sys._getframe(1))
        if sys._getframe(1).f_code.co_name == "_untie_named_tensors_map":
            raise SmexRuntimeError(
                "functional_call: a partitioned net computes with its shards alone; call the model "
                "itself with other parameters, or load them: net.load_state_dict(...)"
            )
        if not self._world.is_alone:
            _refuse_others(sys._getframe(1))
        self._look()
        self._state.trained()  # takes over who was frozen or thawed in the model
        if not self._state.is_cut():
            raise SmexRuntimeError(
                "parameters: the shards exist once the model is captured; call the net first or "
                "pass example inputs: smex.partition(model, ..., args=(x,))"
                if self._first is None
                else "parameters: the model has parameters that were not there when it was "
                "captured; call the net with inputs, or net.prepare((x,)), which cuts them too"
            )
        for name, parameter in super().named_parameters(*args, **kwargs):
            yield self._state.told_name(name), parameter

    def apply(self, fn: Callable[[torch.nn.Module], Any]) -> PartitionedModule:
        """Calls a function for all of the model's modules; what it does to their tensors counts."""
        self._look()
        with _CAPTURES, self._world.during("net.apply"):
            self._state.apply(fn)
        return self

    def requires_grad_(self, requires_grad: bool = True) -> PartitionedModule:
        """Freezes or thaws all parameters."""
        if self._first is not None:
            return super().requires_grad_(requires_grad)
        for module in (self._model[0], self._loss_fn):
            if isinstance(module, torch.nn.Module):
                module.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forgets the gradients; before the first call there are none."""
        if self._first is not None:
            super().zero_grad(set_to_none)

    def __getattr__(self, name: str) -> Any:
        """Returns an attribute of the model: settings as they are, methods with this net as self.

        Raises:
            AttributeError: for modules and tensors of the model, which are not what is trained.
        """
        try:
            return super().__getattr__(name)
        except AttributeError as error:
            if name.startswith("__") or "_model" not in self.__dict__:
                raise error
            if not hasattr(self._model[0], name):
                raise error
        return attribute_of_model(self, self._model[0], name)

    def _apply(self, fn: Callable[[torch.Tensor], torch.Tensor], recurse: bool = True) -> Any:
        """Conversions (`half`, `to`, `cuda`) reach the model until it is captured.

        Raises:
            SmexRuntimeError: afterwards, when they would change the shards' dtype or device.
        """
        if self._first is None:
            for module in (self._model[0], self._loss_fn):
                if isinstance(module, torch.nn.Module):
                    module._apply(fn, recurse)
            return self
        for key, shard in (*self._parameters.items(), *self._buffers.items()):
            assert shard is not None
            probe = shard.detach().new_empty(0)
            changed = fn(probe)
            if changed.dtype != probe.dtype or changed.device != probe.device:
                name = self._state.name_of(key)
                raise SmexRuntimeError(
                    f'partition: the shards of "{name}" are {probe.dtype} on {probe.device} and '
                    f"cannot become {changed.dtype} on {changed.device}: convert the model before "
                    "smex.partition, or pass devices="
                )
        return super()._apply(fn, recurse)

    def _adopt_state(self, compiled: Compiled) -> None:
        """Cuts the model's tensors that have no shards yet as the plan says."""
        new = [
            value
            for value in compiled.captured.structure.values
            if value.role in ("parameter", "buffer") and value.name not in self._state.cuts
        ]
        if not new and self._first is not None:
            return
        ids = [value.id for value in new]
        tiles = home_tiles(compiled.plan.graph.native, compiled.plan.native, ids)
        placements = [compiled.plan.placement(value.name) for value in new]
        self._state.cut([value.name for value in new], tiles, placements)

    def state_dict(  # type: ignore[override]
        self, *, destination: Any = None, prefix: str = "", keep_vars: bool = False
    ) -> dict[str, torch.Tensor]:
        """Whole tensors under the model's own names, in its order.

        Those of a loss that has parameters follow as `loss_fn.weight`.

        `destination` and `prefix` are what a module that contains this one passes; `keep_vars` is
        of no use, since whole tensors have no graph.
        """
        self._look()
        with _CAPTURES, self._world.during("net.state_dict()"):
            return self._state.save(destination, prefix)

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, strict: bool,
        missing_keys: list[str], unexpected_keys: list[str], error_msgs: list[str],
    ) -> None:  # fmt: skip
        """Does the part of a containing module's `load_state_dict` that is this net's."""
        own: Any = OrderedDict(
            (name.removeprefix(prefix), value)
            for name, value in state_dict.items()
            if name.startswith(prefix)
        )
        own._metadata = self._state.metadata()
        try:
            result = self.load_state_dict(own, strict=False)
        except RuntimeError as error:
            _, *found = str(error).splitlines()
            error_msgs += [
                line.strip().replace("mismatch for ", f"mismatch for {prefix}")
                for line in found or [str(error)]
            ]
            return
        missing_keys += [prefix + name for name in result.missing_keys]
        unexpected_keys += [prefix + name for name in result.unexpected_keys if strict]

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> Any:
        """Loads whole tensors by the model's own names, whatever the number of workers was.

        The model's own hooks and versions count. Where keys or shapes do not fit, nothing changes.
        """
        if assign:
            raise SmexValueError("load_state_dict: assign=True would drop the shards; use False")
        self._look()
        with _CAPTURES, self._world.during("net.load_state_dict"):
            return self._state.load(state_dict, strict)

    def sharded_state_dict(
        self, opt: Optimizers | None = None, *, for_loading: bool = False
    ) -> dict[str, Any]:
        """The tiles of this process, as `torch.distributed.checkpoint` (DCP) saves and loads them.

        `dcp.save(net.sharded_state_dict(opt), checkpoint_id=...)` writes checkpoints that plain
        torch reads, each name a whole tensor. To load one, into any number of workers::

            state = net.sharded_state_dict(opt, for_loading=True)
            dcp.load(state, checkpoint_id=...)
            net.load_sharded_state_dict(state, opt)

        Values are the tiles themselves. Optimisers' states are under
        `optimizer.<name>.state.<parameter>.<key>`, options under
        `optimizer.<name>.param_groups.<number>`. All processes of a net call this.

        Args:
            opt: an optimiser, or a list or dict of them, made of `net.parameters()`.
            for_loading: also give room to the states that an optimiser does not have yet.

        Raises:
            SmexRuntimeError: the net is not captured yet.
            SmexValueError: an optimiser has what cannot be saved.
        """
        self._look()
        self._refuse_uncut("sharded_state_dict")
        from smex.execution.torch_checkpoint import sharded_state_dict

        with self._world.during("net.sharded_state_dict"):
            return sharded_state_dict(self._state, self._world, by_name(opt), for_loading)

    def load_sharded_state_dict(
        self, state: Mapping[str, Any], opt: Optimizers | None = None
    ) -> None:
        """Takes over what `dcp.load` has read into what `sharded_state_dict` returned.

        Args:
            state: the dict, with its tensors.
            opt: as it was given there; what is not in tiles (steps, options) is set here.

        Raises:
            SmexValueError: `state` has not all of the net.
        """
        self._look()
        self._refuse_uncut("load_sharded_state_dict")
        from smex.execution.torch_checkpoint import load_sharded_state_dict

        load_sharded_state_dict(self._state, state, by_name(opt))

    def dtensors(self, mesh: DeviceMesh | None = None) -> dict[str, DTensor]:
        """Parameters and buffers as torch's DTensors, of a net of several processes.

        What is cut is `Shard` along the first dimension in which it is, the rest `Replicate`. Where
        torch's chunks are the net's own tiles they share its memory; the rest is a copy, so that
        only `load_dtensors` changes the net. All processes call this.

        Args:
            mesh: of the net's ranks, in any shape; by default one dimension of them. On CUDA it is
                needed, as the net's own group is of the CPU.

        Raises:
            SmexRuntimeError: all workers are in one process, or the net is not captured yet.
            SmexValueError: the mesh has another number of ranks.
        """
        self._look()
        self._refuse_uncut("dtensors")
        from smex.execution.dtensors import dtensors

        with self._world.during("net.dtensors()"):
            return dtensors(self._state, mesh)

    def load_dtensors(self, tensors: Mapping[str, DTensor], strict: bool = True) -> None:
        """Writes the values of DTensors into the net's tiles; all processes call this.

        Args:
            tensors: by the model's own names, on any mesh of the net's ranks and cut in any
                dimensions (`Shard`, `Replicate`).
            strict: whether names have to be the same on both sides.

        Raises:
            SmexRuntimeError: all workers are in one process, or the net is not captured yet.
            SmexValueError: names, shapes, types or placements do not fit; nothing is changed.
        """
        self._look()
        self._refuse_uncut("load_dtensors")
        from smex.execution.dtensors import load_dtensors

        with self._world.during("net.load_dtensors"):
            load_dtensors(self._state, tensors, strict)

    def _refuse_uncut(self, what: str) -> None:
        if not self._state.is_cut():
            raise SmexRuntimeError(
                f"{what}: the net has no shards before its model is captured; pass example "
                "inputs, smex.partition(model, ..., args=(x,)), or call it once"
            )

    def full_grads(self) -> dict[str, torch.Tensor]:
        """Every parameter's whole gradient by the model's own name; those without are left out."""
        self._look()
        with self._world.during("net.full_grads()"):
            return self._state.full_grads()

    # ---- running ----

    @_disable_dynamo  # torch.compiler.disable would import the compiler now
    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Takes and returns whole tensors, as the model does.

        Raises:
            CaptureError: the model cannot be captured.
            SmexRuntimeError: a tracer or a transform of torch.func calls it.
        """
        is_timed = self._recuts is not None and self._think_over_cuts(self._recuts)
        usual = self._usual
        inputs = None if usual is None else usual.take(self, args, kwargs)
        if usual is not None and inputs is not None:
            compiled, objects = usual.compiled, Objects()
        else:
            leaves, spec, objects = flatten_call(args, kwargs)
            refuse_tracers(leaves)
            compiled = self._compiled_for(leaves, spec, args, kwargs)
            inputs = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
            compiled.refuse(inputs)
            self._state.refuse_blank("partition")
            self._usual = _UsualCall(self, compiled, args, kwargs)
        if is_timed:
            compiled.executor.set_trace(True)
        try:
            self._agreement.check(inputs, compiled.names, self._state)
            results, session = compiled.call(self._state).run(inputs)
        except RankFailure as failure:
            self._world.tell_calls(failure, "net(...)")
            raise
        self._last = _LastCall(compiled, session)
        if compiled.returns_one_tensor:
            return results[0]
        following = iter(results)
        outputs = [
            next(following) if isinstance(leaf, ValueRef) else leaf
            for leaf in compiled.captured.flat_outputs
        ]
        return compiled.captured.result(outputs, objects)

    @property
    def vertex_costs(self) -> VertexCosts:
        """What a net with `boundaries="learned"` has learned of its calls by vertex.

        Raises:
            SmexRuntimeError: the net learns nothing.
        """
        if self._recuts is None:
            raise SmexRuntimeError(
                'vertex_costs: the net was made without boundaries="learned"; '
                "smex.VertexCosts().measure(net, *inputs) learns from any"
            )
        return self._recuts.costs

    def _think_over_cuts(self, recuts: Recuts) -> bool:
        """Cuts the graph's vertices anew where that pays; returns whether the call is timed."""
        if self._last is not None:
            compiled, session = self._last
            if recuts.was_timed:
                compiled.executor.set_trace(False)  # its backward pass was timed too
                events = [*itertools.chain(*self._world.gather(session.trace_events()))]
                recuts.add(timed_call(compiled.plan, events))
            if recuts.is_due():
                boundaries = recuts.think(max(self._world.gather(self._making_seconds)))
                if boundaries is not None:
                    self._cut_anew(boundaries)
        return recuts.count()

    def _cut_anew(self, boundaries: Boundaries) -> None:
        """Gives programs other boundaries; they are made when they are called."""
        assert self._first is not None
        self._first = dataclasses.replace(self._first, plan=self._first.plan.cut_at(boundaries))
        self._programs = Programs()
        self._calls.cut_at(boundaries)
        self._usual = None

    def __dir__(self) -> list[str]:
        """Without what the net has not: what inspects a net reads all that is listed."""
        absent = {"plan": self._first is None, "vertex_costs": self._recuts is None}
        return [name for name in super().__dir__() if not absent.get(name, False)]

    def _get_name(self) -> str:
        if sys._getframe(1).f_code is _FX_TRACE:  # which asks before it calls
            refuse_tracer("torch.fx")
        return super()._get_name()

    def __prepare_scriptable__(self) -> Any:
        refuse_tracer("torch.jit.script")

    def export(
        self,
        path: str | os.PathLike[str],
        args: tuple | torch.Tensor | None = None,
        kwargs: dict[str, Any] | None = None,
    ) -> None:
        """Writes one kind of call, without gradients, as a file that C++ runs: `smex::Model`.

        The file has the program, the tiles of parameters and buffers as they are now, and the
        devices. It is replaced at once when all is written. See `docs/cpp.md`.

        Args:
            path: the file, as in "model.smex".
            args: of the call, of which shapes, types and what is no tensor count; by default those
                of the first call, or of `args=` of `smex.partition`.
            kwargs: keyword arguments of the call.

        Raises:
            SmexRuntimeError: the net is one of several processes, is not captured yet, or has
                parameters without values.
            SmexValueError: the call cannot be written, or the file.
        """
        if not self._world.is_alone:
            raise SmexRuntimeError(
                "export: the net is divided over several processes; partition the model in one "
                "process, smex.partition(model, workers=..., args=...), load the checkpoint there "
                "and export that net"
            )
        self._state.refuse_blank("export")
        if args is None and kwargs is None:
            if self._first is None:
                raise SmexRuntimeError(
                    "export: the model has not been captured yet; call the net once, or pass "
                    "net.export(path, args=(x,))"
                )
            args, kwargs = example_call(self._first.captured)
        with torch.no_grad():
            compiled = self._get_compiled(as_arguments(() if args is None else args), kwargs or {})
        write(compiled, self._state, path)

    # ---- measurements ----

    def stats(self) -> dict[str, Any]:
        """Returns what the last run measured, beside what the plan predicted.

        Of all workers; in several processes every rank calls this.
        """
        if self._last is None:
            raise SmexRuntimeError("stats: nothing has run yet; call the net first")
        compiled, session = self._last
        with self._world.during("net.stats()"):
            measured = merged_stats(self._world.gather(session.stats()))
        measured["bytes_moved"] = sum(measured["moved_bytes"].values())
        measured["predicted_bytes_moved"] = moved_bytes(
            compiled.program, backward=measured["backward_seconds"] > 0
        )
        backward = measured["backward_seconds"] > 0
        if compiled.program.device_memory:
            measured["predicted_spilled_bytes"] = spilled_bytes(compiled.program, backward=backward)
        measured["predicted_peak_bytes"] = compiled.plan.peak_bytes()
        measured["plan_bytes"] = compiled.plan.total_bytes
        return measured

    def trace(
        self, path: str | pathlib.Path, *args: Any, backward: bool = False, **kwargs: Any
    ) -> Any:
        """Runs the net once with timing on and writes a file for ui.perfetto.dev.

        The file has a track per worker, with every operator and fetch, and a track per link that
        moves bytes, from source to destination. A fetch that several workers feed is on all their
        links for its whole duration, each with its own bytes. Spans tell module, line and
        value; around them are spans of forward and backward, arrows go from what makes a tile to
        what fetches it, and the predicted memory of each worker is a counter.

        Args:
            path: the JSON file, in Chrome's trace event format.
            args: inputs of the net, and its target where the loss is part of it.
            backward: also run the backward program, for the gradient of the sum of all outputs;
                the `grad` of parameters stays as it is. Without it the forward-only program runs,
                as under `no_grad`.
            kwargs: keyword inputs of the net.

        Returns:
            The net's result, without gradients. Buffers are updated as in any call.
        """
        if not args and not kwargs:
            self._refuse_trace_of_nothing()
        with self._world.during("net.trace"):
            compiled, result, events = self._traced(args, kwargs, backward)
            content = ""
            if self._world.rank == 0:
                found = trace_json(compiled.plan, compiled.program, events)
                content = json.dumps({"traceEvents": found})
            if self._world.is_alone:
                pathlib.Path(path).write_text(content)
            else:
                together(self._world, functools.partial(self._write_trace, path, content))
        return pytree.tree_map_only(torch.Tensor, torch.Tensor.detach, result)

    def timed_call(self, args: tuple, kwargs: dict[str, Any], backward: bool) -> TimedCall:
        """Runs the net once; in several processes every rank calls this.

        Args:
            args: of the call.
            kwargs: of the call.
            backward: see `trace`.

        Returns:
            What the workers' operators took.
        """
        with self._world.during("smex.VertexCosts.measure"):
            compiled, _, events = self._traced(args, kwargs, backward)
        return timed_call(compiled.plan, events)

    def _traced(
        self, args: tuple, kwargs: dict[str, Any], backward: bool
    ) -> tuple[Compiled, Any, list[tuple[Any, ...]]]:
        """Returns the program, the result and the events of a call, of all ranks."""
        with torch.set_grad_enabled(backward):
            compiled = self._get_compiled(args, kwargs)
            compiled.executor.set_trace(True)
            try:
                result = self(*args, **kwargs)
                assert self._last is not None
                session = self._last.session
                if backward:
                    self._run_backward(result)
            finally:
                compiled.executor.set_trace(False)
        return compiled, result, [*itertools.chain(*self._world.gather(session.trace_events()))]

    def _write_trace(self, path: Any, content: str) -> None:
        """Writes the file in one of the processes."""
        if self._world.rank != 0:
            return
        try:
            pathlib.Path(path).write_text(content)
        except OSError as error:
            raise SmexRuntimeError(f'trace: "{path}" cannot be written: {error}') from error

    def _run_backward(self, result: Any) -> None:
        """Runs the backward program of one call, with tangents of one; changes no `grad`."""
        outputs = [
            leaf
            for leaf in pytree.tree_leaves(result)
            if isinstance(leaf, torch.Tensor) and leaf.requires_grad
        ]
        parameters = [p for p in self.parameters() if p.requires_grad]
        if not outputs or not parameters:
            raise SmexValueError("trace: backward=True, but no output or parameter has a gradient")
        ones = [torch.ones_like(output) for output in outputs]
        torch.autograd.grad(outputs, parameters, ones, allow_unused=True)

    def _repr_html_(self) -> str | None:
        """Returns the plan of the first captured call; notebooks show text where it is None."""
        return None if self._first is None else self._first.plan._repr_html_()

    def extra_repr(self) -> str:
        """Returns the model's class and its plan in one line."""
        state = repr(self._first.plan) if self._first is not None else "not captured yet"
        return f"{type(self._model[0]).__name__}, {state}"
