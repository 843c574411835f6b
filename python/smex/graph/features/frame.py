"""Frames: the features of the nodes or edges of one type, as named columns."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from smex.errors import SmexValueError
from smex.graph.features.column import (
    Column,  # noqa: F401 (the name in pickles of DGL)
    LazyFeature,
    MissingFeatureError,
    Owner,
    Pending,
    Scheme,
    check_column,
    check_layout,
    check_row,
)
from smex.graph.init import zero_initializer
from smex.graph.words import describe, named

Initializer = Callable[..., Tensor]


class Frame:
    """Named columns of ``num_rows`` rows each, and the initialisers of rows that are added.

    A frame never changes a tensor in place: writing to some of the rows replaces the column, so
    autograd and other frames that hold the same tensor are not disturbed.

    Args:
        num_rows: the number of nodes or edges.
        columns: tensors of shape ``[num_rows, ...]``.

    Attributes:
        owner: whose rows they are, where that is known.

    Example:
        >>> frame = Frame(2, {"h": torch.ones(2, 3)})
        >>> frame["h"].shape
        torch.Size([2, 3])
    """

    owner: Owner | None = None

    def __init__(self, num_rows: int, columns: Mapping[str, Tensor | Pending] | None = None):
        self.num_rows = num_rows
        self._columns: dict[str, Tensor | Pending] = dict(columns or {})
        self._initializers: dict[str, Initializer] = {}
        self._default_initializer: Initializer = zero_initializer

    # ---- a mapping of columns ----

    def __len__(self) -> int:
        return len(self._columns)

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __contains__(self, name: object) -> bool:
        return name in self._columns

    def __getitem__(self, name: str) -> Tensor:
        if name not in self._columns:
            raise self.missing(name, self.owner)
        column = self._columns[name]
        if isinstance(column, (Tensor, LazyFeature)):
            return column
        tensor = column.read()
        if column.may_be_kept():
            self._columns[name] = tensor
        return tensor

    def missing(self, name: object, owner: Owner | None) -> MissingFeatureError:
        """Returns the error that says that a column is not there, of rows of `owner`."""
        have = ", ".join(named(key) for key in self._columns) or "none"
        whose = "" if owner is None else f" for {owner.plural()}"
        return MissingFeatureError(
            f"feature {named(name)} is not set{whose}; set it first, there are: {have}"
        )

    def __setitem__(self, name: str, value: Tensor) -> None:
        self.update({name: value})

    def __delitem__(self, name: str) -> None:
        self.pop(name)

    def keys(self) -> list[str]:
        """Names of the columns, in the order in which they were set."""
        return list(self._columns)

    def values(self) -> list[Tensor]:
        """Returns the columns."""
        return [self[name] for name in self.keys()]

    def items(self) -> list[tuple[str, Tensor]]:
        """Names and columns."""
        return [(name, self[name]) for name in self.keys()]

    def get(self, name: str, default: Any = None) -> Any:
        """Returns a column, or the default."""
        return self[name] if name in self._columns else default

    def pop(self, name: str, *default: Any) -> Any:
        """Remove a column and return it.

        Raises:
            MissingFeatureError: there is none, and no default is given.
        """
        if default and name not in self._columns:
            return default[0]
        tensor = self[name]
        del self._columns[name]
        return tensor

    def clear(self) -> None:
        """Remove all columns; the number of rows and the initialisers stay."""
        self._columns = {}

    def update(self, columns: Mapping[str, Tensor]) -> None:
        """Set several columns, or none of them if one does not fit.

        Raises:
            SmexTypeError: a value is not a tensor.
            SmexValueError: a value has another number of rows.
        """
        for name, value in columns.items():
            check_column(name, value, self.num_rows, self.owner)
        self._columns.update(columns)

    # ---- rows ----

    def schemes(self) -> dict[str, Scheme]:
        """Shape of a row and dtype of each column."""
        return {
            name: Scheme(tuple(column.shape[1:]), column.dtype)
            if isinstance(column, Tensor)
            else column.scheme
            for name, column in self._columns.items()
            if not isinstance(column, LazyFeature)
        }

    def read_rows(self, name: str, rows: Tensor) -> Tensor:
        """Rows of one column."""
        return self[name].index_select(0, rows)

    def update_rows(self, rows: Tensor, values: Mapping[str, Tensor]) -> None:
        """Write rows; a column that does not exist is made with its initialiser first.

        Raises:
            SmexTypeError: a value is not a tensor, or has another dtype than its column.
            SmexValueError: a value has another number of rows, or another shape than its column.
        """
        written: dict[str, Tensor] = {}
        for name, value in values.items():
            check_column(name, value, rows.shape[0], self.owner)
            if name in self._columns:
                column = self[name]
                check_row(name, value, column)
            else:
                column = self._fill(name, Scheme(tuple(value.shape[1:]), value.dtype), value.device)
            written[name] = column.index_copy(0, rows.long(), value)
        self._columns.update(written)

    def extended(self, count: int, values: Mapping[str, Tensor] | None = None) -> Frame:
        """A frame with ``count`` rows more: those of ``values``, the initialisers' elsewhere."""
        values = dict(values or {})
        for name, value in values.items():
            check_column(name, value, count, f"new {self.owner or 'row'}")
            check_layout(name, value)
            if name in self._columns:
                check_row(name, value, self[name])
        result = self.clone()
        result.num_rows = self.num_rows + count
        for name in [*self.keys(), *(name for name in values if name not in self._columns)]:
            result._columns[name] = self._extended_column(name, count, values.get(name))
        return result

    def _extended_column(self, name: str, count: int, value: Tensor | None) -> Tensor:
        added = slice(self.num_rows, self.num_rows + count)
        if name not in self._columns:
            assert value is not None
            old = self._fill(name, Scheme(tuple(value.shape[1:]), value.dtype), value.device)
            return torch.cat([old, value])
        old = self[name]
        if value is None:
            scheme = Scheme(tuple(old.shape[1:]), old.dtype)
            value = self._initial(name, scheme, old.device, added)
        return torch.cat([old, value])

    def _fill(self, name: str, scheme: Scheme, device: torch.device) -> Tensor:
        return self._initial(name, scheme, device, slice(0, self.num_rows))

    def _initial(self, name: str, scheme: Scheme, device: torch.device, rows: slice) -> Tensor:
        initializer = self.get_initializer(name)
        shape = (rows.stop - rows.start, *scheme.shape)
        value = initializer(shape, scheme.dtype, device, rows)
        if not isinstance(value, Tensor) or tuple(value.shape) != shape:
            raise SmexValueError(
                f"initializer of {named(name)}: expected a tensor of shape {list(shape)}, found "
                f"{describe(value)}; it is called with (shape, dtype, device, slice of ids)"
            )
        return value.to(device=device, dtype=scheme.dtype)

    # ---- initialisers ----

    def set_initializer(self, initializer: Initializer, field: str | None = None) -> None:
        """Set what new rows of one column hold, or of all columns that have none of their own."""
        if field is None:
            self._default_initializer = initializer
        else:
            self._initializers[field] = initializer

    def get_initializer(self, field: str) -> Initializer:
        """Returns what new rows of a column hold."""
        return self._initializers.get(field, self._default_initializer)

    # ---- copies ----

    def clone(self) -> Frame:
        """Returns a frame with the same tensors; columns set in one do not appear in the other."""
        return self._like(self.num_rows, self._columns)

    def subframe(self, rows: Tensor, kind: str | None = None) -> Frame:
        """Returns the frame of some rows; columns are gathered when they are read.

        Args:
            rows: ids.
            kind: what the rows are, such as ``source node``; as here if left out.
        """
        columns = {name: self._pending(name).select(rows) for name in self._columns}
        result = self._like(rows.shape[0], columns)
        if kind is not None:
            result.owner = self.owner_as(kind)
        return result

    def part(self, rows: Tensor, id_name: str) -> Frame:
        """As :meth:`subframe`, with the rows' ids as a column."""
        result = self.subframe(rows)
        result[id_name] = rows
        return result

    def prefetch(self, names: Iterable[str]) -> None:
        """Mark columns that :meth:`read_prefetched` gathers.

        Raises:
            MissingFeatureError: there is no such column.
        """
        for name in names:
            if name not in self._columns:
                raise self.missing(name, self.owner)
            column = self._columns[name]
            if isinstance(column, Pending):
                self._columns[name] = Pending(column.source, column.rows, column.device, True)

    def read_prefetched(self) -> None:
        """Gather and copy the columns that are marked."""
        for name, column in list(self._columns.items()):
            if isinstance(column, Pending) and column.prefetch:
                self[name]

    def gather_lazy(self, ids: Tensor | None, source: Frame) -> None:
        """Replace what stands for features of another frame by its rows, yet to be read.

        Args:
            ids: of the rows in `source`.
            source: the frame of the graph that was sampled from.
        """
        for name, column in list(self._columns.items()):
            if isinstance(column, LazyFeature):
                self._columns[name] = column.of(name, ids, source._columns)

    def owner_as(self, kind: str) -> Owner:
        """The owner of the rows under another name: a node is a source node to its edges."""
        return Owner(kind, None if self.owner is None else self.owner.key)

    def to(self, device: torch.device, **kwargs: Any) -> Frame:
        """Returns the frame on a device; columns are copied when they are read."""
        columns = {
            name: column
            if isinstance(column, Tensor) and column.device == device
            else self._pending(name).to(device)
            for name, column in self._columns.items()
        }
        return self._like(self.num_rows, columns)

    def map(self, function: Callable[[Tensor], Tensor]) -> Frame:
        """Returns the frame with a function applied to every column."""
        return self._like(self.num_rows, {name: function(self[name]) for name in self._columns})

    def read_all(self) -> None:
        """Gather and copy the columns that have not been read yet."""
        for name in self.keys():
            self[name]

    def _pending(self, name: str) -> Pending:
        column = self._columns[name]
        return Pending(column) if isinstance(column, Tensor) else column

    def _like(self, num_rows: int, columns: Mapping[str, Tensor | Pending]) -> Frame:
        result = Frame(num_rows, columns)
        result._initializers = dict(self._initializers)
        result._default_initializer = self._default_initializer
        result.owner = self.owner
        return result

    def __getstate__(self) -> dict[str, Any]:
        self.read_all()  # a pending column would drag its whole source along
        state = dict(self.__dict__)
        state["_columns"] = {name: self[name] for name in self._columns}
        return state

    def __deepcopy__(self, memo: dict[int, Any]) -> Frame:
        result = Frame(self.num_rows)
        memo[id(self)] = result
        result._columns = {name: _deep_copy(self[name], memo) for name in self._columns}
        result._initializers = copy.deepcopy(self._initializers, memo)
        result._default_initializer = copy.deepcopy(self._default_initializer, memo)
        return result

    def __repr__(self) -> str:
        return repr({name: self[name] for name in self._columns})


def _deep_copy(column: Tensor, memo: dict[int, Any]) -> Tensor:
    """Returns a copy without history, as pickling makes it.

    Torch copies no tensors that have one.
    """
    if column.is_leaf:
        return copy.deepcopy(column, memo)
    if id(column) not in memo:
        memo[id(column)] = column.detach().clone().requires_grad_()
    return memo[id(column)]
