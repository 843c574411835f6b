"""`smex.cluster.get_runner`: HeteroG's call, from a model's function to trained steps (§3.5)."""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch

from smex.cluster.comparing import Comparison, compare
from smex.cluster.planners import Found, plan
from smex.cluster.strategies import MOST_GROUPS, excess, peaks_with_states
from smex.errors import SmexTypeError, SmexValueError
from smex.execution.module import PartitionedModule
from smex.execution.partition import partition
from smex.planning.cluster import Cluster, Device, Link
from smex.planning.machine import GB
from smex.planning.plan import Plan
from smex.planning.semantic import capture_graph
from smex.planning.simulation import simulate
from smex.text import duration_words

_ONE_NODE = Link(12e-6, 12 * GB, 1.0)
"""PCIe 3.0 x16, as in `heterog_testbed`."""


@dataclasses.dataclass(frozen=True)
class RunnerConfig:
    """What `get_runner` does.

    Attributes:
        planner: who plans, see `smex.cluster.plan`, as for the next six.
        calls: of the simulator.
        budget: seconds of the search.
        seed: of the search.
        groups: of ops.
        policy: file of a saved policy.
        verbose: whether to show the search's progress.
        optimizer: makes the optimiser of the parameters; by default SGD with `rate`.
        rate: of the default optimiser.
    """

    planner: str = "heterog"
    calls: int = 100
    budget: float | None = None
    seed: int = 0
    groups: int = MOST_GROUPS
    policy: str | None = None
    verbose: bool = False
    optimizer: Callable[[Iterable[torch.nn.Parameter]], torch.optim.Optimizer] | None = None
    rate: float = 0.01


@dataclasses.dataclass(frozen=True)
class RunReport:
    """What `Runner.run` has done.

    Attributes:
        losses: by step.
        step_seconds: by step, measured; the first one of a runner also binds the program.
        predicted_seconds: of a step on the cluster that was planned for, simulated.
    """

    losses: list[float]
    step_seconds: list[float]
    predicted_seconds: float

    def __repr__(self) -> str:
        measured = duration_words(statistics.median(self.step_seconds))
        return (
            f"RunReport({len(self.losses)} steps, loss {self.losses[0]:.4g} -> "
            f"{self.losses[-1]:.4g}, a step {measured} measured, "
            f"{duration_words(self.predicted_seconds)} predicted)"
        )


@dataclasses.dataclass(frozen=True)
class _Task:
    """What is trained, whatever the plan.

    Attributes:
        model: whole.
        loss_fn: of outputs and target.
        batch: the first one, which is planned for.
        batches: returns all of them.
        make_optimizer: of parameters.
    """

    model: torch.nn.Module
    loss_fn: Callable[..., torch.Tensor]
    batch: tuple[torch.Tensor, ...]
    batches: Callable[[], Iterable[Any]]
    make_optimizer: Callable[[Iterable[torch.nn.Parameter]], torch.optim.Optimizer]

    def divided(self, plan: Plan) -> tuple[PartitionedModule, torch.optim.Optimizer]:
        """Returns the model divided over threads of this process, and the optimiser."""
        net = partition(self.model, loss_fn=self.loss_fn, args=self.batch, plan=plan, processes=1)
        return net, self.make_optimizer(list(net.parameters()))


class Runner:
    """A model that was planned and divided over workers, threads of this process.

    Attributes:
        found: the plan, and how it was found.
        net: the divided model.
        optimizer: of its parameters.
    """

    def __init__(self, task: _Task, found: Found):
        self._task = task
        self.found = found
        self.net, self.optimizer = task.divided(found.plan)
        self._batches: Iterator[Any] = iter(())

    def run(self, steps: int) -> RunReport:
        """Trains for so many steps, with the batches that follow those of the last call.

        Raises:
            SmexValueError: fewer than 1 step, or there are no batches.
        """
        if type(steps) is not int or steps < 1:
            raise SmexValueError(f"run: expected 1 step or more, found {steps!r}")
        losses, seconds = [], []
        for _ in range(steps):
            batch = self._next()
            started = time.perf_counter()
            self.optimizer.zero_grad()
            loss = self.net(*batch)
            loss.backward()
            self.optimizer.step()
            losses.append(float(loss.detach()))
            seconds.append(time.perf_counter() - started)
        return RunReport(losses, seconds, self.found.seconds)

    def compare(
        self,
        plans: Mapping[str, Plan | Found] | None = None,
        *,
        steps: int = 5,
        rounds: int = 2,
    ) -> Comparison:
        """Measures training steps of the runner's plan and others, see `smex.cluster.compare`.

        Training is not changed by it: steps are those of copies of the model that `model_func`
        returned, with the first batch. Besides the runner's own net one such copy is in memory.

        Args:
            plans: that are compared with the runner's. Where none is data parallelism, that is
                added.
            steps: of each plan and round.
            rounds: 2 or more.

        Raises:
            SmexTypeError: a plan is none.
            SmexValueError: fewer than 1 step or 2 rounds, or a plan has the name of the runner's.
        """
        own, others = self.found.planner, dict(plans or {})
        if own in others:
            raise SmexValueError(f"compare: {own!r} is the runner's own plan, name another one")
        task = self._task
        return compare(
            task.model, task.batch, task.loss_fn, {own: self.found, **others}, steps=steps,
            rounds=rounds, optimizer=task.make_optimizer, processes=1,
        )  # fmt: skip

    def use(self, plan: Plan | Found) -> None:
        """Goes on with the training under another plan.

        Parameters, buffers, the optimiser's states and options, and the place in the batches stay.
        `net` and `optimizer` are new objects afterwards; what held the old ones, such as a schedule
        of rates, has to be made anew. Both nets are in memory meanwhile.

        Args:
            plan: of the same model, such as `runner.compare().offer`.

        Raises:
            SmexTypeError: no plan.
            PlanError: it does not fit the model.
            SmexValueError: a state of the optimiser cannot be divided so.
        """
        if not isinstance(plan, (Plan, Found)):
            raise SmexTypeError(
                "use: expected what smex.search or smex.cluster.plan returned, found "
                f"{type(plan).__name__}"
            )
        # torch's checkpoints, which it reads, take a second to import.
        from smex.execution.handover import hand_over

        found = self._found_of(plan) if isinstance(plan, Plan) else plan
        with torch.random.fork_rng(devices=[]):
            net, optimizer = self._task.divided(found.plan)
            hand_over(self.net, net, self.optimizer, optimizer)
        self.found, self.net, self.optimizer = found, net, optimizer

    def _found_of(self, plan: Plan) -> Found:
        """Returns a plan as what was found, simulated on its cluster or on the runner's."""
        cluster = plan.machine if isinstance(plan.machine, Cluster) else self.found.plan.machine
        assert isinstance(cluster, Cluster)
        seconds = simulate(plan, cluster).seconds
        peaks = peaks_with_states(plan, plan.options.optimizer_states)
        fits = excess(peaks, cluster.first(len(peaks))) == 0
        return Found(plan, plan.planner, seconds, peaks, fits, (seconds,), 1, 0.0, {})

    def _next(self) -> tuple[torch.Tensor, ...]:
        batch = next(self._batches, None)
        if batch is None:
            self._batches = iter(self._task.batches())
            batch = next(self._batches, None)
        return _checked_batch(batch)


def get_runner(
    model_func: Callable[[], tuple[torch.nn.Module, Callable[..., torch.Tensor]]],
    input_func: Callable[[], Iterable[Any]],
    device_info: Cluster | Sequence[Device],
    config: RunnerConfig | None = None,
) -> Runner:
    """Plans a model on unlike devices and divides it accordingly, ready to train (HeteroG, §3.5).

    Workers are threads of this process on the CPU: losses and gradients are those of the plan on
    any devices, measured times those of this machine.

    Args:
        model_func: returns the model and its loss function of outputs and target.
        input_func: returns batches, each a tuple of the model's inputs and the target; called again
            when they are used up. They have the sizes of the first one, which is planned for.
        device_info: the cluster, or devices of one node, connected by PCIe 3.0 x16.
        config: who plans, for how long, and the optimiser.

    Raises:
        SmexTypeError: an argument is not as above, or a function returns something else.
        SmexValueError: there are no batches, or as `smex.cluster.plan` has it.

    Example:
        >>> def model():
        ...     return torch.nn.Linear(8, 4), torch.nn.functional.mse_loss
        >>> def batches():
        ...     yield torch.ones(6, 8), torch.zeros(6, 4)
        >>> devices = smex.cluster.heterog_testbed().devices[1:3]
        >>> config = smex.cluster.RunnerConfig(planner="local", calls=8)
        >>> runner = smex.cluster.get_runner(model, batches, devices, config)
        >>> report = runner.run(steps=3)
        >>> report.losses[-1] < report.losses[0]
        True
    """
    config = RunnerConfig() if config is None else config
    if not isinstance(config, RunnerConfig):
        raise SmexTypeError(f"get_runner: expected config to be a RunnerConfig, found {config!r}")
    cluster = _cluster_of(device_info)
    made = model_func()
    if not (isinstance(made, tuple) and len(made) == 2 and isinstance(made[0], torch.nn.Module)):
        raise SmexTypeError(
            f"get_runner: model_func must return (model, loss_fn), found {type(made).__name__}"
        )
    model, loss_fn = made
    args = _checked_batch(next(iter(input_func()), None))
    graph = capture_graph(model, args, loss_fn=loss_fn)
    found = plan(
        graph, cluster, config.planner, calls=config.calls, budget=config.budget,
        seed=config.seed, groups=config.groups, policy=config.policy, verbose=config.verbose,
    )  # fmt: skip
    make = config.optimizer or (lambda own: torch.optim.SGD(own, lr=config.rate))
    return Runner(_Task(model, loss_fn, args, input_func, make), found)


def _checked_batch(batch: Any) -> tuple[torch.Tensor, ...]:
    if batch is None:
        raise SmexValueError("get_runner: input_func returned no batches")
    if not isinstance(batch, (tuple, list)) or len(batch) < 2:
        raise SmexTypeError(
            "get_runner: input_func must yield tuples of the inputs and the target, found "
            f"{type(batch).__name__}"
        )
    return tuple(batch)


def _cluster_of(device_info: Cluster | Sequence[Device]) -> Cluster:
    if isinstance(device_info, Cluster):
        return device_info
    devices = tuple(device_info) if isinstance(device_info, (list, tuple)) else ()
    if not devices or not all(isinstance(device, Device) for device in devices):
        raise SmexTypeError(
            "get_runner: device_info must be a smex.Cluster or a list of smex.cluster.Device, "
            f"found {device_info!r}"
        )
    return Cluster("one node", devices, (0,) * len(devices), _ONE_NODE, (_ONE_NODE,))
