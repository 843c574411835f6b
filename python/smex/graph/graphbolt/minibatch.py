"""What is handed from stage to stage."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from smex.errors import SmexValueError
from smex.graph.constants import EID, NID
from smex.graph.creation.convert import create_block
from smex.graph.graph import Graph
from smex.graph.graphbolt.base import CSCFormatBase, etype_str_to_tuple, expand_indptr, moved
from smex.graph.graphbolt.subgraphs import SampledSubgraph
from smex.graph.packages import optional

__all__ = ["MiniBatch"]

_OF_NODES = ("labels", "sampled_subgraphs", "node_features", "edge_features")
_OF_PAIRS = ("compacted_node_pairs", "compacted_negative_srcs", "compacted_negative_dsts")


@dataclasses.dataclass(repr=False)
class MiniBatch:
    """A batch, from its seeds to features of what was sampled for them.

    Everything is a tensor, or of a graph with types a dict of tensors by type; edge types are
    texts ``"source:relation:destination"``.

    Attributes:
        seed_nodes: nodes [n] that are wanted.
        node_pairs: pairs that are wanted: sources [n] and destinations [n].
        labels: of the seeds.
        seeds: nodes [n] or pairs [n, 2] that are wanted.
        indexes: [n], which question each seed belongs to.
        negative_srcs: [n, k], other sources for each pair.
        negative_dsts: [n, k], other destinations.
        sampled_subgraphs: by layer, the first computed first.
        input_nodes: whose features the first layer reads.
        node_features: by name, or by (node type, name).
        edge_features: by layer such dicts.
        compacted_node_pairs: pairs as numbers of the last layer's nodes, and so on.
        compacted_seeds: likewise.
        compacted_negative_srcs: likewise.
        compacted_negative_dsts: likewise.
    """

    seed_nodes: Any = None
    node_pairs: Any = None
    labels: Any = None
    seeds: Any = None
    indexes: Any = None
    negative_srcs: Any = None
    negative_dsts: Any = None
    sampled_subgraphs: list[SampledSubgraph] | None = None
    input_nodes: Any = None
    node_features: dict[Any, Tensor] | None = None
    edge_features: list[dict[Any, Tensor]] | None = None
    compacted_node_pairs: Any = None
    compacted_seeds: Any = None
    compacted_negative_srcs: Any = None
    compacted_negative_dsts: Any = None

    def __repr__(self) -> str:
        parts = [f"{name}={value!r}" for name, value in vars(self).items() if value is not None]
        return f"MiniBatch({', '.join(parts)})"

    def node_ids(self) -> Any:
        """The nodes whose features are read."""
        return self.input_nodes

    def num_layers(self) -> int:
        """The number of layers that were sampled."""
        return len(self.sampled_subgraphs or ())

    def edge_ids(self, layer_id: int) -> Any:
        """The ids of a layer's edges; None where the graph has none."""
        assert self.sampled_subgraphs is not None
        return self.sampled_subgraphs[layer_id].original_edge_ids

    def set_node_features(self, node_features: dict[Any, Tensor]) -> None:
        """Sets the features of nodes."""
        self.node_features = node_features

    def set_edge_features(self, edge_features: list[dict[Any, Tensor]]) -> None:
        """Sets the features of edges, by layer."""
        self.edge_features = edge_features

    @property
    def blocks(self) -> list[Graph] | None:
        """The layers as blocks; None before sampling.

        The first has the graph's ids of its sources as ``srcdata[NID]``, each has those of its
        edges, where there are any, as ``edata[EID]``.

        Raises:
            SmexValueError: a subgraph has no numbers of its own.
        """
        if not self.sampled_subgraphs:
            return None
        blocks = [_block_of(subgraph) for subgraph in self.sampled_subgraphs]
        rows = self.sampled_subgraphs[0].original_row_node_ids
        if isinstance(rows, Mapping):
            for ntype, ids in rows.items():
                blocks[0].srcnodes[ntype].data[NID] = ids
        else:
            blocks[0].srcdata[NID] = rows
        for block, subgraph in zip(blocks, self.sampled_subgraphs, strict=True):
            ids = subgraph.original_edge_ids
            if isinstance(ids, Mapping):
                for etype, of_type in ids.items():
                    block.edges[etype_str_to_tuple(etype)].data[EID] = of_type
            elif ids is not None:
                block.edata[EID] = ids
        return blocks

    @property
    def positive_node_pairs(self) -> Any:
        """The pairs, as numbers of the last layer's nodes."""
        return self.compacted_node_pairs

    @property
    def negative_node_pairs(self) -> Any:
        """Pairs [n, k] for those that are not there; None where nothing was drawn."""
        pairs = self.compacted_node_pairs
        srcs, dsts = self.compacted_negative_srcs, self.compacted_negative_dsts
        if isinstance(pairs, Mapping):
            drawn = srcs or dsts
            if not drawn:
                return None
            return {
                etype: _negatives(pairs[etype], (srcs or {}).get(etype), (dsts or {}).get(etype))
                for etype in drawn
            }
        if srcs is None and dsts is None:
            return None
        return _negatives(pairs, srcs, dsts)

    @property
    def node_pairs_with_labels(self) -> Any:
        """Pairs and their labels: those of the batch, or 1 for pairs and 0 for drawn ones.

        None where there are no pairs, or neither labels nor drawn ones.
        """
        if self.labels is not None:
            pairs = self.compacted_node_pairs
            return None if pairs is None else (pairs, self.labels)
        positive, negative = self.positive_node_pairs, self.negative_node_pairs
        if positive is None or negative is None:
            return None
        if not isinstance(positive, Mapping):
            pairs, labels = _labelled(positive, negative)
            return pairs, labels.float()
        found = {etype: _labelled(positive[etype], negative[etype]) for etype in positive}
        return ({t: pairs for t, (pairs, _) in found.items()},
                {t: labels for t, (_, labels) in found.items()})  # fmt: skip

    def to_pyg_data(self) -> Any:
        """Returns PyG's `Data` of a batch of nodes of a graph without types.

        Raises:
            SmexImportError: PyG is not installed.
            SmexValueError: there are several features, or types.
        """
        data = optional("to_pyg_data", "torch_geometric.data", "torch_geometric")
        features = self.node_features or {}
        if len(features) > 1 or isinstance(self.seed_nodes, Mapping):
            raise SmexValueError(
                "to_pyg_data: expected at most one feature of nodes of one type, found "
                f"{sorted(map(str, features))}"
            )
        ends = []
        for subgraph in self.sampled_subgraphs or ():
            csc = subgraph.sampled_csc
            assert isinstance(csc, CSCFormatBase)
            columns = expand_indptr(csc.indptr, csc.indices.dtype, output_size=len(csc.indices))
            ends.append(torch.stack((csc.indices, columns)))
        edges = torch.unique(torch.cat(ends, 1), dim=1).long() if ends else None
        return data.Data(x=next(iter(features.values()), None), edge_index=edges, y=self.labels)

    def to(self, device: torch.device | str) -> MiniBatch:
        """Moves what a training step reads, and returns the same object.

        Of a batch of nodes labels, subgraphs and features; of one of pairs also those as numbers;
        of others, and of nodes without labels, seeds too.
        """
        names: tuple[str, ...] = tuple(vars(self))
        if self.seed_nodes is not None and self.compacted_node_pairs is None:
            names = _OF_NODES if self.labels is not None else (*_OF_NODES, "seed_nodes")
        elif self.seed_nodes is None and self.compacted_node_pairs is not None:
            names = (*_OF_NODES, *_OF_PAIRS)
        for name in names:
            setattr(self, name, moved(getattr(self, name), device))
        return self


def _block_of(subgraph: SampledSubgraph) -> Graph:
    rows, columns = subgraph.original_row_node_ids, subgraph.original_column_node_ids
    if rows is None or columns is None:
        raise SmexValueError(
            "blocks: a sampled subgraph has no original_row_node_ids or original_column_node_ids; "
            "compact it first (gb.unique_and_compact_csc_formats)"
        )
    csc = subgraph.sampled_csc
    if isinstance(csc, CSCFormatBase):
        return create_block(_small(csc), num_src_nodes=len(rows), num_dst_nodes=len(columns))
    return create_block(
        {etype_str_to_tuple(etype): _small(each) for etype, each in csc.items()},
        num_src_nodes={ntype: len(ids) for ntype, ids in rows.items()},
        num_dst_nodes={ntype: len(ids) for ntype, ids in columns.items()},
    )


def _small(csc: CSCFormatBase) -> tuple[str, tuple[Tensor, Tensor, Tensor]]:
    """Returns edges with ids of 32 bits where these are enough."""
    largest = max(len(csc.indptr) - 2, len(csc.indices))
    dtype = torch.int32 if largest <= torch.iinfo(torch.int32).max else torch.int64
    ids = torch.arange(len(csc.indices), dtype=dtype, device=csc.indices.device)
    return "csc", (csc.indptr.to(dtype), csc.indices.to(dtype), ids)


def _negatives(pairs: Any, srcs: Tensor | None, dsts: Tensor | None) -> tuple[Tensor, Tensor]:
    """Returns [n, k] sources and destinations; those that were not drawn are the pairs'."""
    if srcs is None:
        assert dsts is not None
        srcs = pairs[0].unsqueeze(1).expand_as(dsts)
    if dsts is None:
        dsts = pairs[1].unsqueeze(1).expand_as(srcs)
    return srcs, dsts


def _labelled(positive: Any, negative: Any) -> tuple[tuple[Tensor, Tensor], Tensor]:
    src = torch.cat((positive[0], negative[0].reshape(-1)))
    dst = torch.cat((positive[1], negative[1].reshape(-1)))
    labels = torch.zeros_like(src)
    labels[: len(positive[0])] = 1
    return (src, dst), labels
