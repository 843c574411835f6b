"""Fused functions of special numbers: values and gradients are torch's, NaN where torch has NaN.

Random compositions of what message functions are made of, on features with zeros of both signs,
infinities, NaN and ties, run fused and as they are. docs/graph.md says where the two may differ;
of that the compositions leave out

* the sign of ``maximum`` and ``minimum`` of 0 and -0, of which torch's vectors give either,
* ``elu``, ``selu``, ``celu``, ``hardtanh`` and ``relu6`` of NaN, and in float32 ``gelu`` of
  infinity, where torch's vectors and its scalar loops differ,
* calls that are written alike and are not one variable,
* gradients of messages that ``max`` and ``min`` did not choose.
"""

import random

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import smex.graph as sg
import smex.graph.function as fn
from smex.graph.core.hop import hop_of
from smex.graph.tracing.explanation import Unfused
from smex.graph.tracing.fuse import fuse_edges
from support.message_functions import unfused

NUMBERS = [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 3.0, -3.0, 6.0, 0.37, -1.9]
SPECIAL = [*NUMBERS, float("inf"), -float("inf"), float("nan")]
WEIGHT = torch.tensor([0.25, 0.5, -1.0], dtype=torch.float64)
ONE_WEIGHT = torch.tensor([0.25], dtype=torch.float64)

UNARY = {
    "neg": lambda x: -x,
    "abs": abs,
    "exp": torch.exp,
    "expm1": torch.expm1,
    "log": torch.log,
    "log1p": torch.log1p,
    "sqrt": torch.sqrt,
    "rsqrt": torch.rsqrt,
    "reciprocal": torch.reciprocal,
    "2 / x": lambda x: 2 / x,
    "x / 2": lambda x: x / 2,
    "x * 0": lambda x: x * 0,
    "x + 0": lambda x: x + 0,
    "1 - x": lambda x: 1 - x,
    "square": torch.square,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "erf": torch.erf,
    "sin": torch.sin,
    "cos": torch.cos,
    "relu": torch.relu,
    "leaky_relu": lambda x: F.leaky_relu(x, 0.2),
    "leaky_relu, falling": lambda x: F.leaky_relu(x, -0.5),
    "leaky_relu, flat": lambda x: F.leaky_relu(x, 0.0),
    "clamp": lambda x: x.clamp(-1, 3),
    "clamp, exchanged": lambda x: torch.clamp(x, 3, -1),
    "clamp from 0": lambda x: x.clamp(min=0),
    "clamp_min": lambda x: x.clamp_min(0.5),
    "clamp_max": lambda x: torch.clamp_max(x, 0.5),
    "hardsigmoid": F.hardsigmoid,
    "gelu": F.gelu,
    "gelu, tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
    "mish": F.mish,
    "softplus": F.softplus,
    "softplus, steep": lambda x: F.softplus(x, beta=2.0, threshold=6.0),
    "logsigmoid": F.logsigmoid,
    "softsign": F.softsign,
    "threshold": lambda x: F.threshold(x, 0.5, -7.0),
    "prelu": lambda x: F.prelu(x, WEIGHT if x.shape[1] == 3 else ONE_WEIGHT),
    "where": lambda x: torch.where(x > 0.5, x * x, 2.0),
    "where of two": lambda x: torch.where(x <= 0.5, x * 3, 1 - x),
    "where, else 0": lambda x: torch.where(x > 0, x, 0),
    "where, as a method": lambda x: x.where(x >= 0, 0.25),
    "masked_fill": lambda x: x.masked_fill(x == 0.5, 9.0),
    "times a condition": lambda x: x * (x > 0),
    "norm": lambda x: x.norm(dim=-1, keepdim=True),
    "normalize": lambda x: F.normalize(x, dim=1),
    "sum": lambda x: x.sum(-1, keepdim=True),
    "mean": lambda x: x.mean(-1, keepdim=True),
    **{f"x ** {p}": lambda x, p=p: x**p for p in (2, 3, 0.5, -1, -0.5, 1.5, -2, 0.3, 1, 4, -3)},
}
NOT_OF_NAN = {
    "elu": F.elu,
    "celu": lambda x: F.celu(x, 0.7),
    "selu": F.selu,
    "hardtanh": F.hardtanh,
    "relu6": F.relu6,
}
BINARY = {
    "add": torch.add,
    "sub": torch.sub,
    "mul": torch.mul,
    "div": torch.div,
    "where": lambda x, y: torch.where(x < y, x, y),
    "where equal": lambda x, y: torch.where(x == y, x, -y),
    "where not": lambda x, y: torch.where(~(x >= y) | (x != x), y, 1.0),
    "masked": lambda x, y: torch.where(y > 0.5, 0.0, x) * y,
    "alpha": lambda x, y: torch.add(x, y, alpha=0.5),
    # Of 0 and -0 torch's vectors give either; added to 0 both are 0.
    "maximum": lambda x, y: torch.maximum(x, y) + 0.0,
    "minimum": lambda x, y: torch.minimum(x, y) + 0.0,
    "max": lambda x, y: torch.max(x, y) + 0.0,
    "min": lambda x, y: torch.min(x, y) + 0.0,
}
OF_ROWS = ("norm", "normalize", "sum", "mean", "prelu")
"""Functions that do not work number by number."""


class Composition:
    """A random function of features by letter; what it calls more than once, it calls by name."""

    def __init__(self, rng, letters, of_rows, depth=3):
        self._rng, self._letters, self._of_rows = rng, letters, of_rows
        self._seen = set()
        self._made = self._draw(depth)

    def _draw(self, depth):
        while True:
            made = self._draw_one(depth)
            if isinstance(made, str) or repr(made) not in self._seen:
                self._seen.add(repr(made))
                return made

    def _draw_one(self, depth):
        rng = self._rng
        if depth == 0 or rng.random() < 0.1:
            return rng.choice(self._letters)
        if rng.random() < 0.65:
            name = rng.choice([n for n in UNARY if self._of_rows or n not in OF_ROWS])
            return name, self._draw(depth - 1)
        return rng.choice(list(BINARY)), self._draw(depth - 1), self._draw(depth - 1)

    def __repr__(self):
        return str(self._made)

    def function(self):
        """The function of four tensors, in which equal parts are one variable."""
        names, lines, space = {}, [], {}

        def name_of(made):
            if isinstance(made, str):
                return made
            if made not in names:
                arguments = ", ".join(map(name_of, made[1:]))
                n = len(names)
                names[made] = f"x{n}"
                space[f"f{n}"] = (UNARY if len(made) == 2 else BINARY)[made[0]]
                lines.append(f"    x{n} = f{n}({arguments})\n")
            return names[made]

        result = name_of(self._made)
        exec(f"def function(u, v, e, w):\n{''.join(lines)}    return {result}\n", space)
        return space["function"]


def random_graph(rng, dtype):
    nodes, edges = rng.randint(2, 7), rng.randint(3, 24)
    src = [rng.randrange(nodes) for _ in range(edges)]
    dst = [rng.randrange(nodes) if rng.random() < 0.6 else 0 for _ in range(edges)]
    g = sg.graph((src, dst), num_nodes=nodes)

    def features(rows, size):
        pool = rng.choice((SPECIAL, SPECIAL, NUMBERS))
        numbers = [rng.choice(pool) if rng.random() < 0.8 else rng.gauss(0, 2) for _ in range(rows)]
        return torch.tensor(
            [numbers[(3 * n + k) % rows] for n in range(rows) for k in range(size)], dtype=dtype
        ).view(rows, size)

    g.ndata["x"], g.edata["x"] = features(nodes, 3), features(edges, 3)
    g.ndata["y"], g.edata["w"] = features(nodes, 3), features(edges, 1)
    for data, name in ((g.ndata, "x"), (g.ndata, "y"), (g.edata, "x"), (g.edata, "w")):
        data[name].requires_grad_()
    return g


def leaves(g):
    return [g.ndata["x"], g.ndata["y"], g.edata["x"], g.edata["w"]]


def gradients(g, out):
    if not out.requires_grad:
        return [torch.zeros_like(x) for x in leaves(g)]
    weight = torch.linspace(-1, 2, out.numel(), dtype=out.dtype).view_as(out)
    found = torch.autograd.grad((out * weight).sum(), leaves(g), allow_unused=True)
    return [torch.zeros_like(x) if y is None else y for x, y in zip(leaves(g), found)]


def message_of(function):
    def message(edges):
        return {"m": function(edges.src["x"], edges.dst["y"], edges.data["x"], edges.data["w"])}

    return message


def assert_same(found, expected, text):
    for a, b in zip(found, expected):
        torch.testing.assert_close(
            a, b, rtol=1e-6, atol=1e-7, equal_nan=True, msg=lambda m: f"{text}: {m}"
        )


def draw(number, seed):
    """A graph, a composition that is fused, and a reducer."""
    rng = random.Random(1000 * seed + number)
    reduce = ("sum", "mean", "max", "min")[number % 4]
    of_rows = reduce in ("sum", "mean")
    while True:
        g = random_graph(rng, torch.float64)
        composition = Composition(rng, "uvew" if of_rows else "uve", of_rows)
        found = sg.explain(g, message_of(composition.function()), getattr(fn, reduce)("m", "o"))
        if found.fused:
            return g, composition, reduce
        assert "more than 512 terms" in found.reason, (composition, found)


def reduced_by_torch(reduce):
    def function(nodes):
        out = getattr(nodes.mailbox["m"], reduce)(1)
        return {"o": out[0] if reduce in ("max", "min") else out}

    return unfused(function)


def chosen(g, values, reduce):
    """For each node with messages and each of its numbers, the edge whose message it is."""
    best = {}
    for edge, node in enumerate(g.edges()[1].tolist()):
        for k, value in enumerate(values[edge].tolist()):
            at = best.get((node, k))
            old = None if at is None else values[at, k].item()
            better = at is None or (
                (value != value or (value > old if reduce == "max" else value < old)) and old == old
            )
            best[node, k] = edge if better else at
    return best


def gradients_of_chosen(g, composition, values, reduce):
    """Torch's, of the function on the messages that were chosen, number by number."""
    best = chosen(g, values, reduce)
    edges = torch.tensor(list(best.values()))
    nodes, columns = torch.tensor(list(best)).unbind(1)
    src, dst = (ends[edges] for ends in g.edges())
    x = (g.ndata["x"][src, columns], g.ndata["y"][dst, columns], g.edata["x"][edges, columns])
    made = composition.function()(*(part.unsqueeze(1) for part in x), None).squeeze(1)
    size = values.shape[1]
    zeros = torch.zeros(g.num_nodes(), size, dtype=values.dtype)
    return gradients(g, zeros.index_put((nodes, columns), made))


@pytest.mark.parametrize("group", range(25))
def test_random_compositions(group, seed):
    for number in range(20 * group, 20 * group + 20):
        g, composition, reduce = draw(number, seed)
        text = f"{number}, {reduce}: {composition}"
        message = message_of(composition.function())
        assert not isinstance(fuse_edges(hop_of(g, None), message), Unfused)
        g.apply_edges(message)
        fused = sent = g.edata.pop("m")
        g.apply_edges(unfused(message))
        plain = g.edata.pop("m")
        assert_same([fused, *gradients(g, fused)], [plain, *gradients(g, plain)], text)

        assert sg.explain(g, message, getattr(fn, reduce)("m", "o")).fused
        g.update_all(message, getattr(fn, reduce)("m", "o"))
        fused = g.ndata.pop("o")
        g.update_all(unfused(message), reduced_by_torch(reduce))
        out = g.ndata.pop("o")
        if reduce in ("sum", "mean"):
            expected = gradients(g, out)
        else:
            expected = gradients_of_chosen(g, composition, sent.detach(), reduce)
        assert_same([fused, *gradients(g, fused)], [out, *expected], text)


# ---- function by function ----

ENDS = {  # what has an infinite slope at 0, or none
    "sqrt": torch.sqrt,
    "** 0.5": lambda x: x**0.5,
    "log": torch.log,
    "1 /": lambda x: 1 / x,
    "rsqrt": torch.rsqrt,
    "norm": lambda x: x.norm(dim=-1, keepdim=True),
    "** 0.3": lambda x: x**0.3,
}
MASKS = {
    "relu": lambda u, v: torch.relu(u),
    "maximum": lambda u, v: torch.maximum(u, v),
    "minimum": lambda u, v: -torch.minimum(u, v),
    "leaky_relu": lambda u, v: F.leaky_relu(u, 0.0),
    "clamp": lambda u, v: u.clamp(min=0),
    "where": lambda u, v: torch.where(u > v, u, 0.0),
    "threshold": lambda u, v: F.threshold(u, 0.0, 0.0),
    "masked_fill": lambda u, v: u.masked_fill(u < 0, 0.0),
    "abs": lambda u, v: abs(u),
    "relu6": lambda u, v: F.relu6(u),
}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("mask", MASKS)
def test_a_mask_and_an_infinite_slope(mask, end):
    g = sg.graph(([0, 1, 2, 3, 4, 0, 1], [1, 2, 3, 4, 0, 0, 0]))
    x = torch.tensor([[-1.0, 0.0], [0.0, 0.0], [2.0, -0.0], [-3.0, -2.0], [0.5, 1.0]])
    g.ndata["x"], mask, end = x.double().requires_grad_(), MASKS[mask], ENDS[end]

    def message(edges):
        return {"m": end(mask(edges.src["x"], edges.dst["x"]))}

    assert not isinstance(fuse_edges(hop_of(g, None), message), Unfused)
    for reduce in ("sum", "max", None):
        if reduce == "max" and end is ENDS["norm"]:
            continue  # whose gradient is no matter of single numbers
        found = []
        for function in (message, unfused(message)):
            if reduce is None:
                g.apply_edges(function)
                out = g.edata.pop("m")
            else:
                g.update_all(function, getattr(fn, reduce)("m", "o"))
                out = g.ndata.pop("o")
            out = torch.where(out.isfinite(), out, 0.0)  # whose gradient is 0, not none
            found.append(torch.autograd.grad(out.sum(), g.ndata["x"])[0])
        if reduce == "max":
            found[0] = torch.where(found[1].isnan(), found[1], found[0])  # of those not chosen
        assert_same(found[:1], found[1:], reduce)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("name", [*UNARY, *NOT_OF_NAN])
def test_each_function(name, dtype):
    function = {**UNARY, **NOT_OF_NAN}[name]
    numbers = [x for x in SPECIAL if x == x or name not in NOT_OF_NAN]
    if name == "gelu" and dtype is torch.float32:
        numbers.remove(float("inf"))
    if name == "prelu" and dtype is torch.float32:
        function = nn.PReLU(3)
    x = torch.tensor(numbers * 3, dtype=dtype).view(-1, 3).requires_grad_()
    ids = torch.arange(len(x))
    g = sg.graph((ids, ids))
    g.ndata["x"] = x
    found = []
    for message in (lambda e: {"m": function(e.src["x"])}, lambda e: {"m": outer(e.src["x"])}):

        def outer(x):
            return torch.sqrt(function(x) + 0.0)

        assert not isinstance(fuse_edges(hop_of(g, None), message), Unfused)
        for sent in (message, unfused(message)):
            g.apply_edges(sent)
            out = g.edata.pop("m")
            weight = torch.linspace(-1, 2, out.numel(), dtype=dtype).view_as(out)
            found.append([out, *torch.autograd.grad((out * weight).sum(), x)])
    tolerance = 1e-6 if dtype is torch.float64 else 3e-5
    for one, other in zip(found[::2], found[1::2]):
        for a, b in zip(one, other):
            torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance, equal_nan=True)


@pytest.mark.parametrize(
    "name",
    [
        "gelu",
        "gelu, tanh",
        "silu",
        "mish",
        "softplus",
        "logsigmoid",
        "norm",
        "normalize",
        "clamp",
        "leaky_relu",
        "hardsigmoid",
    ],
)
def test_second_derivatives(name):
    g = sg.graph(([0, 1, 2, 2], [1, 2, 0, 1]))
    function = UNARY[name]

    def summed(x):
        g.ndata["x"] = x
        g.update_all(lambda e: {"m": function(e.src["x"] * 1.5)}, fn.sum("m", "o"))
        return g.ndata["o"]

    x = torch.randn(3, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(summed, x) and torch.autograd.gradgradcheck(summed, x)


LENGTHS = {
    "norm": lambda u, v, e: (u - v).norm(dim=-1),
    "norm, kept": lambda u, v, e: (u - v).norm(dim=1, keepdim=True) * e,
    "normalize": lambda u, v, e: F.normalize(u + v, dim=1) * e,
    "normalize, of silu": lambda u, v, e: F.normalize(F.silu(u + v), dim=1),
    "product of directions": lambda u, v, e: (F.normalize(u, dim=1) * F.normalize(v, dim=1)).sum(1),
    "cosine": lambda u, v, e: F.cosine_similarity(u, v),
    "cosine, kept": lambda u, v, e: F.cosine_similarity(u, e, dim=-1).unsqueeze(-1) * e,
    "vector_norm": lambda u, v, e: torch.linalg.vector_norm(u * e, dim=1).sigmoid(),
}


@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "min"])
@pytest.mark.parametrize("name", LENGTHS)
def test_lengths_under_reducers(name, reduce):
    function, g = LENGTHS[name], sg.rand_graph(8, 40)
    g.ndata["x"] = torch.randn(8, 3, dtype=torch.float64).requires_grad_()
    g.edata["x"] = torch.randn(40, 3, dtype=torch.float64).requires_grad_()

    def message(edges):
        # No node is its own neighbour's equal: of a vector of 0 the direction is anything.
        return {"m": function(edges.src["x"], edges.dst["x"] * 0.7, edges.data["x"])}

    assert sg.explain(g, message, getattr(fn, reduce)("m", "o")).fused
    found = []
    for sent, kept in (
        (message, getattr(fn, reduce)("m", "o")),
        (unfused(message), reduced_by_torch(reduce)),
    ):
        g.update_all(sent, kept)
        out = g.ndata.pop("o")
        weight = torch.linspace(-1, 2, out.numel(), dtype=out.dtype).view_as(out)
        columns = (g.ndata["x"], g.edata["x"])
        grads = torch.autograd.grad((out * weight).sum(), columns, allow_unused=True)
        found.append([out, *(0 * x if y is None else y for x, y in zip(columns, grads))])
    assert_same(*found, name)


@pytest.mark.parametrize("size", [1, 3, 16])
@pytest.mark.parametrize("name", ["u_div_e", "u_mul_e", "e_div_u", "u_sub_e", "u_add_e"])
def test_built_in_functions_keep_the_sign_of_zero(name, size):
    ids = torch.arange(9)
    g = sg.graph((ids, ids))
    g.ndata["x"] = torch.tensor([[0.0], [-0.0], [1.0]]).repeat(3, 1).expand(9, size).contiguous()
    g.edata["w"] = torch.tensor([[0.0], [-0.0], [-2.0]]).repeat_interleave(3, 0)
    g.apply_edges(getattr(fn, name)("x", "w", "m") if name[0] == "u" else fn.e_div_u("w", "x", "m"))
    sides = {"u": g.ndata["x"], "e": g.edata["w"]}
    expected = getattr(torch, name[2:5])(sides[name[0]], sides[name[-1]])
    torch.testing.assert_close(g.edata["m"], expected, equal_nan=True)
    known = ~expected.isnan()
    assert torch.equal(torch.signbit(g.edata["m"])[known], torch.signbit(expected)[known])
