"""Norms, softmax and sums along rows, in element-wise programs, against torch's calls."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import smex.vertex as sv
from support.functions_of_rows import (
    GRAPHS,
    Of,
    assert_gradients_are_those_of_differences,
    assert_same,
    calls_of,
    eager,
    rows_of,
)


def norm(function, x, **options):
    return F.layer_norm(x, (x.shape[-1],), **options)


FUNCTIONS = {
    "layer_norm": lambda s, x, y, h: norm(s, x * y, weight=s.row, bias=s.row + 1) + h,
    "layer_norm, no parameters": lambda s, x, y, h: norm(s, x * y),
    "layer_norm, a weight": lambda s, x, y, h: norm(s, h + y, weight=s.row) * x,
    "layer_norm, a bias": lambda s, x, y, h: norm(s, h + y, bias=s.row).relu(),
    "layer_norm, two": lambda s, x, y, h: norm(s, norm(s, x, weight=s.row) + h, weight=s.row),
    "layer_norm, of heads": lambda s, x, y, h: norm(s, (x + h).view(-1, 2, 5)).flatten(1) * y,
    "layer_norm, its result twice": lambda s, x, y, h: (lambda n: n * n.tanh())(norm(s, x + h)),
    "rms_norm": lambda s, x, y, h: F.rms_norm(x * y + h, (10,), s.row) + y,
    "softmax": lambda s, x, y, h: (x + h).softmax(1) * y,
    "softmax, alone": lambda s, x, y, h: (x + h).softmax(-1),
    "softmax, of heads": lambda s, x, y, h: (x + h).view(-1, 2, 5).softmax(2).flatten(1) * y,
    "softmax, masked": lambda s, x, y, h: (x * y).masked_fill(s.mask, -torch.inf).softmax(1) * y,
    "log_softmax": lambda s, x, y, h: (x * y).log_softmax(1) + h,
    "mean": lambda s, x, y, h: x * y - (x * y).mean(1, keepdim=True),
    "mean, an output": lambda s, x, y, h: (x * y + h).mean(1, keepdim=True),
    "sum": lambda s, x, y, h: (x * y) / ((x * y).abs().sum(-1, keepdim=True) + 1),
    "sum, of one column": lambda s, x, y, h: x[:, :1].exp().sum(1, keepdim=True) * y,
    "sum, of what repeats": lambda s, x, y, h: (x[:, :1] * torch.ones_like(y)).sum(1, True) * y,
    "sums of two shapes": lambda s, x, y, h: (
        (x * y).sum(1, keepdim=True) + x[:, :4].mul(2).sum(1, keepdim=True)
    ).tanh() * h,
    "amax": lambda s, x, y, h: x * y - (x * y + h).amax(1, keepdim=True),
    "a row above its mean": lambda s, x, y, h: torch.where(
        (x * y).mean(1, keepdim=True) > 0, x * y, h - y
    ),
    "an output of bool": lambda s, x, y, h: (x * y + h).sum(1, keepdim=True) > 0,
    "normalize": lambda s, x, y, h: F.normalize(x * y + 1, dim=1) + h,
    "cosine": lambda s, x, y, h: (
        (x + 1) * y / ((x + 1).norm(dim=1, keepdim=True) * y.norm(dim=1, keepdim=True) + 1)
    ),
    "std": lambda s, x, y, h: (x + h) / (1 + (x + h).std(1, keepdim=True)),
    "var": lambda s, x, y, h: (x + h) / (1 + (x + h).var(1, correction=0, keepdim=True)),
    "not the last": lambda s, x, y, h: (x + h).view(-1, 2, 5).softmax(1).flatten(1) * y,
    "not kept": lambda s, x, y, h: (x * y).sum(1).unsqueeze(1) * h,
    "of all dimensions": lambda s, x, y, h: norm(s, x + h).view(-1, 2, 5).sum((1, 2))[:, None] * y,
}  # fmt: skip

# What makes more of the numbers that are special than that they are: of none of them is the
# gradient told apart from infinity and NaN by torch's own ways of computing it.
WITHOUT_SPECIAL_GRADIENTS = {"amax", "std", "var", "cosine", "normalize", "rms_norm"}


@pytest.mark.parametrize("special", [False, True], ids=["numbers", "special"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_and_gradients_are_those_of_torch(name, dtype, special):
    x, y = rows_of(dtype, special)
    function = Of(FUNCTIONS[name], x.shape[1]).to(dtype)
    tolerance = 2e-5 if dtype is torch.float32 else 1e-12
    wanted = eager(function, x, y)
    for _ in range(2):
        with torch.no_grad():
            found = sv.run(function, GRAPHS, {"x": x, "y": y}).outputs["out"]
        assert_same(found, wanted, tolerance, either_zero=True)
        leaves = [x.clone().requires_grad_(), y.clone().requires_grad_(), function.row]
        values = eager(function, *leaves[:2])
        result = sv.run(function, GRAPHS, dict(zip("xy", leaves))).outputs["out"]
        assert_same(result, wanted, tolerance, either_zero=True)
        if special or not wanted.is_floating_point():
            continue
        weights = torch.linspace(-2, 2, wanted.numel(), dtype=dtype).view(wanted.shape)
        grads = [
            torch.autograd.grad(out, leaves, weights, allow_unused=True) for out in (result, values)
        ]
        for leaf, one, other in zip(leaves, *grads):
            one, other = (torch.zeros_like(leaf) if g is None else g for g in (one, other))
            torch.testing.assert_close(one, other, rtol=20 * tolerance, atol=20 * tolerance)


@pytest.mark.parametrize("name", ["layer_norm", "rms_norm", "softmax", "log_softmax", "std"])
def test_gradients_are_those_of_differences(name):
    assert_gradients_are_those_of_differences(FUNCTIONS[name], 10)


APART = {
    "layer_norm": {"native_layer_norm"},
    "layer_norm, of heads": {"native_layer_norm"},
    "rms_norm": {"mean", "rsqrt", "pow"},
    "softmax": {"_softmax", "_softmax_backward_data"},
    "log_softmax": {"_log_softmax", "_log_softmax_backward_data"},
    "mean": {"mean"},
    "normalize": {"linalg_vector_norm", "clamp_min", "div"},
    "a row above its mean": {"mean", "gt"},
}


@pytest.mark.parametrize("name", APART)
def test_they_are_part_of_programs(name):
    function = Of(FUNCTIONS[name], 10)
    names = set(calls_of(function))
    assert not {f"aten::{name}" for name in APART[name]} & names
    assert "smex::pointwise" in names
    with sv.options(fuse=False):
        assert {f"aten::{name}" for name in APART[name]} <= set(calls_of(function))


class Recursive(sv.VertexFunction):
    """Norms of what comes from children, whose gradients go there."""

    def __init__(self, inputs, hidden):
        super().__init__(h=hidden)
        self.w, self.u = nn.Linear(inputs, hidden), nn.Linear(hidden, hidden)
        self.first, self.second = nn.LayerNorm(hidden), nn.RMSNorm(hidden, eps=1e-5)
        for each in (self.first, self.second):
            nn.init.normal_(each.weight)

    def forward(self):
        x, children = self.w(self.pull()), self.gather_each()
        shares = self.u(children.h).softmax(1) * self.spread(x)
        total = self.sum_children(self.first(children.h + shares))
        h = self.second(total + x).tanh() + self.first(x) * x.mean(1, keepdim=True)
        self.scatter(h)
        self.push(h.log_softmax(1) - h.amax(1, keepdim=True))


OPTIONS = [{}, {"hoist": False}, {"lazy": False}, {"hoist": False, "lazy": False}]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_what_is_gathered(options):
    torch.manual_seed(0)
    function = Recursive(3, 6).double()
    trees = [sv.tree(((), ((), (), ()))), sv.tree(()), sv.tree(((((),),), ()))]
    rows = sum(len(t.parents) if hasattr(t, "parents") else t.num_vertices for t in trees)
    x = torch.randn(rows, 3, dtype=torch.float64, requires_grad=True)
    leaves = [x, *function.parameters()]

    def run(**options):
        with sv.options(**options):
            result = sv.run(function, trees, x)
        loss = result.states["h"].square().sum() + result.outputs["out"].sin().sum()
        return result.states["h"], torch.autograd.grad(loss, leaves)

    wanted = run(fuse=False, trace=False)
    for _ in range(3):
        torch.testing.assert_close(run(**options), wanted, rtol=1e-10, atol=1e-10)


def test_training_goes_as_without_programs():
    trees = [sv.tree(((), ((), (), ()))), sv.tree(((((),),), ()))]
    losses = []
    for options in ({}, {"fuse": False}):
        torch.manual_seed(0)
        function = Recursive(3, 6).double()
        x = torch.randn(sum(t.num_vertices for t in trees), 3, dtype=torch.float64)
        optimizer = torch.optim.Adam(function.parameters(), 0.01)
        own = []
        with sv.options(**options):
            for step in range(6):
                function.train(step % 2 == 0)
                optimizer.zero_grad()
                loss = sv.run(function, trees, x).outputs["out"].square().sum()
                own.append(float(loss.detach()))
                if step % 2 == 0:
                    loss.backward()
                    optimizer.step()
        losses.append(own)
    assert losses[0] == pytest.approx(losses[1], rel=1e-10)


@pytest.mark.parametrize("width", [1, 2, 4096, 4097])
def test_short_and_long_rows(width):
    generator = torch.Generator().manual_seed(0)
    x, y = (torch.randn(10, width, dtype=torch.float64, generator=generator) for _ in range(2))
    function = Of(lambda s, x, y, h: norm(s, x * y, weight=s.row) + (h + x).softmax(1), width)
    function.double()
    result = sv.run(function, GRAPHS, {"x": x, "y": y}).outputs["out"]
    torch.testing.assert_close(result, eager(function, x, y))


def test_half_types_are_left_to_torch():
    function = Of(FUNCTIONS["layer_norm"], 10).bfloat16()
    x, y = rows_of(torch.bfloat16, special=False)
    result = sv.run(function, GRAPHS, {"x": x, "y": y}).outputs["out"]
    assert torch.equal(result, eager(function, x, y))


class Pushing(sv.VertexFunction):
    """Outputs made of the state, which is a layer of the input and of the children's sum."""

    def __init__(self, of, width):
        super().__init__(h=width)
        self.of, self.u, self.q = of, nn.Linear(width, width), nn.Linear(width, 1)

    def forward(self):
        h = self.u(self.pull()) + self.gather_sum().h
        self.scatter(h)
        self.push(self.of(self, h))


def heads(h):
    return h.view(-1, 3, 4)


OUTPUTS = {
    "a mean": lambda s, h: h.mean(1, keepdim=True),
    "a sum times a number": lambda s, h: 3 * h.sum(1, keepdim=True),
    "the sigmoid of a mean": lambda s, h: h.mean(1, keepdim=True).sigmoid(),
    "a sum times rows": lambda s, h: h.sum(1, keepdim=True) * s.pull(),
    "exp less a mean": lambda s, h: h.exp() - h.mean(1, keepdim=True),
    "softmax less a mean": lambda s, h: h.softmax(1) - h.mean(1, keepdim=True),
    "two columns": lambda s, h: h.mean(1, keepdim=True) + s.q(h),
    "two columns, added up": lambda s, h: (h.amax(1, keepdim=True) - s.q(h)).sum(1),
    "a mean and the first": lambda s, h: (h.mean(1, keepdim=True) - h[:, :1]).exp(),
    "a product of columns": lambda s, h: h.mean(1, keepdim=True) * s.q(h) * h,
    "means of heads": lambda s, h: heads(h).mean(2),
    "heads less their means": lambda s, h: (heads(h) - heads(h).mean(2, keepdim=True)).flatten(1),
    "means of means": lambda s, h: heads(h).mean(2).mean(1, keepdim=True),
    "an expanded gate": lambda s, h: (
        heads(h)[:, :, :1].expand(-1, 3, 4).sigmoid().contiguous().view(-1, 12) * h
    ),
    "turned signs": lambda s, h: (-heads(h)[:, :, :1].expand(-1, 3, 4)).flatten(1),
    "several results": lambda s, h: torch.frexp(h[:, :1].detach().expand(-1, 5))[0] * h[:, :5],
    "a norm of the third power": lambda s, h: h / h.norm(p=3, dim=1, keepdim=True),
    "std": lambda s, h: h / (1 + h.std(1, keepdim=True)),
}


@pytest.mark.parametrize("options", [*OPTIONS, {"fuse": False}], ids=str)
@pytest.mark.parametrize("name", OUTPUTS)
def test_columns_of_outputs(name, options):
    torch.manual_seed(0)
    function = Pushing(OUTPUTS[name], 12).double()
    graphs = [sv.chain(4), sv.tree(((1, 2), 3))]
    x = torch.randn(sum(g.num_vertices for g in graphs), 12).double().requires_grad_()

    def run(is_alone, **options):
        with sv.options(**options):
            result = sv.run(function, graphs, x)
        out = result.outputs["out"]
        loss = out.square().sum() + (0 if is_alone else result.states["h"].sin().sum())
        return out, torch.autograd.grad(loss, [x, function.u.weight, function.u.bias])

    for is_alone in (True, False):
        torch.testing.assert_close(run(is_alone, **options), run(is_alone, trace=False))


class OfOneNumber(sv.VertexFunction):
    def __init__(self, width):
        super().__init__(s=1)
        self.q = nn.Linear(width, 1)

    def forward(self):
        x = self.pull()
        self.scatter(x.amax(1, keepdim=True) - self.q(x) + self.gather_sum().s)


def test_a_state_that_is_a_column():
    function = OfOneNumber(4).double()
    x = torch.randn(5, 4, dtype=torch.float64)
    found = sv.run(function, [sv.chain(5)], x).states["s"]
    wanted = (x.amax(1, keepdim=True) - function.q(x)).cumsum(0)
    torch.testing.assert_close(found, wanted)


class UnderAutocast(sv.VertexFunction):
    """Norms of what autocast narrows, with parameters that it does not."""

    def __init__(self, norm):
        super().__init__(h=8)
        self.u, self.norm = nn.Linear(8, 8), norm

    def forward(self):
        self.scatter(self.norm(self.u(self.gather_sum().h) + self.pull()).float())


@pytest.mark.parametrize("options", [{}, {"fuse": False}, {"lazy": False}], ids=str)
@pytest.mark.parametrize("norm", [nn.LayerNorm(8), nn.GroupNorm(2, 8)], ids=["layer", "group"])
def test_norms_under_autocast(norm, options):
    torch.manual_seed(0)
    function, x = UnderAutocast(norm), torch.randn(4, 8).bfloat16()

    def run(**options):
        with sv.options(**options), torch.autocast("cpu", torch.bfloat16):
            h = sv.run(function, [sv.chain(4)], x).states["h"]
        return h, torch.autograd.grad(h.sin().sum(), [*function.parameters()])

    torch.testing.assert_close(run(**options), run(trace=False), rtol=0.05, atol=0.05)


def test_what_is_no_number_at_leaves_stays_none():
    class Share(sv.VertexFunction):
        def forward(self):
            h = self.gather_sum().h
            self.scatter(h / h.sum(1, keepdim=True) + self.pull())

    function = Share(h=2)
    assert sv.run(function, [sv.chain(2)], torch.ones(2, 2)).states["h"].isnan().all()
