"""The structure as matrices, and the graph of types."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from smex.errors import SmexImportError, SmexValueError
from smex.graph.core.graph_core import GraphCore
from smex.graph.words import CanonicalType, EdgeType


class AdjacencyMixin(GraphCore):
    """Matrices of :class:`smex.graph.Graph`; rows are source nodes, columns destination nodes."""

    def adj_external(
        self,
        transpose: bool = False,
        ctx: torch.device | str = "cpu",
        scipy_fmt: str | None = None,
        etype: EdgeType = None,
    ) -> Any:
        """Returns the adjacency matrix as a torch sparse COO tensor or a SciPy matrix.

        Args:
            transpose: rows are destination nodes.
            ctx: device of the tensor.
            scipy_fmt: "coo" or "csr" for a SciPy matrix.
            etype: the edge type, where there are several.

        Raises:
            SmexValueError: another SciPy format.
            SmexImportError: SciPy is not installed.

        Example:
            >>> sg.graph(([0, 1], [1, 2])).adj_external(transpose=True).to_dense()
            tensor([[0., 0., 0.],
                    [1., 0., 0.],
                    [0., 1., 0.]])
        """
        canonical = self.to_canonical_etype(etype)
        if scipy_fmt is None:
            return self._coo_tensor(canonical, transpose, torch.device(ctx))
        return self._scipy_matrix(canonical, transpose, scipy_fmt)

    def adj_tensors(self, fmt: str, etype: EdgeType = None) -> tuple[Tensor, ...]:
        """Returns the tensors of a sparse format.

        They are the graph's own and must not be changed in place: formats that were made before
        would not follow, and ids that do not exist are not found before kernels read beyond the
        features.

        Args:
            fmt: "coo" for (sources, destinations); "csr" or "csc" for (indptr, indices, edge ids).
            etype: the edge type, where there are several.

        Raises:
            SmexValueError: the format is unknown.

        Example:
            >>> sg.graph(([1, 0], [0, 1])).adj_tensors("csc")
            (tensor([0, 1, 2]), tensor([1, 0]), tensor([0, 1]))
        """
        relation = self.relation(etype)
        if fmt == "coo":
            return relation.coo()
        if fmt not in ("csr", "csc"):
            raise SmexValueError(
                f'adj_tensors: expected the format "coo", "csr" or "csc", found {fmt!r}'
            )
        form = relation.csr() if fmt == "csr" else relation.csc()
        return form.indptr, form.indices, form.edge_ids()

    def inc(self, typestr: str, ctx: torch.device | str = "cpu", etype: EdgeType = None) -> Tensor:
        """Returns the incidence matrix as a sparse COO tensor: rows are nodes, columns edges.

        Args:
            typestr: "in" has 1 where a node is an edge's destination, "out" where it is its source,
                "both" has 1 for the destination, -1 for the source and 0 for a self loop.
            ctx: device of the tensor.
            etype: the edge type, where there are several.

        Raises:
            SmexValueError: another ``typestr``, or "both" where the ends of edges are of two types.

        Example:
            >>> sg.graph(([0, 1], [1, 2])).inc("both").to_dense()
            tensor([[-1.,  0.],
                    [ 1., -1.],
                    [ 0.,  1.]])
        """
        canonical = self.to_canonical_etype(etype)
        if typestr not in ("in", "out", "both"):
            raise SmexValueError(f'inc: expected "in", "out" or "both", found {typestr!r}')
        relation = self._relations[canonical]
        src, dst = relation.coo()
        eids = torch.arange(relation.num_edges, dtype=src.dtype, device=src.device)
        if typestr == "both":
            return self._signed_incidence(canonical, src, dst, eids).to(ctx)
        nodes = dst if typestr == "in" else src
        size = relation.num_dst if typestr == "in" else relation.num_src
        values = torch.ones(relation.num_edges, device=src.device)
        return _sparse(nodes, eids, values, (size, relation.num_edges)).to(ctx)

    incidence_matrix = inc

    def _signed_incidence(
        self, canonical: CanonicalType, src: Tensor, dst: Tensor, eids: Tensor
    ) -> Tensor:
        if canonical[0] != canonical[2] or self._is_block:
            raise SmexValueError(
                f'inc: "both" needs sources and destinations of one type, found {canonical!r}; '
                'use "in" or "out"'
            )
        keep = src != dst
        src, dst, eids = src[keep], dst[keep], eids[keep]
        ones = torch.ones(src.shape[0], device=src.device)
        relation = self._relations[canonical]
        return _sparse(
            torch.cat([src, dst]),
            torch.cat([eids, eids]),
            torch.cat([-ones, ones]),
            (relation.num_dst, relation.num_edges),
        )

    def _coo_tensor(
        self,
        canonical: CanonicalType,
        transpose: bool,
        device: torch.device,
    ) -> Tensor:
        relation = self._relations[canonical]
        rows, columns = relation.coo()
        size = (relation.num_src, relation.num_dst)
        if transpose:
            rows, columns, size = columns, rows, (size[1], size[0])
        values = torch.ones(relation.num_edges, device=rows.device)
        return _sparse(rows, columns, values, size, _are_ordered(rows, columns)).to(device)

    def _scipy_matrix(self, canonical: CanonicalType, transpose: bool, fmt: str) -> Any:
        try:
            from scipy import sparse
        except ImportError as error:
            raise SmexImportError(
                "adj_external: scipy_fmt needs SciPy, which is not installed; pip install scipy"
            ) from error
        relation = self._relations[canonical]
        relation = relation.reverse() if transpose else relation
        shape = (relation.num_src, relation.num_dst)
        if fmt == "csr":
            rows = relation.csr()
            ones = torch.ones(relation.num_edges, dtype=relation.idtype).numpy()
            parts = (ones, rows.indices.cpu().numpy(), rows.indptr.cpu().numpy())
            return sparse.csr_matrix(parts, shape=shape)
        if fmt == "coo":
            ends = tuple(end.cpu().numpy() for end in relation.coo())
            ones = torch.ones(relation.num_edges, dtype=relation.idtype).numpy()
            return sparse.coo_matrix((ones, ends), shape=shape)
        raise SmexValueError(f'adj_external: expected scipy_fmt "coo" or "csr", found {fmt!r}')

    def metagraph(self) -> Any:
        """Returns the graph of types as a ``networkx.MultiDiGraph``.

        Keys of its edges are edge types.

        Raises:
            SmexImportError: networkx is not installed.

        Example:
            >>> g = sg.heterograph({("user", "plays", "game"): ([0], [0])})
            >>> list(g.metagraph().edges(keys=True))
            [('user', 'game', 'plays')]
        """
        try:
            import networkx
        except ImportError as error:
            raise SmexImportError(
                "metagraph: networkx is not installed; pip install networkx"
            ) from error
        graph = networkx.MultiDiGraph()
        for src, name, dst in self._relations:
            graph.add_edge(src, dst, name)
        return graph


def _sparse(
    rows: Tensor,
    columns: Tensor,
    values: Tensor,
    size: tuple[int, int],
    coalesced: bool | None = None,
) -> Tensor:
    return torch.sparse_coo_tensor(
        torch.stack([rows, columns]), values, size, check_invariants=False, is_coalesced=coalesced
    )


def _are_ordered(rows: Tensor, columns: Tensor) -> bool:
    """Returns whether entries ascend by row, then column, and none is at the place of another."""
    further = (rows[1:] == rows[:-1]) & (columns[1:] > columns[:-1])
    return bool(((rows[1:] > rows[:-1]) | further).all())
