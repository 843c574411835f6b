"""Graphs in files: what is read is what was written, and what cannot be read says why."""

import gzip
import os
import pathlib
import zipfile

import hypothesis
import numpy as np
import pytest
import torch

import smex
import smex.graph as sg
from smex.graph.creation import files as serialization
from support.graphs import graphs, heterographs, pairs, with_features
from support.published import dgl_files

rng = np.random.default_rng(0)
fuzz = hypothesis.settings(max_examples=20, deadline=None)


def block():
    made = sg.create_block({("u", "r", "v"): ([0, 1], [1, 2]), ("v", "s", "v"): ([0, 1], [1, 0])})
    made.srcdata["h"] = {"u": torch.ones(2), "v": torch.zeros(2)}
    made.dstdata["h"] = torch.arange(3)
    return made


def sample():
    return with_features(sg.graph(([0, 1, 1, 2], [1, 2, 2, 0])))


def frames(g):
    """All features by side, type and name."""
    slots = [*g._src_frames.items()], [*g._dst_frames.items()], [*g._edge_frames.items()]
    return [{key: dict(frame.items()) for key, frame in side} for side in slots]


def check_equal(found, expected):
    assert repr(found) == repr(expected) and found.idtype == expected.idtype
    assert found.is_block == expected.is_block and found.formats() == expected.formats()
    assert found.ntypes == expected.ntypes
    assert found.canonical_etypes == expected.canonical_etypes
    for etype in expected.canonical_etypes:
        assert pairs(found, etype) == pairs(expected, etype)
    torch.testing.assert_close(frames(found), frames(expected), rtol=0, atol=0)


def through_file(path, g, **options):
    sg.save_graphs(path, g, **options)
    (found,), labels = sg.load_graphs(path)
    assert labels == {}
    return found


@pytest.fixture
def path(tmp_path):
    return tmp_path / "graphs.bin"


# ---- what is kept ----


@pytest.mark.parametrize("kind", [graphs, heterographs])
def test_graphs_of_any_types(tmp_path_factory, kind):
    path = tmp_path_factory.mktemp("graphs") / "graphs.bin"

    @fuzz
    @hypothesis.given(kind())
    def check(g):
        check_equal(through_file(path, g), g)
        g.create_formats_()
        found = through_file(path, g)
        check_equal(found, g)
        for etype in g.canonical_etypes:
            for fmt in ("csr", "csc"):
                for a, b in zip(found.adj_tensors(fmt, etype), g.adj_tensors(fmt, etype)):
                    assert torch.equal(a, b) and a.dtype == b.dtype

    check()


def test_blocks(path):
    for g in (block(), sg.to_block(sample(), torch.tensor([2, 1, 0]))):
        check_equal(through_file(path, g), g)


def test_batches(path):
    b = sg.batch([sample(), sample().formats("csc")])
    found = through_file(path, b)
    check_equal(found, b)
    assert found.batch_size == 2
    assert found.batch_num_nodes().tolist() == [3, 3]
    assert found.batch_num_edges().tolist() == [4, 4]
    check_equal(sg.unbatch(found)[1], sample())


def test_sizes_of_some_types_only(path):
    g = sg.heterograph({("a", "x", "b"): ([0, 1], [0, 0]), ("a", "y", "b"): ([0], [0])})
    g.set_batch_num_nodes({"a": [1, 1]})
    g.set_batch_num_edges({"y": [1, 0]})
    found = through_file(path, g)
    assert found.batch_num_edges("y").tolist() == [1, 0] and found.batch_size == 2
    with pytest.raises(smex.SmexValueError, match="no sizes were set"):
        found.batch_num_edges("x")
    with pytest.raises(smex.SmexValueError, match="no sizes were set"):
        found.batch_num_nodes("b")


@pytest.mark.parametrize(
    "dtype", [torch.bool, torch.int8, torch.float16, torch.bfloat16, torch.complex64]
)
def test_dtypes_of_features(path, dtype):
    g = sample()
    g.ndata["x"] = torch.tensor([[0, 1], [1, 0], [1, 1]]).to(dtype)
    g.ndata["empty"] = torch.zeros(3, 0, 2, dtype=dtype)
    check_equal(through_file(path, g), g)


def test_gradients_are_not_kept(path):
    g = sample()
    g.ndata["p"] = torch.nn.Parameter(torch.ones(3))
    g.ndata["q"] = g.ndata["p"] * 2
    found = through_file(path, g)
    assert found.ndata["q"].tolist() == [2, 2, 2]
    assert not found.ndata["p"].requires_grad and not found.ndata["q"].requires_grad
    assert type(found.ndata["p"]) is torch.Tensor and g.ndata["q"].requires_grad


def test_subgraphs_take_their_own_rows_only(path):
    g = sample()
    g.ndata["x"] = torch.rand(1000, 100)[:3]
    sg.save_graphs(path, sg.node_subgraph(g, [2, 0]))
    assert path.stat().st_size < 20_000
    (found,), _ = sg.load_graphs(path)
    assert found.ndata[sg.NID].tolist() == [2, 0]
    assert torch.equal(found.ndata["x"], g.ndata["x"][[2, 0]])
    sg.save_graphs(path, g)
    assert path.stat().st_size < 20_000


def test_what_is_read_is_not_the_file(path):
    found = through_file(path, sample())
    found.ndata["h"].zero_()
    (again,), _ = sg.load_graphs(path)
    path.unlink()
    assert torch.equal(again.ndata["h"], sample().ndata["h"])


def test_graphs_without_anything(path):
    empty = sg.graph(([], []), idtype=torch.int32)
    check_equal(through_file(path, empty), empty)
    sg.save_graphs(path, [], {"y": torch.zeros(0, 2)})
    found, labels = sg.load_graphs(path)
    assert found == [] and labels["y"].shape == (0, 2)


# ---- formats ----


def test_formats(path):
    g = sample()
    found = through_file(path, g, formats=["csr", "csc"])
    assert found.formats() == {"created": ["csr", "csc"], "not created": ["coo"]}
    assert g.formats()["created"] == ["coo"]  # those that are made are not kept
    assert pairs(found) == pairs(g)
    assert through_file(path, g, formats="csc").formats()["created"] == ["csc"]
    with pytest.raises(smex.SmexValueError, match="formats: expected names among"):
        sg.save_graphs(path, g, formats="ell")


def test_restricted_graphs_stay_so(path):
    g = sample().formats("csc")
    assert through_file(path, g).formats() == {"created": ["csc"], "not created": []}
    assert through_file(path, g, formats="coo").formats()["created"] == ["csc"]
    back = sg.reverse(g)
    check_equal(through_file(path, back), back)


# ---- several graphs, labels, the file ----


def test_several_graphs_and_labels(path):
    labels = {"y": torch.tensor([1, 2, 3]), "z": torch.rand(3, 2, requires_grad=True)}
    labels |= {"of_nodes": torch.rand(7, 1), "number": torch.tensor(2.5)}
    sg.save_graphs(str(path), [sample(), block(), sg.graph(([0], [1]))], labels)
    found, read = sg.load_graphs(str(path), [2, 0, 0])
    assert [g.num_edges() for g in found] == [1, 4, 4] and found[1] is not found[2]
    torch.testing.assert_close(read, {name: label.detach() for name, label in labels.items()})
    assert sg.load_labels(path).keys() == labels.keys()
    (one,), _ = sg.load_graphs(path, torch.tensor([1]))
    check_equal(one, block())


def test_plain_tensors_only(path):
    sg.save_graphs(path, [sample(), sg.batch([sample()]), block()])
    content = torch.load(path, weights_only=True)
    assert (content["format"], content["version"]) == ("smex-graphs", 2)

    def check(value):
        if isinstance(value, (dict, list)):
            for each in value.values() if isinstance(value, dict) else value:
                check(each)
        else:
            assert value is None or type(value) in (torch.Tensor, str, int)

    check(content)


def test_folders_are_made_and_links_followed(tmp_path):
    path = tmp_path / "a" / "b" / "graphs.bin"
    sg.save_graphs(path, sample())
    link = tmp_path / "link.bin"
    link.symlink_to(path)
    sg.save_graphs(link, block())
    assert link.is_symlink() and sg.load_graphs(path)[0][0].is_block


@pytest.mark.parametrize("step", ["save", "fsync"])
def test_a_failure_leaves_the_old_file(path, monkeypatch, step):
    sg.save_graphs(path, sample())
    before = path.read_bytes()

    def fail(*args):
        if step == "save":
            args[1].write_bytes(b"half of it")
        raise OSError("no space left")

    monkeypatch.setattr(*((torch, "save", fail) if step == "save" else (os, "fsync", fail)))
    with pytest.raises(OSError, match="no space left"):
        sg.save_graphs(path, block())
    assert path.read_bytes() == before and os.listdir(path.parent) == [path.name]


# ---- errors ----


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ((3,), TypeError, "'int' object is not iterable"),
        (([sample(), "g"],), smex.SmexTypeError, "a list of graphs, found str at position 1"),
        ((sample(), {"y": [1]}), smex.SmexTypeError, "labels as tensors by name, found 'y' with"),
        ((sample(), {1: torch.ones(1)}), smex.SmexTypeError, "by name, found 1 with Tensor"),
    ],
)
def test_what_is_not_saved(path, arguments, error, text):
    with pytest.raises(error, match=text):
        sg.save_graphs(path, *arguments)
    assert os.listdir(path.parent) == []


def test_positions_that_do_not_exist(path):
    sg.save_graphs(path, [sample(), block()])
    for n in (2, -1):
        with pytest.raises(smex.SmexValueError, match=f"has 2 graphs, .* found {n}"):
            sg.load_graphs(path, [0, n])


@pytest.mark.parametrize("load", [sg.load_graphs, sg.load_labels])
def test_files_of_others(path, load):
    with pytest.raises(FileNotFoundError):
        load(path)
    for content in (b"", b"PK", b"graph TD;", b"PK\x03\x04"):
        path.write_bytes(content)
        with pytest.raises(smex.SmexValueError, match="something else, exp|is incomplete"):
            load(path)
    for value in ([1], {"format": "smex"}, sample(), torch.ones(3)):
        torch.save(value, path)
        with pytest.raises(smex.SmexValueError, match=f"{load.__name__}: .* holds something else"):
            load(path)
    torch.save({"format": "smex-graphs", "version": 3}, path)
    with pytest.raises(smex.SmexValueError, match="has version 3 of the format, expected 2"):
        load(path)


def test_one_graph_of_many_is_read_without_the_others(path):
    parts = []
    for number in (1, 100):
        sg.save_graphs(path, [sample() for _ in range(number)])
        with zipfile.ZipFile(path) as file:
            parts.append(len(file.namelist()))
    assert parts[0] == parts[1]
    content = torch.load(path, weights_only=True)
    content["records"][: int(content["ends"][97])] = 0
    torch.save(content, path)
    (one,), _ = sg.load_graphs(path, [98])
    check_equal(one, sample())


@pytest.mark.parametrize(
    "dtype",
    [torch.bool, torch.uint8, torch.int16, torch.half, torch.bfloat16, torch.cfloat, torch.double],
)
@pytest.mark.parametrize("size", [0, 3, 40_000])
def test_features_of_every_dtype_and_size(path, dtype, size):
    g = sg.graph(([], []), num_nodes=size)
    g.ndata["a"], g.ndata["b"] = torch.rand(2, size).gt(0.5).to(dtype)
    g.ndata["tensor"] = torch.arange(3 * size).view(3, size).T.to(dtype)
    sg.save_graphs(path, [g, g])
    for found in sg.load_graphs(path)[0]:
        for name, column in g.ndata.items():
            assert found.ndata[name].dtype == dtype and torch.equal(found.ndata[name], column)


# ---- files of DGL ----


def parts_of_dgl(idtype):
    """Edges, sizes and features of two node types and two edge types."""
    ids = np.array([2, 0, 1, 1], idtype), np.array([1, 1, 0, 2], idtype)
    edges = {("u", "r", "u"): ids, ("u", "s", "v"): (ids[0][:3], ids[1][:3])}
    features = {"u": {"h": rng.random((3, 2), np.float32), "m": np.array([True, False, True])}}
    weights = {("u", "s", "v"): {"w": np.arange(3), "x": rng.random((3, 1))}}
    return edges, {"u": 3, "v": 4}, features, weights


@pytest.mark.parametrize("idtype", [np.int64, np.int32])
@pytest.mark.parametrize("form", ["coo", "csr", "csc"])
def test_files_of_dgl(path, form, idtype):
    parts = parts_of_dgl(idtype)
    one = ({("_N", "_E", "_N"): (np.zeros(1, idtype), np.ones(1, idtype))}, {"_N": 2}, {}, {})
    contents = [dgl_files.graph(*each, form) for each in (parts, one)]
    dgl_files.write_dgl_graphs(path, contents, {"y": np.array([3, 4])})
    edges, sizes, features, weights = parts
    expected = sg.heterograph(
        {c: tuple(torch.from_numpy(ids) for ids in ends) for c, ends in edges.items()}, sizes
    )
    for name, rows in features["u"].items():
        rows = rows.astype(np.uint8) if rows.dtype == bool else rows  # as DGL keeps them
        expected.nodes["u"].data[name] = torch.from_numpy(rows)
    for name, rows in weights["u", "s", "v"].items():
        expected.edges["s"].data[name] = torch.from_numpy(rows)
    (first, second), labels = sg.load_graphs(path)
    check_equal(first, expected)
    assert pairs(second) == [(0, 1)] and labels["y"].tolist() == [3, 4]
    (only,), _ = sg.load_graphs(str(path), [1])
    check_equal(only, second)
    assert sg.load_labels(path)["y"].tolist() == [3, 4]
    with pytest.raises(smex.SmexValueError, match="has 2 graphs, .* found 2"):
        sg.load_graphs(path, [2])


def test_a_file_that_dgl_wrote(path):
    """By DGL 2.1: a typed graph, with int32 ids and all formats, and one of compressed columns."""
    packed = pathlib.Path(__file__).parent / "dgl_2_1_graphs.bin.gz"
    path.write_bytes(gzip.decompress(packed.read_bytes()))
    (first, second, third), labels = sg.load_graphs(path)
    for g, idtype in ((first, torch.int64), (second, torch.int32)):
        assert g.idtype == idtype and (g.num_nodes("u"), g.num_nodes("v")) == (4, 3)
        assert pairs(g, "r") == [(0, 1), (1, 1), (2, 0)] and pairs(g, "s") == [(0, 2)]
        assert torch.equal(g.nodes["u"].data["h"], torch.arange(8.0).view(4, 2))
        assert g.edges["r"].data["w"].tolist() == [0, 1, 2]
        assert g.nodes["v"].data["m"].tolist() == [1, 0, 1]
    assert pairs(third) == [(1, 0), (1, 1), (0, 1)] and labels["y"].tolist() == [1, 2, 3]


def test_files_of_dgl_that_are_not_read(path):
    dgl_files.write_dgl_graphs(path, [dgl_files.graph(*parts_of_dgl(np.int64))])
    whole = path.read_bytes()
    mark = dgl_files.numbers(dgl_files.MARKS["array"])
    for content in (
        whole[:8],
        whole[:5000],
        whole[:-20],
        whole[:8] + dgl_files.numbers(1) + whole[16:],
        whole.replace(mark, dgl_files.numbers(1)),
    ):
        path.write_bytes(content)
        for load in (sg.load_graphs, sg.load_labels):
            if load is sg.load_graphs or len(content) < 20:
                with pytest.raises(smex.SmexValueError, match="was written by DGL and is not read"):
                    load(path)


@pytest.mark.parametrize("kept", [0.1, 0.5, 0.99])
def test_truncated_files(path, kept):
    sg.save_graphs(path, sample())
    content = path.read_bytes()
    path.write_bytes(content[: int(kept * len(content))])
    with pytest.raises(smex.SmexValueError, match="is incomplete, its end is missing"):
        sg.load_graphs(path)


def spoil_ids(record):
    record["edges"][0]["formats"]["coo"][1][0] = 99


def spoil_format(record):
    record["edges"][0]["formats"]["csc"] = [torch.zeros(4, dtype=torch.int64)] * 2 + [None]


def spoil_features(record):
    record["nodes"]["_N"]["features"]["h"] = torch.zeros(5)


def spoil_types(record):
    record["edges"][0]["type"] = ["_N", "_E", "b"]


@pytest.mark.parametrize("spoil", [spoil_ids, spoil_format, spoil_features, spoil_types])
def test_damaged_graphs(path, spoil):
    records = [serialization._graph_record(sample(), None) for _ in range(2)]
    spoil(records[1])
    torch.save(serialization._content(records, {}), path)
    assert len(sg.load_graphs(path, [0])[0]) == 1
    with pytest.raises(smex.SmexValueError, match="load_graphs: graph 1 in .* is damaged"):
        sg.load_graphs(path)


# ---- checksums ----


def large():
    """Features with a place of their own in the file, and small ones."""
    g = sample()
    g.ndata["large"] = torch.rand(3, 30_000)
    return g


SPOILT = {
    "records": lambda content: content["records"],
    "small tensors": lambda content: content["bytes"],
    "large tensors": lambda content: content["tensors"][1],
    "labels": lambda content: content["labels"]["y"],
}


@pytest.mark.parametrize("part", SPOILT)
def test_bytes_that_changed(path, part):
    sg.save_graphs(path, [large(), large()], {"y": torch.tensor([3, 4])})
    content = torch.load(path, weights_only=True)
    SPOILT[part](content).view(torch.uint8).view(-1)[-2] ^= 16
    torch.save(content, path)
    what = 'label "y"' if part == "labels" else "graph 1"
    text = f"load_graphs: {what} in .*graphs.bin is damaged, its checksum is [0-9a-f]{{8}} and was"
    with pytest.raises(smex.SmexValueError, match=text):
        sg.load_graphs(path)
    if part == "labels":
        with pytest.raises(smex.SmexValueError, match="load_labels: label"):
            sg.load_labels(path)
    else:
        check_equal(sg.load_graphs(path, [0])[0][0], large_as_saved(content))


def large_as_saved(content):
    g = sample()
    g.ndata["large"] = content["tensors"][0]
    return g


def test_a_byte_of_the_file_that_changed(path):
    g = large()
    sg.save_graphs(path, g)
    data = bytearray(path.read_bytes())
    start = data.find(g.ndata["large"].numpy().tobytes())
    for place in (start, start + 123_457):
        data[place] ^= 1
        path.write_bytes(data)
        with pytest.raises(smex.SmexValueError, match="graph 0 in .* is damaged, its checksum"):
            sg.load_graphs(path)
        data[place] ^= 1
    path.write_bytes(data)
    check_equal(sg.load_graphs(path)[0][0], g)


def test_files_without_checksums(path):
    g = large()
    sg.save_graphs(path, [g, g], {"y": torch.tensor([3, 4])})
    content = torch.load(path, weights_only=True)
    del content["sums"]
    torch.save(content, path)
    found, labels = sg.load_graphs(path)
    check_equal(found[1], g)
    assert labels["y"].tolist() == [3, 4]


def test_features_that_are_no_rows_of_memory(path):
    g = sg.graph(([0], [1]))
    g.ndata["turned"] = torch.rand(30_000, 2).T
    g.ndata["imaginary"] = torch.rand(2, 30_000, dtype=torch.cfloat).conj()
    check_equal(through_file(path, g), g)


def test_torch_keeps_its_own_checksums(path):
    assert torch.serialization.get_crc32_options()
    sg.save_graphs(path, sample())
    assert torch.serialization.get_crc32_options()
