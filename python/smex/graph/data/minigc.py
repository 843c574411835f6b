"""Graphs of eight shapes to tell apart, which are drawn."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from smex.errors import SmexValueError
from smex.graph.creation.networkx_io import from_networkx
from smex.graph.data.dataset import DGLDataset, LabelledGraphsMixin, Transform
from smex.graph.packages import optional
from smex.graph.transforms import add_self_loop

__all__ = ["MiniGCDataset"]


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


class MiniGCDataset(LabelledGraphsMixin, DGLDataset):
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

    def _download(self) -> None:
        pass

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
