"""Recursive networks beside what an expert writes for them by hand in torch, level by level.

    python benchmarks/vertex/experts.py [CASE ...] [--batches 8 64 256] [--hidden 64 256]
        [--threads 1 2] [--rounds 9] [--check | --options [OPTION ...]]

The expert knows the samples: vertices are numbered by level, the rows of children and of what is
still needed further up are index tensors that were made beforehand, what does not depend on
children is computed once for all vertices, and leaves are computed without products of zeros.
Autograd does the rest. Ours gets a prepared batch, of which the schedule is kept, too. A step is
forward, a sum over all states, and backward; ours and the expert's take turns, and medians are
told, with the ratio of the expert's to ours. Before, both have to give the same loss and gradients;
with --check nothing else is done. With --options it is told instead what each option of
smex.vertex.options is worth: the time of ours without it over the time with all, in turns, below 1
where the option loses.
"""

from __future__ import annotations

import argparse
import dataclasses
import random
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import samples
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import smex.vertex as sv

Children = list[list[int]]
INPUTS = 64


# ---- schedules ----


@dataclasses.dataclass
class Level:
    """What an expert has at hand of the vertices of one level.

    Attributes:
        rows: first and behind the last, of all vertices by level.
        slots: for each argument position rows of the pool.
        edges: rows of the pool, edge by edge.
        parents: of each edge the row within the level.
        kept: rows of the pool that levels above still read.
    """

    rows: tuple[int, int]
    slots: list[Tensor]
    edges: Tensor
    parents: Tensor
    kept: Tensor


class Levels:
    """The vertices of all samples by level; the pool begins with a row of zeros.

    Attributes:
        order: the vertex of each row.
        levels: from the leaves on.
        counts: children by row.
    """

    def __init__(self, trees: list[Children]):
        children: Children = []
        for tree in trees:
            first = len(children)
            children += [[first + c for c in own] for own in tree]
        level: list[int] = []
        for own in children:
            level.append(1 + max((level[c] for c in own), default=-1))
        order = sorted(range(len(children)), key=lambda v: (level[v], v))
        self.order = torch.tensor(order)
        self.counts = torch.tensor([len(children[v]) for v in order])
        last = list(level)  # by vertex the last level that reads it
        for v, own in enumerate(children):
            for c in own:
                last[c] = max(last[c], level[v])
        self.levels: list[Level] = []
        pool: list[int] = []  # by row behind the zeros its vertex
        begin = 0
        for number in range(max(level) + 1):
            own = [v for v in order[begin:] if level[v] == number]
            row_of = {v: row + 1 for row, v in enumerate(pool)}
            most = max(len(children[v]) for v in own)
            slots = [
                torch.tensor([row_of[children[v][s]] if s < len(children[v]) else 0 for v in own])
                for s in range(most)
            ]
            edges = [(row_of[c], row) for row, v in enumerate(own) for c in children[v]]
            kept = [v for v in pool if last[v] > number]
            self.levels.append(
                Level(
                    (begin, begin + len(own)), slots,
                    torch.tensor([e for e, _ in edges], dtype=torch.int64),
                    torch.tensor([p for _, p in edges], dtype=torch.int64),
                    torch.tensor([0, *(row_of[v] for v in kept)]),
                )
            )  # fmt: skip
            pool = [*kept, *(v for v in own if last[v] > number)]
            begin += len(own)
        needed = [last[v] > level[v] for v in order]
        self.needed = [
            torch.tensor(needed[a:b]).nonzero().flatten() for a, b in (x.rows for x in self.levels)
        ]


def run_levels(
    levels: Levels, states: list[int], leaves: Callable[..., Any], inner: Callable[..., Any]
) -> list[Tensor]:
    """The states of all vertices by level: `leaves(rows)`, then `inner(level, rows, *pools)`."""
    pools = [torch.zeros(1, size) for size in states]
    found: list[list[Tensor]] = [[] for _ in states]
    for number, level in enumerate(levels.levels):
        rows = slice(*level.rows)
        values = leaves(rows) if number == 0 else inner(level, rows, *pools)
        for each, value in zip(found, values):
            each.append(value)
        if number + 1 == len(levels.levels):
            break
        needed, size = levels.needed[number], level.rows[1] - level.rows[0]
        fresh = [v if len(needed) == size else v.index_select(0, needed) for v in values]
        pools = [torch.cat([p.index_select(0, level.kept), f]) for p, f in zip(pools, fresh)]
    return [torch.cat(each) for each in found]


def sums(value: Tensor, level: Level) -> Tensor:
    """Sums over the edges of each vertex."""
    rows = level.rows[1] - level.rows[0]
    return value.new_zeros(rows, value.shape[1]).index_add(0, level.parents, value)


# ---- the cells: as vertex functions, and by hand ----


class Case:
    """A network on samples.

    Attributes:
        function: ours, one for each type of vertices.
        inputs: a row for each vertex.
    """

    has_types = False

    def __init__(self, trees: list[Children], hidden: int):
        self.hidden = hidden
        self.levels = Levels(trees)
        vertices = len(self.levels.order)
        self.x = torch.randn(vertices, INPUTS)
        self.batch = sv.batch([sv.from_children(t, self.types(t)) for t in trees])
        self.ordered = self.x[self.levels.order]
        self.weights = torch.randn(vertices, hidden)
        self.ordered_weights = self.weights[self.levels.order]
        self.function = self.make()
        self.inputs: Any = self.x
        if self.has_types:
            is_leaf = torch.tensor([not own for tree in trees for own in tree])
            self.inputs = {"leaf": self.x[is_leaf]}

    def types(self, tree: Children) -> list[str] | None:
        return ["inner" if own else "leaf" for own in tree] if self.has_types else None

    def make(self) -> Any:
        raise NotImplementedError

    def by_hand(self) -> Tensor:
        """The states h of all vertices by level."""
        raise NotImplementedError

    def ours(self) -> Tensor:
        loss = (sv.run(self.function, self.batch, self.inputs).states["h"] * self.weights).sum()
        loss.backward()
        return loss.detach()

    def expert(self) -> Tensor:
        loss = (self.by_hand() * self.ordered_weights).sum()
        loss.backward()
        return loss.detach()

    def to(self, dtype: torch.dtype) -> None:
        """Changes the type of all numbers, and of new ones."""
        torch.set_default_dtype(dtype)
        self.function.to(dtype)
        for name in ("x", "ordered", "weights", "ordered_weights"):
            setattr(self, name, getattr(self, name).to(dtype))
        is_one = isinstance(self.inputs, Tensor)
        self.inputs = self.x if is_one else {k: v.to(dtype) for k, v in self.inputs.items()}

    def clear(self) -> None:
        for parameter in self.function.parameters():
            parameter.grad = None


class _NaryLeaf(sv.VertexFunction):
    arity = (0, 0)

    def __init__(self, hidden: int):
        super().__init__(h=hidden, c=hidden)
        self.w = nn.Linear(INPUTS, 3 * hidden)

    def forward(self):
        self.scatter(*sv.tree_lstm(self.w(self.pull())))


class _NaryInner(sv.VertexFunction):
    arity = 2

    def __init__(self, hidden: int):
        super().__init__(h=hidden, c=hidden)
        self.u = nn.Linear(2 * hidden, 5 * hidden)

    def forward(self):
        left, right = self.gather(0), self.gather(1)
        gates = self.u(torch.cat([left.h, right.h], 1))
        self.scatter(*sv.tree_lstm(gates, [left.c, right.c]))


class Nary(Case):
    """The N-ary Tree-LSTM on trees of SST."""

    has_types = True

    def make(self) -> Any:
        return nn.ModuleDict({"leaf": _NaryLeaf(self.hidden), "inner": _NaryInner(self.hidden)})

    def by_hand(self) -> Tensor:
        leaf, inner = self.function["leaf"], self.function["inner"]

        def leaves(rows: slice) -> Any:
            i, o, u = leaf.w(self.ordered[rows]).chunk(3, 1)
            c = torch.sigmoid(i) * torch.tanh(u)
            return torch.sigmoid(o) * torch.tanh(c), c

        def above(level: Level, rows: slice, h: Tensor, c: Tensor) -> Any:
            left, right = level.slots
            joined = torch.cat([h.index_select(0, left), h.index_select(0, right)], 1)
            i, o, u, f, g = inner.u(joined).chunk(5, 1)
            c = (
                torch.sigmoid(i) * torch.tanh(u)
                + torch.sigmoid(f) * c.index_select(0, left)
                + torch.sigmoid(g) * c.index_select(0, right)
            )
            return torch.sigmoid(o) * torch.tanh(c), c

        return run_levels(self.levels, [self.hidden] * 2, leaves, above)[0]


class _ChildSum(sv.VertexFunction):
    def __init__(self, hidden: int):
        super().__init__(h=hidden, c=hidden)
        self.w_iou, self.w_f = nn.Linear(INPUTS, 3 * hidden), nn.Linear(INPUTS, hidden)
        self.u_iou = nn.Linear(hidden, 3 * hidden, bias=False)
        self.u_f = nn.Linear(hidden, hidden, bias=False)

    def forward(self):
        x, children = self.pull(), self.gather_each()
        f = torch.sigmoid(self.spread(self.w_f(x)) + self.u_f(children.h))
        i, o, u = (self.w_iou(x) + self.u_iou(self.sum_children(children.h))).chunk(3, 1)
        c = torch.sigmoid(i) * torch.tanh(u) + self.sum_children(f * children.c)
        self.scatter(h=torch.sigmoid(o) * torch.tanh(c), c=c)


class ChildSum(Case):
    """The child-sum Tree-LSTM on trees of SST, with an input at every vertex."""

    def make(self) -> Any:
        return _ChildSum(self.hidden)

    def by_hand(self) -> Tensor:
        own = self.function
        iou, forget = own.w_iou(self.ordered), own.w_f(self.ordered)

        def leaves(rows: slice) -> Any:
            i, o, u = iou[rows].chunk(3, 1)
            c = torch.sigmoid(i) * torch.tanh(u)
            return torch.sigmoid(o) * torch.tanh(c), c

        def above(level: Level, rows: slice, h: Tensor, c: Tensor) -> Any:
            h, c = h.index_select(0, level.edges), c.index_select(0, level.edges)
            f = torch.sigmoid(forget[rows].index_select(0, level.parents) + own.u_f(h))
            i, o, u = (iou[rows] + own.u_iou(sums(h, level))).chunk(3, 1)
            c = torch.sigmoid(i) * torch.tanh(u) + sums(f * c, level)
            return torch.sigmoid(o) * torch.tanh(c), c

        return run_levels(self.levels, [self.hidden] * 2, leaves, above)[0]


class _LSTM(sv.VertexFunction):
    arity = 1

    def __init__(self, hidden: int):
        super().__init__(h=hidden, c=hidden)
        self.w = nn.Linear(INPUTS, 4 * hidden)
        self.u = nn.Linear(hidden, 4 * hidden, bias=False)

    def forward(self):
        before = self.gather(0)
        self.scatter(*sv.lstm(self.w(self.pull()) + self.u(before.h), before.c))


class LSTM(Case):
    """An LSTM's states over sentences of one length."""

    def make(self) -> Any:
        return _LSTM(self.hidden)

    def by_hand(self) -> Tensor:
        own, gates = self.function, self.function.w(self.ordered)
        found, h, c = [], None, None
        for level in self.levels.levels:  # all rows go on: nothing is to be picked
            part = gates[slice(*level.rows)]
            i, f, g, o = (part if h is None else part + own.u(h)).chunk(4, 1)
            new = torch.sigmoid(i) * torch.tanh(g)
            c = new if c is None else torch.sigmoid(f) * c + new
            h = torch.sigmoid(o) * torch.tanh(c)
            found.append(h)
        return torch.cat(found)


def gru(x: Tensor, h: Tensor, products: Tensor) -> Tensor:
    """A GRU cell as torch's, of the input's and the state's products."""
    (xr, xz, xn), (hr, hz, hn) = x.chunk(3, 1), products.chunk(3, 1)
    z = torch.sigmoid(xz + hz)
    n = torch.tanh(xn + torch.sigmoid(xr + hr) * hn)
    return n + z * (h - n)


class _GRU(sv.VertexFunction):
    arity = 1

    def __init__(self, hidden: int):
        super().__init__(h=hidden)
        self.w, self.u = nn.Linear(INPUTS, 3 * hidden), nn.Linear(hidden, 3 * hidden)

    def forward(self):
        h = self.gather(0).h
        self.scatter(gru(self.w(self.pull()), h, self.u(h)))


class GRU(Case):
    """A GRU's states over sentences of one length."""

    def make(self) -> Any:
        return _GRU(self.hidden)

    def by_hand(self) -> Tensor:
        own, gates = self.function, self.function.w(self.ordered)
        found = []
        h = torch.zeros(self.levels.levels[0].rows[1], self.hidden)
        for level in self.levels.levels:
            h = gru(gates[slice(*level.rows)], h, own.u(h))
            found.append(h)
        return torch.cat(found)


class _DagGRU(sv.VertexFunction):
    def __init__(self, hidden: int):
        super().__init__(h=hidden)
        self.w, self.u = nn.Linear(INPUTS, 3 * hidden), nn.Linear(hidden, 3 * hidden)

    def forward(self):
        h = self.gather_sum().h
        self.scatter(gru(self.w(self.pull()), h, self.u(h)))


class DagGRU(Case):
    """A GRU over graphs without cycles, of the sum of what comes in."""

    def make(self) -> Any:
        return _DagGRU(self.hidden)

    def by_hand(self) -> Tensor:
        own, gates = self.function, self.function.w(self.ordered)

        def leaves(rows: slice) -> Any:
            part = gates[rows]
            h = part.new_zeros(len(part), self.hidden)
            return (gru(part, h, own.u.bias.expand(len(part), -1)),)

        def above(level: Level, rows: slice, h: Tensor) -> Any:
            h = sums(h.index_select(0, level.edges), level)
            return (gru(gates[rows], h, own.u(h)),)

        return run_levels(self.levels, [self.hidden], leaves, above)[0]


class _Molecule(sv.VertexFunction):
    """Messages of an MLP over bonds, their mean, a norm."""

    def __init__(self, hidden: int):
        super().__init__(h=hidden)
        self.x, self.m = nn.Linear(INPUTS, hidden), nn.Linear(hidden, hidden)
        self.bond, self.norm = nn.Linear(INPUTS, hidden), nn.LayerNorm(hidden)

    def forward(self):
        x, children = self.pull(), self.gather_each()
        messages = torch.relu(self.m(children.h) + self.spread(self.bond(x)))
        count = self.num_children().clamp(min=1).to(x.dtype).unsqueeze(1)
        self.scatter(self.norm(torch.relu(self.x(x) + self.sum_children(messages) / count)))


class Molecule(Case):
    """Atoms by breadth-first search: messages by an MLP over bonds, mean, LayerNorm."""

    def make(self) -> Any:
        return _Molecule(self.hidden)

    def by_hand(self) -> Tensor:
        own = self.function
        atoms, bonds = own.x(self.ordered), own.bond(self.ordered)
        counts = self.levels.counts.to(atoms.dtype).unsqueeze(1)

        def leaves(rows: slice) -> Any:
            return (own.norm(torch.relu(atoms[rows])),)

        def above(level: Level, rows: slice, h: Tensor) -> Any:
            h = own.m(h.index_select(0, level.edges))
            messages = torch.relu(h + bonds[rows].index_select(0, level.parents))
            return (own.norm(torch.relu(atoms[rows] + sums(messages, level) / counts[rows])),)

        return run_levels(self.levels, [self.hidden], leaves, above)[0]


class _Attention(sv.VertexFunction):
    """Attention over the children, a norm."""

    def __init__(self, hidden: int):
        super().__init__(h=hidden)
        self.x, self.m = nn.Linear(INPUTS, hidden), nn.Linear(hidden, hidden)
        self.of_child, self.of_atom = nn.Linear(hidden, 1), nn.Linear(INPUTS, 1)
        self.norm = nn.LayerNorm(hidden)

    def forward(self):
        x, children = self.pull(), self.gather_each()
        scores = self.of_child(children.h) + self.spread(self.of_atom(x))
        weights = torch.exp(torch.tanh(scores))
        messages = self.sum_children(weights * self.m(children.h))
        total = self.sum_children(weights) + 1e-6
        self.scatter(self.norm(torch.relu(self.x(x) + messages / total)))


class Attention(Case):
    """The same with attention over the neighbours further out."""

    def make(self) -> Any:
        return _Attention(self.hidden)

    def by_hand(self) -> Tensor:
        own = self.function
        atoms, scored = own.x(self.ordered), own.of_atom(self.ordered)

        def leaves(rows: slice) -> Any:
            return (own.norm(torch.relu(atoms[rows])),)

        def above(level: Level, rows: slice, h: Tensor) -> Any:
            h = h.index_select(0, level.edges)
            scores = own.of_child(h) + scored[rows].index_select(0, level.parents)
            weights = torch.exp(torch.tanh(scores))
            total = sums(weights, level) + 1e-6
            messages = sums(weights * own.m(h), level)
            return (own.norm(torch.relu(atoms[rows] + messages / total)),)

        return run_levels(self.levels, [self.hidden], leaves, above)[0]


class _Word(sv.VertexFunction):
    arity = (0, 0)

    def __init__(self, hidden: int):
        super().__init__(h=hidden)
        self.w = nn.Linear(INPUTS, hidden)

    def forward(self):
        self.scatter(torch.tanh(self.w(self.pull())))


class _Encoder(sv.VertexFunction):
    """Two phrases as one, from which they can be told: the loss is part of the state."""

    arity = 2

    def __init__(self, hidden: int):
        super().__init__(h=hidden)
        self.encode, self.decode = nn.Linear(2 * hidden, hidden), nn.Linear(hidden, 2 * hidden)

    def forward(self):
        both = torch.cat([self.gather(0).h, self.gather(1).h], 1)
        h = torch.tanh(self.encode(both))
        self.scatter(h)
        self.push(error=((self.decode(h) - both) ** 2).sum(1, keepdim=True))


class Autoencoder(Case):
    """The recursive autoencoder of Socher et al. (2011) on trees of SST."""

    has_types = True

    def make(self) -> Any:
        return nn.ModuleDict({"leaf": _Word(self.hidden), "inner": _Encoder(self.hidden)})

    def ours(self) -> Tensor:
        result = sv.run(self.function, self.batch, self.inputs)
        loss = (result.states["h"] * self.weights).sum() + result.outputs["error"].sum()
        loss.backward()
        return loss.detach()

    def expert(self) -> Tensor:
        leaf, inner = self.function["leaf"], self.function["inner"]
        joined, encoded = [], []

        def leaves(rows: slice) -> Any:
            return (torch.tanh(leaf.w(self.ordered[rows])),)

        def above(level: Level, rows: slice, h: Tensor) -> Any:
            left, right = level.slots
            both = torch.cat([h.index_select(0, left), h.index_select(0, right)], 1)
            joined.append(both)
            encoded.append(torch.tanh(inner.encode(both)))
            return (encoded[-1],)

        (states,) = run_levels(self.levels, [self.hidden], leaves, above)
        both = torch.cat(joined)
        errors = F.mse_loss(inner.decode(torch.cat(encoded)), both, reduction="sum")
        loss = (states * self.ordered_weights).sum() + errors
        loss.backward()
        return loss.detach()


# ---- samples ----


def phrases(count: int) -> list[Children]:
    return [tree["children"] for tree in samples.sst("train", count)]


def chains(count: int, length: int = 35) -> list[Children]:
    return [[[v - 1] if v else [] for v in range(length)] for _ in range(count)]


def dags(count: int, vertices: int = 30) -> list[Children]:
    """Each reads one to three of the ten before it."""
    chance = random.Random(0)
    found = []
    for _ in range(count):
        found.append(
            [
                chance.sample(range(max(0, v - 10), v), min(v, chance.randint(1, 3)))
                for v in range(vertices)
            ]
        )
    return found


def molecules(count: int) -> list[Children]:
    """Trees of 12 to 30 atoms of at most three bonds outwards, as a search from one atom sees."""
    chance = random.Random(0)
    found = []
    for _ in range(count):
        size = chance.randint(12, 30)
        bonds: Children = [[]]
        for atom in range(1, size):
            free = [a for a in range(max(0, atom - 6), atom) if len(bonds[a]) < 3]
            bonds[chance.choice(free)].append(atom)
            bonds.append([])
        # Children come first: the other way round.
        found.append([[size - 1 - c for c in bonds[size - 1 - v]] for v in range(size)])
    return found


CASES: dict[str, tuple[type[Case], Callable[[int], list[Children]]]] = {
    "tree-lstm": (Nary, phrases),
    "child-sum": (ChildSum, phrases),
    "lstm": (LSTM, chains),
    "gru": (GRU, chains),
    "dag-gru": (DagGRU, dags),
    "molecule": (Molecule, molecules),
    "attention": (Attention, molecules),
    "autoencoder": (Autoencoder, phrases),
}


# ---- measuring ----


def check(case: Case) -> None:
    """Raises AssertionError where loss or gradients differ.

    In float64: what is next to 0 may be on either side of it otherwise, and relu tells them apart.
    """
    case.to(torch.float64)
    found = []
    for step in (case.ours, case.expert):
        case.clear()
        loss = step()
        found.append((loss, [p.grad.clone() for p in case.function.parameters()]))
    (loss, grads), (by_hand, grads_by_hand) = found
    torch.testing.assert_close(loss, by_hand, rtol=1e-9, atol=1e-9)
    for one, other in zip(grads, grads_by_hand, strict=True):
        scale = float(other.abs().max())
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-10 * max(scale, 1e-6))
    case.to(torch.float32)
    case.clear()


def measured(case: Case, steps: list[Callable[[], Any]], rounds: int) -> list[float]:
    """Medians of the seconds of each, in turns."""
    taken: list[list[float]] = [[] for _ in steps]
    for number in range(rounds + 2):
        for own, step in zip(taken, steps):
            case.clear()
            begin = time.perf_counter()
            step()
            if number >= 2:
                own.append(time.perf_counter() - begin)
    return [statistics.median(own) for own in taken]


# Of each option of smex.vertex.options what it is without.
WITHOUT: dict[str, Any] = {
    "hoist": False, "lazy": False, "fuse": False, "beside": False, "policy": "depth",
    "trace": False,
}  # fmt: skip


def without(case: Case, option: str) -> Callable[[], Any]:
    """Ours without an option."""

    def step() -> None:
        with sv.options(**{option: WITHOUT[option]}):
            case.ours()

    return step


def print_head(titles: list[str]) -> None:
    """Prints the first lines of a table."""
    print("| " + " | ".join(titles) + " |")
    print("|---" + "|---:" * (len(titles) - 1) + "|")


def compare_options(arguments: argparse.Namespace) -> None:
    """Prints for each case what the options are worth."""
    settings = [(b, h) for b in arguments.batches for h in arguments.hidden]
    names = arguments.options or list(WITHOUT)
    print(
        f"torch {torch.__version__}; time without the option over that with all, and ours in ms\n"
    )
    print_head(["", "threads", "without", *(f"{b} × {h}" for b, h in settings)])
    for name in arguments.cases or CASES:
        make, graphs = CASES[name]
        rows: dict[tuple[int, str], list[str]] = {}
        for batch, hidden in settings:
            torch.manual_seed(0)
            case = make(graphs(batch), hidden)
            steps = [case.ours, *(without(case, option) for option in names)]
            for threads in arguments.threads:
                torch.set_num_threads(threads)
                ours, *others = measured(case, steps, arguments.rounds)
                rows.setdefault((threads, "none, ms"), []).append(f"{1e3 * ours:.1f}")
                for option, seconds in zip(names, others):
                    rows.setdefault((threads, option), []).append(f"{seconds / ours:.2f}")
        for (threads, option), texts in sorted(rows.items(), key=lambda row: row[0][0]):
            print(f"| {name} | {threads} | {option} | " + " | ".join(texts) + " |", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"of {', '.join(CASES)}")
    parser.add_argument("--batches", type=int, nargs="*", default=[8, 64, 256])
    parser.add_argument("--hidden", type=int, nargs="*", default=[64, 256])
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--check", action="store_true", help="compare results, and measure nothing")
    parser.add_argument(
        "--options", nargs="*", choices=[*WITHOUT], help="what each of these is worth, or each"
    )
    options = parser.parse_args()
    unknown = sorted({*options.cases} - {*CASES})
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}; there are {', '.join(CASES)}")
    if options.options is not None:
        compare_options(options)
        return 0
    settings = [(b, h) for b in options.batches for h in options.hidden]
    print(f"torch {torch.__version__}; milliseconds of ours, and the expert's over ours\n")
    print_head(["", "threads", *(f"{b} × {h}" for b, h in settings)])
    ratios = []
    for name in options.cases or CASES:
        make, graphs = CASES[name]
        rows: dict[int, list[str]] = {threads: [] for threads in options.threads}
        for batch, hidden in settings:
            torch.manual_seed(0)
            case = make(graphs(batch), hidden)
            check(case)
            for threads in options.threads if not options.check else ():
                torch.set_num_threads(threads)
                ours, by_hand = measured(case, [case.ours, case.expert], options.rounds)
                ratios.append(by_hand / ours)
                rows[threads].append(f"{1e3 * ours:.1f} ({by_hand / ours:.2f})")
        for threads, texts in rows.items():
            print(f"| {name} | {threads} | " + " | ".join(texts or ["the same"]) + " |", flush=True)
    if ratios:
        enough, more = (sum(r >= bar for r in ratios) for bar in (1.0, 1.3))
        print(f"\nof {len(ratios)}: {enough} at least as fast as the expert, {more} 1.3 times")
    return 0


if __name__ == "__main__":
    sys.exit(main())
