"""Searches for strategies that make equally many calls of the simulator.

Each begins with what anybody would try: the four baselines, and all ops on one device of each kind.
It goes on with what it draws. Ties and chance are decided by the seed alone: the same seed finds
the same strategy, where no budget of seconds ends the search sooner.
"""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Sequence

from smex.cluster.grouping import ball
from smex.cluster.progress import Bar
from smex.cluster.strategies import BASELINES, Actions, Evaluation, Strategies

_AT_ONCE = 2
"""Strategies that are drawn before the first of them is known, in searches that climb."""
_DRAWN = 4
"""The same in random search."""
_REPEATS = 500
"""After so many strategies in a row that were evaluated before a search ends: there is no other."""

_OUTWARDS = 3
"""Stages of `around` that are modules inside of each other."""


class Course:
    """What a search has tried so far, within its calls and seconds.

    Args:
        strategies: what it searches.
        calls: of the simulator, at most.
        budget: seconds, at most; None: no limit. The calls that pass it are the last.
        bar: shows the best time so far.

    Attributes:
        best: the best strategy so far, None before the first.
        found: what it takes.
        after: by call the best seconds so far; of strategies that do not fit the best while none
            does, so that it may rise once.
    """

    def __init__(
        self,
        strategies: Strategies,
        calls: int,
        budget: float | None = None,
        bar: Bar | None = None,
    ):
        self.strategies = strategies
        self.calls = calls
        self.budget = budget
        self.best: Actions | None = None
        self.found: Evaluation | None = None
        self.after: list[float] = []
        self._bar = bar
        self._first = strategies.calls
        self._started = time.perf_counter()
        self._repeats = 0

    @property
    def seconds(self) -> float:
        """Since the search has begun."""
        return time.perf_counter() - self._started

    @property
    def used(self) -> int:
        """Calls so far."""
        return self.strategies.calls - self._first

    @property
    def goes_on(self) -> bool:
        """Whether there are calls and seconds left, and the search still finds what is new."""
        in_time = self.budget is None or self.seconds < self.budget or not self.after
        return self.used < self.calls and in_time and self._repeats < _REPEATS

    def gained_in(self, calls: int) -> bool:
        """Returns whether the last so many calls found what is better than all before."""
        return len(self.after) > calls and self.after[-1] < self.after[-1 - calls]

    def evaluate(self, actions: Sequence[int]) -> Evaluation:
        """Evaluates a strategy, and keeps it where it is the best."""
        return self.evaluate_all([actions])[0]

    def evaluate_all(self, drawn: Sequence[Sequence[int]]) -> list[Evaluation]:
        """The same for some, of which several are simulated at once.

        As many as there are calls for, at least the first.
        """
        asked: list[Actions] = []
        new: set[Actions] = set()
        for each in drawn:
            actions = tuple(each)
            is_new = actions not in new and not self.strategies.knows(actions)
            if is_new and asked and self.used + len(new) >= self.calls:
                break
            asked.append(actions)
            if is_new:
                new.add(actions)
        evaluations = self.strategies.evaluate_all(asked)
        for actions, evaluation in zip(asked, evaluations, strict=True):
            self._keep(actions, evaluation, actions in new)
            new.discard(actions)
        return evaluations

    def _keep(self, actions: Actions, evaluation: Evaluation, is_new: bool) -> None:
        self._repeats = 0 if is_new else self._repeats + 1
        if self.found is None or evaluation.key < self.found.key:
            self.best, self.found = actions, evaluation
        if is_new or not self.after:
            self.after.append(self.found.seconds)
            if self._bar is not None:
                self._bar.told(len(self.after), self.found.seconds)

    def evaluate_uniform(self) -> Actions:
        """Evaluates the baselines and one device of each kind; returns the best strategy so far.

        As far as there are calls, the baselines first.
        """
        self._repeats = 0
        kinds = [device.name for device in self.strategies.cluster.devices]
        alone = [f"G{kinds.index(kind)}" for kind in dict.fromkeys(kinds)]
        for names in (BASELINES, alone):
            if self.goes_on:
                self.evaluate_all([self.strategies.uniform(name) for name in names])
        assert self.best is not None
        return self.best


def random_search(course: Course, seed: int = 0) -> None:
    """Draws the actions of all groups each time.

    They are drawn from a few actions that are drawn before, 1 to all of them: as many strategies
    that are nearly uniform are tried as such that are mixed.
    """
    chance, strategies = random.Random(seed), course.strategies
    course.evaluate_uniform()
    every = range(len(strategies.names))
    while course.goes_on:
        drawn = []
        for _ in range(_DRAWN):
            few = chance.sample(every, chance.randint(1, len(every)))
            drawn.append([chance.choice(few) for _ in range(strategies.groups)])
        course.evaluate_all(drawn)


def local_search(course: Course, seed: int = 0) -> None:
    """Changes a group or some around one of the best strategy so far, which is uniform at first.

    The center is drawn by the groups' average time, the neighbourhood is one of `around`, small
    ones as likely as large ones; all of it gets one action.
    """
    chance, strategies = random.Random(seed), course.strategies
    current = course.evaluate_uniform()
    weights = group_seconds(strategies)
    stages = strategies.groups.bit_length() + 1
    while course.goes_on:
        drawn = []
        for _ in range(_AT_ONCE):
            center = _drawn(chance, weights)
            moved = around(strategies, center, chance.randrange(stages))
            drawn.append(_changed(current, moved, chance.randrange(len(strategies.names))))
        course.evaluate_all(drawn)
        assert course.best is not None
        current = course.best


def critical_path_search(course: Course, seed: int = 0, calls: int | None = None) -> None:
    """Moves groups of the critical path of the best strategy so far, which is uniform at first.

    Of the groups on the path one is drawn by its seconds there. Its module's get another action,
    and where none was of use before, it alone, and then more and more around it, see `around`.
    Modules whose parameters are larger than what they make are tried on one worker first (HeteroG,
    §6.2: nothing is left to aggregate), others divided. What is better is kept, and its path is the
    next. With `calls` it leaves the course's others to another search.
    """
    chance, strategies = random.Random(seed), course.strategies
    current = course.evaluate_uniform()
    orders = [_preferred(strategies, heavy) for heavy in _are_heavy(strategies)]
    weights = strategies.evaluate(current).critical
    tried: dict[int, int] = {}  # by group how often it was changed since the last gain
    while course.goes_on and (calls is None or course.used < calls):
        drawn = []
        for _ in range(_AT_ONCE):
            center = _drawn(chance, weights)
            order = orders[center]
            count = tried.get(center, 0)
            tried[center] = count + 1
            stage = count // len(order)
            moved = around(strategies, center, (1, 0)[stage] if stage < 2 else stage)
            drawn.append(_changed(current, moved, order[count % len(order)]))
        course.evaluate_all(drawn)
        assert course.best is not None
        if course.best != current:
            current, tried = course.best, {}
            weights = strategies.evaluate(current).critical


def _changed(actions: Actions, groups: Sequence[int], action: int) -> list[int]:
    """The same, with one action for all of these groups."""
    changed = list(actions)
    for group in groups:
        changed[group] = action
    return changed


def group_seconds(strategies: Strategies) -> list[float]:
    """Returns by group the average time of its ops."""
    found = [0.0] * strategies.groups
    for op, seconds in enumerate(strategies.mean_seconds):
        found[strategies.group_of[op]] += seconds
    return found


def around(strategies: Strategies, center: int, stage: int) -> list[int]:
    """Returns groups that are moved together.

    Args:
        strategies: of which groups.
        center: a group.
        stage: 0, it alone; 1, those of its module; 2 and 3, of the modules around that; then those
            of the modules of 2, 4, 8 ... groups nearby.
    """
    if stage == 0:
        return [center]
    if stage <= _OUTWARDS:
        return strategies.family(center, stage - 1)
    near = ball(strategies.neighbours, center, 2 ** (stage - _OUTWARDS))
    return sorted({other for group in near for other in strategies.family(group)})


def _are_heavy(strategies: Strategies) -> list[bool]:
    """By group whether its module's parameters are more bytes than any result of its ops."""
    values = strategies.graph.native.values
    parameters = {v.id for v in strategies.graph.captured.values if v.role == "parameter"}
    held, made = [0] * strategies.groups, [0] * strategies.groups
    for op in strategies.graph.native.ops:
        group = strategies.group_of[op.id]
        held[group] += sum(values[value].nbytes for value in op.inputs if value in parameters)
        sizes = [values[value].nbytes for value in op.outputs if value >= 0 and not op.backward]
        made[group] = max(made[group], *sizes, 0)
    families = [strategies.family(group) for group in range(strategies.groups)]
    return [
        sum(held[group] for group in family) > max(made[group] for group in family)
        for family in families
    ]


def _preferred(strategies: Strategies, heavy: bool) -> list[int]:
    """All actions, those that are the likeliest to help first, single workers by their speed."""
    workers = strategies.workers
    devices = strategies.cluster.devices
    total = {name: sum(own) for name, own in strategies.seconds_by_kind.items()}
    alone = sorted(range(workers), key=lambda worker: (total[devices[worker].name], worker))
    even_homes, even, speed_homes, speed = range(workers, workers + len(BASELINES))
    if heavy:
        return [alone[0], speed_homes, speed, even, *alone[1:], even_homes]
    return [speed, even, speed_homes, alone[0], even_homes, *alone[1:]]


def _drawn(chance: random.Random, weights: Sequence[float]) -> int:
    """A number in proportion to its weight; any where all weigh nothing."""
    sums = list(itertools.accumulate(weights))
    if not sums or sums[-1] <= 0:
        return chance.randrange(max(1, len(weights)))
    return chance.choices(range(len(weights)), cum_weights=sums)[0]
