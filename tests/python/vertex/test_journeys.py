"""What happens to a vertex function between its first batch and its last."""

import copy
import pickle
import warnings

import pytest
import torch
from torch import nn

import smex
import smex.vertex as sv
from support.vertex_functions import Binary, expected, loss_of

OPTIONS = {"traced": {}, "called": {"trace": False}, "not lazy": {"lazy": False, "hoist": False}}


class Word(sv.VertexFunction):
    arity = (0, 0)

    def __init__(self, hidden):
        super().__init__(h=hidden)
        self.table = nn.Embedding(10, hidden)

    def forward(self):
        h = self.table(self.pull())
        self.scatter(h)
        self.push(word=h, norm=h.norm(dim=1, keepdim=True), length=h.sum(1))

    def recursive(self, x, children):
        return self.table(x)


class Phrase(sv.VertexFunction):
    arity = 2

    def __init__(self, hidden):
        super().__init__(h=hidden)
        self.u = nn.Linear(2 * hidden, hidden)

    def forward(self):
        h = torch.tanh(self.u(torch.cat([self.gather(0).h, self.gather(1).h], 1)))
        self.scatter(h)
        self.push(
            phrase=h * 2, length=h.sum(1), many=torch.stack([h, -h], 1), is_phrase=h[:, 0] > -9
        )

    def recursive(self, x, children):
        return torch.tanh(self.u(torch.cat(children, 1)))


class Looking(Phrase):
    """It cannot be traced, nor called on fakes."""

    def forward(self):
        assert float(self.gather(0).h.sum()) < 1e9
        super().forward()


def types(phrase=Phrase):
    torch.manual_seed(0)
    return nn.ModuleDict({"word": Word(4), "phrase": phrase(4)}).double()


def trees(*nested):
    return [sv.tree(n, lambda label, count: "phrase" if count else "word") for n in nested]


def words_of(graphs):
    return torch.tensor([w for g in graphs for w in g.labels if w is not None])


def states_of(functions, graphs):
    """The states vertex by vertex; children come before their parents."""
    rows = []
    for graph in graphs:
        done = []
        for v in range(graph.num_vertices):
            x = torch.tensor([graph.labels[v]]) if graph.labels[v] is not None else None
            children = [done[c] for c in graph.children_of(v)]
            done.append(functions["phrase" if children else "word"].recursive(x, children))
        rows += done
    return torch.cat(rows)


# ---- batches that lack a type ----


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("phrase", [Phrase, Looking])
def test_outputs_of_types_that_a_batch_lacks_are_zeros(phrase, options):
    functions, graphs = types(phrase), trees(1, 2, 5)
    with sv.options(**options):
        if phrase is Looking:  # seen once, or nothing is known of it
            full = trees((1, (2, 3)))
            sv.run(functions, full, {"word": words_of(full)})
        result = sv.run(functions, graphs, {"word": words_of(graphs)})
        h = states_of(functions, graphs)
        torch.testing.assert_close(result.states["h"], h)
        torch.testing.assert_close(result.outputs["length"], h.sum(1))
        for name, shape, dtype in (
            ("phrase", (4,), torch.float64),
            ("many", (2, 4), torch.float64),
            ("is_phrase", (), torch.bool),
        ):
            for values in (result.outputs, result.roots.outputs):
                assert values[name].shape == (3, *shape) and values[name].dtype == dtype
                assert not values[name].any()
        assert set(result.outputs) == {
            "word", "norm", "length", "phrase", "many", "is_phrase",
        }  # fmt: skip


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_a_loss_on_what_a_batch_lacks_has_gradients_of_zero(options):
    functions = types()
    optimiser = torch.optim.SGD(functions.parameters(), lr=0.1)
    before = copy.deepcopy(functions.state_dict())
    for nested in ((1, 2), (3,)):
        graphs = trees(*nested)
        with sv.options(**options):
            result = sv.run(functions, graphs, {"word": words_of(graphs)})
        optimiser.zero_grad()
        (result.outputs["phrase"] ** 2).sum().backward()
        optimiser.step()
    assert all(torch.equal(x, before[name]) for name, x in functions.state_dict().items())


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("graphs", [[], [sv.from_children([], [])], trees(1)[:0]])
def test_an_empty_batch_of_several_types(graphs, options):
    functions = types()
    with sv.options(**options):
        result = sv.run(functions, graphs, {"word": torch.zeros(0, dtype=torch.int64)})
    shapes = {name: list(x.shape) for name, x in result.outputs.items()}
    assert shapes == {
        "word": [0, 4], "norm": [0, 1], "length": [0], "phrase": [0, 4], "many": [0, 2, 4],
        "is_phrase": [0],
    }  # fmt: skip
    assert result.states["h"].shape == (0, 4)
    (result.outputs["word"].sum() + result.states["h"].sum()).backward()


def test_inputs_of_types_that_a_batch_lacks_may_be_left_out():
    class Named(sv.VertexFunction):
        arity = (0, 0)

        def __init__(self):
            super().__init__(h=4)

        def forward(self):
            self.scatter(self.pull())
            self.push(name=self.pull())

    functions = {"word": Word(4).double(), "name": Named()}
    graph = sv.from_children([[], []], ["word", "word"])
    result = sv.run(functions, [graph], {"word": torch.tensor([1, 2])})
    assert result.outputs["word"].shape == (2, 4)
    with pytest.raises(smex.SmexKeyError, match="no output 'name'; there are 'word', 'norm'"):
        result.outputs["name"]
    both = sv.from_children([[], []], ["word", "name"])
    given = {"word": torch.tensor([1]), "name": torch.ones(1, 4, dtype=torch.float64)}
    assert sv.run(functions, [both], given).outputs["name"].shape == (2, 4)


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_batches_of_changing_types_train_as_vertex_by_vertex(options):
    batches = [(1, 2), ((1, 2), 3), ((4, (5, 6)), (7, 8)), (9,), ((1, (2, (3, 4))),)]
    functions, other = types(), types()
    one, two = (torch.optim.SGD(f.parameters(), lr=0.1) for f in (functions, other))
    with sv.options(**options):
        for nested in batches * 2:
            graphs = trees(*nested)
            functions.train()
            result = sv.run(functions, graphs, {"word": words_of(graphs)})
            is_phrase = result.outputs["is_phrase"]
            loss = (result.outputs["phrase"] ** 2).sum() + result.outputs["length"].sum()
            h = states_of(other, graphs)
            wanted = (4 * h[is_phrase] ** 2).sum() + h.sum()
            torch.testing.assert_close(loss, wanted)
            for optimiser, total in ((one, loss), (two, wanted)):
                optimiser.zero_grad()
                total.backward()
                optimiser.step()
            functions.eval()
            with torch.no_grad():
                h = sv.run(functions, graphs, {"word": words_of(graphs)}).states["h"]
                torch.testing.assert_close(h, states_of(other, graphs))
    for a, b in zip(functions.parameters(), other.parameters()):
        torch.testing.assert_close(a, b)


# ---- states that are never set ----


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_states_of_types_that_set_none_are_zeros(options):
    class Silent(sv.VertexFunction):
        def __init__(self):
            super().__init__(h=4)

        def forward(self):
            self.push(x=self.pull() * 2)

    class Sum(sv.VertexFunction):
        def __init__(self):
            super().__init__(h=4)

        def forward(self):
            self.scatter(self.pull() + self.gather_sum().h)

    graph = sv.from_children([[], [], [0, 1], [2]], ["silent", "silent", "sum", "sum"])
    garbage = [torch.full((5, 4), 7.0, dtype=torch.float64) for _ in range(20)]
    del garbage
    x = torch.randn(4, 4, dtype=torch.float64, requires_grad=True)
    with sv.options(**options):
        result = sv.run({"silent": Silent(), "sum": Sum()}, [graph], x)
        assert result.states["h"][:2].abs().sum() == 0
        torch.testing.assert_close(result.states["h"][2:], torch.stack([x[2], x[2] + x[3]]))
        (result.states["h"].sum() + result.outputs["x"].sum()).backward()
    torch.testing.assert_close(x.grad, torch.tensor([[2.0], [2], [2], [1]]).double().expand(4, 4))


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_states_called_as_methods_of_mappings(options):
    class Named(sv.VertexFunction):
        def __init__(self):
            super().__init__(values=2, items=2, get=2)

        def forward(self):
            child = self.gather(0)
            assert set(child) == {"values", "items", "get"} and len(child) == 3
            self.scatter(
                values=self.pull() + child.values, items=child.items + 1, get=2 * child["get"] + 1
            )

    with sv.options(**options):
        states = sv.run(Named(), [sv.chain(3)], torch.ones(3, 2)).states
    assert {n: x[:, 0].tolist() for n, x in states.items()} == {
        "values": [1, 2, 3], "items": [1, 2, 3], "get": [1, 3, 7],
    }  # fmt: skip


# ---- from training to evaluation and back ----


def graphs_of(seed):
    generator = torch.Generator().manual_seed(seed)

    def tree(depth):
        if depth == 0 or torch.rand((), generator=generator) < 0.2:
            return 0
        return (tree(depth - 1), tree(depth - 1))

    return [sv.tree(tree(3)) for _ in range(1 + seed % 3)]


def inputs_of(graphs, seed, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    rows = sum(g.num_vertices for g in graphs)
    return torch.randn(rows, 3, generator=generator, dtype=torch.float64).to(dtype)


def compare(function, graphs, x, with_gradients=True):
    states, output = expected(function, graphs, x)
    result = sv.run(function, graphs, x)
    for name, state in zip(("h", "c"), states):
        torch.testing.assert_close(result.states[name], state)
    torch.testing.assert_close(result.outputs["out"], output)
    if with_gradients:
        wanted = [p for p in function.parameters() if p.requires_grad]
        ours = loss_of(list(result.states.values()), result.outputs["out"])
        own = torch.autograd.grad(ours, wanted)
        grads = torch.autograd.grad(loss_of(states, output), wanted)
        for a, b in zip(own, grads):
            torch.testing.assert_close(a, b)


def new():
    torch.manual_seed(2)
    return Binary(3, 4).double()


def test_train_eval_train():
    function = new()
    for seed in range(6):
        graphs = graphs_of(seed)
        x = inputs_of(graphs, seed)
        compare(function.train(), graphs, x)
        function.eval()
        with torch.no_grad():
            compare(function, graphs, x, with_gradients=False)
        with torch.inference_mode():
            compare(function, graphs, x, with_gradients=False)
        compare(function, graphs, x)
        with torch.no_grad():
            for parameter in function.parameters():
                parameter.mul_(0.9)


def test_copies_and_loaded_states():
    function, other = new(), Binary(3, 4).double()
    graphs = graphs_of(2)
    x = inputs_of(graphs, 2)
    compare(function, graphs, x)
    compare(other, graphs, x)
    other.load_state_dict(function.state_dict())
    assert torch.equal(*(sv.run(f, graphs, x).outputs["out"] for f in (function, other)))
    for copied in (copy.deepcopy(function), pickle.loads(pickle.dumps(function))):
        with torch.no_grad():
            copied.w.weight.zero_()
        compare(copied, graphs, x)
    assert set(function.state_dict()) == {name for name, _ in function.named_parameters()}
    assert torch.equal(*(sv.run(f, graphs, x).outputs["out"] for f in (function, other)))
    other.load_state_dict({n: p * 2 for n, p in function.state_dict().items()}, assign=True)
    compare(other.requires_grad_(), graphs, x)


def test_precision_changes():
    function, graphs = new(), graphs_of(5)
    compare(function, graphs, inputs_of(graphs, 5))
    wanted = sv.run(function, graphs, inputs_of(graphs, 5)).outputs["out"]
    single = sv.run(function.float(), graphs, inputs_of(graphs, 5, torch.float32)).outputs["out"]
    assert single.dtype == torch.float32
    torch.testing.assert_close(single.double(), wanted, rtol=1e-4, atol=1e-5)
    compare(function.double(), graphs, inputs_of(graphs, 5))
    with pytest.raises(RuntimeError, match=r"Binary: forward failed.*'x' \[\d+, 3\]"):
        sv.run(function, graphs, inputs_of(graphs, 5, torch.float32))


def test_a_batch_of_one_vertex_after_large_ones():
    function = new()
    for graphs in (graphs_of(5), [sv.chain(1)], [], [sv.chain(0), sv.chain(1)], graphs_of(1)):
        x = inputs_of(graphs, 7)
        result = sv.run(function, graphs, x)
        assert result.outputs["out"].shape == (len(x), 3)
        if len(x):
            compare(function, graphs, x)


def test_frozen_and_thawed():
    function, graphs = new(), graphs_of(5)
    x = inputs_of(graphs, 5)
    for is_frozen in (False, True, False):
        function.left.requires_grad_(not is_frozen)
        compare(function, graphs, x)
    function.requires_grad_(False)
    assert not sv.run(function, graphs, x).outputs["out"].requires_grad
    compare(function.requires_grad_(), graphs, x)


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_two_functions_that_share_parameters(options):
    class Leaf(Phrase):
        arity = (0, 0)

        def forward(self):
            self.scatter(torch.tanh(self.u(self.pull())))

        def recursive(self, x, children):
            return torch.tanh(self.u(x))

    torch.manual_seed(0)
    functions = nn.ModuleDict({"leaf": Leaf(4), "pair": Phrase(4)}).double()
    functions["leaf"].u = functions["pair"].u
    graph = sv.tree(((1, 2), (3, 4)), lambda label, count: "pair" if count else "leaf")
    x = torch.randn(4, 8, dtype=torch.float64, requires_grad=True)
    leaves = iter(x)
    done = []
    for v in range(graph.num_vertices):
        children = [done[c] for c in graph.children_of(v)]
        row = None if children else next(leaves)[None]
        done.append(functions["pair" if children else "leaf"].recursive(row, children))
    h = torch.cat(done)
    wanted = [x, *functions.parameters()]
    assert len(wanted) == 3
    with sv.options(**options):
        found = sv.run(functions, [graph], {"leaf": x}).states["h"]
        torch.testing.assert_close(found, h)
        own = torch.autograd.grad((found**2).sum(), wanted)
    for a, b in zip(own, torch.autograd.grad((h**2).sum(), wanted)):
        torch.testing.assert_close(a, b)


def test_results_asked_for_later():
    """Outputs are put in order when they are asked for, in any mode, and not again."""
    function, graphs = new(), graphs_of(5)
    x = inputs_of(graphs, 5)
    result, other = sv.run(function, graphs, x), sv.run(function, graphs, x)
    other.states["h"].sum().backward()
    with torch.no_grad():
        out = result.outputs["out"]
    assert out.requires_grad and result.outputs["out"] is out
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (out.sum() + result.roots.outputs["out"].sum()).backward()


def test_a_first_run_inside_of_what_is_compiled():
    """Compiled code stops at the run, and goes on behind it."""
    function, graphs = new(), graphs_of(4)
    x = inputs_of(graphs, 4).requires_grad_()
    _, output = expected(function, graphs, x)
    torch._dynamo.reset()
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="Dynamo does not know")
        found = torch.compile(lambda x: sv.run(function, graphs, x * 1).outputs["out"] * 2)(x)
    torch.testing.assert_close(found, output * 2)
    (grad,) = torch.autograd.grad(found.sum(), x)
    torch.testing.assert_close(grad, torch.autograd.grad(2 * output.sum(), x)[0])


class Twice(sv.VertexFunction):
    """One linear layer at two places, behind a normalisation."""

    def __init__(self):
        super().__init__(h=4)
        self.norm, self.first = nn.LayerNorm(4), nn.Linear(4, 4)
        self.layers = nn.ModuleList([self.first, nn.Linear(4, 4), self.first])
        self.scale = 1.0

    def forward(self):
        self.scatter(self.step(self.pull(), self.gather(0).h))

    def step(self, x, h):
        h = self.norm(x + self.scale * h)
        for layer in self.layers:
            h = torch.tanh(layer(h))
        return h

    def of_chain(self, x):
        """Reference: one vertex after the other."""
        h = torch.zeros_like(x[:1])
        for row in x.split(1):
            h = self.step(row, h)
        return h


def equal_steps(function, graphs, x):
    """Compares the last state and all gradients with those of torch."""
    found = sv.run(function, graphs, x).roots.states["h"]
    wanted = function.of_chain(x)
    torch.testing.assert_close(found, wanted, rtol=1e-10, atol=1e-10)
    parameters = list(function.parameters())
    own, others = (torch.autograd.grad(h.square().sum(), parameters) for h in (found, wanted))
    for one, other in zip(own, others, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_a_module_at_two_places(options):
    torch.manual_seed(0)
    function, graphs = Twice().double(), [sv.chain(5)]
    before = dict(function.named_parameters(remove_duplicate=False))
    x = torch.randn(5, 4, dtype=torch.float64)
    with sv.options(**options):
        for _ in range(2):
            equal_steps(function, graphs, x)
            after = dict(function.named_parameters(remove_duplicate=False))
            assert all(after[name] is parameter for name, parameter in before.items())


def test_numbers_and_hooks_that_change_are_followed():
    torch.manual_seed(0)
    function, graphs = Twice().double(), [sv.chain(5)]
    x = torch.randn(5, 4, dtype=torch.float64)
    for scale in (1.0, 0.5, 1.0, 0, True):
        function.scale = scale
        equal_steps(function, graphs, x)
    assert len(function._former) == 3
    handle = function.norm.register_forward_hook(lambda module, given, out: 2 * out)
    equal_steps(function, graphs, x)
    handle.remove()
    equal_steps(function, graphs, x)
    copied = copy.deepcopy(function)
    copied.scale = 0.25
    equal_steps(copied, graphs, x)
    equal_steps(function, graphs, x)


def test_a_number_that_changes_in_each_step_is_told_of_once():
    function, graphs, x = Twice(), [sv.chain(2)], torch.randn(2, 4)
    with torch.no_grad(), warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for step in range(12):
            function.scale = step / 10
            torch.testing.assert_close(
                sv.run(function, graphs, x).roots.states["h"], function.of_chain(x)
            )
    texts = [str(warning.message) for warning in told if "changes often" in str(warning.message)]
    assert len(texts) == 1 and "let it be a tensor" in texts[0]
    assert len(function._former) <= 8
