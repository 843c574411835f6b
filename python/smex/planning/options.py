"""What a search is asked for: checked once, here."""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from smex._C import SearchOptions as _NativeOptions
from smex._C import default_mesh
from smex.errors import PlanError, SmexTypeError
from smex.planning.boundaries import Boundaries
from smex.planning.cluster import Cluster
from smex.planning.machine import Machine
from smex.planning.weights import Weights

REPLICATE_BYTES = 64 * 1024
"""Gathering less than this costs a latency rather than bandwidth."""

ALL_BYTES = 2**62
DEVICES = "devices"
"""A limit of memory: each device's own."""
_MOST_STATES = 1_000_000
_MOST_WORKERS = 2**31 - 1  # the native library numbers workers by 32 bits


@dataclasses.dataclass(frozen=True)
class Shards:
    """What a tensor was cut into: its placement, and by worker whether it holds a tile and which.

    Another capture of the same model may see the tensor through other views, whose granules differ:
    the placement alone would cut it elsewhere.
    """

    placement: list[int]
    tiles: list[tuple[bool, list[tuple[int, int]]]]


@dataclasses.dataclass(frozen=True)
class SearchOptions:
    """What a search is asked for, but for the graph and the pins; it can be asked again.

    Attributes:
        mesh: the workers of the recursive steps.
        shards: by name the tensors that are cut already.
        boundaries: where vertices are cut.
        weights: in which proportions workers get what is cut.

    The others are those of `smex.search`.
    """

    mesh: list[int]
    planner: str
    objective: str
    machine: Machine | Cluster | None
    memory_limit: float | str | None
    optimizer_states: float
    replicate_bytes: int
    refine: bool | None
    joint: int
    seed: int
    recompute: str = "auto"
    device_memory: float | None = None
    shards: Mapping[str, Shards] = dataclasses.field(default_factory=dict)
    boundaries: Boundaries = dataclasses.field(default_factory=Boundaries)
    weights: Weights = dataclasses.field(default_factory=Weights)

    @staticmethod
    def checked(
        workers: int,
        *,
        planner: str = "tofu",
        objective: str = "communication",
        machine: Machine | Cluster | None = None,
        memory_limit: float | str | None = None,
        optimizer_states: float = 0,
        replicate_bytes: int | None = None,
        mesh: Sequence[int] | None = None,
        refine: bool | None = None,
        joint: int = 1,
        seed: int = 0,
        recompute: str = "auto",
        device_memory: float | None = None,
        boundaries: Any = None,
        weights: Any = None,
    ) -> SearchOptions:
        """Returns the options that a user gives; see `smex.search`, also for the errors."""
        if objective not in ("communication", "time"):
            raise PlanError(
                f'search: unknown objective "{objective}"; known are "communication" and "time"'
            )
        if machine is not None and not isinstance(machine, (Machine, Cluster)):
            raise SmexTypeError(
                f"search: expected a smex.Machine or a smex.Cluster, found {machine!r}"
            )
        if objective == "time" and machine is None:
            raise SmexTypeError(
                'search: the objective "time" needs a machine, such as smex.Machine.h100_nvlink()'
            )
        if not isinstance(planner, str):
            raise SmexTypeError(f'search: planner must be text, such as "tofu", got {planner!r}')
        if not isinstance(workers, int) or isinstance(workers, bool) or workers < 1:
            raise PlanError(f"search: workers must be an int of at least 1, got {workers!r}")
        if workers > _MOST_WORKERS:
            raise PlanError(f"search: workers must be at most {_MOST_WORKERS}, got {workers!r}")
        _require_limit(memory_limit, machine)
        if device_memory is not None and not _is_number(device_memory, least=1):
            raise PlanError(
                "search: device_memory must be a finite number of at least 1 byte, got "
                f"{device_memory!r}"
            )
        if not _is_number(optimizer_states, least=0, most=_MOST_STATES):
            raise PlanError(
                f"search: optimizer_states must be a number from 0 to {_MOST_STATES}, "
                f"got {optimizer_states!r}"
            )
        if replicate_bytes is None:
            cut_all = objective == "communication" and memory_limit is None
            replicate_bytes = REPLICATE_BYTES if cut_all else ALL_BYTES
        if type(replicate_bytes) is not int or replicate_bytes < 0:
            raise PlanError(
                f"search: replicate_bytes must be an int of at least 0, got {replicate_bytes!r}"
            )
        replicate_bytes = min(replicate_bytes, ALL_BYTES)
        if refine is not None and not isinstance(refine, bool):
            raise SmexTypeError(f"search: refine must be True, False or None, got {refine!r}")
        if type(seed) is not int or not 0 <= seed < 2**64:
            raise PlanError(f"search: seed must be an int from 0 to 2**64 - 1, got {seed!r}")
        if type(joint) is not int or joint not in (1, 2):
            raise PlanError(
                f"search: expected 1 or 2 steps to choose together (joint), got {joint!r}"
            )
        if recompute not in ("auto", "checkpoints"):
            raise PlanError(
                f'search: unknown recompute {recompute!r}; known are "auto" and "checkpoints"'
            )
        return SearchOptions(
            _steps(workers, mesh, planner), planner, objective, machine, memory_limit,
            optimizer_states, replicate_bytes, refine=refine, joint=joint, seed=seed,
            recompute=recompute, device_memory=device_memory,
            boundaries=Boundaries.of(boundaries, workers),
            weights=Weights.of(weights, workers, machine, objective),
        )  # fmt: skip

    def native(self, views: set[str]) -> Any:
        """Returns the same for the native library, but for the mesh and the shards.

        Args:
            views: operators that return views.
        """
        return _NativeOptions(
            planner=self.planner, objective=self.objective,
            machine=None if self.machine is None else self.machine.cluster,
            memory_limit=self.least_limit, memory_scale=self._memory_scale(),
            optimizer_states=self.optimizer_states, replicate_bytes=self.replicate_bytes,
            refine=self.refine, joint=self.joint, seed=self.seed, views=views,
            recompute=self.recompute == "auto", weighting=self.weights.number,
        )  # fmt: skip

    @property
    def least_limit(self) -> float | None:
        """Bytes of the worker that has the fewest, where there is a limit."""
        limits = self.memory_limits
        return min(limits) if limits else None

    @property
    def memory_limits(self) -> list[float]:
        """By worker the bytes that its peak keeps to; none where there is no limit."""
        workers = math.prod(self.mesh)
        if self.memory_limit is None:
            return []
        if self.memory_limit != DEVICES:
            return [float(self.memory_limit)] * workers
        assert isinstance(self.machine, Cluster)
        return [device.memory for device in self.machine.devices[:workers]]

    def _memory_scale(self) -> list[float]:
        """How many times as much a worker's bytes count as those of who has the fewest."""
        limits = self.memory_limits
        if self.memory_limit != DEVICES or min(limits) == max(limits):
            return []
        return [min(limits) / limit for limit in limits]

    @property
    def native_machine(self) -> Any:
        """The machine for this mesh, or None."""
        return self.machine and self.machine.native(self.mesh)


def _require_limit(limit: Any, machine: Machine | Cluster | None) -> None:
    """Refuses what is no limit of memory."""
    if limit == DEVICES and isinstance(limit, str):
        if not isinstance(machine, Cluster):
            raise PlanError(
                'search: memory_limit="devices" needs machine=, a smex.Cluster that tells how much '
                "each worker has"
            )
    elif limit is not None and not _is_number(limit, least=1):
        raise PlanError(
            f"search: memory_limit must be a finite number of at least 1 byte, got {limit!r}"
        )


def _is_number(x: Any, least: float, most: float = sys.float_info.max) -> bool:
    return isinstance(x, (int, float)) and not isinstance(x, bool) and least <= x <= most


def _steps(workers: int, mesh: Sequence[int] | None, planner: str) -> list[int]:
    """Returns the workers of the recursive steps."""
    if mesh is None:
        return default_mesh(workers, planner)
    if not isinstance(mesh, Iterable):
        raise SmexTypeError(
            "search: mesh must list the workers of each step, or be the DeviceMesh of processes "
            f"that smex.partition runs in, got {mesh!r}"
        )
    steps = list(mesh)
    fits = all(type(parts) is int and parts > 1 for parts in steps)
    if not fits or math.prod(steps) != workers:
        raise PlanError(
            f"search: expected a mesh of ints above 1 whose product is {workers}, or for "
            f"smex.partition the DeviceMesh of processes (init_device_mesh), found {mesh!r}"
        )
    return steps
