"""Layers for graphs of several types: one module for each type."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from smex.errors import SmexTypeError, SmexValueError
from smex.graph.graph import Graph
from smex.graph.messages.cross_types import CROSS_REDUCERS
from smex.graph.nn.inputs import check_graph
from smex.graph.ops.spmm import merge_relations
from smex.graph.utils import expand_as_pair
from smex.graph.words import describe, is_dict, named, quoted


class HeteroGraphConv(nn.Module):
    r"""A layer for each edge type, and the reduction of what nodes get through several of them.

    .. math:: h_v' = aggregate_{r} (f_r(g_r, h_u, h_v))

    Layers that refuse nodes without in-edges are told that they are fine, since a node need not
    have edges of every type.

    Args:
        mods: the layers by edge type, a name or a triple (source, edge, destination type).
        aggregate: ``sum``, ``max``, ``min``, ``mean``, ``stack`` (which adds dimension 1, in the
            order of edge types), or a function of the list of tensors and the node type.

    Raises:
        SmexTypeError: in :meth:`forward` features that are no dict.
        SmexValueError: an unknown ``aggregate``; in :meth:`forward` an edge type without a layer,
            or without features of its destinations.

    Example:
        >>> g = sg.heterograph({("a", "x", "b"): ([0], [0]), ("b", "y", "b"): ([0], [1])})
        >>> conv = sg.nn.HeteroGraphConv({e: sg.nn.SAGEConv(4, 2, "mean") for e in "xy"})
        >>> conv(g, {"a": torch.ones(1, 4), "b": torch.ones(2, 4)})["b"].shape
        torch.Size([2, 2])
    """

    def __init__(
        self,
        mods: Mapping[Any, nn.Module],
        aggregate: str | Callable[[list[Tensor], str], Tensor] = "sum",
    ):
        super().__init__()
        if not callable(aggregate) and aggregate not in CROSS_REDUCERS:
            raise SmexValueError(
                f"HeteroGraphConv: aggregate must be a function or one of "
                f"{', '.join(CROSS_REDUCERS)}, found {aggregate!r}"
            )
        self.mods = nn.ModuleDict({str(etype): module for etype, module in mods.items()})
        self.aggregate: Any = aggregate
        for module in mods.values():
            allow = getattr(module, "set_allow_zero_in_degree", None)
            if callable(allow):
                allow(True)

    def forward(
        self,
        g: Graph,
        inputs: Any,
        mod_args: Mapping[str, tuple[Any, ...]] | None = None,
        mod_kwargs: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> dict[str, Tensor]:
        """Returns the new features of each type of destinations that gets any.

        Args:
            g: a graph.
            inputs: features by node type, or a pair of such dicts for sources and destinations.
                Edge types of whose sources there are none take no part; nor, in a block or with a
                pair, those of whose destinations there are none, which is an error otherwise.
            mod_args: more arguments of the layers by the edge types' names.
            mod_kwargs: more arguments of the layers by name, likewise.
        """
        check_graph("HeteroGraphConv", g)
        sources, destinations = self._inputs(g, inputs)
        found: dict[str, list[Tensor]] = {}
        for canonical in g.canonical_etypes:
            source_type, etype, destination_type = canonical
            if source_type not in sources:
                continue
            if destination_type not in destinations:
                if sources is destinations:
                    raise SmexValueError(
                        f"HeteroGraphConv: there are no features of {named(destination_type)}, "
                        f"where edges of type {canonical!r} end; pass them too, or a pair of dicts "
                        "for sources and destinations"
                    )
                continue
            pair = (sources[source_type], destinations[destination_type])
            args = (mod_args or {}).get(etype, ())
            kwargs = (mod_kwargs or {}).get(etype, {})
            result = self._module(canonical)(g[canonical], pair, *args, **kwargs)
            found.setdefault(destination_type, []).append(result)
        return {t: self._reduce(found[t], t) for t in g.dsttypes if t in found}

    def _inputs(self, g: Graph, inputs: Any) -> tuple[Mapping[str, Tensor], Mapping[str, Tensor]]:
        """Features of sources and of destinations by type."""
        for part in inputs if isinstance(inputs, tuple) else (inputs,):
            if not is_dict(part):
                raise SmexTypeError(
                    "HeteroGraphConv: expected a dict from node type to features, found "
                    f"{describe(part)}; types are {quoted(g.ntypes)}"
                )
        return expand_as_pair(inputs, g)

    def _module(self, canonical: tuple[str, str, str]) -> nn.Module:
        for key in (str(canonical), canonical[1]):
            if key in self.mods:
                return self.mods[key]
        names = ", ".join(named(key) for key in self.mods)
        raise SmexValueError(
            f"HeteroGraphConv: no layer for edges of type {canonical!r}; there are layers for "
            f"{names or 'none'}"
        )

    def _reduce(self, parts: list[Tensor], ntype: str) -> Tensor:
        if callable(self.aggregate):
            return self.aggregate(parts, ntype)
        if self.aggregate == "stack":
            return torch.stack(parts, 1)
        if self.aggregate == "mean":
            return torch.stack(parts).mean(0)
        return merge_relations(parts, self.aggregate)


class HeteroLinear(nn.Module):
    r"""A linear layer for each type, :math:`y_t = x_t W_t^T + b_t`.

    Args:
        in_size: features of an input row by type: of nodes, or of edges.
        out_size: features of an output row.
        bias: whether there are biases.

    Raises:
        SmexValueError: in :meth:`forward` a type without a layer.

    Example:
        >>> layer = sg.nn.HeteroLinear({"user": 4, ("user", "plays", "game"): 3}, 2)
        >>> layer({"user": torch.ones(5, 4)})["user"].shape
        torch.Size([5, 2])
    """

    def __init__(self, in_size: Mapping[Any, int], out_size: int, bias: bool = True):
        super().__init__()
        self.linears = nn.ModuleDict(
            {str(key): nn.Linear(size, out_size, bias=bias) for key, size in in_size.items()}
        )

    def forward(self, feat: Mapping[Any, Tensor]) -> dict[Any, Tensor]:
        """Returns the products ``[num_rows, out_size]`` by type.

        Args:
            feat: ``[num_rows, in_size]`` by type.
        """
        return {key: _of_type("HeteroLinear", self.linears, key)(x) for key, x in feat.items()}


class HeteroEmbedding(nn.Module):
    """A table of embeddings for each type.

    Args:
        num_embeddings: numbers of embeddings by type: of nodes, or of edges.
        embedding_dim: features of an embedding.

    Raises:
        SmexValueError: in :meth:`forward` a type without a table.

    Example:
        >>> layer = sg.nn.HeteroEmbedding({"user": 5, "game": 3}, 2)
        >>> layer({"game": torch.tensor([0, 2])})["game"].shape
        torch.Size([2, 2])
    """

    def __init__(self, num_embeddings: Mapping[Any, int], embedding_dim: int):
        super().__init__()
        self.embeds = nn.ModuleDict(
            {str(key): nn.Embedding(size, embedding_dim) for key, size in num_embeddings.items()}
        )
        self._keys = list(num_embeddings)

    @property
    def weight(self) -> dict[Any, Tensor]:
        """The tables by type."""
        tables: dict[Any, Any] = {key: self.embeds[str(key)] for key in self._keys}
        return {key: table.weight for key, table in tables.items()}

    def reset_parameters(self) -> None:
        """Normal embeddings."""
        for table in self.weight.values():
            nn.init.normal_(table)

    def forward(self, input_ids: Mapping[Any, Tensor]) -> dict[Any, Tensor]:
        """Returns the embeddings ``[num_ids, embedding_dim]`` by type.

        Args:
            input_ids: ids ``[num_ids]`` by type.
        """
        tables = self.embeds
        return {k: _of_type("HeteroEmbedding", tables, k)(ids) for k, ids in input_ids.items()}


def _of_type(layer: str, modules: nn.ModuleDict, key: Any) -> nn.Module:
    if str(key) not in modules:
        names = ", ".join(named(name) for name in modules)
        raise SmexValueError(f"{layer}: unknown type {key!r}; types are {names}")
    return modules[str(key)]
