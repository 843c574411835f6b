"""Graphs in tables with commas between cells, which ``meta.yaml`` describes as DGL has it.

``dataset_name`` and ``node_data``, ``edge_data`` (lists) and ``graph_data`` say which file holds
what; a file has a header, columns of ids, and others that become features or labels.
"""

from __future__ import annotations

import ast
import csv
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from smex.errors import SmexValueError
from smex.graph.creation.convert import heterograph
from smex.graph.data.dataset import DGLDataset, Transform, check_index
from smex.graph.graph import Graph
from smex.graph.packages import optional
from smex.graph.words import CanonicalType

__all__ = ["CSVDataset"]

_VERSION = "1.0.0"
_NODE, _EDGE = "_V", ("_V", "_E", "_V")
Columns = dict[str, np.ndarray]
Parser = Callable[[Any], Mapping[str, Any]]


class CSVDataset(DGLDataset):
    r"""Graphs of tables; an element is a graph, or a graph and its labels.

    Columns of node and edge tables become features of the column's name, those of the graph table
    labels, float32 or of the integers' dtype. A cell of several numbers is text such as
    ``"0.5, 1.5"``. Nodes are ordered by their ids, which may be texts; edges as they stand.

    An element is a graph alone where there are no labels, (graph, label ``[columns]``) where there
    is one, and (graph, dict of labels) of several. :attr:`graphs` and :attr:`data`, the labels by
    name ``[num_graphs, columns]``, hold all of them.

    Args:
        data_path: the folder with ``meta.yaml``.
        force_reload: without effect, nothing is kept.
        verbose: whether to show progress.
        ndata_parser: a function that returns features, NumPy's arrays by name, of a
            ``pandas.DataFrame`` of a node table without the columns of ids; or a dict of these by
            node type.
        edata_parser: likewise of edge tables.
        gdata_parser: likewise of the graph table.
        transform: applied to a graph each time it is asked for.

    Raises:
        SmexImportError: PyYAML is not installed, or pandas, where there is a parser.
        SmexValueError: there is no ``meta.yaml``, or it and the tables do not fit together.

    Example:
        >>> import tempfile
        >>> folder = tempfile.mkdtemp()
        >>> meta = "dataset_name: pair\nnode_data: [{file_name: n.csv}]\n"
        >>> meta += "edge_data: [{file_name: e.csv}]\n"
        >>> tables = {"n.csv": "node_id,x\n0,1\n1,2", "e.csv": "src_id,dst_id\n0,1"}
        >>> for name, text in {"meta.yaml": meta, **tables}.items():
        ...     with open(f"{folder}/{name}", "w") as file:
        ...         _ = file.write(text)
        >>> sg.data.CSVDataset(folder)[0].ndata["x"]
        tensor([1, 2])
    """

    META_YAML_NAME = "meta.yaml"

    def __init__(
        self,
        data_path: str,
        force_reload: bool = False,
        verbose: bool = True,
        ndata_parser: Parser | dict[str, Parser] | None = None,
        edata_parser: Parser | dict[CanonicalType, Parser] | None = None,
        gdata_parser: Parser | None = None,
        transform: Transform = None,
    ):
        self._folder = Path(data_path)
        self.ndata_parser, self.edata_parser = ndata_parser or {}, edata_parser or {}
        self.gdata_parser = gdata_parser
        self.meta_yaml = self._read_meta()
        super().__init__(
            self.meta_yaml["dataset_name"], raw_dir=str(self._folder), transform=transform
        )

    def _read_meta(self) -> dict[str, Any]:
        path = self._folder / self.META_YAML_NAME
        if not path.exists():
            raise SmexValueError(f"CSVDataset: expected {path}, found no such file")
        meta = optional("CSVDataset", "yaml", "pyyaml").safe_load(path.read_text())
        missing = [n for n in ("dataset_name", "node_data", "edge_data") if n not in (meta or {})]
        version = (meta or {}).get("version", _VERSION)
        if missing or version != _VERSION:
            raise SmexValueError(
                "CSVDataset: expected dataset_name, node_data, edge_data and version "
                f"{_VERSION} in {path}, found version {version} without "
                f"{', '.join(missing) or 'none of them'}"
            )
        return meta

    def _download(self) -> None:
        pass

    def process(self) -> None:
        """Reads the tables."""
        nodes: dict[Any, dict[str, Any]] = {}
        edges: dict[Any, dict[CanonicalType, Any]] = {}
        for meta in self.meta_yaml["node_data"]:
            ntype = meta.get("ntype", _NODE)
            for graph_id, ids, data in self._rows(meta, ["node_id"], self.ndata_parser, ntype):
                nodes.setdefault(graph_id, {})[ntype] = _ordered(meta["file_name"], ids[0], data)
        for meta in self.meta_yaml["edge_data"]:
            etype = tuple(meta.get("etype", _EDGE))
            for graph_id, ids, data in self._rows(
                meta, ["src_id", "dst_id"], self.edata_parser, etype
            ):
                edges.setdefault(graph_id, {})[etype] = (ids, data)
        made = {key: self._graph(nodes.get(key, {}), edges.get(key, {})) for key in nodes | edges}
        self.data: dict[str, Tensor] = {}
        order: Sequence[Any] = [0]
        if self.meta_yaml.get("graph_data"):
            order = self._set_labels(self.meta_yaml["graph_data"])
        left_out = [key for key in made if key not in order]
        if left_out:
            raise SmexValueError(
                f"CSVDataset: the graphs {left_out} of the tables of nodes and edges are not in "
                "that of graphs; add them"
            )
        empty = heterograph({_EDGE: ([], [])})
        self.graphs = [made.get(key, empty) for key in order]
        if len(self.data) == 1:
            (self.labels,) = self.data.values()

    def _rows(self, meta: dict[str, Any], names: list[str], parsers: Any, kind: Any) -> list:
        """Returns (graph, ids, features) of each graph that a table has rows of."""
        table = _table(self._folder / meta["file_name"], self.meta_yaml.get("separator", ","))
        ids = []
        for name in names:
            field = meta.get(f"{name}_field", name)
            if field not in table:
                raise SmexValueError(
                    f"CSVDataset: expected a column {field} in {meta['file_name']}, found "
                    f"{', '.join(table)}"
                )
            ids.append(table.pop(field))
        graph_ids = table.pop(meta.get("graph_id_field", "graph_id"), np.zeros(len(ids[0]), int))
        parser = parsers if callable(parsers) else parsers.get(kind)
        data = _parsed(meta["file_name"], table, parser, len(graph_ids))
        parts = []
        for graph_id in np.unique(graph_ids):
            rows = np.flatnonzero(graph_ids == graph_id)
            features = {name: values[torch.from_numpy(rows)] for name, values in data.items()}
            parts.append((graph_id.item(), [column[rows] for column in ids], features))
        return parts

    def _graph(self, nodes: dict[str, Any], edges: dict[CanonicalType, Any]) -> Graph:
        ends = {}
        for etype, (ids, _) in edges.items():
            numbers = [nodes[ntype][0] if ntype in nodes else {} for ntype in etype[::2]]
            both = zip(ids, numbers)
            strays = [x for column, known in both for x in column if str(x) not in known]
            if strays:
                raise SmexValueError(
                    f"CSVDataset: an edge of type {etype} ends at {strays[0]}, expected ids of "
                    "the tables of nodes"
                )
            ends[etype] = tuple(
                torch.tensor([known[str(x)] for x in column]) for column, known in zip(ids, numbers)
            )
        sizes = {ntype: len(numbers) for ntype, (numbers, _) in nodes.items()}
        g = heterograph(ends or {_EDGE: ([], [])}, sizes)
        for ntype, (_, data) in nodes.items():
            g.nodes[ntype].data.update(data)
        for etype, (_, data) in edges.items():
            g.edges[etype].data.update(data)
        return g

    def _set_labels(self, meta: dict[str, Any]) -> list[Any]:
        """Sets the labels, and returns the ids of graphs in their order."""
        field = meta.get("graph_id_field", "graph_id")
        table = _table(self._folder / meta["file_name"], self.meta_yaml.get("separator", ","))
        if field not in table:
            raise SmexValueError(
                f"CSVDataset: expected a column {field} in {meta['file_name']}, found "
                f"{', '.join(table)}"
            )
        order = table.pop(field).tolist()
        data = _parsed(meta["file_name"], table, self.gdata_parser, len(order))
        self.data = {name: values.reshape(len(order), -1) for name, values in data.items()}
        return order

    def __getitem__(self, i: Any) -> Any:
        """Returns the graph at a position, with its labels; for a tensor of positions a Subset.

        Raises:
            GraphIndexError: there is none.
        """
        if isinstance(i, Tensor) and i.dim() == 1:
            from smex.graph.data.utils import Subset

            return Subset(self, i.cpu())
        check_index("CSVDataset", i, len(self))
        g = self._transformed(self.graphs[i])
        if len(self.data) == 1:
            return g, self.labels[i]
        return (g, {name: rows[i] for name, rows in self.data.items()}) if self.data else g

    def __len__(self) -> int:
        """Number of graphs."""
        return len(self.graphs)


def _table(path: Path, separator: str) -> Columns:
    """Returns the columns of a file by their names: numbers where all cells are, otherwise text."""
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file, delimiter=separator, skipinitialspace=True))
    header, cells = rows[0], [row for row in rows[1:] if row]
    return {name: _column([row[n] for row in cells]) for n, name in enumerate(header) if name}


def _column(cells: list[str]) -> np.ndarray:
    for kind in (np.int64, np.float64):
        try:
            return np.array(cells, dtype=kind)
        except ValueError:
            continue
    return np.array(cells, dtype=str)


def _parsed(file: str, table: Columns, parser: Parser | None, number: int) -> dict[str, Tensor]:
    """Returns what a table's columns become."""
    found: Mapping[str, Any] = table
    if parser is not None:
        found = parser(optional("CSVDataset", "pandas").DataFrame(table))
    data = {}
    for name, column in found.items():
        values = np.asarray(column)
        if values.dtype.kind == "U":
            values = np.array([ast.literal_eval(cell) for cell in values.tolist()])
        data[name] = torch.from_numpy(values)
        if data[name].dtype == torch.float64:
            data[name] = data[name].float()
        if len(values) != number:
            raise SmexValueError(
                f"CSVDataset: expected {number} rows of {name} in {file}, found {len(values)}"
            )
    return data


def _ordered(file: str, ids: np.ndarray, data: dict[str, Tensor]) -> tuple[dict[str, int], Any]:
    """Returns the number of each id, by their order, and features in this order."""
    order = np.argsort(ids, kind="stable")
    numbers = {str(each): n for n, each in enumerate(ids[order].tolist())}
    if len(numbers) < len(ids):
        raise SmexValueError(f"CSVDataset: expected each node id once a graph in {file}")
    return numbers, {name: values[torch.from_numpy(order)] for name, values in data.items()}
