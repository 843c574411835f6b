"""Graphs of the Semantic Web with nodes to classify (Ristoski et al., ISWC'16)."""

from __future__ import annotations

import re
from typing import Any, ClassVar

from smex.errors import SmexValueError
from smex.graph.data.dataset import Folder, Transform
from smex.graph.data.rdf_graph import Entity, RDFGraphDataset, Relation

__all__ = [
    "AIFBDataset",
    "AMDataset",
    "BGSDataset",
    "Entity",
    "MUTAGDataset",
    "RDFGraphDataset",
    "Relation",
]

_URL = "https://data.dgl.ai/dataset/rdf"


class _Published(RDFGraphDataset):
    """A data set whose names are known; a table has an entity and a label in two columns."""

    _published: ClassVar[str]
    _category: ClassVar[str]
    _entity_column: ClassVar[int] = 0
    entity_prefix: ClassVar[str]

    def __init__(
        self,
        print_every: int = 10000,
        insert_reverse: bool = True,
        raw_dir: Folder = None,
        force_reload: bool = False,
        verbose: bool = True,
        transform: Transform = None,
    ):
        super().__init__(
            self._published,
            f"{_URL}/{self._published}.zip",
            self._category,
            print_every,
            insert_reverse,
            raw_dir,
            force_reload,
            verbose,
            transform,
        )

    def process_tuple(
        self, raw_tuple: Any, sbj: Entity | None, rel: Relation | None, obj: Entity | None
    ) -> tuple[Entity, Relation, Entity] | None:
        """Leaves triples out of which a part is nothing."""
        return None if sbj is None or rel is None or obj is None else (sbj, rel, obj)

    def process_idx_file_line(self, line: str) -> tuple[str, str]:
        """Returns the entity and the label, which is in the last of three columns."""
        cells = line.strip().split("\t")
        return cells[self._entity_column], cells[2]

    def _parts(self, text: str, number: int) -> list[str]:
        """Returns a name's parts between slashes."""
        parts = text.split("/")
        if len(parts) != number:
            raise SmexValueError(
                f"{type(self).__name__}: expected names of {number} parts between slashes, found "
                f"{text}; download the files again"
            )
        return parts


class AIFBDataset(_Published):
    """An institute's people, publications and projects, see :class:`RDFGraphDataset`.

    7,262 nodes and 48,810 edges with their reverses. ``Personen`` belong to 4 research groups: 140
    of them for training, 36 for the test. Literals are nodes of type ``_Literal``.

    Args:
        print_every: see :class:`RDFGraphDataset`.
        insert_reverse: likewise.
        raw_dir: likewise; the files are in the folder ``aifb-hetero``, the tables have the columns
            ``person``, ``id`` and ``label_affiliation``.
        force_reload: likewise.
        verbose: likewise.
        transform: likewise.
    """

    _published, _category = "aifb-hetero", "Personen"
    entity_prefix = "http://www.aifb.uni-karlsruhe.de/"
    relation_prefix = "http://swrc.ontoware.org/"
    _left_out = (f"{relation_prefix}ontology#employs", f"{relation_prefix}ontology#affiliation")

    def parse_entity(self, term: Any) -> Entity | None:
        """The class is a name's first part, the id its third."""
        if isinstance(term, self._rdf.Literal):
            return Entity(str(term), "_Literal")
        if isinstance(term, self._rdf.BNode) or not str(term).startswith(self.entity_prefix):
            return None
        parts = str(term).split("/")
        return Entity(parts[5], parts[3])

    def parse_relation(self, term: Any) -> Relation | None:
        """What tells the label is left out."""
        text = str(term)
        if text in self._left_out:
            return None
        parts = text.split("/")
        return Relation(parts[3] if text.startswith(self.relation_prefix) else parts[-1])


class MUTAGDataset(_Published):
    """Molecules and whether they are mutagenic, see :class:`RDFGraphDataset`.

    27,163 nodes and 148,100 edges with their reverses. Molecules are nodes of type ``d`` in 2
    classes: 272 of them for training, 68 for the test.

    Args:
        print_every: see :class:`RDFGraphDataset`.
        insert_reverse: likewise.
        raw_dir: likewise; the files are in the folder ``mutag-hetero``, the tables have the columns
            ``bond``, ``id`` and ``label_mutagenic``.
        force_reload: likewise.
        verbose: likewise.
        transform: likewise.
    """

    _published, _category = "mutag-hetero", "d"
    entity_prefix = relation_prefix = "http://dl-learner.org/carcinogenesis#"
    d_entity, bond_entity = re.compile("d[0-9]"), re.compile("bond[0-9]")

    def parse_entity(self, term: Any) -> Entity | None:
        """Molecules and bonds are known by their names; what else there is gets its class later."""
        if isinstance(term, self._rdf.Literal):
            return Entity(str(term), "_Literal")
        if isinstance(term, self._rdf.BNode) or not str(term).startswith(self.entity_prefix):
            return None
        name = str(term)[len(self.entity_prefix) :]
        kinds = {"d": self.d_entity, "bond": self.bond_entity}
        return Entity(name, next((kind for kind, p in kinds.items() if p.match(name)), None))

    def parse_relation(self, term: Any) -> Relation | None:
        """What tells the label is left out."""
        text = str(term)
        if text == f"{self.relation_prefix}isMutagenic":
            return None
        own = text.startswith(self.relation_prefix)
        return Relation(text[len(self.relation_prefix) :] if own else text.split("/")[-1])

    def process_tuple(
        self, raw_tuple: Any, sbj: Entity | None, rel: Relation | None, obj: Entity | None
    ) -> tuple[Entity, Relation, Entity] | None:
        """Gives things a class: ``SCHEMA``, or the relation that leads to them."""
        if sbj is None or rel is None or obj is None:
            return None
        if not raw_tuple[1].startswith(self.relation_prefix):
            obj.cls = "SCHEMA"
            sbj.cls = "SCHEMA" if sbj.cls is None else sbj.cls
        obj.cls = rel.cls if obj.cls is None else obj.cls
        if sbj.cls is None:
            raise SmexValueError(
                f"MUTAGDataset: expected a molecule or a bond as subject of {rel}, found {sbj.id}; "
                "download the files again"
            )
        return sbj, rel, obj


class BGSDataset(_Published):
    """Rock units of the British Geological Survey, see :class:`RDFGraphDataset`.

    94,806 nodes and 672,884 edges with their reverses. Nodes of type ``Lexicon/NamedRockUnit`` are
    of 2 kinds of lithogenesis: 117 of them for training, 29 for the test. Literals are left out,
    and whether a term is current.

    Args:
        print_every: see :class:`RDFGraphDataset`.
        insert_reverse: likewise.
        raw_dir: likewise; the files are in the folder ``bgs-hetero``, the tables have the columns
            ``id``, ``rock`` and ``label_lithogenesis``.
        force_reload: likewise.
        verbose: likewise.
        transform: likewise.
    """

    _published, _category, _entity_column = "bgs-hetero", "Lexicon/NamedRockUnit", 1
    entity_prefix = "http://data.bgs.ac.uk/"
    status_prefix = f"{entity_prefix}ref/CurrentStatus"
    relation_prefix = f"{entity_prefix}ref"

    def parse_entity(self, term: Any) -> Entity | None:
        """The class are a name's fifth and sixth part, the id its seventh."""
        if isinstance(term, (self._rdf.Literal, self._rdf.BNode)):
            return None
        text = str(term)
        parts = text.split("/")
        if not text.startswith(self.entity_prefix) or text.startswith(self.status_prefix):
            return None
        return Entity(parts[6], f"{parts[4]}/{parts[5]}") if len(parts) == 7 else None

    def parse_relation(self, term: Any) -> Relation | None:
        """What tells the label is left out."""
        text = str(term)
        if text == f"{self.relation_prefix}/Lexicon/hasLithogenesis":
            return None
        if not text.startswith(self.relation_prefix):
            return Relation(text.replace(".", "_"))
        if len(text.split("/")) < 6:
            return None
        parts = self._parts(text, 6)
        return Relation(f"{parts[4]}/{parts[5]}")


class AMDataset(_Published):
    """Objects of the Amsterdam Museum, see :class:`RDFGraphDataset`.

    881,680 nodes and 5,668,682 edges with their reverses. Nodes of type ``proxy`` are of 11
    categories: 802 of them for training, 198 for the test. Literals are left out.

    Args:
        print_every: see :class:`RDFGraphDataset`.
        insert_reverse: likewise.
        raw_dir: likewise; the files are in the folder ``am-hetero``, the tables have the columns
            ``proxy``, ``id`` and ``label_cateogory``.
        force_reload: likewise.
        verbose: likewise.
        transform: likewise.
    """

    _published, _category = "am-hetero", "proxy"
    entity_prefix = relation_prefix = "http://purl.org/collections/nl/am/"
    _left_out = tuple(
        f"http://purl.org/collections/nl/am/{name}" for name in ("objectCategory", "material")
    )

    def parse_entity(self, term: Any) -> Entity | None:
        """Names are ``CLASS-ID``; others are of class ``TYPE``."""
        if isinstance(term, self._rdf.Literal):
            return None
        if isinstance(term, self._rdf.BNode):
            return Entity(str(term), "_BNode")
        if not str(term).startswith(self.entity_prefix):
            return None
        words = self._parts(str(term), 7)[6].split("-")
        return Entity(words[1], words[0]) if len(words) == 2 else Entity(words, "TYPE")

    def parse_relation(self, term: Any) -> Relation | None:
        """What tells the label is left out."""
        text = str(term)
        if text in self._left_out:
            return None
        if text.startswith(self.relation_prefix):
            return Relation(self._parts(text, 7)[6])
        return Relation(text.replace(".", "_"))
