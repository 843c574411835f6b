"""Vertex functions, and what they compute vertex by vertex: the oracle of the tests."""

import random

import torch
from torch import Tensor, nn

import smex.vertex as sv


class Binary(sv.VertexFunction):
    """A binary Tree-LSTM with an input at every vertex; outputs are scores."""

    def __init__(self, inputs, hidden):
        super().__init__(h=hidden, c=hidden)
        self.w = nn.Linear(inputs, 5 * hidden)
        self.left = nn.Linear(hidden, 5 * hidden, bias=False)
        self.right = nn.Linear(hidden, 5 * hidden, bias=False)
        self.score = nn.Linear(hidden, 3)

    def forward(self):
        left, right = self.gather(0), self.gather(1)
        h, c = self.cell(self.pull(), (left.h, left.c), (right.h, right.c))
        self.scatter(h, c)
        self.push(self.score(h))

    def cell(self, x, left, right):
        gates = self.w(x) + self.left(left[0]) + self.right(right[0])
        return sv.tree_lstm(gates, [left[1], right[1]])

    def recursive(self, x, children):
        none = (x.new_zeros(1, self.state_shapes["h"][0]),) * 2
        h, c = self.cell(x, *[*children, none, none][:2])
        return (h, c), self.score(h)


class Joined(sv.VertexFunction):
    """An LSTM of two children whose states are put side by side."""

    def __init__(self, inputs, hidden):
        super().__init__(h=hidden, c=hidden)
        self.w = nn.Linear(inputs, 5 * hidden)
        self.u = nn.Linear(2 * hidden, 5 * hidden)
        self.score = nn.Linear(hidden, 3)

    def forward(self):
        left, right = self.gather(0), self.gather(1)
        h, c = self.cell(self.pull(), (left.h, left.c), (right.h, right.c))
        self.scatter(h, c)
        self.push(self.score(h))

    def cell(self, x, left, right):
        gates = self.w(x) + self.u(torch.cat([left[0], right[0]], 1))
        return sv.tree_lstm(gates, [left[1], right[1]])

    recursive = Binary.recursive


class ChildSum(sv.VertexFunction):
    """A child-sum Tree-LSTM, for any number of children."""

    def __init__(self, inputs, hidden):
        super().__init__(h=hidden, c=hidden)
        self.w = nn.Linear(inputs, 4 * hidden)
        self.u = nn.Linear(hidden, 3 * hidden)
        self.forget = nn.Linear(hidden, hidden)
        self.hidden = hidden

    def forward(self):
        x = self.w(self.pull())
        children = self.gather_each()
        forget = torch.sigmoid(self.spread(x[:, 3 * self.hidden :]) + self.forget(children.h))
        kept = self.sum_children(forget * children.c)
        h, c = self.cell(x, self.sum_children(children.h), kept)
        self.scatter(h=h, c=c)
        self.push(h * 2)

    def cell(self, x, h_sum, kept):
        i, o, u = (x[:, : 3 * self.hidden] + self.u(h_sum)).chunk(3, 1)
        c = torch.sigmoid(i) * torch.tanh(u) + kept
        return torch.sigmoid(o) * torch.tanh(c), c

    def recursive(self, x, children):
        x = self.w(x)
        h_sum = x.new_zeros(1, self.hidden)
        kept = x.new_zeros(1, self.hidden)
        for h, c in children:
            h_sum = h_sum + h
            kept = kept + torch.sigmoid(x[:, 3 * self.hidden :] + self.forget(h)) * c
        h, c = self.cell(x, h_sum, kept)
        return (h, c), h * 2


class Average(sv.VertexFunction):
    """The mean of the children's states: `num_children`, and `gather_sum`, and states of a shape."""

    def __init__(self, inputs, hidden):
        super().__init__(h=(2, hidden))
        self.w = nn.Linear(inputs, 2 * hidden)
        self.hidden = hidden

    def forward(self):
        x = self.w(self.pull()).view(-1, 2, self.hidden)
        count = self.num_children().clamp(min=1).to(x.dtype).view(-1, 1, 1)
        h = torch.relu(x + self.gather_sum().h / count)
        self.scatter(h)
        self.push(h.flatten(1))

    def recursive(self, x, children):
        x = self.w(x).view(1, 2, self.hidden)
        mean = sum((c[0] for c in children), x.new_zeros(1, 2, self.hidden))
        h = torch.relu(x + mean / max(len(children), 1))
        return (h,), h.flatten(1)


class Stacked(sv.VertexFunction):
    """A layer over two children in one tensor, which has a row for each of them, and a choice."""

    def __init__(self, inputs, hidden):
        super().__init__(h=hidden)
        self.w, self.u = nn.Linear(inputs, hidden), nn.Linear(hidden, hidden)

    def forward(self):
        h, score = self.cell(self.pull(), self.gather(0).h, self.gather(1).h)
        self.scatter(h)
        self.push(score)

    def cell(self, x, left, right):
        both = torch.tanh(self.u(torch.stack([left, right], 1)) + self.w(x).unsqueeze(1))
        return torch.where(left > right, both[:, 0], both[:, 1]), both.sum(1)

    def recursive(self, x, children):
        none = (x.new_zeros(1, self.state_shapes["h"][0]),)
        left, right = [*children, none, none][:2]
        h, score = self.cell(x, left[0], right[0])
        return (h,), score


def evaluate(function, graph, x):
    """States and outputs of all vertices of a graph, each computed alone when it is asked for."""
    done = {}
    for start in range(graph.num_vertices):
        stack = [start]
        while stack:
            v = stack[-1]
            waits = [c for c in graph.children_of(v) if c not in done]
            if waits:
                stack += waits
                continue
            stack.pop()
            if v not in done:
                children = [done[c][0] for c in graph.children_of(v)]
                done[v] = function.recursive(x[v : v + 1], children)
    order = range(graph.num_vertices)
    states = [torch.cat(rows) for rows in zip(*(done[v][0] for v in order))]
    return states, torch.cat([done[v][1] for v in order])


def expected(function, graphs, x):
    """States and outputs of a batch."""
    parts, first = [], 0
    for graph in graphs:
        if graph.num_vertices:
            parts.append(evaluate(function, graph, x[first : first + graph.num_vertices]))
        first += graph.num_vertices
    states = [torch.cat(rows) for rows in zip(*(p[0] for p in parts))]
    return states, torch.cat([p[1] for p in parts])


def loss_of(states, output) -> Tensor:
    """A number that depends on all of them, differently on each."""
    total = (output**2).sum() + output.sum()
    for i, state in enumerate(states):
        weight = torch.linspace(-1, 1, state.numel(), dtype=state.dtype, device=state.device)
        weight = weight.view(state.shape)
        total = total + (state * weight).sum() + (state * (i + 2)).sin().sum()
    return total


def random_graph(vertices, most, seed, shared=True):
    """Each vertex has up to `most` children before it; `shared`: they may have other parents."""
    generator = random.Random(seed)
    free = []
    lists = []
    for v in range(vertices):
        count = generator.randint(0, most)
        if shared:
            lists.append([generator.randrange(v) for _ in range(count)] if v else [])
        else:
            chosen = generator.sample(free, min(count, len(free)))
            free = [c for c in free if c not in chosen] + [v]
            lists.append(chosen)
    order = list(range(vertices))
    generator.shuffle(order)  # numbers say nothing of the order
    renamed = [[] for _ in range(vertices)]
    for v, children in enumerate(lists):
        renamed[order[v]] = [order[c] for c in children]
    return sv.from_children(renamed)


def star(leaves):
    """A vertex with many children."""
    return sv.from_children([[] for _ in range(leaves)] + [list(range(leaves))])
