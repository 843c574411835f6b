"""Graphs that are drawn: shapes to tell apart, motifs to find, communities."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from smex.errors import SmexValueError
from smex.graph.creation.convert import graph
from smex.graph.creation.networkx_io import from_networkx
from smex.graph.data.dataset import (
    DGLDataset,
    Folder,
    LabelledGraphsMixin,
    OneGraphMixin,
    Transform,
    check_index,
)
from smex.graph.graph import Graph
from smex.graph.packages import optional
from smex.graph.parts.batch import batch
from smex.graph.parts.derived import line_graph
from smex.graph.transforms import add_self_loop

__all__ = [
    "BACommunityDataset",
    "BAShapeDataset",
    "MiniGCDataset",
    "SBMMixtureDataset",
    "TreeCycleDataset",
    "TreeGridDataset",
]

_HOUSE = ([(0, 1), (1, 2), (2, 3), (3, 0), (0, 4), (1, 4)], [1, 1, 2, 2, 3])
_COMMUNITY_FEATURES, _SHIFTED_FEATURES = 10, 2


class _Drawn(DGLDataset):
    """A data set that needs no files."""

    def _download(self) -> None:
        pass


# ---- shapes ----


def _shapes(nx: Any) -> list[Callable[[int], Any]]:
    """For each class, its graph of a number of nodes, or of the next smaller one that there is."""
    return [
        nx.cycle_graph,
        lambda n: nx.star_graph(n - 1),
        nx.wheel_graph,
        lambda n: nx.lollipop_graph(n // 2, n - n // 2),
        lambda n: nx.convert_node_labels_to_integers(nx.hypercube_graph(int(math.log2(n)))),
        lambda n: nx.convert_node_labels_to_integers(nx.grid_graph((math.isqrt(n),) * 2)),
        nx.complete_graph,
        lambda n: nx.circular_ladder_graph(n // 2),
    ]


class MiniGCDataset(LabelledGraphsMixin, _Drawn):
    """Graphs of eight shapes, with a self loop at each node, and the shape's number as label.

    0 cycle, 1 star, 2 wheel, 3 lollipop, 4 hypercube, 5 grid, 6 clique, 7 circular ladder; graphs
    are ordered by label.

    Args:
        num_graphs: how many.
        min_num_v: least number of nodes; hypercubes, grids and ladders take the next smaller
            number that there is one of.
        max_num_v: largest number of nodes.
        seed: of the draw.
        save_graph: without effect.
        force_reload: without effect.
        verbose: whether to say what was made.
        transform: applied to a graph each time it is asked for.

    Raises:
        SmexImportError: networkx is not installed.
        SmexValueError: fewer than 8 nodes are allowed, or none.

    Example:
        >>> g, label = sg.data.MiniGCDataset(16, 10, 20)[0]
        >>> g.num_nodes() * 3 == g.num_edges(), label
        (True, tensor(0))
    """

    num_classes = 8

    def __init__(
        self,
        num_graphs: int,
        min_num_v: int,
        max_num_v: int,
        seed: int = 0,
        save_graph: bool = True,
        force_reload: bool = False,
        verbose: bool = False,
        transform: Transform = None,
    ):
        if not 8 <= min_num_v <= max_num_v:
            raise SmexValueError(
                "MiniGCDataset: expected 8 <= min_num_v <= max_num_v, found "
                f"{min_num_v} and {max_num_v}"
            )
        self.num_graphs, self.min_num_v, self.max_num_v = num_graphs, min_num_v, max_num_v
        self.seed, self.save_graph = seed, save_graph
        key = (num_graphs, min_num_v, max_num_v, seed)
        super().__init__("minigc", hash_key=key, verbose=verbose, transform=transform)

    def process(self) -> None:
        """Draws the graphs."""
        shapes = _shapes(optional("MiniGCDataset", "networkx"))
        rng, number = np.random.default_rng(self.seed), self.num_graphs
        sizes = rng.integers(self.min_num_v, self.max_num_v + 1, number)
        labels = [n * len(shapes) // number for n in range(number)]
        self.labels = torch.tensor(labels, dtype=torch.int64)
        self.graphs = [
            add_self_loop(from_networkx(shapes[label](int(size))))
            for label, size in zip(labels, sizes)
        ]


# ---- motifs ----


class _MotifDataset(OneGraphMixin, _Drawn):
    """One graph: a base to which copies of a motif are joined by an edge each, and random edges.

    Node features: ``label``, int64 ``[num_nodes]``; ``feat``, ones ``[num_nodes, 1]``.
    """

    num_classes = 2

    def __init__(
        self,
        name: str,
        settings: tuple[int, ...],
        perturb_ratio: float,
        seed: int | None,
        verbose: bool,
        transform: Transform,
    ):
        self.perturb_ratio, self.seed = perturb_ratio, seed
        key = (*settings, perturb_ratio, seed)
        super().__init__(name, hash_key=key, verbose=verbose, transform=transform)

    def _parts(self, nx: Any, rng: np.random.Generator) -> tuple[Any, list, list[int], int]:
        """Returns the base, the motif's edges, its nodes' labels, and how many motifs there are."""
        raise NotImplementedError

    def process(self) -> None:
        """Draws the graph."""
        nx = optional(type(self).__name__, "networkx")
        self._g = self._drawn(nx, np.random.default_rng(self.seed))

    def _drawn(self, nx: Any, rng: np.random.Generator) -> Graph:
        base, motif, motif_labels, copies = self._parts(nx, rng)
        size, first = len(motif_labels), base.number_of_nodes()
        joints = rng.permutation(np.arange(copies) % first)
        edges = list(base.edges)
        for copy in range(copies):
            start = first + copy * size
            edges += [(start + u, start + v) for u, v in motif]
            edges.append((start, int(joints[copy])))
        labels = torch.tensor([0] * first + motif_labels * copies)
        pairs = {tuple(sorted(edge)) for edge in edges}
        total = len(pairs) + int(len(pairs) * self.perturb_ratio)
        while len(pairs) < total:
            u, v = sorted(rng.integers(labels.shape[0], size=2).tolist())
            if u != v:
                pairs.add((u, v))
        g = _both_ways(torch.tensor(sorted(pairs)), labels.shape[0])
        g.ndata["feat"] = torch.ones(labels.shape[0], 1)
        g.ndata["label"] = labels
        return g


def _both_ways(pairs: Tensor, num_nodes: int) -> Graph:
    """Returns the graph with edges in both directions."""
    ends = torch.cat([pairs, pairs.flip(1)])
    return graph((ends[:, 0].contiguous(), ends[:, 1].contiguous()), num_nodes=num_nodes)


class BAShapeDataset(_MotifDataset):
    """A Barabási-Albert graph with houses attached (Ying et al., NeurIPS'19, BA-Shapes).

    Labels: 0 in the base; 1, 2 and 3 in the middle, at the bottom and at the top of a house.
    ``feat`` is 1 everywhere.

    Args:
        num_base_nodes: number of nodes of the base.
        num_base_edges_per_node: edges of each new node of the base.
        num_motifs: number of houses of 5 nodes.
        perturb_ratio: number of random edges, as a share of all others.
        seed: of the draw; None: drawn.
        raw_dir: without effect.
        force_reload: without effect.
        verbose: whether to say what was made.
        transform: applied to the graph each time it is asked for.

    Raises:
        SmexImportError: networkx is not installed.

    Example:
        >>> sg.data.BAShapeDataset(seed=0)[0].num_nodes()
        700
    """

    num_classes = 4

    def __init__(
        self,
        num_base_nodes: int = 300,
        num_base_edges_per_node: int = 5,
        num_motifs: int = 80,
        perturb_ratio: float = 0.01,
        seed: int | None = None,
        raw_dir: Folder = None,
        force_reload: bool = True,
        verbose: bool = True,
        transform: Transform = None,
    ):
        settings = (num_base_nodes, num_base_edges_per_node, num_motifs)
        self.num_base_nodes, self.num_base_edges_per_node, self.num_motifs = settings
        super().__init__("BA-SHAPES", settings, perturb_ratio, seed, verbose, transform)

    def _parts(self, nx: Any, rng: np.random.Generator) -> tuple[Any, list, list[int], int]:
        base = nx.barabasi_albert_graph(
            self.num_base_nodes, self.num_base_edges_per_node, seed=int(rng.integers(2**31))
        )
        return base, *_HOUSE, self.num_motifs


class BACommunityDataset(BAShapeDataset):
    """Two BA-Shapes joined by random edges (Ying et al., NeurIPS'19, BA-Community).

    Labels 0 to 3 in the first, as for :class:`BAShapeDataset`, and 4 to 7 in the second. ``feat``
    is normal, float32 ``[num_nodes, 10]``, with a mean of -1 or 1 in the first two columns.

    Args:
        num_base_nodes: as for :class:`BAShapeDataset`, of each of the two.
        num_base_edges_per_node: likewise.
        num_motifs: likewise.
        perturb_ratio: likewise.
        num_inter_edges: number of random edges between the two.
        seed: of the draw; None: drawn.
        raw_dir: without effect.
        force_reload: without effect.
        verbose: whether to say what was made.
        transform: applied to the graph each time it is asked for.

    Example:
        >>> sg.data.BACommunityDataset(seed=0)[0].num_nodes()
        1400
    """

    num_classes = 8

    def __init__(
        self,
        num_base_nodes: int = 300,
        num_base_edges_per_node: int = 4,
        num_motifs: int = 80,
        perturb_ratio: float = 0.01,
        num_inter_edges: int = 350,
        seed: int | None = None,
        raw_dir: Folder = None,
        force_reload: bool = True,
        verbose: bool = True,
        transform: Transform = None,
    ):
        self.num_inter_edges = num_inter_edges
        super().__init__(
            num_base_nodes,
            num_base_edges_per_node,
            num_motifs,
            perturb_ratio,
            seed,
            raw_dir,
            force_reload,
            verbose,
            transform,
        )

    def process(self) -> None:
        """Draws the graph."""
        rng = np.random.default_rng(self.seed)
        nx = optional(type(self).__name__, "networkx")
        parts = [self._drawn(nx, rng) for _ in range(2)]
        first, second = (part.num_nodes() for part in parts)
        pairs = torch.cat(
            [torch.stack(part.edges(), 1) + n * first for n, part in enumerate(parts)]
        )
        pairs = pairs[pairs[:, 0] < pairs[:, 1]]
        drawn = rng.choice(first * second, self.num_inter_edges, replace=False)
        between = torch.from_numpy(np.stack([drawn // second, drawn % second + first], 1))
        labels = [part.ndata["label"] + 4 * n for n, part in enumerate(parts)]
        self._g = _both_ways(torch.cat([pairs, between]), first + second)
        self._g.ndata["label"] = torch.cat(labels)
        self._g.ndata["feat"] = self._features(rng)

    def _features(self, rng: np.random.Generator) -> Tensor:
        community = (self._g.ndata["label"] >= 4).float()
        noise = rng.standard_normal((community.shape[0], _COMMUNITY_FEATURES), dtype=np.float32)
        feat = torch.from_numpy(noise)
        feat[:, :_SHIFTED_FEATURES] += (2 * community - 1)[:, None]
        return feat


class TreeCycleDataset(_MotifDataset):
    """A binary tree with cycles attached (Ying et al., NeurIPS'19, Tree-Cycles).

    Labels: 0 in the tree, 1 in a cycle. ``feat`` is 1 everywhere.

    Args:
        tree_height: the tree has ``2 ** (tree_height + 1) - 1`` nodes.
        num_motifs: number of cycles.
        cycle_size: nodes of a cycle.
        perturb_ratio: number of random edges, as a share of all others.
        seed: of the draw; None: drawn.
        raw_dir: without effect.
        force_reload: without effect.
        verbose: whether to say what was made.
        transform: applied to the graph each time it is asked for.

    Raises:
        SmexImportError: networkx is not installed.

    Example:
        >>> sg.data.TreeCycleDataset(seed=0)[0].num_nodes()
        871
    """

    def __init__(
        self,
        tree_height: int = 8,
        num_motifs: int = 60,
        cycle_size: int = 6,
        perturb_ratio: float = 0.01,
        seed: int | None = None,
        raw_dir: Folder = None,
        force_reload: bool = True,
        verbose: bool = True,
        transform: Transform = None,
    ):
        settings = (tree_height, num_motifs, cycle_size)
        self.tree_height, self.num_motifs, self.cycle_size = settings
        super().__init__("TREE-CYCLES", settings, perturb_ratio, seed, verbose, transform)

    def _parts(self, nx: Any, rng: np.random.Generator) -> tuple[Any, list, list[int], int]:
        size = self.cycle_size
        cycle = list(nx.cycle_graph(size).edges)
        return nx.balanced_tree(2, self.tree_height), cycle, [1] * size, self.num_motifs


class TreeGridDataset(_MotifDataset):
    """A binary tree with grids attached (Ying et al., NeurIPS'19, Tree-Grid).

    Labels: 0 in the tree, 1 in a grid. ``feat`` is 1 everywhere.

    Args:
        tree_height: the tree has ``2 ** (tree_height + 1) - 1`` nodes.
        num_motifs: number of grids.
        grid_size: nodes of a grid's side.
        perturb_ratio: number of random edges, as a share of all others.
        seed: of the draw; None: drawn.
        raw_dir: without effect.
        force_reload: without effect.
        verbose: whether to say what was made.
        transform: applied to the graph each time it is asked for.

    Raises:
        SmexImportError: networkx is not installed.

    Example:
        >>> sg.data.TreeGridDataset(seed=0)[0].num_nodes()
        1231
    """

    def __init__(
        self,
        tree_height: int = 8,
        num_motifs: int = 80,
        grid_size: int = 3,
        perturb_ratio: float = 0.1,
        seed: int | None = None,
        raw_dir: Folder = None,
        force_reload: bool = True,
        verbose: bool = True,
        transform: Transform = None,
    ):
        settings = (tree_height, num_motifs, grid_size)
        self.tree_height, self.num_motifs, self.grid_size = settings
        super().__init__("TREE-GRID", settings, perturb_ratio, seed, verbose, transform)

    def _parts(self, nx: Any, rng: np.random.Generator) -> tuple[Any, list, list[int], int]:
        size, tree = self.grid_size, nx.balanced_tree(2, self.tree_height)
        grid = nx.convert_node_labels_to_integers(nx.grid_2d_graph(size, size))
        return tree, list(grid.edges), [1] * size**2, self.num_motifs


# ---- communities ----


class SBMMixtureDataset(_Drawn):
    """Graphs of stochastic block models (Chen, Li and Bruna, ICLR'19, section 5.1).

    An element is (graph, its line graph without backtracking, in-degrees ``[num_nodes]``,
    in-degrees of the line graph ``[num_edges]``, source of each edge ``[num_edges]``). The nodes
    of a community follow one another; there are no self loops.

    Args:
        n_graphs: how many.
        n_nodes: number of nodes, a multiple of `n_communities`.
        n_communities: number of communities of equal size.
        k: see `pq`.
        avg_deg: see `pq`.
        pq: ``"Appendix_C"``: of q drawn uniformly from 0 to ``avg_deg - sqrt(avg_deg)`` and
            ``p = k * avg_deg - q`` one is drawn to be the first; or a pair (p, q) for each graph.
            Nodes of a community are joined with probability ``p / n_nodes``, others with
            ``q / n_nodes``.
        rng: a ``numpy.random.Generator``, or a seed; None: drawn.

    Raises:
        SmexValueError: `n_nodes` is no such multiple, or `pq` is something else.

    Example:
        >>> g, lg, degrees, *_ = sg.data.SBMMixtureDataset(2, 20, 2, rng=0)[0]
        >>> g.num_nodes(), lg.num_nodes() == g.num_edges(), degrees.shape
        (20, True, torch.Size([20]))
    """

    def __init__(
        self,
        n_graphs: int,
        n_nodes: int,
        n_communities: int,
        k: int = 2,
        avg_deg: int = 3,
        pq: str | Sequence[tuple[float, float]] = "Appendix_C",
        rng: Any = None,
    ):
        if n_nodes % n_communities:
            raise SmexValueError(
                f"SBMMixtureDataset: expected n_nodes to be a multiple of {n_communities} "
                f"communities, found {n_nodes}"
            )
        self._num_graphs, self._num_nodes, self._size = n_graphs, n_nodes, n_nodes // n_communities
        self._rng = np.random.default_rng(rng)
        self._pairs = [self._drawn_pair(k, avg_deg) for _ in range(n_graphs)]
        if pq != "Appendix_C":
            if isinstance(pq, str) or len(pq) != n_graphs:
                raise SmexValueError(
                    f'SBMMixtureDataset: expected pq="Appendix_C" or {n_graphs} pairs, found {pq!r}'
                )
            self._pairs = list(pq)
        super().__init__("sbmmixture", hash_key=(n_graphs, n_nodes, n_communities, k, avg_deg, pq))

    def _drawn_pair(self, k: int, avg_deg: int) -> tuple[float, float]:
        q = self._rng.uniform(0, avg_deg - math.sqrt(avg_deg))
        p = k * avg_deg - q
        return (p, q) if self._rng.random() < 0.5 else (q, p)

    def process(self) -> None:
        """Draws the graphs."""
        community = np.arange(self._num_nodes) // self._size
        same = community[:, None] == community
        self._graphs = []
        for p, q in self._pairs:
            joined = self._rng.random(same.shape) < np.where(same, p, q) / self._num_nodes
            pairs = torch.from_numpy(np.argwhere(np.tril(joined, -1)))
            self._graphs.append(_both_ways(pairs, self._num_nodes))
        self._line_graphs = [line_graph(g, backtracking=False) for g in self._graphs]

    def __getitem__(self, idx: int) -> tuple[Graph, Graph, Tensor, Tensor, Tensor]:
        """Returns a graph, its line graph, the in-degrees of both, and the source of each edge.

        Raises:
            GraphIndexError: there is none at this position.
        """
        check_index("SBMMixtureDataset", idx, len(self))
        g, lg = self._graphs[idx], self._line_graphs[idx]
        return g, lg, g.in_degrees().float(), lg.in_degrees().float(), g.edges()[0]

    def __len__(self) -> int:
        """Number of graphs."""
        return len(self._graphs)

    def collate_fn(self, x: Sequence[tuple]) -> tuple[Graph, Graph, Tensor, Tensor, Tensor]:
        """Elements as one: graphs and line graphs batched, tensors joined, sources shifted."""
        graphs, line_graphs, degrees, line_degrees, sources = zip(*x)
        starts = np.cumsum([0, *(g.num_nodes() for g in graphs[:-1])]).tolist()
        shifted = [source + start for source, start in zip(sources, starts)]
        joined, joined_line = torch.cat(degrees), torch.cat(line_degrees)
        graph_batch, line_batch = batch(list(graphs)), batch(list(line_graphs))
        return graph_batch, line_batch, joined, joined_line, torch.cat(shifted)
