"""Neighbours drawn by their tags."""

from __future__ import annotations

from typing import Any

import torch

from smex.errors import SmexValueError
from smex.graph.features.column import MissingFeatureError
from smex.graph.graph import Graph
from smex.graph.sampling.neighbor import sample_neighbors
from smex.graph.transforms.tags import TAGS

_BIAS = "_BIAS"


def sample_neighbors_biased(
    g: Graph,
    nodes: Any,
    fanout: int,
    bias: Any,
    edge_dir: str = "in",
    tag_offset_name: str = "_TAG_OFFSET",
    replace: bool = False,
    copy_ndata: bool = True,
    copy_edata: bool = True,
    output_device: torch.device | str | None = None,
) -> Graph:
    """The graph of edges drawn for each of some nodes, with weights by the neighbours' tags.

    It is :func:`sample_neighbors` with ``prob`` the bias of each edge's tag.

    Args:
        g: a graph that :func:`smex.graph.sort_csc_by_tag` made, for ``"out"``
            :func:`smex.graph.sort_csr_by_tag`.
        nodes: node ids, or a bool mask.
        fanout: how many edges are drawn for a node, -1 for all of them.
        bias: ``[tags]``, weights of at least 0; they need no normalisation.
        edge_dir: ``"in"``: edges into the nodes, ``"out"``: out of them.
        tag_offset_name: the feature that tells how many tags there are.
        replace: whether an edge may be drawn more than once.
        copy_ndata: whether the result has the node features.
        copy_edata: whether the result has the edge features.
        output_device: device of the result; that of the graph by default.

    Returns:
        A graph with all nodes of `g` and the drawn edges; edge feature ``EID`` has their ids.

    Raises:
        SmexValueError: there are not as many weights as tags, or as for :func:`sample_neighbors`.
        MissingFeatureError: the graph has no tags for this direction.

    Example:
        >>> import smex.graph as sg
        >>> g = sg.sort_csc_by_tag(sg.graph(([0, 1, 2], [3, 3, 3])), torch.tensor([0, 1, 1, 0]))
        >>> s = sg.sampling.sample_neighbors_biased(g, [3], 2, torch.tensor([0.0, 1.0]))
        >>> sorted(s.edata[sg.EID].tolist())
        [1, 2]
    """
    data = g.srcdata if edge_dir == "out" else g.dstdata
    tag = TAGS["out" if edge_dir == "out" else "in"]
    if tag_offset_name not in data or tag not in g.edata:
        made_by = "sort_csr_by_tag" if edge_dir == "out" else "sort_csc_by_tag"
        raise MissingFeatureError(
            f'sample_neighbors_biased: the graph has no tags "{tag_offset_name}"; make it by '
            f"{made_by} first"
        )
    weights = torch.as_tensor(bias, dtype=torch.float32, device=g.device)
    count = data[tag_offset_name].shape[1] - 1
    if weights.shape != (count,):
        raise SmexValueError(
            f"sample_neighbors_biased: expected a bias for each of {count} tags, found shape "
            f"{list(weights.shape)}"
        )
    with g.local_scope():
        g.edata[_BIAS] = weights[g.edata[tag]]
        drawn = sample_neighbors(
            g,
            nodes,
            fanout,
            edge_dir,
            prob=_BIAS,
            replace=replace,
            copy_ndata=copy_ndata,
            copy_edata=copy_edata,
            output_device=output_device,
        )
    drawn.edata.pop(_BIAS, None)
    return drawn
