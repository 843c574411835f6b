"""Operations on tensors against messages that are written out."""

import itertools

import pytest
import torch

import smex
import smex.graph as sg
from smex.graph import ops
from support.graph_reference import messages, reduced, softmax

OPS = ("add", "sub", "mul", "div", "dot")
SIGNS = {"add": "+", "sub": "-", "mul": "*", "div": "/"}
REDUCERS = ("sum", "mean", "max", "min")
SHAPES = [((), ()), ((4,), (4,)), ((4,), ()), ((), (4,)), ((3, 4), (3, 1)), ((2, 1, 3), (4, 3))]


def random_graph(idtype=torch.int64, num_src=7, num_dst=5, num_edges=23):
    """Multi-edges, and one node of each side without edges."""
    torch.manual_seed(0)
    src = torch.randint(num_src - 1, (num_edges,))
    dst = torch.randint(num_dst - 1, (num_edges,))
    return sg.heterograph(
        {("a", "to", "b"): (src, dst)}, {"a": num_src, "b": num_dst}, idtype=idtype
    )


def feature(g, letter, shape, dtype=torch.float64):
    rows = {"u": g.num_nodes("a"), "v": g.num_nodes("b"), "e": g.num_edges()}[letter]
    return (torch.rand(rows, *shape, dtype=dtype) + 0.5).requires_grad_()


def text_of(op, lhs, rhs):
    return f"dot({lhs}0, {rhs}1)" if op == "dot" else f"{lhs}0 {SIGNS[op]} {rhs}1"


def expected_messages(g, op, lhs, rhs, x, y):
    src, dst = (t.long() for t in g.edges())
    if op == "dot" and x.dim() == 1 and y.dim() == 1:
        op = "mul"
    return messages(text_of(op, lhs, rhs), src, dst, [x, y])


def assert_same(out, expected, operands):
    """Values and gradients."""
    torch.testing.assert_close(out, expected)
    weight = torch.rand_like(expected)
    for a, b in zip(
        torch.autograd.grad((out * weight).sum(), operands),
        torch.autograd.grad((expected * weight).sum(), operands),
    ):
        torch.testing.assert_close(a, b)


def last(shape):
    return shape[-1] if shape else 1


CASES = [(op, s) for op in OPS for s in SHAPES if op != "dot" or last(s[0]) == last(s[1])]


@pytest.mark.parametrize("idtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("reduce", REDUCERS)
@pytest.mark.parametrize(("op", "shapes"), CASES)
def test_gspmm(op, reduce, shapes, idtype):
    g = random_graph(idtype)
    x, y = feature(g, "u", shapes[0]), feature(g, "e", shapes[1])
    empty = {"max": float("-inf"), "min": float("inf")}.get(reduce, 0)
    sent = expected_messages(g, op, "u", "e", x, y)
    expected = reduced(sent, g.edges()[1], 5, reduce, empty)
    out = getattr(ops, f"u_{op}_e_{reduce}")(g, x, y)
    finite = torch.isfinite(expected)
    assert torch.equal(torch.isfinite(out), finite)
    assert_same(out[finite], expected[finite], [x, y])


@pytest.mark.parametrize("reduce", REDUCERS)
@pytest.mark.parametrize("letter", ["u", "e"])
def test_copies(letter, reduce):
    g = random_graph()
    x = feature(g, letter, (3,))
    src, dst = g.edges()
    sent = x[src] if letter == "u" else x
    expected = reduced(sent, dst, 5, reduce)
    out = getattr(ops, f"copy_{letter}_{reduce}")(g, x)
    assert_same(out[:4], expected[:4], [x])
    assert out[4, 0] == {"max": float("-inf"), "min": float("inf")}.get(reduce, 0)


@pytest.mark.parametrize(("op", "shapes"), CASES)
@pytest.mark.parametrize("sides", list(itertools.permutations("uve", 2)))
def test_gsddmm(sides, op, shapes):
    g = random_graph()
    lhs, rhs = sides
    x, y = feature(g, lhs, shapes[0]), feature(g, rhs, shapes[1])
    out = getattr(ops, f"{lhs}_{op}_{rhs}")(g, x, y)
    assert_same(out, expected_messages(g, op, lhs, rhs, x, y), [x, y])


def test_copies_to_edges():
    g = random_graph()
    src, dst = g.edges()
    for letter, index in (("u", src), ("v", dst), ("e", slice(None))):
        x = feature(g, letter, (2,))
        assert_same(getattr(ops, f"copy_{letter}")(g, x), x[index], [x])


def test_the_names_of_dgl_are_there():
    for name in ("gspmm", "gsddmm", "edge_softmax", "segment_reduce", "segment_mm", "gather_mm"):
        assert callable(getattr(ops, name))
    assert len([n for n in ops.__all__ if n.count("_") == 3 and n[0] == "u"]) == 20
    assert ops.u_mul_e_sum.__name__ == "u_mul_e_sum"
    with pytest.raises(AttributeError, match="module 'smex.graph.ops' has no attribute 'u_pow_e'"):
        _ = ops.u_pow_e


@pytest.mark.parametrize("norm_by", ["dst", "src"])
@pytest.mark.parametrize("shape", [(), (3,), (2, 3)])
def test_edge_softmax(shape, norm_by):
    g = random_graph()
    z = (feature(g, "e", shape) * 300).detach().requires_grad_()
    end = g.edges()[1 if norm_by == "dst" else 0]
    assert_same(ops.edge_softmax(g, z, norm_by=norm_by), softmax(z, end, 7), [z])


def test_edge_softmax_of_some_edges():
    g = random_graph()
    eids = torch.tensor([20, 3, 4, 11])
    z = torch.rand(4, 2, dtype=torch.float64, requires_grad=True)
    dst = g.edges()[1][eids]
    assert_same(ops.edge_softmax(g, z, eids), softmax(z, dst, 5), [z])


def test_edge_softmax_over_several_types():
    g = sg.heterograph({("a", "x", "b"): ([0, 1], [0, 1]), ("c", "y", "b"): ([0, 0], [0, 1])})
    out = ops.edge_softmax(g, {"x": torch.zeros(2), "y": torch.zeros(2)})
    assert list(out) == g.canonical_etypes
    assert all(torch.equal(x, torch.full((2,), 0.5)) for x in out.values())
    own = ops.edge_softmax(g, {"x": torch.zeros(2), "y": torch.zeros(2)}, norm_by="src")
    assert own["c", "y", "b"].tolist() == [0.5, 0.5] and own["a", "x", "b"].tolist() == [1, 1]


@pytest.mark.parametrize("reduce", REDUCERS)
def test_segment_reduce(reduce):
    lengths = torch.tensor([2, 0, 4, 1])
    x = torch.rand(7, 3, dtype=torch.float64, requires_grad=True)
    row = torch.repeat_interleave(lengths)
    assert_same(ops.segment_reduce(lengths, x, reduce), reduced(x, row, 4, reduce), [x])


def test_segment_reduce_of_integers():
    lengths, x = torch.tensor([2, 0]), torch.tensor([-3, -5])
    assert ops.segment_reduce(lengths, x, "max").tolist() == [-3, 0]
    assert ops.segment_reduce(lengths, x).tolist() == [-8, 0]
    with pytest.raises(smex.SmexTypeError, match="segment_reduce: the mean needs floating point"):
        ops.segment_reduce(lengths, x, "mean")


def test_segment_softmax():
    lengths = torch.tensor([2, 0, 4])
    x = torch.rand(6, 2, dtype=torch.float64, requires_grad=True)
    expected = softmax(x, torch.repeat_interleave(lengths), 3)
    assert_same(ops.segment_softmax(lengths, x), expected, [x])


@pytest.mark.parametrize("lengths", [[2, 0, 3], [5, 0, 0], [0, 0, 5]])
def test_segment_mm(lengths):
    a = torch.rand(5, 2, dtype=torch.float64, requires_grad=True)
    b = torch.rand(3, 2, 4, dtype=torch.float64, requires_grad=True)
    index = torch.repeat_interleave(torch.tensor(lengths))
    expected = torch.einsum("nk,nkm->nm", a, b[index])
    assert_same(ops.segment_mm(a, b, torch.tensor(lengths)), expected, [a, b])


def test_segment_mm_without_rows():
    a = torch.rand(0, 2, requires_grad=True)
    out = ops.segment_mm(a, torch.rand(3, 2, 4), torch.zeros(3, dtype=torch.int64))
    assert out.shape == (0, 4) and out.requires_grad


@pytest.mark.parametrize("op", ["segment_mm", "segment_outer"])
def test_products_of_segments_are_operators(op):
    lengths = torch.tensor([2, 0, 3])
    a = torch.rand(5, 2, dtype=torch.float64, requires_grad=True)
    shape = (3, 2, 4) if op == "segment_mm" else (5, 4)
    b = torch.rand(shape, dtype=torch.float64, requires_grad=True)
    call = getattr(torch.ops.smex, op)
    torch.library.opcheck(call.default, (a, b, lengths))
    assert torch.autograd.gradcheck(lambda a, b: call(a, b, lengths), (a, b))
    assert torch.autograd.gradgradcheck(lambda a, b: call(a, b, lengths), (a, b))


def test_gather_mm_under_autocast():
    a, b, index = torch.rand(5, 2), torch.rand(3, 2, 4), torch.tensor([2, 0, 2, 2, 0])
    expected = ops.gather_mm(a, b, idx_b=index)
    with torch.autocast("cpu", torch.bfloat16):
        found = ops.gather_mm(a, b, idx_b=index)
        assert ops.gather_mm(a.double(), b.double(), idx_b=index).dtype == torch.float64
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found.float(), expected, rtol=0.02, atol=0.02)


def test_gather_mm():
    a = torch.rand(5, 2, dtype=torch.float64, requires_grad=True)
    b = torch.rand(3, 2, 4, dtype=torch.float64, requires_grad=True)
    index = torch.tensor([2, 0, 2, 2, 0])
    expected = torch.einsum("nk,nkm->nm", a, b[index])
    assert_same(ops.gather_mm(a, b, idx_b=index), expected, [a, b])


def several_types():
    edges = {
        ("a", "x", "b"): ([0, 1], [0, 0]),
        ("a", "y", "b"): ([1], [1]),
        ("b", "z", "a"): ([], []),
    }
    g = sg.heterograph(edges, {"a": 2, "b": 3})
    return g, tuple(torch.arange(2.0 * g.num_nodes(t)).view(-1, 2) - 9 for t in g.ntypes)


@pytest.mark.parametrize("reduce", ["sum", "max", "min"])
def test_gspmm_over_several_types(reduce):
    g, features = several_types()
    out = dict(zip(g.ntypes, getattr(ops, f"copy_u_{reduce}")(g, features)))
    x = dict(zip(g.ntypes, features))["a"]
    expected = reduced(x[[0, 1, 1]], torch.tensor([0, 0, 1]), 3, reduce)
    torch.testing.assert_close(out["b"][:2], expected[:2])


def test_gsddmm_over_several_types():
    g, features = several_types()
    out = dict(zip(g.canonical_etypes, ops.u_add_v(g, features, features)))
    by_type = dict(zip(g.ntypes, features))
    torch.testing.assert_close(out["a", "y", "b"], by_type["a"][[1]] + by_type["b"][[1]])
    assert out["b", "z", "a"].shape == (0, 2)


def test_mean_over_several_types_is_not_defined():
    g, features = several_types()
    with pytest.raises(smex.SmexValueError, match="mean over several edge types at once"):
        ops.copy_u_mean(g, features)


@pytest.mark.parametrize("reduce", REDUCERS)
def test_no_edges_and_no_features(reduce):
    g = sg.graph(([], []), num_nodes=3)
    out = getattr(ops, f"copy_u_{reduce}")(g, torch.ones(3, 2))
    assert out.shape == (3, 2)
    assert (out == {"max": float("-inf"), "min": float("inf")}.get(reduce, 0)).all()
    assert getattr(ops, f"copy_u_{reduce}")(random_graph(), torch.ones(7, 0)).shape == (5, 0)


def test_integers_are_reduced_too():
    g = random_graph()
    src, dst = g.edges()
    x, w = torch.arange(7), torch.arange(23)
    assert ops.copy_u_sum(g, x).equal(reduced(x[src], dst, 5, "sum"))
    assert ops.u_mul_e_max(g, x, w)[:4].equal(reduced(x[src] * w, dst, 5, "max")[:4])
    assert ops.u_mul_e_min(g, x, w)[4] == torch.iinfo(torch.int64).max
    assert ops.u_dot_e(g, x.view(-1, 1), w.view(-1, 1)).equal((x[src] * w).view(-1, 1))
    with pytest.raises(smex.SmexTypeError, match="mean of messages u0: expected floating point"):
        ops.copy_u_mean(g, x)


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda g: ops.gspmm(g, "pow", "sum", 1, 1), ValueError, "gspmm: unknown operation 'pow'"),
        (lambda g: ops.gspmm(g, "mul", "prod", 1, 1), ValueError, "gspmm: unknown reducer 'prod'"),
        (
            lambda g: ops.gspmm(g, "copy_lhs", "sum", None, 1),
            ValueError,
            "copy_lhs needs this operand",
        ),
        (lambda g: ops.gsddmm(g, "pow", 1, 1), ValueError, "gsddmm: unknown operation 'pow'"),
        (lambda g: ops.gsddmm(g, "mul", 1, 1, "w"), ValueError, "gsddmm: unknown target 'w'"),
        (
            lambda g: ops.u_dot_e_sum(g, torch.ones(7, 2), torch.ones(23, 3)),
            ValueError,
            "the last dimensions must be equal, found 2 and 3",
        ),
        (
            lambda g: ops.u_mul_e_sum(g, torch.ones(7), torch.ones(23).double()),
            TypeError,
            "operands must have one dtype, found torch.float32 and torch.float64",
        ),
        (lambda g: ops.edge_softmax(g, torch.ones(23), norm_by="x"), ValueError, "norm_by must be"),
        (lambda g: ops.edge_softmax(g, torch.ones(9)), ValueError, "expected 23 rows of scores"),
        (
            lambda g: ops.edge_softmax(g, torch.arange(23)),
            TypeError,
            "expected floating point scores",
        ),
        (
            lambda g: ops.segment_reduce(torch.tensor([1]), torch.ones(1), "prod"),
            ValueError,
            "segment_reduce: unknown reducer 'prod'",
        ),
        (
            lambda g: ops.segment_reduce(torch.tensor([1]), torch.ones(2)),
            ValueError,
            "must add up to the number of rows of the values, 2, found 1",
        ),
        (
            lambda g: ops.segment_softmax(torch.tensor([-1, 3]), torch.ones(2)),
            ValueError,
            "segment_softmax: the segments' lengths must not be negative, found -1",
        ),
        (
            lambda g: ops.copy_u_sum(g, torch.ones(6, 4)),
            ValueError,
            "message u0: expected operand u0 of 7 rows, one for each source node, found 6",
        ),
        (
            lambda g: ops.u_dot_v(g, torch.ones(1, 4), torch.ones(5, 4)),
            ValueError,
            "operand u0 of 7 rows, one for each source node, found 1",
        ),
        (
            lambda g: ops.segment_mm(torch.ones(2, 3), torch.ones(1, 2, 2), torch.tensor([2])),
            smex.SmexValueError,
            r"segment_mm: expected rows .* found torch.float32 \[2, 3\] and torch.float32 \[1, 2, 2\]",
        ),
        (
            lambda g: ops.segment_mm(torch.ones(2, 2), torch.ones(1, 2, 2), torch.tensor([1])),
            ValueError,
            "as many lengths as matrices, 1, whose sum is the number of rows, 2, found 1 whose sum",
        ),
        (
            lambda g: ops.gather_mm(
                torch.ones(4, 2), torch.ones(2, 2, 3), idx_b=torch.tensor([0, 5, 1, 0])
            ),
            ValueError,
            "gather_mm: matrices in idx_b: expected ids from 0 to 1, found 5",
        ),
        (
            lambda g: ops.gather_mm(
                torch.ones(2, 2), torch.ones(2, 2, 3), idx_b=torch.tensor([-1, 0])
            ),
            ValueError,
            "gather_mm: matrices in idx_b: expected ids from 0 to 1, found -1",
        ),
        (
            lambda g: ops.gather_mm(torch.ones(2, 2), torch.ones(1, 2, 2), idx_b=torch.tensor([0])),
            ValueError,
            r"gather_mm: expected idx_b to be a vector of 2 integers, .* found torch.int64 \[1\]",
        ),
        (
            lambda g: ops.gather_mm(torch.ones(1, 2), torch.ones(1, 2, 2), idx_b=torch.ones(1)),
            ValueError,
            "idx_b to be a vector of 1 integer, one for each row of a, found torch.float32",
        ),
        (
            lambda g: ops.copy_u_sum(g, torch.ones(7, dtype=torch.bool)),
            TypeError,
            r"expected floating point features \(integers too for sum, max and min\), found torch.bool",
        ),
        (
            lambda g: ops.u_dot_v(g, torch.ones(7, 2, 2).int(), torch.ones(5, 3, 2).int()),
            ValueError,
            r"message dot\(u0, v1\): feature shapes \[2, 2\] and \[3, 2\] do not broadcast",
        ),
    ],
)
def test_mistakes(call, kind, text):
    with pytest.raises(smex.SmexError, match=text) as caught:
        call(random_graph())
    assert isinstance(caught.value, kind)
