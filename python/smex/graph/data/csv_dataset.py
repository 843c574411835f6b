"""Graphs in files of comma-separated values, as a ``meta.yaml`` beside them describes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from smex.errors import SmexValueError
from smex.graph.creation.convert import heterograph
from smex.graph.data.csv_files import (
    DEFAULT_CSV_ETYPE,
    META_NAME,
    Etype,
    Lines,
    Parser,
    numbers,
    read_lines,
    read_meta,
)
from smex.graph.data.dataset import DGLDataset, GraphsMixin, Transform
from smex.graph.graph import Graph
from smex.graph.words import named

__all__ = ["CSVDataset"]


class CSVDataset(GraphsMixin, DGLDataset):
    r"""Graphs that files of comma-separated values have, in a folder with a ``meta.yaml``.

    The YAML file names the data set (``dataset_name``), the file of each node type (``node_data``),
    of each edge type (``edge_data``) and, for several graphs, of the graphs (``graph_data``)::

        dataset_name: games
        node_data:
        - {file_name: users.csv, ntype: user}
        - {file_name: games.csv, ntype: game}
        edge_data:
        - {file_name: plays.csv, etype: [user, plays, game]}

    A line of a node file is a node: its ``node_id``, the ``graph_id`` of its graph where there are
    several, and features. A line of an edge file has ``src_id`` and ``dst_id``. Nodes of a graph
    are in the order of their ids, numbers or texts. A feature is a number, or in quotes a row of
    them with commas between; floating point ones are float32. Fields of other names are named as
    ``node_id_field``, ``graph_id_field``, ``src_id_field``, ``dst_id_field``; ``separator`` stands
    between fields. The files are read anew each time.

    Args:
        data_path: the folder.
        force_reload: taken for compatibility.
        verbose: whether to tell what was read.
        ndata_parser: makes features by name of a node file, without its ids: a function of its
            table, or functions by node type. The table is a ``DataFrame`` where pandas is
            installed, and otherwise something that has ``table["x"].to_numpy()``,
            ``for name in table``, ``pop``, ``columns`` and ``len``.
        edata_parser: the same for edge files, by ``(source, relation, destination)``.
        gdata_parser: the same for the file of graphs.
        transform: applied to a graph each time it is asked for.

    Attributes:
        graphs: the graphs, in the order of the file of graphs.
        data: what the file of graphs has, tensors ``[num_graphs, ...]``.
        labels: the only one of these.
        meta_yaml: what the YAML file says.

    Raises:
        SmexValueError: a file or field is missing, lines do not fit together, or ids are unknown or
            come twice.
        SmexImportError: pyyaml is not installed.

    Example:
        >>> import pathlib, tempfile
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> _ = (folder / "meta.yaml").write_text("dataset_name: small\nnode_data:\n"
        ...     "- file_name: nodes.csv\nedge_data:\n- file_name: edges.csv")
        >>> _ = (folder / "nodes.csv").write_text('node_id,x\n7,"1,0.5"\n3,"2,0.5"')
        >>> _ = (folder / "edges.csv").write_text("src_id,dst_id\n7,3\n7,7")
        >>> g = sg.data.CSVDataset(folder)[0]
        >>> g.edges(), g.ndata["x"][0]
        ((tensor([1, 1]), tensor([0, 1])), tensor([2.0000, 0.5000]))
    """

    META_YAML_NAME = META_NAME
    labels: Tensor

    def __init__(
        self,
        data_path: Any,
        force_reload: bool = False,
        verbose: bool = True,
        ndata_parser: Parser | Mapping[str, Parser] | None = None,
        edata_parser: Parser | Mapping[Etype, Parser] | None = None,
        gdata_parser: Parser | None = None,
        transform: Transform = None,
    ):
        folder = Path(data_path)
        self.meta_yaml = read_meta(folder)
        self.ndata_parser, self.edata_parser = ndata_parser or {}, edata_parser or {}
        self.gdata_parser = gdata_parser
        self.graphs: list[Graph] = []
        self.data: dict[str, Tensor] = {}
        super().__init__(
            self.meta_yaml.dataset_name,
            raw_dir=str(folder),
            force_reload=force_reload,
            verbose=verbose,
            transform=transform,
        )

    def process(self) -> None:
        """Reads the files."""
        meta, folder = self.meta_yaml, Path(self.raw_dir)
        nodes = {
            each.ntype: read_lines(
                folder, each, meta.separator, ("node_id",), _parser(self.ndata_parser, each.ntype)
            )
            for each in meta.node_data
        }
        edges = {
            each.etype: read_lines(
                folder,
                each,
                meta.separator,
                ("src_id", "dst_id"),
                _parser(self.edata_parser, each.etype),
            )
            for each in meta.edge_data
        }
        graph_ids, self.data = np.zeros(1, np.int64), {}
        if meta.graph_data is not None:
            parser = self.gdata_parser or numbers
            found = read_lines(folder, meta.graph_data, meta.separator, ("graph_id",), parser)
            graph_ids = found.ids["graph_id"]
            self.data = {
                name: _tensor(meta.graph_data.file_name, name, values).reshape(len(graph_ids), -1)
                for name, values in found.data.items()
            }
        _check_graph_ids(graph_ids, [*nodes.values(), *edges.values()])
        self.graphs = [_graph(graph_id, nodes, edges) for graph_id in graph_ids.tolist()]
        if len(self.data) == 1:
            (self.labels,) = self.data.values()

    def _element(self, idx: int) -> Any:
        """The graph at a position, with its label or a dict of what else there is of it."""
        g = super()._element(idx)
        if not self.data:
            return g
        own = {name: values[idx] for name, values in self.data.items()}
        return (g, own) if len(own) > 1 else (g, *own.values())


def _parser(parsers: Any, kind: Any) -> Parser:
    return parsers if callable(parsers) else parsers.get(kind, numbers)


# ---- graphs ----


def _tensor(file: str, name: str, values: np.ndarray) -> Tensor:
    try:
        found = torch.as_tensor(np.ascontiguousarray(values))
    except TypeError as error:
        raise SmexValueError(
            f'CSVDataset: "{file}": expected numbers as "{name}", found {values.dtype}; a parser '
            "makes numbers of texts"
        ) from error
    return found.float() if found.dtype == torch.float64 else found


def _check_graph_ids(known: np.ndarray, files: Sequence[Lines]) -> None:
    for lines in files:
        unknown = np.setdiff1d(lines.graph_id, known)
        if len(unknown):
            raise SmexValueError(
                f'CSVDataset: "{lines.file}" has graph {unknown.tolist()[0]!r}, which the file of '
                "graphs has not; meta.yaml names that file as graph_data"
            )


def _graph(graph_id: Any, nodes: Mapping[str, Lines], edges: Mapping[Etype, Lines]) -> Graph:
    """Returns the graph of the lines with its id; nodes are in the order of their ids."""
    own_nodes: dict[str, tuple[np.ndarray, dict[str, Tensor]]] = {}
    for ntype, lines in nodes.items():
        mine = lines.graph_id == graph_id
        if mine.any():
            ids, first = np.unique(lines.ids["node_id"][mine], return_index=True)
            _check_once(lines, ids, lines.ids["node_id"][mine])
            own_nodes[ntype] = ids, _features(lines, mine, first)
    if not own_nodes:
        return heterograph({DEFAULT_CSV_ETYPE: ([], [])})
    ends: dict[Etype, Any] = {}
    features = {}
    for etype, lines in edges.items():
        mine = lines.graph_id == graph_id
        if mine.any():
            ends[etype] = (
                _places(lines, "src_id", mine, own_nodes, etype[0]),
                _places(lines, "dst_id", mine, own_nodes, etype[2]),
            )
            features[etype] = _features(lines, mine)
    joined = {ntype for etype in ends for ntype in (etype[0], etype[2])}
    for ntype in own_nodes.keys() - joined:  # nodes without edges
        touching = [etype for etype in edges if ntype in (etype[0], etype[2])]
        for etype in touching or [(ntype, "_E", ntype)]:
            ends.setdefault(etype, ([], []))
    sizes = {ntype: len(ids) for ntype, (ids, _) in own_nodes.items()}
    g = heterograph(ends, num_nodes_dict=sizes)
    for ntype, (_, data) in own_nodes.items():
        g.nodes[ntype].data.update(data)
    for etype, data in features.items():
        g.edges[etype].data.update(data)
    return g


def _features(
    lines: Lines, mine: np.ndarray, order: np.ndarray | slice = slice(None)
) -> dict[str, Tensor]:
    return {
        name: _tensor(lines.file, name, values[mine][order]) for name, values in lines.data.items()
    }


def _check_once(lines: Lines, distinct: np.ndarray, ids: np.ndarray) -> None:
    if len(distinct) < len(ids):
        counts = np.unique(ids, return_counts=True)[1]
        raise SmexValueError(
            f'CSVDataset: "{lines.file}": expected each node once, found '
            f"{distinct[counts > 1].tolist()[0]!r} twice"
        )


def _places(
    lines: Lines, field: str, mine: np.ndarray, own_nodes: Mapping[str, Any], ntype: str
) -> Tensor:
    """Returns the numbers of nodes from their ids."""
    ids = lines.ids[field][mine]
    known = own_nodes[ntype][0] if ntype in own_nodes else ids[:0]
    place = np.zeros(len(ids), np.int64)
    try:
        asked = ids.astype(known.dtype)
        place = np.searchsorted(known, asked).clip(max=max(len(known) - 1, 0))
        wrong = asked[known[place] != asked] if len(known) else asked
    except (TypeError, ValueError):  # texts among numbers
        wrong = ids
    if len(wrong):
        raise SmexValueError(
            f'CSVDataset: "{lines.file}": expected {field} of nodes of type {named(ntype)} in the '
            f"same graph, found {wrong.tolist()[0]!r}"
        )
    return torch.as_tensor(place)
