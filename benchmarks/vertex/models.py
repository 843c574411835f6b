"""The measured models as vertex functions, as loops over vertices, and as bare matrix products.

All train on given vectors for the words, and a sum of losses over all vertices.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import smex.vertex as sv

CLASSES = 5
Cell = Callable[[Tensor | None, list[Any]], Any]


class TreeLSTMLeaf(sv.VertexFunction):
    """The N-ary Tree-LSTM of Tai et al. at a word."""

    arity = (0, 0)

    def __init__(self, inputs: int, hidden: int):
        super().__init__(h=hidden, c=hidden)
        self.w = nn.Linear(inputs, 3 * hidden)
        self.classify = nn.Linear(hidden, CLASSES)

    def forward(self):
        h, c = sv.tree_lstm(self.w(self.pull()))
        self.scatter(h, c)
        self.push(self.classify(h))


class TreeLSTMInner(sv.VertexFunction):
    """The N-ary Tree-LSTM of Tai et al. above two phrases."""

    arity = 2

    def __init__(self, hidden: int, classify: nn.Linear):
        super().__init__(h=hidden, c=hidden)
        self.u = nn.Linear(2 * hidden, 5 * hidden)
        self.classify = classify

    def forward(self):
        left, right = self.gather(0), self.gather(1)
        h, c = sv.tree_lstm(self.u(torch.cat([left.h, right.h], 1)), [left.c, right.c])
        self.scatter(h, c)
        self.push(self.classify(h))


class FC(sv.VertexFunction):
    """Tree-FC: one fully connected layer over two children (Looks et al. 2017)."""

    arity = 2

    def __init__(self, hidden: int):
        super().__init__(h=hidden)
        self.u = nn.Linear(2 * hidden, hidden)
        self.classify = nn.Linear(hidden, CLASSES)

    def forward(self):
        left, right = self.gather(0), self.gather(1)
        h = torch.relu(self.u(torch.cat([left.h, right.h], 1)))
        self.scatter(h)
        self.push(self.classify(h))


class FCLeaf(sv.VertexFunction):
    """A leaf of Tree-FC is its input."""

    arity = (0, 0)

    def __init__(self, hidden: int, classify: nn.Linear):
        super().__init__(h=hidden)
        self.classify = classify

    def forward(self):
        h = self.pull()
        self.scatter(h)
        self.push(self.classify(h))


class LSTM(sv.VertexFunction):
    """A layer of nn.LSTM over a chain, with its parameters."""

    arity = 1

    def __init__(self, inputs: int, hidden: int):
        super().__init__(h=hidden, c=hidden)
        self.w = nn.Linear(inputs, 4 * hidden)
        self.u = nn.Linear(hidden, 4 * hidden, bias=False)
        self.classify = nn.Linear(hidden, CLASSES)

    def forward(self):
        before = self.gather(0)
        h, c = sv.lstm(self.w(self.pull()) + self.u(before.h), before.c)
        self.scatter(h, c)
        self.push(self.classify(h))


class ChildSum(sv.VertexFunction):
    """The child-sum Tree-LSTM of Tai et al., with an input at every vertex."""

    def __init__(self, inputs: int, hidden: int):
        super().__init__(h=hidden, c=hidden)
        self.w_iou, self.w_f = nn.Linear(inputs, 3 * hidden), nn.Linear(inputs, hidden)
        self.u_iou = nn.Linear(hidden, 3 * hidden, bias=False)
        self.u_f = nn.Linear(hidden, hidden, bias=False)
        self.classify = nn.Linear(hidden, CLASSES)

    def forward(self):
        x, children = self.pull(), self.gather_each()
        f = torch.sigmoid(self.spread(self.w_f(x)) + self.u_f(children.h))
        i, o, u = (self.w_iou(x) + self.u_iou(self.sum_children(children.h))).chunk(3, 1)
        c = torch.sigmoid(i) * torch.tanh(u) + self.sum_children(f * children.c)
        h = torch.sigmoid(o) * torch.tanh(c)
        self.scatter(h, c)
        self.push(self.classify(h))


class Model:
    """A model with a batch of trees.

    Args:
        name: tree-lstm, child-sum, tree-fc or lstm.
        trees: see samples.py.
        hidden: the size of states and of the words' vectors.
    """

    def __init__(self, name: str, trees: list[Any], hidden: int):
        torch.manual_seed(0)
        self.name, self.trees, self.hidden = name, trees, hidden
        self.is_typed = name in ("tree-lstm", "tree-fc")
        if not self.is_typed:
            one = LSTM(hidden, hidden) if name == "lstm" else ChildSum(hidden, hidden)
            self.functions: Any = one
            self.classify = one.classify
        elif name == "tree-lstm":
            leaf = TreeLSTMLeaf(hidden, hidden)
            inner = TreeLSTMInner(hidden, leaf.classify)
            self.functions = nn.ModuleDict({"inner": inner, "leaf": leaf})
            self.classify = leaf.classify
        else:
            inner_fc = FC(hidden)
            leaf_fc = FCLeaf(hidden, inner_fc.classify)
            self.functions = nn.ModuleDict({"inner": inner_fc, "leaf": leaf_fc})
            self.classify = inner_fc.classify
        self.parameters = list(self.functions.parameters())
        words = [w for t in trees for w in t["words"]]
        self.labels = torch.tensor([y for t in trees for y in t["labels"]])
        table = torch.randn(max(words) + 1, hidden)
        is_word = torch.ones(len(words), dtype=torch.bool)
        if self.is_typed:
            is_word = torch.tensor([not c for t in trees for c in t["children"]])
        self.word = torch.where(is_word, torch.tensor(words), -1)
        self.x = table[self.word[is_word]]
        self.graphs = [self._graph(t) for t in trees]
        self.inputs: Any = {"leaf": self.x} if self.is_typed else self.x
        self.rows = torch.full((len(words),), -1)
        self.rows[is_word] = torch.arange(int(is_word.sum()))

    def _graph(self, tree: Any) -> Any:
        types = None
        if self.is_typed:
            types = ["inner" if c else "leaf" for c in tree["children"]]
        return sv.from_children(tree["children"], types)

    def step(self) -> float:
        """A training step without the optimiser: all gradients are new."""
        for p in self.parameters:
            p.grad = None
        result = sv.run(self.functions, self.graphs, self.inputs)
        loss = F.cross_entropy(result.outputs["out"], self.labels, reduction="sum")
        loss.backward()
        return float(loss.detach())

    def loop_step(self) -> float:
        """The same, vertex by vertex."""
        for p in self.parameters:
            p.grad = None
        cell = getattr(self, "_" + self.name.replace("-", "_"))
        outs, first = [], 0
        for tree in self.trees:
            states: list[Any] = []
            for v, children in enumerate(tree["children"]):
                row = int(self.rows[first + v])
                x = self.x[row : row + 1] if row >= 0 else None
                states.append(cell(x, [states[c] for c in children]))
            outs += [s[0] for s in states]
            first += len(states)
        logits = self.classify(torch.cat(outs))
        loss = F.cross_entropy(logits, self.labels, reduction="sum")
        loss.backward()
        return float(loss.detach())

    def _tree_lstm(self, x: Tensor | None, children: list[Any]) -> Any:
        if x is not None:
            i, o, u = self.functions["leaf"].w(x).chunk(3, 1)
            c = torch.sigmoid(i) * torch.tanh(u)
        else:
            (lh, lc), (rh, rc) = children
            i, o, u, f, g = self.functions["inner"].u(torch.cat([lh, rh], 1)).chunk(5, 1)
            c = torch.sigmoid(i) * torch.tanh(u) + torch.sigmoid(f) * lc + torch.sigmoid(g) * rc
        return torch.sigmoid(o) * torch.tanh(c), c

    def _tree_fc(self, x: Tensor | None, children: list[Any]) -> Any:
        if x is not None:
            return (x,)
        return (torch.relu(self.functions["inner"].u(torch.cat([c[0] for c in children], 1))),)

    def _lstm(self, x: Tensor | None, children: list[Any]) -> Any:
        h, c = children[0] if children else (x.new_zeros(1, self.hidden),) * 2
        i, f, g, o = (self.functions.w(x) + self.functions.u(h)).chunk(4, 1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(c), c

    def products(self) -> Callable[[], None]:
        """The bound: the matrix products of a step, each once for all vertices of its kind."""
        inner = sum(bool(c) for t in self.trees for c in t["children"])
        leaves = sum(len(t["children"]) for t in self.trees) - inner
        h = self.hidden
        if self.name == "lstm":  # the gradient of the words' vectors is not wanted
            layers = [(inner + leaves, h, 4 * h, False), (inner, h, 4 * h, True)]
        elif self.name == "tree-lstm":
            layers = [(leaves, h, 3 * h, False), (inner, 2 * h, 5 * h, True)]
        elif self.name == "child-sum":
            edges = sum(len(c) for t in self.trees for c in t["children"])
            layers = [(inner + leaves, h, 4 * h, False), (inner, h, 3 * h, True)]
            layers.append((edges, h, h, True))
        else:
            layers = [(inner, 2 * h, h, True)]
        layers.append((inner + leaves, h, CLASSES, True))
        made = [
            (torch.randn(n, a), torch.randn(b, a), torch.randn(n, b), back)
            for n, a, b, back in layers
        ]

        def run() -> None:
            for x, w, g, back in made:
                x @ w.t()
                g.t() @ x
                if back:
                    g @ w

        return run
