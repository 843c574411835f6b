"""Programs of graphs, as text, that DGL and SMEX both run; nothing here knows either.

A program is an expression, after statements that end in ``;`` if there are any. What it may name
is in ``names_of``; what it finds is reduced to lists, numbers and texts. The programs are those of
the other modules of this folder, an area each. ``tools/record_dgl.py graphs`` writes what DGL
finds.
"""

from __future__ import annotations

import importlib
import importlib.util
import pathlib
import re
import warnings

import torch

AREAS = (
    "queries",
    "messages",
    "parts",
    "transforms",
    "sampling",
    "loading",
    "various",
    "differences",
)
TRIPLES = {
    ("user", "follows", "user"): ([0, 1, 1, 3], [1, 2, 0, 1]),
    ("user", "buys", "item"): ([0, 0, 1, 3, 3], [0, 2, 1, 1, 1]),
    ("item", "sold", "user"): ([0, 2, 1, 1, 1], [0, 0, 1, 3, 3]),
    ("user", "likes", "item"): ([2, 0], [0, 0]),
    ("item", "has", "tag"): ([], []),
}
"""Edges of a graph with parallel edges, a type of edges that has none, and nodes without edges."""


def numbers(*shape, start=1, dtype=torch.float64):
    """Numbers between -2 and 2 without ties, the same with any version of torch."""
    count = 1
    for size in shape:
        count *= size
    steps = (torch.arange(start, start + count, dtype=torch.float64) * 7919) % 997
    return (steps / 249.25 - 2).reshape(shape).to(dtype)


def with_features(g):
    """Numbers for nodes and edges of every type, of types that agree where they are homogeneous."""
    for i, ntype in enumerate(g.ntypes):
        size = g.num_nodes(ntype)
        g.nodes[ntype].data["h"] = numbers(size, 2, start=10 * i + 6)
        g.nodes[ntype].data["x"] = (torch.arange(size) * 3 + i) % 5
    for i, etype in enumerate(g.canonical_etypes):
        size = g.num_edges(etype)
        g.edges[etype].data["w"] = numbers(size, start=20 * i + 100)
        g.edges[etype].data["e"] = numbers(size, 2, start=20 * i + 200)
    return g


def makers(dgl):
    """Functions that make the graphs, by their names."""

    def plain(edges, num_nodes, idtype=torch.int64):
        ends = tuple(torch.tensor(each, dtype=idtype) for each in edges)
        return with_features(dgl.graph(ends, num_nodes=num_nodes))

    def typed(idtype=torch.int64, sizes=(4, 3, 2)):
        edges = {
            etype: tuple(torch.tensor(each, dtype=idtype) for each in ends)
            for etype, ends in TRIPLES.items()
        }
        return with_features(dgl.heterograph(edges, dict(zip(("user", "item", "tag"), sizes))))

    def twin():
        edges = {
            ("a", "r", "a"): ([0, 1, 2], [1, 2, 2]),
            ("a", "r", "b"): ([0, 2], [1, 0]),
            ("b", "s", "a"): ([1, 0, 1], [0, 0, 2]),
        }
        return with_features(dgl.heterograph(edges))

    def pair(idtype=torch.int64):
        edges = torch.tensor([0, 2, 2, 3], dtype=idtype), torch.tensor([1, 0, 1, 1], dtype=idtype)
        return with_features(dgl.heterograph({("u", "r", "v"): edges}, {"u": 4, "v": 3}))

    def block(g, nodes):
        return dgl.to_block(dgl.in_subgraph(g, nodes), nodes)

    ring = ([0, 1, 2, 3, 4, 0, 2], [1, 2, 3, 4, 0, 2, 0])
    double = ([0, 2, 0, 1, 1, 2, 2, 3], [1, 1, 1, 1, 2, 0, 2, 1])
    made = {
        "plain": lambda: plain(ring, 6),
        "plain32": lambda: plain(ring, 6, torch.int32),
        "multi": lambda: plain(double, 4),
        "multi32": lambda: plain(double, 4, torch.int32),
        "loops": lambda: plain(([0, 2, 1, 2, 0], [0, 0, 1, 2, 1]), 3),
        "dag": lambda: plain(([0, 0, 1, 2, 3, 1], [1, 2, 3, 3, 4, 4]), 5),
        "both": lambda: plain(([0, 1, 1, 2, 0, 2], [1, 0, 2, 1, 2, 0]), 4),
        "empty": lambda: plain(([], []), 3),
        "none": lambda: plain(([], []), 0),
        "pair": pair,
        "pair32": lambda: pair(torch.int32),
        "typed": typed,
        "typed32": lambda: typed(torch.int32),
        "typed2": lambda: typed(sizes=(5, 3, 0)),
        "twin": twin,
    }
    made |= {
        "many": lambda: dgl.batch([made["plain"](), made["empty"](), made["dag"]()]),
        "many32": lambda: dgl.batch([made["multi32"](), made["plain32"]()]),
        "manytyped": lambda: dgl.batch([made["typed"](), made["typed2"]()]),
        "block": lambda: block(made["plain"](), torch.tensor([2, 0])),
        "block32": lambda: block(made["plain32"](), torch.tensor([2, 0]).int()),
        "typedblock": lambda: dgl.to_block(
            made["typed"](), {"user": torch.tensor([0, 1, 2, 3]), "item": torch.tensor([2, 1, 0]),
                              "tag": torch.tensor([0])},
        ),
    }  # fmt: skip
    return made


# ---- what programs find ----


def sizes_of(g):
    """The sizes of a graph's types."""
    if g.is_block:
        sizes = [{n: g.num_src_nodes(n) for n in g.srctypes}]
        return [*sizes, {n: g.num_dst_nodes(n) for n in g.dsttypes}]
    return {n: g.num_nodes(n) for n in g.ntypes}


def told(value):
    """A result as JSON has it."""
    if isinstance(value, torch.Tensor):
        kind = str(value.dtype).replace("torch.", "")
        return {"dtype": kind, "shape": list(value.shape), "of": told(value.tolist())}
    if isinstance(value, float):
        return float(f"{value:.7g}")
    if isinstance(value, (bool, int, str, type(None))):
        return value
    if isinstance(value, (torch.dtype, torch.device)):
        return str(value)
    if hasattr(value, "items"):
        return {told_key(key): told(each) for key, each in sorted_items(value)}
    if isinstance(value, (list, tuple, range)) or hasattr(value, "__next__"):
        return [told(each) for each in value]
    if hasattr(value, "canonical_etypes"):
        return told_graph(value)
    if hasattr(value, "indptr") or hasattr(value, "tocoo"):
        return told_matrix(value)
    if hasattr(value, "adjacency") and hasattr(value, "nodes"):
        return told_network(value)
    if hasattr(value, "row") and hasattr(value, "val"):
        return [told(each) for each in (list(value.shape), value.row, value.col, value.val)]
    if hasattr(value, "tolist"):
        return told(value.tolist())
    raise TypeError(f"{type(value)} is not told")


def told_key(key):
    return ":".join(key) if isinstance(key, tuple) else str(key)


def sorted_items(mapping):
    return sorted(mapping.items(), key=lambda item: told_key(item[0]))


def told_graph(g):
    """Sizes, edges in the order of their ids, and features."""
    found = {"idtype": told(g.idtype), "nodes": sizes_of(g), "block": g.is_block}
    found["edges"] = {told_key(e): [told(x) for x in g.edges(etype=e)] for e in g.canonical_etypes}
    found["edata"] = {told_key(e): told(g.edges[e].data) for e in g.canonical_etypes}
    if g.is_block:
        found["srcdata"] = {n: told(g.srcnodes[n].data) for n in g.srctypes}
        found["dstdata"] = {n: told(g.dstnodes[n].data) for n in g.dsttypes}
    else:
        found["ndata"] = {n: told(g.nodes[n].data) for n in g.ntypes}
    return found


def told_matrix(matrix):
    entries = matrix.tocoo()
    rows = zip(entries.row.tolist(), entries.col.tolist(), entries.data.tolist())
    return [list(matrix.shape), told(sorted(rows))]


def told_network(network):
    nodes = [[told(n), told(data)] for n, data in network.nodes(data=True)]
    return [nodes, [told(list(edge)) for edge in network.edges(data=True)]]


# ---- what programs may name ----


def by_ends(g):
    """A graph whose edges are in an order of their own: told by ends and features, sorted."""
    found = told_graph(g)
    for e in found["edges"]:
        columns = [each["of"] for each in found["edges"][e]]
        columns += [each["of"] for each in found["edata"][e].values()]
        found["edges"][e] = sorted(zip(*columns), key=str)
        found["edata"][e] = sorted(found["edata"][e])
    return found


def batch_of(sampled):
    """A mini-batch whose blocks are told by the ids of the graph that they are of.

    Of one node, which in-edge comes first is no matter, nor is the order of the nodes that these
    start from. That of seeds is.
    """
    inputs, *seeds, blocks = sampled
    inputs = {"": inputs} if isinstance(inputs, torch.Tensor) else inputs
    inputs = {ntype: ids.sort()[0] for ntype, ids in inputs.items()}
    return [told(inputs), told(seeds), [told_block(block) for block in blocks]]


def batches_of(loader):
    """All mini-batches of a loader."""
    return [batch_of(each) for each in loader]


def told_block(block):
    """Rows of nodes and edges by the ids of the graph, and whether destinations come first."""
    found = {"nodes": sizes_of(block)}
    for n in block.dsttypes:
        ids = block.dstnodes[n].data["_ID"]
        found[f"first:{n}"] = torch.equal(block.srcnodes[n].data["_ID"][: len(ids)], ids)
    for side, types in (("src", block.srctypes), ("dst", block.dsttypes)):
        nodes = getattr(block, f"{side}nodes")
        found[side] = {n: rows(nodes[n].data) for n in types}
    for etype in block.canonical_etypes:
        own = block.srcnodes[etype[0]].data["_ID"], block.dstnodes[etype[2]].data["_ID"]
        ends = [ids[each.long()] for ids, each in zip(own, block.edges(etype=etype))]
        found[told_key(etype)] = rows(block.edges[etype].data, ends)
    return found


def rows(data, ends=()):
    """The names of features, and what each node or edge has of them, sorted."""
    columns = [each.tolist() for each in [*ends, *(data[name] for name in sorted(data))]]
    return [sorted(data), sorted(zip(*columns), key=str)]


def floats(g):
    """A graph whose features are float32, and whose weights are not negative."""
    for ntype in g.ntypes:
        g.nodes[ntype].data["h"] = g.nodes[ntype].data["h"].float()
    for etype in g.canonical_etypes:
        data = g.edges[etype].data
        data["w"], data["e"] = data["w"].abs().float(), data["e"].float()
    return g


def names_of(dgl, program):
    """The names that a program uses, with graphs made for it alone."""
    made = makers(dgl)
    words = set(re.findall(r"\w+", program))
    names = {"dgl": dgl, "fn": dgl.function, "torch": torch, "t": torch.tensor, "by_ends": by_ends}
    names |= {"numbers": numbers, "floats": floats, "batch_of": batch_of, "batches_of": batches_of}
    names |= {"loading": dgl.dataloading, "sampling": dgl.sampling, "with_features": with_features}
    if "networkx" in words:
        names["networkx"] = importlib.import_module("networkx")
    return {**names, **{name: made[name]() for name in words & made.keys()}}


def found(dgl, program):
    """What a program finds, or ``error``."""
    names = names_of(dgl, program)
    *statements, expression = program.split("; ")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for statement in statements:
                exec(statement, names)
            return told(eval(expression, names))
    except Exception:
        return "error"


def module(area):
    """A module of this folder."""
    spec = importlib.util.spec_from_file_location(
        f"recorded_{area}", pathlib.Path(__file__).with_name(f"{area}.py")
    )
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def all_programs():
    """Every program once, by area."""
    return {area: list(dict.fromkeys(module(area).programs())) for area in AREAS}
