"""Input graphs: how the vertices of a sample depend on each other (Cavs §3)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from torch import Tensor

from smex.errors import SmexTypeError, SmexValueError
from smex.vertex.words.drawing import drawing

__all__ = ["GraphBatch", "InputGraph", "batch", "chain", "from_children", "from_graph",
           "from_parents", "tree"]  # fmt: skip

Array = np.ndarray
NO_TYPES = np.zeros(0, np.int64)


@runtime_checkable
class _Graph(Protocol):
    """What is read of an :class:`smex.graph.Graph`, which imports this package."""

    edges: Any
    ndata: Any

    def num_nodes(self) -> int: ...

    def batch_num_nodes(self) -> Tensor: ...


class InputGraph:
    """The vertices of one sample, numbered from 0, and the children that each of them gathers.

    Made by :func:`chain`, :func:`tree`, :func:`from_children`, :func:`from_parents` or
    :func:`from_graph`. A vertex may be the child of several; cycles, missing children and wrong
    numbers of children are found by :func:`smex.vertex.run`.

    Attributes:
        child_offsets: int64 ``[vertices + 1]``.
        children: int64 ``[edges]``, those of vertex v from ``child_offsets[v]``, by position.
        types: the name of each vertex's type, or None where there is only one.
        labels: the leaves of nested tuples, and None for what is no leaf; None for other graphs.
    """

    __slots__ = ("child_offsets", "children", "labels", "types")

    def __init__(
        self,
        child_offsets: Array,
        children: Array,
        types: Sequence[str] | None = None,
        labels: list[Any] | None = None,
    ):
        self.child_offsets = child_offsets
        self.children = children
        self.types = None if types is None else list(types)
        self.labels = labels
        if self.types is not None and len(self.types) != self.num_vertices:
            raise SmexValueError(
                f"InputGraph: expected a type for each of {self.num_vertices} vertices, found "
                f"{len(self.types)}"
            )

    @property
    def num_vertices(self) -> int:
        """The number of vertices."""
        return len(self.child_offsets) - 1

    def children_of(self, vertex: int) -> list[int]:
        """Returns the children of a vertex, by argument position."""
        begin, end = self.child_offsets[vertex : vertex + 2]
        return self.children[begin:end].tolist()

    def __repr__(self) -> str:
        return f"InputGraph({self.num_vertices} vertices, {len(self.children)} edges)"

    def _repr_html_(self) -> str:
        return drawing(self.child_offsets, self.children, self.types, self.labels, repr(self))


def from_children(
    children: Iterable[Iterable[int]], types: Sequence[str] | None = None
) -> InputGraph:
    """Returns the graph in which vertex v gathers ``children[v]``, in that order.

    Args:
        children: for each vertex its children.
        types: for each vertex the name of its type.

    Raises:
        SmexTypeError: a child is no int.
        SmexValueError: a child is beyond int64, or there are more or fewer types than vertices.

    Example:
        >>> smex.vertex.from_children([[], [], [0, 1], [2, 0]])
        InputGraph(4 vertices, 4 edges)
    """
    lists = [list(c) for c in children]
    flat = [c for one in lists for c in one]
    wrong = next((c for c in flat if not isinstance(c, (int, np.integer))), None)
    if wrong is not None:
        raise SmexTypeError(f"from_children: expected ints as children, found {wrong!r}")
    try:
        found = np.array(flat, np.int64)
    except OverflowError as error:  # others are found when the graph is run
        wrong = max(flat, key=abs)
        raise SmexValueError(
            f"from_children: expected vertices below {len(lists)} as children, found {wrong}"
        ) from error
    return InputGraph(_offsets([len(c) for c in lists]), found, types)


def from_parents(parents: Any, types: Sequence[str] | None = None) -> InputGraph:
    """Returns the forest in which vertex v is a child of ``parents[v]``, a root where that is -1.

    Args:
        parents: a list, array or tensor of ints. The children of a vertex are in the order of
            their numbers.
        types: for each vertex the name of its type.

    Raises:
        SmexTypeError: a parent is no int.
        SmexValueError: a parent is not a vertex, or there are more or fewer types than vertices.

    Example:
        >>> smex.vertex.from_parents([2, 2, -1]).children_of(2)
        [0, 1]
    """
    of_ints = isinstance(parents, (list, tuple)) and all(type(p) is int for p in parents)
    try:  # as objects where one may be beyond int64
        values = np.asarray(parents, object if of_ints else None).reshape(-1)
    except ValueError as error:
        raise SmexTypeError(
            f"from_parents: expected ints as parents, found {parents!r:.60}"
        ) from error
    if not of_ints and len(values) and not np.issubdtype(values.dtype, np.integer):
        raise SmexTypeError(f"from_parents: expected ints as parents, found {values.dtype}")
    wrong = np.flatnonzero((values < -1) | (values >= len(values)))
    if len(wrong):
        raise SmexValueError(
            f"from_parents: expected a vertex below {len(values)} or -1 as the parent of vertex "
            f"{wrong[0]}, found {values[wrong[0]]}"
        )
    values = values.astype(np.int64)
    order = np.argsort(values, kind="stable")
    roots = int((values == -1).sum())
    counts = np.bincount(values[values >= 0], minlength=len(values))
    return InputGraph(_offsets(counts), order[roots:].astype(np.int64), types)


def chain(length: int) -> InputGraph:
    """Returns a sequence: each vertex but the first gathers the one before it.

    Raises:
        SmexTypeError: the length is no int.
        SmexValueError: the length is negative.

    Example:
        >>> smex.vertex.chain(3).children_of(2)
        [1]
    """
    if not isinstance(length, (int, np.integer)):
        raise SmexTypeError(f"chain: expected an int as the length, found {length!r}")
    if length < 0:
        raise SmexValueError(f"chain: expected a length of at least 0, found {length}")
    offsets = np.maximum(np.arange(length + 1, dtype=np.int64) - 1, 0)
    return InputGraph(offsets, np.arange(max(length - 1, 0), dtype=np.int64))


def tree(nested: Any, type_of: Callable[[Any, int], str] | None = None) -> InputGraph:
    """Returns a tree from nested tuples or lists: each is a vertex, and what is in it its children.

    Anything else is a leaf, and its label. Vertices are numbered from the leaves up, left to right;
    the root is the last.

    Args:
        nested: such as ``((), ((), ()))`` or ``(("the", "film"), "works")``.
        type_of: the type of a vertex from its label, None for a tuple, and its number of children;
            None for one type.

    Example:
        >>> t = smex.vertex.tree((("the", "film"), "works"))
        >>> t.labels, t.children_of(4)
        (['the', 'film', None, 'works', None], [2, 3])
    """
    labels: list[Any] = []
    parents: list[int] = []
    # Without recursion, as trees may be deep; from the root on, and turned round after.
    stack: list[tuple[Any, int]] = [(nested, -1)]
    while stack:
        item, parent = stack.pop()
        is_leaf = not isinstance(item, (tuple, list))
        stack.extend((child, len(parents)) for child in (() if is_leaf else item))
        parents.append(parent)
        labels.append(item if is_leaf else None)
    labels.reverse()
    last = len(parents) - 1
    graph = from_parents([last - p if p >= 0 else -1 for p in reversed(parents)])
    graph.labels = labels
    if type_of is not None:
        counts = np.diff(graph.child_offsets).tolist()
        graph.types = [type_of(label, count) for label, count in zip(labels, counts)]
    return graph


def from_graph(graph: Any, types: str | None = None, reverse: bool = False) -> list[InputGraph]:
    """Returns the graphs of an :class:`smex.graph.Graph`, one for each that was batched in it.

    Args:
        graph: a homogeneous graph, whose edges go from children to parents, as messages do. A
            vertex gathers its children in the order of the edges' ids.
        types: the name of a node feature with each vertex's type as an int; it stands for the
            name ``str(type)``.
        reverse: edges go from parents to children.

    Raises:
        SmexTypeError: it is no such graph.

    Example:
        >>> g = smex.graph.graph(([0, 1], [2, 2]))
        >>> smex.vertex.from_graph(g)[0].children_of(2)
        [0, 1]
    """
    if not isinstance(graph, _Graph):
        raise SmexTypeError(
            f"from_graph: expected a smex.graph.Graph, found {type(graph).__name__}; for others "
            "there are from_children and from_parents"
        )
    src, dst = (ends.cpu().numpy().astype(np.int64) for ends in graph.edges(order="eid"))
    if reverse:
        src, dst = dst, src
    order = np.argsort(dst, kind="stable")
    offsets = _offsets(np.bincount(dst, minlength=graph.num_nodes()))
    children = src[order]
    kinds = None if types is None else [str(k) for k in graph.ndata[types].tolist()]
    graphs = []
    begin = 0
    for size in graph.batch_num_nodes().tolist():
        end = begin + size
        part = offsets[begin : end + 1]
        inside = children[part[0] : part[-1]] - begin
        graphs.append(
            InputGraph(part - part[0], inside, None if kinds is None else kinds[begin:end])
        )
        begin = end
    return graphs


class GraphBatch:
    """The graphs of a mini-batch, as flat arrays; vertices are numbered sample after sample.

    Attributes:
        sample_offsets: int64 ``[samples + 1]``, the first vertex of each sample.
        child_offsets: int64 ``[vertices + 1]``.
        children: int64 ``[edges]``, numbered through the batch.
        types: int64 ``[vertices]``, places in `type_names`; empty where there is only one type.
        type_names: the types' names, in alphabetical order.
    """

    def __init__(self, graphs: Sequence[InputGraph]):
        for graph in graphs:
            if not isinstance(graph, InputGraph):
                raise SmexTypeError(
                    f"smex.vertex.batch: expected InputGraphs, found {type(graph).__name__}; make "
                    "them by tree, chain, from_children, from_parents or from_graph"
                )
        self.sample_offsets = _offsets([g.num_vertices for g in graphs])
        edges = _offsets([len(g.children) for g in graphs])
        first = self.sample_offsets
        self.children = _concatenated([g.children + first[i] for i, g in enumerate(graphs)])
        tails = [g.child_offsets[1:] + edges[i] for i, g in enumerate(graphs)]
        self.child_offsets = np.concatenate([np.zeros(1, np.int64), *tails])
        self.type_names, self.types = _types(graphs)
        self.schedules: dict[Any, Any] = {}
        self._key: bytes | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "schedules": {}}  # which belong to streams of this process

    @property
    def num_vertices(self) -> int:
        """The number of vertices of all samples."""
        return int(self.sample_offsets[-1])

    @property
    def num_samples(self) -> int:
        """The number of samples."""
        return len(self.sample_offsets) - 1

    @property
    def key(self) -> bytes:
        """A hash of the structure."""
        if self._key is None:
            digest = hashlib.blake2b(digest_size=16)
            for array in (self.sample_offsets, self.child_offsets, self.children, self.types):
                digest.update(len(array).to_bytes(8, "little"))
                digest.update(np.ascontiguousarray(array).data)
            digest.update("\0".join(self.type_names).encode())
            self._key = digest.digest()
        return self._key

    def __repr__(self) -> str:
        return (
            f"GraphBatch({self.num_samples} samples, {self.num_vertices} vertices, "
            f"{len(self.children)} edges)"
        )


def batch(graphs: Iterable[InputGraph]) -> GraphBatch:
    """Puts the graphs of several samples together; worth it for a batch that is run often.

    Raises:
        SmexTypeError: something is no InputGraph.
        SmexValueError: some graphs have types and others have not.

    Example:
        >>> smex.vertex.batch([smex.vertex.chain(2), smex.vertex.chain(3)])
        GraphBatch(2 samples, 5 vertices, 3 edges)
    """
    return GraphBatch(list(graphs))


def as_batch(graphs: Any) -> GraphBatch:
    """Returns a batch of what `run` takes as graphs."""
    if isinstance(graphs, GraphBatch):
        return graphs
    if isinstance(graphs, InputGraph):
        return GraphBatch([graphs])
    if isinstance(graphs, (list, tuple)):
        return GraphBatch(graphs)
    if isinstance(graphs, _Graph):
        return GraphBatch(from_graph(graphs))
    raise SmexTypeError(
        f"smex.vertex.run: expected a list of InputGraphs, a GraphBatch or a smex.graph.Graph as "
        f"graphs, found {type(graphs).__name__}"
    )


def _types(graphs: Sequence[InputGraph]) -> tuple[list[str], Array]:
    typed = [g.types for g in graphs if g.types is not None]
    if not typed:
        return [], NO_TYPES
    missing = next((i for i, g in enumerate(graphs) if g.types is None and g.num_vertices), None)
    if missing is not None:
        raise SmexValueError(
            f"smex.vertex.batch: expected types for all samples or none, found none for sample "
            f"{missing}"
        )
    names = sorted({name for types in typed for name in types})
    numbers = {name: number for number, name in enumerate(names)}
    return names, np.array([numbers[name] for types in typed for name in types], np.int64)


def _offsets(counts: Any) -> Array:
    offsets = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=offsets[1:])
    return offsets


def _concatenated(arrays: list[Array]) -> Array:
    return np.concatenate(arrays) if arrays else np.zeros(0, np.int64)


def rows_tensor(array: Array) -> Tensor:
    """Returns an index tensor that shares the array's memory where that is writable."""
    import torch

    return torch.from_numpy(np.ascontiguousarray(array) if array.flags.writeable else array.copy())
