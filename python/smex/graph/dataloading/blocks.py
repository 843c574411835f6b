"""Blocks straight from what was drawn, without the graph between them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from smex.errors import SmexValueError
from smex.graph.constants import EID, NID
from smex.graph.graph import Graph
from smex.graph.parts.selection import nodes_by_type
from smex.graph.sampling.arguments import Neighbors, check_graph
from smex.graph.structure.formats import Structure
from smex.graph.structure.relation import Compressed, Relation, unique_and_relabel
from smex.graph.words import CanonicalType

__all__ = ["SampleBlock", "block_of_drawn", "one_or_all", "sample_layers"]

SampleBlock = Callable[[CanonicalType, Compressed, Tensor], "Neighbors | None"]
"""Draws edges into nodes: of an edge type, whose edges are given by destination."""


def block_of_drawn(g: Graph, seeds: Mapping[str, Tensor], draw: SampleBlock) -> Graph:
    """Returns the block whose destinations are `seeds`, of each node type.

    Its sources are the destinations, then other nodes in the order of their first appearance. Edges
    stand by destination. ``NID`` and ``EID`` hold the ids in `g`.

    Raises:
        SmexValueError: a seed is given twice.
    """
    none = torch.empty(0, dtype=g.idtype)
    drawn: dict[CanonicalType, Neighbors] = {}
    for canonical, relation in g._relations.items():
        chosen = seeds[canonical[2]]
        found = draw(canonical, relation.csc(), chosen) if chosen.shape[0] else None
        if found is None:
            found = Neighbors(torch.zeros(chosen.shape[0] + 1, dtype=g.idtype), none, none)
        drawn[canonical] = found
    kept: dict[str, Tensor] = {}
    numbers: dict[CanonicalType, Tensor] = {}
    for ntype in g.ntypes:
        mine = [canonical for canonical in drawn if canonical[0] == ntype]
        lists = [seeds[ntype], *(drawn[canonical].ends for canonical in mine)]
        kept[ntype], (own, *others) = unique_and_relabel(lists, None, g.num_nodes(ntype))
        if own.shape[0] and int(own[-1]) != own.shape[0] - 1:
            raise SmexValueError(
                f'sample: ids of seeds of type "{ntype}" must differ, found one twice; use '
                "torch.unique"
            )
        numbers.update(zip(mine, others))
    relations = {}
    for canonical, (offsets, _, _) in drawn.items():
        sizes = (kept[canonical[0]].shape[0], seeds[canonical[2]].shape[0])
        form = Compressed(offsets, numbers[canonical], None)
        relations[canonical] = Relation(Structure(sizes, by_destination=form))
    return Graph(
        relations,
        {t: ids.shape[0] for t, ids in kept.items()},
        {t: ids.shape[0] for t, ids in seeds.items()},
        src_frames={t: g._src_frames[t].part(ids, NID) for t, ids in kept.items()},
        dst_frames={t: g._src_frames[t].part(ids, NID) for t, ids in seeds.items()},
        edge_frames={c: g._edge_frames[c].part(drawn[c].eids, EID) for c in drawn},
        idtype=g.idtype,
        device=g.device,
    )


def one_or_all(by_type: Mapping[str, Tensor]) -> Any:
    """Returns the ids of the only type, or all of them."""
    return dict(by_type) if len(by_type) > 1 else next(iter(by_type.values()))


def sample_layers(
    op: str,
    g: Graph,
    seed_nodes: Any,
    num_layers: int,
    draw_of_layer: Callable[[int], SampleBlock],
    output_device: torch.device | str | None,
) -> tuple[Any, Any, list[Graph]]:
    """Blocks from the last layer to the first; the sources of one are the seeds of the next.

    Returns:
        ``(input_nodes, output_nodes, blocks)``.
    """
    check_graph(op, g)
    given = nodes_by_type(op, g, seed_nodes)
    none = torch.empty(0, dtype=g.idtype)
    seeds = {ntype: given.get(ntype, none) for ntype in g.ntypes}
    blocks: list[Graph] = []
    for layer in reversed(range(num_layers)):
        block = block_of_drawn(g, seeds, draw_of_layer(layer))
        seeds = {ntype: frame[NID] for ntype, frame in block._src_frames.items()}
        blocks.insert(0, block.to(output_device))
    input_nodes = {ntype: ids.to(output_device) for ntype, ids in seeds.items()}
    outputs = dict(given) if isinstance(seed_nodes, Mapping) else one_or_all(given)
    return one_or_all(input_nodes), outputs, blocks
