"""Columns: what the rows of a feature look like, whose they are, and those yet to be read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from smex.errors import SmexTypeError, SmexValueError
from smex.graph.constants import DEFAULT_ETYPE, DEFAULT_NTYPE
from smex.graph.words import counted, named


class MissingFeatureError(SmexValueError, KeyError):
    """A feature is read that was never set."""

    def __str__(self) -> str:  # KeyError would print the message's repr
        return str(self.args[0]) if self.args else ""


class Owner(NamedTuple):
    """Whose rows a frame has, as errors name them."""

    kind: str  # "node", "source node", "edge", ...
    key: Any = None  # node type or canonical edge type, where there may be several

    def __str__(self) -> str:
        return self.kind + self._of_type()

    def plural(self) -> str:
        """Returns all of them."""
        return f"{self.kind}s{self._of_type()}"

    def _of_type(self) -> str:
        if self.key in (None, DEFAULT_NTYPE, DEFAULT_ETYPE):
            return ""
        return f" of type {named(self.key)}"


class Scheme(NamedTuple):
    """What the rows of a column look like: their shape (without the number of rows) and dtype."""

    shape: tuple[int, ...]
    dtype: torch.dtype

    @classmethod
    def _reconstruct_scheme(cls, shape: tuple[int, ...], dtype: str) -> Scheme:
        """What pickles of DGL call."""
        return cls(tuple(shape), getattr(torch, dtype))


class Column:
    """A feature in a graph that DGL has pickled."""

    storage: Tensor | None = None


_LARGE = 1 << 20  # bytes of rows whose memory is worth keeping


def rows_of(column: Tensor, rows: Tensor) -> Tensor:
    """Returns ``column[rows]``: many rows on the CPU in memory that earlier ones have left."""
    if torch.compiler.is_compiling():
        return column.index_select(0, rows)
    is_plain = (
        type(column) is Tensor
        and type(rows) is Tensor
        and column.device.type == "cpu"
        and not (column.requires_grad and torch.is_grad_enabled())
        and column.layout is torch.strided
        and column.is_contiguous()
        and not (column.is_conj() or column.is_neg())
        and rows.dtype is torch.int64
    )
    if not is_plain or rows.shape[0] * column[:1].nbytes < _LARGE:
        return column.index_select(0, rows)
    starts = torch.tensor([0, column.shape[0]], device="cpu")
    return torch.ops.smex.gather_rows([column], starts, rows)[0]


class Pending:
    """A column that is gathered, and copied to another device, when it is first read.

    Sampled subgraphs inherit every feature of the graph that they are cut from and use few of them.
    """

    def __init__(
        self,
        source: Tensor,
        rows: Tensor | None = None,
        device: torch.device | None = None,
        prefetch: bool = False,
    ) -> None:
        self.source = source
        self.rows = rows
        self.device = source.device if device is None else device
        self.prefetch = prefetch

    @property
    def scheme(self) -> Scheme:
        """Shape of a row and dtype, without reading the column."""
        return Scheme(tuple(self.source.shape[1:]), self.source.dtype)

    def select(self, rows: Tensor) -> Pending:
        """Rows of this column, still pending."""
        if self.rows is None:
            return Pending(self.source, rows, self.device)
        kept = rows.to(self.rows.device)
        return Pending(self.source, self.rows.index_select(0, kept), self.device)

    def to(self, device: torch.device) -> Pending:
        """This column on another device, still pending."""
        return Pending(self.source, self.rows, device, self.prefetch)

    def read(self, **kwargs: Any) -> Tensor:
        """Returns the rows of the source, on the column's device."""
        column = self.source
        if self.rows is not None:
            column = rows_of(column, self.rows.to(column.device))
        return column.to(self.device, **kwargs)

    def may_be_kept(self) -> bool:
        """Returns whether what is read now serves later readers too.

        Under no_grad a gradient is lost.
        """
        return torch.is_grad_enabled() or not self.source.requires_grad


class LazyFeature:
    """Stands for a feature that a loader gathers, in what a sampler returns.

    Assigned to a feature of a sampled graph, it becomes rows of a feature of the graph that was
    sampled from, when the loader hands the batch out.

    Args:
        name: of that feature; by default that of the feature that it is assigned to.
        id_: ids of the rows; by default the sampled graph's ``NID`` or ``EID``.

    Example:
        >>> class InSubgraph(sg.dataloading.Sampler):
        ...     def sample(self, g, indices):
        ...         part = sg.in_subgraph(g, indices, relabel_nodes=True)
        ...         part.ndata["h"] = sg.LazyFeature("x")
        ...         return part
        >>> g = sg.graph(([0, 1, 2], [1, 2, 0]))
        >>> g.ndata["x"] = torch.arange(3.0)
        >>> (batch,) = sg.dataloading.DataLoader(g, [2], InSubgraph())
        >>> batch.ndata["h"]
        tensor([1., 2.])
    """

    __slots__ = ("id_", "name")

    def __init__(self, name: str | None = None, id_: Tensor | None = None):
        self.name, self.id_ = name, id_

    def to(self, *args: Any, **kwargs: Any) -> LazyFeature:
        """Returns itself: it has no device."""
        return self

    def select(self, rows: Tensor) -> LazyFeature:
        """Returns what stands for some of the rows."""
        return LazyFeature(self.name, None if self.id_ is None else self.id_[rows])

    def of(self, name: str, ids: Tensor | None, columns: Mapping[str, Any]) -> Pending:
        """Returns the column that it stands for.

        Args:
            name: of the feature that it is assigned to.
            ids: of the rows, where it has none.
            columns: of the graph that was sampled from.

        Raises:
            SmexValueError: there are no ids, or no such feature.
        """
        wanted = self.name or name
        rows = ids if self.id_ is None else self.id_
        if rows is None:
            raise SmexValueError(
                f"LazyFeature {named(wanted)}: expected ids, found none; the sampled graph has "
                "neither NID nor EID, pass LazyFeature(name, ids)"
            )
        if wanted not in columns:
            raise SmexValueError(
                f"LazyFeature {named(wanted)}: the graph that was sampled from has no such "
                f"feature, found {list(columns)}"
            )
        source = columns[wanted]
        if isinstance(source, Pending):
            taken = source.select(rows)
            return Pending(taken.source, taken.rows, taken.device, prefetch=True)
        return Pending(source, rows, prefetch=True)


def check_column(
    name: object, value: object, num_rows: int, owner: object = None, function: str = ""
) -> None:
    """Raise unless ``value`` can be the rows of a column.

    Args:
        name: of the column.
        value: what is to be checked.
        num_rows: how many rows there are.
        owner: what each row is for: an Owner, or words.
        function: the kind of the function that returned it, if one did.
    """
    if isinstance(value, Mapping):
        raise SmexTypeError(
            f"feature {named(name)}: expected a tensor, found a dict; dicts from type to tensor "
            "are for graphs of several types"
        )
    if isinstance(value, LazyFeature):
        return
    origin = f" from the {function} function" if function else ""
    if not isinstance(value, Tensor):
        remedy = "leave it out" if value is None else "use torch.as_tensor"
        raise SmexTypeError(
            f"feature {named(name)}{origin}: expected a tensor, found {type(value).__name__}; "
            f"{remedy}"
        )
    if value.dim() == 0 or value.shape[0] != num_rows:
        raise SmexValueError(
            f"feature {named(name)}{origin}: expected {counted(num_rows, 'row')}, one for each "
            f"{owner or 'node or edge'}, found a tensor of shape {list(value.shape)}"
        )


def check_layout(name: object, value: Tensor) -> None:
    """Raise unless a column is made of plain numbers, as the kernels read them."""
    if isinstance(value, LazyFeature):
        return
    if value.layout != torch.strided or value.is_quantized:
        found = value.dtype if value.is_quantized else value.layout
        remedy = ".dequantize()" if value.is_quantized else ".to_dense()"
        raise SmexTypeError(
            f"feature {named(name)}: expected a dense tensor of numbers, found {found}; convert it "
            f"with {remedy}"
        )


def check_row(name: object, value: Tensor, column: Tensor) -> None:
    """Raise unless the rows of ``value`` fit into a column that exists."""
    if value.dtype != column.dtype or value.shape[1:] != column.shape[1:]:
        raise SmexTypeError(
            f"feature {named(name)}: expected rows of {column.dtype} {list(column.shape[1:])} as "
            f"the column has, found {value.dtype} {list(value.shape[1:])}; convert them, or set "
            "the whole column"
        )
