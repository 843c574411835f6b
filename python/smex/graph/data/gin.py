"""The data sets of graph isomorphism networks (Xu et al., ICLR'19), in their text format.

``NAME.txt`` starts with the number of graphs. A graph is a line ``nodes label`` and for each node
a line ``label neighbours neighbour ... attribute ...``.
"""

from __future__ import annotations

from pathlib import Path

import torch

from smex.errors import SmexValueError
from smex.graph.creation.convert import graph
from smex.graph.data.dataset import DGLBuiltinDataset, Folder, LabelledGraphsMixin, Transform
from smex.graph.graph import Graph
from smex.graph.transforms import add_self_loop

__all__ = ["GINDataset"]

_ADDRESS = "https://raw.githubusercontent.com/weihua916/powerful-gnns/master/dataset.zip"


class GINDataset(LabelledGraphsMixin, DGLBuiltinDataset):
    """Graphs of a data set of GIN, and a label, int64, for each.

    Node features: ``label``, int64 ``[num_nodes]``, numbered from 0 in the order of the values;
    ``attr``, float32 ``[num_nodes, dim_nfeats]``: the file's attributes, or the labels one-hot.

    Args:
        name: such as ``"MUTAG"``, ``"IMDBBINARY"``, ``"PTC"``.
        self_loop: whether each node gets a self loop.
        degree_as_nlabel: whether in-degrees, without the self loops, replace the labels.
        raw_dir: see :class:`DGLBuiltinDataset`; the file is ``NAME.txt`` in a folder of the data's
            name, or in ``GINDataset/dataset``.
        force_reload: without effect, nothing is kept.
        verbose: whether to show progress.
        transform: applied to a graph each time it is asked for.

    Raises:
        SmexRuntimeError: the file is nowhere and cannot be downloaded.
        SmexValueError: it is in another format.
    """

    def __init__(
        self,
        name: str,
        self_loop: bool,
        degree_as_nlabel: bool = False,
        raw_dir: Folder = None,
        force_reload: bool = False,
        verbose: bool = False,
        transform: Transform = None,
    ):
        self.self_loop, self.degree_as_nlabel = self_loop, degree_as_nlabel
        super().__init__(
            name,
            _ADDRESS,
            raw_dir=raw_dir,
            hash_key=(name, self_loop, degree_as_nlabel),
            force_reload=force_reload,
            verbose=verbose,
            transform=transform,
        )

    def _files(self) -> tuple[str, ...]:
        return (f"{self.name}.txt",)

    def _folders(self) -> tuple[str, ...]:
        return ("GINDataset", f"GINDataset/dataset/{self.name}", f"dataset/{self.name}", self.name)

    def process(self) -> None:
        """Reads the file."""
        path = Path(self.raw_path) / f"{self.name}.txt"
        lines = iter(path.read_text().splitlines())
        try:
            self._read(lines)
        except (StopIteration, ValueError, IndexError) as error:
            raise SmexValueError(
                f"GINDataset: {path} is not in the format of GIN's data sets: "
                f"{error or 'it ends too early'}; download it again"
            ) from error
        labels = torch.cat([g.ndata["label"] for g in self.graphs])
        values, numbers = torch.unique(labels, return_inverse=True)
        sizes = [g.num_nodes() for g in self.graphs]
        for g, part in zip(self.graphs, numbers.split(sizes)):
            g.ndata["label"] = part
            if "attr" not in g.ndata:
                one_hot = torch.nn.functional.one_hot(part, values.shape[0])
                g.ndata["attr"] = one_hot.float()
        self.dim_nfeats = self.graphs[0].ndata["attr"].shape[1]
        if self.self_loop:
            self.graphs = [add_self_loop(g) for g in self.graphs]

    def _read(self, lines) -> None:
        graphs, labels = [], []
        for _ in range(int(next(lines))):
            number, label = next(lines).split()
            graphs.append(self._read_graph([next(lines).split() for _ in range(int(number))]))
            labels.append(int(label))
        self.graphs = graphs
        self.labels = torch.unique(torch.tensor(labels), return_inverse=True)[1]
        self.gclasses = self.num_classes = int(self.labels.max()) + 1

    def _read_graph(self, rows: list[list[str]]) -> Graph:
        src, dst, labels, attributes = [], [], [], []
        for node, row in enumerate(rows):
            degree = int(row[1])
            neighbours = [int(text) for text in row[2 : 2 + degree]]
            if len(neighbours) != degree:
                raise ValueError(f"node {node} has {len(neighbours)} of {degree} neighbours")
            src += [node] * degree
            dst += neighbours
            labels.append(int(row[0]))
            attributes.append([float(text) for text in row[2 + degree :]])
        g = graph((src, dst), num_nodes=len(rows))
        g.ndata["label"] = g.in_degrees() if self.degree_as_nlabel else torch.tensor(labels)
        if attributes and attributes[0]:
            g.ndata["attr"] = torch.tensor(attributes)
        return g
