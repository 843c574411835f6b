"""Data sets in a folder: files of edges, features and items, and a YAML file that names them."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from smex._logging import logger
from smex.errors import SmexRuntimeError, SmexValueError
from smex.graph.data.files import download, extract_archive
from smex.graph.data.utils import _get_dgl_url
from smex.graph.graphbolt.base import ORIGINAL_EDGE_ID, etype_str_to_tuple
from smex.graph.graphbolt.features import TorchBasedFeatureStore, read_array
from smex.graph.graphbolt.items import ItemSet, ItemSetDict
from smex.graph.graphbolt.metadata import (
    OnDiskFeatureData,
    OnDiskGraphTopology,
    OnDiskMetaData,
    OnDiskTaskData,
    OnDiskTVTSet,
    OnDiskTVTSetData,
    read_fields,
)
from smex.graph.graphbolt.sampling_graph import FusedCSCSamplingGraph, fused_csc_sampling_graph
from smex.graph.packages import optional

__all__ = [
    "BuiltinDataset",
    "Dataset",
    "OnDiskDataset",
    "OnDiskTask",
    "Task",
    "preprocess_ondisk_dataset",
]

_FOLDER = "preprocessed_smex"
"""Of what is made of a data set's files; DGL's own, "preprocessed", stays as it is."""
_GRAPH, _SEEN = "graph.pt", "files.json"
_SETS = ("train_set", "validation_set", "test_set")
# The archives that DGL has.
_COLLECTION = (
    "cora",
    "ogbn-arxiv",
    "ogbn-mag",
    "ogbn-products",
    "ogbl-citation2",
    "ogbn-papers100M",
    "ogb-lsc-mag240m",
)
_IDS = ("seed_nodes", "node_pairs", "seeds", "negative_srcs", "negative_dsts")


class Task:
    """What is to be learned, and of which items.

    Args:
        metadata: what is said of it, such as ``name`` and ``num_classes``.
        train_set: items to train with.
        validation_set: items to choose with.
        test_set: items to judge with.
    """

    def __init__(
        self, metadata: Mapping[str, Any], train_set: Any, validation_set: Any, test_set: Any
    ):
        self.metadata = dict(metadata)
        self.train_set = train_set
        self.validation_set = validation_set
        self.test_set = test_set

    def __repr__(self) -> str:
        sets = ", ".join(
            f"{name}={0 if found is None else len(found)} items"
            for name in _SETS
            for found in [getattr(self, name)]
        )
        return f"{type(self).__name__}(metadata={self.metadata}, {sets})"


OnDiskTask = Task


class Dataset:
    """The base of data sets: a graph, features, tasks."""

    tasks: list[Task]
    graph: Any
    feature: Any
    dataset_name: str | None
    all_nodes_set: Any


class OnDiskDataset(Dataset):
    """A data set in a folder, as its ``metadata.yaml`` says.

    When it is made for the first time, and whenever its files have changed, the graph is brought
    into a form to sample from, and what is of another format than NumPy's is written in it, in the
    folder ``preprocessed_smex``.

    Args:
        path: the folder.
        include_original_edge_id: whether sampled edges have ids, which features of edges need.
        force_preprocess: True and False say whether that is done again.
        auto_cast_to_optimal_dtype: whether ids have 32 bits where these are enough.

    Raises:
        SmexRuntimeError: there is no such folder, or no ``metadata.yaml`` in it.
        SmexValueError: the YAML file, or one that it names, says something else than it must.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        include_original_edge_id: bool = False,
        force_preprocess: bool | None = None,
        auto_cast_to_optimal_dtype: bool = True,
    ):
        self._folder = pathlib.Path(path)
        written = preprocess_ondisk_dataset(
            path, include_original_edge_id, force_preprocess, auto_cast_to_optimal_dtype
        )
        yaml = optional("OnDiskDataset", "yaml", "pyyaml")
        self.yaml_data: dict[str, Any] = yaml.safe_load(pathlib.Path(written).read_text())
        self._is_loaded = False

    def load(self, tasks: str | Sequence[str] | None = None) -> OnDiskDataset:
        """Reads it, and returns the same object.

        Args:
            tasks: names of those that are read; all by default.

        Raises:
            SmexValueError: there is no such task.
        """
        meta = _read_meta(self.yaml_data, self._folder)
        self.dataset_name = meta.dataset_name
        self.graph = None if meta.graph_topology is None else _read_graph(meta.graph_topology.path)
        self.feature = TorchBasedFeatureStore(meta.feature_data)
        self.tasks = [_task_of(each) for each in _chosen(meta.tasks, tasks)]
        self.all_nodes_set = None if self.graph is None else _all_nodes(self.graph)
        self._is_loaded = True
        return self

    def __getattr__(self, name: str) -> Any:
        if name in Dataset.__annotations__ and not self.__dict__.get("_is_loaded"):
            raise SmexRuntimeError(f"OnDiskDataset: call load() before reading {name}")
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")


class BuiltinDataset(OnDiskDataset):
    """A data set of DGL's collection, in a folder of its name.

    Where the folder is not there, its archive is downloaded from the address of DGL's data (or from
    below ``$DGL_REPO``), unpacked into `root`, and removed.

    Args:
        name: of the data set, such as ``"cora"``.
        root: the folder that has its folder.

    Raises:
        SmexRuntimeError: it is neither there nor in the collection, or cannot be had.
        SmexValueError: the archive is damaged.
    """

    def __init__(self, name: str, root: str | os.PathLike[str] = "datasets"):
        folder = pathlib.Path(root) / name
        if not folder.is_dir():
            if name not in _COLLECTION:
                raise SmexRuntimeError(
                    f'BuiltinDataset: "{folder}" is no folder, and "{name}" is none of '
                    f"{', '.join(_COLLECTION)}, which DGL has for GraphBolt; put its folder, "
                    f'{name}/metadata.yaml and what that names, into "{root}"'
                )
            archive = download(_get_dgl_url(f"dataset/graphbolt/{name}.zip"), f"{folder}.zip")
            extract_archive(archive, root)
            os.unlink(archive)
        super().__init__(folder)


# ---- reading ----


def _read_meta(content: Mapping[str, Any], folder: pathlib.Path) -> OnDiskMetaData:
    def placed(entry: Any) -> Any:
        return {**entry, "path": str(folder / entry["path"])} if "path" in entry else entry

    def sets_of(where: str, listed: Any) -> list[OnDiskTVTSet]:
        return [
            read_fields(
                OnDiskTVTSet,
                where,
                {
                    **each,
                    "data": [
                        read_fields(OnDiskTVTSetData, where, placed(part))
                        for part in each.get("data", ())
                    ],
                },
            )
            for each in listed or ()
        ]

    tasks = []
    for number, task in enumerate(content.get("tasks") or ()):
        where = f"task {task.get('name', number)}"
        sets = {name: sets_of(f"{name} of {where}", task.get(name)) for name in _SETS}
        tasks.append(read_fields(OnDiskTaskData, where, {**task, **sets}))
    topology = content.get("graph_topology")
    return OnDiskMetaData(
        content.get("dataset_name"),
        None
        if topology is None
        else read_fields(OnDiskGraphTopology, "graph_topology", placed(topology)),
        [
            read_fields(OnDiskFeatureData, "feature_data", placed(each))
            for each in content.get("feature_data") or ()
        ],
        tasks,
    )


def _chosen(tasks: Sequence[OnDiskTaskData], names: Any) -> Sequence[OnDiskTaskData]:
    if names is None:
        return tasks
    wanted = [names] if isinstance(names, str) else list(names)
    known = [task.extra_fields.get("name") for task in tasks]
    for name in wanted:
        if name not in known:
            raise SmexValueError(f"load: there is no task {name!r}, found {known}")
    return [task for task, name in zip(tasks, known, strict=True) if name in wanted]


def _task_of(task: OnDiskTaskData) -> Task:
    return Task(task.extra_fields, *(_items_of(getattr(task, name)) for name in _SETS))


def _items_of(sets: Sequence[OnDiskTVTSet]) -> ItemSet | ItemSetDict | None:
    if not sets:
        return None
    made = {}
    for each in sets:
        parts = tuple(read_array(part.path, part.format, part.in_memory) for part in each.data)
        names = [part.name for part in each.data]
        named = tuple(names) if all(name is not None for name in names) else None
        made[each.type] = ItemSet(parts, named)  # type: ignore[arg-type]
    if None not in made:
        return ItemSetDict(made)  # type: ignore[arg-type]
    if len(made) > 1:
        raise SmexValueError("tasks: a set without a type must be the only one")
    return made[None]


def _all_nodes(graph: FusedCSCSamplingGraph) -> ItemSet | ItemSetDict:
    dtype = graph.indices.dtype
    counts = graph.num_nodes
    if not isinstance(counts, Mapping):
        return ItemSet(torch.tensor(counts, dtype=dtype), names="seed_nodes")
    return ItemSetDict(
        {t: ItemSet(torch.tensor(n, dtype=dtype), names="seed_nodes") for t, n in counts.items()}
    )


# ---- preparing ----


def preprocess_ondisk_dataset(
    dataset_dir: str | os.PathLike[str],
    include_original_edge_id: bool = False,
    force_preprocess: bool | None = None,
    auto_cast_to_optimal_dtype: bool = True,
) -> str:
    """Brings a data set's files into the form that is read; see :class:`OnDiskDataset`.

    Returns:
        The path of the YAML file of that form.
    """
    yaml = optional("OnDiskDataset", "yaml", "pyyaml")
    folder = pathlib.Path(dataset_dir)
    source = folder / "metadata.yaml"
    if not source.is_file():
        raise SmexRuntimeError(
            f'OnDiskDataset: expected a folder with a metadata.yaml, found none at "{source}"'
        )
    options = {
        "include_original_edge_id": include_original_edge_id,
        "auto_cast_to_optimal_dtype": auto_cast_to_optimal_dtype,
    }
    target = folder / _FOLDER
    written = target / "metadata.yaml"
    seen = {"files": _files(folder), **options}
    if written.is_file() and not force_preprocess:
        if force_preprocess is False or _known(target / _SEEN) == seen:
            return str(written)
        logger.info('the data set in "%s" has changed, and is prepared again', folder)
    content = yaml.safe_load(source.read_text())
    if not isinstance(content, Mapping) or "graph" not in content:
        raise SmexValueError(f'"{source}": expected a field graph with nodes and edges')
    # Whole or not at all: what is half written has no name that is read.
    work = folder / f"{_FOLDER}.part"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    found = {name: value for name, value in content.items() if name != "graph"}
    graph = _graph_of(
        folder, content["graph"], include_original_edge_id, auto_cast_to_optimal_dtype
    )
    torch.save({**vars(graph), "_rows_by_type": None}, work / _GRAPH)
    found["graph_topology"] = {"type": "FusedCSCSamplingGraph", "path": f"{_FOLDER}/{_GRAPH}"}
    small = graph.indices.dtype if auto_cast_to_optimal_dtype else None
    del graph
    found["feature_data"] = [
        _converted(folder, work, each, None) for each in content.get("feature_data") or ()
    ]
    found["tasks"] = [
        {
            **task,
            **{
                name: [
                    {**each, "data": [_converted(folder, work, d, small) for d in each["data"]]}
                    for each in task[name]
                ]
                for name in _SETS
                if task.get(name)
            },
        }
        for task in content.get("tasks") or ()
    ]
    (work / "metadata.yaml").write_text(yaml.safe_dump({**found, **options}))
    (work / _SEEN).write_text(json.dumps(seen))
    shutil.rmtree(target, ignore_errors=True)
    work.rename(target)
    return str(written)


def _files(folder: pathlib.Path) -> dict[str, list[int]]:
    """Returns sizes and times of a data set's own files."""
    found = {}
    for path in sorted(folder.rglob("*")):
        inner = path.relative_to(folder)
        if path.is_file() and not inner.parts[0].startswith("preprocessed"):
            found[str(inner)] = [path.stat().st_size, path.stat().st_mtime_ns]
    return found


def _known(path: pathlib.Path) -> Any:
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return None


def _converted(
    folder: pathlib.Path, work: pathlib.Path, entry: Mapping[str, Any], ids: torch.dtype | None
) -> dict[str, Any]:
    """Returns an entry of a file in NumPy's format, which is written if it is not that already."""
    is_ids = entry.get("name") in _IDS and ids is not None
    if entry["format"] == "numpy" and not is_ids:
        return dict(entry)
    array = read_array(str(folder / entry["path"]), entry["format"])
    if is_ids:
        array = array.to(ids)
    inner = pathlib.Path(entry["path"]).with_suffix(".npy")
    (work / inner).parent.mkdir(parents=True, exist_ok=True)
    np.save(work / inner, array.numpy())
    return {**entry, "format": "numpy", "path": f"{_FOLDER}/{inner}"}


def _read_graph(path: str) -> FusedCSCSamplingGraph:
    content = torch.load(path, weights_only=True)
    content.pop("_rows_by_type")
    return FusedCSCSamplingGraph(**content)


def _edges(path: pathlib.Path, kind: str) -> tuple[Tensor, Tensor]:
    """Returns the sources and destinations that a file has."""
    if kind == "numpy":
        found = torch.as_tensor(np.load(path))
    elif kind == "csv":
        rows = np.loadtxt(path, delimiter=",", dtype=np.int64, ndmin=2)
        found = torch.from_numpy(rows).t()
    else:
        raise SmexValueError(f'"{path}": expected edges of format "csv" or "numpy", found {kind!r}')
    if found.dim() != 2 or found.shape[0] != 2:
        raise SmexValueError(
            f'"{path}": expected sources and destinations, "csv" with 2 columns or "numpy" [2, n], '
            f"found shape {list(found.shape)}"
        )
    return found[0].long(), found[1].long()


def _graph_of(
    folder: pathlib.Path, content: Mapping[str, Any], with_ids: bool, small: bool
) -> FusedCSCSamplingGraph:
    nodes, edges = list(content.get("nodes") or ()), list(content.get("edges") or ())
    if not nodes or not edges:
        raise SmexValueError("metadata.yaml: expected nodes and edges of the graph, found none")
    has_types = len(nodes) > 1 or len(edges) > 1 or "type" in nodes[0] or "type" in edges[0]
    if has_types:
        nodes.sort(key=lambda each: each["type"])
        edges.sort(key=lambda each: each["type"])
    starts = np.cumsum([0, *(int(each["num"]) for each in nodes)]).tolist()
    numbers = {each["type"]: n for n, each in enumerate(nodes)} if has_types else {}
    numbered = torch.uint8 if small and len(edges) <= torch.iinfo(torch.uint8).max else torch.int64
    src, dst, types, own = [], [], [], []
    for number, each in enumerate(edges):
        path = folder / each["path"]
        u, v = _edges(path, each["format"])
        at = [0, 0]
        if has_types:
            at = [numbers.get(etype_str_to_tuple(each["type"])[end], -1) for end in (0, 2)]
            if min(at) < 0:
                raise SmexValueError(
                    f'metadata.yaml: edges "{each["type"]}" are between types that are none of '
                    f"{sorted(numbers)}"
                )
        for ids, ntype in ((u, at[0]), (v, at[1])):
            most = starts[ntype + 1] - starts[ntype]
            if len(ids) and not 0 <= int(ids.min()) <= int(ids.max()) < most:
                raise SmexValueError(
                    f'"{path}": expected ids from 0 to {most - 1}, found {int(ids.min())} to '
                    f"{int(ids.max())}"
                )
        src.append(u + starts[at[0]])
        dst.append(v + starts[at[1]])
        types.append(torch.full((len(u),), number, dtype=numbered))
        own.append(torch.arange(len(u)))
    total = starts[-1]
    indptr, indices, order = torch.ops.smex.compress_edges(
        torch.cat(dst), torch.cat(src), None, total, total
    )
    by_type = torch.cat(types)[order]
    ids = torch.cat(own)[order]
    attributes = _attributes(folder, content.get("feature_data") or (), numbers, edges, order)
    if with_ids:
        attributes["edge"][ORIGINAL_EDGE_ID] = ids
    if small and max(total, len(indices)) <= torch.iinfo(torch.int32).max:
        indptr, indices = indptr.int(), indices.int()
        if with_ids:
            attributes["edge"][ORIGINAL_EDGE_ID] = ids.int()
    return fused_csc_sampling_graph(
        indptr,
        indices,
        torch.tensor(starts, dtype=indices.dtype) if has_types else None,
        by_type if has_types else None,
        numbers if has_types else None,
        {each["type"]: n for n, each in enumerate(edges)} if has_types else None,
        attributes["node"] or None,
        attributes["edge"] or None,
    )


def _attributes(
    folder: pathlib.Path,
    listed: Sequence[Mapping[str, Any]],
    numbers: Mapping[str, int],
    edges: Sequence[Mapping[str, Any]],
    order: Tensor,
) -> dict[str, dict[str, Tensor]]:
    """Returns what the graph itself has of nodes and edges, the latter by column."""
    parts: dict[tuple[str, str], dict[str | None, Tensor]] = {}
    for each in listed:
        tensor = read_array(str(folder / each["path"]), each["format"], each.get("in_memory", True))
        parts.setdefault((each["domain"], each["name"]), {})[each.get("type")] = tensor
    found: dict[str, dict[str, Tensor]] = {"node": {}, "edge": {}}
    types = {"node": list(numbers), "edge": [each["type"] for each in edges if "type" in each]}
    for (domain, name), by_type in parts.items():
        wanted: list[Any] = types[domain] if types["node"] else [None]
        if set(by_type) != set(wanted):
            raise SmexValueError(
                f'metadata.yaml: attribute "{name}" of the graph must be there for all {domain} '
                f"types, {wanted}, found {list(by_type)}"
            )
        whole = torch.cat([by_type[kind] for kind in wanted])
        found[domain][name] = whole[order] if domain == "edge" else whole
    return found
