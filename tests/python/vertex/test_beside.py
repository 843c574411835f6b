"""Tasks of different types that are ready together, on several threads."""

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

import smex.vertex as sv
from smex.errors import SmexIndexError

INPUTS, HIDDEN, LENGTHS = 3, 200, (5, 1, 8, 3)  # wide enough for a thread each


class Direction(sv.VertexFunction):
    """A step of one direction over a sentence; both directions meet in the last vertex."""

    def __init__(self):
        super().__init__(h=HIDDEN)
        self.x, self.u = nn.Linear(INPUTS, HIDDEN), nn.Linear(HIDDEN, HIDDEN)

    def forward(self):
        self.scatter(torch.tanh(self.x(self.pull()) + self.u(self.gather(0).h)))


class Both(sv.VertexFunction):
    arity = 2

    def __init__(self):
        super().__init__(h=HIDDEN)
        self.u = nn.Linear(2 * HIDDEN, HIDDEN)

    def forward(self):
        both = self.of(self.gather(0).h, self.gather(1).h)
        self.scatter(both)

    def of(self, onward, backward):
        return self.u(torch.cat([onward, backward], 1))


class Looking(Both):
    """It is called for each task, as it looks at values."""

    def forward(self):
        assert float(self.gather(0).h.sum()) < 1e9
        super().forward()


class Dropping(Direction):
    def forward(self):
        dropped = nn.functional.dropout(self.u(self.gather(0).h), 0.5)
        self.scatter(torch.tanh(self.x(self.pull()) + dropped))


class Picking(Direction):
    """Fails where a state is no row of its table."""

    def forward(self):
        row = self.gather(0).h[:, 0].abs().long() + int(1e6)
        self.scatter(self.x(self.pull()) + nn.functional.embedding(row, self.u.weight))


def sentence(length):
    """Vertices forward, vertices backward, and one that has the last of both as children."""
    children = [[v - 1] if v else [] for v in range(length)]
    children += [[length + v - 1] if v else [] for v in range(length)]
    types = ["onward"] * length + ["backward"] * length + ["both"]
    return sv.from_children([*children, [length - 1, 2 * length - 1]], types=types)


GRAPHS = [sentence(n) for n in LENGTHS]
VERTICES = sum(2 * n + 1 for n in LENGTHS)


def case(**others):
    torch.manual_seed(0)
    functions = {"onward": Direction(), "backward": Direction(), "both": Both(), **others}
    return nn.ModuleDict(functions).double(), torch.randn(VERTICES, INPUTS, dtype=torch.float64)


def expected(functions, x):
    states = []
    for graph in GRAPHS:
        first = len(states)
        for v, kind in enumerate(graph.types):
            children = [states[first + int(c)] for c in graph.children_of(v)]
            one = functions[kind]
            if kind == "both":
                states.append(one.of(*children))
            else:
                own = children[0] if children else x.new_zeros(1, HIDDEN)
                states.append(torch.tanh(one.x(x[[first + v]]) + one.u(own)))
    return torch.cat(states)


@pytest.fixture
def threads():
    """Sets the number of threads until the test is over."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def threads_of_products(run):
    """The threads that multiplied matrices in a run."""
    with torch.profiler.profile() as profile:
        run()
    return {e.thread for e in profile.events() if e.name.startswith("aten::addmm")}


@pytest.mark.parametrize("both", [Both, Looking])
@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize(
    "options", [{}, {"lazy": False}, {"hoist": False, "lazy": False}, {"policy": "depth"}]
)
def test_both_directions_give_what_the_recursion_gives(threads, count, options, both):
    functions, x = case(both=both())
    threads(count)
    wanted = [x.requires_grad_(), *functions.parameters()]
    states = expected(functions, x)
    grads = torch.autograd.grad(states.square().sum(), wanted)
    with sv.options(**options):
        for _ in range(3):
            found = sv.run(functions, GRAPHS, x).states["h"]
            torch.testing.assert_close(found, states)
            for one, two in zip(torch.autograd.grad(found.square().sum(), wanted), grads):
                torch.testing.assert_close(one, two)


@pytest.mark.parametrize("both", [Both, Looking])
def test_directions_run_on_threads_of_their_own(threads, both):
    functions, x = case(both=both())

    def run():
        sv.run(functions, GRAPHS, x).states["h"].sum().backward()

    threads(2)
    run()
    assert len(threads_of_products(run)) == 2
    threads(1)
    assert len(threads_of_products(run)) == 1


def test_the_number_of_threads_changes_no_bit_of_small_tasks(threads):
    functions, x = case()
    found = []
    for count in (1, 2):
        threads(count)
        result = sv.run(functions, GRAPHS, x).states["h"]
        grads = torch.autograd.grad(result.square().sum(), list(functions.parameters()))
        found.append([result, *grads])
    for one, two in zip(*found):
        assert torch.equal(one, two)


def test_random_numbers_are_drawn_in_order(threads):
    functions, x = case(onward=Dropping(), backward=Dropping())
    threads(2)
    found = []
    for _ in range(20):
        torch.manual_seed(5)
        found.append(sv.run(functions, GRAPHS, x).states["h"].detach())
    assert all(torch.equal(found[0], other) for other in found)
    torch.manual_seed(6)
    assert not torch.equal(found[0], sv.run(functions, GRAPHS, x).states["h"])


@pytest.mark.parametrize("wrong", ["onward", "backward"])
def test_an_error_of_one_type_names_it(threads, wrong):
    functions, x = case(**{wrong: Picking()})
    threads(2)
    with pytest.raises(SmexIndexError, match=r"Picking: forward failed at test_beside.py:"):
        sv.run(functions, GRAPHS, x)
    functions, x = case()  # the threads are there for what comes next
    torch.testing.assert_close(sv.run(functions, GRAPHS, x).states["h"], expected(functions, x))


def test_modes_hold_on_all_threads(threads):
    functions, x = case()
    threads(2)
    states = expected(functions, x).detach()
    sv.run(functions, GRAPHS, x)
    with torch.inference_mode():
        found = sv.run(functions, GRAPHS, x).states["h"]
        torch.testing.assert_close(found, states)
        assert found.is_inference()
    with torch.no_grad():
        torch.testing.assert_close(sv.run(functions, GRAPHS, x).states["h"], states)
    sums = []
    for count in (1, 2):
        threads(count)
        with FlopCounterMode(display=False) as counter:
            torch.testing.assert_close(sv.run(functions, GRAPHS, x).states["h"], states)
        sums.append(counter.get_total_flops())
    assert sums[0] == sums[1] > 0


def test_autocast_holds_on_all_threads(threads):
    functions, x = case()
    functions, x = functions.float(), x.float()
    found = []
    for count in (1, 2):
        threads(count)
        with torch.autocast("cpu", torch.bfloat16):
            found.append(sv.run(functions, GRAPHS, x).states["h"])
    assert torch.equal(*found)
    assert not torch.equal(found[0], sv.run(functions, GRAPHS, x).states["h"])
