"""Explanations of a graph's class by the part of it that matters most."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from smex.errors import SmexValueError
from smex.graph.creation.random import current_generator
from smex.graph.graph import Graph

__all__ = ["HeteroSubgraphX", "SubgraphX"]

logger = logging.getLogger(__name__)

Nodes = tuple[int, ...]


class _Part:
    """A node of the search tree: a connected part of the graph."""

    def __init__(self, nodes: Nodes, reward: float):
        self.nodes, self.reward = nodes, reward
        self.visits, self.total = 0, 0.0
        self.children: list[_Part] | None = None


class HeteroSubgraphX(nn.Module):
    """Monte Carlo tree search for the part that explains a class (Yuan et al., ICML'21, §3).

    From the whole graph on, nodes are left out one by one; what stays is the largest connected
    rest. A part is worth its Shapley value among the nodes around it, by drawn coalitions: how much
    likelier the class is with its features than with zeros in their place.

    Args:
        model: called as ``model(graph, feat, **kwargs)``, returns logits ``[1, classes]``.
        num_hops: of the model: nodes as far from a part as one less are in its game.
        coef: how much a rollout is drawn to parts that were not visited often.
        high2low: whether nodes of high degree are left out first, or those of low.
        num_child: how many nodes are tried to leave out of a part.
        num_rollouts: how often the tree is walked down.
        node_min: a part of at most so many nodes is an end.
        shapley_steps: coalitions drawn for a value.
        log: whether each rollout is logged, at the level ``info``.

    Raises:
        SmexValueError: a number of nodes, rollouts or steps is less than 1.

    Example:
        >>> g = sg.heterograph({("u", "r", "v"): ([0, 1, 2], [0, 0, 1])})
        >>> def model(g, feat):
        ...     return torch.stack([feat["u"][0], -feat["u"][0]], 1)
        >>> explainer = sg.nn.HeteroSubgraphX(model, 1, num_rollouts=9, shapley_steps=2)
        >>> part = explainer.explain_graph(g, {t: torch.ones(g.num_nodes(t), 1) for t in "uv"}, 0)
        >>> 0 in part["u"]
        True
    """

    def __init__(
        self,
        model: Any,
        num_hops: int,
        coef: float = 10.0,
        high2low: bool = True,
        num_child: int = 12,
        num_rollouts: int = 20,
        node_min: int = 3,
        shapley_steps: int = 100,
        log: bool = False,
    ):
        super().__init__()
        for name, number in (
            ("num_child", num_child),
            ("num_rollouts", num_rollouts),
            ("node_min", node_min),
            ("shapley_steps", shapley_steps),
        ):
            if number < 1:
                raise SmexValueError(
                    f"{type(self).__name__}: expected {name} of at least 1, found {number}"
                )
        self.model, self.num_hops, self.coef = model, num_hops, coef
        self.high2low, self.num_child, self.num_rollouts = high2low, num_child, num_rollouts
        self.node_min, self.shapley_steps, self.log = node_min, shapley_steps, log

    def explain_graph(
        self, graph: Graph, feat: Mapping[str, Tensor], target_class: int, **kwargs: Any
    ) -> Any:
        """Returns the nodes that matter most for the class, ids by node type.

        Args:
            graph: the graph.
            feat: ``[num_nodes, size]`` by node type.
            target_class: which class.
            kwargs: passed on to the model.
        """
        found = self._explained(graph, feat, target_class, kwargs)
        return {ntype: ids for ntype, ids in found.items() if ids.shape[0]}

    def _explained(
        self, graph: Graph, feat: Mapping[str, Tensor], target_class: int, kwargs: dict[str, Any]
    ) -> dict[str, Tensor]:
        search = _Search(self, graph, feat, target_class, kwargs)
        with torch.no_grad():
            best = search.best()
        result, start = {}, 0
        for ntype in graph.ntypes:
            end = start + graph.num_nodes(ntype)
            ids = [n - start for n in best.nodes if start <= n < end]
            result[ntype] = torch.tensor(ids, dtype=torch.int64, device=graph.device)
            start = end
        return result

    def _logits(self, graph: Graph, feat: dict[str, Tensor], kwargs: dict[str, Any]) -> Tensor:
        return self.model(graph, feat, **kwargs)


class SubgraphX(HeteroSubgraphX):
    """:class:`HeteroSubgraphX` of a graph of one node type and one edge type.

    Args:
        model: as there, as are the others.
        num_hops: of the model.
        coef: of the search.
        high2low: which nodes are left out first.
        num_child: how many are tried.
        num_rollouts: of the search.
        node_min: nodes of an end.
        shapley_steps: coalitions of a value.
        log: whether rollouts are logged.

    Example:
        >>> g = sg.to_bidirected(sg.graph(([0, 1, 2, 3], [1, 2, 3, 4])))
        >>> def model(g, feat):
        ...     return torch.stack([feat[2] * 5, -feat[2]], 1)
        >>> explainer = sg.nn.SubgraphX(model, 1, node_min=1, shapley_steps=2)
        >>> explainer.explain_graph(g, torch.ones(5, 1), 0)
        tensor([2])
    """

    def explain_graph(self, graph: Graph, feat: Any, target_class: int, **kwargs: Any) -> Tensor:
        """Returns the ids of the nodes that matter most for the class, ascending.

        Args:
            graph: the graph.
            feat: ``[num_nodes, size]``.
            target_class: which class.
            kwargs: passed on to the model.
        """
        (ntype,) = graph.ntypes
        return self._explained(graph, {ntype: feat}, target_class, kwargs)[ntype]

    def _logits(self, graph: Graph, feat: dict[str, Tensor], kwargs: dict[str, Any]) -> Tensor:
        return self.model(graph, next(iter(feat.values())), **kwargs)


class _Search:
    """One search, over nodes of all types numbered one after another."""

    def __init__(
        self,
        options: HeteroSubgraphX,
        graph: Graph,
        feat: Mapping[str, Tensor],
        target_class: int,
        kwargs: dict[str, Any],
    ):
        self.options, self.graph, self.feat = options, graph, feat
        self.target_class, self.kwargs = target_class, kwargs
        self.parts: dict[Nodes, _Part] = {}
        starts, self.number = {}, 0
        for ntype in graph.ntypes:
            starts[ntype] = self.number
            self.number += graph.num_nodes(ntype)
        self.near: list[list[int]] = [[] for _ in range(self.number)]
        for canonical in graph.canonical_etypes:
            src, dst = (ids.tolist() for ids in graph.edges(etype=canonical))
            for u, v in zip(src, dst):
                u, v = u + starts[canonical[0]], v + starts[canonical[2]]
                self.near[u].append(v)
                self.near[v].append(u)

    def best(self) -> _Part:
        """Returns the end of the largest value."""
        root = _Part(tuple(range(self.number)), 0.0)
        self.parts[root.nodes] = root
        for rollout in range(self.options.num_rollouts):
            reward = self._walk(root)
            if self.options.log:
                logger.info("rollout %d: %s", rollout, reward)
        small = [p for p in self.parts.values() if len(p.nodes) <= self.options.node_min]
        return max(small, key=lambda part: part.reward)

    def _walk(self, root: _Part) -> float:
        path, part = [], root
        while len(part.nodes) > self.options.node_min:
            children = self._children(part)
            root_of_visits = math.sqrt(sum(child.visits for child in children))
            part = max(
                children,
                key=lambda c: (
                    c.total / max(c.visits, 1)
                    + self.options.coef * c.reward * root_of_visits / (1 + c.visits)
                ),
            )
            path.append(part)
        for visited in path:
            visited.visits += 1
            visited.total += part.reward
        return part.reward

    def _children(self, part: _Part) -> list[_Part]:
        if part.children is None:
            inside = set(part.nodes)
            degrees = [sum(v in inside for v in self.near[u]) for u in part.nodes]
            order = sorted(
                range(len(degrees)), key=degrees.__getitem__, reverse=self.options.high2low
            )
            rests = {
                self._largest(inside - {part.nodes[n]}) for n in order[: self.options.num_child]
            }
            for rest in rests - self.parts.keys():
                self.parts[rest] = _Part(rest, self._value(rest))
            part.children = [self.parts[rest] for rest in sorted(rests)]
        return part.children

    def _largest(self, nodes: set[int]) -> Nodes:
        """Returns the largest component of some nodes."""
        left, largest = set(nodes), set[int]()
        while left:
            component, border = set[int](), {min(left)}
            while border:
                component |= border
                border = {v for u in border for v in self.near[u] if v in nodes} - component
            left -= component
            largest = max(largest, component, key=len)
        return tuple(sorted(largest))

    def _value(self, part: Nodes) -> float:
        """Returns the Shapley value of a part among what is around it."""
        region = set(part)
        for _ in range(self.options.num_hops - 1):
            region |= {v for u in region for v in self.near[u]}
        others = torch.tensor(sorted(region - set(part)), dtype=torch.int64)
        generator, gain = current_generator(), 0.0
        for _ in range(self.options.shapley_steps):
            size = int(torch.randint(len(others) + 1, (), generator=generator))
            drawn = others[torch.randperm(len(others), generator=generator)[:size]]
            without = torch.ones(self.number)
            without[sorted(region)] = 0.0
            without[drawn] = 1.0
            included = without.clone()
            included[list(part)] = 1.0
            gain += self._chance(included) - self._chance(without)
        return gain / self.options.shapley_steps

    def _chance(self, mask: Tensor) -> float:
        """Returns the probability of the class where some nodes have features of zero."""
        sizes = [self.graph.num_nodes(ntype) for ntype in self.graph.ntypes]
        feat = {}
        for ntype, own in zip(self.graph.ntypes, mask.split(sizes)):
            x = self.feat[ntype]
            feat[ntype] = x * own.to(x).view(-1, *[1] * (x.dim() - 1))
        logits = self.options._logits(self.graph, feat, self.kwargs)
        return float(logits.softmax(-1)[..., self.target_class].mean())
