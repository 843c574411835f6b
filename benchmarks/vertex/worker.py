"""One system on one batch, in that system's environment: a line in, the seconds of a step out.

    python worker.py SYSTEM MODEL HIDDEN THREADS CLOCK TREES.json

Trees are those of samples.py. Every step makes all gradients of the parameters, without an
optimiser; words have given vectors. DyNet computes on one thread whatever is asked for.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

Step = Callable[[], Any]


def own(system: str, model: str, trees: list[Any], hidden: int) -> Step:
    import torch
    from models import Model
    from torch import nn

    import smex.graph as sg
    import smex.vertex as sv

    made = Model(model, trees, hidden)
    if system == "bound":
        return made.products()
    if system == "loop":
        return made.loop_step
    if system in ("nn.LSTM", "unrolled"):
        return static(system, made, torch, nn)
    name, *off = system.split(" without ")
    run = made.step
    if name == "smex prop_nodes_topo":
        run = prop_nodes_topo(sg, model, trees, hidden)

    def step() -> None:
        with sv.options(**dict.fromkeys(off, False)):
            run()

    return step


def static(system: str, made: Any, torch: Any, nn: Any) -> Step:
    """Chains of one length, as layers for them."""
    length, count, hidden = len(made.trees[0]["children"]), len(made.trees), made.hidden
    x = made.x.view(count, length, hidden).transpose(0, 1).contiguous()
    lstm = nn.LSTM(hidden, hidden)
    layers = [lstm, made.functions.w, made.functions.u, made.classify]
    parameters = [p for layer in layers for p in layer.parameters()]
    labels = made.labels.view(count, length).t().flatten()

    def unrolled() -> Any:
        h = c = x.new_zeros(count, hidden)
        gates = made.functions.w(x).unbind(0)
        outs = []
        for t in range(length):
            i, f, g, o = (gates[t] + made.functions.u(h)).chunk(4, 1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
            outs.append(h)
        return torch.stack(outs)

    def step() -> None:
        for p in parameters:
            p.grad = None
        out = lstm(x)[0] if system == "nn.LSTM" else unrolled()
        scores = made.classify(out).flatten(0, 1)
        nn.functional.cross_entropy(scores, labels, reduction="sum").backward()

    return step


def dgl(model: str, trees: list[Any], hidden: int) -> Step:
    import dgl as library

    return prop_nodes_topo(library, model, trees, hidden)


def prop_nodes_topo(library: Any, model: str, trees: list[Any], hidden: int) -> Step:
    """prop_nodes_topo with functions of the user, as DGL's Tree-LSTM example has it.

    Args:
        library: dgl, or smex.graph.
    """
    import torch
    from torch import nn

    u_iou = nn.Linear(2 * hidden, 3 * hidden)
    u_f = nn.Linear(2 * hidden, 2 * hidden)
    w_iou = nn.Linear(hidden, 3 * hidden)
    u_fc, classify = nn.Linear(2 * hidden, hidden), nn.Linear(hidden, 5)
    w_lstm, u_lstm = nn.Linear(hidden, 4 * hidden), nn.Linear(hidden, 4 * hidden, bias=False)
    layers = {"tree-lstm": [u_iou, u_f, w_iou], "tree-fc": [u_fc], "lstm": [w_lstm, u_lstm]}
    parameters = [p for layer in [*layers[model], classify] for p in layer.parameters()]
    graphs = []
    for tree in trees:
        pairs = [(c, v) for v, children in enumerate(tree["children"]) for c in children]
        src, dst = zip(*pairs) if pairs else ((), ())
        graphs.append(library.graph((list(src), list(dst)), num_nodes=len(tree["children"])))
    g = library.batch(graphs)
    labels = torch.tensor([y for t in trees for y in t["labels"]])
    is_leaf = g.in_degrees() == 0
    x = torch.randn(g.num_nodes(), hidden)

    def message(edges: Any) -> Any:
        return {k: edges.src[k] for k in ("h", "c") if k in edges.src}

    def reduce(nodes: Any) -> Any:
        box = nodes.mailbox["h"]
        both = box.reshape(box.shape[0], -1)
        if model == "tree-fc":
            return {"h": torch.relu(u_fc(both))}
        if model == "lstm":
            return {"iou": nodes.data["x"] + u_lstm(both), "c": nodes.mailbox["c"][:, 0]}
        f = torch.sigmoid(u_f(both)).view(box.shape)
        return {"iou": u_iou(both), "c": (f * nodes.mailbox["c"]).sum(1)}

    def apply(nodes: Any) -> Any:
        if model == "tree-fc":
            return {"h": nodes.data["h"]}
        gates = nodes.data["iou"].chunk(4 if model == "lstm" else 3, 1)
        if model == "lstm":
            i, f, u, o = gates
            c = torch.sigmoid(i) * torch.tanh(u) + torch.sigmoid(f) * nodes.data["c"]
        else:
            i, o, u = gates
            c = torch.sigmoid(i) * torch.tanh(u) + nodes.data["c"]
        return {"h": torch.sigmoid(o) * torch.tanh(c), "c": c}

    def step() -> None:
        for p in parameters:
            p.grad = None
        zeros = torch.zeros(g.num_nodes(), hidden)
        g.ndata["h"] = x * is_leaf[:, None] if model == "tree-fc" else zeros
        if model == "tree-lstm":
            g.ndata["iou"] = w_iou(x * is_leaf[:, None])
            g.ndata["c"] = zeros
        elif model == "lstm":
            g.ndata["x"] = g.ndata["iou"] = w_lstm(x)
            g.ndata["c"] = zeros
        library.prop_nodes_topo(g, message, reduce, apply_node_func=apply)
        loss = nn.functional.cross_entropy(classify(g.ndata["h"]), labels, reduction="sum")
        loss.backward()

    return step


def torchfold(model: str, trees: list[Any], hidden: int) -> Step:
    import torch
    from torch import nn

    class _Tensors:  # what torchfold 0.1.0 looks for in torch.tensor, a function since torch 0.4
        _TensorBase = torch.Tensor

        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            return torch.as_tensor(*args, **kwargs)

    torch.tensor = _Tensors()
    import torchfold as library

    rows = max(w for t in trees for w in t["words"]) + 1
    table = torch.randn(rows, hidden)

    class Folded(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = nn.Linear(hidden, 3 * hidden)
            self.u = nn.Linear(2 * hidden, 5 * hidden if model == "tree-lstm" else hidden)
            self.wx, self.wh = nn.Linear(hidden, 4 * hidden), nn.Linear(hidden, 4 * hidden, False)
            self.classify = nn.Linear(hidden, 5)

        def leaf(self, word: Any) -> Any:
            x = table[word]
            if model == "tree-fc":
                return x
            if model == "lstm":
                return self.lstm(word, x.new_zeros(x.shape), x.new_zeros(x.shape))
            i, o, u = self.w(x).chunk(3, 1)
            c = torch.sigmoid(i) * torch.tanh(u)
            return torch.sigmoid(o) * torch.tanh(c), c

        def lstm(self, word: Any, h: Any, c: Any) -> Any:
            i, f, g, o = (self.wx(table[word]) + self.wh(h)).chunk(4, 1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            return torch.sigmoid(o) * torch.tanh(c), c

        def inner(self, lh: Any, lc: Any, rh: Any, rc: Any) -> Any:
            i, o, u, f, g = self.u(torch.cat([lh, rh], 1)).chunk(5, 1)
            c = torch.sigmoid(i) * torch.tanh(u) + torch.sigmoid(f) * lc + torch.sigmoid(g) * rc
            return torch.sigmoid(o) * torch.tanh(c), c

        def joined(self, left: Any, right: Any) -> Any:
            return torch.relu(self.u(torch.cat([left, right], 1)))

        def scores(self, h: Any) -> Any:
            return self.classify(h)

    net = Folded()
    labels = torch.as_tensor([y for t in trees for y in t["labels"]])

    def step() -> None:
        net.zero_grad()
        fold, scores = library.Fold(), []
        for tree in trees:
            done: list[Any] = []
            for word, children in zip(tree["words"], tree["children"]):
                below = [done[c] for c in children]
                if model == "tree-fc":
                    made = fold.add("joined", *below) if below else fold.add("leaf", word)
                    h = made
                else:
                    parts = [p for one in below for p in one]
                    if model == "lstm" and below:
                        made = fold.add("lstm", word, *parts).split(2)
                    else:
                        made = (
                            fold.add("inner", *parts) if below else fold.add("leaf", word)
                        ).split(2)
                    h = made[0]
                done.append(made)
                scores.append(fold.add("scores", h))
        (out,) = fold.apply(net, [scores])
        nn.functional.cross_entropy(out, labels, reduction="sum").backward()

    return step


def dynet(model: str, trees: list[Any], hidden: int) -> Step:
    import dynet_config

    dynet_config.set(autobatch=1, mem=8000, random_seed=1)
    import dynet as dy
    import numpy as np

    store = dy.ParameterCollection()
    rows = max(w for t in trees for w in t["words"]) + 1
    table = np.random.default_rng(0).standard_normal((rows, hidden), np.float32)
    size = {"tree-lstm": 5, "tree-fc": 1, "lstm": 4}[model]
    w, w_bias = store.add_parameters((3 * hidden, hidden)), store.add_parameters(3 * hidden)
    u = store.add_parameters((size * hidden, 2 * hidden if model != "lstm" else hidden))
    u_bias = store.add_parameters(size * hidden)
    wx = store.add_parameters((4 * hidden, hidden))
    v, v_bias = store.add_parameters((5, hidden)), store.add_parameters(5)

    def parts(gates: Any, count: int) -> list[Any]:
        return [dy.pick_range(gates, i * hidden, (i + 1) * hidden) for i in range(count)]

    def cell(word: int, below: list[Any]) -> Any:
        if model == "tree-fc":
            if not below:
                return (dy.inputTensor(table[word]),)
            both = dy.concatenate([b[0] for b in below])
            return (dy.rectify(dy.affine_transform([u_bias, u, both])),)
        if model == "lstm":
            x = dy.inputTensor(table[word])
            if below:
                gates = dy.affine_transform([u_bias, wx, x, u, below[0][0]])
            else:
                gates = dy.affine_transform([u_bias, wx, x])
            i, f, g, o = parts(gates, 4)
            c = dy.cmult(dy.logistic(i), dy.tanh(g))
            if below:
                c = c + dy.cmult(dy.logistic(f), below[0][1])
        elif below:
            both = dy.concatenate([b[0] for b in below])
            i, o, g, f0, f1 = parts(dy.affine_transform([u_bias, u, both]), 5)
            c = dy.cmult(dy.logistic(i), dy.tanh(g))
            c = c + dy.cmult(dy.logistic(f0), below[0][1]) + dy.cmult(dy.logistic(f1), below[1][1])
        else:
            x = dy.inputTensor(table[word])
            i, o, g = parts(dy.affine_transform([w_bias, w, x]), 3)
            c = dy.cmult(dy.logistic(i), dy.tanh(g))
        return dy.cmult(dy.logistic(o), dy.tanh(c)), c

    def step() -> None:
        dy.renew_cg()
        losses = []
        for tree in trees:
            done: list[Any] = []
            for word, children, label in zip(tree["words"], tree["children"], tree["labels"]):
                done.append(cell(word, [done[c] for c in children]))
                scores = dy.affine_transform([v_bias, v, done[-1][0]])
                losses.append(dy.pickneglogsoftmax(scores, label))
        loss = dy.esum(losses)
        loss.value()
        loss.backward()

    return step


def pytorch_tree_lstm(model: str, trees: list[Any], hidden: int) -> Step:
    """Its child-sum Tree-LSTM, the only one it has."""
    import torch
    import treelstm
    from torch import nn

    split = torch.split  # which takes no tuple of tensors any more
    torch.split = lambda x, sizes, dim=0: split(
        x, [int(s) for s in sizes] if isinstance(sizes, tuple) else sizes, dim
    )
    net, classify = treelstm.TreeLSTM(hidden, hidden), nn.Linear(hidden, 5)
    nodes, adjacency, edges, first = [], [], [], 0
    for tree in trees:
        level: list[int] = []
        for v, children in enumerate(tree["children"]):
            level.append(1 + max((level[c] for c in children), default=-1))
            adjacency += [[first + v, first + c] for c in children]
            edges += [level[v]] * len(children)
        nodes += level
        first += len(level)
    arguments = [torch.tensor(x) for x in (nodes, adjacency, edges)]
    x = torch.randn(first, hidden)
    labels = torch.tensor([y for t in trees for y in t["labels"]])
    parameters = [*net.parameters(), *classify.parameters()]

    def step() -> None:
        for p in parameters:
            p.grad = None
        h, _ = net(x, *arguments)
        nn.functional.cross_entropy(classify(h), labels, reduction="sum").backward()

    return step


PEERS = {
    "dgl": dgl, "dynet": dynet, "pytorch-tree-lstm": pytorch_tree_lstm, "torchfold": torchfold,
}  # fmt: skip


def main() -> None:
    system, model, hidden, threads, clock, path = sys.argv[1:]
    with open(path) as file:
        trees = json.load(file)
    if system != "dynet":
        import torch

        torch.set_num_threads(int(threads))
    if system in PEERS:
        step = PEERS[system](model, trees, int(hidden))
    else:
        step = own(system, model, trees, int(hidden))
    now = getattr(time, clock)
    step()
    print("ready", flush=True)
    for _ in sys.stdin:
        start = now()
        step()
        print(now() - start, flush=True)


if __name__ == "__main__":
    main()
