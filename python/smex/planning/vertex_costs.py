"""How long calls take by the vertices that they compute (Jia et al., "ROC", §4.1)."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from smex._C import FEATURES, FeatureSums, edge_walks, seconds_before, walked_rows
from smex.errors import PlanError
from smex.planning.least_squares import relative_weights
from smex.planning.semantic import SemanticGraph

FORMAT = "smex-vertex-costs-2"
_MOST_SAMPLES = 1024
"""Of a layer, the latest."""
_RIDGE = 0.03
"""Of features whose norm is 1: its square is what samples may be explained worse."""


class _Sample(NamedTuple):
    """What a worker's calls of a layer took.

    Attributes:
        features: of the rows that it computed, summed up.
        seconds: of one run.
    """

    features: tuple[float, ...]
    seconds: float


class VertexCosts:
    """Seconds of a network's calls by the vertices they compute, learned from what runs took.

    A layer, which is an operator along edges with its message, the width of its features and their
    dtype, takes the sum over its vertices of eight features times weights that are not negative:
    one; the number of neighbours; of runs of neighbours with consecutive numbers; of blocks of
    memory that these take; and of blocks that their features take (ROC §4.1); and by size of cache
    the blocks that are not in it any more when they are read again. What else a network
    computes takes the same time for every vertex, and for every edge into it. The weights serve for
    graphs that were never measured.

    Example:
        >>> import torch, smex
        >>> import smex.graph as sg
        >>> g, x = sg.rand_graph(100, 900), torch.randn(100, 8)
        >>> conv = sg.nn.SAGEConv(8, 4, "mean")
        >>> net = smex.partition(conv, 2, args=(g, x), boundaries="edges")
        >>> costs = smex.VertexCosts()
        >>> costs.measure(net, g, x, backward=False)
        >>> cut = smex.partition(conv, 2, args=(g, x), boundaries=costs)
        >>> torch.allclose(cut(g, x), conv(g, x), atol=1e-5)
        True
    """

    def __init__(self) -> None:
        self._samples: dict[str, list[_Sample]] = {}
        self._weights: dict[str, tuple[float, ...]] = {}

    @property
    def layers(self) -> dict[str, tuple[float, ...]]:
        """Seconds by feature of each layer; by vertex, edge and range of each other call."""
        self._fit()
        return dict(self._weights)

    def measure(
        self, net: Any, *args: Any, backward: bool = True, repeats: int = 3, **kwargs: Any
    ) -> None:
        """Runs a net several times and learns from what its calls took.

        In several processes every rank calls this.

        Args:
            net: what `smex.partition` returned; its calls along edges that are cut by vertices
                are learned from.
            args: of its call.
            backward: whether its backward pass runs too, for the gradient of the sum of its
                outputs; the `grad` of parameters stays as it is.
            repeats: number of runs, of which the least time of each call counts.
            kwargs: of its call.
        """
        runs = [net.timed_call(args, kwargs, backward) for _ in range(repeats)]
        self.add(runs[0].plan.graph, runs[0].plan.native, [run.seconds for run in runs])

    def add(
        self, graph: SemanticGraph, plan: Any, runs: Sequence[Mapping[tuple[int, int], float]]
    ) -> None:
        """Learns from runs of a program.

        Args:
            graph: that was run.
            plan: its native plan.
            runs: by worker and operator, the last of several in one, the seconds that it took.
        """
        took = {key: min(run.get(key, 0.0) for run in runs) for key in runs[0]}
        walks = edge_walks(graph.native)
        rows = walked_rows(graph.native, plan, walks)
        cut: dict[int, tuple[int, int]] = {}  # by worker its rows
        for walk, ranges in zip(walks, rows, strict=True):
            if any(hi - lo == walk.rows for lo, hi in ranges):
                continue  # not cut by vertices
            key = self.layer(graph, walk)
            for worker, (lo, hi) in enumerate(ranges):
                cut.setdefault(worker, (lo, hi))
                seconds = took.get((worker, walk.op))
                if seconds and hi > lo:
                    self._keep(key, _Sample(tuple(features_of(graph, walk).of(lo, hi)), seconds))
        others = _others(graph)
        for worker, (lo, hi) in cut.items():
            sizes = (float(hi - lo), features_of(graph, walks[0]).of(lo, hi)[1], 1.0)
            for op, key in others.items():
                seconds = took.get((worker, op))
                if seconds and hi > lo:
                    self._keep(key, _Sample(sizes, seconds))

    @staticmethod
    def layer(graph: SemanticGraph, walk: Any) -> str:
        """Returns the name of an operator along edges: what its time depends on."""
        records = graph.captured.structure
        op = records.ops[walk.op]
        words = " ".join(_texts(op.args))
        output = next(output for output in op.outputs if output is not None)
        dtype = str(records.values[output].dtype).removeprefix("torch.")
        return f"{op.target}({words}) of {walk.width} {dtype}"

    def _keep(self, layer: str, sample: _Sample) -> None:
        known = self._samples.setdefault(layer, [])
        known.append(sample)
        del known[:-_MOST_SAMPLES]
        self._weights.pop(layer, None)

    def _fit(self) -> None:
        for layer, samples in self._samples.items():
            if layer not in self._weights:
                self._weights[layer] = _fitted(samples)

    def predict(self, graph: SemanticGraph, ranges: Sequence[int]) -> list[float]:
        """By range of vertices the seconds of all calls, each pass once.

        Args:
            graph: of a network whose layers are known.
            ranges: 0, and where each range ends.
        """
        walks = [walk for walk in edge_walks(graph.native) if walk.rows == ranges[-1]]
        seconds = np.diff(self.before(graph, ranges[-1], walks)[list(ranges)])
        _, _, each = self._of_others(graph)
        return np.where(np.diff(ranges) > 0, seconds + each, 0.0).tolist()

    def before(self, graph: SemanticGraph, size: int, walks: Sequence[Any]) -> Any:
        """By vertex and one more the seconds of all before it, an array, of the known layers.

        Raises:
            PlanError: none was ever measured.
        """
        self._fit()
        layers = [(walk, self.layer(graph, walk)) for walk in walks]
        models = [
            (features_of(graph, walk), self._weights[layer])
            for walk, layer in layers
            if layer in self._weights
        ]
        if not models:
            known = [layer for layer, weights in self._weights.items() if len(weights) == FEATURES]
            raise PlanError(
                f"search: no costs are known of {', '.join(layer for _, layer in layers)}, but of "
                f"{', '.join(known) or 'none'}; measure a net that has them and cuts them by "
                "vertices: smex.VertexCosts().measure(net, *inputs)"
            )
        vertex, edge, _ = self._of_others(graph)
        models.append((features_of(graph, walks[0]), (0.0, edge, *[0.0] * (FEATURES - 2))))
        return seconds_before(size, vertex, models)

    def _of_others(self, graph: SemanticGraph) -> tuple[float, float, float]:
        """Seconds by vertex, by edge into it, and by range of all calls that are no layers."""
        keys = _others(graph).values()
        weights = [self._weights[key] for key in keys if key in self._weights]
        vertex, edge, each = np.sum(weights, axis=0) if weights else (0.0, 0.0, 0.0)
        return float(vertex), float(edge), float(each)

    def errors(self) -> dict[str, float]:
        """By layer the mean error of the samples, as a part of what they took."""
        self._fit()
        found = {}
        for layer, samples in self._samples.items():
            features, seconds = _arrays(samples)
            predicted = features @ np.array(self._weights[layer])
            found[layer] = float(np.mean(np.abs(predicted - seconds) / seconds))
        return found

    def contents(self) -> dict[str, Any]:
        """Returns what `save` writes."""
        samples = {
            layer: [[*sample.features, sample.seconds] for sample in known]
            for layer, known in self._samples.items()
        }
        return {"format": FORMAT, "samples": samples}

    @staticmethod
    def from_contents(content: Any) -> VertexCosts:
        """From what `contents` returns.

        Raises:
            PlanError: it is something else.
        """
        costs = VertexCosts()
        try:
            if content["format"] != FORMAT:
                raise ValueError
            for layer, known in content["samples"].items():
                for *features, seconds in known:
                    sample = _Sample(tuple(map(float, features)), float(seconds))
                    if len(features) not in (3, FEATURES) or not sample.seconds > 0:
                        raise ValueError
                    costs._keep(layer, sample)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise PlanError(
                f"VertexCosts: expected what VertexCosts.save writes, of format {FORMAT!r}"
            ) from error
        return costs

    def save(self, path: str | pathlib.Path) -> None:
        """Writes the samples as JSON."""
        pathlib.Path(path).write_text(json.dumps(self.contents()) + "\n")

    @staticmethod
    def load(path: str | pathlib.Path) -> VertexCosts:
        """Reads what `save` wrote.

        Raises:
            PlanError: the file is none.
        """
        try:
            content = json.loads(pathlib.Path(path).read_text())
        except ValueError as error:
            raise PlanError(f"VertexCosts: {path} is not JSON: {error}") from error
        return VertexCosts.from_contents(content)

    def __repr__(self) -> str:
        samples = sum(map(len, self._samples.values()))
        return f"VertexCosts({samples} samples of {len(self._samples)} layers)"


def features_of(graph: SemanticGraph, walk: Any) -> Any:
    """Returns the sums of a walk's features; edges are read once for all that are alike."""
    if walk.structure not in graph.features:
        graph.features[walk.structure] = FeatureSums(walk)
    return graph.features[walk.structure]


def _texts(arg: Any) -> Iterable[str]:
    if isinstance(arg, str):
        yield arg
    elif isinstance(arg, (list, tuple)):
        for item in arg:
            yield from _texts(item)


def _others(graph: SemanticGraph) -> dict[int, str]:
    """By op that walks no edges its name: what its time depends on besides a graph's sizes."""
    structure = graph.captured.structure
    walks = edge_walks(graph.native)
    walked = {walk.op for walk in walks}
    words: dict[int, str] = {}
    for walk in walks:
        words.setdefault(walk.rows, "V")
        words.setdefault(walk.rows + 1, "V + 1")
        words.setdefault(int(features_of(graph, walk).of(0, walk.rows)[1]), "E")
    found = {}
    for number, op in enumerate(structure.ops):
        if number not in walked:
            shapes = [structure.values[value].shape for value in op.inputs()]
            sizes = [[str(words.get(size, size)) for size in shape] for shape in shapes]
            found[number] = f"{op.target}({', '.join(' x '.join(shape) for shape in sizes)})"
    for fusion in graph.captured.fusions:
        for member in set(fusion.members) & set(found):  # alone, or as one: the last has it all
            found[member] += f" of {fusion.fused.target}"
    return found


def _arrays(samples: Sequence[_Sample]) -> tuple[Any, Any]:
    features = np.array([sample.features for sample in samples])
    return features, np.array([sample.seconds for sample in samples])


def _fitted(samples: Sequence[_Sample]) -> tuple[float, ...]:
    """Returns the weights of the features.

    Plain least squares may give negative ones: sums over vertices would not ascend, and ranges that
    are searched by them would be wrong.
    """
    weights = relative_weights("VertexCosts", *_arrays(samples), _RIDGE)
    return tuple(map(float, weights))
