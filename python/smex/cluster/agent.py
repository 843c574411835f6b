"""HeteroG's agent: the policy, trained by REINFORCE in the simulator (§4.1.3).

    R = -√T, ten times that where a device is out of memory        -> `Agent._reward`
    θ <- θ + α Σ ∇ log π(a) (r - R̄) / samples + λ ∇ H(π)           -> `Agent._learn`

with R̄ the moving average of the rewards. T is in units of the best baseline's, so that one
learning rate does for all graphs, and log π and H are averages over the groups. Other than in the
paper, which samples for hours, the policy first imitates the best strategy that is known, the best
of what is uniform and of a search along critical paths; a saved policy does so where what it
proposes is no better than what is uniform. The best strategy so far is one of the samples that each
update learns from.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from smex.cluster.policy import Inputs, Policy, Sizes
from smex.cluster.searches import Course, around, critical_path_search
from smex.cluster.strategies import Actions, Evaluation, Strategies

_SAMPLES = 4
"""Strategies that are drawn for each update."""
_RATE = 2e-3
_ENTROPY = 1e-3
"""λ, of the average entropy of a group's actions in nats."""
_MOVING = 0.9
"""What the moving average keeps of itself."""
_CHANGED = 2.0
"""How many groups a sample is to change at first, of what was imitated."""
_IMITATIONS = 200
"""Updates of imitation, at most."""
_STAGES = 5
"""Up to 16 groups, and those of their modules, change together."""
_REDRAWN = 20
"""Groups that are changed in a sample that is known, at most."""
_LEAD = 2
"""One of so many calls, at least, goes to the search along critical paths that is imitated."""


class Agent:
    """A policy that learns the strategies of a graph on a cluster.

    Args:
        strategies: what it learns.
        policy: to go on with; without, a new one of `sizes`.
        sizes: of a new network.
        seed: of weights and samples.
    """

    def __init__(
        self,
        strategies: Strategies,
        policy: Policy | None = None,
        sizes: Sizes | None = None,
        seed: int = 0,
    ):
        self.strategies = strategies
        self.is_new = policy is None
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.policy = policy or Policy.for_strategies(strategies, sizes)
        self._seed = seed
        self._inputs = Inputs.of(strategies)
        self._chance = torch.Generator().manual_seed(seed)
        self._optimizer = torch.optim.Adam(self.policy.parameters(), lr=_RATE)
        self._average: float | None = None
        self._unit = 1.0

    def search(self, course: Course) -> None:
        """Draws and learns until the calls or the seconds are used."""
        course.evaluate_uniform()
        if self.is_new or not self._proposes_better(course):
            self._imitate(self._lead(course))
            self._proposes_better(course)
        assert course.found is not None
        self._unit = course.found.seconds
        while course.goes_on:
            logits = self.policy(self._inputs)
            drawn: list[Tensor] = []
            for _ in range(_SAMPLES):
                drawn.append(self._new(self._together(self._drawn(logits), course), drawn))
            evaluations = course.evaluate_all([actions.tolist() for actions in drawn])
            rewards = [self._reward(evaluation) for evaluation in evaluations]
            drawn = drawn[: len(rewards)]
            assert course.best is not None
            assert course.found is not None
            drawn.append(torch.tensor(course.best))
            rewards.append(self._reward(course.found))
            self._learn(logits, drawn, rewards)

    def _proposes_better(self, course: Course) -> bool:
        """Evaluates what the policy takes for the likeliest; whether that is the best so far."""
        with torch.no_grad():
            proposed = tuple(self.policy(self._inputs).argmax(1).tolist())
        if course.goes_on:
            course.evaluate(proposed)
        return course.best == proposed

    def _lead(self, course: Course) -> Actions:
        """The best uniform strategy, or of a search along critical paths with half of the calls.

        It goes on while an eighth of the calls finds what is better. What it evaluates is part of
        the course.
        """
        critical_path_search(course, self._seed, calls=course.calls // _LEAD)
        more, part = self._seed, max(1, course.calls // 8)
        while course.goes_on and course.gained_in(part):
            more += 1
            critical_path_search(course, more, calls=course.used + part)
        return course.evaluate_uniform()

    def _imitate(self, actions: Actions) -> None:
        """Learns to take these actions, but for `_CHANGED` groups on average."""
        target = torch.tensor(actions)
        enough = 1 - _CHANGED / max(len(actions), 2 * _CHANGED)
        for _ in range(_IMITATIONS):
            log = self.policy(self._inputs).log_softmax(1)
            own = log.gather(1, target.unsqueeze(1)).squeeze(1)
            if own.exp().mean().item() >= enough:
                break
            self._step(-own.mean())

    def _drawn(self, logits: Tensor) -> Tensor:
        chances = logits.detach().softmax(1)
        return torch.multinomial(chances, 1, generator=self._chance).squeeze(1)

    def _together(self, actions: Tensor, course: Course) -> Tensor:
        """The same actions, each that differs from the best strategy's for groups around it, too.

        Groups are drawn one by one, but what pays is often that all calls of a module, or of some
        that follow each other, move: `around` at a stage that is drawn, a later one half as likely.
        """
        assert course.best is not None
        best = torch.tensor(course.best)
        changed = (actions != best).nonzero().flatten().tolist()
        found = best.clone()
        for group in changed:
            stage = 0
            while stage < _STAGES and int(torch.randint(2, (), generator=self._chance)):
                stage += 1
            found[around(self.strategies, group, stage)] = int(actions[group])
        return found

    def _new(self, actions: Tensor, drawn: list[Tensor]) -> Tensor:
        """The same actions, with those of one group after the other drawn evenly until all are new.

        A policy that is sure of itself would draw nothing else than what is known.
        """
        for _ in range(_REDRAWN):
            is_drawn = any(torch.equal(actions, other) for other in drawn)
            if not is_drawn and not self.strategies.knows(tuple(actions.tolist())):
                break
            group, action = (
                int(torch.randint(most, (), generator=self._chance))
                for most in (self.strategies.groups, len(self.strategies.names))
            )
            actions[group] = action
        return actions

    def _reward(self, found: Evaluation) -> float:
        reward = -math.sqrt(found.seconds / self._unit)
        return reward if found.fits else 10 * reward

    def _learn(self, logits: Tensor, drawn: list[Tensor], rewards: list[float]) -> None:
        log = logits.log_softmax(1)
        if self._average is None:
            self._average = sum(rewards) / len(rewards)
        gains = []
        for actions, reward in zip(drawn, rewards, strict=True):
            taken = log.gather(1, actions.unsqueeze(1)).mean()
            gains.append(taken * (reward - self._average))
        for reward in rewards[:-1] or rewards:
            self._average = _MOVING * self._average + (1 - _MOVING) * reward
        entropy = -(log.exp() * log).sum(1).mean()
        self._step(-(torch.stack(gains).mean() + _ENTROPY * entropy))

    def _step(self, loss: Tensor) -> None:
        self._optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.policy.parameters(), 1.0)
        self._optimizer.step()
