"""prop_nodes_topo as a vertex function, against the calls of pull that it stands for."""

import logging
import random
import sys

import pytest
import torch
from torch import nn

import smex
import smex.graph as sg
import smex.graph.function as fn
import smex.vertex as sv
from smex.graph.recursion import levels, plans
from smex.graph.recursion import propagate as propagation
from smex.graph.recursion.cells import Functions

pytestmark = pytest.mark.costly

WIDTH = 3


def tree(seed, size=9):
    """A random binary tree whose inner nodes have two children; edges go up."""
    draw = random.Random(seed)
    roots, src, dst, count = list(range(size)), [], [], size
    while len(roots) > 1:
        for _ in range(2):
            src.append(roots.pop(draw.randrange(len(roots))))
            dst.append(count)
        roots.append(count)
        count += 1
    return src, dst, count


def dag(seed, size=12):
    """A random DAG with shared children, nodes in no order, and edges in no order."""
    draw = random.Random(seed)
    names = draw.sample(range(size), size)
    pairs = [
        (names[u], names[v]) for v in range(size) for u in draw.sample(range(v), min(v, v % 4))
    ]
    draw.shuffle(pairs)
    return [u for u, _ in pairs], [v for _, v in pairs], size


STRUCTURES = {
    "one node": ([], [], 1),
    "no edges": ([], [], 4),
    "chain": (list(range(6)), list(range(1, 7)), 7),
    "star": ([1, 2, 3, 4, 5], [0] * 5, 6),
    "fan": ([0] * 4, [1, 2, 3, 4], 5),
    "parallel edges": ([0, 0, 1], [1, 1, 2], 3),
    "tree": tree(0),
    "dag": dag(1),
    "other dag": dag(2),
}


def union(structures):
    """Graphs side by side."""
    src, dst, size = [], [], 0
    for sources, destinations, nodes in structures:
        src += [size + u for u in sources]
        dst += [size + v for v in destinations]
        size += nodes
    return src, dst, size


STRUCTURES["all of them"] = union(STRUCTURES.values())


@pytest.fixture(params=["one node", "all of them"])
def structure(request):
    return STRUCTURES[request.param]


def graph_of(structure, idtype=torch.int64):
    src, dst, size = structure
    ids = (torch.tensor(src, dtype=idtype), torch.tensor(dst, dtype=idtype))
    return sg.graph(ids, num_nodes=size, idtype=idtype)


def features(g, **shapes):
    """Features by name, those of edges with a name in capitals."""
    torch.manual_seed(0)
    counts = {name: g.num_edges() if name.isupper() else g.num_nodes() for name in shapes}
    return {
        name: torch.randn(counts[name], *shape, dtype=torch.float64, requires_grad=True)
        for name, shape in shapes.items()
    }


def outcome(g, given, functions, parameters, propagate):
    """The features after a propagation, and the gradients of what went in."""
    g.ndata.clear(), g.edata.clear()
    for name, value in given.items():
        (g.edata if name.isupper() else g.ndata)[name] = value
    propagate(g, *functions)
    after = {name: g.ndata[name] for name in sorted(g.ndata)}
    loss = sum((x * torch.arange(1, x.numel() + 1).view(x.shape)).sum() for x in after.values())
    wanted = [x for x in [*given.values(), *parameters] if x.requires_grad]
    grads = [None] * len(wanted)
    if wanted and loss.requires_grad:
        grads = torch.autograd.grad(loss, wanted, allow_unused=True)
    return after, [torch.zeros_like(x) if g is None else g for g, x in zip(grads, wanted)]


def level_by_level(g, message, reduce, apply=None):
    for nodes in sg.topological_nodes_generator(g):
        g.pull(nodes, message, reduce, apply)


def at_once(g, message, reduce, apply=None):
    propagation.run(g, Functions(message, reduce, apply))


def agree(g, given, functions, parameters=(), run=at_once):
    expected, expected_grads = outcome(g, given, functions, parameters, level_by_level)
    found, found_grads = outcome(g, given, functions, parameters, run)
    assert list(found) == list(expected)
    for name, value in found.items():
        torch.testing.assert_close(value, expected[name], msg=name)
    for mine, other in zip(found_grads, expected_grads):
        torch.testing.assert_close(mine, other)


BUILTINS = [
    (fn.copy_u("h", "m"), {}),
    (fn.copy_e("W", "m"), {"W": (WIDTH,)}),
    (fn.u_mul_e("h", "W", "m"), {"W": (1,)}),
    (fn.e_sub_u("W", "h", "m"), {"W": (WIDTH,)}),
    (fn.u_add_v("h", "x", "m"), {}),
    (fn.v_div_u("x", "h", "m"), {}),
    (fn.u_dot_v("h", "x", "m"), {}),
    (fn.u_mul_v("x", "h", "m"), {}),
]


@pytest.mark.parametrize("reducer", ["sum", "mean", "max", "min"])
@pytest.mark.parametrize(("message", "edges"), BUILTINS, ids=lambda x: getattr(x, "name", ""))
def test_built_in_functions(message, edges, reducer):
    g = graph_of(STRUCTURES["all of them"])
    linear = nn.Linear(WIDTH, WIDTH, dtype=torch.float64)

    def apply(nodes):
        return {"h": torch.tanh(linear(nodes.data["x"]) + nodes.data["got"]) + 1.5}

    given = features(g, h=(WIDTH,), x=(WIDTH,), **edges)
    agree(g, given, (message, getattr(fn, reducer)("m", "got"), apply), [*linear.parameters()])


@pytest.mark.parametrize("reducer", ["sum", "mean", "max", "min"])
def test_without_apply_function(reducer, structure):
    g = graph_of(structure)
    given = features(g, h=(2, 1), W=(2, 3), x=())
    agree(g, given, (fn.copy_u("h", "m"), getattr(fn, reducer)("m", "h")))
    agree(g, given, (fn.u_mul_e("h", "W", "m"), getattr(fn, reducer)("m", "new")))
    agree(g, given, (fn.u_mul_v("x", "x", "m"), getattr(fn, reducer)("m", "x")))


class TreeLSTM(nn.Module):
    """The binary Tree-LSTM as it is written with DGL, here for any number of children."""

    def __init__(self, degree):
        super().__init__()
        self.w = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.u = nn.Linear(degree * WIDTH, 3 * WIDTH, bias=False)
        self.bias = nn.Parameter(torch.zeros(1, 3 * WIDTH))
        self.u_f = nn.Linear(degree * WIDTH, degree * WIDTH)

    def message_func(self, edges):
        return {"h": edges.src["h"], "c": edges.src["c"]}

    def reduce_func(self, nodes):
        h = nodes.mailbox["h"].reshape(nodes.mailbox["h"].size(0), -1)
        f = torch.sigmoid(self.u_f(h)).view(*nodes.mailbox["h"].size())
        return {"iou": self.u(h), "c": torch.sum(f * nodes.mailbox["c"], 1)}

    def apply_node_func(self, nodes):
        i, o, u = torch.chunk(nodes.data["iou"] + self.bias, 3, 1)
        c = torch.sigmoid(i) * torch.tanh(u) + nodes.data["c"]
        return {"h": torch.sigmoid(o) * torch.tanh(c), "c": c}

    @property
    def functions(self):
        return self.message_func, self.reduce_func, self.apply_node_func


@pytest.mark.parametrize("idtype", [torch.int32, torch.int64])
def test_tree_lstm(idtype):
    g = sg.batch([graph_of(tree(seed, seed), idtype) for seed in range(1, 9)])
    cell = TreeLSTM(2).double()
    x = features(g, x=(WIDTH,))["x"]

    def propagate(g, *functions):
        g.ndata["iou"] = cell.w(g.ndata["x"])
        at_once(g, *functions)

    zeros = torch.zeros(g.num_nodes(), WIDTH, dtype=torch.float64)
    given = {"x": x, "h": zeros, "c": zeros}
    expected, expected_grads = outcome(
        g,
        given,
        cell.functions,
        [*cell.parameters()],
        lambda g, *f: (g.ndata.update(iou=cell.w(g.ndata["x"])), level_by_level(g, *f)),
    )
    found, grads = outcome(g, given, cell.functions, [*cell.parameters()], propagate)
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value)
    for mine, other in zip(grads, expected_grads):
        torch.testing.assert_close(mine, other)


def test_functions_of_the_mailbox_for_several_degrees(structure):
    g = graph_of(structure)
    u, u_f = (nn.Linear(WIDTH, WIDTH, dtype=torch.float64) for _ in range(2))

    def message(edges):
        return {k: edges.src[k] * edges.data["W"] for k in ("h", "c") if k in edges.src}

    def reduce(nodes):
        gate = torch.sigmoid(u_f(nodes.mailbox["h"]) + nodes.data["x"].unsqueeze(1))
        return {"u": u(nodes.mailbox["h"].sum(1)), "c": (gate * nodes.mailbox["c"]).sum(1)}

    def apply(nodes):
        c = torch.tanh(nodes.data["u"]) + nodes.data["c"]
        return {"h": c.tanh() * nodes.data["x"], "c": c}

    given = features(g, h=(WIDTH,), c=(WIDTH,), u=(WIDTH,), x=(WIDTH,), W=(1,))
    agree(g, given, (message, reduce, apply), [*u.parameters(), *u_f.parameters()])


def test_features_that_only_some_levels_set():
    g = graph_of(STRUCTURES["dag"])
    given = features(g, x=(WIDTH,))
    copy = fn.copy_u("x", "m")
    # Without an apply function nodes without messages set nothing.
    agree(g, given, (copy, lambda nodes: {"x": nodes.mailbox["m"].sum(1)}))
    agree(g, given, (copy, lambda nodes: {"new": nodes.mailbox["m"].amax(1)}))
    g.set_n_initializer(lambda shape, dtype, device, ids: torch.full(shape, 7.0, dtype=dtype))
    agree(g, given, (copy, lambda nodes: {"new": nodes.mailbox["m"].sum(1)}))


def test_tensors_that_functions_read_are_those_of_the_moment():
    g = graph_of(STRUCTURES["tree"])
    given = features(g, h=(WIDTH,))

    def functions(scale, power):
        def apply(nodes):
            return {"h": (nodes.data["h"] * scale) ** power}

        return fn.copy_u("h", "m"), fn.sum("m", "h"), apply

    for power in (1, 2):
        for _ in range(2):
            scale = torch.rand(WIDTH, dtype=torch.float64, requires_grad=True)
            agree(g, given, functions(scale, power), [scale])


def test_functions_whose_numbers_change_in_each_call_are_not_traced_for_ever():
    g = graph_of(STRUCTURES["tree"])
    given = features(g, h=(WIDTH,))
    runs = []
    for number in range(plans.MOST_PLANS + 2):

        def apply(nodes, number=number):
            return {"h": nodes.data["h"] + number}

        functions = fn.copy_u("h", "m"), fn.sum("m", "h"), apply
        g.ndata["h"] = given["h"]
        runs.append(propagation.propagate(g, *functions))
        agree(g, given, functions, run=level_by_level if not runs[-1] else at_once)
    assert runs == [True] * plans.MOST_PLANS + [False] * 2


def test_a_schedule_is_made_once(monkeypatch):
    g = graph_of(tree(5))
    given = features(g, h=(WIDTH,))
    functions = fn.copy_u("h", "m"), fn.sum("m", "h"), lambda n: {"h": torch.tanh(n.data["h"])}
    agree(g, given, functions)
    made = []
    monkeypatch.setattr(levels, "_levels", lambda relation: made.append("levels"))
    monkeypatch.setattr(
        "smex.vertex.execution.schedule._made", lambda *args: made.append("schedule")
    )
    monkeypatch.setattr(
        sys.modules["smex.vertex.execution.run"], "build", lambda *args: made.append("trace")
    )
    agree(g, given, functions)
    agree(g.local_var(), given, functions)  # which shares the structure
    assert made == []


@pytest.mark.parametrize("grad", [True, False])
def test_inference(grad):
    g = graph_of(STRUCTURES["dag"])
    g.ndata["h"] = torch.rand(g.num_nodes(), WIDTH, requires_grad=True)
    with torch.set_grad_enabled(grad):
        g.prop_nodes_topo(fn.copy_u("h", "m"), fn.sum("m", "sum"), apply_node_func=added)
    assert g.ndata["h"].requires_grad == grad


def test_functions_called_from_elsewhere_get_the_tensors_of_the_moment():
    g = graph_of(STRUCTURES["dag"])
    x = torch.rand(g.num_nodes(), WIDTH)

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(WIDTH, WIDTH)

        def apply_nodes(self, nodes):
            return {"h": torch.tanh(self.linear(nodes.data["sum"]))}

        def forward(self, propagate):
            g.ndata["h"] = x
            propagate(g, fn.copy_u("h", "m"), fn.mean("m", "sum"), self.apply_nodes)
            return g.ndata["h"]

    layer = Layer()
    layer(at_once)
    others = {n: torch.rand_like(p).requires_grad_() for n, p in layer.named_parameters()}
    results = []
    for propagate in (at_once, level_by_level):
        h = torch.func.functional_call(layer, others, (propagate,))
        results.append([h, *torch.autograd.grad(h.sin().sum(), list(others.values()))])
    torch.testing.assert_close(*results)


def added(nodes):
    return {"h": nodes.data["h"] + nodes.data["sum"]}


def test_ids_and_numbers_of_nodes():
    g = graph_of(STRUCTURES["dag"], torch.int32)
    given = features(g, h=(WIDTH,))

    def apply(nodes):
        return {"h": nodes.data["h"] + nodes.nodes().unsqueeze(1), "id": nodes.nodes()}

    agree(g, given, (fn.copy_u("h", "m"), fn.sum("m", "h"), apply))


def test_an_empty_graph_stays_as_it_is():
    g = sg.graph(([], []), num_nodes=0)
    g.ndata["h"] = torch.zeros(0, 2)
    g.prop_nodes_topo(fn.copy_u("h", "m"), fn.sum("m", "new"))
    assert list(g.ndata) == ["h"]


def test_a_cycle_is_an_error():
    g = sg.graph(([0, 1, 2], [1, 2, 1]))
    g.ndata["h"] = torch.ones(3, 1)
    with pytest.raises(smex.SmexValueError, match="the graph has a cycle, with 2 nodes"):
        g.prop_nodes_topo(fn.copy_u("h", "m"), fn.sum("m", "h"))
    assert g.ndata["h"].tolist() == [[1], [1], [1]]


def test_reverse_pulls_what_was_there_before():
    g = graph_of(STRUCTURES["other dag"])
    given = features(g, h=(WIDTH,))
    functions = fn.copy_u("h", "m"), fn.sum("m", "h"), lambda n: {"h": torch.tanh(n.data["h"])}

    def pulls(g, message, reduce, apply):
        for nodes in sg.topological_nodes_generator(g, reverse=True):
            g.pull(nodes, message, reduce, apply)

    expected, grads = outcome(g, given, functions, [], pulls)
    found, found_grads = outcome(
        g, given, functions, [], lambda g, m, r, a: sg.prop_nodes_topo(g, m, r, True, a)
    )
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(found_grads, grads)


calls = []


def counts(nodes):
    calls.append(len(nodes))
    return {"h": nodes.data["h"]}


REFUSED = {
    "append": (fn.copy_u("h", "m"), fn.sum("m", "h"), counts),
    "DataDependent": (fn.copy_u("h", "m"), fn.sum("m", "h"),
               lambda n: {"h": n.data["h"] if n.data["h"].sum() > 0 else -n.data["h"]}),
    "mixes": (fn.copy_u("h", "m"), fn.sum("m", "h"), lambda n: {"h": n.data["h"].softmax(0)}),
    "number of rows": (fn.copy_u("h", "m"), fn.sum("m", "h"),
                       lambda n: {"h": n.data["h"] * (2 if len(n) > 1 else 3)}),
    "ids of edges are": (lambda e: {"m": e.src["h"] * e.edges()[0].unsqueeze(1)}, fn.sum("m", "h")),
    "which features are set": (fn.copy_u("h", "m"), lambda n: {"new": n.mailbox["m"].sum(1)
                               + ("new" in n.data)}),
    "in place": (fn.copy_u("h", "m"), fn.sum("m", "h"), lambda n: {"h": n.data["h"] + n.data["x"].add_(2)}),
}  # fmt: skip


@pytest.mark.parametrize("reason", list(REFUSED))
def test_what_cannot_be_looked_into_runs_level_by_level(reason, caplog):
    propagation._say.cache_clear()
    g = graph_of(STRUCTURES["other dag"])
    given = {n: x.detach() for n, x in features(g, h=(WIDTH,), x=(WIDTH,)).items()}
    functions = REFUSED[reason]

    def method(g, message, reduce, apply=None):
        g.prop_nodes_topo(message, reduce, apply_node_func=apply)

    with caplog.at_level(logging.INFO, logger="smex"):
        agree(g, given, functions, run=method)
    assert "prop_nodes_topo runs level by level" in caplog.text
    assert reason in caplog.text


def test_a_node_with_many_in_edges():
    size = levels.MOST_EDGES + 2
    g = graph_of((list(range(1, size)), [0] * (size - 1), size))
    copy = fn.copy_u("h", "m")
    for reducer, expected, is_at_once in (("sum", size, True), ("max", 2, False)):
        g.ndata["h"] = torch.ones(size, 1)
        reduce = getattr(fn, reducer)("m", "h")
        assert propagation.propagate(g, copy, reduce, ones_more) == is_at_once
        g.ndata["h"] = torch.ones(size, 1)
        g.prop_nodes_topo(copy, reduce, apply_node_func=ones_more)
        assert g.ndata["h"].tolist() == [[expected]] + [[1]] * (size - 1)


def test_sums_of_any_number_of_messages_are_one_type():
    g = graph_of(STRUCTURES["dag"])
    for message, buckets in ((fn.copy_u("h", "m"), 2), (fn.u_mul_e("h", "W", "m"), 4)):
        functions = Functions(message, fn.sum("m", "h"))
        assert len(propagation._levels(g, functions).buckets) == buckets


def ones_more(nodes):
    return {"h": nodes.data["h"] + 1}


def test_the_option_asks_for_levels():
    g = graph_of(STRUCTURES["tree"])
    g.ndata["h"] = torch.zeros(g.num_nodes(), 1)
    with sv.options(trace=False):
        assert not propagation.propagate(g, fn.copy_u("h", "m"), fn.sum("m", "h"), ones_more)


def test_mistakes_are_told_as_ever():
    g = graph_of(STRUCTURES["tree"])
    with pytest.raises(smex.SmexValueError, match='feature "h" is not set for source nodes'):
        g.prop_nodes_topo(fn.copy_u("h", "m"), fn.sum("m", "h"))
    g.ndata["h"] = torch.zeros(g.num_nodes(), 2)
    with pytest.raises(smex.SmexValueError, match="give both the same name"):
        g.prop_nodes_topo(fn.copy_u("h", "m"), fn.sum("n", "h"))
    with pytest.raises(smex.SmexTypeError, match="expected a dict"):
        g.prop_nodes_topo(fn.copy_u("h", "m"), fn.sum("m", "h"), apply_node_func=lambda nodes: 3)


def test_a_deep_chain():
    g = graph_of((list(range(1000)), list(range(1, 1001)), 1001))
    given = features(g, h=(WIDTH,))
    functions = fn.copy_u("h", "m"), fn.sum("m", "h"), lambda n: {"h": torch.sin(n.data["h"]) + 0.1}
    agree(g, given, functions)


def test_integers_and_mixed_types():
    g = graph_of(STRUCTURES["dag"])
    g.ndata["depth"] = torch.zeros(g.num_nodes(), dtype=torch.int64)
    g.ndata["h"] = torch.rand(g.num_nodes())

    def reduce(nodes):
        return {"depth": nodes.mailbox["d"].amax(1) + 1}

    g.prop_nodes_topo(fn.copy_u("depth", "d"), reduce)
    levels = list(sg.topological_nodes_generator(g))
    expected = torch.empty(g.num_nodes(), dtype=torch.int64)
    for number, nodes in enumerate(levels):
        expected[nodes] = number
    assert g.ndata["depth"].tolist() == expected.tolist()
