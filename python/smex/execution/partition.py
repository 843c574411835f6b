"""`smex.partition`: a model that trains on several workers with one changed line."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.distributed.device_mesh import DeviceMesh

from smex.distributed.collectives import MODES, CollectiveOptions
from smex.distributed.world import World, members_of
from smex.errors import SmexTypeError, SmexValueError
from smex.execution.differences import refuse_differences, told_value
from smex.execution.given_plan import GivenPlan
from smex.execution.module import PartitionedModule
from smex.planning.cluster import Cluster
from smex.planning.devices import checked_device
from smex.planning.machine import Machine
from smex.planning.pins import Pin, Pins
from smex.planning.plan import Plan

_MOST_WORKERS = 1024
"""Each worker is a thread of this process."""


def partition(
    model: torch.nn.Module,
    workers: int | None = None,
    *,
    loss_fn: Callable | None = None,
    args: tuple | torch.Tensor | None = None,
    devices: Sequence[str | torch.device] | str | torch.device | None = None,
    objective: str = "communication",
    planner: str = "tofu",
    machine: Machine | Cluster | None = None,
    memory_limit: float | str | None = None,
    optimizer_states: float = 0,
    replicate_bytes: int | None = None,
    mesh: Sequence[int] | DeviceMesh | None = None,
    joint: int = 1,
    recompute: str = "auto",
    device_memory: float | None = None,
    boundaries: Any = None,
    weights: Any = None,
    pins: Pins = (),
    plan: Plan | str | pathlib.Path | None = None,
    keep_model: bool = True,
    processes: int | None = None,
    inputs: str = "whole",
    collectives: str = "auto",
    deterministic: bool = True,
    timeout: float = 1800.0,
) -> PartitionedModule:
    """Splits a model over workers from what its operators mean.

    Args:
        model: any module. One worker trains its own parameters and buffers; several have copies of
            their shards, see `keep_model`.
        workers: number of workers, threads of this process on the CPU. By default that of the plan,
            of the devices, or 1. Where torch's default process group has several ranks, or torchrun
            has started them, workers are divided evenly among these, one each by default.
        loss_fn: with it the result is called as `net(*inputs, target)` and returns the loss, so
            that the model's outputs are never gathered.
        args: example inputs; with them the plan is there at once instead of at the first call.
        devices: one device per worker, or one for all of them; by default the current one of the
            mesh's type, else the CPU.
        objective: what the search minimises: "communication", the bytes, or "time", the seconds of
            an iteration on `machine`.
        planner: how it is searched for, see `smex.search`.
        machine: what "time" is counted by; of processes with one worker each by default what
            `smex.Machine.calibrate(mesh=mesh)` measures.
        memory_limit: bytes of a worker that the predicted peak keeps to, or "devices".
        optimizer_states: so many tensors of each parameter's size the optimiser keeps, which the
            limit counts: 1 for SGD with momentum, 2 for Adam.
        replicate_bytes: tensors up to this size may be held by every worker.
        mesh: the workers of the recursive steps, or the `DeviceMesh` of the processes that take
            part, whose dimensions are the steps, the slowest links outermost.
        joint: how many steps are chosen together, 1 or 2.
        recompute: "auto" lets the backward pass run repeated modules again where nothing keeps to
            the memory limit otherwise; "checkpoints" only regions of `torch.utils.checkpoint`.
        device_memory: bytes that tiles take of each worker's device at once, by moving others to
            the host and back (ROC §5); by default that of the `plan`. Parameters, buffers, inputs,
            results and gradients are on the host between calls then, also where workers are on
            GPUs, and so is what the optimiser does. Workers have to be in one process.
        boundaries: where the vertices of a graph are cut, see `smex.search`.
        weights: in which proportions workers get what is cut: "even", "speed" or numbers.
        pins: placements that the search keeps to, such as `[smex.pin("fc.weight", "S0")]`.
        plan: what `smex.search` returned, which is run as it is if the model and its inputs are the
            same, or a file that `Plan.save` wrote; otherwise the named tensors are placed as it
            says, and the rest follows from them.
        keep_model: whether the model keeps its parameters and buffers as they are beside the shards
            of several workers. With False it gives up their memory as soon as the shards exist: it
            has their values from then on, which are gathered whenever the model's are read. Their
            addresses are those of copies then, and so is what is written through views. In several
            processes the model's tensors are not what is trained, and cannot be read with False.
        processes: 1 keeps all workers in this process, also where torch's default process group
            has several ranks; by default these, or those of the mesh, divide the workers.
        inputs: of several processes, whether each rank passes the "whole" batch, of which it takes
            its part, or is "local": every rank passes as many rows of its own, the batch being the
            rows of all in the order of ranks.
        collectives: of several processes, whether what they send each other goes through torch's
            collectives where it is one (all_gather, all_to_all, reduce_scatter, all_reduce):
            "auto", where that measures faster than packets from each to each, "never" or "always".
        deterministic: with False also sums go through collectives, which add up in an order of
            their own; otherwise results are bit by bit those of one process.
        timeout: seconds after which torch's process groups give up.

    Returns:
        A module that takes and returns whole tensors like `model`. `parameters()` are shards.

    Raises:
        CaptureError: the model cannot be captured.
        PlanError: the plan or a pin does not fit the model, or no plan the memory limit, or
            an operator needs more than `device_memory`.
        SmexValueError: impossible workers or devices, or pins beside a plan.
        SmexRuntimeError: ranks have other models or arguments, or one of them failed.
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
        given = GivenPlan.of(plan)
        workers = given.content["workers"] if workers is None else workers
        if device_memory is None:
            device_memory = given.content.get("device_memory")
    if isinstance(devices, (str, torch.device)):
        one, listed = devices, None
    else:
        one, listed = mesh.device_type if isinstance(mesh, DeviceMesh) else "cpu", devices
    if processes not in (None, 1) or isinstance(processes, bool):
        raise SmexValueError(
            f"partition: processes must be 1, or None for those of the mesh or of torch's default "
            f"group, got {processes!r}"
        )
    if isinstance(mesh, DeviceMesh) and processes == 1:
        raise SmexValueError(
            "partition: a DeviceMesh is of several processes; leave out one of them"
        )
    members = [0]
    if processes is None:
        members = members_of(mesh if isinstance(mesh, DeviceMesh) else None)
    if workers is None:
        workers = len(members) if listed is None else len(listed)
    if not isinstance(workers, int) or isinstance(workers, bool) or workers < 1:
        raise SmexValueError(f"partition: workers must be an int of at least 1, got {workers!r}")
    if workers > _MOST_WORKERS * len(members):
        raise SmexValueError(
            f"partition: {workers} workers would be as many threads of this process; at most "
            f"{_MOST_WORKERS} are. smex.search plans for more"
        )
    if inputs not in ("whole", "local"):
        raise SmexValueError(f'partition: inputs must be "whole" or "local", got {inputs!r}')
    if collectives not in MODES:
        raise SmexValueError(
            f'partition: collectives must be "auto", "never" or "always", got {collectives!r}'
        )
    if not isinstance(deterministic, bool):
        raise SmexTypeError(f"partition: deterministic must be a bool, got {deterministic!r}")
    if listed is not None and len(listed) != workers:
        raise SmexValueError(
            f"partition: {workers} workers need as many devices, got {len(listed)}"
        )
    places = [checked_device(device, "partition") for device in listed or [one] * workers]
    world = World.alone(workers)
    if len(members) > 1 and device_memory is not None:
        raise SmexValueError(
            f"partition: device_memory= is of workers in one process, found {len(members)}: pass "
            "processes=1 with devices=, or leave device_memory out"
        )
    if len(members) > 1:
        refuse_shared_devices(places, len(members))
        world = World.of(members, workers, places[0].type, timeout)
        hint = "every rank must call smex.partition with the same"
        told = {
            "torch.__version__": torch.__version__, "workers": workers, "objective": objective,
            "loss_fn": getattr(loss_fn, "__qualname__", type(loss_fn).__name__),
            "planner": planner, "machine": machine, "memory_limit": memory_limit,
            "optimizer_states": optimizer_states, "replicate_bytes": replicate_bytes, "mesh": mesh,
            "joint": joint, "recompute": recompute, "boundaries": boundaries,
            "weights": weights,
            "plan": plan is not None, "inputs": inputs,
            "pins": repr(pins) if isinstance(pins, (Pin, Mapping, Sequence)) else pins,
            "collectives": collectives, "deterministic": deterministic,
        }  # fmt: skip
        with world.during("smex.partition"):
            described = {name: told_value(value) for name, value in told.items()}
            refuse_differences(world, "partition", described, hint)
    if objective == "time" and machine is None and workers == len(members) > 1:
        with world.during("smex.partition"):
            own = places[world.workers[0]]
            machine = _machine_of(world, mesh if isinstance(mesh, DeviceMesh) else None, own)
    if isinstance(mesh, DeviceMesh):
        mesh = _steps(mesh, workers // len(members))
    options = {
        "objective": objective,
        "planner": planner,
        "machine": machine,
        "memory_limit": memory_limit,
        "optimizer_states": optimizer_states,
        "replicate_bytes": replicate_bytes,
        "mesh": mesh,
        "joint": joint,
        "recompute": recompute,
        "device_memory": device_memory,
        "boundaries": boundaries,
        "weights": weights,
        "pinned": pins,
    }
    net = PartitionedModule(
        model, workers, loss_fn, places, options, given, keep_model, world,
        local_inputs=inputs == "local" and not world.is_alone,
        collectives=CollectiveOptions(collectives, deterministic),
    )  # fmt: skip
    if args is not None:
        with world.during("smex.partition"):
            net.prepare(args)
    return net


def _machine_of(world: World, mesh: DeviceMesh | None, device: torch.device) -> Machine:
    """Returns the machine that the processes are, measured once for each shape of their mesh."""
    assert world.links is not None
    known = "machine", None if mesh is None else tuple(mesh.mesh.shape)
    if known not in world.links.measured:
        world.links.measured[known] = Machine.calibrate(mesh=mesh, device=device)
    measured: Machine = world.links.measured[known]
    return measured


def _steps(mesh: DeviceMesh, each: int) -> list[int] | None:
    """Returns the steps of a mesh of processes, of so many workers each; None: the search's own."""
    sizes = [size for size in (*mesh.mesh.shape, each) if size > 1]
    return sizes if mesh.ndim > 1 and sizes else None


def refuse_shared_devices(places: Sequence[torch.device], processes: int) -> None:
    """Raises SmexValueError where several workers of a process are on one GPU.

    NCCL, by which processes speak then, knows a process by its device. They would share the GPU's
    time, and be slower than one worker.

    Args:
        places: of all workers.
        processes: that divide the workers evenly.
    """
    each = len(places) // processes
    for rank in range(processes):
        own = places[rank * each : (rank + 1) * each]
        if own and own[0].type == "cuda" and len(set(own)) < len(own):
            raise SmexValueError(
                f"partition: {each} workers of rank {rank} are on {own[0]}, and NCCL speaks for "
                "one device of a process: start a process for each GPU (torchrun "
                "--nproc-per-node) and leave workers= out, or give each worker a device of its "
                "own, devices="
            )
