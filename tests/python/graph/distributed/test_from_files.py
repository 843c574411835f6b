"""Graphs partitioned from files: the same folder as from memory, and files that are refused."""

import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest
import torch

import smex
import smex.graph as sg
from smex.graph.distributed import from_files, sorting
from support.parted import small_graph, typed_graph

sgd = sg.distributed
ROOT = pathlib.Path(__file__).parents[4]
DATA = pathlib.Path(os.environ.get("SMEX_DATA") or ROOT.parent / "shared" / "data")


def content(folder):
    """What all files of a folder hold."""
    folder = pathlib.Path(folder)
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def assert_same(one, other):
    one, other = content(one), content(other)
    assert one.keys() == other.keys()
    differing = [name for name in one if one[name] != other[name]]
    assert not differing


@pytest.fixture
def little_room(monkeypatch):
    """Lets a limit leave room for a few edges only, so that there are many buckets."""
    monkeypatch.setattr(from_files, "_LEAST_ROOM", 0)


def saved(folder, g, kind="pair"):
    """The edges of a graph as `partition_files` takes them."""
    src, dst = (ids.numpy() for ids in g.edges())
    folder.mkdir(exist_ok=True)
    if kind == "pair":
        np.save(folder / "src.npy", src)
        np.save(folder / "dst.npy", dst.astype(np.int32))
        return folder / "src.npy", folder / "dst.npy"
    if kind == "columns":
        np.save(folder / "edges.npy", np.stack([src, dst], 1))
        return folder / "edges.npy"
    if kind == "rows":
        np.save(folder / "edges.npy", np.stack([src, dst]))
        return str(folder / "edges.npy")
    if kind == "raw":
        np.stack([src, dst], 1).astype(np.uint16).tofile(folder / "edges.raw")
        return np.memmap(folder / "edges.raw", np.uint16, "r").reshape(-1, 2)
    if kind == "tensors":
        return g.edges()
    if kind == "pieces":
        np.save(folder / "1.npy", np.stack([src[:7], dst[:7]], 1))
        text = "# the others\n" + "\n".join(f"{u} {v}" for u, v in zip(src[7:], dst[7:]))
        (folder / "2.txt").write_text(text)
        return [folder / "1.npy", folder / "2.txt"]
    lines = [f"{u},{v}" for u, v in zip(src, dst)]
    (folder / "edges.csv").write_text("\n".join(["src,dst", *lines, "", ""]))
    return folder / "edges.csv"


KINDS = ("pair", "columns", "rows", "raw", "tensors", "pieces", "text")


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_file(tmp_path, kind):
    g = small_graph()
    parts = torch.randint(3, (300,))
    sgd.partition_graph(g, "g", 3, tmp_path / "memory", 2, part_method=parts)
    edges = saved(tmp_path / "from", g, kind)
    sgd.partition_files(
        edges, "g", 3, tmp_path / "files", 2, parts, ndata=dict(g.ndata), edata=dict(g.edata)
    )
    assert_same(tmp_path / "memory", tmp_path / "files")


@pytest.mark.parametrize("seed", range(12))
def test_random_graphs_in_many_buckets(tmp_path, little_room, seed):
    print(f"seed {seed}")
    torch.manual_seed(seed)
    nodes, edges, num_parts = (int(torch.randint(1, n, ())) for n in (300, 3000, 9))
    dst = torch.randint(nodes, (edges,))
    dst[torch.rand(edges) < 0.5] = nodes // 2  # one has more edges than a bucket holds
    idtype = torch.int32 if seed % 2 else torch.int64
    g = sg.graph((torch.randint(nodes, (edges,)), dst), num_nodes=nodes).astype(idtype)
    g.ndata["x"], g.ndata["none"] = torch.randn(nodes, 3, 2), torch.empty(nodes, 0)
    g.edata["w"], g.edata["mask"] = torch.rand(edges, 5), torch.rand(edges) < 0.5
    parts = (torch.rand(nodes) * num_parts * 0.7).long()  # the last ones have nothing
    sgd.partition_graph(g, "g", num_parts, tmp_path / "memory", part_method=parts)
    places = {}
    for name, rows in {**g.ndata, **g.edata}.items():
        places[name] = tmp_path / f"{name}.npy"
        np.save(places[name], rows.numpy())
    sgd.partition_files(
        saved(tmp_path / "from", g),
        "g",
        num_parts,
        tmp_path / "files",
        part_method=parts,
        ndata={name: places[name] for name in g.ndata},
        edata={name: places[name] for name in g.edata},
        idtype=idtype,
        memory_limit=64 * nodes + (1, 3000, 30000)[seed % 3],
    )
    assert_same(tmp_path / "memory", tmp_path / "files")


def test_types(tmp_path):
    g = typed_graph()
    parts = {t: torch.randint(3, (g.num_nodes(t),)) for t in g.ntypes}
    sgd.partition_graph(g, "g", 3, tmp_path / "memory", part_method=parts)
    sgd.partition_files(
        {c: g.edges(etype=c) for c in g.canonical_etypes},
        "g",
        3,
        tmp_path / "files",
        part_method=parts,
        num_nodes={t: g.num_nodes(t) for t in g.ntypes},
        ndata={t: dict(g.nodes[t].data) for t in g.ntypes},
        edata={("user", "plays", "game"): dict(g.edges["plays"].data)},
    )
    assert_same(tmp_path / "memory", tmp_path / "files")


def chunked(folder, g, chunks=3):
    """Writes a graph in DGL's chunked format."""

    def split(name, array):
        names = []
        for number, piece in enumerate(np.array_split(array, chunks)):
            names.append(f"{name}-{number}.npy")
            np.save(folder / names[-1], piece)
        return {"format": {"name": "numpy"}, "data": names}

    folder.mkdir()
    told = {"graph_name": "g", "node_type": g.ntypes, "edges": {}, "node_data": {}, "edge_data": {}}
    told["num_nodes_per_chunk"] = [
        [len(piece) for piece in np.array_split(np.arange(g.num_nodes(t)), chunks)]
        for t in g.ntypes
    ]
    told["edge_type"] = [":".join(c) for c in g.canonical_etypes]
    told["num_edges_per_type"] = [g.num_edges(c) for c in g.canonical_etypes]
    for number, canonical in enumerate(g.canonical_etypes):
        pairs = np.stack([ids.numpy() for ids in g.edges(etype=canonical)], 1)
        name = f"edges{number}.csv"
        (folder / name).write_text("".join(f"{u}|{v}\n" for u, v in pairs))
        told["edges"][":".join(canonical)] = {
            "format": {"name": "csv", "delimiter": "|"},
            "data": [name],
        }
    for ntype in g.ntypes:
        columns = g.nodes[ntype].data.items()
        told["node_data"][ntype] = {n: split(f"{ntype}-{n}", x.numpy()) for n, x in columns}
    (folder / "metadata.json").write_text(json.dumps(told))
    return told


def test_the_chunked_format_of_dgl(tmp_path):
    g = typed_graph()
    del g.edges["plays"].data["hours"]  # numpy has no such numbers
    chunked(tmp_path / "chunks", g)
    parts = {t: torch.randint(4, (g.num_nodes(t),)) for t in g.ntypes}
    (tmp_path / "parts").mkdir()
    for ntype, numbers in parts.items():
        lines = "".join(f"{part}\n" for part in numbers.tolist())
        (tmp_path / "parts" / f"{ntype}.txt").write_text(lines)
    sgd.partition_graph(g, "g", 4, tmp_path / "memory", part_method=parts)
    for number, source in enumerate([tmp_path / "chunks", tmp_path / "chunks" / "metadata.json"]):
        folder = tmp_path / f"files{number}"
        sgd.partition_files(source, "g", 4, folder, part_method=tmp_path / "parts")
        assert_same(tmp_path / "memory", folder)


@pytest.mark.parametrize("method", ["metis", "random", "range"])
def test_methods_of_memory(tmp_path, method):
    if method == "metis":
        pytest.importorskip("pymetis", reason="pymetis is not installed")
    g = small_graph()
    torch.manual_seed(3)
    sgd.partition_graph(g, "g", 3, tmp_path / "memory", part_method=method)
    torch.manual_seed(3)
    sgd.partition_files(
        saved(tmp_path / "from", g),
        "g",
        3,
        tmp_path / "files",
        part_method=method,
        ndata=dict(g.ndata),
        edata=dict(g.edata),
    )
    assert_same(tmp_path / "memory", tmp_path / "files")


def test_parquet(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    import pyarrow

    g = small_graph()
    src, dst = (ids.numpy() for ids in g.edges())
    parquet.write_table(pyarrow.table({"u": src, "v": dst}), tmp_path / "edges.parquet")
    parts = torch.randint(3, (300,))
    sgd.partition_graph(sg.graph((src, dst)), "g", 3, tmp_path / "memory", part_method=parts)
    folder = tmp_path / "files"
    sgd.partition_files(tmp_path / "edges.parquet", "g", 3, folder, part_method=parts)
    assert_same(tmp_path / "memory", folder)
    parquet.write_table(pyarrow.table({"u": src, "w": dst * 0.5}), tmp_path / "edges.parquet")
    with pytest.raises(smex.SmexValueError, match="expected two columns of integers in"):
        sgd.partition_files(tmp_path / "edges.parquet", "g", 3, folder)
    os.truncate(tmp_path / "edges.parquet", 100)
    with pytest.raises(smex.SmexValueError, match="expected a whole Parquet file, found"):
        sgd.partition_files(tmp_path / "edges.parquet", "g", 3, folder)


def test_parquet_without_its_package(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(smex.SmexImportError, match=r"pip install pyarrow"):
        sgd.partition_files(tmp_path / "edges.parquet", "g", 3, tmp_path)


# ---- streams ----


def communities(count=8, size=100, inside=10, outside=1, seed=0):
    """Groups of nodes with most of their edges inside, whose ids take turns."""
    draw = torch.Generator().manual_seed(seed)
    nodes = count * size
    src = torch.arange(nodes).repeat_interleave(inside + outside)
    group = src % count
    dst = torch.randint(size, src.shape, generator=draw) * count + group
    is_out = torch.arange(len(src)) % (inside + outside) >= inside
    dst = torch.where(is_out, torch.randint(nodes, src.shape, generator=draw), dst)
    return sg.graph((src, dst), num_nodes=nodes)


def cut_of(g, book_folder, name):
    """The share of edges between parts, and the parts' sizes, of a folder."""
    dg = sgd.DistGraph(name, part_config=book_folder)
    u, v = dg.find_edges(torch.arange(g.num_edges()))
    book = dg.get_partition_book()
    starts = next(iter(book.node_map.values()))
    return float((book.nid2partid(u) != book.nid2partid(v)).float().mean()), np.diff(starts)


@pytest.mark.parametrize("method", ["fennel", "ldg"])
def test_streams_find_communities(tmp_path, method):
    g = communities()
    sgd.partition_files(saved(tmp_path / "f", g), "g", 8, tmp_path, part_method=method)
    cut, sizes = cut_of(g, tmp_path, "g")
    assert cut < 0.35  # at random 0.875, at least 1 / 11
    assert sizes.max() <= 1.05 * 100 + 1 and sizes.sum() == 800
    # The same with few edges at a time, and again.
    before = content(tmp_path / "g")
    sgd.partition_files(saved(tmp_path / "f", g), "g", 8, tmp_path, part_method=method)
    assert content(tmp_path / "g") == before


def test_streams_do_not_depend_on_the_limit(tmp_path, little_room):
    g = communities()
    for name, limit in (("small", 64 * 800 + 5000), ("large", 1e9)):
        (tmp_path / name).mkdir()
        sgd.partition_files(saved(tmp_path / "f", g), "g", 4, tmp_path / name, memory_limit=limit)
    assert_same(tmp_path / "small", tmp_path / "large")


@pytest.mark.parametrize("method", ["fennel", "ldg"])
def test_streams_balance_kinds_and_edges(tmp_path, method):
    g = communities()
    mask = torch.arange(800) < 160
    sgd.partition_files(
        g.edges(), "g", 4, tmp_path, part_method=method, balance_ntypes=mask, ndata={"m": mask}
    )
    dg = sgd.DistGraph("g", part_config=tmp_path)
    book = dg.get_partition_book()
    counts = [int(dg.ndata["m"][book.partid2nids(part)].sum()) for part in range(4)]
    assert max(counts) <= 160 / 4 * 1.05 + 1
    hub = sg.graph((torch.cat([g.edges()[0], torch.arange(800)]),
                    torch.cat([g.edges()[1], torch.zeros(800, dtype=torch.int64)])))  # fmt: skip
    sgd.partition_files(
        hub.edges(), "h", 4, tmp_path, part_method=method, balance_edges=True, num_nodes=800
    )
    book = sgd.load_partition_book(tmp_path / "h.json", 0)[0]
    dg = sgd.DistGraph("h", part_config=tmp_path)
    ends = [
        int((dg.in_degrees(ids) + dg.out_degrees(ids) + 1).sum())
        for ids in (book.partid2nids(part) for part in range(4))
    ]
    assert max(ends) <= sum(ends) / 4 * 1.05 + 1700  # and a node more


@pytest.mark.parametrize("method", ["fennel", "ldg"])
def test_streams_of_graphs_in_memory_write_the_same_folder(tmp_path, method):
    g, typed = small_graph(), typed_graph()
    kinds = g.ndata["train"].int()
    for number, options in enumerate([{}, {"balance_ntypes": kinds, "balance_edges": True}]):
        one, other = tmp_path / f"memory{number}", tmp_path / f"files{number}"
        ndata = {name: x.numpy() for name, x in g.ndata.items()}
        edata = {"w": g.edata["w"].numpy()}
        sgd.partition_graph(g, "g", 3, one, part_method=method, **options)
        edges = saved(tmp_path / "edges", g)
        sgd.partition_files(
            edges, "g", 3, other, ndata=ndata, edata=edata, part_method=method,
            num_nodes=g.num_nodes(), **options,
        )  # fmt: skip
        assert_same(one, other)
    pairs = {c: typed.edges(etype=c) for c in typed.canonical_etypes}
    sizes = {t: typed.num_nodes(t) for t in typed.ntypes}
    bare = sg.heterograph(pairs, num_nodes_dict=sizes)
    sgd.partition_graph(bare, "g", 2, tmp_path / "types", part_method=method)
    sgd.partition_files(
        pairs, "g", 2, tmp_path / "types of files", num_nodes=sizes, part_method=method
    )
    assert_same(tmp_path / "types", tmp_path / "types of files")


def test_streams_of_types(tmp_path):
    g = typed_graph()
    edges = {c: g.edges(etype=c) for c in g.canonical_etypes}
    sizes = {t: g.num_nodes(t) for t in g.ntypes}
    sgd.partition_files(edges, "g", 3, tmp_path, num_nodes=sizes, balance_ntypes=True)
    book = sgd.load_partition_book(tmp_path, 0)[0]
    for ntype, size in sizes.items():
        assert np.diff(book.node_map[ntype]).max() <= size / 3 * 1.05 + 1


def test_real_graphs(tmp_path):
    if not (DATA / "planetoid").is_dir():
        pytest.skip(f"no folder planetoid in $SMEX_DATA or {DATA}")
    g = sg.data.CoraGraphDataset(raw_dir=str(DATA), verbose=False)[0]
    sgd.partition_files(saved(tmp_path / "from", g), "g", 4, tmp_path / "a", ndata=dict(g.ndata))
    cut, _ = cut_of(g, tmp_path / "a", "g")
    assert cut < 0.35  # at random 0.75
    # From memory with the same parts.
    book = sgd.load_partition_book(tmp_path / "a", 0)[0]
    parts = torch.empty(g.num_nodes(), dtype=torch.int64)
    for part in range(4):
        local = sgd.load_partition(tmp_path / "a", part, load_feats=False)[0]
        own = local.ndata["inner_node"].bool()
        parts[local.ndata["orig_id"][own]] = part
    assert book.num_partitions() == 4
    plain = sg.graph(g.edges(), num_nodes=g.num_nodes())
    plain.ndata.update(dict(g.ndata))
    sgd.partition_graph(plain, "g", 4, tmp_path / "b", part_method=parts)
    assert_same(tmp_path / "a", tmp_path / "b")


# ---- graphs without much ----


def test_graphs_without_nodes_or_edges(tmp_path):
    none = torch.empty(0, dtype=torch.int64)
    for method in ("fennel", "range"):
        sgd.partition_files((none, none), "none", 2, tmp_path, part_method=method)
        dg = sgd.DistGraph("none", part_config=tmp_path / "none.json")
        assert dg.num_nodes() == dg.num_edges() == 0
        sgd.partition_files((none, none), "three", 5, tmp_path, part_method=method, num_nodes=3)
        dg = sgd.DistGraph("three", part_config=tmp_path / "three.json")
        assert dg.in_degrees().tolist() == [0, 0, 0]
    sgd.partition_files(([torch.tensor([4])], [torch.tensor([2])]), "five", 2, tmp_path)
    assert sgd.DistGraph("five", part_config=tmp_path / "five.json").num_nodes() == 5
    (tmp_path / "empty.txt").write_text("# nothing\n")
    sgd.partition_files(tmp_path / "empty.txt", "empty", 1, tmp_path, num_nodes=2)
    assert sgd.DistGraph("empty", part_config=tmp_path / "empty.json").num_edges() == 0


# ---- what is refused ----


def refused(kind, text, folder, edges, **options):
    """The call fails, and leaves nothing behind."""
    folder.mkdir(exist_ok=True)
    with pytest.raises(kind, match=text):
        sgd.partition_files(edges, "g", 2, folder, **options)
    assert not content(folder)


def test_files_that_are_none(tmp_path):
    out, good = tmp_path / "out", (torch.tensor([0, 1]), torch.tensor([1, 0]))
    value, kind = smex.SmexValueError, smex.SmexTypeError
    path = tmp_path / "edges.npy"
    refused(value, r"edges\.npy: expected a file, found none that can be", out, path)
    np.save(path, np.zeros((100, 2), np.int64))
    os.truncate(path, 1000)
    refused(value, r"edges\.npy: expected a whole \.npy file, found 1000 bytes", out, path)
    path.write_text("0 1\n")
    refused(value, r"edges\.npy: expected a whole \.npy file, found 4 bytes", out, path)
    path.write_bytes(b"")
    refused(value, r"edges\.npy: expected a whole \.npy file, found 0 bytes", out, path)
    np.savez(tmp_path / "several.npz", a=np.zeros(3))
    os.rename(tmp_path / "several.npz", path)
    refused(value, r"edges\.npy: expected one array, as numpy\.save", out, path)
    np.save(path, np.array(3))
    refused(value, r"edges\.npy: expected rows, found a single number", out, path)
    np.save(path, np.asfortranarray(np.zeros((5, 2), np.int64)))
    refused(value, r"edges\.npy: expected rows one after another, found columns", out, path)
    np.save(path, np.zeros((5, 3), np.int64))
    refused(value, r"expected edges of shape \[n, 2\] or \[2, n\] in .*edges\.npy, found \[5, 3\]",
            out, path)  # fmt: skip
    np.save(path, np.zeros((5, 2)))
    refused(
        kind, r"expected ids that are integers in .*edges\.npy, found torch\.float64", out, path
    )
    np.save(path, np.zeros((5, 2), ">i8"))
    refused(kind, r"edges\.npy: expected numbers of a type that torch has, found >i8", out, path)
    refused(value, "expected edges in a file whose name ends with", out, tmp_path / "edges.gz")
    refused(value, r"edges\.csv: expected a file, found none", out, tmp_path / "edges.csv")
    refused(value, "expected a pair of vectors, sources and destinations, found shapes", out,
            (torch.zeros(3, 2), torch.zeros(3)))  # fmt: skip
    refused(value, "expected as many destinations as the 3 sources of the given Tensor, found 2 in",
            out, (torch.arange(3), torch.arange(2)))  # fmt: skip
    refused(kind, "expected a tensor, an array, the path of a .npy file", out, 7)
    refused(value, r"expected a \.npy file of rows, found x\.bin", out, good, ndata={"x": "x.bin"})
    pieces = [torch.zeros(1, 3), torch.zeros(1, 4)]
    refused(value, r"expected rows of torch\.float32 \[3\] in .*, found torch\.float32 \[4\]", out,
            good, ndata={"x": pieces})  # fmt: skip
    np.save(path, np.zeros((3, 2)))
    refused(value, r"expected 2 rows of node feature 'y' of type '_N' in .*edges\.npy, found shape",
            out, good, ndata={"x": torch.zeros(2), "y": path})  # fmt: skip
    refused(value, "expected 2 rows of edge feature 'w' of type", out, good,
            edata={"w": torch.zeros(3)})  # fmt: skip


def test_text_that_is_none(tmp_path):
    path = tmp_path / "edges.csv"
    for line, shown in (("3", "'3'"), ("1,2,0.5", "'1,2,0.5'"), ("a,b", "'a,b'")):
        path.write_text(f"src,dst\n0,1\n\n{line}\n2,3\n")
        refused(
            smex.SmexValueError,
            rf"expected 2 whole numbers in line 4 of .*edges\.csv, found {shown}",
            tmp_path / "out",
            path,
        )


def test_text_in_blocks(tmp_path, monkeypatch):
    from smex.graph.distributed import sources

    monkeypatch.setattr(sources, "_TEXT_BLOCK", 7)
    path = tmp_path / "edges.txt"
    src, dst = torch.randint(1000, (2, 400))
    path.write_text("".join(f"{u}\t{v}\r\n" for u, v in zip(src.tolist(), dst.tolist())))
    sgd.partition_files(path, "a", 2, tmp_path, part_method="range", num_nodes=1000)
    sgd.partition_files((src, dst), "b", 2, tmp_path, part_method="range", num_nodes=1000)
    assert_same(tmp_path / "a", tmp_path / "b")
    path.write_text("100 200\n" * 9 + "7\n" + "100 200\n")
    with pytest.raises(smex.SmexValueError, match="in line 10 of"):
        sgd.partition_files(path, "a", 2, tmp_path)


def test_ids_that_do_not_exist(tmp_path):
    out, value = tmp_path / "out", smex.SmexValueError
    np.save(tmp_path / "edges.npy", [[0, 1], [1, 2], [2, -3]])
    refused(value, r"expected ids of nodes of type '_N' from 0, found -3 at edge 2 of .*edges\.npy",
            out, tmp_path / "edges.npy")  # fmt: skip
    np.save(tmp_path / "edges.npy", [[0, 1], [5, 2], [2, 3]])
    refused(value, r"from 0 to 3, found 5 at edge 1 of .*edges\.npy", out, tmp_path / "edges.npy",
            num_nodes=4)  # fmt: skip


def test_metadata_that_is_none(tmp_path):
    out, value = tmp_path / "out", smex.SmexValueError
    (tmp_path / "chunks").mkdir()
    place = tmp_path / "chunks" / "metadata.json"
    refused(value, r"expected a chunked graph's metadata\.json at", out, place.parent)
    place.write_text("{")
    refused(value, "expected the JSON of a chunked graph in", out, place)
    place.write_text("{}")
    refused(value, "expected node_type, num_nodes_per_type or num_nodes_per_chunk", out, place)
    place.write_text("[]")
    refused(value, "expected node_type, num_nodes_per_type or num_nodes_per_chunk", out, place)
    place.unlink()
    place.parent.rmdir()
    g = typed_graph()
    del g.edges["plays"].data["hours"]
    told = chunked(tmp_path / "chunks", g)
    del told["num_nodes_per_chunk"]
    place.write_text(json.dumps(told))
    refused(value, "found something else .*num_nodes_per_type", out, place)
    told["num_nodes_per_type"], told["num_edges_per_type"][-1] = [25, 40], 201
    place.write_text(json.dumps(told))
    refused(value, "expected 201 edges of type user:plays:game as .* tells, found 200 in", out,
            place)  # fmt: skip
    told["num_edges_per_type"][-1] = 200
    told["edges"]["user:plays:game"]["data"] = ["absent.csv"]
    place.write_text(json.dumps(told))
    refused(value, r"absent\.csv: expected a file, found none", out, place)
    refused(smex.SmexTypeError, "expected no ndata beside", out, place, ndata={})
    refused(smex.SmexTypeError, "expected no num_nodes beside", out, place, num_nodes=3)


def test_arguments_that_are_impossible(tmp_path):
    out, good = tmp_path / "out", (torch.tensor([0, 1]), torch.tensor([1, 0]))
    value, kind = smex.SmexValueError, smex.SmexTypeError
    refused(value, "expected part_method 'fennel', 'ldg', 'metis', 'random', 'range', or a part", out,
            good, part_method="metes")  # fmt: skip
    refused(value, "expected parts from 0 to 1", out, good, part_method=torch.tensor([0, 2]))
    refused(value, "expected memory_limit of .* bytes at least, for 2 nodes, found 100", out, good,
            num_nodes=2, memory_limit=100)  # fmt: skip
    refused(kind, "expected idtype torch.int32 or torch.int64, found torch.int16", out, good,
            idtype=torch.int16)  # fmt: skip
    big = (torch.tensor([0]), torch.tensor([1]))
    refused(value, "expected ids that fit torch.int32, found 2147483648 of a type", out, big,
            idtype=torch.int32, num_nodes=1 << 31, memory_limit=1e12)  # fmt: skip
    refused(kind, r"expected edges by \(source type, type, destination type\), found 'plays'", out,
            {"plays": good})  # fmt: skip
    edges = {("a", "b", "c"): good}
    refused(kind, "expected num_nodes as a dict by type, as edges are, found int", out, edges,
            num_nodes=3)  # fmt: skip
    refused(value, "expected ndata of types that the graph has, found 'x'; there are 'a', 'c'", out,
            edges, ndata={"x": {}})  # fmt: skip
    refused(kind, "expected features as a dict by name, found Tensor", out, edges,
            ndata={"a": torch.zeros(2)})  # fmt: skip


def test_metis_that_would_not_fit(tmp_path):
    src = torch.zeros(100_000, dtype=torch.int64)
    refused(smex.SmexValueError, 'which METIS needs for 100000 edges, found 20000000; part_method="f',
            tmp_path / "out", (src, src), part_method="metis", memory_limit=20e6)  # fmt: skip


def test_a_disk_without_room(tmp_path, monkeypatch):
    good = (torch.tensor([0, 1]), torch.tensor([1, 0]))
    usage = type("Usage", (), {"free": 10})
    monkeypatch.setattr(from_files.shutil, "disk_usage", lambda place: usage)
    refused(smex.SmexRuntimeError, "expected 80 bytes of free disk, found 10; give another out_path",
            tmp_path / "out", good)  # fmt: skip
    monkeypatch.undo()

    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(sorting.os, "pwrite", full)
    refused(smex.SmexRuntimeError, "cannot be written: No space left on device", tmp_path / "out",
            good)  # fmt: skip
    monkeypatch.undo()
    (tmp_path / "file").write_text("")
    with pytest.raises(smex.SmexRuntimeError, match="cannot be written: Not a directory"):
        sgd.partition_files(good, "g", 2, tmp_path / "file" / "below")


def test_a_graph_that_is_there_stays_until_another_is_written(tmp_path, monkeypatch):
    edges = (torch.arange(9), torch.arange(9))
    sgd.partition_files(edges, "g", 2, tmp_path)
    before = content(tmp_path)
    with pytest.raises(smex.SmexValueError, match="expected a file, found none"):
        sgd.partition_files(tmp_path / "absent.npy", "g", 2, tmp_path)
    assert content(tmp_path) == before

    def failing(self, writer):
        raise KeyboardInterrupt

    monkeypatch.setattr(from_files._Run, "write_nodes", failing)
    with pytest.raises(KeyboardInterrupt):
        sgd.partition_files(edges, "g", 2, tmp_path)
    assert not content(tmp_path)


def test_a_file_that_is_cut_off_meanwhile(tmp_path):
    rows = sgd.from_files.open_rows("op", torch.zeros(3))
    assert rows.read(1, 3).shape == (2,)
    np.save(tmp_path / "x.npy", np.zeros(1000))
    rows = sgd.from_files.open_rows("op", tmp_path / "x.npy")
    os.truncate(tmp_path / "x.npy", 500)
    with pytest.raises(smex.SmexRuntimeError, match=r"x\.npy: expected \d+ more bytes from 500 on"):
        rows.read(0, 1000)


SLOW = """
import sys, torch, smex.graph as sg
from smex.graph.distributed import from_files
write = from_files._Run.write_nodes
def slowly(self, writer):
    write(self, writer)
    print("written", flush=True)
    torch.futures.Future().wait()
from_files._Run.write_nodes = slowly
sg.distributed.partition_files((torch.arange(9), torch.arange(9)), "g", 2, sys.argv[1])
"""


def test_a_run_that_is_killed_leaves_nothing_that_loads(tmp_path):
    edges = (torch.arange(9), torch.arange(9))
    sgd.partition_files(edges, "g", 2, tmp_path)  # an older one is there
    run = subprocess.Popen([sys.executable, "-c", SLOW, tmp_path], stdout=subprocess.PIPE)
    assert run.stdout.readline() == b"written\n"
    run.kill()
    run.wait()
    run.stdout.close()
    with pytest.raises(smex.SmexValueError, match="expected a manifest at"):
        sgd.DistGraph("g", part_config=tmp_path / "g.json")
    assert (tmp_path / ".g.scratch").is_dir()
    sgd.partition_files(edges, "g", 2, tmp_path)
    assert not (tmp_path / ".g.scratch").exists()
    assert sgd.DistGraph("g", part_config=tmp_path).num_edges() == 9


def test_progress(tmp_path, caplog, capsys):
    pytest.importorskip("tqdm", reason="tqdm is not installed")
    edges = (torch.arange(9), torch.arange(9))
    with caplog.at_level("INFO", logger="smex.graph.distributed"):
        sgd.partition_files(
            edges,
            "g",
            2,
            tmp_path,
            ndata={"x": torch.zeros(9)},
            scratch=tmp_path / "s",
            verbose=True,
        )
    steps = [record.message.split()[1] for record in caplog.records]
    assert steps == ["files", "degrees", "fennel", "parts", "edges", "features"]
    shown = capsys.readouterr().err
    assert "degrees" in shown and "100%" in shown
    assert list((tmp_path / "s").iterdir()) == []


def test_memory_keeps_to_the_limit(tmp_path):
    """A process that sorts many edges has as much memory as it was told to, and no more."""
    program = """
import resource, sys, torch, numpy
import smex.graph as sg
torch.set_num_threads(2)
count, nodes = 6_000_000, 100_000
for name in ("src", "dst"):
    ids = torch.randint(nodes, (count,), generator=torch.Generator().manual_seed(0))
    numpy.save(f"{sys.argv[1]}/{name}.npy", ids.int().numpy())
del ids
sg.distributed.partition_files((torch.arange(9), torch.arange(9)), "warm", 2, sys.argv[1])
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")
def resident(field):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith(field))
before = resident("VmRSS")
sg.distributed.partition_files(
    (f"{sys.argv[1]}/src.npy", f"{sys.argv[1]}/dst.npy"), "g", 2, sys.argv[1],
    memory_limit=100 << 20)
print(resident("VmHWM") - before)
"""
    if not os.access("/proc/self/clear_refs", os.W_OK):
        pytest.skip("the kernel does not forget a process's peak")
    command = [sys.executable, "-c", program, tmp_path]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    # At once its edges would take 16 bytes as they are read and 56 while they are sorted.
    assert int(run.stdout) < 150 << 20
