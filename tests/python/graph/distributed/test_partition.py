"""Graphs written in parts: the same graph comes back, and files that changed are refused."""

import json
import os
import shutil

import pytest
import torch

import smex
import smex.graph as sg
from support.parted import small_graph, typed_graph

sgd = sg.distributed


def edges_by_name(g, name):
    """(source, destination, feature) of each edge, as a sorted list."""
    u, v = g.edges()
    return sorted(zip(u.tolist(), v.tolist(), g.edata[name].tolist()))


@pytest.mark.parametrize("method", ["metis", "random", "range"])
@pytest.mark.parametrize("num_parts", [1, 3, 8])
@pytest.mark.parametrize("idtype", [torch.int32, torch.int64])
def test_the_same_graph_comes_back(tmp_path, method, num_parts, idtype):
    if method == "metis":
        pytest.importorskip("pymetis", reason="pymetis is not installed")
    g = small_graph().int() if idtype == torch.int32 else small_graph()
    nodes, edges = sgd.partition_graph(
        g, "g", num_parts, tmp_path, part_method=method, return_mapping=True
    )
    dg = sgd.DistGraph("g", part_config=tmp_path / "g.json")
    assert dg.idtype == idtype
    assert torch.equal(nodes.sort().values, torch.arange(300))
    u, v = dg.find_edges(torch.arange(1500))
    old_u, old_v = g.find_edges(edges.to(idtype))
    assert torch.equal(nodes[u.long()], old_u.long()) and torch.equal(nodes[v.long()], old_v.long())
    for name in g.ndata:
        assert torch.equal(dg.ndata[name][:], g.ndata[name][nodes])
    assert torch.equal(dg.edata["w"][:], g.edata["w"][edges])
    assert torch.equal(dg.in_degrees(), g.in_degrees()[nodes])
    assert torch.equal(dg.out_degrees(), g.out_degrees()[nodes])
    assert torch.equal(dg.out_degrees([5, 2]), dg.out_degrees()[[5, 2]])
    # Edges that few are asked for do not need the list of all.
    assert dg.graph.relation().created_formats() == ["coo", "csc"]
    again = sgd.DistGraph("g", part_config=tmp_path)
    assert torch.equal(again.find_edges([7, 1])[0], u[[7, 1]])
    assert again.graph.relation().created_formats() == ["csc"]


def test_types(tmp_path):
    g = typed_graph()
    nodes, edges = sgd.partition_graph(
        g, "typed", 3, tmp_path, part_method="random", return_mapping=True
    )
    dg = sgd.DistGraph("typed", part_config=tmp_path)
    assert dg.ntypes == g.ntypes and dg.canonical_etypes == g.canonical_etypes
    assert dg.num_nodes() == 65 and dg.num_nodes("game") == 25 and dg.num_edges("plays") == 200
    for ntype in g.ntypes:
        for name in g.nodes[ntype].data:
            found = dg.nodes[ntype].data[name]
            assert torch.equal(found[:], g.nodes[ntype].data[name][nodes[ntype]])
    plays = ("user", "plays", "game")
    assert torch.equal(
        dg.edges["plays"].data["hours"][:], g.edges["plays"].data["hours"][edges[plays]]
    )
    u, v = dg.find_edges(torch.arange(200), etype="plays")
    assert torch.equal(nodes["user"][u], g.edges(etype="plays")[0][edges[plays]])
    assert torch.equal(nodes["game"][v], g.edges(etype="plays")[1][edges[plays]])
    with pytest.raises(smex.SmexTypeError, match="expected one node type, found"):
        _ = dg.ndata
    assert dg.node_attr_schemes("game")["kind"].dtype == torch.int32
    assert dg.get_ntype_id("user") == dg.ntypes.index("user")
    assert dg.get_etype_id("plays") == dg.canonical_etypes.index(plays)


def test_book(tmp_path):
    g = typed_graph()
    sgd.partition_graph(g, "typed", 3, tmp_path, part_method="random")
    book, name, ntypes, etypes = sgd.load_partition_book(tmp_path / "typed.json", 1)
    assert (name, ntypes, etypes) == ("typed", g.ntypes, g.canonical_etypes)
    assert book.num_partitions() == 3 and book.partid == 1 and not book.is_homogeneous
    assert sum(part["num_nodes"]["user"] for part in book.metadata()) == 40
    homo = []
    for part in range(3):
        for ntype in ntypes:
            ids = book.partid2nids(part, ntype)
            assert (book.nid2partid(ids, ntype) == part).all()
            assert torch.equal(book.nid2localnid(ids, part, ntype), torch.arange(len(ids)))
            homo.append(book.map_to_homo_nid(ids, ntype))
            kinds, back = book.map_to_per_ntype(homo[-1])
            assert torch.equal(back, ids) and (kinds == ntypes.index(ntype)).all()
    assert torch.equal(torch.cat(homo), torch.arange(65))  # part by part, type by type
    homo = []
    for part in range(3):
        for etype in etypes:
            ids = book.partid2eids(part, etype)
            assert (book.eid2partid(ids, etype) == part).all()
            assert torch.equal(book.eid2localeid(ids, part, etype), torch.arange(len(ids)))
            homo.append(book.map_to_homo_eid(ids, etype))
            kinds, back = book.map_to_per_etype(homo[-1])
            assert torch.equal(back, ids) and (kinds == etypes.index(etype)).all()
    assert torch.equal(torch.cat(homo), torch.arange(350))
    with pytest.raises(smex.SmexValueError, match="expected ids of part 0"):
        book.nid2localnid([39], 0, "user")
    with pytest.raises(smex.SmexValueError, match="expected a part from 0 to 2, found 3"):
        book.partid2nids(3, "user")
    with pytest.raises(smex.SmexValueError, match='expected a node type, found "film"'):
        book.partid2nids(0, "film")
    with pytest.raises(smex.SmexValueError, match='expected one edge type "buys", found 0'):
        book.partid2eids(0, "buys")
    with pytest.raises(smex.SmexValueError, match="expected ids from 0 to 39, found 40"):
        book.nid2partid([40], "user")
    with pytest.raises(smex.SmexValueError, match="expected 3 ascending numbers from 0 for nodes"):
        sgd.GraphPartitionBook(0, 2, {"_N": [0, 5, 3]}, {})
    with pytest.raises(smex.SmexValueError, match="expected 'node~TYPE' or 'edge~"):
        sgd.PartitionPolicy("rows~user", book)


@pytest.mark.parametrize("num_hops", [1, 2])
def test_parts_have_the_edges_into_their_nodes(tmp_path, num_hops):
    g = small_graph()
    nodes, edges = sgd.partition_graph(
        g, "g", 4, tmp_path, num_hops, part_method="random", return_mapping=True
    )
    seen = 0
    for part in range(4):
        local, node_feats, edge_feats, book, name, _, _ = sgd.load_partition(tmp_path, part)
        inner = local.ndata["inner_node"].bool()
        assert torch.equal(local.ndata[sg.NID][inner], book.partid2nids(part))
        assert torch.equal(local.ndata["orig_id"], nodes[local.ndata[sg.NID]])
        assert torch.equal(local.edata["orig_id"], edges[local.edata[sg.EID]])
        u, v = local.edges()
        old_u, old_v = g.find_edges(local.edata["orig_id"])
        assert torch.equal(local.ndata["orig_id"][u], old_u)
        assert torch.equal(local.ndata["orig_id"][v], old_v)
        own = local.edata["inner_edge"].bool()
        assert torch.equal(own, inner[v])
        assert torch.equal(local.edata[sg.EID][own], book.partid2eids(part))
        assert torch.equal(node_feats["_N/x"], g.ndata["x"][nodes[book.partid2nids(part)]])
        assert torch.equal(edge_feats["_N:_E:_N/w"], g.edata["w"][edges[book.partid2eids(part)]])
        seen += int(own.sum())
        if num_hops == 1:
            assert own.all()
        else:  # all edges into the sources of the own ones too
            sources = local.ndata[sg.NID][u[own]].unique()
            dg = sgd.DistGraph("g", part_config=tmp_path)
            wanted = torch.cat([book.partid2nids(part), sources]).unique()
            assert local.num_edges() == int(dg.in_degrees(wanted).sum())
    assert seen == 1500 and name == "g"


def test_kinds_are_balanced(tmp_path):
    pytest.importorskip("pymetis", reason="pymetis is not installed")
    g = small_graph(2000, 12000)
    mask = g.ndata["train"]
    mask[:] = torch.arange(2000) < 600
    book_of = {}
    for balanced in (None, mask):
        nodes, _ = sgd.partition_graph(
            g, "g", 4, tmp_path, balance_ntypes=balanced, return_mapping=True
        )
        book = sgd.load_partition_book(tmp_path, 0)[0]
        counts = [int(mask[nodes[book.partid2nids(part)]].sum()) for part in range(4)]
        book_of[balanced is not None] = counts
    assert max(book_of[True]) <= 1.06 * 600 / 4


def test_parts_that_are_given(tmp_path):
    g = small_graph()
    parts = torch.arange(300) % 3
    nodes, _ = sgd.partition_graph(g, "g", 3, tmp_path, part_method=parts, return_mapping=True)
    assert torch.equal(nodes[:100], torch.arange(0, 300, 3))


def test_graphs_without_nodes_or_edges(tmp_path):
    g = sg.graph(([], []), num_nodes=0)
    g.ndata["x"] = torch.zeros(0, 3)
    sgd.partition_graph(g, "none", 2, tmp_path, part_method="range")
    dg = sgd.DistGraph("none", part_config=tmp_path)
    assert dg.num_nodes() == dg.num_edges() == 0 and dg.ndata["x"][:].shape == (0, 3)
    g = sg.graph(([], []), num_nodes=3)
    sgd.partition_graph(g, "three", 5, tmp_path / "three", part_method="range")
    dg = sgd.DistGraph("three", part_config=tmp_path / "three")
    assert dg.in_degrees().tolist() == [0, 0, 0]


# ---- files ----


@pytest.fixture
def folder(tmp_path):
    sgd.partition_graph(small_graph(), "g", 2, tmp_path, part_method="range")
    return tmp_path


def change(path, place, value):
    with open(path, "r+b") as file:
        file.seek(place)
        file.write(value)


def test_a_byte_that_changed(folder):
    path = folder / "g" / "structure" / "0.indices.bin"
    change(path, 77, b"\xff")
    with pytest.raises(smex.SmexRuntimeError, match=r"0\.indices\.bin: expected sum \d+ of its"):
        sgd.DistGraph("g", part_config=folder)
    sgd.DistGraph("g", part_config=folder, verify=False)
    with pytest.raises(smex.SmexRuntimeError, match="expected sum"):
        sgd.load_partition(folder, 0)


def test_a_file_that_is_cut_off(folder):
    path = folder / "g" / "part1" / "node0.0.bin"
    os.truncate(path, 100)
    text = r"part1/node0\.0\.bin: expected 3600 bytes \(float32 \[150, 6\]\), found 100"
    for verify in (True, False):
        with pytest.raises(smex.SmexRuntimeError, match=text):
            sgd.DistGraph("g", part_config=folder, verify=verify)


def test_a_file_that_is_missing(folder):
    (folder / "g" / "structure" / "0.indptr.bin").unlink()
    with pytest.raises(smex.SmexRuntimeError, match=r"0\.indptr\.bin: expected a file of 2408 by"):
        sgd.DistGraph("g", part_config=folder)


def test_manifests_that_are_none(folder, tmp_path):
    path = folder / "g.json"
    good = json.loads(path.read_text())
    path.write_text('{"graph_name": "g", "part-0": {"node_feats": "part0/node_feat.dgl"}}')
    with pytest.raises(
        smex.SmexValueError, match=r'"format": "smex\.graph\.distributed" in .*g\.j'
    ):
        sgd.DistGraph("g", part_config=path)
    path.write_text("{")
    with pytest.raises(smex.SmexValueError, match="expected the JSON of a manifest in"):
        sgd.DistGraph("g", part_config=path)
    path.write_text(json.dumps(good | {"version": 99}))
    with pytest.raises(
        smex.SmexValueError, match=r"version 1 of kind 'graph' in .*, found version 9"
    ):
        sgd.DistGraph("g", part_config=path)
    path.write_text(json.dumps(good | {"node_map": [[0, 100, 300]]}))
    with pytest.raises(smex.SmexValueError, match="expected 100 rows in g/part0/node0"):
        sgd.DistGraph("g", part_config=path)
    path.write_text(json.dumps({k: v for k, v in good.items() if k != "structure"}))
    with pytest.raises(smex.SmexValueError, match="expected the manifest of a graph in"):
        sgd.DistGraph("g", part_config=path)
    for entry in (None, {**good["structure"][0]["indptr"], "sums": []}):
        other = [{**good["structure"][0], "indptr": entry}]
        path.write_text(json.dumps(good | {"structure": other}))
        with pytest.raises(smex.SmexValueError, match="expected the path, dtype, shape and sums"):
            sgd.DistGraph("g", part_config=path)
    path.write_text(json.dumps(good))
    with pytest.raises(smex.SmexValueError, match="expected a graph named 'h' in"):
        sgd.DistGraph("h", part_config=path)
    shutil.copy(path, folder / "h.json")
    with pytest.raises(
        smex.SmexValueError, match=r"expected one manifest \(\*\.json\) in the folder"
    ):
        sgd.load_partition(folder, 0)
    path.unlink()
    with pytest.raises(smex.SmexValueError, match="expected a manifest at"):
        sgd.DistGraph("g", part_config=path)
    with pytest.raises(smex.SmexValueError, match="expected part_config, the manifest that"):
        sgd.DistGraph("g")


def test_columns_without_a_part(folder):
    path = folder / "g.json"
    told = json.loads(path.read_text())
    told["node"][0]["columns"]["x"].pop()
    path.write_text(json.dumps(told))
    with pytest.raises(smex.SmexValueError, match="expected a file for each of 2 parts of a colu"):
        sgd.DistGraph("g", part_config=path)


def test_a_folder_half_written_has_no_manifest(folder, monkeypatch):
    def fail(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(smex.SmexRuntimeError, match="cannot be written: No space left"):
        sgd.partition_graph(small_graph(), "g", 2, folder, part_method="range")
    assert not (folder / "g.json").exists()


def test_arguments(tmp_path):
    g = small_graph()

    def refused(kind, text, graph=g, name="g", parts=2, **options):
        with pytest.raises(kind, match=text):
            sgd.partition_graph(graph, name, parts, tmp_path, **options)

    refused(smex.SmexValueError, "expected part_method 'metis', 'random', 'range'", part_method="x")
    refused(smex.SmexValueError, "expected parts from 0 to 1 of", part_method=torch.full((300,), 2))
    refused(smex.SmexValueError, r"with a number for each of 300 nodes", part_method=torch.zeros(5))
    refused(smex.SmexTypeError, "part_method as a dict from node", typed_graph(), part_method=[0])
    refused(smex.SmexValueError, "expected num_parts of at least 1, found 0", parts=0)
    refused(smex.SmexValueError, "expected graph_name fit for a file", name="a/b")
    refused(smex.SmexTypeError, "expected no option 'colour', found it given", colour=1)
    refused(smex.SmexTypeError, "expected a graph that is no block, found int", 3)
    sgd.partition_graph(g, "g", 2, tmp_path, part_method="range", use_graphbolt=True, n_jobs=2)
    with pytest.raises(smex.SmexValueError, match="expected a part from 0 to 1 of .*, found 2"):
        sgd.load_partition_feats(tmp_path, 2)
    g.ndata["q"] = torch.zeros(300, dtype=torch.uint16)
    refused(smex.SmexTypeError, r"would have numbers of torch\.uint16", part_method="range")
