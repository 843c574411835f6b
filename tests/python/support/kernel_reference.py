"""What the operators on messages mean, in plain torch: every message stored, then reduced."""

from __future__ import annotations

import dataclasses
import re

import torch
from torch import Tensor
from torch.nn import functional as F

S = torch.ops.smex

_FUNCTIONS = {
    "abs": torch.abs,
    "dot": lambda a, b: (a * b).sum(-1, keepdim=True),
    "exp": torch.exp,
    "leaky_relu": F.leaky_relu,
    "log": torch.log,
    "maximum": lambda a, b: torch.maximum(a, torch.as_tensor(b, dtype=a.dtype)),
    "minimum": lambda a, b: torch.minimum(a, torch.as_tensor(b, dtype=a.dtype)),
    "pow": torch.pow,
    "relu": torch.relu,
    "sigmoid": torch.sigmoid,
    "sign": torch.sign,
    "sqrt": torch.sqrt,
    "step": lambda a: (a > 0).to(a.dtype),
    "sum_last": lambda a: a.sum(-1, keepdim=True),
    "tanh": torch.tanh,
}


def compressed(rows: Tensor, columns: Tensor, num_rows: int) -> list[Tensor]:
    """``[indptr, indices, eids]`` of edges grouped by row, in edge order within a row."""
    eids = torch.sort(rows, stable=True).indices
    indptr = torch.zeros(num_rows + 1, dtype=torch.long)
    indptr[1:] = torch.bincount(rows, minlength=num_rows).cumsum(0)
    return [x.to(rows.dtype).contiguous() for x in (indptr, columns[eids], eids)]


@dataclasses.dataclass
class Graph:
    """Edges from ``src`` to ``dst`` by id, and both compressed forms."""

    src: Tensor
    dst: Tensor
    num_src: int
    num_dst: int

    def __post_init__(self) -> None:
        self.in_edges = compressed(self.dst, self.src, self.num_dst)
        self.out_edges = compressed(self.src, self.dst, self.num_src)

    @property
    def num_edges(self) -> int:
        return len(self.src)

    def rows(self, target: str) -> int:
        return {"u": self.num_src, "v": self.num_dst, "e": self.num_edges}[target]


def random_graph(num_src=7, num_dst=6, num_edges=30, ids=torch.int64, hub=0.3, seed=0) -> Graph:
    """A multigraph with a hub, a node without in-edges and one without out-edges if possible."""
    draw = torch.Generator().manual_seed(seed)
    src = torch.randint(max(1, num_src - 1), (num_edges,), generator=draw)
    dst = torch.randint(max(1, num_dst - 1), (num_edges,), generator=draw)
    dst[torch.rand(num_edges, generator=draw) < hub] = 0
    return Graph(src.to(ids), dst.to(ids), num_src, num_dst)


def targets_of(message: str) -> list[str]:
    """``["u", "e"]`` of ``"u0 * e1"``."""
    found = {int(i): t for t, i in re.findall(r"\b([uve])(\d+)\b", message)}
    return [found[i] for i in range(len(found))]


def operands_for(graph: Graph, message: str, shapes, dtype=torch.float64, seed=1, low=-2.0):
    """Random operands that want gradients, away from 0."""
    draw = torch.Generator().manual_seed(seed)
    result = []
    for target, shape in zip(targets_of(message), shapes, strict=True):
        x = torch.rand(graph.rows(target), *shape, generator=draw, dtype=torch.float64) * 2 + 0.25
        if low < 0:
            x *= torch.where(torch.rand(x.shape, generator=draw) < 0.5, -1.0, 1.0)
        result.append(x.to(dtype).requires_grad_())
    return result


def messages(graph: Graph, message: str, operands: list[Tensor]) -> Tensor:
    """The message of every edge, in float64: [num_edges, ...]."""
    rank = max(x.dim() for x in operands)
    ids = {"u": graph.src.long(), "v": graph.dst.long(), "e": torch.arange(graph.num_edges)}
    values = dict(_FUNCTIONS)
    for i, (target, x) in enumerate(zip(targets_of(message), operands)):
        wide = x.double().reshape(x.shape[0], *[1] * (rank - x.dim()), *x.shape[1:])
        values[f"{target}{i}"] = wide[ids[target]]
    result = eval(message, values)
    return result


def winners(graph: Graph, stored: Tensor, reduce: str) -> Tensor:
    """The first edge, in edge order, with the extreme message; -1 without in-edges."""
    result = torch.full((graph.num_dst, *stored.shape[1:]), -1)
    for v in range(graph.num_dst):
        ids = (graph.dst == v).nonzero().flatten()
        if len(ids):
            best = stored[ids].amax(0) if reduce == "max" else stored[ids].amin(0)
            place = torch.arange(len(ids)).reshape(-1, *[1] * (stored.dim() - 1))
            first = torch.where(stored[ids] == best, place, len(ids)).amin(0)
            result[v] = ids[first]
    return result


def reduced(graph: Graph, stored: Tensor, reduce: str, empty: float = 0.0) -> Tensor:
    """Messages reduced at their destinations: [num_dst, ...]."""
    features = stored.shape[1:]
    dst = graph.dst.long()
    if reduce in ("sum", "mean"):
        out = torch.zeros(graph.num_dst, *features, dtype=stored.dtype).index_add(0, dst, stored)
        if reduce == "sum":
            return out
        degrees = torch.bincount(dst, minlength=graph.num_dst).clamp(min=1).double()
        return out / degrees.reshape(-1, *[1] * len(features))
    won = winners(graph, stored.detach(), reduce)
    if graph.num_edges == 0:
        nothing = stored.sum() * 0  # of which there are gradients
        return torch.full((graph.num_dst, *features), empty, dtype=stored.dtype) + nothing
    return torch.where(won < 0, empty, stored.gather(0, won.clamp(min=0)))


def softmax(graph: Graph, score: Tensor, by: str = "dst") -> Tensor:
    """Softmax over the edges that share a destination (or a source)."""
    out = torch.zeros(score.shape, dtype=torch.float64)
    ids, count = (graph.dst, graph.num_dst) if by == "dst" else (graph.src, graph.num_src)
    for v in range(count):
        own = (ids == v).nonzero().flatten()
        out = out.index_copy(0, own, torch.softmax(score.double()[own], 0))
    return out


def close(found: Tensor, expected: Tensor, dtype: torch.dtype, name: object = "") -> None:
    """Equal within the precision of ``dtype``; the same shape but for leading ones."""
    rtol, atol = {
        torch.float64: (1e-9, 1e-9),
        torch.float32: (1e-5, 2e-5),
        torch.float16: (4e-3, 1e-2),
        torch.bfloat16: (3e-2, 8e-2),
    }[dtype]
    assert found.dtype == dtype, name
    torch.testing.assert_close(
        found.double(), expected.double(), rtol=rtol, atol=atol, msg=lambda text: f"{name}: {text}"
    )
