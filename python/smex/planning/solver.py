"""One search: a plan with pins that keeps to a memory limit, or why there is none."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Mapping
from typing import Any

from smex._C import factorise, heaviest_point, home_tiles, live_bytes, price, with_shards
from smex._C import search as native_search
from smex.errors import PlanError, SmexValueError
from smex.planning.options import REPLICATE_BYTES, SearchOptions
from smex.planning.pins import Pins, resolve
from smex.planning.placed import PlacedGraph, view_targets
from smex.planning.semantic import SemanticGraph
from smex.text import placement_words, size_words

REFINED = 3
"""So many steps are refined by default, and compared."""

_ATTEMPTS = 12  # to keep to a memory limit
_TRIED_WORKERS, _TRIED_CALLS = 512, 500_000  # of all workers, to advise how many would do
_SUBSETS = 50  # of pins of one size that are searched for the fewest that conflict
_SHARES = (0.85, 0.7, 0.55, 0.4)  # of a limit that may be better for the first steps


class NothingFitsError(Exception):
    """No plan keeps to the memory limit; `least` is the one found that exceeds it least."""

    def __init__(self, least: PlacedGraph):
        super().__init__()
        self.least = least


@dataclasses.dataclass(frozen=True)
class Solver:
    """Searches a graph with options, for whatever pins."""

    graph: SemanticGraph
    options: SearchOptions

    def find(self, pinned: Pins) -> PlacedGraph:
        """The plan with these placements."""
        try:
            return self.attempt(pinned)
        except NothingFitsError as error:
            raise self.explained(pinned, error.least) from None

    def attempt(self, pinned: Pins) -> PlacedGraph:
        """The same; where nothing keeps to the memory limit, what is needed to explain it."""
        pins = resolve(pinned, self.graph, self.options.mesh)
        plan = self._search(pins)
        ids = [self.graph.value_by_name[name] for name in pins]
        tiles = home_tiles(self.graph.native, plan.native, ids)
        for name, held_by in zip(pins, tiles, strict=True):
            idle = [worker for worker, (held, _) in enumerate(held_by) if not held]
            if idle:
                raise PlanError(
                    f'plan: "{name}" pinned as {plan.words(name)} leaves worker {idle[0]} without '
                    "a tile: it is cut in larger units than elements, because a view joins "
                    "dimensions"
                )
        limit = self.options.memory_limit
        return plan if limit is None or self._keeps(plan) else self._within_memory(pins, plan)

    def explained(self, pinned: Pins, least: PlacedGraph) -> PlanError:
        """The error that tells a caller that nothing fits."""
        return PlanError(self._too_large(resolve(pinned, self.graph, self.options.mesh), least))

    def _search(
        self,
        pins: Mapping[str, list[int]],
        memory_limit: float | None = None,
    ) -> PlacedGraph:
        """A plan with the pins; of tensors' homes within the limit."""
        ids = {self.graph.value_by_name[name]: pin for name, pin in pins.items()}
        existing = {
            self.graph.value_by_name[name]: shards
            for name, shards in self.options.shards.items()
            if name in self.graph.value_by_name
        }
        ids |= {value: shards.placement for value, shards in existing.items()}
        asked = self.options
        machine, by_time = asked.native_machine, asked.objective == "time"
        found = native_search(
            self.graph.native, asked.mesh, asked.planner, asked.replicate_bytes, ids,
            machine=machine if by_time else None, seed=asked.seed,
            refine=len(asked.mesh) <= REFINED if asked.refine is None else asked.refine,
            memory_limit=memory_limit, joint=asked.joint,
            optimizer_states=asked.optimizer_states, views=view_targets(self.graph),
        )  # fmt: skip
        if machine is not None and not by_time:
            found = price(self.graph.native, found, machine)
        if existing:
            tiles = {value: shards.tiles for value, shards in existing.items()}
            found = with_shards(self.graph.native, found, tiles)
        return PlacedGraph(self.graph, found, self.options, pins)

    def _with(self, **others: Any) -> Solver:
        return Solver(self.graph, dataclasses.replace(self.options, **others))

    # ---- memory ----

    @property
    def _limit(self) -> float:
        assert self.options.memory_limit is not None
        return self.options.memory_limit

    def _keeps(self, plan: PlacedGraph) -> bool:
        """Whether the predicted peak keeps to the limit. Far above it the homes tell, sooner."""
        return _homes(plan) <= 1.1 * self._limit and plan.peak() <= self._limit

    def _within_memory(self, pins: Mapping[str, list[int]], free: PlacedGraph) -> PlacedGraph:
        """The cheapest plan whose predicted peak keeps to the limit, which `free` does not.

        The search counts the homes of tensors. Where what a plan fetches beside them exceeds the
        limit, it is searched again with so much less. The recursion spends memory step by step,
        and may do better, or fit at all, with less in the first ones or with fewer replicas.
        """
        several = len(self.options.mesh) > 1
        limit, best, tried = self._limit, None, list[PlacedGraph]()
        while best is None and limit > 0 and len(tried) < _ATTEMPTS:
            tried.append(self._search(pins, limit))
            if not tried[-1].native.fits:
                break
            excess = tried[-1].peak() - self._limit
            if excess <= 0:
                best = tried[-1]
            else:
                limit -= max(excess, self._limit / 256)
        exact = best is not None and len(tried) == 1 and best.exact and not several

        def consider(plan: PlacedGraph) -> None:
            nonlocal best
            tried.append(plan)
            if (best is None or cost(plan) < cost(best)) and self._keeps(plan):
                best = plan

        for share in _SHARES if several else ():
            consider(self._search(pins, limit * share))
        for most in (REPLICATE_BYTES, 0) if several else ():
            if most < self.options.replicate_bytes:
                consider(self._with(replicate_bytes=most)._search(pins))
        if best is None:
            raise NothingFitsError(min(tried, key=_homes))
        if not exact:
            best.native.exact = False
            best.native.gap = max(0.0, 1 - cost(free) / cost(best)) if cost(best) else 0.0
        return best

    def _too_large(self, pins: Mapping[str, list[int]], least: PlacedGraph) -> str:
        """Says how much is missing, where, and what would help."""
        named = self._to_leave_out(pins)
        if named:
            words = ", ".join(
                f'"{name}" as {placement_words(pins[name], self.options.mesh)}' for name in named
            )
            return (
                f"search: no plan for {least.workers} workers with {words} fits "
                f"{size_words(self._limit)} each: the smallest found takes "
                f"{size_words(least.peak())}; without one of these pins there is one"
            )
        op_id, _, _ = heaviest_point(self.graph.native, least.native, view_targets(self.graph))
        op = self.graph.captured.ops[op_id]
        where = f"{op.target}{f' at {op.source}' if op.source else ''}"
        kept = least.parameter_bytes() * (1 + self.options.optimizer_states)
        more = self._enough_workers(least)
        return (
            f"search: no plan for {least.workers} workers fits {size_words(self._limit)} "
            f"each: the smallest found takes {size_words(least.peak())}, "
            f"{size_words(least.peak() - self._limit)} too many, at {where}, of which "
            f"{size_words(kept)} are parameters and the optimiser's states; take "
            f"{f'{more} workers or ' if more else ''}a smaller batch"
            f"{', more workers alone did not help' if more == 0 else ''}"
        )

    def _enough_workers(self, least: PlacedGraph) -> int | None:
        """More workers, with which something fits; 0: not even with four times what should do.

        None: the machine has not so many, or they are too many to try.
        """
        workers = least.workers * 2 ** math.ceil(math.log2(least.peak() / self._limit))
        for more in (workers, 2 * workers, 4 * workers):
            if more > _TRIED_WORKERS or more * len(self.graph.captured.ops) > _TRIED_CALLS:
                return None
            solver = self._with(mesh=factorise(more), replicate_bytes=0)
            try:
                if solver._keeps(solver._search({})):
                    return more
            except (PlanError, SmexValueError):
                return None
        return 0

    def _to_leave_out(self, pins: Mapping[str, list[int]]) -> list[str]:
        """Pins with which nothing fits, while without any one of them something does.

        They are the fewest where there are not too many ways to choose so few.
        """

        def fits(some: Mapping[str, list[int]]) -> bool:
            free = self._search(some)
            try:
                return self._keeps(free) or bool(self._within_memory(some, free))
            except NothingFitsError:
                return False

        if not pins or not fits({}):
            return []
        for size in range(1, len(pins)):
            if math.comb(len(pins), size) > _SUBSETS:
                break
            for names in itertools.combinations(pins, size):
                if not fits({name: pins[name] for name in names}):
                    return list(names)
        kept = dict(pins)
        for name in pins:
            fewer = {other: pin for other, pin in kept.items() if other != name}
            if not fits(fewer):
                kept = fewer
        return list(kept)


def _homes(plan: PlacedGraph) -> int:
    """The most bytes that are live in tensors' homes, by the largest tile of each.

    Sooner known than the peak, which is at least about as much.
    """
    return max(live_bytes(plan.graph.native, plan.native, view_targets(plan.graph)), default=0)


def cost(plan: PlacedGraph) -> float:
    """What the search minimised."""
    return plan.seconds if plan.objective == "time" else float(plan.total_bytes)
