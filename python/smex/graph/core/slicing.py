"""Parts of a graph by type: ``g["etype"]`` and the subgraphs of node or edge types."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor

from smex.errors import SmexTypeError, SmexValueError
from smex.graph.constants import NID, NTYPE
from smex.graph.core.graph_core import NodeSlot
from smex.graph.core.placement import PlacementMixin
from smex.graph.features.frame import Frame
from smex.graph.structure.relation import Relation
from smex.graph.words import CanonicalType, EdgeType, quoted
from smex.text import near_words

if TYPE_CHECKING:
    from typing_extensions import Self


class SlicingMixin(PlacementMixin):
    """Selection of types of :class:`smex.graph.Graph`."""

    def __getitem__(self, key: Any) -> Self:
        """Returns the part of the graph that some edge types make up.

        Args:
            key: an edge type, or (source type, edge type, destination type) with ``:`` in the place
                of what may be anything.

        Returns:
            For one matching edge type, its graph; setting a feature there sets it here. For
            several, one graph of one edge type that joins them: types are joined by ``+``, and
            features "_TYPE" and "_ID" name where nodes and edges come from.

        Raises:
            SmexTypeError: the key is a number or something else that is no edge type.
            SmexValueError: no edge type matches, or the key has another form.

        Example:
            >>> g = sg.heterograph(
            ...     {("a", "x", "b"): ([0], [1]), ("a", "y", "a"): ([0, 1], [1, 1])}
            ... )
            >>> g["y"].num_edges()
            2
        """
        if not isinstance(key, (str, tuple, slice)):
            raise SmexTypeError(
                f"g[key]: expected an edge type, found {type(key).__name__}; node ids are "
                "g.nodes(), and g.subgraph(ids) is a part of the graph"
            )
        matching = self._matching(key)
        if not matching:
            near = near_words(key, self._etype_of_name)
            raise SmexValueError(
                f"g[{_shown(key)}]: no edge type matches; the graph has "
                f"{quoted(self._relations)}{near}"
            )
        if len(matching) == 1:
            src, _, dst = matching[0]
            return self._only(matching, list(dict.fromkeys((src, dst))))
        return self._joined(matching)

    # Without these, Python would ask for g[0], g[1], ... to iterate over a graph.
    __iter__: ClassVar[None] = None
    __contains__: ClassVar[None] = None

    def edge_type_subgraph(
        self, etypes: str | Iterable[EdgeType], output_device: torch.device | str | None = None
    ) -> Self:
        """The graph of some edge types, in the given order, and the node types that they join.

        Features are shared as in ``g[etype]``.

        Args:
            etypes: names or canonical types.
            output_device: device of the result; that of the graph by default.

        Raises:
            SmexValueError: an edge type does not exist, or none is given.
        """
        names: list[EdgeType] = (
            [etypes] if isinstance(etypes, str) or etypes in list(self._relations) else list(etypes)
        )
        chosen = list(dict.fromkeys(self.to_canonical_etype(etype) for etype in names))
        if not chosen:
            raise SmexValueError(
                "edge_type_subgraph: expected at least one edge type, found none; the graph has "
                f"{quoted(self._relations)}"
            )
        return self._only(chosen).to(output_device)

    def node_type_subgraph(
        self, ntypes: str | Iterable[str], output_device: torch.device | str | None = None
    ) -> Self:
        """Returns the graph of the edge types that join some node types to each other.

        Features are shared as in ``g[etype]``.

        Args:
            ntypes: names of node types.
            output_device: device of the result; that of the graph by default.

        Raises:
            SmexValueError: a node type does not exist, or no edge type joins them.
        """
        names = [ntypes] if isinstance(ntypes, str) else list(ntypes)
        chosen = {self._node_slot(ntype).ntype for ntype in names}
        joined = [c for c in self._relations if c[0] in chosen and c[2] in chosen]
        if not joined:
            raise SmexValueError(
                f"node_type_subgraph: no edge type joins {quoted(names)}; the graph has "
                f"{quoted(self._relations)}"
            )
        return self._only(joined).to(output_device)

    def _matching(self, key: Any) -> list[CanonicalType]:
        everything = slice(None)
        if isinstance(key, tuple) and len(key) != 3:
            raise SmexValueError(
                f"g[{_shown(key)}]: expected g['etype'] or g['srctype', 'etype', 'dsttype'] with : "
                "for any type"
            )
        pattern = key if isinstance(key, tuple) else (everything, key, everything)
        return [
            canonical
            for canonical in self._relations
            if all(want in (everything, have) for want, have in zip(pattern, canonical))
        ]

    def _only(self, chosen: list[CanonicalType], order: list[str] | None = None) -> Self:
        """Returns the chosen edge types; frames are the same objects."""
        sources = {c[0] for c in chosen}
        destinations = {c[2] for c in chosen}
        kept = sources if self._is_block else sources | destinations
        order = order or self.ntypes
        return type(self)(
            {c: self._relations[c] for c in chosen},
            {t: self._src_num_nodes[t] for t in order if t in kept},
            {t: self._dst_num_nodes[t] for t in order if t in destinations}
            if self._is_block
            else None,
            src_frames=self._src_frames,
            dst_frames=self._dst_frames,
            edge_frames=self._edge_frames,
        )

    def _joined(self, chosen: list[CanonicalType]) -> Self:
        sources = [t for t in self._src_num_nodes if any(c[0] == t for c in chosen)]
        destinations = [t for t in self._dst_num_nodes if any(c[2] == t for c in chosen)]
        src_name, dst_name = "+".join(sorted(sources)), "+".join(sorted(destinations))
        canonical = (src_name, "+".join(sorted(c[1] for c in chosen)), dst_name)
        src_sizes = [self._src_num_nodes[t] for t in sources]
        dst_sizes = [self._dst_num_nodes[t] for t in destinations]
        relation = self._joined_relation(chosen, sources, destinations)
        src_frame = self._joined_frame([self._src_of_type(t) for t in sources])
        dst_frame = self._joined_frame([self._dst_of_type(t) for t in destinations])
        two_sides = self._is_block or (src_name == dst_name and sources != destinations)
        frames = {src_name: src_frame, dst_name: dst_frame}
        return type(self)(
            {canonical: relation},
            {src_name: sum(src_sizes)}
            if two_sides
            else {src_name: sum(src_sizes), dst_name: sum(dst_sizes)},
            {dst_name: sum(dst_sizes)} if two_sides else None,
            src_frames={src_name: src_frame} if two_sides else frames,
            dst_frames={dst_name: dst_frame} if two_sides else None,
            edge_frames={canonical: self._joined_edge_frame(chosen)},
        )

    def _joined_relation(
        self, chosen: list[CanonicalType], sources: list[str], destinations: list[str]
    ) -> Relation:
        src_start, num_src = _starts([(t, self._src_num_nodes[t]) for t in sources])
        dst_start, num_dst = _starts([(t, self._dst_num_nodes[t]) for t in destinations])
        pairs = [self._relations[c].coo() for c in chosen]
        src = torch.cat([pair[0] + src_start[c[0]] for pair, c in zip(pairs, chosen)])
        dst = torch.cat([pair[1] + dst_start[c[2]] for pair, c in zip(pairs, chosen)])
        return Relation.from_coo(src, dst, num_src, num_dst, check=False)

    def _src_of_type(self, ntype: str) -> tuple[int, Frame]:
        return self._slots().index(NodeSlot("src", ntype)), self._src_frames[ntype]

    def _dst_of_type(self, ntype: str) -> tuple[int, Frame]:
        side = "dst" if self._is_block else "src"
        return self._slots().index(NodeSlot(side, ntype)), self._dst_frames[ntype]

    def _joined_edge_frame(self, chosen: list[CanonicalType]) -> Frame:
        ids = list(self._relations)
        return self._joined_frame([(ids.index(c), self._edge_frames[c]) for c in chosen])

    def _joined_frame(self, parts: list[tuple[int, Frame]]) -> Frame:
        """Rows of the frames one after another; features that all of them have alike."""
        schemes = [frame.schemes() for _, frame in parts]
        columns: dict[str, Tensor] = {
            name: torch.cat([frame[name] for _, frame in parts])
            for name, scheme in schemes[0].items()
            if all(other.get(name) == scheme for other in schemes)
        }
        ids = [torch.arange(f.num_rows, dtype=self.idtype, device=self.device) for _, f in parts]
        columns[NTYPE] = torch.cat([torch.full_like(rows, i) for rows, (i, _) in zip(ids, parts)])
        columns[NID] = torch.cat(ids)
        return Frame(columns[NID].shape[0], columns)


def _starts(sizes: list[tuple[str, int]]) -> tuple[dict[str, int], int]:
    """Returns where the ids of each type begin when types are numbered one after another.

    Their sum.
    """
    starts, total = {}, 0
    for ntype, size in sizes:
        starts[ntype] = total
        total += size
    return starts, total


def _shown(key: Any) -> str:
    """Returns a key as it is written in brackets."""
    parts = key if isinstance(key, tuple) else (key,)
    return ", ".join(":" if part == slice(None) else repr(part) for part in parts)
