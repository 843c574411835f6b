"""Homophily and label informativeness, against loops over the edges."""

import math
from collections import Counter

import pytest
import torch

import smex
import smex.graph as sg

NAMES = [
    "node_homophily",
    "edge_homophily",
    "linkx_homophily",
    "adjusted_homophily",
    "edge_label_informativeness",
    "node_label_informativeness",
]


def looped(name, g, y):
    """The definition, by plain loops."""
    src, dst = (ids.tolist() for ids in g.edges())
    y = y.tolist()
    num_nodes, classes = g.num_nodes(), range(max(y) + 1)
    into = {v: [u for u, w in zip(src, dst) if w == v] for v in range(num_nodes)}
    same = {v: sum(y[u] == y[v] for u in into[v]) for v in into}
    if name == "node_homophily":
        return sum(same[v] / max(len(into[v]), 1) for v in into) / num_nodes
    if name == "edge_homophily":
        return sum(same.values()) / len(src)
    if name == "linkx_homophily":
        total = 0.0
        for k in classes:
            own = [v for v in into if y[v] == k]
            edges = sum(len(into[v]) for v in own)
            total += max(0, sum(same[v] for v in own) / max(edges, 1) - len(own) / num_nodes)
        return total / (len(classes) - 1)
    both = {(u, v) for u, v in zip(src, dst)} | {(v, u) for u, v in zip(src, dst)}
    degree = Counter(u for u, _ in both)
    if name == "adjusted_homophily":
        share = [sum(degree[v] for v in into if y[v] == k) / len(both) for k in classes]
        chance = sum(p * p for p in share)
        return (sum(y[u] == y[v] for u, v in both) / len(both) - chance) / (1 - chance)
    joint = Counter()
    for u, v in both:
        joint[y[u], y[v]] += (
            1 / len(both) if name.startswith("edge") else 1 / len(degree) / degree[u]
        )
    first = [sum(joint[a, b] for b in classes) for a in classes]
    second = [sum(degree[v] for v in into if y[v] == k) / len(both) for k in classes]
    mutual = sum(p * math.log(p / first[a] / second[b]) for (a, b), p in joint.items())
    return mutual / -sum(p * math.log(p) for p in first if p)


@pytest.mark.parametrize("idtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("name", NAMES)
def test_measures_equal_their_definitions(name, idtype):
    torch.manual_seed(0)
    y = torch.randint(3, (30,))
    src, dst = torch.randint(29, (2, 90))  # node 29 has no edge
    dst[:40] = torch.tensor([int((y[:29] == y[u]).nonzero()[0]) for u in src[:40]])
    g = sg.graph((src, dst), num_nodes=30, idtype=idtype)
    assert getattr(sg, name)(g, y) == pytest.approx(looped(name, g, y), abs=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_extremes(name):
    """Two components, each of one class; nothing to measure; no edges."""
    g = sg.to_bidirected(sg.graph(([0, 2], [1, 3])))
    assert getattr(sg, name)(g, torch.tensor([0, 0, 1, 1])) == pytest.approx(1)
    alone = getattr(sg, name)(g, torch.zeros(4).long())
    assert alone == 1 if name in ("node_homophily", "edge_homophily") else math.isnan(alone)
    none = getattr(sg, name)(sg.graph(([], []), num_nodes=2), torch.tensor([0, 1]))
    assert none == 0 if name in ("node_homophily", "linkx_homophily") else math.isnan(none)


@pytest.mark.parametrize("name", NAMES)
def test_classes_have_to_fit(name):
    g = sg.graph(([0, 1], [1, 2]))
    for y in (torch.zeros(2).long(), torch.zeros(3), torch.tensor([0, -1, 0]), [0, 1, 0]):
        with pytest.raises(smex.SmexValueError, match=f"{name}: expected a class from 0 for each"):
            getattr(sg, name)(g, y)
