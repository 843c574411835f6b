"""What the stages of a pipeline have in common: types of edges as text, and edges by column."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from torch import Tensor

from smex.errors import SmexTypeError, SmexValueError
from smex.graph.creation.random import seed
from smex.graph.utils import recursive_apply

__all__ = [
    "CANONICAL_ETYPE_DELIMITER",
    "ORIGINAL_EDGE_ID",
    "CSCFormatBase",
    "etype_str_to_tuple",
    "etype_tuple_to_str",
    "expand_indptr",
    "index_select",
    "isin",
    "seed",
]

CANONICAL_ETYPE_DELIMITER = ":"
ORIGINAL_EDGE_ID = "_ORIGINAL_EDGE_ID"
"""The attribute of edges that has the ids which features of edges are stored by."""


def etype_tuple_to_str(c_etype: tuple[str, str, str]) -> str:
    """Returns the text of a canonical edge type.

    Raises:
        SmexTypeError: it is no triple.

    Example:
        >>> import smex.graph.graphbolt as gb
        >>> gb.etype_tuple_to_str(("user", "likes", "item"))
        'user:likes:item'
    """
    if not isinstance(c_etype, tuple) or len(c_etype) != 3:
        raise SmexTypeError(
            "etype_tuple_to_str: expected a tuple (source type, relation, destination type), found "
            f"{c_etype!r}"
        )
    return CANONICAL_ETYPE_DELIMITER.join(c_etype)


def etype_str_to_tuple(c_etype: str | tuple[str, str, str]) -> tuple[str, str, str]:
    """Returns the canonical edge type of a text; a tuple is returned as it is.

    Raises:
        SmexValueError: it has not three parts.

    Example:
        >>> import smex.graph.graphbolt as gb
        >>> gb.etype_str_to_tuple("user:likes:item")
        ('user', 'likes', 'item')
    """
    if isinstance(c_etype, tuple):
        return c_etype
    parts = tuple(c_etype.split(CANONICAL_ETYPE_DELIMITER))
    if len(parts) != 3:
        raise SmexValueError(
            f"etype_str_to_tuple: expected 'source:relation:destination', found {c_etype!r}"
        )
    return parts


def isin(elements: Tensor, test_elements: Tensor) -> Tensor:
    """Returns for each of `elements` [n] whether it is among `test_elements` [m].

    Example:
        >>> import smex.graph.graphbolt as gb
        >>> gb.isin(torch.tensor([1, 2, 3, 4]), torch.tensor([2, 3]))
        tensor([False,  True,  True, False])
    """
    return torch.isin(elements, test_elements)


def index_select(tensor: Tensor, index: Tensor) -> Tensor:
    """Returns the rows ``tensor[index]``, where the index is or, of pinned memory, on its device.

    Example:
        >>> import smex.graph.graphbolt as gb
        >>> gb.index_select(torch.tensor([5, 6, 7]), torch.tensor([2, 0]))
        tensor([7, 5])
    """
    if index.device != tensor.device:
        return tensor.index_select(0, index.to(tensor.device)).to(index.device)
    return tensor.index_select(0, index)


def expand_indptr(
    indptr: Tensor,
    dtype: torch.dtype | None = None,
    node_ids: Tensor | None = None,
    output_size: int | None = None,
) -> Tensor:
    """Returns the column of each edge.

    Args:
        indptr: ``[num_columns + 1]``, where each column's edges begin.
        dtype: of the result; that of `node_ids` by default.
        node_ids: ``[num_columns]``, what columns are called; their numbers by default.
        output_size: number of edges, if it is known.

    Raises:
        SmexValueError: neither a dtype nor names are given.

    Example:
        >>> import smex.graph.graphbolt as gb
        >>> gb.expand_indptr(torch.tensor([0, 2, 2, 3]), torch.int64)
        tensor([0, 0, 2])
    """
    if node_ids is None:
        if dtype is None:
            raise SmexValueError("expand_indptr: expected a dtype or node_ids, found neither")
        node_ids = torch.arange(len(indptr) - 1, dtype=dtype, device=indptr.device)
    found = node_ids if dtype is None else node_ids.to(dtype)
    return found.repeat_interleave(indptr.diff().long(), output_size=output_size)


@dataclasses.dataclass
class CSCFormatBase:
    """Edges by column.

    Args:
        indptr: ``[num_columns + 1]``: the edges of column ``i`` are ``indptr[i]`` to its next.
        indices: ``[num_edges]``, their rows.

    Raises:
        SmexValueError: the last of `indptr` is not the number of edges.
    """

    indptr: Tensor
    indices: Tensor

    def __post_init__(self) -> None:
        if self.indptr.device.type == "cpu" and int(self.indptr[-1]) != len(self.indices):
            raise SmexValueError(
                f"CSCFormatBase: expected {int(self.indptr[-1])} indices, the last of indptr, "
                f"found {len(self.indices)}"
            )

    def to(self, device: torch.device | str) -> CSCFormatBase:
        """Moves both tensors, and returns the same object."""
        self.indptr, self.indices = self.indptr.to(device), self.indices.to(device)
        return self


def moved(value: Any, device: torch.device | str) -> Any:
    """Returns a value with what can be moved on a device."""
    return recursive_apply(value, lambda each: each.to(device) if hasattr(each, "to") else each)
