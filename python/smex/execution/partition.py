"""`smex.partition`: a model that trains on several workers with one changed line."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import json
import os
import pathlib
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from smex._C import Executor, home_tiles
from smex._C import moved_bytes as native_moved_bytes
from smex._logging import logger
from smex.capture import CapturedGraph, ValueRef, as_arguments, capture
from smex.capture.memory import borrowed, read_back
from smex.capture.objects import flatten_call, refuse_layout
from smex.capture.swap import all_slots
from smex.errors import SmexRuntimeError, SmexTypeError, SmexValueError
from smex.execution.calls import (
    refuse_export,
    refuse_meta,
    refuse_overlaps,
    refuse_tracer,
    refuse_tracers,
)
from smex.execution.programs import Occasion, Programs
from smex.execution.running_statistics import RunningStatistics
from smex.execution.shards import ShardedState, Tiles, assembled, sliced
from smex.execution.trace import trace_json
from smex.execution.watch import State, Watch, described
from smex.planning.machine import Machine
from smex.planning.options import Shards
from smex.planning.pins import Pins
from smex.planning.plan import Plan
from smex.planning.plan_file import read_plan_file
from smex.planning.search import search, search_again
from smex.planning.semantic import SemanticGraph

_CAPTURES = threading.RLock()
_FX_TRACE = inspect.unwrap(torch.fx.Tracer.trace).__code__
_UPDATE_BN = inspect.unwrap(torch.optim.swa_utils.update_bn).__code__
_MOST_WORKERS = 1024
"""Each worker is a thread of this process."""
_MODULE_WALKS = {
    inspect.unwrap(walk).__code__
    for walk in (torch.nn.Module.modules, torch.nn.Module.named_modules)
}


def capture_graph(
    model: Callable,
    args: tuple | torch.Tensor = (),
    loss_fn: Callable | None = None,
    **options: Any,
) -> SemanticGraph:
    """Captures a model and attaches a Spec to every op; `options` are those of `smex.capture`."""
    return SemanticGraph(capture(model, args, loss_fn=loss_fn, **options))


def partition(
    model: torch.nn.Module,
    workers: int | None = None,
    *,
    loss_fn: Callable | None = None,
    args: tuple | torch.Tensor | None = None,
    devices: Sequence[str | torch.device] | str | torch.device | None = None,
    objective: str = "communication",
    planner: str = "tofu",
    machine: Machine | None = None,
    memory_limit: float | None = None,
    optimizer_states: float = 0,
    replicate_bytes: int | None = None,
    mesh: Sequence[int] | None = None,
    joint: int = 1,
    pins: Pins = (),
    plan: Plan | str | pathlib.Path | None = None,
) -> PartitionedModule:
    """Splits a model over workers from what its operators mean.

    Args:
        model: any module; its tensors are copied into shards and the module is not used to compute.
        workers: number of workers, threads of this process on the CPU. By default that of the plan,
            of the devices, or 1.
        loss_fn: with it the result is called as `net(*inputs, target)` and returns the loss, so
            that the model's outputs are never gathered.
        args: example inputs; with them the plan is there at once instead of at the first call.
        devices: one device per worker, or one for all of them; by default the CPU.
        objective: what the search minimises: "communication", the bytes, or "time", the seconds of
            an iteration on `machine`.
        planner: see `smex.search`, as for the next six.
        machine: what "time" is counted by.
        memory_limit: bytes of a worker that the predicted peak keeps to.
        optimizer_states: so many tensors of each parameter's size the optimiser keeps, which the
            limit counts: 1 for SGD with momentum, 2 for Adam.
        replicate_bytes: tensors up to this size may be held by every worker.
        mesh: the workers of the recursive steps.
        joint: how many steps are chosen together, 1 or 2.
        pins: placements that the search keeps to, such as `[smex.pin("fc.weight", "S0")]`.
        plan: what `smex.search` returned, which is run as it is if the model and its inputs are the
            same, or a file that `Plan.save` wrote; otherwise the named tensors are placed as it
            says, and the rest follows from them.

    Returns:
        A module that takes and returns whole tensors like `model`. `parameters()` are shards.

    Raises:
        CaptureError: the model cannot be captured.
        PlanError: the plan or a pin does not fit the model, or no plan the memory limit.
        SmexValueError: impossible workers or devices, or pins beside a plan.
    """
    if not isinstance(model, torch.nn.Module):
        raise SmexTypeError(
            f"partition: model must be a torch.nn.Module, got {type(model).__name__}"
        )
    if isinstance(model, torch.nn.parallel.DistributedDataParallel) or (
        isinstance(model, torch.nn.DataParallel) and model.device_ids
    ):
        raise SmexTypeError(
            f"partition: the model is wrapped in {type(model).__name__}, which divides it already: "
            "pass model.module"
        )
    if any(isinstance(part, PartitionedModule) for part in model.modules()):
        raise SmexTypeError(
            "partition: the model is partitioned already, or a part of it is: pass the model that "
            "it was made from"
        )
    if plan is not None and pins:
        raise SmexValueError(
            "partition: a plan places all tensors, pins= would change it; give one of them, or "
            "pins to smex.search and its plan to smex.partition"
        )
    given = None
    if plan is not None:
        given = _GivenPlan.of(plan)
        workers = given.content["workers"] if workers is None else workers
    if isinstance(devices, (str, torch.device)):
        one, listed = devices, None
    else:
        one, listed = "cpu", devices
    if workers is None:
        workers = 1 if listed is None else len(listed)
    if not isinstance(workers, int) or isinstance(workers, bool) or workers < 1:
        raise SmexValueError(f"partition: workers must be an int of at least 1, got {workers!r}")
    if workers > _MOST_WORKERS:
        raise SmexValueError(
            f"partition: {workers} workers would be as many threads of this process; at most "
            f"{_MOST_WORKERS} are. smex.search plans for more"
        )
    if listed is not None and len(listed) != workers:
        raise SmexValueError(
            f"partition: {workers} workers need as many devices, got {len(listed)}"
        )
    places = [_checked_device(device) for device in listed or [one] * workers]
    options = {
        "objective": objective,
        "planner": planner,
        "machine": machine,
        "memory_limit": memory_limit,
        "optimizer_states": optimizer_states,
        "replicate_bytes": replicate_bytes,
        "mesh": mesh,
        "joint": joint,
        "pinned": pins,
    }
    net = PartitionedModule(model, workers, loss_fn, places, options, given)
    if args is not None:
        net.prepare(as_arguments(args))
    return net


def _checked_device(device: str | torch.device) -> torch.device:
    try:
        found = torch.device(device)
    except RuntimeError:
        raise SmexValueError(
            f'partition: devices are like "cpu" or "cuda:0", got {device!r}'
        ) from None
    if found.type not in ("cpu", "cuda"):
        raise SmexValueError(f'partition: devices are like "cpu" or "cuda:0", got {device!r}')
    available = torch.cuda.device_count() if found.type == "cuda" else 1
    if found.type == "cuda" and (found.index or 0) >= available:
        raise SmexValueError(
            f'partition: there is no device "{found}"; torch sees {available} CUDA devices'
        )
    return found


@dataclasses.dataclass(frozen=True)
class _GivenPlan:
    """The plan that the user has given: what its file says, and itself where it is at hand."""

    content: dict[str, Any]
    plan: Plan | None

    @staticmethod
    def of(plan: Plan | str | pathlib.Path) -> _GivenPlan:
        """From what `smex.partition` takes."""
        if isinstance(plan, Plan):
            return _GivenPlan(plan.contents(), plan)
        if not isinstance(plan, (str, os.PathLike)):
            raise SmexTypeError(
                "partition: plan must be what smex.search returns or the path of a plan's file, "
                f"got {plan!r}"
            )
        return _GivenPlan(read_plan_file(plan), None)

    def on(self, graph: SemanticGraph) -> Plan:
        """The plan of a newly captured graph."""
        same = None if self.plan is None else self.plan.of_same(graph)
        return Plan.from_contents(self.content, graph) if same is None else same

    def __deepcopy__(self, memo: dict[int, Any]) -> _GivenPlan:
        return self  # nothing here changes

    def __reduce__(self) -> Any:
        return _GivenPlan, (self.content, None)


@dataclasses.dataclass
class _Compiled:
    """One captured call signature: its plan, program and what binds tensors to them."""

    graph: SemanticGraph
    plan: Plan
    program: Any
    executor: Any
    binding_of: dict[int, int]  # value id -> position among the program's inputs
    regions: list[list[list[tuple[int, int]]]]  # [binding][worker]
    read_back: set[int]  # values whose memory the backward program reads
    tangents_of: dict[int, set[int]]  # by value with a gradient the outputs that it depends on

    constants: dict[int, torch.Tensor]  # by value id

    borrowed: set[int] = dataclasses.field(init=False)  # values that may lie in bound memory
    draws: bool = dataclasses.field(init=False)  # whether a seed is needed
    updated: set[int] = dataclasses.field(init=False)  # inputs that the forward program changes

    def __post_init__(self) -> None:
        outputs = self.graph.captured.outputs
        self.updated = {
            out.target
            for out in outputs
            if out.kind in ("buffer_update", "input_update") and out.target is not None
        }
        self.borrowed = borrowed(self.captured)
        self.draws = self.captured.draws

    @functools.cached_property
    def state_names(self) -> set[str]:
        """The parameters and buffers that it reads."""
        return {v.name for v in self.captured.values if v.role in ("parameter", "buffer")}

    @property
    def captured(self) -> CapturedGraph:
        """The records that the graph was made from."""
        return self.graph.captured

    def refuse(self, inputs: list[torch.Tensor]) -> None:
        """Raises an error for inputs that the program cannot read, or change as the model does."""
        refs = self.captured.input_refs
        names = [self.captured.values[ref.id].name for ref in refs]
        refuse_meta(inputs, names)
        refuse_overlaps({n for n, ref in enumerate(refs) if ref.id in self.updated}, inputs, names)

    def __deepcopy__(self, memo: dict[int, Any]) -> _Compiled:
        """The same, with the plain tensors of the model's copy."""
        constants = {i: memo.get(id(tensor), tensor) for i, tensor in self.constants.items()}
        return dataclasses.replace(self, constants=constants)

    def __reduce__(self) -> Any:
        raise SmexTypeError(
            "partition: a net that was captured cannot be pickled; save net.state_dict() and "
            "net.plan.save(path), and partition the model again"
        )


class PartitionedModule(torch.nn.Module):
    """A model split over workers; see `smex.partition`."""

    def __init__(
        self,
        model: torch.nn.Module,
        workers: int,
        loss_fn: Callable | None,
        devices: list[torch.device],
        options: dict[str, Any],
        plan: _GivenPlan | None,
    ):
        super().__init__()
        self.workers = workers
        self.devices = devices
        self.training = model.training
        self._options = options  # of the search
        self._given_plan = plan
        self._model = [model]  # in a list: its parameters are not this module's
        self._loss = [loss_fn]  # likewise
        self._watch = Watch(model, loss_fn)
        self._state = ShardedState(self, model, loss_fn, devices)
        self._programs: Programs[_Compiled] = Programs()
        self._first: _Compiled | None = None
        self._last_session: Any = None

    @property
    def _loss_fn(self) -> Callable | None:
        return self._loss[0]

    def __getstate__(self) -> dict[str, Any]:
        """The copy of a net has shards of its own; the last run's values stay here."""
        return {**self.__dict__, "_last_session": None}

    # ---- planning ----

    def prepare(self, args: tuple, kwargs: dict[str, Any] | None = None) -> PartitionedModule:
        """Captures, plans and lowers for these inputs; nothing is computed."""
        self._get_compiled(args, kwargs or {})
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

    def _get_compiled(self, args: tuple, kwargs: dict[str, Any]) -> _Compiled:
        leaves, spec, _ = flatten_call(args, kwargs)
        return self._compiled_for(leaves, spec, args, kwargs)

    def _compiled_for(
        self, leaves: list[Any], spec: pytree.TreeSpec, args: tuple, kwargs: dict[str, Any]
    ) -> _Compiled:
        """The program of a call, which is captured at its first call of this signature."""
        wants_grad = torch.is_grad_enabled()
        signature = tuple(
            [
                _described(leaf) if isinstance(leaf, torch.Tensor) else described(leaf)
                for leaf in leaves
            ]
        )
        autocast = tuple(
            torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else None
            for device in ("cpu", "cuda")
        )
        state = self._look()
        trained = self._state.trained()
        dtype = torch.get_default_dtype()
        occasion = Occasion(state, (signature, spec, wants_grad, trained, autocast, dtype))
        compiled = self._programs.get(occasion)
        if compiled is None:
            # One capture at a time in the process: torch's tracers are not made for more.
            with _CAPTURES, torch.inference_mode(False):  # shards are used in other modes too
                compiled = self._programs.get(occasion)
                if compiled is None:
                    compiled = self._compile(args, kwargs, wants_grad)
                    self._programs.add(occasion, compiled)
        return compiled

    def _look(self) -> State:
        """What the model is; what the user has replaced in it is taken over."""
        state = self._watch.unchanged()
        if state is None:
            with _CAPTURES:  # whoever captures the model has other tensors in it
                state = self._watch.look()
                if self._watch.moved:
                    gone = self._state.follow()
                    self._programs.drop(lambda program: not gone.isdisjoint(program.state_names))
        return state

    def _compile(self, args: tuple, kwargs: dict[str, Any], wants_grad: bool) -> _Compiled:
        started = time.perf_counter()
        with self._state.frozen_as_shards():
            graph = capture_graph(
                self._model[0], args, self._loss_fn, kwargs=kwargs, training=wants_grad
            )
        plan = self._find_plan(graph)
        program = plan.program()
        bindings = list(program.inputs)
        compiled = _Compiled(
            graph=graph,
            plan=plan,
            program=program,
            executor=Executor(
                program,
                devices=[str(device) for device in self.devices],
                sibling=None if self._first is None else self._first.executor,
            ),
            binding_of={binding.value: i for i, binding in enumerate(bindings)},
            regions=[list(binding.regions) for binding in bindings],
            read_back=read_back(graph.captured),
            tangents_of=_tangents_of(graph.captured),
            constants={v.id: v.tensor for v in graph.captured.values if v.tensor is not None},
        )
        seconds = time.perf_counter() - started
        logger.info("program %d: %r in %.2f s", len(self._programs) + 1, graph, seconds)
        self._adopt_state(compiled)
        if self._first is None:
            self._first = compiled
        return compiled

    def _find_plan(self, graph: SemanticGraph) -> Plan:
        """The first call's plan is the user's or the best; later ones keep its parameters."""
        if self._first is None and self._given_plan is not None:
            plan = self._given_plan.on(graph)
            if plan.workers != self.workers:
                raise SmexValueError(
                    f"partition: the plan is for {plan.workers} workers, asked for {self.workers}"
                )
            return plan
        if self._first is None:
            return search(graph, self.workers, **self._options)
        first = self._first.plan
        # What the user pinned stays so, as far as it is here; of a given plan only what has shards.
        pinned = {} if self._given_plan is not None else first.pinned
        pinned = {
            name: pin
            for name, pin in pinned.items()
            if name in graph.value_by_name and name not in self._state.boxes
        }
        placed = self._state.placements
        shards = {name: Shards(placed[name], boxes) for name, boxes in self._state.boxes.items()}
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
        self._look()
        if not self._state.is_cut():
            raise SmexRuntimeError(
                "parameters: the shards exist once the model is captured; call the net first or "
                "pass example inputs: smex.partition(model, ..., args=(x,))"
            )
        for name, parameter in super().named_parameters(*args, **kwargs):
            yield self._state.told_name(name), parameter

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
                name = self._state.told_name(key).partition(".")[2]
                raise SmexRuntimeError(
                    f'partition: the shards of "{name}" are {probe.dtype} on {probe.device} and '
                    f"cannot become {changed.dtype} on {changed.device}: convert the model before "
                    "smex.partition, or pass devices="
                )
        return super()._apply(fn, recurse)

    def _adopt_state(self, compiled: _Compiled) -> None:
        """Cuts the model's tensors that have no shards yet as the plan says."""
        new = [
            value
            for value in compiled.captured.values
            if value.role in ("parameter", "buffer") and value.name not in self._state.tiles
        ]
        ids = [value.id for value in new]
        tiles = home_tiles(compiled.graph.native, compiled.plan.native, ids)
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
        with _CAPTURES:
            return self._state.save(destination, prefix)

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, strict: bool,
        missing_keys: list[str], unexpected_keys: list[str], error_msgs: list[str],
    ) -> None:  # fmt: skip
        """The part of a containing module's `load_state_dict` that is this net's."""
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
        with _CAPTURES:
            return self._state.load(state_dict, strict)

    def full_grads(self) -> dict[str, torch.Tensor]:
        """Every parameter's whole gradient by the model's own name; those without are left out."""
        return self._state.full_grads()

    # ---- running ----

    @torch.compiler.disable(reason="a partitioned net is a compiled program")
    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Takes and returns whole tensors, as the model does.

        Raises:
            CaptureError: the model cannot be captured.
            SmexRuntimeError: a tracer or a transform of torch.func calls it.
        """
        leaves, spec, objects = flatten_call(args, kwargs)
        refuse_tracers(leaves)
        compiled = self._compiled_for(leaves, spec, args, kwargs)
        inputs = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        compiled.refuse(inputs)
        shards = [
            tile
            for value in compiled.captured.with_role("parameter")
            for tile, _ in self._state.unique(value.name)
        ]
        flat = _Run.apply(self, compiled, len(inputs), *inputs, *shards)
        flat = flat if isinstance(flat, tuple) else (flat,)
        results = iter(flat)
        outputs = [
            next(results) if isinstance(leaf, ValueRef) else leaf
            for leaf in compiled.captured.flat_outputs
        ]
        return compiled.captured.result(outputs, objects)

    def __dir__(self) -> list[str]:
        """Without the plan while there is none: what inspects a net reads all that is listed."""
        return [name for name in super().__dir__() if name != "plan" or self._first is not None]

    def _get_name(self) -> str:
        if sys._getframe(1).f_code is _FX_TRACE:  # which asks before it calls
            refuse_tracer("torch.fx")
        return super()._get_name()

    def __prepare_scriptable__(self) -> Any:
        refuse_tracer("torch.jit.script")

    def _start(self, compiled: _Compiled, inputs: list[torch.Tensor]) -> Any:
        """Binds shards and sliced inputs and runs the forward program."""
        refs = compiled.captured.input_refs
        by_id = {ref.id: tensor for ref, tensor in zip(refs, inputs, strict=True)}
        bound: list[Tiles | None] = []
        for binding, position in compiled.binding_of.items():
            value = compiled.captured.values[binding]
            if value.role == "tangent":
                bound.append(None)  # set when backward begins
                continue
            if value.role in ("parameter", "buffer"):
                tiles = [_detached(tile) for tile in self._state.tiles[value.name]]
            else:
                whole = compiled.constants[binding] if value.role == "constant" else by_id[value.id]
                tiles = self._scatter(compiled, position, whole)
            if binding in compiled.read_back and binding in compiled.updated:
                # This call's new value comes before backward reads the old one.
                tiles = [None if tile is None else tile.clone() for tile in tiles]
            bound.append(tiles)
        seed = int(torch.empty((), dtype=torch.int64).random_().item()) if compiled.draws else 0
        session = compiled.executor.start(bound, seed=seed)
        session.run_forward()
        self._last_session = (session, compiled)
        return session

    def _scatter(self, compiled: _Compiled, position: int, whole: torch.Tensor | None) -> Tiles:
        assert whole is not None
        whole = whole.detach().resolve_conj().resolve_neg()
        binding = compiled.program.inputs[position]
        tiles: Tiles = []
        for worker, (slot, box) in enumerate(
            zip(binding.slots, compiled.regions[position], strict=True)
        ):
            if slot < 0:
                tiles.append(None)
            else:
                tiles.append(sliced(whole, box).to(self.devices[worker]).contiguous())
        return tiles

    def _gather(self, compiled: _Compiled, session: Any, position: int) -> torch.Tensor:
        """The whole of a graph output, in memory that is none of the inputs'."""
        binding = compiled.program.outputs[position]
        shape = list(compiled.captured.values[binding.value].shape)
        boxes = [
            (slot >= 0, list(box)) for slot, box in zip(binding.slots, binding.regions, strict=True)
        ]
        tiles = session.outputs(position)
        whole = assembled(shape, boxes, tiles)
        is_tile = any(whole is tile for tile in tiles)
        return whole.clone() if is_tile and binding.value in compiled.borrowed else whole

    def _updates(self, compiled: _Compiled, session: Any) -> list[tuple[torch.Tensor, Any]]:
        """The tiles of parameters and buffers that the forward program changes, and their values.

        All values are there before one is written: they may be made of what others were.
        """
        found: dict[int, tuple[torch.Tensor, Any]] = {}
        for position, output in enumerate(compiled.captured.outputs):
            if output.kind != "buffer_update" or output.value is None:
                continue
            is_borrowed = output.value in compiled.borrowed
            for tile, new in zip(
                self._state.tiles[output.name], session.outputs(position), strict=True
            ):
                if tile is not None:
                    found.setdefault(id(tile), (tile, new.clone() if is_borrowed else new))
        return list(found.values())

    def _input_updates(
        self, compiled: _Compiled, session: Any, inputs: Sequence[torch.Tensor]
    ) -> list[tuple[torch.Tensor, Any]]:
        """The caller's tensors that the model changes in place, and their values."""
        place = {ref.id: n for n, ref in enumerate(compiled.captured.input_refs)}
        return [
            (inputs[place[output.target]], self._gather(compiled, session, position))
            for position, output in enumerate(compiled.captured.outputs)
            if output.kind == "input_update" and output.target is not None
        ]

    # ---- measurements ----

    def stats(self) -> dict[str, Any]:
        """What the last run measured, beside what the plan predicted."""
        if self._last_session is None:
            raise SmexRuntimeError("stats: nothing has run yet; call the net first")
        session, compiled = self._last_session
        measured = dict(session.stats())
        measured["bytes_moved"] = sum(measured["moved_bytes"].values())
        measured["predicted_bytes_moved"] = native_moved_bytes(
            compiled.program, backward=measured["backward_seconds"] > 0
        )
        measured["predicted_peak_bytes"] = compiled.plan.peak_bytes()
        measured["plan_bytes"] = compiled.plan.total_bytes
        return measured

    def trace(
        self, path: str | pathlib.Path, *args: Any, backward: bool = False, **kwargs: Any
    ) -> Any:
        """Runs the net once with timing on and writes a file for ui.perfetto.dev.

        The file has a track per worker, with every operator and fetch, and a track per link that
        moves bytes, from source to destination. A fetch that several workers feed is on all their
        links for its whole duration, each with its own bytes.

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
        with torch.set_grad_enabled(backward):
            compiled = self._get_compiled(args, kwargs)
            compiled.executor.set_trace(True)
            try:
                result = self(*args, **kwargs)
                session = self._last_session[0]
                if backward:
                    self._run_backward(result)
            finally:
                compiled.executor.set_trace(False)
        content = {"traceEvents": trace_json(compiled.program, session.trace_events())}
        pathlib.Path(path).write_text(json.dumps(content))
        return pytree.tree_map_only(torch.Tensor, torch.Tensor.detach, result)

    def _run_backward(self, result: Any) -> None:
        """The backward program of one call, with tangents of one; changes no `grad`."""
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

    def extra_repr(self) -> str:
        """The model's class and its plan in one line."""
        state = repr(self._first.plan) if self._first is not None else "not captured yet"
        return f"{type(self._model[0]).__name__}, {state}"


class _Run(torch.autograd.Function):
    """One iteration: the forward program, and the backward program when it is asked for."""

    @staticmethod
    def forward(
        ctx: Any, net: PartitionedModule, compiled: _Compiled, num_inputs: int, *tensors: Any
    ) -> Any:
        inputs = list(tensors[:num_inputs])
        session = net._start(compiled, inputs)
        ctx.net, ctx.compiled, ctx.session = net, compiled, session
        ctx.device_of_inputs = [tensor.device for tensor in inputs]
        ctx.set_materialize_grads(False)
        outputs = []
        for position, output in enumerate(compiled.captured.outputs):
            if output.kind == "output":
                outputs.append(net._gather(compiled, session, position))
        updates = net._updates(compiled, session)
        updates += net._input_updates(compiled, session, inputs)
        for tensor, new in updates:
            tensor.copy_(new)
        known: set[int] = set()
        for position, tensor in enumerate(outputs):
            if id(tensor) in known:  # a value and its detached self are two outputs
                outputs[position] = tensor.detach()
            known.add(id(tensor))
        differentiable = compiled.captured.differentiable
        ctx.mark_non_differentiable(
            *[out for out, has in zip(outputs, differentiable, strict=True) if not has]
        )
        ctx.save_for_backward(*_watched(net, compiled, tensors, outputs))
        return tuple(outputs)

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        refuse_tracer("forward-mode differentiation")

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        net, compiled, session = ctx.net, ctx.compiled, ctx.session
        captured = compiled.captured
        refuse_tracers([grad for grad in grads if grad is not None])
        if torch.is_grad_enabled():
            raise SmexRuntimeError(
                "backward: a partitioned net has no second derivative; leave out create_graph=True"
            )
        _ = ctx.saved_tensors  # raises when one was changed in place
        if session is None:
            raise SmexRuntimeError(
                "backward: this graph was already used and its values are freed; run the net again"
            )
        ctx.session = None
        given = {
            tangent
            for tangent, grad in zip(captured.tensor_tangents, grads, strict=True)
            if grad is not None
        }
        for tangent, grad in zip(captured.tensor_tangents, grads, strict=True):
            if tangent is None:
                continue
            value = captured.values[tangent]
            whole = torch.zeros(value.shape, dtype=value.dtype) if grad is None else grad
            position = compiled.binding_of[tangent]
            session.set_input(position, net._scatter(compiled, position, whole))
        session.run_backward()
        return (None, None, None, *_collect_grads(ctx, net, compiled, session, given))


def _watched(
    net: PartitionedModule, compiled: _Compiled, tensors: Sequence[Any], outputs: list[torch.Tensor]
) -> list[torch.Tensor]:
    """The call's tensors whose memory backward reads, so that autograd sees their changes."""
    captured = compiled.captured
    owners = [ref.id for ref in captured.input_refs]
    for value in captured.with_role("parameter"):
        owners += [value.id] * len(net._state.unique(value.name))
    owners += [leaf.id for leaf in captured.flat_outputs if isinstance(leaf, ValueRef)]
    everything = [*tensors, *outputs]
    return [
        tensor
        for owner, tensor in zip(owners, everything, strict=True)
        if owner in compiled.read_back and owner not in compiled.updated  # backward has a copy
    ]


def _tangents_of(captured: CapturedGraph) -> dict[int, set[int]]:
    """By gradient the tangents that it is computed from; all where it is computed from none."""
    every = {tangent for tangent in captured.tangents if tangent is not None}
    number = {tangent: 1 << n for n, tangent in enumerate(sorted(every))}
    mask = dict(number)  # by value
    for op in captured.ops:
        read = 0
        for operand in op.inputs():
            read |= mask.get(operand, 0)
        for output in op.outputs if read else []:
            if output is not None:
                mask[output] = read
    found = {}
    for result in captured.outputs:
        if result.kind == "gradient" and result.value is not None:
            read = mask.get(result.value, 0)
            found[result.value] = {t for t in every if read & number[t]} or every
    return found


def _described(tensor: torch.Tensor) -> tuple[Any, ...]:
    """What a capture depends on of an input."""
    plain = type(tensor) is torch.Tensor and not tensor.is_quantized
    if not plain or tensor.is_nested or tensor.layout is not torch.strided:
        refuse_layout(tensor, "an argument")
    return tuple(tensor.shape), tensor.dtype, tensor.requires_grad


def _collect_grads(
    ctx: Any, net: PartitionedModule, compiled: _Compiled, session: Any, given: set[int]
) -> list[torch.Tensor | None]:
    """The gradients in the order of `_Run`'s tensors; None where no given tangent is read."""
    captured = compiled.captured
    position_of = {
        output.target: position
        for position, output in enumerate(captured.outputs)
        if output.kind == "gradient"
        and output.value is not None
        and not given.isdisjoint(compiled.tangents_of[output.value])
    }
    result: list[torch.Tensor | None] = []
    for ref, device in zip(captured.input_refs, ctx.device_of_inputs, strict=True):
        found = position_of.get(ref.id)
        result.append(None if found is None else net._gather(compiled, session, found).to(device))
    for value in captured.with_role("parameter"):
        found = position_of.get(value.id)
        tiles = None if found is None else session.take_outputs(found)
        for _, worker in net._state.unique(value.name):
            result.append(None if tiles is None else tiles[worker])
    return result


def _detached(tile: torch.Tensor | None) -> torch.Tensor | None:
    return None if tile is None else tile.detach()
