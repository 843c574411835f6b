"""Knowledge graphs with edges to predict (Bordes et al., NeurIPS'13; Toutanova and Chen, CVSC'15).

``entities.dict`` and ``relations.dict`` have an id and a name a line, ``train.txt``, ``valid.txt``
and ``test.txt`` the names of a head, a relation and a tail, separated by tabs.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from smex.errors import SmexValueError
from smex.graph.creation.convert import graph
from smex.graph.data.dataset import DGLBuiltinDataset, Folder, OneGraphMixin, Transform

__all__ = ["FB15k237Dataset", "FB15kDataset", "KnowledgeGraphDataset", "WN18Dataset"]

_PARTS = ("train", "valid", "test")


class KnowledgeGraphDataset(OneGraphMixin, DGLBuiltinDataset):
    """One graph of entities, with the relations' numbers as types of edges.

    Edge features: ``etype``, int64; ``train_mask``, ``val_mask`` and ``test_mask``, bool, which
    have reverse edges too, and ``train_edge_mask``, ``valid_edge_mask`` and ``test_edge_mask``,
    which have none of them. Node feature ``ntype`` is 0. Edges are grouped by relation, in the
    order in which relations occur in the files; reverse edges follow, in the same order, with
    types from :attr:`num_rels` on.

    Args:
        name: ``"FB15k-237"``, ``"FB15k"`` or ``"wn18"``.
        reverse: whether there are reverse edges.
        raw_dir: see :class:`DGLBuiltinDataset`; the files are in the folder of the data's name.
        force_reload: without effect, nothing is kept.
        verbose: whether to show progress.
        transform: applied to the graph each time it is asked for.

    Raises:
        SmexRuntimeError: the files are nowhere and cannot be downloaded.
        SmexValueError: a line has no three names, or an unknown one.
    """

    def __init__(
        self,
        name: str,
        reverse: bool = True,
        raw_dir: Folder = None,
        force_reload: bool = False,
        verbose: bool = True,
        transform: Transform = None,
    ):
        self.reverse = reverse
        super().__init__(
            name,
            f"https://data.dgl.ai/dataset/{name}.tgz",
            raw_dir=raw_dir,
            hash_key=(name, reverse),
            force_reload=force_reload,
            verbose=verbose,
            transform=transform,
        )

    def _files(self) -> list[str]:
        return ["entities.dict", "relations.dict", *(f"{part}.txt" for part in _PARTS)]

    def _folders(self) -> tuple[str, ...]:
        return (self.name, f"{self.name}/{self.name}")

    def process(self) -> None:
        """Reads the files."""
        folder = Path(self.raw_path)
        entities, relations = (
            _names(folder / f"{kind}.dict") for kind in ("entities", "relations")
        )
        self._num_nodes, self._num_rels = len(entities), len(relations)
        triples = [_triples(folder / f"{part}.txt", entities, relations) for part in _PARTS]
        part = torch.arange(3).repeat_interleave(torch.tensor([len(each) for each in triples]))
        table = torch.cat(triples)
        order = _by_appearance(table[:, 1], len(relations))
        (src, kind, dst), part = table[order].unbind(1), part[order]
        forward = torch.ones_like(part, dtype=torch.bool)
        if self.reverse:
            src, dst = torch.cat([src, dst]), torch.cat([dst, src])
            kind, part = torch.cat([kind, kind + len(relations)]), part.repeat(2)
            forward = torch.cat([forward, ~forward])
        self._g = graph((src.contiguous(), dst.contiguous()), num_nodes=len(entities))
        self._g.ndata["ntype"] = torch.zeros(len(entities), dtype=torch.int64)
        self._g.edata["etype"] = kind.contiguous()
        for n, (name, edge_name) in enumerate(zip(("train", "val", "test"), _PARTS)):
            self._g.edata[f"{name}_mask"] = part == n
            self._g.edata[f"{edge_name}_edge_mask"] = (part == n) & forward

    @property
    def num_nodes(self) -> int:
        """Number of entities."""
        return self._num_nodes

    @property
    def num_rels(self) -> int:
        """Number of relations, without their reverses."""
        return self._num_rels


class _Named(KnowledgeGraphDataset):
    _published: str

    def __init__(
        self,
        reverse: bool = True,
        raw_dir: Folder = None,
        force_reload: bool = False,
        verbose: bool = True,
        transform: Transform = None,
    ):
        super().__init__(self._published, reverse, raw_dir, force_reload, verbose, transform)


class FB15k237Dataset(_Named):
    """FB15k-237: 14,541 entities, 237 relations, see :class:`KnowledgeGraphDataset`.

    272,115, 17,535 and 20,466 edges for training, validation and test.
    """

    _published = "FB15k-237"


class FB15kDataset(_Named):
    """FB15k: 14,951 entities, 1,345 relations, see :class:`KnowledgeGraphDataset`.

    483,142, 50,000 and 59,071 edges for training, validation and test.
    """

    _published = "FB15k"


class WN18Dataset(_Named):
    """WN18: 40,943 entities, 18 relations, see :class:`KnowledgeGraphDataset`.

    141,442, 5,000 and 5,000 edges for training, validation and test.
    """

    _published = "wn18"


_KINDS = {kind._published: kind for kind in (FB15k237Dataset, FB15kDataset, WN18Dataset)}


def load_data(dataset: str) -> KnowledgeGraphDataset:
    """Returns a knowledge graph by its name.

    Args:
        dataset: ``"FB15k-237"``, ``"FB15k"`` or ``"wn18"``.

    Raises:
        SmexValueError: another name.
    """
    if dataset not in _KINDS:
        raise SmexValueError(
            f'load_data: expected "FB15k-237", "FB15k" or "wn18", found {dataset!r}'
        )
    return _KINDS[dataset]()


def _names(path: Path) -> dict[str, int]:
    rows = (line.strip().split("\t") for line in path.read_text(encoding="utf-8").split("\n"))
    return {row[1]: int(row[0]) for row in rows if len(row) > 1}


def _triples(path: Path, entities: dict[str, int], relations: dict[str, int]) -> Tensor:
    """Returns the lines of a file as numbers ``[num_lines, 3]``."""
    rows = []
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
        if not line.strip():
            continue
        try:
            head, relation, tail = line.strip().split("\t")
            rows.append((entities[head], relations[relation], entities[tail]))
        except (KeyError, ValueError) as error:
            raise SmexValueError(
                f"KnowledgeGraphDataset: line {number} of {path}: expected three names of "
                f"entities.dict and relations.dict, found {line.strip()!r}; download it again"
            ) from error
    return torch.tensor(rows, dtype=torch.int64).view(-1, 3)


def _by_appearance(kinds: Tensor, number: int) -> Tensor:
    """Returns positions grouped by kind, in the order in which kinds appear."""
    first = torch.full((number,), kinds.shape[0])
    first.scatter_reduce_(0, kinds, torch.arange(kinds.shape[0]), "amin")
    return torch.argsort(first[kinds], stable=True)
