"""Graphs of RDF: triples whose terms become typed nodes and edges, and nodes to classify.

A folder has files of triples, ``*.nt`` (N-Triples) and ``*.n3`` (Notation 3), and the tables
``trainingSet.tsv`` and ``testSet.tsv``, with a header and a line for each labelled entity.
"""

from __future__ import annotations

import itertools
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from smex.graph.constants import ETYPE, NID, NTYPE
from smex.graph.creation.convert import graph
from smex.graph.creation.files import load_graphs, save_graphs
from smex.graph.data.dataset import DGLBuiltinDataset, Folder, OneGraphMixin, Transform
from smex.graph.data.files import logger
from smex.graph.graph import Graph
from smex.graph.packages import optional
from smex.graph.parts.homogeneous import to_heterogeneous

__all__ = ["Entity", "RDFGraphDataset", "Relation"]

_RENAMED = {"type": "rdftype", "rev-type": "rev-rdftype"}  # names that modules of torch have
_FORMATS = ("nt", "n3")
_TABLES = ("trainingSet.tsv", "testSet.tsv")


class Entity:
    """What a node stands for: an id within a class, which names the node's type.

    Example:
        >>> str(sg.data.rdf.Entity("id7", "Personen"))
        'Personen/id7'
    """

    def __init__(self, e_id: Any, cls: Any):
        self.id, self.cls = e_id, cls

    def __str__(self) -> str:
        return f"{self.cls}/{self.id}"


class Relation:
    """What an edge stands for: a class, which names the edge's type."""

    def __init__(self, cls: Any):
        self.cls = cls

    def __str__(self) -> str:
        return str(self.cls)


class RDFGraphDataset(OneGraphMixin, DGLBuiltinDataset, ABC):
    """One graph of entities and relations, and labels of the entities of one class.

    Triples are ordered by their terms; node types, edge types and the nodes of a type are numbered
    in the order in which they occur. Nodes of :attr:`predict_category` have ``label`` and
    ``labels``, int64, -1 without one, and ``train_mask`` and ``test_mask``, bool; all nodes have
    ``sg.NID`` and edges ``sg.EID``, ids before they were divided by types. Relations named ``type``
    are edges ``rdftype``.

    A subclass says what triples mean by :meth:`parse_entity`, :meth:`parse_relation`,
    :meth:`process_tuple` and :meth:`process_idx_file_line`. As rdflib reads some 50,000 triples a
    second, the graph is kept beside the files, in ``NAME_smex_graph_HASH.bin``.

    Args:
        name: the name, also that of the folder.
        url: where the archive of the files is downloaded from.
        predict_category: the node type that has labels.
        print_every: after how many triples progress is logged.
        insert_reverse: whether each edge has a reverse, of type ``rev-...``.
        raw_dir: see :class:`DGLBuiltinDataset`.
        force_reload: whether the files are read even if the graph is kept.
        verbose: whether to log progress.
        transform: applied to the graph each time it is asked for.

    Raises:
        SmexImportError: rdflib is not installed.
        SmexRuntimeError: the files are nowhere and cannot be downloaded.
    """

    def __init__(
        self,
        name: str,
        url: str | None,
        predict_category: str,
        print_every: int = 10000,
        insert_reverse: bool = True,
        raw_dir: Folder = None,
        force_reload: bool = False,
        verbose: bool = True,
        transform: Transform = None,
    ):
        self._rdf = optional(type(self).__name__, "rdflib")
        self._predict_category = predict_category
        self._print_every, self._insert_reverse = print_every, insert_reverse
        super().__init__(
            name,
            url,
            raw_dir=raw_dir,
            hash_key=(name, insert_reverse, predict_category),
            force_reload=force_reload,
            verbose=verbose,
            transform=transform,
        )

    def _files(self) -> tuple[str, ...]:
        return _TABLES

    @abstractmethod
    def parse_entity(self, term: Any) -> Entity | None:
        """Returns the entity of a term, ``rdflib.term.Identifier`` or str; None: it has none."""

    @abstractmethod
    def parse_relation(self, term: Any) -> Relation | None:
        """Returns the relation of a predicate; None: its triples are left out."""

    @abstractmethod
    def process_tuple(
        self, raw_tuple: Any, sbj: Entity | None, rel: Relation | None, obj: Entity | None
    ) -> tuple[Entity, Relation, Entity] | None:
        """Returns what a triple becomes; None: it is left out."""

    @abstractmethod
    def process_idx_file_line(self, line: str) -> tuple[str, str]:
        """Returns the entity, as a term, and the label in a line of a table."""

    # ---- from files to the graph ----

    def process(self) -> None:
        """Reads the files, or the graph that was kept beside them."""
        kept = Path(self.raw_path) / f"{self.name}_smex_graph_{self.hash}.bin"
        if not self._force_reload and self._is_newer(kept):
            (self._g,), found = load_graphs(kept)
            self._num_classes = int(found["num_classes"])
            return
        self.process_raw_tuples(self.load_raw_tuples(self.raw_path), self.raw_path)
        try:
            save_graphs(kept, self._g, {"num_classes": torch.tensor([self._num_classes])})
        except OSError as error:
            logger.info("%s is not kept: %s", kept, error)

    def _is_newer(self, kept: Path) -> bool:
        if not kept.exists():
            return False
        sources = (path for path in kept.parent.iterdir() if path.suffix in (".nt", ".n3", ".tsv"))
        return all(path.stat().st_mtime <= kept.stat().st_mtime for path in sources)

    def load_raw_tuples(self, root_path: str) -> Iterator[Any]:
        """Returns the triples of all files in a folder."""
        parsed = []
        for file in sorted(os.listdir(root_path)):
            if file.endswith(_FORMATS):
                if self.verbose:
                    logger.info("parsing %s", file)
                triples = self._rdf.Graph()
                triples.parse(os.path.join(root_path, file), format=file[-2:])
                parsed.append(triples)
        return itertools.chain(*parsed)

    def process_raw_tuples(self, raw_tuples: Iterable[Any], root_path: str) -> None:
        """Makes the graph of triples, with the labels of a folder's tables."""
        entities: dict[str, int] = {}
        classes: dict[Any, int] = {}
        relations: dict[Any, int] = {}
        node_types: list[int] = []
        edges: list[tuple[int, int, int]] = []
        for number, triple in enumerate(sorted(raw_tuples)):
            if self.verbose and number % self._print_every == 0:
                logger.info("%d triples, %d edges", number, len(edges))
            subject, predicate, thing = triple
            made = self.process_tuple(
                triple,
                self.parse_entity(subject),
                self.parse_relation(predicate),
                self.parse_entity(thing),
            )
            if made is None:
                continue
            ends, kind = (made[0], made[2]), _number(relations, made[1].cls)
            types = [_number(classes, end.cls) for end in ends]
            ids = []
            for end, end_type in zip(ends, types):
                ids.append(_number(entities, str(end)))
                if len(entities) > len(node_types):
                    node_types.append(end_type)
            edges.append((ids[0], ids[1], kind))
        table = torch.tensor(edges, dtype=torch.int64).view(-1, 3)
        self._g = self._typed(table, torch.tensor(node_types), list(classes), list(relations))
        self._set_labels(entities, root_path)

    def _typed(
        self, edges: Tensor, node_types: Tensor, ntypes: list[Any], etypes: list[Any]
    ) -> Graph:
        """Returns the graph of edges ``[num_edges, 3]``: source, destination, type."""
        src, dst, kind = edges.unbind(1)
        if self._insert_reverse:
            src, dst = torch.cat([src, dst]), torch.cat([dst, src])
            kind = torch.cat([kind, kind + len(etypes)])
            etypes = [*etypes, *(f"rev-{etype}" for etype in etypes)]
        whole = graph((src.contiguous(), dst.contiguous()), num_nodes=node_types.shape[0])
        whole.ndata[NTYPE], whole.edata[ETYPE] = node_types, kind
        names = [_RENAMED.get(etype, etype) for etype in etypes]
        return to_heterogeneous(whole, ntypes, names)

    def _set_labels(self, entities: dict[str, int], root_path: str) -> None:
        data = self._g.nodes[self.predict_category].data
        local = {node: n for n, node in enumerate(data[NID].tolist())}

        def node_of(entity: str) -> int | None:
            return local[entities[entity]] if entity in entities else None

        *parts, labels, self._num_classes = self.load_data_split(node_of, root_path)
        for mask, ids in zip(("train_mask", "test_mask"), parts):
            empty = torch.zeros(len(local), dtype=torch.bool)
            data[mask] = empty.index_fill(0, torch.as_tensor(ids, dtype=torch.int64), True)
        data["labels"] = torch.as_tensor(labels).long()
        data["label"] = data["labels"]

    def load_data_split(
        self, ent2id: Callable[[str], int | None], root_path: str
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
        """Returns the training and test nodes, the labels of all nodes, and how many classes."""
        numbers: dict[str, int] = {}
        labels = np.full(self._g.num_nodes(self.predict_category), -1, dtype=np.int64)
        train, test = (
            self.parse_idx_file(os.path.join(root_path, table), ent2id, numbers, labels)
            for table in _TABLES
        )
        return np.array(train, np.int64), np.array(test, np.int64), labels, len(numbers)

    def parse_idx_file(
        self,
        filename: str,
        ent2id: Callable[[str], int | None],
        label_dict: dict[str, int],
        labels: np.ndarray,
    ) -> list[int]:
        """Returns the nodes of a table, and writes their labels; entities without edges are left.

        Labels are numbered in the order in which they occur.
        """
        nodes = []
        lines = Path(filename).read_text(encoding="utf-8").split("\n")[1:]
        for line in filter(str.strip, lines):
            term, label = self.process_idx_file_line(line)
            entity = str(self.parse_entity(term))
            node = ent2id(entity)
            if node is None:
                logger.warning("%s: %s has no edges and is left out", self.name, entity)
                continue
            nodes.append(node)
            labels[node] = _number(label_dict, label)
        return nodes

    @property
    def predict_category(self) -> str:
        """The node type that has labels."""
        return self._predict_category

    @property
    def num_classes(self) -> int:
        """Number of labels that occur."""
        return self._num_classes


def _number(numbers: dict[Any, int], key: Any) -> int:
    """Returns the number of a key, the next one where it is new."""
    return numbers.setdefault(key, len(numbers))
