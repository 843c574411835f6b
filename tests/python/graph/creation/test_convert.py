"""Graphs from arrays and SciPy's matrices."""

import numpy as np
import pytest
import torch

import smex
import smex.graph as sg
from support.graphs import IDTYPES, pairs

scipy_sparse = pytest.importorskip("scipy.sparse", reason="SciPy is not installed")

SRC, DST = [0, 2, 2, 3], [1, 1, 0, 3]


def ids(values, dtype=torch.int64):
    return torch.tensor(values, dtype=dtype)


@pytest.mark.parametrize(
    "data",
    [
        (SRC, DST),
        (ids(SRC), ids(DST)),
        (ids(SRC), DST),
        (np.array(SRC, dtype=np.int16), np.array(DST, dtype=np.uint8)),
        (iter(SRC), iter(DST)),
        (np.array(SRC, dtype=np.float64), DST),
        ("coo", (SRC, DST)),
        list(zip(SRC, DST)),
        ("csr", ([0, 1, 1, 3, 4], [1, 1, 0, 3], [])),
        ("csr", ([0, 1, 1, 3, 4], [1, 0, 1, 3], [0, 2, 1, 3])),
        ("csc", ([0, 1, 3, 3, 4], [2, 0, 2, 3], [2, 0, 1, 3])),
    ],
)
def test_every_form_of_edges(data):
    g = sg.graph(data)
    assert pairs(g) == list(zip(SRC, DST))
    assert g.num_nodes() == 4 and g.idtype == torch.int64 and g.ntypes == ["_N"]
    assert g.canonical_etypes == [("_N", "_E", "_N")]


def test_ids_are_shared_and_formats_stay():
    src, dst = ids(SRC), ids(DST)
    assert sg.graph((src, dst)).edges()[0].data_ptr() == src.data_ptr()
    g = sg.graph(("csc", ([0, 1, 3, 3, 4], [2, 0, 2, 3], [2, 0, 1, 3])))
    assert g.formats()["created"] == ["csc"]


@pytest.mark.parametrize("idtype", IDTYPES)
def test_idtype(idtype):
    assert sg.graph((ids(SRC, idtype), ids(DST, idtype))).idtype == idtype
    assert sg.graph((SRC, DST), idtype=idtype).idtype == idtype
    assert sg.graph((ids(SRC), DST), idtype=idtype).idtype == idtype
    assert sg.graph((ids([], idtype), ids([], idtype))).idtype == idtype
    h = sg.heterograph({("a", "x", "b"): ([], []), ("a", "y", "b"): (ids(SRC, idtype), DST)})
    assert {r.idtype for r in h._relations.values()} == {idtype}


def test_number_of_nodes():
    assert sg.graph(([], [])).num_nodes() == 0
    assert sg.graph(([], []), num_nodes=3).num_nodes() == 3
    assert sg.graph((SRC, DST), num_nodes=9).num_nodes() == 9
    padded = sg.graph(("csr", ([0, 1], [5], [])), num_nodes=8)
    assert padded.num_nodes() == 8 and pairs(padded) == [(0, 5)]
    assert padded.out_degrees().tolist() == [1, 0, 0, 0, 0, 0, 0, 0]


def test_types_are_in_alphabetical_order():
    data = {
        ("u", "z", "v"): ([0, 1], [1, 2]),
        ("a", "b", "u"): ([3], [1]),
        ("u", "b", "u"): ([], []),
    }
    g = sg.heterograph(data)
    assert g.ntypes == ["a", "u", "v"] and [g.num_nodes(t) for t in g.ntypes] == [4, 2, 3]
    assert g.canonical_etypes == [("a", "b", "u"), ("u", "b", "u"), ("u", "z", "v")]


def test_numbers_of_nodes_by_type():
    data = {("u", "z", "v"): ([0, 1], [1, 2])}
    g = sg.heterograph(data, {"v": 9, "w": 5})
    assert {t: g.num_nodes(t) for t in g.ntypes} == {"u": 2, "v": 9, "w": 5}


def test_heterograph_from_compressed_forms():
    g = sg.heterograph(
        {
            ("u", "r", "v"): ("csr", ([0, 1, 2], [4, 5], [])),
            ("u", "c", "v"): ("csc", ([0, 2], [0, 7], [])),
        }
    )
    assert pairs(g, "r") == [(0, 4), (1, 5)] and pairs(g, "c") == [(0, 0), (7, 0)]
    assert g.num_nodes("u") == 8 and g.num_nodes("v") == 6


def test_blocks():
    b = sg.create_block((SRC, DST), num_src_nodes=7)
    assert b.is_block and (b.num_src_nodes(), b.num_dst_nodes()) == (7, 4)
    data = {("u", "z", "v"): ([0, 1], [1, 2]), ("a", "b", "u"): ([3], [1])}
    b = sg.create_block(data, {"u": 5}, {"v": 9, "k": 2})
    assert b.srctypes == ["a", "u"] and b.dsttypes == ["k", "u", "v"]
    assert [b.num_src_nodes(t) for t in b.srctypes] == [4, 5]
    assert [b.num_dst_nodes(t) for t in b.dsttypes] == [2, 2, 9]


def test_block_to_graph_keeps_features():
    b = sg.create_block((SRC, DST))
    b.srcdata["x"], b.dstdata["y"], b.edata["w"] = (
        torch.ones(4),
        torch.zeros(4, 2),
        torch.arange(4.0),
    )
    g = sg.block_to_graph(b)
    assert not g.is_block and g.canonical_etypes == [("_N_src", "_E", "_N_dst")]
    assert torch.equal(g.nodes["_N_src"].data["x"], torch.ones(4))
    assert torch.equal(g.nodes["_N_dst"].data["y"], torch.zeros(4, 2))
    assert torch.equal(g.edata["w"], torch.arange(4.0)) and pairs(g) == list(zip(SRC, DST))


@pytest.mark.parametrize("form", ["coo", "csr", "csc", "lil", "dok", "bsr"])
@pytest.mark.parametrize("kind", ["matrix", "array"])
def test_scipy(form, kind):
    dense = np.random.default_rng(0).integers(0, 3, (5, 5)).astype(np.float64)
    make = scipy_sparse.coo_matrix if kind == "matrix" else scipy_sparse.coo_array
    m = make(dense).asformat(form)
    g = sg.from_scipy(m, eweight_name="w", idtype=torch.int32)
    assert g.formats()["created"] == [form if form in ("csr", "csc") else "coo"]
    found = np.zeros_like(dense)
    np.add.at(found, tuple(x.numpy() for x in g.edges()), g.edata["w"].numpy())
    assert np.array_equal(found, dense) and g.idtype == torch.int32
    b = sg.bipartite_from_scipy(make(dense[:3]).asformat(form), "z", "e", "a", eweight_name="w")
    found = np.zeros((3, 5))
    np.add.at(found, tuple(x.numpy() for x in b.edges()), b.edata["w"].numpy())
    assert np.array_equal(found, dense[:3]) and b.canonical_etypes == [("z", "e", "a")]


def test_scipy_duplicates_stay_apart():
    m = scipy_sparse.coo_matrix((np.ones(3), ([0, 0, 2], [1, 1, 0])), shape=(3, 3))
    assert pairs(sg.from_scipy(m)) == [(0, 1), (0, 1), (2, 0)]


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: sg.graph(scipy_sparse.eye(3)), smex.SmexTypeError, "use from_scipy"),
        (lambda: sg.graph(7), smex.SmexTypeError, "expected edges as .* found int"),
        (lambda: sg.graph(torch.zeros(2, 3)), smex.SmexTypeError, "found Tensor"),
        (
            lambda: sg.graph([(0, 1, 2)]),
            smex.SmexValueError,
            r"\(src, dst\) pairs, found \(0, 1, 2\)",
        ),
        (lambda: sg.graph(("xyz", ([0], [1]))), smex.SmexValueError, "found 'xyz' with 2 arrays"),
        (lambda: sg.graph(([0], [1], [2])), smex.SmexValueError, "found 'coo' with 3 arrays"),
        (
            lambda: sg.graph((ids([0]), ids([1], torch.int32))),
            smex.SmexTypeError,
            "of one dtype.*pass idtype=",
        ),
        (
            lambda: sg.graph((ids([0], torch.int16), ids([1], torch.int16))),
            smex.SmexTypeError,
            "found torch.int16",
        ),
        (
            lambda: sg.graph(([0], [1]), idtype=torch.int16),
            smex.SmexTypeError,
            "torch.int32 or torch.int64",
        ),
        (
            lambda: sg.graph((ids([0.5], torch.float32), [1]), idtype=torch.int64),
            smex.SmexTypeError,
            "src must be a vector of integers",
        ),
        (lambda: sg.graph(([0.5], [1])), smex.SmexTypeError, "src must be a vector of integers"),
        (
            lambda: sg.graph((torch.zeros(2, 2).long(), [1])),
            smex.SmexTypeError,
            r"of shape \[2, 2\]",
        ),
        (
            lambda: sg.graph((["a"], [1])),
            smex.SmexTypeError,
            "src must be a vector of integers, found list",
        ),
        (
            lambda: sg.graph(([2**31], [0]), idtype=torch.int32),
            smex.SmexValueError,
            "does not fit into int32",
        ),
        (
            lambda: sg.graph(([0, -(2**32)], [0, 1]), idtype=torch.int32),
            smex.SmexValueError,
            "does not fit into int32",
        ),
        (
            lambda: sg.graph(([0], [1]), idtype=torch.int32).out_degrees(torch.tensor([2**32])),
            smex.SmexValueError,
            "id 4294967296 does not fit into int32, the type of the graph's ids",
        ),
        (lambda: sg.graph(([-1], [0])), smex.SmexValueError, "src has id -1"),
        (lambda: sg.graph(([0, 1], [0])), smex.SmexValueError, "one length, found 2 and 1"),
        (
            lambda: sg.graph((SRC, DST), num_nodes=3),
            smex.SmexValueError,
            "above the largest id 3, found 3",
        ),
        (lambda: sg.graph(("csr", ([0, 2, 1], [0], []))), smex.SmexValueError, "indptr must rise"),
        (lambda: sg.graph(("csr", ([0, 2], [0], []))), smex.SmexValueError, "indptr must rise"),
        (
            lambda: sg.graph(("csr", ([0, 2, 1, 2], [0, 0], []))),
            smex.SmexValueError,
            "indptr must rise",
        ),
        (
            lambda: sg.graph(("csr", ([0, 2], [0, 0], [0, 0]))),
            smex.SmexValueError,
            "eids must hold each of 0 to 1",
        ),
        (
            lambda: sg.graph(("csr", ([0, 2], [0, 0], [0]))),
            smex.SmexValueError,
            "eids must hold each of 0 to 1",
        ),
        (lambda: sg.heterograph({}), smex.SmexTypeError, "at least one entry"),
        (
            lambda: sg.heterograph({"plays": ([0], [1])}),
            smex.SmexTypeError,
            "expected keys .*found 'plays'",
        ),
        (
            lambda: sg.heterograph({("u", "e", "v"): ([0], [1])}, {"v": 1}),
            smex.SmexValueError,
            '"v" must be above',
        ),
        (
            lambda: sg.create_block({("u", "e", "v"): ([0], [1])}, 3),
            smex.SmexTypeError,
            "num_src_nodes must be a dict",
        ),
        (
            lambda: sg.create_block(([0], [1]), 3, 1),
            smex.SmexValueError,
            "above the largest id 1, found 1",
        ),
        (lambda: sg.block_to_graph(sg.graph(([0], [1]))), smex.SmexTypeError, "expected a block"),
        (
            lambda: sg.from_scipy(np.eye(3)),
            smex.SmexTypeError,
            "SciPy sparse matrix, found ndarray",
        ),
        (
            lambda: sg.from_scipy(scipy_sparse.coo_array(np.ones((2, 3)))),
            smex.SmexValueError,
            "2 × 3; use bipartite",
        ),
        (
            lambda: sg.bipartite_from_scipy(scipy_sparse.coo_array(np.ones((2, 3))), "u", "e", "u"),
            smex.SmexValueError,
            "square matrix, found 2 × 3",
        ),
    ],
)
def test_errors(make, error, text):
    with pytest.raises(error, match=text):
        make()


def test_dgl_error_catches_all_of_them():
    with pytest.raises(sg.DGLError):
        sg.graph(7)
