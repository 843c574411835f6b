"""Message passing written out with plain tensors: every message is stored, nothing is fused."""

import torch
from torch import Tensor

NAMES = {
    "abs": torch.abs,
    "dot": lambda a, b: (a * b).sum(-1, keepdim=True),
    "exp": torch.exp,
    "leaky_relu": torch.nn.functional.leaky_relu,
    "log": torch.log,
    "maximum": lambda a, b: torch.maximum(*_tensors(a, b)),
    "minimum": lambda a, b: torch.minimum(*_tensors(a, b)),
    "pow": torch.pow,
    "relu": torch.relu,
    "sigmoid": torch.sigmoid,
    "sqrt": torch.sqrt,
    "sum_last": lambda a: a.sum(-1, keepdim=True),
    "tanh": torch.tanh,
}


def _tensors(a, b):
    like = a if isinstance(a, Tensor) else b
    return [torch.as_tensor(x, dtype=like.dtype) for x in (a, b)]


def rows_of(indptr: Tensor) -> Tensor:
    """Row of each position of a compressed structure."""
    return torch.repeat_interleave(torch.arange(indptr.shape[0] - 1), indptr.diff().long())


def coo_of(edges: list[Tensor]) -> tuple[Tensor, Tensor]:
    """(column, row) of each edge in the order of edge ids."""
    rows, columns = rows_of(edges[0]), edges[1].long()
    if len(edges) == 2:
        return columns, rows
    order = torch.argsort(edges[2].long())
    return columns[order], rows[order]


def messages(text: str, src: Tensor, dst: Tensor, operands: list[Tensor]) -> Tensor:
    """The message of every edge ``[E, ...]``, in the order of ``src`` and ``dst``."""
    rank = max((x.dim() for x in operands), default=1)
    names = dict(NAMES)
    for i, x in enumerate(operands):
        x = x.reshape(x.shape[0], *(1,) * (rank - x.dim()), *x.shape[1:])
        for letter, index in (("u", src), ("v", dst), ("e", None)):
            if f"{letter}{i}" in text:
                names[f"{letter}{i}"] = x if index is None else x[index]
    return eval(text, {}, names)


def reduced(values: Tensor, dst: Tensor, num_dst: int, reduce: str, empty: float = 0) -> Tensor:
    """Sum, mean, max or min of the values of each destination, one node after another."""
    rows = []
    for node in range(num_dst):
        mine = values[dst == node]
        if mine.shape[0] == 0:
            rows.append(values.new_full(values.shape[1:], empty))
        elif reduce in ("sum", "mean"):
            rows.append(getattr(mine, reduce)(0))
        else:
            rows.append(getattr(mine, reduce)(0).values)
    return torch.stack(rows) if rows else values.new_zeros(0, *values.shape[1:])


def softmax(score: Tensor, row: Tensor, num_rows: int) -> Tensor:
    """Softmax over the edges of each row."""
    out = torch.zeros_like(score)
    for node in range(num_rows):
        mine = (row == node).nonzero().view(-1)
        if mine.shape[0]:
            out = out.index_copy(0, mine, score[mine].softmax(0))
    return out
