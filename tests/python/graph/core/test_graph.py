"""The graph itself: types, sizes, features, scopes, batches, devices and copies."""

import copy
import pickle
import threading

import networkx
import pytest
import scipy.sparse
import torch

import smex
import smex.graph as sg

IDTYPES = [torch.int32, torch.int64]
FOLLOWS, PLAYS, MAKES = (
    ("user", "follows", "user"),
    ("user", "plays", "game"),
    ("dev", "makes", "game"),
)


@pytest.fixture
def homo():
    return sg.graph(([0, 1, 1, 2, 0], [1, 2, 2, 0, 1]))


@pytest.fixture
def hetero():
    return sg.heterograph(
        {
            FOLLOWS: ([0, 1], [1, 2]),
            PLAYS: ([0, 1, 2], [0, 0, 1]),
            MAKES: ([0], [1]),
            ("dev", "plays", "game"): ([0], [1]),
        }
    )


@pytest.fixture
def block():
    return sg.create_block({("u", "r", "v"): ([0, 1], [1, 2]), ("v", "s", "v"): ([0, 1], [1, 2])})


# ---- the constructor of old programs ----


def test_graphs_that_grow_from_nothing():
    g = sg.DGLGraph()
    assert g.is_homogeneous and g.num_nodes() == g.num_edges() == 0
    g.add_nodes(3, {"h": torch.ones(3)})
    g.add_edges([0, 1], 2)
    assert repr(g) == repr(sg.graph(([0, 1], [2, 2]))).replace(
        "ndata_schemes={}", "ndata_schemes={'h': Scheme(shape=(), dtype=torch.float32)}"
    )


@pytest.mark.parametrize(
    "data", [([0, 1], [1, 2]), [(0, 1), (1, 2)], networkx.DiGraph([(0, 1), (1, 2)])]
)
def test_graphs_of_edges(data):
    g = sg.DGLGraph(data)
    assert [end.tolist() for end in g.edges()] == [[0, 1], [1, 2]]
    with pytest.raises(smex.SmexValueError, match="Graph: expected edges, found a graph already"):
        sg.DGLGraph(g)


def test_graphs_of_matrices():
    assert sg.DGLGraph(scipy.sparse.eye(3).tocsr()).num_edges() == 3
    assert sg.DGLGraph(([0], [1]), 5, idtype=torch.int32).num_nodes() == 5


# ---- types and sizes ----


def test_types_of_a_graph_without_names(homo):
    assert homo.ntypes == ["_N"] and homo.etypes == ["_E"]
    assert homo.canonical_etypes == [("_N", "_E", "_N")]
    assert homo.srctypes == homo.dsttypes == ["_N"]
    assert homo.is_homogeneous and not homo.is_unibipartite and not homo.is_block
    assert homo.get_etype_id(None) == homo.get_ntype_id(None) == 0


def test_types_of_a_heterograph(hetero):
    assert hetero.ntypes == ["dev", "game", "user"]
    assert hetero.etypes == ["makes", "plays", "follows", "plays"]
    assert hetero.to_canonical_etype("makes") == MAKES == hetero.to_canonical_etype(list(MAKES))
    assert hetero.get_etype_id(PLAYS) == 3 and hetero.get_ntype_id("game") == 1
    assert not hetero.is_homogeneous and not hetero.is_unibipartite
    assert hetero.srctypes == hetero.dsttypes == hetero.ntypes


def test_types_of_a_bipartite_graph():
    g = sg.heterograph({("u", "r", "v"): ([0], [1])}, num_nodes_dict={"u": 4, "v": 5, "w": 6})
    assert g.is_unibipartite and not g.is_block
    assert g.srctypes == ["u", "w"] and g.dsttypes == ["v"]
    assert g.num_src_nodes() == 10 and g.num_dst_nodes() == 5 and g.num_nodes() == 15
    assert g.get_ntype_id("DST/v") == g.get_ntype_id_from_dst(None) == 1
    with pytest.raises(smex.SmexValueError, match="source node type: the graph has no 'v'"):
        g.num_src_nodes("v")
    with pytest.raises(smex.SmexValueError, match='has 2 of them, expected .* among "u", "w"'):
        g.srcnodes()


def test_types_of_a_block(block):
    assert block.ntypes == ["u", "v", "v"]
    assert block.srctypes == ["u", "v"] and block.dsttypes == ["v"]
    assert block.is_block and block.is_unibipartite and not block.is_homogeneous
    assert (block.num_nodes("v"), block.num_src_nodes("v"), block.num_dst_nodes("v")) == (2, 2, 3)
    assert (block.num_nodes(), block.num_src_nodes(), block.num_dst_nodes()) == (7, 4, 3)
    assert [block.get_ntype_id(t) for t in ("u", "v", "SRC/v", "DST/v")] == [0, 1, 1, 2]
    assert block.get_ntype_id_from_src("v") == 1 and block.get_ntype_id_from_dst("v") == 2


@pytest.mark.parametrize(
    ("ask", "text"),
    [
        (lambda g: g.to_canonical_etype("zz"), "edge type: the graph has no 'zz'; it has"),
        (lambda g: g.num_nodes("usr"), "node type: the graph has no 'usr'.*; did you mean 'user'"),
        (lambda g: g.to_canonical_etype(("a", "b", "c")), r"has no \('a', 'b', 'c'\)"),
        (lambda g: g.to_canonical_etype("plays"), '"plays" is ambiguous; pass one of'),
        (lambda g: g.to_canonical_etype(None), "the graph has 4 of them, expected a name"),
        (lambda g: g.num_nodes("zz"), "node type: the graph has no 'zz'"),
        (lambda g: g.num_dst_nodes("zz"), "destination node type: the graph has no 'zz'"),
        (lambda g: g.get_ntype_id(None), "node type: the graph has 3 of them"),
        (lambda g: g.nodes(), "node type: the graph has 3 of them"),
        (lambda g: g.edges(), "edge type: the graph has 4 of them"),
        (lambda g: g.nodes["zz"], "node type: the graph has no 'zz'"),
        (lambda g: g.edges["plays"], "ambiguous"),
    ],
)
def test_unknown_types(hetero, ask, text):
    with pytest.raises(smex.SmexValueError, match=text):
        ask(hetero)


def test_sizes(hetero):
    assert hetero.num_nodes() == 6 and hetero.number_of_nodes("user") == 3
    assert hetero.num_edges() == 7 and hetero.number_of_edges(PLAYS) == 3
    assert hetero.number_of_src_nodes("user") == hetero.number_of_dst_nodes("user") == 3


@pytest.mark.parametrize("idtype", IDTYPES)
def test_ids_have_the_graphs_dtype(idtype):
    g = sg.graph(([0, 1], [1, 2]), idtype=idtype)
    assert g.idtype == idtype and g.nodes().dtype == idtype
    assert all(end.dtype == idtype for end in g.edges("all"))
    assert g.batch_num_nodes().dtype == g.batch_num_edges().dtype == idtype
    assert g.srcnodes().tolist() == g.dstnodes("_N").tolist() == [0, 1, 2]


# ---- features ----


def test_features_of_one_type(homo):
    h = torch.rand(3, 2)
    homo.ndata["h"] = h
    homo.edata.update({"w": torch.ones(5)}, x=torch.zeros(5))
    assert homo.ndata["h"] is h is homo.srcdata["h"] is homo.dstdata["h"]
    assert homo.nodes["_N"].data["h"] is homo.nodes[:].data["h"] is h
    assert list(homo.edata) == ["w", "x"] and homo.edges["_E"].data.keys() == {"w", "x"}
    assert homo.ndata == {"h": h} and "h" in homo.ndata and "x" not in homo.ndata
    assert homo.ndata.pop("h") is h and homo.ndata.pop("h", 1) == 1 and len(homo.ndata) == 0
    del homo.edata["w"]
    homo.edata.clear()
    assert dict(homo.edata) == {}
    assert homo.node_attr_schemes() == homo.edge_attr_schemes() == {}


def test_features_of_several_types(hetero):
    user, game = torch.ones(3, 2), torch.zeros(2)
    hetero.ndata["h"] = {"user": user, "game": game}
    assert hetero.ndata["h"] == {"game": game, "user": user}
    assert hetero.nodes["user"].data["h"] is user and "h" not in hetero.nodes["dev"].data
    hetero.edata["w"] = {"makes": torch.ones(1), PLAYS: torch.zeros(3)}
    assert list(hetero.edata["w"]) == [MAKES, PLAYS] and list(hetero.edata) == ["w"]
    assert next(iter(hetero.edata.items()))[1].keys() == {MAKES, PLAYS}
    assert hetero.ndata["nothing"] == {} and "nothing" not in hetero.ndata
    assert hetero.ndata.pop("h").keys() == {"user", "game"} and hetero.ndata.pop("h", 1) == 1
    del hetero.edata["w"]
    hetero.ndata.update(a={"user": user}, b={"dev": torch.ones(1)})
    assert sorted(hetero.ndata.keys()) == ["a", "b"] and len(hetero.edata) == 0
    hetero.ndata.clear()
    assert len(hetero.ndata) == 0


def test_features_of_a_block(block):
    block.srcdata["h"] = {"v": torch.ones(2)}
    block.dstdata["h"] = torch.zeros(3)
    assert block.srcnodes["v"].data["h"].tolist() == [1, 1]
    assert block.dstnodes["v"].data["h"].tolist() == [0, 0, 0]
    block.ndata["k"] = {"DST/v": torch.ones(3), "SRC/v": torch.ones(2)}
    assert block.dstdata["k"].shape == (3,) and block.srcdata["k"]["v"].shape == (2,)


def test_views_look_like_dicts(homo, hetero):
    homo.ndata["h"] = torch.zeros(3)
    assert repr(homo.ndata) == "{'h': tensor([0., 0., 0.])}" == repr(homo.nodes["_N"].data)
    assert str(homo.ndata.keys()) == "dict_keys(['h'])" and len(homo.ndata.values()) == 1
    assert homo.ndata.schemes == homo.node_attr_schemes()
    hetero.ndata["h"] = {"dev": torch.zeros(1)}
    assert repr(hetero.ndata) == "{'h': {'dev': tensor([0.])}}"
    assert [list(typed) for typed in hetero.ndata.values()] == [["dev"]]
    for name in homo.ndata:  # what is listed may be removed
        del homo.ndata[name]


def test_destination_types_of_their_own():
    block = sg.create_block({("u", "r", "v"): ([0], [1]), ("u", "s", "w"): ([0], [2])})
    block.dstdata["h"] = {"v": torch.zeros(2), "w": torch.zeros(3)}
    assert block.nodes["w"].data["h"].shape == (3,) and block.num_nodes("v") == 2
    assert "h" not in block.srcdata


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (torch.ones(4), smex.SmexValueError, "expected 3 rows"),
        ([1, 2, 3], smex.SmexTypeError, "expected a tensor, found list"),
        ({"user": torch.ones(3)}, smex.SmexTypeError, "a tensor, found a dict; dicts from type"),
        (torch.ones(3, device="meta"), smex.SmexValueError, "expected a tensor on cpu .* meta"),
    ],
)
def test_features_that_do_not_fit(homo, hetero, value, error, text):
    homo.ndata["h"] = h = torch.zeros(3)
    with pytest.raises(error, match=text):
        homo.ndata["h"] = value
    with pytest.raises(error, match=text):
        homo.ndata.update({"good": torch.zeros(3), "h": value})
    assert homo.ndata == {"h": h}
    with pytest.raises(error, match=text):
        hetero.ndata["h"] = {"game": torch.ones(2), "user": value}
    with pytest.raises(error, match=text):
        hetero.nodes["user"].data["h"] = value
    assert len(hetero.ndata) == 0


def test_several_types_need_a_dict(hetero):
    with pytest.raises(smex.SmexTypeError, match='several types, .* "dev", "game", "user"'):
        hetero.ndata["h"] = torch.ones(3)
    with pytest.raises(smex.SmexTypeError, match="several types"):
        hetero.edata["h"] = torch.ones(3)
    with pytest.raises(smex.SmexValueError, match="no 'zz'"):
        hetero.ndata["h"] = {"user": torch.ones(3), "zz": torch.ones(3)}
    assert len(hetero.ndata) == 0


def test_features_of_some_rows(homo):
    homo.nodes[[0, 2]].data["h"] = torch.ones(2, 2)
    assert homo.ndata["h"].tolist() == [[1, 1], [0, 0], [1, 1]]
    assert homo.nodes[torch.tensor([1])].data["h"].tolist() == [[0, 0]]
    assert homo.nodes[2].data["h"].shape == (1, 2)
    homo.edges[1:3].data["w"] = torch.ones(2)
    homo.edges[0, 1].data["w"] = torch.full((1,), 5.0)
    homo.edges[[2], [0]].data.update(w=torch.full((1,), 7.0))
    assert homo.edata["w"].tolist() == [5, 1, 1, 7, 0]
    assert homo.edges[[0, 2], [1, 0]].data["w"].tolist() == [5, 7]
    assert homo.nodes[[0], "_N"].data.keys() == {"h"} and len(homo.edges[[0], "_E"].data) == 1
    assert homo.nodes[:, "_N"].data["h"] is homo.ndata["h"] is homo.nodes[sg.ALL, "_N"].data["h"]


@pytest.mark.parametrize(
    ("rows", "value", "error", "text"),
    [
        ([0, 3], torch.ones(2), smex.SmexValueError, "expected ids from 0 to 2, found 3"),
        ([-1, 0], torch.ones(2), smex.SmexValueError, "found -1"),
        ([0, 1], torch.ones(3), smex.SmexValueError, "expected 2 rows"),
        ([0], torch.ones(1, 4), smex.SmexTypeError, "expected rows of torch.float32"),
        ([0.5], torch.ones(1), smex.SmexTypeError, "integer dtype, found torch.float32"),
        (torch.tensor([True, False, True]), torch.ones(2), smex.SmexTypeError, "a mask becomes"),
        ([[0, 1]], torch.ones(2), smex.SmexValueError, "expected a vector of ids"),
        (object(), torch.ones(2), smex.SmexTypeError, "expected ids .* found object"),
    ],
)
def test_rows_that_do_not_fit(homo, rows, value, error, text):
    homo.ndata["h"] = torch.zeros(3)
    with pytest.raises(error, match=text):
        homo.nodes[rows].data["h"] = value
    assert homo.ndata["h"].eq(0).all()


def test_writing_rows_keeps_gradients(homo):
    x = torch.ones(1, requires_grad=True)
    h = torch.zeros(3, requires_grad=True)
    homo.ndata["h"] = h
    homo.nodes[1].data["h"] = x * 3
    homo.ndata["h"].sum().backward()
    assert x.grad.tolist() == [3] and h.grad.tolist() == [1, 0, 1]


def test_storages_fetch_rows(homo):
    homo.ndata["h"] = torch.arange(3.0)
    homo.edata["w"] = torch.arange(5.0)
    assert homo.get_node_storage("h").fetch(torch.tensor([2]), "cpu").tolist() == [2]
    storage = homo.get_edge_storage("w")
    assert storage.fetch(torch.tensor([4, 0]), "meta").shape == (2,) and not storage.requires_ddp
    with pytest.raises(KeyError):
        homo.get_node_storage("x")


# ---- scopes ----


def test_a_scope_forgets_what_was_set(homo):
    homo.ndata["h"] = h = torch.zeros(3)
    with homo.local_scope():
        homo.ndata["h"] = torch.ones(3)
        homo.edata["w"] = torch.ones(5)
        view = homo.ndata
        homo.ndata.pop("h")
        assert "h" not in view
    assert homo.ndata["h"] is h is view["h"] and "w" not in homo.edata


def test_a_scope_ends_with_an_error_and_may_be_nested(homo):
    def nested():
        with homo.local_scope():
            homo.ndata["a"] = torch.zeros(3)
            with homo.local_scope():
                homo.ndata["b"] = torch.zeros(3)
            assert list(homo.ndata) == ["a"]
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        nested()
    assert list(homo.ndata) == []


def test_a_scope_forgets_changes_of_the_structure(homo):
    homo.set_batch_num_nodes(torch.tensor([1, 2]))
    with homo.local_scope():
        homo.add_edges([0], [7])
        homo.ndata["h"] = torch.zeros(8)
    assert homo.num_nodes() == 3 and homo.num_edges() == 5 and homo.batch_size == 2
    homo.ndata["h"] = torch.zeros(3)


def test_a_scope_of_a_block(block):
    with block.local_scope():
        block.dstdata["h"] = torch.zeros(3)
        block.srcdata["h"] = {"v": torch.zeros(2)}
    assert len(block.ndata) == 0


@pytest.mark.parametrize("method", ["local_var", "clone", "__copy__"])
def test_copies_share_structure_and_tensors(homo, method):
    homo.ndata["h"] = torch.zeros(3)
    other = getattr(homo, method)()
    other.ndata["x"] = torch.ones(3)
    other.add_nodes(2)
    assert other.relation().coo()[0] is homo.relation().coo()[0]
    assert homo.ndata.keys() == {"h"} and homo.num_nodes() == 3 and other.num_nodes() == 5
    other.set_n_initializer(lambda *_: 1 / 0)
    homo.add_nodes(1)


def test_threads_with_graphs_of_their_own(homo):
    failures = []

    def work(number):
        for step in range(200):
            g = homo.local_var()
            g.ndata["h"] = torch.full((3,), float(number))
            with g.local_scope():
                g.ndata["h"] = torch.full((3,), float(step))
                edges = (
                    g.in_edges([1, 2], form="eid").tolist() + g.out_edges([1], form="eid").tolist()
                )
            if g.ndata["h"][0] != number or edges != [0, 4, 1, 2, 1, 2]:
                failures.append((number, step))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures and len(homo.ndata) == 0


# ---- torch.compile ----


def on_one_type(g, x):
    with g.local_scope():
        g.ndata["h"] = x * 2
        g.edges["_E"].data["w"] = x[:1].expand(5, -1)
        g.srcdata.update({"k": g.ndata.pop("h") + 1})
        return g.ndata["k"] + g.edata["w"].sum() + g.num_nodes()


def on_several_types(g, x):
    with g.local_scope():
        g.ndata["h"] = {"user": x, "game": x[:2]}
        for canonical in g.canonical_etypes:
            g.edges[canonical].data["w"] = x[:1].expand(g.num_edges(canonical), -1)
        w = g.edata["w"][PLAYS].sum()
        return g.ndata["h"]["user"] + w + g.nodes["game"].data["h"].sum()


@pytest.mark.parametrize("captured", [True, False])
@pytest.mark.parametrize(
    ("fixture", "function"), [("homo", on_one_type), ("hetero", on_several_types)]
)
def test_compile_scopes_and_features(request, fixture, function, captured):
    g = request.getfixturevalue(fixture)
    x = torch.rand(3, 2, requires_grad=True)
    options = {"fullgraph": True, "backend": "aot_eager"}
    if captured:
        result = torch.compile(lambda x: function(g, x), **options)(x)
    else:
        result = torch.compile(function, **options)(g, x)
    expected = function(g, x)
    torch.testing.assert_close(result, expected)
    grads = [torch.autograd.grad(y.square().sum(), x)[0] for y in (result, expected)]
    torch.testing.assert_close(*grads)
    assert len(g.ndata) == len(g.edata) == 0


def test_compile_copies_of_blocks(block):
    def function(g, x):
        g = g.local_var()
        g.dstdata["x"] = x
        g.srcnodes["v"].data["x"] = x[:2]
        return g.dstnodes["v"].data["x"] + g.in_degrees(range(3), etype="s").sum()

    x = torch.rand(3, 2)
    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(block, x), function(block, x))
    assert len(block.ndata) == 0


def test_compile_copies_and_pending_features(homo):
    homo.ndata["p"] = torch.rand(3, 2)
    part = homo.edge_subgraph([0, 1], relabel_nodes=True)

    def function(g, x):
        g = g.local_var()
        g.ndata["x"] = g.ndata["p"] + x
        return g.nodes[torch.tensor([0, 1])].data["x"] + g.in_degrees().sum()

    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    for x in (torch.rand(3, 2), torch.rand(3, 2)):
        torch.testing.assert_close(compiled(part, x), function(part, x))


# ---- devices and dtypes ----


def test_dtype_of_ids(homo):
    homo.ndata["h"] = torch.zeros(3)
    homo.set_batch_num_nodes(torch.tensor([1, 2]))
    small = homo.int()
    assert small.idtype == torch.int32 == small.batch_num_nodes().dtype and homo.long() is homo
    assert small.ndata["h"] is homo.ndata["h"] and small.int() is small
    assert small.in_degrees([0]).dtype == small.edge_ids([0], [1]).dtype == torch.int32
    assert homo.astype(torch.int32).long().idtype == torch.int64
    small.ndata["x"] = torch.zeros(3)
    assert "x" not in homo.ndata
    with pytest.raises(smex.SmexTypeError, match="astype: expected torch.int32 or torch.int64"):
        homo.astype(torch.float32)


def test_devices(homo, block):
    assert homo.cpu() is homo and homo.to(None) is homo
    homo.ndata["h"] = torch.zeros(3)
    copied = homo.to("cpu")
    copied.ndata["x"] = torch.zeros(3)
    assert copied is not homo and "x" not in homo.ndata and copied.ndata["h"] is homo.ndata["h"]
    assert copied.device == torch.device("cpu")
    block.dstdata["h"] = torch.zeros(3)
    assert block.to("cpu").dstdata["h"].shape == (3,) and block.to("cpu").is_block


def test_a_graph_on_meta(homo):
    homo.ndata["h"] = torch.zeros(3, 4)
    meta = homo.to("meta")
    assert meta.device.type == "meta" == meta.ndata["h"].device.type == meta.edges()[0].device.type
    assert meta.materialize_data() is meta


@pytest.mark.cuda
def test_a_graph_on_cuda(homo):
    homo.ndata["h"] = torch.rand(3, 4)
    there = homo.cuda()
    assert there.device == torch.device("cuda:0") and there.ndata["h"].is_cuda
    assert there.in_degrees().tolist() == homo.in_degrees().tolist()
    there.record_stream(torch.cuda.current_stream())
    assert torch.equal(there.cpu().ndata["h"], homo.ndata["h"])
    pinned = homo.clone().pin_memory_()
    assert pinned.is_pinned() and pinned.ndata["h"].is_pinned()
    assert not pinned.unpin_memory_().is_pinned()


def test_pinning_and_streams_need_cuda(homo):
    if torch.cuda.is_available():
        pytest.skip("asks for the errors of a machine without CUDA")
    homo.ndata["h"] = h = torch.zeros(3)
    with pytest.raises(smex.SmexRuntimeError, match="pin_memory_"):
        homo.pin_memory_()
    assert not homo.is_pinned() and homo.unpin_memory_() is homo and homo.ndata["h"] is h
    with pytest.raises(smex.SmexValueError, match="record_stream: expected a graph on a CUDA"):
        homo.record_stream(None)


def test_formats(homo):
    assert homo.formats() == {"created": ["coo"], "not created": ["csr", "csc"]}
    homo.in_edges([0])
    assert "csc" in homo.formats()["created"]
    homo.ndata["h"] = torch.zeros(3)
    only = homo.formats(["csc", "csr"])
    assert "h" in only.ndata and "coo" not in only.formats()["created"]
    homo.create_formats_()
    assert homo.formats() == {"created": ["coo", "csr", "csc"], "not created": []}
    with pytest.raises(smex.SmexValueError, match="formats: expected names among"):
        homo.formats("xyz")


# ---- copies ----


@pytest.mark.parametrize("copier", [copy.deepcopy, lambda g: pickle.loads(pickle.dumps(g))])
def test_pickling_and_deep_copies(homo, hetero, block, copier):
    homo.ndata["h"] = torch.rand(3, 2)
    homo.edata["w"] = torch.rand(5)
    homo.create_formats_()
    homo.set_batch_num_nodes(torch.tensor([1, 2]))
    other = copier(homo)
    assert repr(other) == repr(homo) and other.batch_size == 2
    assert other.formats() == homo.formats()
    torch.testing.assert_close(dict(other.ndata), dict(homo.ndata))
    other.ndata["h"].zero_()
    assert homo.ndata["h"].abs().sum() > 0
    other.add_nodes(1)
    assert other.num_src_nodes() == other.num_dst_nodes() == 4
    for g in (hetero, block):
        assert repr(copier(g)) == repr(g) and copier(g).is_block == g.is_block


@pytest.mark.parametrize("copier", [copy.deepcopy, lambda g: pickle.loads(pickle.dumps(g))])
def test_copies_of_graphs_that_were_computed_with(homo, copier):
    w = torch.ones(3, 2, requires_grad=True)
    homo.ndata["h"], homo.ndata["hh"] = w, w * 2
    homo.ndata["same"] = homo.ndata["hh"]
    homo.edata["p"] = torch.nn.Parameter(torch.ones(5))
    homo.update_all(sg.function.copy_u("hh", "m"), sg.function.sum("m", "out"))
    part = sg.node_subgraph(homo, [2, 1])  # its features have not been gathered yet
    for g in (homo, part):
        other = copier(g)
        assert repr(other) == repr(g)
        for data, expected in ((other.ndata, g.ndata), (other.edata, g.edata)):
            for name, column in data.items():
                assert torch.equal(column, expected[name])
                assert column.requires_grad == expected[name].requires_grad and column.is_leaf
                assert column.data_ptr() != expected[name].data_ptr()
        (other.ndata["out"] * 3).sum().backward()
        assert other.ndata["out"].grad.eq(3).all() and w.grad is None
        assert other.ndata["same"] is other.ndata["hh"] or g is part
    assert isinstance(copier(homo).edata["p"], torch.nn.Parameter)


def test_deep_copies_keep_initialisers_and_what_is_shared(homo):
    homo.ndata["h"] = torch.ones(3, requires_grad=True) * 2
    homo.set_n_initializer(lambda shape, *_: torch.full(shape, 7.0))
    one, two = copy.deepcopy([homo, homo.local_var()])
    assert one.ndata["h"] is two.ndata["h"] and one.relation() is two.relation()
    one.add_nodes(1)
    assert one.ndata["h"].tolist() == [2, 2, 2, 7] and one.num_dst_nodes() == 4


# ---- batches ----


def test_batch_sizes(homo, hetero):
    assert homo.batch_size == 1 and homo.batch_num_edges().tolist() == [5]
    homo.set_batch_num_nodes([1, 2])
    homo.set_batch_num_edges(torch.tensor([4, 1]))
    assert homo.batch_num_edges().tolist() == [4, 1]
    homo.set_batch_num_edges({"_E": torch.tensor([2, 3])})
    assert homo.batch_size == 2 and homo.batch_num_edges().tolist() == [2, 3]
    hetero.set_batch_num_nodes({"user": torch.tensor([1, 2]), "game": torch.tensor([1, 1])})
    hetero.set_batch_num_edges({PLAYS: torch.tensor([1, 2])})
    assert hetero.batch_num_nodes("user").tolist() == hetero.batch_num_edges(PLAYS).tolist()
    with pytest.raises(smex.SmexValueError, match='batch_num_nodes: no sizes .* "dev"'):
        hetero.batch_num_nodes("dev")
    with pytest.raises(smex.SmexValueError, match="batch_num_edges: no sizes .* 'makes'"):
        hetero.batch_num_edges("makes")


def test_batch_sizes_that_do_not_fit(hetero):
    with pytest.raises(smex.SmexTypeError, match="set_batch_num_nodes: .* several node types"):
        hetero.set_batch_num_nodes(torch.tensor([1]))
    with pytest.raises(smex.SmexTypeError, match="set_batch_num_edges: .* several edge types"):
        hetero.set_batch_num_edges(torch.tensor([1]))
    with pytest.raises(smex.SmexValueError, match=r"one length for every type, found \[1, 2\]"):
        hetero.set_batch_num_nodes({"user": torch.tensor([1]), "dev": torch.tensor([1, 2])})
    assert hetero.batch_size == 1
    with pytest.raises(smex.SmexValueError, match="frame of 'a': expected 2 rows, found 3"):
        sg.Graph({}, {"a": 2}, src_frames={"a": smex.graph.features.frame.Frame(3)})
