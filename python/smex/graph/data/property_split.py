"""Splits of nodes under a shift of distribution, by a property of the nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from smex.errors import SmexValueError
from smex.graph.graph import Graph
from smex.graph.packages import optional
from smex.graph.words import quoted

__all__ = ["add_node_property_split", "mask_nodes_by_property"]

PROPERTIES = ("popularity", "locality", "density")
_MASKS = ("in_train_mask", "in_valid_mask", "in_test_mask", "out_valid_mask", "out_test_mask")
_TOLERANCE = 1e-6


def mask_nodes_by_property(
    property_values: Any, part_ratios: Sequence[float], random_seed: int | None = None
) -> dict[str, Tensor]:
    """Masks of nodes whose property is within and outside the training distribution.

    Bazhenov et al., "Evaluating Robustness and Uncertainty of Graph Models Under Structural
    Distributional Shifts" (2023), section 3.1: nodes in the order of their values; the first ones,
    shuffled, are for training, validation and test within the distribution, the last ones for
    validation and test outside.

    Args:
        property_values: a number for each node.
        part_ratios: fractions of the five parts, in this order, which sum to 1.
        random_seed: of the order within the distribution and of nodes of equal value.

    Returns:
        bool ``[num_nodes]`` for each of ``in_train_mask``, ``in_valid_mask``, ``in_test_mask``,
        ``out_valid_mask`` and ``out_test_mask``.

    Raises:
        SmexValueError: there are not five fractions, or they do not sum to 1.

    Example:
        >>> masks = sg.data.utils.mask_nodes_by_property(range(10), [0.4, 0.1, 0.1, 0.2, 0.2], 0)
        >>> masks["out_test_mask"].nonzero().flatten()
        tensor([8, 9])
    """
    ratios = np.asarray(part_ratios, dtype=np.float64)
    if ratios.shape != (len(_MASKS),) or ratios.min() < 0 or abs(ratios.sum() - 1) > _TOLERANCE:
        raise SmexValueError(
            "mask_nodes_by_property: expected five fractions of at least 0 that sum to 1, found "
            f"{list(part_ratios)}"
        )
    values = np.asarray(property_values)
    number = values.shape[0]
    sizes = np.round(number * ratios).astype(int)
    sizes[-1] += number - sizes.sum()
    draw = np.random.RandomState(random_seed)  # the same nodes as DGL's for a seed
    shuffled = draw.permutation(number)
    ranked = shuffled[np.argsort(values[shuffled])]
    within = sizes[:3].sum()
    ranked[:within] = draw.permutation(ranked[:within])
    masks = {}
    for name, part in zip(_MASKS, np.split(ranked, np.cumsum(sizes)[:-1])):
        masks[name] = torch.zeros(number, dtype=torch.bool)
        masks[name][torch.from_numpy(part)] = True
    return masks


def add_node_property_split(
    dataset: Any,
    part_ratios: Sequence[float],
    property_name: str,
    ascending: bool = True,
    random_seed: int | None = None,
) -> None:
    """Sets the masks of :func:`mask_nodes_by_property` by a property of the structure.

    The property is ``popularity``, the PageRank; ``locality``, the PageRank personalised to the
    node of the highest one; or ``density``, the local clustering coefficient; of the graph without
    directions and parallel edges, by networkx.

    Args:
        dataset: graphs, whose node features the masks become.
        part_ratios: as for :func:`mask_nodes_by_property`.
        property_name: one of the three.
        ascending: whether nodes of small values are those outside the distribution.
        random_seed: as for :func:`mask_nodes_by_property`.

    Raises:
        SmexImportError: networkx is not installed.
        SmexValueError: as for :func:`mask_nodes_by_property`, or the property is another.

    Example:
        >>> graphs = [sg.rand_graph(10, 40)]
        >>> sg.data.utils.add_node_property_split(graphs, [0.4, 0.1, 0.1, 0.2, 0.2], "density")
        >>> graphs[0].ndata["in_train_mask"].sum()
        tensor(4)
    """
    if property_name not in PROPERTIES:
        raise SmexValueError(
            f"add_node_property_split: expected property_name among {quoted(PROPERTIES)}, found "
            f"{property_name!r}"
        )
    for index in range(len(dataset)):
        g = dataset[index]
        values = _property(g, property_name)
        masks = mask_nodes_by_property(-values if ascending else values, part_ratios, random_seed)
        for name, mask in masks.items():
            g.ndata[name] = mask.to(g.device)


def _property(g: Graph, name: str) -> np.ndarray:
    networkx = optional("add_node_property_split", "networkx")
    simple = networkx.Graph(g.to_networkx())
    if name == "density":
        by_node = networkx.clustering(simple)
    else:
        by_node = networkx.pagerank(simple)
        if name == "locality":
            first = max(by_node, key=by_node.__getitem__)
            by_node = networkx.pagerank(simple, personalization={first: 1.0})
    return np.array([by_node[node] for node in range(g.num_nodes())])
