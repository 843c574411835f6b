"""`smex.cluster.plan`: who finds a strategy for a graph on a cluster, and what it found."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Callable

from smex.capture import CapturedGraph
from smex.cluster.agent import Agent
from smex.cluster.policy import Policy, Sizes
from smex.cluster.progress import Bar
from smex.cluster.searches import Course, critical_path_search, local_search, random_search
from smex.cluster.strategies import (
    BASELINES,
    MOST_GROUPS,
    Actions,
    Strategies,
    excess,
    peaks_with_states,
)
from smex.errors import SmexTypeError, SmexValueError
from smex.planning.cluster import Cluster
from smex.planning.plan import Plan
from smex.planning.search import search
from smex.planning.semantic import SemanticGraph
from smex.planning.simulation import simulate
from smex.text import aligned, duration_words, size_words

SEARCHES: dict[str, Callable[..., None]] = {
    "random": random_search,
    "local": local_search,
    "critical_path": critical_path_search,
}
EXACT = ("tofu", "data_parallel")
PLANNERS = ("heterog", *SEARCHES, *BASELINES, *EXACT)


@dataclasses.dataclass(frozen=True)
class Found:
    """What `smex.cluster.plan` has found.

    Attributes:
        plan: an ordinary plan, which `smex.partition` runs and which can be saved.
        planner: who found it.
        seconds: simulated, of an iteration of the plan, in its order.
        peak_bytes: by worker.
        fits: whether no device is out of memory.
        course: by call of the simulator the best seconds so far, in the graph's order.
        calls: of the simulator.
        search_seconds: that it took to find.
        shares: by action the share of ops that take it; empty for plans that are no strategies.
        actions: by group the number of its action; likewise.
    """

    plan: Plan
    planner: str
    seconds: float
    peak_bytes: tuple[int, ...]
    fits: bool
    course: tuple[float, ...]
    calls: int
    search_seconds: float
    shares: dict[str, float]
    actions: Actions = ()

    def __repr__(self) -> str:
        memory = "" if self.fits else ", out of memory"
        return (
            f"Found({self.planner}: {duration_words(self.seconds)} an iteration simulated{memory}, "
            f"peak {size_words(max(self.peak_bytes))}, {self.calls} calls in "
            f"{self.search_seconds:.1f} s)"
        )

    def __str__(self) -> str:
        rows = [(name, f"{share:.1%}") for name, share in self.shares.items()]
        return "\n".join([repr(self), *aligned([("action", "of ops"), *rows], right=(1,))])


def plan(
    graph: SemanticGraph | CapturedGraph,
    cluster: Cluster,
    planner: str = "heterog",
    workers: int | None = None,
    *,
    calls: int = 100,
    ordered: bool = True,
    budget: float | None = None,
    seed: int = 0,
    groups: int = MOST_GROUPS,
    optimizer_states: float = 0,
    policy: str | os.PathLike[str] | None = None,
    save_policy: str | os.PathLike[str] | None = None,
    sizes: Sizes | None = None,
    verbose: bool = False,
) -> Found:
    """Plans a model on unlike devices, by HeteroG's strategies or by an exact search.

    Args:
        graph: what `smex.capture_graph` or `smex.capture` returns.
        cluster: its devices, links and memories.
        planner: "heterog", the agent (§4.1); its rivals at equally many calls of the simulator,
            "random", "local" and "critical_path"; the paper's baselines "EV-PS", "EV-AR", "CP-PS"
            and "CP-AR", one call each; and "tofu" and "data_parallel", the searches of
            `smex.search` for the least time with `weights="speed"`, whose plans are no strategies.
        workers: the cluster's first so many; by default all.
        calls: of the simulator, at most; the same strategy is never simulated twice.
        ordered: whether what is found gets the order of a list schedule (§4.2) where that is
            faster, see `Plan.ordered`.
        budget: seconds for the search; the call that passes it is the last.
        seed: of all that is drawn.
        groups: N, the most groups of ops that decide together (§4.1.1).
        optimizer_states: so many tensors of each parameter's size the optimiser keeps: 1 for SGD
            with momentum, 2 for Adam.
        policy: file of a saved policy, which the agent goes on with; where what it proposes for
            this model is no better than a baseline, it begins as a new one does, by imitation.
        save_policy: where to write the agent's policy.
        sizes: of a new policy's network; smaller than the paper's by default, for CPUs.
        verbose: whether a bar tells the best time so far (where tqdm is installed).

    Raises:
        SmexTypeError: no graph or cluster, or a file that is no policy.
        SmexValueError: an unknown planner, numbers that are out of range, a policy of other workers
            or devices, or one that is given to another planner.

    Example:
        >>> graph = smex.capture_graph(torch.nn.Linear(64, 64), (torch.rand(256, 64),))
        >>> cluster = smex.cluster.heterog_testbed().first(3)
        >>> found = smex.cluster.plan(graph, cluster, "local", calls=12)
        >>> found.calls, found.plan.planner, len(found.course)
        (12, 'heterog', 12)
    """
    if planner not in PLANNERS:
        raise SmexValueError(
            f"plan: expected planner to be of {', '.join(PLANNERS)}, found {planner!r}"
        )
    if type(calls) is not int or calls < 1:
        raise SmexValueError(f"plan: expected 1 call or more, found {calls!r}")
    if budget is not None and not (isinstance(budget, (int, float)) and budget > 0):
        raise SmexValueError(f"plan: expected a budget of more than 0 seconds, found {budget!r}")
    if type(seed) is not int or not 0 <= seed < 2**63:
        raise SmexValueError(f"plan: expected a seed from 0 to 2**63 - 1, found {seed!r}")
    if planner != "heterog" and (policy, save_policy, sizes) != (None, None, None):
        raise SmexValueError(
            'plan: policy=, save_policy= and sizes= are of planner="heterog", found '
            f"planner={planner!r}"
        )
    if policy is not None and sizes is not None:
        raise SmexValueError("plan: a saved policy has its sizes; leave out policy= or sizes=")
    started = time.perf_counter()
    if planner in EXACT:
        found = _exact(graph, cluster, planner, workers, optimizer_states, started)
        return _ordered(found, optimizer_states, started) if ordered else found
    strategies = Strategies(
        graph, cluster, workers, groups=groups, optimizer_states=optimizer_states
    )
    known = None if policy is None else Policy.load(policy, strategies)
    total = 1 if planner in BASELINES else calls
    with Bar(total, verbose, planner) as bar:
        course = Course(strategies, total, budget, bar)
        if planner in BASELINES:
            course.evaluate(strategies.uniform(planner))
        elif planner in SEARCHES:
            SEARCHES[planner](course, seed)
        else:
            agent = Agent(strategies, known, sizes, seed)
            agent.search(course)
            if save_policy is not None:
                agent.policy.save(save_policy)
    found = _result(strategies, planner, course, started)
    return _ordered(found, optimizer_states, started) if ordered else found


def _result(strategies: Strategies, planner: str, course: Course, started: float) -> Found:
    best, found = course.best, course.found
    assert best is not None
    assert found is not None
    took = time.perf_counter() - started
    return Found(
        strategies.plan(best), planner, found.seconds, found.peak_bytes, found.fits,
        tuple(course.after), course.used, took, strategies.shares(best), best,
    )  # fmt: skip


def _exact(
    graph: SemanticGraph | CapturedGraph,
    cluster: Cluster,
    planner: str,
    workers: int | None,
    optimizer_states: float,
    started: float,
) -> Found:
    """The plan of `smex.search`, simulated."""
    if not isinstance(cluster, Cluster):
        raise SmexTypeError(f"plan: expected a smex.Cluster, found {cluster!r}")
    used = cluster if workers is None else cluster.first(workers)
    searched = search(
        graph, used.workers, planner=planner, objective="time", machine=used,
        optimizer_states=optimizer_states, weights="speed",
    )  # fmt: skip
    seconds = simulate(searched, used).seconds
    peaks = peaks_with_states(searched, optimizer_states)
    took = time.perf_counter() - started
    fits = excess(peaks, used) == 0
    return Found(searched, planner, seconds, peaks, fits, (seconds,), 1, took, {})


def _ordered(found: Found, optimizer_states: float, started: float) -> Found:
    """The same with its ops in the order of a list schedule, where that is faster and fits."""
    cluster = found.plan.machine
    other = found.plan.ordered()
    if other is found.plan or not isinstance(cluster, Cluster):
        return found
    peaks = peaks_with_states(other, optimizer_states)
    if excess(peaks, cluster) > excess(found.peak_bytes, cluster):
        return found
    return dataclasses.replace(
        found, plan=other, seconds=simulate(other).seconds, peak_bytes=peaks,
        search_seconds=time.perf_counter() - started,
    )  # fmt: skip
