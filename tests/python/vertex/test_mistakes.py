"""What users get wrong, and what they are told."""

import inspect
import pathlib
import re
import sys

import pytest
import torch
from torch import nn

import smex
import smex.vertex as sv
from smex import SmexRuntimeError, SmexTypeError, SmexValueError


class Sum(sv.VertexFunction):
    def __init__(self):
        super().__init__(h=2)

    def forward(self):
        self.scatter(self.pull() + self.gather(0).h + self.gather(1).h)


class Pair(Sum):
    arity = 2


class Called(Sum):
    """It cannot be traced."""

    def forward(self):
        assert float(self.pull().sum()) < 1e9
        super().forward()


def doing(forward):
    class Doing(sv.VertexFunction):
        def __init__(self):
            super().__init__(h=2)

    Doing.forward = forward
    return Doing()


def run(graphs, function=None, inputs=None, rows=None):
    if inputs is None:
        inputs = torch.zeros(sum(g.num_vertices for g in graphs) if rows is None else rows, 2)
    return sv.run(function or Sum(), graphs, inputs)


def typed(*names):
    return sv.from_children([[] for _ in names], names)


TWO = sv.chain(2)
THREE_CHILDREN = sv.from_children([[], [], [], [0, 1, 2]])
VALUE = smex.SmexValueError
TYPE = smex.SmexTypeError
RUNTIME = smex.SmexRuntimeError
MISTAKES = {
    "cycle": (VALUE, lambda: run([TWO, sv.from_children([[1], [0]])]),
        "input graphs: sample 1 has a cycle, 0 -> 1 -> 0 from parent to child"),
    "input of no type": (
        VALUE,
        lambda: sv.run(
            {"leaf": Sum(), "pair": Pair()},
            [sv.from_children([[], [], [0, 1]], ["leaf", "leaf", "pair"])],
            {"leaf": torch.zeros(2, 2), "lef": torch.zeros(2, 2)},
        ),
        "expected inputs by type, of leaf, pair, found those of 'lef' too",
    ),
    "missing child": (VALUE, lambda: run([TWO, sv.from_children([[], [4]])]),
        "input graphs: vertex 1 of sample 1 has child 4, which is missing: the sample has 2 vertices"),
    "gathers fewer": (VALUE, lambda: run([TWO, THREE_CHILDREN]),
        "input graphs: vertex 3 of sample 1 has 3 children, expected 0 to 2 for a vertex of Sum"),
    "gathers fewer, called": (VALUE, lambda: run([TWO, THREE_CHILDREN], Called()),
        "Called: vertex 3 of sample 1 has 3 children, but forward gathers 2"),
    "arity": (VALUE, lambda: run([TWO], Pair()),
        "input graphs: vertex 1 of sample 0 has 1 children, expected 2 or no for a vertex of Pair"),
    "arity of a type": (VALUE, lambda: sv.run({"a": Pair(), "b": Sum()},
        [sv.from_children([[], [0]], ["b", "a"])], torch.zeros(2, 2)),
        'vertex 1 of sample 0 has 1 children, expected 2 or no for a vertex of "a"'),
    "no graph": (TYPE, lambda: sv.run(Sum(), [[1]], torch.zeros(1, 2)),
        "smex.vertex.batch: expected InputGraphs, found list"),
    "no graphs": (TYPE, lambda: sv.run(Sum(), 3), "expected a list of InputGraphs, a GraphBatch"),
    "some types": (VALUE, lambda: sv.batch([typed("a"), TWO]),
        "expected types for all samples or none, found none for sample 1"),
    "types for some": (VALUE, lambda: sv.from_children([[], []], ["a"]),
        "InputGraph: expected a type for each of 2 vertices, found 1"),
    "parent": (VALUE, lambda: sv.from_parents([5, -1]),
        "expected a vertex below 2 or -1 as the parent of vertex 0, found 5"),
    "children": (TYPE, lambda: sv.from_children([[], ["a"]]),
        "from_children: expected ints as children, found 'a'"),
    "length": (VALUE, lambda: sv.chain(-1), "chain: expected a length of at least 0, found -1"),
    "from_graph": (TYPE, lambda: sv.from_graph(3), "from_graph: expected a smex.graph.Graph, found int"),
    "function": (TYPE, lambda: sv.run(torch.nn.Linear(2, 2), [TWO]),
        "expected a VertexFunction, or a mapping from types to them, found Linear"),
    "function of a type": (TYPE, lambda: sv.run({"a": 1}, [TWO]),
        "expected a VertexFunction for type 'a', found int"),
    "type": (VALUE, lambda: sv.run({"a": Sum()}, [typed("b")], torch.zeros(1, 2)),
        "there is no vertex function for type 'b'; there are functions for 'a'"),
    "types": (VALUE, lambda: sv.run(Sum(), [typed("a", "b")], torch.zeros(2, 2)),
        "expected a mapping from the types a, b to vertex functions, found one function, Sum"),
    "no types": (VALUE, lambda: sv.run({"a": Sum(), "b": Sum()}, [TWO], torch.zeros(2, 2)),
        "the graphs have no types, and there are functions for 'a', 'b'"),
    "states of types": (VALUE, lambda: sv.run({"a": Sum(), "b": Wide()}, [typed("a")], torch.zeros(1, 2)),
        "expected the same states for all types, found h[2] for 'a' and h[3] for 'b'"),
    "inputs": (TYPE, lambda: sv.run(Sum(), [TWO], [1]),
        "expected a tensor or a mapping from names to tensors as inputs, found list"),
    "inputs of a type": (TYPE, lambda: sv.run({"a": Sum()}, [typed("a")], {"a": 3}),
        "as inputs of type 'a', found int"),
    "input": (TYPE, lambda: sv.run(Sum(), [TWO], {"x": 3}), "expected a tensor as input 'x', found int"),
    "rows": (VALUE, lambda: run([TWO], rows=3),
        "expected a row for each of the 2 vertices of the batch in input 'x', found shape [3, 2]"),
    "no input": (VALUE, lambda: sv.run(Sum(), [TWO]),
        "Sum: pull: expected exactly one input to pull without a name, found none"),
    "name": (VALUE, lambda: run([TWO], doing(lambda self: self.scatter(self.pull("y")))),
        "Doing: pull: there is no input 'y'; smex.vertex.run was given 'x'"),
    "outside": (RUNTIME, lambda: Sum().gather(0), "gather: called outside of smex.vertex.run"),
    "position": (VALUE, lambda: Sum().gather(-1), "gather: expected the child's position from 0, found -1"),
    "position type": (TYPE, lambda: Sum().gather(0.5), "gather: expected an int as the child's position"),
    "no result": (RUNTIME, lambda: run([TWO], doing(lambda self: None)),
        "Doing: forward ended without scatter or push"),
    "no state": (RUNTIME, lambda: run([TWO], doing(lambda self: self.push(self.gather(0).h))),
        "Doing: forward gathers states that it never sets"),
    "twice": (RUNTIME, lambda: run([TWO], doing(lambda self: [self.scatter(self.pull()) for _ in "ab"])),
        "Doing: scatter: called twice for a vertex"),
    "pushed twice": (RUNTIME, lambda: run([TWO], doing(lambda self: [self.push(self.pull()) for _ in "ab"])),
        "Doing: push: output 'out' was pushed twice"),
    "push": (TYPE, lambda: run([TWO], doing(lambda self: self.push(3))),
        "Doing: push: expected a tensor with a row for each vertex as 'out', found 3"),
    "pushed without names": (TYPE, lambda: run([TWO], doing(lambda self: self.push(self.pull(), self.pull()))),
        "Doing: push: expected one output without a name, found 2; name them"),
    "pushed a number": (TYPE, lambda: run([TWO], doing(lambda self: self.push(self.pull().sum()))),
        "Doing: push: expected a tensor with a row for each vertex as 'out', found one number"),
    "states": (VALUE, lambda: run([TWO], doing(lambda self: self.scatter(g=self.pull()))),
        "Doing: scatter: expected the states h, found g"),
    "state": (TYPE, lambda: run([TWO], doing(lambda self: self.scatter(h=1))),
        "Doing: scatter: expected a tensor as state 'h', found int"),
    "shape": (VALUE, lambda: run([TWO], doing(lambda self: self.scatter(self.pull()[:, :1]))),
        "Doing: scatter: expected rows of shape [2] as state 'h', found [1]"),
    "dtype": (VALUE, lambda: run([TWO], doing(lambda self: self.scatter(self.pull().double()))),
        "Doing: scatter: expected torch.float32 as the type of state 'h', found torch.float64"),
    "edges": (VALUE, lambda: run([TWO], doing(lambda self: self.scatter(self.gather_each().h))),
        "Doing: scatter: expected a row for each vertex in 'h', found"),
    "outputs": (VALUE, lambda: sv.run({"a": Pushes(1), "b": Pushes(2)}, [typed("a", "b")], torch.zeros(2, 2)),
        "expected output 'out' to have rows of one shape and type, found [1] of torch.float32, [2] of"),
    "size": (VALUE, lambda: sv.VertexFunction(h=-1), "VertexFunction: expected a size of at least 0 for state 'h'"),
    "size type": (TYPE, lambda: sv.VertexFunction(h="a"),
        "VertexFunction: expected an int or a tuple of ints as the size of state 'h', found 'a'"),
    "no size": (VALUE, lambda: sv.VertexFunction(), "expected the size of at least one state, found none"),
    "option": (TYPE, lambda: sv.options(hosit=True).__enter__(), "expected one of trace, hoist, lazy, fuse"),
    "option value": (TYPE, lambda: sv.Options(lazy=1), "Options: expected a bool as lazy, found 1"),
    "policy": (VALUE, lambda: sv.Options(policy="best"), "expected one of readiness, depth as policy, found 'best'"),
}  # fmt: skip


class Wide(sv.VertexFunction):
    def __init__(self):
        super().__init__(h=3)


class Pushes(sv.VertexFunction):
    def __init__(self, width):
        super().__init__(h=2)
        self.width = width

    def forward(self):
        self.push(self.pull()[:, : self.width])


@pytest.mark.parametrize(("kind", "call", "text"), MISTAKES.values(), ids=MISTAKES)
def test_mistakes_are_named(kind, call, text):
    with pytest.raises(kind, match=re.escape(text)):
        call()


def test_results_are_the_callers_own():
    x = torch.zeros(2, 2, requires_grad=True)
    result = sv.run(Sum(), [TWO], x)
    with torch.no_grad():
        result.states["h"].add_(1)
        result.roots.states["h"].add_(1)
    result.roots.states["h"].sum().backward()
    assert x.grad.tolist() == [[1.0, 1.0], [1.0, 1.0]]


def test_an_unknown_state_is_an_attribute_error():
    with pytest.raises(AttributeError, match="a vertex has no state 'k'; its states are h"):
        run([TWO], doing(lambda self: self.scatter(self.gather(0).k)))


class Scaled(sv.VertexFunction):
    """Reads a tensor that is no parameter."""

    def __init__(self, scale):
        super().__init__(h=4)
        self.u = nn.Linear(4, 4)
        self.scale = [scale]

    def forward(self):
        self.scatter(self.u(self.gather(0).h) + self.pull() * self.scale[0])


@pytest.mark.parametrize("options", [{}, {"trace": False}])
def test_gradients_that_would_be_lost(options):
    x, scale = torch.ones(2, 4), torch.ones(4, requires_grad=True)
    for outside in (scale, scale * 2):
        with sv.options(**options), pytest.raises(SmexValueError, match=r"Scaled: .* shape \[4\]"):
            sv.run(Scaled(outside), [sv.chain(2)], x)
    with sv.options(**options):
        sv.run(Scaled(scale.detach()), [sv.chain(2)], x).states["h"].sum().backward()
        with torch.no_grad():
            sv.run(Scaled(scale), [sv.chain(2)], x)


@pytest.mark.parametrize("options", [{}, {"trace": False}])
def test_second_derivatives_are_refused(options):
    function = Scaled(torch.ones(4))
    x = torch.randn(2, 4, requires_grad=True)
    with sv.options(**options):
        h = sv.run(function, [sv.chain(2)], x).states["h"]
    (grad,) = torch.autograd.grad(h.sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="no second derivatives"):
        grad.pow(2).sum().backward()


def test_transforms_of_torch_func_are_refused():
    function = Scaled(torch.ones(4))
    with pytest.raises(SmexRuntimeError, match=r"transform of torch\.func"):
        torch.func.grad(lambda x: sv.run(function, [sv.chain(2)], x).states["h"].sum())(
            torch.ones(2, 4)
        )


def test_numbers_that_are_no_ints():
    with pytest.raises(SmexTypeError, match="expected ints as parents, found float64"):
        sv.from_parents([1.7, -1.0])
    with pytest.raises(SmexTypeError, match=r"expected an int as the length, found 2\.9"):
        sv.chain(2.9)
    assert sv.from_parents([]).num_vertices == 0


class Wrong(sv.VertexFunction):
    """A product of the wrong size, on children or on the input."""

    def __init__(self):
        super().__init__(h=4)
        self.u = nn.Linear(4, 4)

    def forward(self):
        self.scatter(self.u(torch.cat([self.pull("tokens"), self.gather(0).h], 1)))


def line_of(cls, text):
    """`file.py:12` of a line in a class."""
    lines, first = inspect.getsourcelines(cls)
    place = next(number for number, line in enumerate(lines) if text in line)
    return f"{pathlib.Path(__file__).name}:{first + place}"


@pytest.mark.parametrize("options", [{}, {"trace": False}])
def test_errors_of_forward_tell_where(options, capfd):
    with sv.options(**options), pytest.raises(RuntimeError) as caught:
        sv.run(Wrong(), [sv.chain(2), sv.chain(1)], {"tokens": torch.ones(3, 7)})
    text = str(caught.value)
    assert isinstance(caught.value, smex.SmexRuntimeError)
    assert text.startswith(f"Wrong: forward failed at {line_of(Wrong, 'self.scatter')} for 2 vert")
    assert "'tokens' [3, 7]" in text and "'h' [4]" in text and "2x11 and 4x4" in text
    printed = "".join(capfd.readouterr())
    assert "fake_tensor" not in printed and "Traceback" not in printed


class Table(sv.VertexFunction):
    def __init__(self):
        super().__init__(h=2)
        self.table = nn.Embedding(5, 2)

    def forward(self):
        self.scatter(self.table(self.pull()) + self.gather(0).h)


@pytest.mark.parametrize("options", [{}, {"trace": False}])
def test_an_index_that_is_out_of_range_tells_where(options):
    with sv.options(**options), pytest.raises(IndexError) as caught:
        sv.run(Table(), [sv.chain(3)], torch.tensor([1, 5, 2]))
    assert isinstance(caught.value, smex.SmexIndexError)
    assert f"Table: forward failed at {line_of(Table, 'self.scatter')}" in str(caught.value)
    assert "'x' [3]" in str(caught.value)


class OwnError(Exception):
    pass


def test_errors_of_the_users_own_stay_what_they_are():
    def fail(self):
        raise OwnError("mine")

    with pytest.raises(OwnError, match="^mine") as caught:
        run([TWO], doing(fail))
    if sys.version_info >= (3, 11):
        assert any("Doing: forward failed at" in note for note in caught.value.__notes__)


def test_shapes_of_a_trace_are_not_shown():
    with pytest.raises(
        SmexValueError, match=r"rows of shape \[2\] as state 'h', found \[vertices\]"
    ):
        run([TWO], doing(lambda self: self.scatter(self.pull().t())))


@pytest.mark.parametrize("options", [{}, {"trace": False}])
def test_unknown_names_list_the_known(options):
    with sv.options(**options):
        result = run([TWO], Pushing())
        for values in (result.outputs, result.roots.outputs):
            with pytest.raises(
                KeyError, match="there is no output 'c'; there are 'a', 'b'"
            ) as caught:
                values["c"]
            assert isinstance(caught.value, smex.SmexError)
            assert "c" not in values and "a" in values and values.get("c") is None
        with pytest.raises(smex.SmexKeyError, match="there is no state 'k'; there are 'h'"):
            result.states["k"]
        with pytest.raises(smex.SmexKeyError, match="there is no output 'x'; there are none"):
            run([TWO]).outputs["x"]
        with pytest.raises(smex.SmexKeyError, match="a vertex has no state 'k'; its states are h"):
            run([TWO], doing(lambda self: self.scatter(self.gather(0)["k"])))


class Pushing(Sum):
    def forward(self):
        super().forward()
        self.push(a=self.pull(), b=self.pull())


class Either(Sum):
    """What it pushes depends on values."""

    def forward(self):
        super().forward()
        x = self.pull()
        if float(x.sum()) > 0:
            self.push(a=x)
        else:
            self.push(b=x)


def test_outputs_differ_between_calls():
    x = torch.tensor([[1.0, 1.0], [1.0, 1.0], [-9.0, -9.0]])
    with pytest.raises(SmexRuntimeError, match="same outputs for all vertices, found 'a' for some"):
        run([sv.chain(3)], Either(), x)


def test_a_row_for_each_edge_where_vertices_have_rows():
    class Edges(sv.VertexFunction):
        def __init__(self):
            super().__init__(h=4)

        def forward(self):
            self.scatter(self.gather_each().h)

    with pytest.raises(SmexValueError, match="in 'h', found a row for each edge; rows of"):
        sv.run(Edges(), [sv.chain(2)])
