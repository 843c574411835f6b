"""Subgraphs of a partition's parts."""

from __future__ import annotations

import os
from typing import Any

import torch
from torch import Tensor

from smex.errors import SmexValueError
from smex.graph.dataloading.base import (
    Sampler,
    prefetch_edge_features,
    prefetch_node_features,
)
from smex.graph.graph import Graph
from smex.graph.parts.selection import check_one_type
from smex.graph.parts.subgraph import node_subgraph
from smex.graph.transforms.partition import metis_partition_assignment

__all__ = ["ClusterGCNSampler"]


class ClusterGCNSampler(Sampler):
    """The subgraph of some parts of a partition; indices are numbers of parts.

    Chiang et al., "Cluster-GCN: An Efficient Algorithm for Training Deep and Large Graph
    Convolutional Networks" (2019), §3.2. Parts are those of
    :func:`smex.graph.metis_partition_assignment`.

    Args:
        g: a graph of one node type and one edge type.
        k: number of parts.
        cache_path: file that keeps the partition for the next time, written by ``torch.save``; an
            empty path keeps none.
        balance_ntypes: as for ``metis_partition_assignment``.
        balance_edges: as for ``metis_partition_assignment``.
        mode: as for ``metis_partition_assignment``.
        prefetch_ndata: names of node features that the loader gathers.
        prefetch_edata: names of edge features that the loader gathers.
        output_device: device of the subgraphs; that of the graph by default.

    Raises:
        SmexImportError: the package pymetis is not installed.
        SmexTypeError: the graph has several types.
        SmexValueError: as for ``metis_partition_assignment``; there are fewer nodes than parts; the
            file is of another graph or `k`.

    Example:
        >>> import smex.graph as sg
        >>> ring = sg.graph((torch.arange(12), torch.arange(1, 13) % 12))
        >>> sampler = sg.dataloading.ClusterGCNSampler(ring, 3, cache_path="")
        >>> loader = sg.dataloading.DataLoader(ring, torch.arange(3), sampler)
        >>> sum(subgraph.num_nodes() for subgraph in loader)
        12
    """

    def __init__(
        self,
        g: Graph,
        k: int,
        cache_path: str | os.PathLike[str] = "cluster_gcn.pkl",
        balance_ntypes: Tensor | None = None,
        balance_edges: bool = False,
        mode: str = "k-way",
        prefetch_ndata: Any = None,
        prefetch_edata: Any = None,
        output_device: torch.device | str | None = None,
    ):
        op = "ClusterGCNSampler"
        check_one_type(op, g)
        if k > g.num_nodes():
            raise SmexValueError(
                f"{op}: expected k of at most the number of nodes, {g.num_nodes()}, found {k}"
            )
        facts = {"num_nodes": g.num_nodes(), "num_edges": g.num_edges(), "k": k}
        if cache_path and os.path.exists(cache_path):
            content = torch.load(cache_path, weights_only=True)
            if not isinstance(content, dict) or content.get("facts") != facts:
                raise SmexValueError(
                    f"{op}: {os.fspath(cache_path)!r} holds no partition of this graph in {k} "
                    "parts; remove it, or give another cache_path"
                )
            parts = content["parts"]
        else:
            parts = metis_partition_assignment(g, k, balance_ntypes, balance_edges, mode)
            if cache_path:
                torch.save({"facts": facts, "parts": parts}, cache_path)
        self.k = k
        self._order = torch.argsort(parts, stable=True).to(g.idtype)
        counts = torch.bincount(parts, minlength=k)
        self._ends = torch.cumsum(counts, 0)
        self._begins = self._ends - counts
        self.prefetch_ndata = prefetch_ndata
        self.prefetch_edata = prefetch_edata
        self.output_device = output_device

    def sample(self, g: Graph, partition_ids: Any) -> Graph:
        """Returns the subgraph of the nodes of some parts, with ``NID`` and ``EID``."""
        numbers = [int(number) for number in partition_ids]
        wrong = [number for number in numbers if not 0 <= number < self.k]
        if wrong or len(set(numbers)) != len(numbers):
            raise SmexValueError(
                f"ClusterGCNSampler: expected different numbers of parts below {self.k}, found "
                f"{wrong or numbers}"
            )
        nodes = [self._order[self._begins[n] : self._ends[n]] for n in numbers]
        part = node_subgraph(g, torch.cat(nodes).to(g.device)).to(self.output_device)
        prefetch_node_features(part, self.prefetch_ndata)
        prefetch_edge_features(part, self.prefetch_edata)
        return part
