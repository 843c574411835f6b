"""Every layer against its formula in dense matrices, and what all layers promise."""

import pytest
import torch

import smex
import smex.graph as sg
from support import layer_cases, layer_cases_edges
from support.dense_graph import Dense
from support.layer_cases import KINDS, features, graph_of

CASES = [*layer_cases.CASES, *layer_cases_edges.CASES]
PAIRS = [pytest.param(c, k, id=f"{c.name}-{k}") for c in CASES for k in KINDS if k in c.kinds]
FIRST = [pytest.param(c, c.kinds[0], id=c.name) for c in CASES]


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


def allowed(layer):
    """The layer, told that nodes without in-edges are fine."""
    if hasattr(layer, "set_allow_zero_in_degree"):
        layer.set_allow_zero_in_degree(True)
    return layer


def single(extra):
    """Extra arguments in float32."""
    return [
        x.float() if isinstance(x, torch.Tensor) and x.is_floating_point() else x for x in extra
    ]


def low(x):
    """Detached features in float32."""
    return tuple(low(part) for part in x) if isinstance(x, tuple) else x.detach().float()


def assert_tree_close(found, expected, **kwargs):
    if not isinstance(found, tuple):
        found, expected = (found,), (expected,)
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected):
        torch.testing.assert_close(ours, theirs, **kwargs)


def requires_grad(x):
    return isinstance(x, torch.Tensor) and x.is_leaf and x.requires_grad


def gradients(result, inputs):
    """Gradients, those of what is not used as zeros."""
    found = torch.autograd.grad(total(result), inputs, allow_unused=True)
    return tuple(torch.zeros_like(x) if g is None else g for g, x in zip(found, inputs))


def total(result):
    parts = result if isinstance(result, tuple) else (result,)
    return sum((part.sin() * (n + 1)).sum() for n, part in enumerate(parts))


@pytest.mark.parametrize("lonely", [False, True])
@pytest.mark.parametrize(("case", "kind"), PAIRS)
def test_forward_and_gradients_equal_the_formula(case, kind, lonely):
    g = graph_of(kind, lonely)
    layer = allowed(case.layer(kind)).double()
    feat, source, own = features(g, kind, dst_width=case.width(kind))
    extra = case.extra(g)
    for x in extra:
        if isinstance(x, torch.Tensor) and x.is_floating_point():
            x.requires_grad_()
    found, expected = layer(g, feat, *extra), case.formula(layer, Dense(g), source, own, *extra)
    assert_tree_close(found, expected)
    inputs = [x for x in (source, own, *extra, *layer.parameters()) if requires_grad(x)]
    ours, theirs = (gradients(result, inputs) for result in (found, expected))
    assert_tree_close(ours, theirs)


@pytest.mark.parametrize(("case", "kind"), FIRST)
def test_nodes_without_in_edges(case, kind):
    if case.lonely == "fine":
        return
    g = graph_of(kind, lonely=True)
    layer = case.layer(kind).double()
    feat, _, _ = features(g, kind)
    with pytest.raises(smex.SmexValueError, match=r"node without in-edges.*add_self_loop"):
        layer(g, feat, *case.extra(g))


@pytest.mark.parametrize(("case", "kind"), FIRST)
def test_a_graph_without_edges(case, kind):
    if not case.empty:
        return
    g = graph_of(kind)
    g.remove_edges(torch.arange(g.num_edges()))
    layer = allowed(case.layer(kind)).double()
    feat, _, _ = features(g, kind)
    result = layer(g, feat, *case.extra(g))
    first = result[0] if isinstance(result, tuple) else result
    assert first.shape[0] == g.num_dst_nodes() and first.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize(("case", "kind"), FIRST)
def test_layers_under_autocast(case, kind, dtype):
    g = graph_of(kind)
    layer = case.layer(kind)
    feat, _, _ = features(g, kind)
    extra = single(case.extra(g))
    expected = layer(g, low(feat), *extra)
    with torch.autocast("cpu", dtype):
        found = layer(g, low(feat), *extra)
    parts = found if isinstance(found, tuple) else (found,)
    wide = tuple(part.float() for part in parts)
    goal = expected if isinstance(expected, tuple) else (expected,)
    for ours, theirs in zip(wide, goal):
        scale = theirs.abs().max().item()
        torch.testing.assert_close(ours, theirs, rtol=0, atol=case.tolerance * max(scale, 1))
    if any(p.requires_grad for p in layer.parameters()):
        total(wide).backward()
        assert all(p.grad is None or p.grad.isfinite().all() for p in layer.parameters())


@pytest.mark.parametrize(("case", "kind"), FIRST)
def test_state_comes_back_from_a_file(case, kind, tmp_path):
    g = graph_of(kind)
    one, other = case.layer(kind).double(), case.layer(kind).double()
    torch.save(one.state_dict(), tmp_path / "layer.pt")
    other.load_state_dict(torch.load(tmp_path / "layer.pt", weights_only=True))
    feat, _, _ = features(g, kind)
    extra = case.extra(g)
    for layer in (one, other):
        layer.eval()
    assert_tree_close(one(g, feat, *extra), other(g, feat, *extra), rtol=0, atol=0)


@pytest.mark.parametrize(("case", "kind"), FIRST)
def test_layers_leave_the_graph_as_it_was(case, kind):
    g = graph_of(kind)
    feat, _, _ = features(g, kind)
    case.layer(kind).double()(g, feat, *case.extra(g))
    assert not g.srcdata and not g.dstdata and not g.edata


@pytest.mark.parametrize(("case", "kind"), FIRST)
def test_layers_take_the_graph_first(case, kind):
    g = graph_of(kind)
    _, rows, _ = features(g, kind)
    extra = case.extra(g)
    with pytest.raises(smex.SmexTypeError, match="expected a graph as the first argument, found"):
        case.layer(kind).double()(rows, torch.stack(g.edges()), *extra)


@pytest.mark.parametrize(("case", "kind"), FIRST)
def test_new_parameters_are_finite(case, kind):
    layer = case.layer(kind)
    assert all(p.isfinite().all() for p in layer.parameters())
    if hasattr(layer, "reset_parameters"):
        layer.reset_parameters()
        assert all(p.isfinite().all() for p in layer.parameters())


COMPILED = [case for case in CASES if case.name != "SAGEConv-lstm"]  # it reads mailboxes by degree


@pytest.mark.costly(cases=30)
@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in COMPILED])
def test_layers_compile_without_a_graph_break(case):
    kind = case.kinds[0]
    g, layer = graph_of(kind), case.layer(kind).double()
    feat, source, _ = features(g, kind)
    extra = case.extra(g)
    torch._dynamo.reset()
    found = torch.compile(layer, fullgraph=True, backend="aot_eager")(g, feat, *extra)
    expected = layer(g, feat, *extra)
    assert_tree_close(found, expected)
    assert_tree_close(gradients(found, [source]), gradients(expected, [source]))


SPARSE = {
    "GraphConv": lambda: sg.nn.GraphConv(8, 3),
    "SAGEConv-mean": lambda: sg.nn.SAGEConv(8, 3, "mean"),
    "SAGEConv-gcn": lambda: sg.nn.SAGEConv(8, 3, "gcn"),
    "SAGEConv-pool": lambda: sg.nn.SAGEConv(8, 3, "pool"),
    "GATConv": lambda: sg.nn.GATConv(8, 3, 2, attn_drop=0.5, residual=True),
    "GATv2Conv": lambda: sg.nn.GATv2Conv(8, 3, 2),
    "DotGatConv": lambda: sg.nn.DotGatConv(8, 3, 2),
    "SGConv": lambda: sg.nn.SGConv(8, 3, 2),
}


@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr])
@pytest.mark.parametrize("name", SPARSE)
def test_layers_that_project_first_take_sparse_features(name, layout):
    g, layer = graph_of("homogeneous"), SPARSE[name]().eval()
    x = torch.rand(g.num_nodes(), 8) * (torch.rand(g.num_nodes(), 8) < 0.3)
    found, expected = layer(g, x.to_sparse(layout=layout)), layer(g, x)
    torch.testing.assert_close(found, expected)
    of = list(layer.parameters())
    torch.testing.assert_close(
        *(torch.autograd.grad(y.square().sum(), of, allow_unused=True) for y in (found, expected))
    )
    layer.train()(g, x.to_sparse(layout=layout))


def batch_of_graphs():
    g = sg.batch([sg.graph(([0, 1], [1, 2])), sg.graph(([0], [1]))])
    return g, torch.rand(g.num_nodes(), 4)


def two_types():
    g = sg.heterograph({("a", "x", "b"): ([0, 1], [1, 0]), ("b", "y", "a"): ([0, 1], [1, 2])})
    return g, {"a": torch.rand(3, 4), "b": torch.rand(2, 4)}


def typed_rows():
    return torch.rand(5, 4), torch.tensor([2, 0, 2, 1, 0])


def triples():
    return torch.rand(5, 4), torch.rand(5, 4), torch.tensor([2, 0, 2, 1, 0])


def sages():
    return {etype: sg.nn.SAGEConv(4, 3, "mean") for etype in "xy"}


OTHERS = {
    "SumPooling": (sg.nn.SumPooling, batch_of_graphs),
    "SortPooling": (lambda: sg.nn.SortPooling(2), batch_of_graphs),
    "WeightAndSum": (lambda: sg.nn.WeightAndSum(4), batch_of_graphs),
    "GlobalAttentionPooling": (
        lambda: sg.nn.GlobalAttentionPooling(torch.nn.Linear(4, 1)),
        batch_of_graphs,
    ),
    "SetTransformerEncoder": (lambda: sg.nn.SetTransformerEncoder(4, 2, 2, 8), batch_of_graphs),
    "HeteroGraphConv": (lambda: sg.nn.HeteroGraphConv(sages()), two_types),
    "TypedLinear": (lambda: sg.nn.TypedLinear(4, 2, 3), typed_rows),
    "TypedLinear-bdd": (lambda: sg.nn.TypedLinear(4, 2, 3, "bdd", 2), typed_rows),
    "TransR": (lambda: sg.nn.TransR(3, 2, 4), triples),
    "WeightBasis": (lambda: sg.nn.WeightBasis((4, 2), 2, 3), tuple),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_no_convolution_compiles_without_a_graph_break(name):
    if name == "SetTransformerEncoder" and torch.__version__.startswith("2.11."):
        pytest.skip("torch 2.11 compiles no attention over a number of rows that data tell")
    make, inputs = OTHERS[name]
    layer, args = make(), inputs()
    torch._dynamo.reset()
    found = torch.compile(layer, fullgraph=True, backend="aot_eager")(*args)
    assert_tree_close(found, layer(*args))


@pytest.mark.costly(cases=1)
@pytest.mark.parametrize("kind", ["RelGraphConv", "HGTConv"])
def test_layers_of_types_compile_for_graphs_of_any_size(kind):
    if kind == "HGTConv":
        layer = sg.nn.HGTConv(4, 2, 2, num_ntypes=2, num_etypes=3, dropout=0)
    else:
        layer = sg.nn.RelGraphConv(4, 4, 3)
    compiled = torch.compile(layer, fullgraph=True, dynamic=True)
    torch._dynamo.reset()
    for size in (20, 33, 47):
        g = sg.rand_graph(size, 3 * size)
        ntype, etype = torch.randint(2, (size,)), torch.randint(3, (3 * size,))
        args = (g, torch.rand(size, 4), *([ntype] if kind == "HGTConv" else []), etype)
        found, expected = compiled(*args), layer(*args)
        torch.testing.assert_close(found, expected)
        of = list(layer.parameters())
        torch.testing.assert_close(
            *(
                torch.autograd.grad(y.square().sum(), of, allow_unused=True)
                for y in (found, expected)
            )
        )


CHECKED = "SAGEConv-gcn GATv2Conv GINEConv RelGraphConv-None-norm GMMConv-mean DotGatConv EdgeGATConv HGTConv"


@pytest.mark.parametrize(
    "case", [pytest.param(c, id=c.name) for c in CASES if c.name in CHECKED.split()]
)
def test_gradients_by_differences(case):
    kind = case.kinds[0]
    g, layer = graph_of(kind, lonely=True), allowed(case.layer(kind)).double()
    _, source, _ = features(g, kind)
    extra = case.extra(g)
    assert torch.autograd.gradcheck(lambda x: layer(g, x, *extra), source, fast_mode=True)
    assert torch.autograd.gradgradcheck(lambda x: layer(g, x, *extra).sin(), source, fast_mode=True)
