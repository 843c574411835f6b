"""Graphs with motifs to find, which are drawn."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from smex.graph.creation.convert import graph
from smex.graph.data.ba_2motif import BA2MotifDataset
from smex.graph.data.dataset import (
    DGLDataset,
    Folder,
    OneGraphMixin,
    Transform,
)
from smex.graph.graph import Graph
from smex.graph.packages import optional

__all__ = [
    "BA2MotifDataset",
    "BACommunityDataset",
    "BAShapeDataset",
    "TreeCycleDataset",
    "TreeGridDataset",
]

_HOUSE = ([(0, 1), (1, 2), (2, 3), (3, 0), (0, 4), (1, 4)], [1, 1, 2, 2, 3])
_COMMUNITY_FEATURES, _SHIFTED_FEATURES = 10, 2


class _Drawn(DGLDataset):
    """A data set that needs no files."""

    def _download(self) -> None:
        pass


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
