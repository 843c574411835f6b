"""Message passing: built-ins against functions that do the same, and DGL's semantics."""

import itertools
import sys
from pathlib import Path

import pytest
import torch

import smex
import smex.graph as sg
import smex.graph.function as fn

sys.path.insert(0, str(Path(__file__).parent))
from reference import messages, reduced

OPS = {"add": "+", "sub": "-", "mul": "*", "div": "/", "dot": "dot"}
BINARY = [f"{a}_{op}_{b}" for op in OPS for a, b in itertools.permutations("uve", 2)]
REDUCERS = ("sum", "mean", "max", "min")
KINDS = ("homogeneous", "hetero", "block")


def graph_of(kind):
    """A graph with multi-edges, a self loop and nodes without edges, and its edge type."""
    src, dst = [0, 1, 2, 2, 0, 5, 4, 1], [1, 2, 1, 0, 1, 3, 3, 1]
    if kind == "homogeneous":
        return sg.graph((src, dst), num_nodes=6), None
    if kind == "block":
        return sg.create_block((src, dst), num_src_nodes=6, num_dst_nodes=5), None
    other = ("b", "back", "a")
    edges = {("a", "to", "b"): (src, dst), other: ([0], [0])}
    return sg.heterograph(edges, {"a": 6, "b": 5}), ("a", "to", "b")


def frames_of(g, etype):
    src, _, dst = g.to_canonical_etype(etype)
    return g._src_frames[src], g._dst_frames[dst], g._edge_frames[g.to_canonical_etype(etype)]


def set_features(g, etype, shape=(3,)):
    """Random features x of sources, y of destinations and z of edges; returns them."""
    found = []
    for name, frame in zip("xyz", frames_of(g, etype)):
        value = torch.rand(frame.num_rows, *shape, dtype=torch.float64) + 0.5
        frame[name] = value.requires_grad_()
        found.append(frame[name])
    return found


FIELDS = {"u": "x", "v": "y", "e": "z"}


def unfused(function):
    """The same function, which nothing can fuse."""

    def wrapper(batch):
        print(end="")
        return function(batch)

    return wrapper


def side(edges, letter):
    return {"u": edges.src, "v": edges.dst, "e": edges.data}[letter][FIELDS[letter]]


def udf_of(name):
    left, op, right = name.split("_")

    def message(edges):
        a, b = side(edges, left), side(edges, right)
        out = {"add": a + b, "sub": a - b, "mul": a * b, "div": a / b}
        return {"m": (a * b).sum(-1, keepdim=True) if op == "dot" else out[op]}

    return message


def reduce_udf(name):
    def reduce(nodes):
        x = getattr(nodes.mailbox["m"], name)(1)
        return {"out": x if name in ("sum", "mean") else x[0]}

    return reduce


def run(g, etype, message, reduce, leaves):
    """The result and the gradients of a random projection of it."""
    g.update_all(message, reduce, etype=etype)
    out = frames_of(g, etype)[1].pop("out")
    weight = torch.linspace(-1, 2, out.numel(), dtype=out.dtype).view_as(out)
    return [out, *torch.autograd.grad((out * weight).sum(), leaves, allow_unused=True)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("reduce", REDUCERS)
@pytest.mark.parametrize("name", BINARY)
def test_a_builtin_is_the_function_that_does_the_same(name, reduce, kind):
    g, etype = graph_of(kind)
    leaves = set_features(g, etype)
    left, _, right = name.split("_")
    message = getattr(fn, name)(FIELDS[left], FIELDS[right], "m")
    builtin = run(g, etype, message, getattr(fn, reduce)("m", "out"), leaves)
    by_function = run(g, etype, unfused(udf_of(name)), unfused(reduce_udf(reduce)), leaves)
    for a, b in zip(builtin, by_function):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("reduce", REDUCERS)
@pytest.mark.parametrize("copy", ["copy_u", "copy_e", "copy_src", "copy_edge"])
def test_copies(copy, reduce, kind):
    g, etype = graph_of(kind)
    leaves = set_features(g, etype)
    letter = "u" if copy in ("copy_u", "copy_src") else "e"
    message = getattr(fn, copy)(FIELDS[letter], "m")
    out, *_ = run(g, etype, message, getattr(fn, reduce)("m", "out"), leaves)
    src, dst = g.edges(etype=etype)
    sent = messages(letter + "0", src, dst, [leaves[0] if letter == "u" else leaves[2]])
    torch.testing.assert_close(out, reduced(sent, dst, out.shape[0], reduce))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", BINARY)
def test_apply_edges(name, kind):
    g, etype = graph_of(kind)
    leaves = set_features(g, etype)
    left, op, right = name.split("_")
    g.apply_edges(getattr(fn, name)(FIELDS[left], FIELDS[right], "k"), etype=etype)
    edge = frames_of(g, etype)[2]
    operands = [leaves["uve".index(x)] for x in (left, right)]
    text = f"dot({left}0, {right}1)" if op == "dot" else f"{left}0 {OPS[op]} {right}1"
    torch.testing.assert_close(edge["k"], messages(text, *g.edges(etype=etype), operands))
    g.apply_edges(unfused(udf_of(name)), etype=etype)
    torch.testing.assert_close(edge["k"], edge["m"])


def small():
    g = sg.graph(([0, 1, 2, 2, 0], [1, 2, 1, 0, 1]), num_nodes=4)
    g.ndata["h"] = torch.arange(8.0).view(4, 2)
    g.edata["w"] = torch.arange(5.0) + 1
    return g


# ---- buckets ----


def test_the_mailbox():
    g, seen = small(), []

    def reduce(nodes):
        seen.append((nodes.nodes().tolist(), nodes.mailbox["m"].tolist(), nodes.batch_size()))
        assert nodes.data["h"].equal(g.ndata["h"][nodes.nodes()])
        return {"out": nodes.mailbox["m"].sum(1)}

    g.update_all(lambda edges: {"m": edges.data["w"]}, reduce)
    assert seen == [([0, 2], [[4.0], [2.0]], 2), ([1], [[1.0, 3.0, 5.0]], 1)]
    assert g.ndata["out"].tolist() == [4, 9, 2, 0]


def test_a_message_function_sees_edges():
    g = small().int()

    def message(edges):
        src, dst, eid = edges.edges()
        assert eid.dtype == torch.int32 and eid.tolist() == [0, 1, 2, 3, 4]
        assert edges.src["h"].equal(g.ndata["h"][src.long()])
        assert edges.dst["h"].equal(g.ndata["h"][dst.long()])
        assert len(edges) == edges.batch_size() == 5
        assert edges.canonical_etype == ("_N", "_E", "_N")
        return {"m": edges.data["w"]}

    g.update_all(message, fn.sum("m", "out"))
    assert g.ndata["out"].tolist() == [4, 9, 2, 0]


@pytest.mark.parametrize("existing", [False, True])
def test_nodes_without_messages(existing):
    g = small()
    if existing:
        g.ndata["a"] = g.ndata["b"] = torch.full((4, 2), 7.0)
    g.update_all(fn.copy_u("h", "m"), fn.max("m", "a"))
    g.update_all(fn.copy_u("h", "m"), unfused(lambda n: {"b": n.mailbox["m"].max(1)[0]}))
    assert g.ndata["a"].equal(g.ndata["b"]) and g.ndata["a"][3].tolist() == [0, 0]


@pytest.mark.parametrize("keep", [unfused, lambda function: function])
def test_an_initialiser_fills_nodes_without_messages(keep):
    g = small()
    g.set_n_initializer(lambda shape, dtype, ctx, ids: torch.full(shape, 9, dtype=dtype))
    g.update_all(fn.copy_u("h", "m"), keep(lambda n: {"out": n.mailbox["m"].sum(1)}))
    assert g.ndata["out"].tolist() == [[4, 5], [4, 7], [2, 3], [9, 9]]


def test_buckets_must_agree():
    g = small()
    with pytest.raises(smex.SmexValueError, match=r'the same names.*"a".*"b"'):
        g.update_all(
            fn.copy_u("h", "m"),
            lambda n: {"a" if n.mailbox["m"].shape[1] == 1 else "b": n.mailbox["m"].sum(1)},
        )


def test_no_edges():
    g = sg.graph(([], []), num_nodes=3)
    g.ndata["h"] = torch.ones(3, 2)
    for reduce in REDUCERS:
        g.update_all(fn.copy_u("h", "m"), getattr(fn, reduce)("m", "out"))
        assert g.ndata.pop("out").equal(torch.zeros(3, 2))
    g.update_all(lambda e: {"m": e.src["h"]}, fn.sum("m", "out"))
    assert g.ndata.pop("out").equal(torch.zeros(3, 2))
    g.apply_edges(lambda e: {"k": e.src["h"]})
    assert g.edata["k"].shape == (0, 2)


def test_no_nodes_and_no_features():
    g = sg.graph(([], []), num_nodes=0)
    g.ndata["h"] = torch.ones(0, 2)
    g.update_all(fn.copy_u("h", "m"), fn.mean("m", "out"))
    assert g.ndata["out"].shape == (0, 2)
    g = small()
    g.ndata["h"] = torch.ones(4, 0)
    g.update_all(fn.copy_u("h", "m"), fn.max("m", "out"))
    assert g.ndata["out"].shape == (4, 0)


def test_index_types_stay():
    g = small().int()
    g.update_all(fn.copy_u("h", "m"), fn.sum("m", "out"))
    assert g.idtype == torch.int32 and g.ndata["out"].dtype == torch.float32


# ---- some nodes, some edges ----


def results(nodes):
    return {"out": nodes.mailbox["m"].sum(1)}


REDUCES = [fn.sum("m", "out"), results, unfused(results)]


@pytest.mark.parametrize("reduce", REDUCES)
def test_pull(reduce):
    g = small()
    g.ndata["out"] = torch.full((4, 2), 7.0)
    g.pull([3, 1, 1], fn.copy_u("h", "m"), reduce)
    assert g.ndata["out"].tolist() == [[7, 7], [4, 7], [7, 7], [0, 0]]


@pytest.mark.parametrize("reduce", REDUCES)
def test_push_and_send_and_recv(reduce):
    g = small()
    g.push([2], fn.copy_u("h", "m"), reduce)
    assert g.ndata.pop("out").tolist() == [[4, 5], [4, 5], [0, 0], [0, 0]]
    g.send_and_recv(([0, 2], [1, 0]), fn.copy_u("h", "m"), reduce)
    assert g.ndata.pop("out").tolist() == [[4, 5], [0, 1], [0, 0], [0, 0]]
    g.send_and_recv([0, 0, 3], fn.copy_u("h", "m"), reduce)
    assert g.ndata.pop("out").tolist() == [[4, 5], [0, 2], [0, 0], [0, 0]]
    g.send_and_recv([], fn.copy_u("h", "m"), reduce)
    assert "out" not in g.ndata


def test_a_part_sees_ids_of_the_graph():
    g = small()

    def message(edges):
        assert [x.tolist() for x in edges.edges()] == [[0, 0, 2], [1, 1, 1], [4, 0, 2]]
        return {"m": edges.data["w"]}

    def reduce(nodes):
        assert nodes.nodes().tolist() == [1] and nodes.data["h"].tolist() == [[2, 3]]
        assert nodes.mailbox["m"].tolist() == [[5, 1, 3]]
        return {"out": nodes.mailbox["m"].sum(1)}

    def apply(nodes):
        assert nodes.nodes().tolist() == [1] and sorted(nodes.data) == ["h", "out"]
        return {"out": nodes.data["out"] * 2}

    g.send_and_recv([4, 0, 2], message, reduce, apply)
    assert g.ndata["out"].tolist() == [0, 18, 0, 0]


def test_gradients_flow_through_written_rows():
    g = small()
    h = g.ndata["h"].clone().requires_grad_()
    g.ndata["h"] = h
    g.pull([1], fn.copy_u("h", "m"), fn.sum("m", "h"))
    g.ndata["h"].sum().backward()
    assert h.grad.tolist() == [[3, 3], [0, 0], [2, 2], [1, 1]]


def test_apply_functions_replace_the_results():
    g = small()
    g.update_all(fn.copy_u("h", "m"), fn.sum("m", "out"), lambda n: {"q": n.data["out"] + 1})
    assert "out" not in g.ndata and g.ndata["q"][3].tolist() == [1, 1]


def test_apply_nodes_and_edges():
    g = small()
    g.apply_nodes(lambda n: {"h": n.data["h"] * 2, "k": n.data["h"][:, 0]}, [1, 2])
    assert g.ndata["h"].tolist() == [[0, 1], [4, 6], [8, 10], [6, 7]]
    assert g.ndata["k"].tolist() == [0, 2, 4, 0]
    g.apply_edges(lambda e: {"w": e.data["w"] * 2, "k": e.src["h"]}, [1, 2])
    assert g.edata["w"].tolist() == [1, 4, 6, 4, 5] and g.edata["k"][1].tolist() == [4, 6]
    g.apply_edges(fn.u_sub_v("h", "h", "d"), ([2], [1]))
    assert g.edata["d"].tolist() == [[0, 0], [0, 0], [4, 4], [0, 0], [0, 0]]
    g.apply_nodes(lambda n: {"h": n.data["h"].double()})
    assert g.ndata["h"].dtype == torch.float64


@pytest.mark.parametrize("group_by", ["src", "dst"])
def test_group_apply_edges(group_by):
    g = small()
    g.group_apply_edges(group_by, lambda e: {"p": e.data["w"] / e.data["w"].sum(1, keepdim=True)})
    ends = g.edges()[group_by == "dst"]
    for edge, (end, w) in enumerate(zip(ends.tolist(), g.edata["w"])):
        torch.testing.assert_close(g.edata["p"][edge], w / g.edata["w"][ends == end].sum())
    g.group_apply_edges(group_by, lambda e: {"q": e.data["w"] * e.src["h"][..., 0]}, [1, 4])
    assert g.edata["q"].tolist() == [0, 4, 0, 0, 0]
    seen = []
    g.group_apply_edges(group_by, lambda e: seen.append(e.edges()[2].flatten().tolist()) or {}, [3])
    assert seen == [[3]]


def test_propagation():
    g = sg.graph(([0, 1, 2, 3], [2, 2, 4, 4]))
    for call in (
        lambda: sg.prop_nodes(g, [[2], [4]], fn.copy_u("x", "m"), fn.sum("m", "x")),
        lambda: sg.prop_edges(g, [[0, 1], ([2, 3], [4, 4])], fn.copy_u("x", "m"), fn.sum("m", "x")),
        lambda: g.prop_nodes([[2], [4]], fn.copy_u("x", "m"), fn.sum("m", "x")),
    ):
        g.ndata["x"] = torch.ones(5)
        call()
        assert g.ndata["x"].tolist() == [1, 1, 2, 1, 3]
    copy, add = fn.copy_u("x", "m"), fn.sum("m", "x")
    g.ndata["x"] = torch.ones(5)
    sg.prop_nodes_bfs(g, [1], copy, add)
    assert g.ndata["x"].tolist() == [1, 0, 1, 1, 2]
    g.ndata["x"] = torch.ones(5)
    sg.prop_nodes_topo(g, copy, add, apply_node_func=lambda n: {"x": n.data["x"] + 1})
    assert g.ndata["x"].tolist() == [1, 1, 3, 1, 5]
    sg.prop_edges_dfs(g, [0], copy, fn.sum("m", "y"))
    assert g.ndata["y"].tolist() == [0, 0, 1, 0, 3]


@pytest.mark.parametrize("idtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("keep", [unfused, lambda function: function])
def test_parts_are_what_the_whole_gives(keep, kind, idtype):
    g, etype = graph_of(kind)
    g = g.astype(idtype)
    set_features(g, etype)
    functions = (keep(udf_of("u_mul_e")), keep(reduce_udf("mean")))
    dst = frames_of(g, etype)[1]
    g.update_all(*functions, etype=etype)
    whole = dst.pop("out")
    g.pull([1, 2, 4], *functions, etype=etype)
    part = dst.pop("out")
    torch.testing.assert_close(part[[1, 2, 4]], whole[[1, 2, 4]])
    assert not part[[0, 3]].any()
    g.send_and_recv(torch.arange(8), *functions, etype=etype)
    torch.testing.assert_close(dst.pop("out"), whole)
    g.push([0, 1, 2, 4, 5], *functions, etype=etype)
    torch.testing.assert_close(dst.pop("out"), whole)


# ---- torch.compile ----


def two_steps(g, h, w):
    with g.local_scope():
        g.ndata["h"], g.edata["w"] = h, w
        g.update_all(fn.u_mul_e("h", "w", "m"), fn.sum("m", "h"))
        g.apply_edges(fn.u_dot_v("h", "h", "score"))
        g.edata["a"] = sg.ops.edge_softmax(g, g.edata["score"])
        g.update_all(lambda e: {"m": e.src["h"] * e.data["a"]}, fn.max("m", "out"))
        return g.ndata["out"].square().sum()


def test_a_compiled_step_has_no_graph_break():
    g = small()
    leaves = [torch.rand(4, 3, requires_grad=True), torch.rand(5, 1, requires_grad=True)]
    compiled = torch.compile(two_steps, fullgraph=True, backend="aot_eager")
    out, expected = compiled(g, *leaves), two_steps(g, *leaves)
    torch.testing.assert_close(out, expected)
    for a, b in zip(torch.autograd.grad(out, leaves), torch.autograd.grad(expected, leaves)):
        torch.testing.assert_close(a, b)


# ---- several types ----


def two_ways():
    edges = {
        ("user", "plays", "game"): ([0, 1, 2], [0, 0, 1]),
        ("dev", "makes", "game"): ([0, 1], [0, 2]),
        ("user", "follows", "user"): ([0], [1]),
    }
    g = sg.heterograph(edges, {"user": 3, "game": 4, "dev": 2})
    g.nodes["user"].data["h"] = torch.tensor([[1.0], [2.0], [-3.0]])
    g.nodes["dev"].data["h"] = torch.tensor([[-5.0], [-6.0]])
    return g


@pytest.mark.parametrize(
    ("cross", "inner", "expected"),
    [
        ("sum", "sum", [-2, -3, -6, 0]),
        ("mean", "sum", [-1, -1.5, -3, 0]),
        ("max", "max", [2, -3, -6, 0]),
        ("min", "min", [-5, -3, -6, 0]),
        ("max", "sum", [3, 0, 0, 0]),
        ("sum", "max", [-3, -3, -6, 0]),
    ],
)
def test_cross_reducers(cross, inner, expected):
    g = two_ways()
    pair = (fn.copy_u("h", "m"), getattr(fn, inner)("m", "out"))
    g.multi_update_all({"plays": pair, "makes": pair}, cross)
    assert g.nodes["game"].data["out"].view(-1).tolist() == expected
    udf = (lambda e: {"m": e.src["h"]}, fn.sum("m", "out"))
    if inner == "sum":
        g.multi_update_all({"plays": udf, "makes": pair}, cross)
        assert g.nodes["game"].data["out"].view(-1).tolist() == expected


def test_stack_and_functions_as_cross_reducers():
    g = two_ways()
    pair = (fn.copy_u("h", "m"), fn.sum("m", "out"))
    g.multi_update_all({"plays": pair, "makes": pair}, "stack")  # by edge type id: makes first
    assert g.nodes["game"].data["out"].shape == (4, 2, 1)
    assert g.nodes["game"].data["out"][0].view(-1).tolist() == [-5, 3]
    ones = (*pair, lambda n: {"out": n.data["out"] * 0 + 1})
    g.multi_update_all(
        {"plays": pair, "makes": ones, "follows": pair},
        lambda parts: torch.cat(parts, 1),
        lambda n: {"name": torch.full((len(n),), len(n.ntype))},
    )
    assert g.nodes["game"].data["out"][:2].tolist() == [[3, 1], [-3, 1]]
    assert g.nodes["user"].data["out"].view(-1).tolist() == [0, 1, 0]
    assert g.nodes["user"].data["name"].tolist() == [4, 4, 4]


def test_builtins_on_all_types_at_once():
    g = two_ways()
    g.update_all(fn.copy_u("h", "m"), fn.max("m", "out"))
    assert g.nodes["game"].data["out"].view(-1).tolist() == [2, -3, -6, 0]
    assert g.nodes["user"].data["out"].view(-1).tolist() == [0, 1, 0]
    g.apply_edges(fn.copy_u("h", "k"))
    assert g.edges["makes"].data["k"].view(-1).tolist() == [-5, -6]
    name = r"found test_builtins\S+<lambda> \(line \d+\)"
    with pytest.raises(smex.SmexValueError, match=f"update_all: on several edge types .* {name}"):
        g.update_all(lambda e: {"m": e.src["h"]}, fn.max("m", "out"))
    with pytest.raises(smex.SmexValueError, match=f"apply_edges: on several edge types .* {name}"):
        g.apply_edges(lambda e: {"m": e.src["h"]})
    with pytest.raises(smex.SmexValueError, match="mean over several edge types at once"):
        g.update_all(fn.copy_u("h", "m"), fn.mean("m", "out"))


# ---- built-ins ----


def test_names_of_builtins():
    assert repr(fn.u_mul_e("h", "w", "m")) == "u_mul_e('h', 'w', 'm')"
    assert repr(fn.sum("m", "out")) == "sum('m', 'out')"
    assert fn.e_div_v.__name__ == fn.e_div_v("a", "b", "m").name == "e_div_v"
    assert fn.copy_src is fn.copy_u and fn.copy_edge is fn.copy_e
    assert (
        len({n for n in fn.__all__ if ("_" in n and n[0] in "uve") or n in ("copy_u", "copy_e")})
        == 32
    )
    builtin = fn.u_dot_v("a", "b", "m")
    assert (builtin.binary_op, builtin.lhs, builtin.rhs, builtin.out_field) == ("dot", 0, 1, "m")
    assert (builtin.lhs_field, builtin.rhs_field) == ("a", "b")


def test_integers_take_the_plain_way():
    g = small()
    g.ndata["i"] = torch.arange(4)
    g.update_all(fn.copy_u("i", "m"), fn.sum("m", "out"))
    assert g.ndata["out"].tolist() == [2, 2, 1, 0]
    g.update_all(lambda e: {"m": e.src["i"]}, lambda n: {"out": n.mailbox["m"].max(1)[0]})
    assert g.ndata["out"].tolist() == [2, 2, 1, 0]


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64])
def test_sums_of_integers_are_int64(dtype):
    g = sg.graph(([0, 1], [2, 2]))
    g.ndata["i"] = torch.tensor([100, 100, 0], dtype=dtype)
    for message in (fn.copy_u("i", "m"), lambda e: {"m": e.src["i"]}):
        for reduce in (fn.sum("m", "out"), lambda n: {"out": n.mailbox["m"].sum(1)}):
            g.update_all(message, reduce)
            assert g.ndata["out"].dtype == torch.int64 and g.ndata["out"].tolist() == [0, 0, 200]


def fused_sum(nodes):
    return {"out": nodes.mailbox["m"].sum(1)}


def unfused_sum(nodes):
    return {"out": nodes.mailbox["m"].cumsum(1)[:, -1]}


def test_without_edges_sums_are_zero_and_other_functions_are_not_called():
    for reduce in (fn.sum("m", "out"), fused_sum):
        g = sg.graph(([], []), num_nodes=2)
        g.ndata["h"], g.ndata["out"] = torch.ones(2, 3), torch.ones(2, 1)
        g.update_all(fn.copy_u("h", "m"), reduce)
        assert g.ndata["out"].tolist() == [[0] * 3] * 2
    g.ndata["out"] = torch.ones(2, 1)
    g.update_all(fn.copy_u("h", "m"), unfused_sum)
    assert g.ndata["out"].tolist() == [[1], [1]]


@pytest.mark.parametrize("reduce", [fn.sum("m", "out"), fused_sum, unfused_sum])
@pytest.mark.parametrize("cross", ["sum", "min", "max", "mean", "stack"])
def test_an_edge_type_without_edges_takes_no_part(cross, reduce):
    edges = {("a", "x", "b"): ([0], [0]), ("c", "y", "b"): ([], [])}
    g = sg.heterograph(edges, {"a": 1, "b": 2, "c": 1})
    g.nodes["a"].data["h"] = g.nodes["c"].data["h"] = torch.tensor([[5.0]])
    pair = (fn.copy_u("h", "m"), reduce)
    g.multi_update_all({"x": pair, "y": pair}, cross)
    out = g.nodes["b"].data["out"]
    assert out.flatten().tolist() == [5, 0] and out.dim() == (3 if cross == "stack" else 2)


def test_broadcasting_lines_features_up_from_the_right():
    g = small()
    g.update_all(fn.u_mul_e("h", "w", "m"), fn.sum("m", "out"))
    assert g.ndata["out"].tolist() == [[16, 20], [12, 21], [4, 6], [0, 0]]
    g.edata["w"] = torch.ones(5, 3, 1)
    g.update_all(fn.u_mul_e("h", "w", "m"), fn.sum("m", "out"))
    assert g.ndata["out"].shape == (4, 3, 2)


# ---- mistakes ----


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (
            lambda g: g.update_all(fn.copy_u("x", "m"), fn.sum("m", "o")),
            KeyError,
            'feature "x" is not set for source nodes; .* there are: "h"',
        ),
        (
            lambda g: g.update_all(fn.copy_u("h", "m"), fn.sum("n", "o")),
            ValueError,
            r"sum\('n', 'o'\) reads \"n\", but copy_u\('h', 'm'\) sends \"m\"",
        ),
        (
            lambda g: g.update_all(lambda e: {"m": e.src["h"]}, fn.sum("n", "o")),
            ValueError,
            'reads "n", which the message function does not send; it sends "m"',
        ),
        (
            lambda g: g.update_all(3, fn.sum("m", "o")),
            TypeError,
            "message function: expected a built-in message function or a callable, found 3",
        ),
        (
            lambda g: g.update_all(fn.copy_u("h", "m"), fn.copy_u("m", "o")),
            TypeError,
            "reduce function: expected a built-in reduce function",
        ),
        (
            lambda g: g.update_all(lambda e: e.src["h"], fn.sum("m", "o")),
            TypeError,
            r"message function: expected a dict .* found torch.float32 \[5, 2\]",
        ),
        (
            lambda g: g.update_all(lambda e: {"m": e.src["h"][:1]}, fn.sum("m", "o")),
            ValueError,
            'feature "m" from the message function: expected 5 rows, one for each edge, found',
        ),
        (
            lambda g: g.update_all(fn.copy_u("h", "m"), lambda n: None),
            TypeError,
            "reduce function: expected a dict from names to tensors as its result, found NoneType",
        ),
        (
            lambda g: g.apply_edges(fn.sum("h", "m")),
            TypeError,
            "message function: expected a built",
        ),
        (lambda g: g.group_apply_edges("u", None), ValueError, "group_by must be 'src' or 'dst'"),
        (lambda g: g.multi_update_all({}, "prod"), ValueError, "unknown cross reducer 'prod'"),
        (
            lambda g: g.multi_update_all({"_E": (fn.copy_u("h", "m"),)}, "sum"),
            TypeError,
            r"multi_update_all: expected \(message, reduce\)",
        ),
        (
            lambda g: g.pull([9], fn.copy_u("h", "m"), fn.sum("m", "o")),
            ValueError,
            "pull: .* found 9",
        ),
    ],
)
def test_mistakes(call, kind, text):
    g = small()
    with pytest.raises(smex.SmexError, match=text) as caught:
        call(g)
    assert isinstance(caught.value, kind)
    assert list(g.ndata) == ["h"] and list(g.edata) == ["w"]


ADD = fn.sum("m", "o")


@pytest.mark.parametrize("keep", [unfused, lambda function: function])
@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            lambda g, keep: g.update_all(
                fn.copy_u("h", "m"), keep(lambda n: {"o": n.mailbox["zz"].sum(1)})
            ),
            '^message "zz" is not in the mailbox; the message function sends: "m"$',
        ),
        (
            lambda g, keep: g.update_all(keep(lambda e: {"m": e.src["zz"]}), ADD),
            'feature "zz" is not set for source nodes; .* there are: "h"',
        ),
        (
            lambda g, keep: g.update_all(keep(lambda e: {"m": e.dst["zz"]}), ADD),
            'feature "zz" is not set for destination nodes; .* there are: "h"',
        ),
        (
            lambda g, keep: g.apply_edges(keep(lambda e: {"m": e.data["zz"]})),
            'feature "zz" is not set for edges; .* there are: "w"',
        ),
        (
            lambda g, keep: g.apply_nodes(keep(lambda n: {"m": n.data["zz"]})),
            'feature "zz" is not set for nodes; .* there are: "h"',
        ),
        (
            lambda g, keep: g.group_apply_edges("dst", keep(lambda e: {"m": e.src["zz"]})),
            'feature "zz" is not set for source nodes; .* there are: "h"',
        ),
        (
            lambda g, keep: g.filter_edges(keep(lambda e: e.dst["zz"] > 0)),
            'feature "zz" is not set for destination nodes; .* there are: "h"',
        ),
    ],
)
def test_names_that_functions_mistake(call, text, keep):
    with pytest.raises(KeyError, match=text) as caught:
        call(small(), keep)
    assert isinstance(caught.value, smex.SmexValueError)


def test_errors_name_types_and_ends():
    g = two_ways()
    for function in (fn.copy_u("f", "m"), lambda e: {"m": e.src["f"]}):
        with pytest.raises(KeyError, match='is not set for source nodes of type "user"; .* "h"'):
            g.update_all(function, ADD, etype="plays")
    with pytest.raises(KeyError, match=r"is not set for edges of type \('user', 'plays', 'game'\)"):
        g.update_all(fn.u_mul_e("h", "f", "m"), ADD, etype="plays")
    with pytest.raises(KeyError, match='is not set for destination nodes of type "game"'):
        g.apply_edges(fn.u_mul_v("h", "f", "m"), etype="plays")
    with pytest.raises(KeyError, match='"f" is not set for nodes of type "user"'):
        g.nodes["user"].data["f"]
    with pytest.raises(
        smex.SmexValueError, match='3 rows, one for each node of type "user", found'
    ):
        g.nodes["user"].data["f"] = torch.ones(4)
    with pytest.raises(smex.SmexValueError, match="one for each edge of type .'dev', 'makes'"):
        g.edges["makes"].data["f"] = torch.ones(4)
    with pytest.raises(smex.SmexValueError, match='1 row, one for each selected node of type "us'):
        g.nodes[[0], "user"].data["f"] = torch.ones(4)
    block = sg.create_block(([0, 1], [0, 0]))
    with pytest.raises(KeyError, match="is not set for destination nodes; "):
        block.dstdata["f"]


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (
            lambda g: g.update_all(
                fn.copy_u("h", "m"), lambda n: {"o": n.mailbox["m"].sort(1)[0][:1]}
            ),
            ValueError,
            r'"o" from the reduce function: expected 2 rows, one for each node with 1 message, f',
        ),
        (
            lambda g: g.update_all(fn.copy_u("h", "m"), lambda n: {"o": n.mailbox["m"].sum(2)}),
            ValueError,
            r'found "o" torch.float32 \[1\] for 1 message and "o" torch.float32 \[3\] for 3 messages; '
            r"results are \[nodes, ...\]: reduce over dimension 1",
        ),
        (
            lambda g: g.group_apply_edges("dst", lambda e: {"q": e.data["w"].sum(1)}),
            ValueError,
            r'"q" from the group function: expected \[2, 1, ...\], .* found shape \[2\]',
        ),
        (
            lambda g: g.apply_edges(lambda e: {"q": None}),
            TypeError,
            '"q" from the message function: expected a tensor, found NoneType; leave it out',
        ),
        (
            lambda g: g.apply_nodes(lambda n: {"q": torch.eye(4).to_sparse()}),
            TypeError,
            "expected a dense tensor of numbers, found torch.sparse_coo; convert it with .to_dense",
        ),
        (
            lambda g: g.update_all(fn.copy_u("b", "m"), ADD),
            TypeError,
            'integers too for sum.* found torch.bool; .*; u0 is feature "b" of source nodes$',
        ),
        (
            lambda g: g.update_all(lambda e: {"m": e.src["b"]}, ADD),
            TypeError,
            'found torch.bool; convert them first; e0 is message "m"$',
        ),
        (
            lambda g: g.update_all(fn.u_mul_e("h", "b", "m"), ADD),
            TypeError,
            'one dtype, .*; u0 is feature "h" of source nodes, e1 is feature "b" of edges$',
        ),
        (
            lambda g: g.apply_edges(fn.v_dot_u("h", "h3", "k")),
            ValueError,
            'found 2 and 3; v0 is feature "h" of destination nodes, u1 is feature "h3" of source',
        ),
        (
            lambda g: g.multi_update_all({"_E": (lambda e: 1,)}, "sum"),
            TypeError,
            r"found \(<lambda>.<locals>.<lambda> \(line \d+\)\)$",
        ),
    ],
)
def test_mistakes_name_features_and_functions(call, kind, text):
    g = small()
    g.ndata["b"], g.edata["b"] = torch.ones(4, dtype=torch.bool), torch.ones(5, dtype=torch.bool)
    g.ndata["h3"] = torch.ones(4, 3)
    with pytest.raises(smex.SmexError, match=text) as caught:
        call(g)
    assert isinstance(caught.value, kind)


def test_errors_of_operators_name_features():
    g = small()
    g.ndata["h3"] = torch.ones(4, 3)
    for call in (
        lambda: g.update_all(fn.u_mul_v("h", "h3", "m"), ADD),
        lambda: g.apply_edges(fn.u_mul_v("h", "h3", "m")),
    ):
        with pytest.raises(
            ValueError, match=r'\[2\] and \[3\] .*; u0 is feature "h" of source nod'
        ):
            call()


def test_relations_whose_results_differ_are_named():
    g = two_ways()
    g.nodes["dev"].data["h"] = torch.ones(2, 4)
    pair = (fn.copy_u("h", "m"), ADD)
    text = r'"o" of one shape .* \[4, 1\] from .*plays.* \[4, 4\] from .*makes'
    for cross in ("sum", "max", "mean"):
        with pytest.raises(smex.SmexValueError, match=text):
            g.multi_update_all({"plays": pair, "makes": pair}, cross)
    with pytest.raises(smex.SmexValueError, match="from .*makes.* from .*plays"):
        g.multi_update_all({"plays": pair, "makes": pair}, "stack")
    with pytest.raises(RuntimeError, match="mine"):  # a function's errors are its own
        g.multi_update_all({"plays": pair, "makes": pair}, fails)


def fails(parts):
    raise RuntimeError("mine")


@pytest.mark.parametrize("name", ["h", 3])
def test_features_must_be_dense(name):
    g = small()
    other = torch.ones(4, 2)
    with pytest.raises(smex.SmexTypeError, match="found torch.sparse_coo; .* .to_dense"):
        g.ndata[name] = other.to_sparse()
    with pytest.raises(smex.SmexTypeError, match="expected a dense tensor"):
        g.nodes[[0, 1, 2, 3]].data[name] = other.to_sparse()
    with pytest.raises(smex.SmexTypeError, match="expected a dense tensor"):
        g.add_nodes(4, {name: other.to_sparse()})
    with pytest.raises(smex.SmexTypeError, match="expected a dense tensor"):
        two_ways().ndata[name] = {"game": other.to_sparse()}
    g.ndata[name] = other
    assert g.ndata[name] is other


@pytest.mark.filterwarnings("ignore:.*quantize_per_tensor")
def test_features_must_not_be_quantised():
    found = torch.quantize_per_tensor(torch.ones(4, 2), 1.0, 0, torch.qint8)
    with pytest.raises(smex.SmexTypeError, match="found torch.qint8; .* .dequantize"):
        small().ndata["q"] = found


def test_names_that_are_no_strings():
    g = small()
    g.ndata[3] = torch.ones(4, 1)
    for reduce in (ADD, lambda n: {"o": n.mailbox["m"].sum(1)}):
        g.update_all(fn.copy_u(3, "m"), reduce)
        assert g.ndata["o"].view(-1).tolist() == [1, 3, 1, 0]
