"""`smex.vertex.run` against the recursion, vertex by vertex, in float64."""

import concurrent.futures
import copy
import importlib
import pickle
from collections import OrderedDict

import pytest
import torch
import torch.utils.checkpoint
from torch import nn

import smex
import smex.vertex as sv
from smex.vertex.execution import schedule
from support.vertex_functions import (
    Average,
    Binary,
    ChildSum,
    Joined,
    Stacked,
    expected,
    loss_of,
    random_graph,
    star,
)

run_module = importlib.import_module("smex.vertex.run")  # sv.run is the function

pytestmark = pytest.mark.costly

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)]
OPTIONS = {
    "all": {},
    "not hoisted": {"hoist": False},
    "not lazy": {"lazy": False},
    "not fused": {"fuse": False},
    "neither": {"hoist": False, "lazy": False, "fuse": False},
    "not traced": {"trace": False},
    "by depth": {"policy": "depth"},
}
BATCHES = {
    "one vertex": [sv.chain(1)],
    "trees": [random_graph(n, 2, n, shared=False) for n in (1, 2, 3, 9, 30)],
    "shared children": [random_graph(n, 2, n) for n in (1, 4, 17, 40)],
    "with empty samples": [sv.chain(0), sv.tree(((), ())), sv.chain(0)],
    "chains": [sv.chain(n) for n in (3, 1, 8, 5)],
}
WIDE = {
    **BATCHES,
    "stars": [star(40), star(3), star(0)],
    "wide and shared": [random_graph(30, 7, 3)],
}


def assert_equal_to_recursion(function, graphs, x):
    states, output = expected(function, graphs, x)
    wanted = [x, *function.parameters()]
    grads = torch.autograd.grad(loss_of(states, output), wanted, allow_unused=True)
    result = sv.run(function, graphs, x)
    found = [result.states[name] for name in function.state_shapes]
    for one, other in zip(found, states):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(result.outputs["out"], output, rtol=1e-10, atol=1e-12)
    loss = loss_of(found, result.outputs["out"])
    for one, other in zip(torch.autograd.grad(loss, wanted, allow_unused=True), grads):
        zero = x.new_zeros(())
        one, other = (zero if g is None else g for g in (one, other))
        torch.testing.assert_close(*torch.broadcast_tensors(one, other), rtol=1e-9, atol=1e-11)


def case(cls, graphs, seed=0, device="cpu"):
    torch.manual_seed(seed)
    vertices = sum(g.num_vertices for g in graphs)
    x = torch.randn(vertices, 3, dtype=torch.float64).to(device).requires_grad_()
    return cls(3, 4).double().to(device), x


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("graphs", BATCHES.values(), ids=BATCHES)
@pytest.mark.parametrize("cls", [Binary, Stacked])
def test_two_children(cls, graphs, options, device):
    function, x = case(cls, graphs, device=device)
    with sv.options(**options):
        assert_equal_to_recursion(function, graphs, x)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("cls", [ChildSum, Average])
@pytest.mark.parametrize("graphs", WIDE.values(), ids=WIDE)
def test_any_number_of_children(graphs, cls, options, device):
    function, x = case(cls, graphs, device=device)
    with sv.options(**options):
        assert_equal_to_recursion(function, graphs, x)


@pytest.mark.parametrize("options", [{}, {"hoist": False}, {"trace": False}])
@pytest.mark.parametrize("graphs", [*BATCHES.values(), [sv.tree((((), ()), ((), ())))] * 3])
def test_states_side_by_side(graphs, options):
    with sv.options(**options):
        function, x = case(Joined, graphs)
        assert_equal_to_recursion(function, graphs, x)


@pytest.mark.parametrize("cls", [Joined, ChildSum, Average, Stacked])
def test_rows_in_parts(cls, monkeypatch):
    """What is computed at once for all rows may be computed in parts of them."""
    monkeypatch.setattr(schedule, "PART_ROWS", 2)
    monkeypatch.setattr(schedule, "_cache", OrderedDict())
    graphs = [random_graph(n, 2, n) for n in (1, 4, 17, 40)]
    function, x = case(cls, graphs)
    assert_equal_to_recursion(function, graphs, x)
    kinds = schedule._cache.popitem()[1].kinds
    assert [len(kind.parts) for kind in kinds] == [schedule.PARTS] * len(kinds)


class Wide(sv.VertexFunction):
    """Element-wise calls of all kinds, forward and backward, of two shapes."""

    def __init__(self, inputs, hidden):
        super().__init__(h=hidden)
        self.w = nn.Linear(inputs, 2 * hidden)
        self.scale = nn.Parameter(torch.rand(hidden))

    def forward(self):
        h = self.cell(self.pull(), self.gather(0).h, self.gather(1).h)
        self.scatter(h)
        self.push(h.sigmoid() * 2)

    def cell(self, x, left, right):
        x = nn.functional.silu(self.w(x)) + nn.functional.gelu(self.w(x))
        a, b = x.chunk(2, 1)
        both = left * self.scale - nn.functional.leaky_relu(right, 0.2) * 0.5 + (1 - a)
        both = torch.maximum(both.relu(), b.abs().sqrt()) / (1 + b**2)
        both = both + torch.sub(a, both, alpha=2).tanh() - (-both).exp().log1p()
        return both + both.erf() - (2 + both.cos()).reciprocal() + (3 + both.sin()).rsqrt()

    def recursive(self, x, children):
        none = (x.new_zeros(1, self.state_shapes["h"][0]),)
        h = self.cell(x, *[c[0] for c in [*children, none, none][:2]])
        return (h,), h.sigmoid() * 2


class Choosing(Wide):
    """Comparisons and what chooses by them, of children's states."""

    def cell(self, x, left, right):
        a, b = self.w(x).chunk(2, 1)
        both = torch.where(left > a, left * self.scale, right - b).clamp(-1, 2)
        both = both.masked_fill((right < 0.1) & ~(a == b), 0.5) + nn.functional.hardtanh(right + a)
        both = both * torch.where(left.abs() <= right.abs(), a, 1.0)
        return both + (both > 0) * b.tanh()


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("cls", [Wide, Choosing])
def test_element_wise_calls(cls, options):
    graphs = BATCHES["shared children"]
    with sv.options(**options):
        function, x = case(cls, graphs)
        assert_equal_to_recursion(function, graphs, x)


def test_element_wise_calls_are_made_together():
    function, x = case(Wide, [])
    graphs = [sv.tree(((), ()))]
    x = torch.zeros(3, 3, dtype=torch.float64)

    def calls(**options):
        with sv.options(**options):
            sv.run(function, graphs, x)
            with torch.profiler.profile() as profile:
                sv.run(function, graphs, x).outputs["out"].sum().backward()
        return [e.name for e in profile.events() if e.name.startswith(("aten::", "smex::"))]

    together, apart = calls(), calls(fuse=False)
    assert "smex::pointwise_into" in together
    assert not any(name.startswith("smex::pointwise") for name in apart)
    assert {"aten::tanh", "aten::erf", "aten::sqrt"} <= set(apart)
    assert not {"aten::tanh", "aten::erf", "aten::sqrt"} & set(together)


class Normed(sv.VertexFunction):
    """Layers whose gradients are several results, on states that are zeros at leaves."""

    def __init__(self, inputs, hidden):
        super().__init__(h=hidden)
        self.w = nn.Linear(inputs, hidden)
        self.first, self.both = nn.LayerNorm(hidden), nn.LayerNorm(2 * hidden)
        self.mix = nn.Linear(2 * hidden, hidden)
        for norm in (self.first, self.both):
            nn.init.normal_(norm.weight)
            nn.init.normal_(norm.bias)

    def forward(self):
        h = self.cell(self.pull(), self.gather(0).h, self.gather(1).h)
        self.scatter(h)
        self.push(h)

    def cell(self, x, left, right):
        beside = self.mix(self.both(torch.cat([left, right], 1)))
        return self.first(left) + self.first(right) * beside + self.w(x)

    def recursive(self, x, children):
        none = (x.new_zeros(1, self.state_shapes["h"][0]),)
        h = self.cell(x, *[c[0] for c in [*children, none, none][:2]])
        return (h,), h


class Attending(Normed):
    """Softmax over what is stacked before the rows."""

    def cell(self, x, left, right):
        keys = torch.stack([left, right, self.w(x)])
        found = (keys.softmax(0) * keys).sum(0)
        return found + (found.t().log_softmax(0).t() * left).tanh()


class OtherCells(Normed):
    """A cell that does not come from children, beside one that does."""

    def cell(self, x, left, right):
        x = self.w(x)
        gates = torch.cat([left, right, x, left * x, right * x], 1)
        h, c = sv.tree_lstm(gates, [left, x])
        again, _ = sv.lstm(gates[:, : 4 * x.shape[1]], x.tanh())
        return h + c + again


@pytest.mark.costly(cases=9)
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("cls", [Normed, Attending, OtherCells])
def test_layers(cls, options):
    for graphs in (BATCHES["shared children"], BATCHES["trees"], BATCHES["one vertex"]):
        function, x = case(cls, graphs)
        with sv.options(**options):
            assert_equal_to_recursion(function, graphs, x)


@pytest.mark.parametrize("cls", [Binary, Normed])
def test_first_run_in_a_checkpoint(cls):
    graphs = BATCHES["trees"]
    function, x = case(cls, graphs)

    def loss(x):
        return sv.run(function, graphs, x).outputs["out"].pow(2).sum()

    for _ in range(2):
        found = torch.autograd.grad(
            torch.utils.checkpoint.checkpoint(loss, x, use_reentrant=False), x
        )
    torch.testing.assert_close(found, torch.autograd.grad(loss(x), x))


def test_first_runs_in_several_threads():
    graphs = BATCHES["trees"]
    function, x = case(Binary, graphs)
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        jobs = [pool.submit(sv.run, function, graphs, x) for _ in range(3)]
    for job in jobs:
        assert torch.equal(job.result().states["h"], sv.run(function, graphs, x).states["h"])
    assert None not in function._traces.values()


def test_cells_under_autocast():
    graphs = BATCHES["trees"]
    function, x = case(Binary, graphs)
    function, x = function.float(), x.detach().float()
    exact = sv.run(function, graphs, x).states["h"]
    with torch.autocast("cpu", torch.bfloat16):
        found = sv.run(function, graphs, x)
        found.outputs["out"].float().sum().backward()
    assert found.states["h"].dtype == torch.float32
    assert function.w.weight.grad.abs().sum() > 0
    torch.testing.assert_close(found.states["h"], exact, rtol=0.05, atol=0.05)
    assert not torch.equal(found.states["h"], exact)


@pytest.mark.parametrize("options", [{}, {"trace": False}])
def test_states_are_widened_under_autocast(options):
    class Narrow(sv.VertexFunction):
        def __init__(self):
            super().__init__(h=8)
            self.l = nn.Linear(16, 8)

        def forward(self):
            self.scatter(self.l(torch.cat([self.pull(), self.gather(0).h], 1)))

    function, x = Narrow(), torch.randn(5, 8)
    with sv.options(**options):
        exact = sv.run(function, [sv.chain(5)], x).states["h"]
        with torch.autocast("cpu", torch.bfloat16):
            found = sv.run(function, [sv.chain(5)], x).states["h"]
        found.sum().backward()
        assert found.dtype == function.l.weight.grad.dtype == torch.float32
        torch.testing.assert_close(found, exact, rtol=0.05, atol=0.05)
        function.state_dtype = torch.bfloat16
        with pytest.raises(smex.SmexValueError, match="expected torch.bfloat16 as the type"):
            sv.run(function, [sv.chain(5)], x)


def test_zeros_that_leaves_gather_cost_no_products():
    function, x = case(Joined, [sv.tree(())] * 5)
    x = x.detach()
    sv.run(function, [sv.tree(())] * 5, x)  # which traces
    with torch.profiler.profile() as profile:
        sv.run(function, [sv.tree(())] * 5, x).outputs["out"].sum().backward()
    products = [e for e in profile.events() if e.name in ("aten::mm", "aten::addmm")]
    # w and score forward, and backward their gradients and that of h
    assert len(products) == 5
    assert torch.equal(function.u.weight.grad, torch.zeros_like(function.u.weight))
    assert torch.equal(function.u.bias.grad, function.w.bias.grad)
    assert function.u.bias.grad.data_ptr() != function.w.bias.grad.data_ptr()


@pytest.mark.parametrize("cls", [Binary, ChildSum])
def test_a_chain_of_1000(cls):
    graphs = [sv.chain(1000), sv.chain(20)]
    function, x = case(cls, graphs)
    assert_equal_to_recursion(function, graphs, x)


@pytest.mark.parametrize("cls", [Binary, ChildSum, Average, Stacked])
def test_inference_mode_spoils_nothing(cls):
    graphs = [star(3), sv.chain(2)] if cls is ChildSum else [sv.chain(3)]
    function, x = case(cls, graphs)
    with torch.inference_mode():
        sv.run(function, graphs, x).states["h"]
    assert_equal_to_recursion(function, graphs, x)


@pytest.mark.parametrize("cls", [Binary, ChildSum, Average, Stacked])
def test_these_functions_are_traced(cls, caplog):
    function, x = case(cls, [star(1)])
    with caplog.at_level("INFO", "smex.vertex"):
        sv.run(function, [star(1)], x)
    assert not caplog.records
    assert all(function._traces.values())


# ---- several types ----


class Word(sv.VertexFunction):
    arity = (0, 0)

    def __init__(self, hidden):
        super().__init__(h=hidden)
        self.table = nn.Embedding(10, hidden)

    def forward(self):
        h = self.table(self.pull())
        self.scatter(h)
        self.push(length=h.norm(dim=1, keepdim=True), word=h)


class Phrase(sv.VertexFunction):
    arity = (1, 3)

    def __init__(self, hidden):
        super().__init__(h=hidden)
        self.u = nn.Linear(3 * hidden, hidden)

    def forward(self):
        h = torch.tanh(self.u(torch.cat([self.gather(i).h for i in range(3)], 1)))
        self.scatter(h)
        self.push(length=h.norm(dim=1, keepdim=True))


def typed_case(device):
    torch.manual_seed(1)
    functions = nn.ModuleDict({"word": Word(4), "phrase": Phrase(4)}).double().to(device)
    nested = [((1, 2, 3), (4,), 5), (6, (7, 8)), 9]
    graphs = [sv.tree(t, lambda label, count: "phrase" if count else "word") for t in nested]
    words = [w for g in graphs for w in g.labels if w is not None]
    return functions, graphs, torch.tensor(words, device=device)


def typed_expected(functions, graphs):
    rows = []
    for graph in graphs:
        done = []
        for v in range(graph.num_vertices):
            children = [done[c] for c in graph.children_of(v)]
            if children:
                zero = torch.zeros_like(children[0])
                both = torch.cat([*children, zero, zero][:3], 1)
                done.append(torch.tanh(functions["phrase"].u(both)))
            else:
                table = functions["word"].table
                done.append(table(torch.tensor([graph.labels[v]], device=table.weight.device)))
        rows += done
    return torch.cat(rows)


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("by_type", [True, False])
def test_several_types(options, by_type, device):
    functions, graphs, words = typed_case(device)
    h = typed_expected(functions, graphs)
    is_word = torch.tensor([t == "word" for g in graphs for t in g.types], device=device)
    if by_type:
        inputs = {"word": words}
    else:
        inputs = words.new_zeros(len(is_word)).masked_scatter(is_word, words)
    with sv.options(**options):
        result = sv.run(functions, graphs, inputs)
        torch.testing.assert_close(result.states["h"], h)
        torch.testing.assert_close(result.outputs["length"], h.norm(dim=1, keepdim=True))
        torch.testing.assert_close(result.outputs["word"], h * is_word[:, None])
        wanted = list(functions.parameters())
        loss = (result.roots.states["h"] ** 2).sum() + result.outputs["length"].sum()
        roots = torch.tensor([7, 12, 13])
        assert result.root_vertices.tolist() == roots.tolist()
        other = (h[roots] ** 2).sum() + h.norm(dim=1).sum()
        for one, two in zip(torch.autograd.grad(loss, wanted), torch.autograd.grad(other, wanted)):
            torch.testing.assert_close(one, two)


# ---- any torch code ----


class Odd(sv.VertexFunction):
    """What cannot be looked into: it asks for values."""

    def __init__(self, inputs, hidden):
        super().__init__(h=hidden)
        self.w = nn.Linear(inputs, hidden)

    def forward(self):
        h = self.w(self.pull()) + self.gather(0).h - 0.5 * self.gather(1).h
        if float(h.detach().sum()) == float("inf"):
            h = h * 0
        self.scatter(h)
        self.push(h)

    def recursive(self, x, children):
        left, right, *_ = [*(c[0] for c in children), 0, 0]
        h = self.w(x) + left - 0.5 * right
        return (h,), h


class Counts(Odd):
    """It asks for the number of rows."""

    def forward(self):
        h = self.w(self.pull()) + self.gather(0).h - 0.5 * self.gather(1).h
        if h.shape[0] > 5:
            h = h.clone()
        self.scatter(h)
        self.push(h)


class InPlace(Odd):
    """It changes tensors, its own and one that it looks at through a view."""

    def forward(self):
        h = self.w(self.pull())
        h += self.gather(0).h
        h[:, :2] -= 0.5 * self.gather(1).h[:, :2]
        h[:, 2:] -= 0.5 * self.gather(1).h[:, 2:]
        self.scatter(h)
        self.push(h)


@pytest.mark.parametrize("cls", [Odd, Counts, InPlace])
def test_code_that_cannot_be_traced(cls, caplog):
    graphs = [random_graph(20, 2, 5), sv.chain(4)]
    function, x = case(cls, graphs)
    with caplog.at_level("INFO", "smex.vertex"):
        assert_equal_to_recursion(function, graphs, x)
    assert "is called for each task" in caplog.text


class Scaled(Odd):
    """Operators of all kinds in one function."""

    def __init__(self, inputs, hidden):
        super().__init__(inputs, hidden)
        self.norm = nn.LayerNorm(hidden)
        self.mixing = nn.Parameter(torch.randn(2, hidden, hidden) / hidden)
        self.scale = nn.Parameter(torch.tensor(0.7))

    def combine(self, x, left, right):
        both = torch.stack([left, right])
        mixed = torch.einsum("kni,kij->nj", both, self.mixing)
        share = torch.softmax(torch.stack([left, right], 1).sum(2), 1)
        h = self.norm(self.w(x)) + self.scale * mixed + share[:, :1] * left
        return torch.nn.functional.gelu(h) * self.scale.exp()

    def forward(self):
        h = self.combine(self.pull(), self.gather(0).h, self.gather(1).h)
        self.scatter(h)
        self.push(h.cumsum(1))

    def recursive(self, x, children):
        zero = x.new_zeros(1, 4)
        left, right, *_ = [*(c[0] for c in children), zero, zero]
        h = self.combine(x, left, right)
        return (h,), h.cumsum(1)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_operators_of_all_kinds(options, device):
    graphs = BATCHES["shared children"]
    function, x = case(Scaled, graphs, device=device)
    with sv.options(**options):
        assert_equal_to_recursion(function, graphs, x)


class RowNormalised(Odd):
    """It mixes rows: the mean over a task is not that over the batch."""

    def forward(self):
        h = self.w(self.pull()) + self.gather(0).h
        h = h - h.mean(0, keepdim=True)
        self.scatter(h)


def test_code_that_mixes_rows_is_never_run_for_other_rows_than_its_tasks():
    graphs = [sv.chain(3), sv.chain(2)]
    function, x = case(RowNormalised, graphs)
    with pytest.warns(smex.MixedRowsWarning):
        traced = sv.run(function, graphs, x).states["h"]
    with sv.options(trace=False):
        torch.testing.assert_close(traced, sv.run(function, graphs, x).states["h"])


class Dropped(Odd):
    def forward(self):
        x = nn.functional.dropout(self.pull(), 0.5, self.training)
        self.scatter(self.w(x) + nn.functional.dropout(self.gather(0).h, 0.5, self.training))


def test_dropout_follows_train_and_eval():
    graphs = [sv.chain(6), sv.chain(3)]
    function, x = case(Dropped, graphs)
    torch.manual_seed(3)
    first = sv.run(function, graphs, x).states["h"]
    torch.manual_seed(3)
    assert torch.equal(first, sv.run(function, graphs, x).states["h"])
    assert not torch.equal(first, sv.run(function, graphs, x).states["h"])
    function.eval()
    one = sv.run(function, graphs, x).states["h"]
    assert torch.equal(one, sv.run(function, graphs, x).states["h"])


class TwoNames(sv.VertexFunction):
    """One value as two states, an input as a state, and outputs that share memory with them."""

    def __init__(self):
        super().__init__(a=2, b=2, x=2)

    def forward(self):
        x = self.pull()
        a = x * 2 + self.gather(0).b
        self.scatter(a=a, b=a, x=x)
        self.push(a=a, x=x, again=a)


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_one_value_under_several_names(options):
    x = torch.randn(5, 2, dtype=torch.float64, requires_grad=True)
    with sv.options(**options):
        result = sv.run(TwoNames(), [sv.chain(3), sv.chain(2)], x)
        a = torch.stack([2 * x[0], 2 * x[:2].sum(0), 2 * x[:3].sum(0), 2 * x[3], 2 * x[3:].sum(0)])
        for name in ("a", "b"):
            torch.testing.assert_close(result.states[name], a)
        torch.testing.assert_close(result.outputs["again"], a)
        torch.testing.assert_close(result.outputs["x"], x)
        torch.testing.assert_close(result.states["x"], x)
        total = sum((v**2).sum() for v in [*result.states.values(), *result.outputs.values()])
        (found,) = torch.autograd.grad(total, x)
        (wanted,) = torch.autograd.grad(4 * (a**2).sum() + 2 * (x**2).sum(), x)
        torch.testing.assert_close(found, wanted)


# ---- autograd ----


@pytest.mark.parametrize("options", [{}, {"trace": False}], ids=["traced", "called"])
@pytest.mark.parametrize("cls", [Binary, ChildSum])
def test_gradcheck(cls, options):
    graphs = [random_graph(6, 2, 2), sv.tree(((), ()))]
    function, x = case(cls, graphs)

    def run(x, *params):
        with sv.options(**options):
            result = torch.func.functional_call(_Runs(function, graphs), names(params), (x,))
        return result

    def names(params):
        return {f"function.{n}": p for (n, _), p in zip(function.named_parameters(), params)}

    assert torch.autograd.gradcheck(run, (x, *function.parameters()))


class _Runs(nn.Module):
    def __init__(self, function, graphs):
        super().__init__()
        self.function, self.graphs = function, graphs

    def forward(self, x):
        result = sv.run(self.function, self.graphs, x)
        return result.roots.states["h"], result.outputs["out"]


def test_without_gradients_nothing_is_kept():
    graphs = [random_graph(20, 2, 1)]
    function, x = case(Binary, graphs)
    with torch.no_grad():
        result = sv.run(function, graphs, x)
    assert not result.states["h"].requires_grad
    torch.testing.assert_close(result.states["h"], sv.run(function, graphs, x).states["h"].detach())


def test_frozen_parameters_get_no_gradient():
    graphs = [random_graph(20, 2, 1)]
    function, x = case(Binary, graphs)
    function.w.requires_grad_(False)
    assert_equal_to_recursion_of(function, graphs, x)
    sv.run(function, graphs, x.detach()).states["h"].sum().backward()
    assert function.w.weight.grad is None
    assert function.left.weight.grad is not None


def assert_equal_to_recursion_of(function, graphs, x):
    states, output = expected(function, graphs, x)
    result = sv.run(function, graphs, x)
    wanted = [p for p in function.parameters() if p.requires_grad]
    found = [result.states["h"], result.states["c"]]
    one = torch.autograd.grad(loss_of(found, result.outputs["out"]), wanted)
    two = torch.autograd.grad(loss_of(states, output), wanted)
    for a, b in zip(one, two):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("options", [{}, {"trace": False}], ids=["traced", "called"])
def test_backward_again_only_with_the_graph_retained(options):
    function, x = case(Binary, [sv.chain(3)])
    with sv.options(**options):
        total = sv.run(function, [sv.chain(3)], x).states["h"].sum()
    total.backward(retain_graph=True)
    once = function.left.weight.grad.clone()
    total.backward()
    torch.testing.assert_close(function.left.weight.grad, 2 * once)
    with pytest.raises(RuntimeError, match="a second time"):
        total.backward()


def test_parameters_changed_in_place_before_backward_are_refused():
    function, x = case(Binary, [sv.chain(3)])
    total = sv.run(function, [sv.chain(3)], x).states["h"].sum()
    with torch.no_grad():
        function.left.weight.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        total.backward()


def test_training_steps_see_new_parameters():
    graphs = [random_graph(12, 2, 4)]
    function, x = case(Binary, graphs)
    optimiser = torch.optim.SGD(function.parameters(), lr=0.1)
    losses = []
    for _ in range(5):
        optimiser.zero_grad()
        loss = (sv.run(function, graphs, x).outputs["out"] ** 2).mean()
        loss.backward()
        optimiser.step()
        losses.append(float(loss.detach()))
    assert losses == sorted(losses, reverse=True)
    assert len(function._traces) == 2  # leaves and inner vertices, each traced once


# ---- the batch ----


def test_a_result_tells_its_shapes_and_makes_nothing_for_that():
    class Two(sv.VertexFunction):
        def __init__(self):
            super().__init__(h=(2, 3))

        def forward(self):
            h = self.gather_sum().h + self.pull().unsqueeze(1)
            self.scatter(h)
            self.push(h.sum((1, 2)))

    result = sv.run(Two(), [sv.chain(3), sv.chain(2)], torch.ones(5, 3))
    assert repr(result) == (
        "Result(states=Values(h: [5, 2, 3]), outputs=Values(out: [5]), num_tasks=3)"
    )
    assert repr(result.roots.states) == "Values(h: [2, 2, 3])"
    assert not result.states._made and not result.outputs._made
    assert list(result.states["h"].shape) == [5, 2, 3]


@pytest.mark.parametrize("graphs", [[], [sv.chain(0), sv.chain(0)]])
def test_an_empty_batch(graphs):
    function, x = case(Binary, graphs)
    result = sv.run(function, graphs, x)
    assert result.states["h"].shape == (0, 4)
    assert result.outputs["out"].shape == (0, 3)
    assert result.num_tasks == 0
    result.outputs["out"].sum().backward()


@pytest.mark.parametrize("options", [{}, {"trace": False}])
def test_results_are_deterministic(options):
    graphs = [random_graph(60, 5, 8), star(50)]
    function, x = case(ChildSum, graphs)
    function, x = function.float(), x.detach().float().requires_grad_()

    def once():
        with sv.options(**options):
            result = sv.run(function, graphs, x)
            loss = loss_of(list(result.states.values()), result.outputs["out"])
            return [loss, *torch.autograd.grad(loss, [x, *function.parameters()])]

    for one, other in zip(once(), once()):
        assert torch.equal(one, other)


def test_calls_grow_with_depth_and_not_with_vertices():
    function, _ = case(Binary, [])

    def calls(graphs):
        x = torch.zeros(sum(g.num_vertices for g in graphs), 3, dtype=torch.float64)
        batch = sv.batch(graphs)
        sv.run(function, batch, x)
        with torch.profiler.profile() as profile:
            sv.run(function, batch, x).outputs["out"].sum().backward()
        return sum(e.count for e in profile.key_averages() if e.key.startswith(("aten", "smex")))

    def tree(depth):
        return () if depth == 0 else (tree(depth - 1), tree(depth - 1))

    few, many, deep = (calls([sv.tree(tree(d))] * n) for d, n in ((4, 1), (4, 50), (8, 1)))
    assert many == few
    assert deep > few


def test_copies_are_not_traced_anew(monkeypatch):
    graphs = [sv.chain(3)]
    function, x = case(Binary, graphs)
    wanted = sv.run(function, graphs, x).states["h"]
    made = []
    original = run_module.trace
    monkeypatch.setattr(run_module, "trace", lambda *args: made.append(0) or original(*args))
    other = copy.deepcopy(function)
    assert torch.equal(sv.run(other, graphs, x).states["h"], wanted) and not made
    again = copy.deepcopy(other)
    with torch.no_grad():
        again.w.weight.zero_()
    assert not torch.equal(sv.run(again, graphs, x).states["h"], wanted) and not made
    changed = copy.deepcopy(function)
    changed.w = nn.Sequential(changed.w, nn.ReLU())  # another module
    sv.run(changed, graphs, x)
    assert made


def test_a_copy_with_another_constant_is_traced():
    class Scaled(sv.VertexFunction):
        def __init__(self):
            super().__init__(h=2)
            self.scale, self.kept = 2.0, {"by": [3]}

        def forward(self):
            self.scatter(self.scale * self.kept["by"][0] * self.pull())

    function, graphs, x = Scaled(), [sv.chain(1)], torch.ones(1, 2)
    assert sv.run(function, graphs, x).states["h"].tolist() == [[6, 6]]
    other, third = copy.deepcopy(function), copy.deepcopy(function)
    other.scale = 5.0
    third.kept["by"][0] = 1
    assert sv.run(other, graphs, x).states["h"].tolist() == [[15, 15]]
    assert sv.run(third, graphs, x).states["h"].tolist() == [[2, 2]]
    assert sv.run(function, graphs, x).states["h"].tolist() == [[6, 6]]
    third.retrace()
    third.scale = 1.0
    assert sv.run(third, graphs, x).states["h"].tolist() == [[1, 1]]


def test_copies_and_pickles_of_a_function():
    graphs = [sv.chain(3)]
    function, x = case(Binary, graphs)
    wanted = sv.run(function, graphs, x).states["h"]
    for other in (copy.deepcopy(function), pickle.loads(pickle.dumps(function))):
        assert not other._traces
        assert torch.equal(sv.run(other, graphs, x).states["h"], wanted)
