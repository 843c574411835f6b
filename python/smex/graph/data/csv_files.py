"""Files of comma-separated values that make graphs: what a ``meta.yaml`` says, tables and lines."""

from __future__ import annotations

import ast
import csv
import dataclasses
import importlib.util
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from smex.errors import SmexValueError
from smex.graph.data.files import logger
from smex.graph.packages import optional
from smex.graph.words import named

__all__ = ["CsvMeta", "Lines", "numbers", "read_lines", "read_meta"]

META_NAME = "meta.yaml"
DEFAULT_CSV_ETYPE = ("_V", "_E", "_V")
_VERSION = "1.0.0"
_NTYPE = "_V"
_MISSING = {"", "NA", "N/A", "NaN", "nan", "NULL", "null", "None"}
_TRUTH = {"True": True, "TRUE": True, "true": True, "False": False, "FALSE": False, "false": False}
Parser = Callable[[Any], Mapping[str, Any]]
Etype = tuple[str, str, str]


# ---- what the YAML file says ----


@dataclasses.dataclass
class FileMeta:
    """A file."""

    file_name: str
    graph_id_field: str = "graph_id"


@dataclasses.dataclass
class NodeMeta(FileMeta):
    """The file of a node type."""

    ntype: str = _NTYPE
    node_id_field: str = "node_id"


@dataclasses.dataclass
class EdgeMeta(FileMeta):
    """The file of an edge type."""

    etype: Etype = DEFAULT_CSV_ETYPE
    src_id_field: str = "src_id"
    dst_id_field: str = "dst_id"

    def __post_init__(self) -> None:
        self.etype = tuple(self.etype)  # type: ignore[assignment]


@dataclasses.dataclass
class CsvMeta:
    """All of it."""

    dataset_name: str
    separator: str
    node_data: list[NodeMeta]
    edge_data: list[EdgeMeta]
    graph_data: FileMeta | None


def read_meta(folder: Path) -> CsvMeta:
    """Returns what the YAML file of a folder says.

    Raises:
        SmexValueError: there is none, or it does not say what files there are.
        SmexImportError: pyyaml is not installed.
    """
    path = folder / META_NAME
    if not path.exists():
        raise SmexValueError(
            f'CSVDataset: expected a file meta.yaml in "{folder}", found none; it names the files '
            "of nodes and edges"
        )
    yaml = optional("CSVDataset", "yaml", "pyyaml")
    said = yaml.safe_load(path.read_text())
    wanted = {"dataset_name": str, "node_data": list, "edge_data": list}
    for field, kind in wanted.items():
        if not isinstance(said, dict) or not isinstance(said.get(field), kind):
            found = said.get(field) if isinstance(said, dict) else said
            raise _meta_error(path, f"{field} to be a {kind.__name__}", found)
    version = said.get("version", _VERSION)
    if version != _VERSION:
        raise _meta_error(path, f"version {_VERSION}", version)
    graphs = said.get("graph_data")
    meta = CsvMeta(
        said["dataset_name"],
        said.get("separator", ","),
        [_file_meta(path, NodeMeta, each) for each in said["node_data"] if each is not None],
        [_file_meta(path, EdgeMeta, each) for each in said["edge_data"] if each is not None],
        None if graphs is None else _file_meta(path, FileMeta, graphs),
    )
    listed: tuple[tuple[str, list[Any]], ...] = (
        ("node", [each.ntype for each in meta.node_data]),
        ("edge", [each.etype for each in meta.edge_data]),
    )
    for what, types in listed:
        twice = [kind for kind in types if types.count(kind) > 1]
        if twice:
            raise _meta_error(path, f"one file for each {what} type", f"two of {named(twice[0])}")
    known = {each.ntype for each in meta.node_data}
    for each in meta.edge_data:
        if len(each.etype) != 3 or not {each.etype[0], each.etype[-1]} <= known:
            raise _meta_error(
                path, f"etype [source, relation, destination] of {sorted(known)}", list(each.etype)
            )
    return meta


def _meta_error(path: Path, expected: str, found: Any) -> SmexValueError:
    return SmexValueError(f'CSVDataset: "{path}": expected {expected}, found {found}')


def _file_meta(path: Path, kind: Any, said: Any) -> Any:
    if not isinstance(said, dict) or not isinstance(said.get("file_name"), str):
        raise _meta_error(path, "file_name to be a str for each file", said)
    fields = {field.name for field in dataclasses.fields(kind)}
    return kind(**{name: value for name, value in said.items() if name in fields})


# ---- files ----


class _Column(np.ndarray):
    """A field of all lines."""

    def to_numpy(self) -> np.ndarray:
        """Returns it as a plain array."""
        return np.asarray(self)

    @property
    def values(self) -> np.ndarray:
        """The plain array."""
        return np.asarray(self)


class _Table:
    """The fields of a file by their names, with what parsers use of pandas' tables."""

    def __init__(self, columns: dict[str, np.ndarray], rows: int):
        self._columns = {name: column.view(_Column) for name, column in columns.items()}
        self._rows = rows

    @property
    def columns(self) -> list[str]:
        """Returns the names."""
        return list(self._columns)

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return self._rows

    def __contains__(self, name: object) -> bool:
        return name in self._columns

    def __getitem__(self, name: str) -> _Column:
        return self._columns[name]

    def pop(self, name: str) -> _Column:
        """Takes a field out."""
        return self._columns.pop(name)


@dataclasses.dataclass
class Lines:
    """What a file says: ids by field, features by name, each with one element for each line."""

    file: str
    ids: dict[str, np.ndarray]
    graph_id: np.ndarray
    data: dict[str, np.ndarray]


def read_lines(
    folder: Path, meta: Any, separator: str, fields: Sequence[str], parser: Parser
) -> Lines:
    """Returns what a file says.

    Args:
        folder: where it is.
        meta: what the YAML file says of it.
        separator: what stands between fields.
        fields: the ids that each line has, as the YAML file calls them.
        parser: makes features of the rest.

    Raises:
        SmexValueError: the file, a field or a number is missing, or there are more or fewer rows of
            a feature than lines.
    """
    path = folder / meta.file_name
    if not path.exists():
        raise SmexValueError(f'CSVDataset: meta.yaml names "{path}", which does not exist')
    table = _read_table(path, separator)
    ids = {}
    for field in fields:
        name = getattr(meta, f"{field}_field")
        if name not in table:
            raise SmexValueError(
                f'CSVDataset: "{path}": expected a field "{name}", found {list(table)}; meta.yaml '
                f"may name another one as {field}_field"
            )
        ids[field] = np.asarray(table.pop(name).to_numpy())
    count = len(ids[fields[0]])
    graph_id = np.zeros(count, np.int64)
    if "graph_id" not in ids and meta.graph_id_field in table:
        graph_id = np.asarray(table.pop(meta.graph_id_field).to_numpy())
    data = {name: np.asarray(values) for name, values in parser(table).items()}
    for name, values in data.items():
        if values.ndim == 0 or len(values) != count:
            raise SmexValueError(
                f'CSVDataset: "{path}": expected a row of "{name}" for each of {count} lines, '
                f"found shape {list(values.shape)}"
            )
    return Lines(meta.file_name, ids, graph_id, data)


def _read_table(path: Path, separator: str) -> Any:
    if importlib.util.find_spec("pandas") is not None:
        return optional("CSVDataset", "pandas").read_csv(path, sep=separator)
    with open(path, newline="") as file:
        header, *lines = [line for line in csv.reader(file, delimiter=separator) if line] or [[]]
    for number, line in enumerate(lines, 2):
        if len(line) != len(header):
            raise SmexValueError(
                f'CSVDataset: "{path}", line {number}: expected {len(header)} fields, found '
                f"{len(line)}; put a field with separators in quotes"
            )
    names = [name or f"Unnamed: {n}" for n, name in enumerate(header)]
    columns = {name: _typed([line[n] for line in lines]) for n, name in enumerate(names)}
    return _Table(columns, len(lines))


def _typed(texts: list[str]) -> np.ndarray:
    """Returns integers, else floating point numbers, else truth values, else texts."""
    plain = [text.strip() for text in texts]
    if any("_" in text for text in plain):  # which Python takes in numbers
        return np.array(texts, dtype=object)
    for convert in (_integers, _floats, _truths):
        try:
            return convert(plain)
        except (KeyError, ValueError, OverflowError):
            continue
    return np.array(texts, dtype=object)


def _integers(texts: list[str]) -> np.ndarray:
    return np.array([int(text) for text in texts], dtype=np.int64)


def _floats(texts: list[str]) -> np.ndarray:
    return np.array([np.nan if text in _MISSING else float(text) for text in texts])


def _truths(texts: list[str]) -> np.ndarray:
    return np.array([_TRUTH[text] for text in texts], dtype=bool)


def numbers(table: Any) -> dict[str, np.ndarray]:
    """Returns the fields that have names; texts are read as rows of numbers."""
    found = {}
    for name in table:
        if "Unnamed" in name:
            logger.info("CSVDataset: a field without a name is passed over")
            continue
        column = np.asarray(table[name].to_numpy())
        if len(column) and isinstance(column[0], str):
            try:
                column = np.array([ast.literal_eval(text.strip()) for text in column])
            except (SyntaxError, ValueError) as error:
                raise SmexValueError(
                    "CSVDataset: expected numbers, or rows of as many numbers in quotes, as "
                    f'"{name}", found {column[0]!r}; pass a parser that makes numbers of other '
                    "texts"
                ) from error
        found[name] = column if len(column) else column.astype(np.float32)
    return found
