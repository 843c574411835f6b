"""Tensors that a vertex function reads and that are no parameter, buffer, input or state."""

import copy
import pathlib
import pickle
import re

import pytest
import torch
from torch import nn

import smex
import smex.vertex as sv

pytestmark = pytest.mark.costly

HERE = pathlib.Path(__file__).name
GLOBAL = torch.tensor([1.0, -2.0, 0.5, 3.0], dtype=torch.float64)
GRAPHS = [sv.tree(((1, 2), 3)), sv.chain(3)]
CHAINS = [sv.chain(5), sv.chain(3)]
ROWS = sum(g.num_vertices for g in GRAPHS)


class Cell(sv.VertexFunction):
    """A cell that reads a tensor from outside, and the same vertex by vertex."""

    def __init__(self, read, **attributes):
        super().__init__(h=4)
        self.w = nn.Linear(4, 4)
        self.read = read
        for name, value in attributes.items():
            setattr(self, name, value)

    def forward(self):
        self.scatter(self.combine(self.pull(), self.gather(0).h, self.gather(1).h))

    def combine(self, x, left, right):
        return torch.tanh(self.w(x) * self.read(self) + left - 0.5 * right)


def of_global(cell):
    return GLOBAL


def of_closure():
    held = torch.tensor([0.5, 0.25, 2.0, 1.0], dtype=torch.float64)
    return lambda cell: held


def expected(function, x):
    rows, first = [], 0
    for graph in GRAPHS:
        done = {}
        while len(done) < graph.num_vertices:
            for v in range(graph.num_vertices):
                children = graph.children_of(v)
                if v not in done and all(c in done for c in children):
                    none = [x.new_zeros(1, 4)] * 2
                    left, right = [*(done[c] for c in children), *none][:2]
                    done[v] = function.combine(x[first + v : first + v + 1], left, right)
        rows += [done[v] for v in range(graph.num_vertices)]
        first += graph.num_vertices
    return torch.cat(rows)


def check(function, x, options):
    """The states and gradients of the recursion vertex by vertex."""
    wanted = [x, *function.parameters()]
    h = expected(function, x)
    grads = torch.autograd.grad((h * h).sum(), wanted, allow_unused=True)
    with sv.options(**options):
        found = sv.run(function, GRAPHS, x).states["h"]
        torch.testing.assert_close(found, h)
        own = torch.autograd.grad((found * found).sum(), wanted, allow_unused=True)
    for one, other in zip(own, grads):
        torch.testing.assert_close(one, other)


def double(*numbers):
    return torch.tensor(numbers if len(numbers) > 1 else numbers[0], dtype=torch.float64)


READS = {
    "attribute": (lambda cell: cell.scale, {"scale": double(2.0)}),
    "row": (lambda cell: cell.scale, {"scale": double(2.0, 1.0, -1.0, 0.5)}),
    "one number of another type": (lambda cell: cell.scale, {"scale": torch.tensor(2)}),
    "list": (lambda cell: cell.scales[1], {"scales": [double(1.0), double(2.0)]}),
    "dict": (lambda cell: cell.scales["a"], {"scales": {"a": double(2.0)}}),
    "submodule": (lambda cell: cell.w.scale, {}),
    "column": (lambda cell: cell.scale.t()[0], {"scale": torch.eye(4, dtype=torch.float64).t() + 1}),
    "global": (of_global, {}),
    "closure": (of_closure(), {}),
    "made": (lambda cell: torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=torch.float64), {}),
    "number made": (lambda cell: torch.tensor(3.0), {}),
    "made of another": (lambda cell: torch.as_tensor(cell.scale), {"scale": double(2.0)}),
    "detached": (lambda cell: cell.scale.detach(), {"scale": double(2.0).requires_grad_()}),
    "matrix": (lambda cell: (cell.scale @ cell.w.weight)[0], {"scale": torch.eye(4, dtype=torch.float64)}),
}  # fmt: skip
OPTIONS = {"traced": {}, "called": {"trace": False}, "plain": {"hoist": False, "lazy": False}}


def make(read, attributes):
    torch.manual_seed(0)
    function = Cell(read, **attributes).double()
    function.w.scale = double(0.5)
    return function, torch.randn(ROWS, 4, dtype=torch.float64, requires_grad=True)


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize(("read", "attributes"), READS.values(), ids=READS)
def test_tensors_from_outside(read, attributes, options):
    function, x = make(read, attributes)
    check(function, x, options)
    check(function, x, options)
    if not options:
        assert all(function._traces.values())  # none of them makes it slow


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_changes_are_seen_in_the_next_run(options):
    function, x = make(lambda cell: cell.scale * cell.others[0], {"scale": double(2.0)})
    function.others = [double(1.0)]
    check(function, x, options)
    function.scale.mul_(3)  # in place
    check(function, x, options)
    function.scale = double(-1.0)  # another tensor
    check(function, x, options)
    function.others[0] = double(0.5, 1.0, 1.5, 2.0)  # of another shape
    check(function, x, options)
    function.scale = torch.tensor(2.0)  # of another type
    check(function, x, options)
    function.scale = 4.0  # no tensor any more
    check(function, x, options)


def test_copies_have_tensors_of_their_own():
    function, x = make(lambda cell: cell.scale, {"scale": double(2.0)})
    check(function, x, {})
    other = copy.deepcopy(function)
    other.scale.mul_(5)
    check(other, x, {})
    check(function, x, {})


def scale_of(cell):
    return cell.scale


def test_pickles_have_tensors_of_their_own():
    function, x = make(scale_of, {"scale": double(2.0)})
    check(function, x, {})
    other = pickle.loads(pickle.dumps(function))
    other.scale = double(7.0)
    check(other, x, {})
    check(function, x, {})


# ---- tensors that ask for a gradient ----


class Bare(sv.VertexFunction):
    """Without parameters."""

    def __init__(self, read, **attributes):
        super().__init__(h=4)
        self.read = read
        for name, value in attributes.items():
            setattr(self, name, value)

    def forward(self):
        self.scatter(self.pull() * self.read(self) + self.gather(0).h)


def asking():
    return double(2.0, 1.0, -1.0, 0.5).requires_grad_()


LOST = {
    "attribute": (lambda cell: cell.scale, lambda: {"scale": asking()}),
    "computed before": (lambda cell: cell.scale, lambda: {"scale": asking() * 2}),
    "list": (lambda cell: cell.scales[0], lambda: {"scales": [asking()]}),
    "module in a list": (lambda cell: cell.parts[0].weight, lambda: {"parts": [nn.Linear(4, 1).double()]}),
    "made": (lambda cell: torch.ones(4, dtype=torch.float64, requires_grad=True), dict),
    "made of numbers": (lambda cell: torch.tensor([1.0] * 4, dtype=torch.float64, requires_grad=True), dict),
}  # fmt: skip


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize(("read", "attributes"), LOST.values(), ids=LOST)
def test_gradients_that_would_be_lost_without_parameters(read, attributes, options):
    x = torch.ones(ROWS, 4, dtype=torch.float64)
    text = r"Bare: forward reads.* a tensor of shape \[(1, )?4\] that requires a gradient"
    with sv.options(**options):
        with pytest.raises(smex.SmexValueError, match=text):
            sv.run(Bare(read, **attributes()), CHAINS, x)
        with torch.no_grad():
            sv.run(Bare(read, **attributes()), CHAINS, x)


def test_the_line_that_reads_it_is_named():
    read = LOST["attribute"][0]

    class Reads(Bare):
        def forward(self):
            super().forward()

    with pytest.raises(smex.SmexValueError, match=re.escape(f"at {HERE}:")):
        sv.run(Reads(read, scale=asking()), CHAINS, torch.ones(ROWS, 4, dtype=torch.float64))


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_a_gradient_asked_for_later_is_an_error_too(options):
    function, x = make(lambda cell: cell.scale, {"scale": double(2.0)})
    with sv.options(**options):
        sv.run(function, GRAPHS, x)
        function.scale.requires_grad_()
        with pytest.raises(smex.SmexValueError, match="requires a gradient"):
            sv.run(function, GRAPHS, x)
        with torch.no_grad():
            sv.run(function, GRAPHS, x)


def test_an_outside_tensor_that_is_the_result():
    class Same(sv.VertexFunction):
        def __init__(self):
            super().__init__(h=4)
            self.value = torch.zeros(1, 4, requires_grad=True)

        def forward(self):
            self.scatter(self.value)

    with sv.options(trace=False), pytest.raises(smex.SmexValueError, match="requires a gradient"):
        sv.run(Same(), [sv.chain(1)], torch.ones(1, 4))


# ---- what forward sets ----


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_attributes_that_forward_sets_are_real(options):
    class Keeps(sv.VertexFunction):
        def __init__(self):
            super().__init__(h=4)
            self.seen, self.count = [], 0

        def forward(self):
            self.last = self.pull() + self.gather(0).h
            self.seen.append(self.last.detach())
            self.count += 1
            self.scatter(self.last)

    function = Keeps()
    x = torch.randn(3, 4)
    with sv.options(**options):
        h = sv.run(function, [sv.chain(3)], x).states["h"]
    assert type(function.last) is torch.Tensor and torch.equal(function.last[0], h[2])
    assert function.count == 3 and torch.equal(torch.cat(function.seen), h)


def test_what_the_first_call_keeps_for_the_next():
    class Caches(sv.VertexFunction):
        def __init__(self):
            super().__init__(h=4)
            self.table = None

        def forward(self):
            if self.table is None:
                self.table = torch.arange(4.0)
            self.scatter(self.pull() * self.table + self.gather(0).h)

    function = Caches()
    x = torch.randn(3, 4)
    wanted = (x * torch.arange(4.0)).cumsum(0)
    for _ in range(3):
        torch.testing.assert_close(sv.run(function, [sv.chain(3)], x).states["h"], wanted)
        assert type(function.table) is torch.Tensor
    programs = [one for key, one in function._traces.items() if key[0] in (True, False)]
    assert len(programs) == 2 and all(programs)  # traced once the table was there
