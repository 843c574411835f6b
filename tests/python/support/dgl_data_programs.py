"""Data sets of published formats, as DGL 2.1 reads them: programs for ``tools/record_dgl.py``.

Each writes small files and describes what the data set of either package makes of them.
"""

from __future__ import annotations

import importlib
import sys
import tempfile
import types
import unittest.mock
from pathlib import Path

import numpy as np
import torch

from support import published
from support.dgl_programs import program

NEEDS = {}
"""Packages that programs need, by their names."""


def data_program(*packages):
    """A program that gets a folder and a generator too."""

    def register(function):
        def run(dgl):
            with tempfile.TemporaryDirectory() as folder:
                return function(dgl, Path(folder), np.random.default_rng(5))

        run.__name__ = f"data_{function.__name__}"
        NEEDS[run.__name__] = packages
        return program(run)

    return register


def weighed(value):
    """Dtype, shape, and a sum in which each element has a weight of its place."""
    tensor = torch.as_tensor(value)
    weights = torch.arange(tensor.numel()).remainder(97) + 1
    flat = tensor.reshape(-1)
    kind = torch.float64 if flat.is_floating_point() else torch.int64
    total = (flat.to(kind) * weights.to(kind)).sum()
    return [str(tensor.dtype).removeprefix("torch."), list(tensor.shape), total.item()]


def described(g, edges_in_order=True):
    """All that a graph consists of."""
    edges = {}
    for etype in g.canonical_etypes:
        ends = torch.stack(g.edges(etype=etype))
        order = torch.arange(ends.shape[1])
        if not edges_in_order:
            order = (ends[0] * g.num_nodes() + ends[1]).argsort()
        data, ends = g.edges[etype].data, ends[:, order]
        features = {name: weighed(rows[order]) for name, rows in data.items()}
        edges[" ".join(etype)] = [weighed(ends), features]
    nodes = {
        ntype: [
            g.num_nodes(ntype),
            {name: weighed(rows) for name, rows in g.nodes[ntype].data.items()},
        ]
        for ntype in g.ntypes
    }
    return [g.ntypes, g.etypes, nodes, edges]


def of_rdf(data):
    return [described(data[0]), data.predict_category, data.num_classes, len(data)]


@data_program("rdflib")
def aifb(dgl, folder, rng):
    published.write_aifb(folder, rng, 14, 6, 40, 6, 5)
    kind = dgl.data.AIFBDataset
    one_way = kind(insert_reverse=False, force_reload=True, raw_dir=folder, verbose=False)
    return [of_rdf(kind(raw_dir=folder, verbose=False, force_reload=True)), of_rdf(one_way)]


@data_program("rdflib")
def mutag(dgl, folder, rng):
    published.write_mutag(folder, rng, 12, 5, atoms=4)
    return of_rdf(dgl.data.MUTAGDataset(raw_dir=folder, verbose=False))


@data_program("rdflib")
def bgs(dgl, folder, rng):
    published.write_bgs(folder, rng, 12, 5, num_units=60)
    return of_rdf(dgl.data.BGSDataset(raw_dir=folder, verbose=False))


@data_program("rdflib")
def am(dgl, folder, rng):
    published.write_am(folder, rng, 30, 10, num_proxies=60)
    return of_rdf(dgl.data.AMDataset(raw_dir=folder, verbose=False))


@data_program()
def knowledge_graphs(dgl, folder, rng):
    found = []
    for name, kind in (("FB15k-237", "FB15k237"), ("FB15k", "FB15k"), ("wn18", "WN18")):
        published.write_knowledge_graph(folder, rng, name, 30, 5, (60, 10, 12))
        for reverse in (False, True):
            options = {"force_reload": True, "raw_dir": folder, "verbose": False}
            data = getattr(dgl.data, f"{kind}Dataset")(reverse, **options)
            found.append([described(data[0]), data.num_nodes, data.num_rels, len(data)])
    return found


@data_program("scipy")
def fraud(dgl, folder, rng):
    found = []
    for name, nodes in (("yelp", 80), ("amazon", 3400)):
        published.write_fraud(folder, rng, name, nodes, 200)
        data = dgl.data.FraudDataset(name, raw_dir=folder, verbose=False)
        found.append([described(data[0]), data.num_classes, described(data.graph)])
    options = {"random_seed": 3, "train_size": 0.5, "val_size": 0.2, "verbose": False}
    found.append(described(dgl.data.FraudYelpDataset(folder, **options)[0]))
    found.append(described(dgl.data.FraudAmazonDataset(folder, **options)[0]))
    return found


@data_program("scipy")
def graph_saint(dgl, folder, rng):
    published.write_saint(folder, rng, "flickr", 60, 150, 8)
    published.write_saint(folder, rng, "yelp", 60, 150, 8, 100)
    flickr, yelp = dgl.data.FlickrDataset, dgl.data.YelpDataset
    found = [described(kind(raw_dir=folder)[0]) for kind in (flickr, yelp)]
    return [found, flickr(raw_dir=folder).num_classes, yelp(raw_dir=folder).num_classes]


@data_program("scipy")
def wikics(dgl, folder, rng):
    published.write_wikics(folder, rng, 60, 150, 8, 4, 3)
    data = dgl.data.WikiCSDataset(raw_dir=folder)
    data[0].edata.pop("__orig__", None)  # which DGL's reordering leaves
    return [described(data[0], False), data.num_classes, len(data)]


@data_program("scipy")
def molecules(dgl, folder, rng):
    for number, writer in enumerate(
        (published.write_qm7b, published.write_qm9, published.write_qm9_edge)
    ):
        writer(folder, rng, 6 + number, 9)
    for name in ("qm7b", "qm9"):  # DGL downloads anew where there is no such folder
        (folder / name).mkdir()
    data = dgl.data
    sets = [
        data.QM7bDataset(raw_dir=folder),
        data.QM9Dataset(["mu", "U0"], cutoff=2.0, raw_dir=folder),
        data.QM9EdgeDataset(["mu", "C"], raw_dir=folder, verbose=False),
        data.QM9EdgeDataset(raw_dir=folder, verbose=False),
    ]
    return [
        [
            [[described(g), weighed(label)] for g, label in (each[n] for n in range(len(each)))]
            + [each.num_tasks, each.num_labels]
            for each in sets
        ],
        [sets[0].num_classes, sets[1].num_classes],
    ]


@data_program()
def legacy_tu(dgl, folder, rng):
    published.write_tu(folder, rng, "A", 8, 3, node_labels=3)
    published.write_tu(folder, rng, "B", 8, 2, attributes=4)
    published.write_tu(folder, rng, "C", 8, 2, node_labels=0)
    found = []
    for name, options in (
        ("A", {}),
        ("B", {}),
        ("C", {"hidden_size": 3}),
        ("A", {"max_allow_node": 9}),
    ):
        data = dgl.data.LegacyTUDataset(name, raw_dir=folder, **options)
        graphs = [
            [described(g), weighed(label)] for g, label in (data[n] for n in range(len(data)))
        ]
        numbers = (data.num_labels, data.num_classes, data.max_num_node, *data.statistics())
        found.append([graphs, [int(n) for n in numbers], data.data_mode])
    return found


@data_program()
def temporal(dgl, folder, rng):
    published.write_bitcoinotc(folder, rng, 20, 60, 100)
    published.write_events(folder, rng, "ICEWS18", 20, (40, 10, 10), (5, 2, 2))
    published.write_events(folder, rng, "GDELT", 20, (40, 10, 10), (5, 2, 2))
    data = dgl.data
    sets = [data.BitcoinOTCDataset(raw_dir=folder)]
    sets += [
        kind(mode, raw_dir=folder)
        for kind in (data.ICEWS18Dataset, data.GDELTDataset)
        for mode in ("train", "valid", "test")
    ]
    return [[described(each[n]) for n in range(len(each))] + [each.is_temporal] for each in sets]


@data_program()
def geom_gcn(dgl, folder, rng):
    found = []
    for name in ("Texas", "Chameleon", "Actor"):
        published.write_geom_gcn(folder, rng, name.lower(), 30, 60, 12)
        data = getattr(dgl.data, f"{name}Dataset")(raw_dir=folder, verbose=False)
        found.append([described(data[0]), data.num_classes])
    return found


@data_program("scipy")
def fake_news(dgl, folder, rng):
    published.write_fakenews(folder, rng, num_graphs=10, most=8, widths={"profile": 10})
    data = dgl.data.FakeNewsDataset("politifact", "profile", raw_dir=folder)
    masks = [weighed(mask) for mask in (data.train_mask, data.val_mask, data.test_mask)]
    graphs = [[described(g), weighed(label)] for g, label in (data[n] for n in range(len(data)))]
    split = dgl.data.AsGraphPredDataset(data)
    return [graphs, masks, weighed(data.feature), data.num_graphs, split.train_idx, split.num_tasks]


@data_program("scipy", "networkx")
def cora_binary(dgl, folder, rng):
    published.write_cora_binary(folder, rng, 3, 8, 12)
    data = dgl.data.CoraBinary(raw_dir=folder, verbose=False)
    elements = [data[n] for n in range(len(data))]
    g, matrix, labels = data.collate_fn(elements)
    return [
        [[described(g), weighed(m.toarray()), weighed(label)] for g, m, label in elements],
        [described(g), weighed(matrix.toarray()), weighed(labels)],
    ]


@data_program("scipy")
def planetoid(dgl, folder, rng):
    """DGL's Cora has another name, and its order of edges is that of networkx."""
    published.write_planetoid(folder, rng, "citeseer", 600, 900, 40, 3, 5, 20, "citeseer")
    kind = dgl.data.CiteseerGraphDataset
    data = kind(raw_dir=folder, verbose=False)
    return [described(data[0], False), data.num_classes, data.num_labels, data.reverse_edge]


@data_program()
def movielens(dgl, folder, rng):
    """Occupations are words in no order in DGL, so that their columns are added up."""
    found = []
    for name, test in (("ml-100k", None), ("ml-1m", 0.1), ("ml-10m", 0.2)):
        published.write_movielens(folder, rng, name, 12, 20, 60, 3)
        g = dgl.data.MovieLensDataset(name, 0.2, test, raw_dir=folder, random_state=3)[0]
        feat = g.nodes["user"].data["feat"]
        g.nodes["user"].data["feat"] = torch.cat([feat[:, :2], feat[:, 2:].sum(1, True)], 1)
        found.append(described(g))
    return found


@data_program()
def peptides(dgl, folder, rng):
    """What DGL imports of ogb is not asked for anything."""
    stand_in = types.ModuleType("ogb.utils")
    stand_in.smiles2graph = published.chain_of_smiles
    with unittest.mock.patch.dict(sys.modules, {"ogb.utils": stand_in}):
        lrgb = importlib.import_module(f"{dgl.__name__}.data.lrgb")
    found = []
    for kind, name in (("func", "Functional"), ("struc", "Structural")):
        published.write_peptides(folder, rng, kind)
        make = getattr(lrgb, f"Peptides{name}Dataset")
        for _ in range(2):  # the second time from what the first one keeps
            data = make(raw_dir=str(folder), smiles2graph=published.chain_of_smiles)
            graphs = [[described(g), weighed(label)] for g, label in (data[n] for n in range(5))]
            split = {key: ids.tolist() for key, ids in data.get_idx_split().items()}
            some = [weighed(data[torch.tensor([3, 1])][0][1]), len(data), data.num_bond_types]
            found.append([graphs, split, some])
    return found


@data_program()
def files(dgl, folder, rng):
    """What `save_graphs` wrote, by DGL or here."""
    g = dgl.heterograph(
        {("u", "r", "v"): ([0, 1, 2], [1, 1, 0]), ("v", "s", "v"): ([0], [2])}, {"u": 4, "v": 3}
    )
    g.nodes["u"].data["h"] = torch.from_numpy(rng.random((4, 2)))
    g.edges["r"].data["w"] = torch.arange(3, dtype=torch.int16)
    path = str(folder / "g.bin")
    dgl.save_graphs(path, [g, g.int(), dgl.graph(([0], [1]))], {"y": torch.tensor([1, 2, 3])})
    graphs, labels = dgl.load_graphs(path)
    return [[described(each), str(each.idtype)] for each in graphs] + [labels["y"]]
