"""`smex.init`: values by place, the same for any number of workers, as torch's distributions are."""

import math

import pytest
import scipy.stats
import torch
from models import GPT, WResNet
from torch import nn
from torch.nn import functional as F

import smex
from smex.capture.swap import all_slots
from smex.distributed.world import World
from smex.execution.initialise.boxes import shape_of, whole_box
from smex.execution.initialise.run import recorded
from smex.execution.initialise.values import Values


def meta(make):
    with torch.device("meta"):
        return make()


def made(module, init_fn=None, seed=0):
    """By name a function that computes a box of what initialises a module's parameter."""
    slots = all_slots(module, None)
    kept = [slot.role == "buffer" and not slot.tensor.is_meta for slot in slots]
    views = recorded([module], slots, kept, init_fn, Values(seed).number)

    def computed(slot, view):
        def box_of(box=None):
            box = box or whole_box(slot.tensor.shape)
            out = torch.full(shape_of(box), math.nan).to(slot.tensor.dtype)
            Values(seed).fill(out, view, box)
            return out

        return box_of

    return {s.names[0]: computed(s, v) for s, v in zip(slots, views, strict=True) if v is not None}


class Weight(nn.Module):
    def __init__(self, *shape, dtype=torch.float32):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(shape, dtype=dtype, device="meta"))


def weight(change, *shape, seed=0, dtype=torch.float32):
    """What a function makes of a weight, by box."""
    return made(Weight(*shape, dtype=dtype), lambda m: change(m.weight), seed)["weight"]


# ---- the same in every box ----


def padding(w):
    nn.init.normal_(w)
    w[3].fill_(0)


def dt_bias(w):
    """Of Mamba: the inverse of softplus of times between two bounds."""
    dt = torch.exp(torch.rand(w.shape) * (math.log(0.1) - math.log(0.001)) + math.log(0.001))
    w.copy_(dt.clamp(min=1e-4) + torch.log(-torch.expm1(-dt)))


def gates(w):
    for gate, part in enumerate(w.chunk(4)):
        nn.init.constant_(part, gate) if gate % 2 else nn.init.uniform_(part)


def transposed(w):
    nn.init.normal_(w.t(), std=3)
    w.data[::2, 1:].mul_(-1)


def powers(w):
    w.uniform_(0.1, 2)
    w.pow_(1.7).sigmoid_()
    w.copy_(F.softplus(w) ** torch.tensor(0.3))


def flat(w):
    w.view(-1).copy_(torch.linspace(0, 1, w.numel()))


def sums(w):
    drawn = torch.randn(w.shape[0], 1).cumsum(0)
    w.copy_(drawn + torch.arange(w.shape[1]) / w.shape[1])


def integers(w):
    w.random_(5)
    w.add_(torch.randint(-2, 3, w.shape)).add_(torch.randint_like(w, 7)).add_(w.bernoulli(0.5))


def stacked(w):
    w.copy_(torch.cat([torch.randn(w.shape[0], 4), torch.zeros(w.shape[0], w.shape[1] - 4)], 1))


def expanded(w):
    w.copy_(torch.rand(w.shape[1]).expand_as(w))
    w.mul_(torch.normal(torch.zeros_like(w), torch.ones(1)))


CHANGES = {
    "uniform": nn.init.uniform_,
    "normal": lambda w: nn.init.normal_(w, 2, 0.1),
    "trunc_normal": lambda w: nn.init.trunc_normal_(w, std=0.7, a=-1, b=1.2),
    "xavier": lambda w: nn.init.xavier_uniform_(w, 2),
    "kaiming": lambda w: nn.init.kaiming_normal_(w, mode="fan_out", nonlinearity="relu"),
    "orthogonal": lambda w: nn.init.orthogonal_(w, 2),
    "sparse": lambda w: nn.init.sparse_(w, 0.3),
    "eye": nn.init.eye_,
    "ones": lambda w: nn.init.ones_(w).mul_(1 / math.sqrt(2 * 12)),
    "exponential": lambda w: w.exponential_(2),
    "log_normal": lambda w: w.log_normal_(),
    "cauchy": lambda w: w.cauchy_(),
    "geometric": lambda w: w.geometric_(0.3),
    "bernoulli": lambda w: w.bernoulli_(0.3),
    "data": lambda w: w.data.normal_().add_(torch.tensor([0.5])),
    **{f.__name__: f for f in (padding, dt_bias, gates, transposed, powers, flat, sums)},
    **{f.__name__: f for f in (integers, stacked, expanded)},
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("name", CHANGES)
def test_boxes_are_parts_of_the_whole(name, dtype):
    if name in ("orthogonal", "eye") and dtype is torch.bfloat16:
        pytest.skip("torch's QR and eye are of single and double precision")
    found = weight(CHANGES[name], 24, 37, dtype=dtype)
    whole = found()
    assert torch.isfinite(whole).all()
    for box in [((0, 1), (0, 37)), ((3, 24), (5, 6)), ((7, 19), (2, 35)), ((5, 5), (0, 2))]:
        (a, b), (c, d) = box
        assert torch.equal(found(box), whole[a:b, c:d])


@pytest.mark.parametrize("name", ["orthogonal", "sums", "powers", "trunc_normal"])
def test_threads_change_nothing(name):
    found = weight(CHANGES[name], 300, 400)
    before = torch.get_num_threads()
    results = []
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            results.append(found())
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    assert torch.equal(*results)


def test_long_chains_of_calls():
    def change(w):
        w.normal_()
        for n in range(400):
            w.mul_(0.999).add_(torch.full((), 1e-3 * n))

    found = weight(change, 6, 40)
    assert torch.equal(found(((2, 5), (7, 9))), found()[2:5, 7:9])


@pytest.mark.parametrize("shape", [(), (0, 3), (1,), (70_000,), (3, 50_000), (2, 3, 4, 5, 6)])
def test_any_shape_and_blocks(shape):
    found = weight(lambda w: w.uniform_().pow_(1.7).add_(torch.randn(shape)), *shape)
    whole = found()
    assert whole.shape == shape
    assert torch.isfinite(whole).all()
    if shape and shape[0] > 1:
        box = ((1, shape[0]), *whole_box(shape[1:]))
        assert torch.equal(found(box), whole[1:])


def test_convolutions_of_deltas_are_cut():
    found = weight(lambda w: nn.init.dirac_(w, 2), 24, 12, 3, 3)
    assert torch.equal(found(), nn.init.dirac_(torch.empty(24, 12, 3, 3), 2))
    assert torch.equal(found(((5, 9), (2, 8), (1, 3), (0, 3))), found()[5:9, 2:8, 1:3])


# ---- what torch promises ----


@pytest.mark.parametrize("seed", [0, 1, 2**62 + 3])
@pytest.mark.parametrize(
    ("change", "distribution"),
    [
        (lambda w: w.uniform_(-2, 3), scipy.stats.uniform(-2, 5)),
        (lambda w: w.normal_(1, 2), scipy.stats.norm(1, 2)),
        (lambda w: w.exponential_(3), scipy.stats.expon(scale=1 / 3)),
        (lambda w: w.log_normal_(0.5, 0.3), scipy.stats.lognorm(0.3, scale=math.exp(0.5))),
        (lambda w: w.cauchy_(1, 2), scipy.stats.cauchy(1, 2)),
        (
            lambda w: nn.init.trunc_normal_(w, 0.5, 2, -1, 3),
            scipy.stats.truncnorm(-0.75, 1.25, 0.5, 2),
        ),
        (
            lambda w: nn.init.trunc_normal_(w, 0, 1, 2.5, 4),
            scipy.stats.truncnorm(2.5, 4),
        ),
        (nn.init.xavier_normal_, scipy.stats.norm(0, math.sqrt(2 / 500))),
        (
            lambda w: nn.init.kaiming_uniform_(w, math.sqrt(5)),
            scipy.stats.uniform(-1 / math.sqrt(300), 2 / math.sqrt(300)),
        ),
    ],
)
def test_draws_are_of_the_distribution(change, distribution, seed):
    drawn = weight(change, 200, 300, seed=seed)().flatten().double().numpy()
    assert scipy.stats.kstest(drawn, distribution.cdf).pvalue > 1e-4
    assert abs(scipy.stats.pearsonr(drawn[:-1], drawn[1:]).statistic) < 0.03 or not math.isfinite(
        distribution.var()
    )


def test_bounds_of_truncated_draws():
    drawn = weight(lambda w: nn.init.trunc_normal_(w, std=2), 300, 300)()
    assert drawn.min() >= -2
    assert drawn.max() <= 2


def test_orthogonal_rows_and_sparse_columns():
    q = weight(lambda w: nn.init.orthogonal_(w, 3), 8, 4, 5, dtype=torch.float64)().flatten(1)
    torch.testing.assert_close(q @ q.T, 9 * torch.eye(8, dtype=torch.float64))
    sparse = weight(lambda w: nn.init.sparse_(w, 0.25), 40, 30)()
    assert ((sparse == 0).sum(0) == 10).all()
    assert len({tuple(column.tolist()) for column in (sparse == 0).T}) > 20


def test_what_draws_nothing_is_as_torch_computes_it():
    def change(w):
        waves = 10_000 ** (-torch.arange(0, 8) / 8)
        angles = torch.arange(6)[:, None] * waves
        w.copy_(torch.stack([angles.cos(), angles.sin()], -1).flatten(1))
        w[1:3, ::5] = torch.tensor(7.0)
        w.div_(torch.tensor([1.0, 3.0]).log1p().sum().item())

    real = torch.empty(6, 16)
    change(real)
    torch.testing.assert_close(weight(change, 6, 16)(), real)


# ---- nets ----


class Experts(nn.Module):
    """A gate and experts as one tensor, each token's by the gate's weights."""

    def __init__(self, width=8, experts=4, hidden=12):
        super().__init__()
        self.gate = nn.Linear(width, experts, bias=False)
        self.up = nn.Parameter(torch.empty(experts, width, hidden))
        self.down = nn.Parameter(torch.empty(experts, hidden, width))
        self.reset_parameters()

    def reset_parameters(self):
        for part in (self.up, self.down):
            for expert in part:
                nn.init.kaiming_uniform_(expert, a=math.sqrt(5))

    def forward(self, x):
        y = torch.einsum("nw,ewh->neh", x, self.up).relu()
        return torch.einsum("neh,ehw,ne->nw", y, self.down, self.gate(x).softmax(-1))


class Layered(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.head = nn.LSTM(6, 12, 2, batch_first=True), nn.Linear(12, 3)

    def forward(self, x):
        return self.head(self.lstm(x)[0])


def tokens(logits, targets):
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


FAMILIES = {
    "mlp": (
        lambda: nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Linear(24, 12)),
        lambda: (torch.randn(8, 12),),
        None,
    ),
    "wresnet": (WResNet.small, lambda: WResNet.small_inputs(torch.float32), F.cross_entropy),
    "lstm": (Layered, lambda: (torch.randn(8, 3, 6),), None),
    "gpt": (GPT.small, GPT.small_inputs, tokens),
    "attention": (
        lambda: nn.TransformerEncoderLayer(12, 3, 24, 0.0, batch_first=True),
        lambda: (torch.randn(4, 5, 12),),
        None,
    ),
    "experts": (Experts, lambda: (torch.randn(8, 8),), None),
}


def net_of(model, inputs, loss_fn, workers=2, **options):
    options = {"replicate_bytes": 0, **options}
    return smex.partition(model, workers=workers, args=inputs, loss_fn=loss_fn, **options)


def same(one, other):
    assert list(one) == list(other)
    for name, tensor in one.items():
        assert torch.equal(tensor, other[name]), name


@pytest.mark.costly(cases=2)
@pytest.mark.parametrize("family", FAMILIES)
def test_weights_are_the_same_for_any_number_of_workers(family):
    make, inputs, loss_fn = FAMILIES[family]
    net = net_of(make(), inputs(), loss_fn, workers=1)
    before = net.state_dict()
    smex.init(net, seed=7)
    wanted = net.state_dict()
    assert any(not torch.equal(before[name], wanted[name]) for name in wanted)
    for workers in (1, 2, 3, 4, 6, 8):
        net = net_of(meta(make), inputs(), loss_fn, workers=workers)
        smex.init(net, seed=7)
        same(wanted, net.state_dict())
    net = net_of(meta(make), inputs(), loss_fn, planner="fsdp", workers=3)
    smex.init(net, seed=7)
    same(wanted, net.state_dict())


@pytest.mark.parametrize("family", ["gpt", "wresnet", "lstm"])
def test_from_meta_to_a_plain_model(family):
    make, inputs, loss_fn = FAMILIES[family]
    batch = tuple(x.double() if x.is_floating_point() else x for x in inputs())
    net = net_of(meta(make).double(), batch, loss_fn)
    optimizer = torch.optim.AdamW(net.parameters(), 1e-3)
    smex.init(net, seed=3)
    plain = make().double()
    plain.load_state_dict(net.state_dict())
    other = torch.optim.AdamW(plain.parameters(), 1e-3)
    for _ in range(3):
        losses = []
        for module, each in ((net, optimizer), (plain, other)):
            whole = module is net or loss_fn is None
            out = module(*batch) if whole else loss_fn(module(*batch[:-1]), batch[-1])
            loss = out if out.dim() == 0 else out.square().mean()
            each.zero_grad()
            loss.backward()
            each.step()
            losses.append(loss.detach())
        torch.testing.assert_close(*losses, rtol=1e-6, atol=1e-9)
    again = make().double()
    again.load_state_dict(net.state_dict())
    assert torch.isfinite(again(*batch[: len(batch) - (loss_fn is not None)])).all()


def test_seeds_and_names_make_the_numbers():
    net = net_of(FAMILIES["mlp"][0](), (torch.randn(8, 12),), None)
    states = []
    for seed in (0, 0, 1):
        assert smex.init(net, seed) == {}
        states.append(net.state_dict())
    same(states[0], states[1])
    assert not torch.equal(states[0]["0.weight"], states[2]["0.weight"])
    longer = nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Linear(24, 12), nn.Linear(12, 12))
    net = net_of(longer, (torch.randn(8, 12),), None)
    smex.init(net, 0)
    found = net.state_dict()
    assert all(torch.equal(found[name], values) for name, values in states[0].items())
    assert not torch.equal(found["3.weight"], found["2.weight"][:, :12])


def test_init_fn_comes_last_and_children_first():
    order = []

    class Parent(nn.Sequential):
        def reset_parameters(self):
            nn.init.ones_(self[0].bias)

    def init_fn(module):
        order.append(type(module).__name__)
        if isinstance(module, nn.Linear) and module.out_features == 3:
            nn.init.trunc_normal_(module.weight, std=0.02)
            module.bias.zero_()

    model = meta(lambda: Parent(nn.Linear(12, 6), nn.Linear(6, 3)))
    net = net_of(model, (torch.randn(4, 12),), None)
    done = []
    smex.init(net, init_fn=init_fn, progress=lambda *each: done.append(each))
    state = net.state_dict()
    assert order == ["Linear", "Linear", "Parent"]
    assert (state["0.bias"] == 1).all()
    assert (state["1.bias"] == 0).all()
    assert state["1.weight"].abs().max() < 0.1
    assert done == [(name, n, 4) for n, name in enumerate(state, 1)]


def test_tied_weights_are_drawn_once():
    make, inputs, loss_fn = FAMILIES["gpt"]
    net = net_of(meta(make), inputs(), loss_fn)
    smex.init(net)
    state = net.state_dict()
    assert torch.equal(state["head.weight"], state["tokens.weight"])


def test_a_process_computes_its_own_tiles_alone():
    net = net_of(meta(FAMILIES["mlp"][0]), (torch.randn(8, 12),), None, workers=4)
    for parameter in net.parameters():
        parameter.data.fill_(-9)
    net._world = World(2, (0, 1, 2, 2))
    smex.init(net, seed=5)
    other = net_of(FAMILIES["mlp"][0](), (torch.randn(8, 12),), None, workers=1)
    smex.init(other, seed=5)
    for name, whole in other.state_dict().items():
        cut = net._state.cuts[name]
        for worker, (tile, (_, box)) in enumerate(zip(cut.tiles, cut.boxes, strict=True)):
            if worker >= 2:
                assert torch.equal(tile, whole[tuple(slice(*bounds) for bounds in box)])
            elif all(tile is not cut.tiles[other] for other in (2, 3)):
                assert (tile == -9).all()


# ---- models without values ----


class Positions(nn.Module):
    def __init__(self, width=12, persistent=False, resets=False):
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.resets = resets
        self.register_buffer("table", self.computed(width), persistent=persistent)

    @staticmethod
    def computed(width):
        return torch.arange(width).div(width).cos()

    def reset_parameters(self):
        if self.resets:
            self.table.copy_(self.computed(self.table.shape[0]))

    def forward(self, x):
        return self.linear(x) * self.table


def test_buffers_of_init_are_named_on_meta_and_kept_otherwise():
    x = torch.randn(4, 12)
    net = net_of(meta(Positions), (x,), None)
    with pytest.raises(smex.SmexRuntimeError, match=r'values to "table": .*Positions'):
        smex.init(net)
    nets = [
        net_of(Positions(), (x,), None),
        net_of(meta(lambda: Positions(resets=True)), (x,), None),
    ]
    for net in nets:
        smex.init(net, 1)
    assert torch.equal(nets[0](x), nets[1](x))
    smex.init(
        net_of(meta(Positions), (x,), None),
        init_fn=lambda m: m.table.zero_() if hasattr(m, "table") else None,
    )


def test_a_net_without_values_says_so():
    x = torch.randn(8, 12)
    make = FAMILIES["mlp"][0]
    early = smex.partition(meta(make), workers=2)
    for use in (early.state_dict, lambda: early.load_state_dict(make().state_dict())):
        with pytest.raises(smex.SmexRuntimeError, match=r"smex.init\(net, seed=0\), smex.load"):
            use()
    with pytest.raises(smex.SmexRuntimeError, match="args="):
        smex.init(early)
    net = net_of(meta(make), (x,), None)
    uses = [lambda: net(x), net.state_dict, lambda: net.apply(lambda m: None)]
    for use in [*uses, lambda: net.trace("unused.json", x)]:
        with pytest.raises(smex.SmexRuntimeError, match=r'"0.weight", .* smex.init\(net, seed=0\)'):
            use()
    state = make().state_dict()
    part = {name: tensor for name, tensor in state.items() if name != "2.bias"}
    net.load_state_dict(part, strict=False)
    with pytest.raises(smex.SmexRuntimeError, match='"2.bias" of a model'):
        net(x)
    net.load_state_dict(state)
    same(net.state_dict(), state)
    net(x)
    assert all(parameter.is_meta for parameter in net._model[0].parameters())


@pytest.mark.parametrize("keep_model", [True, False])
@pytest.mark.parametrize("workers", [1, 2])
def test_the_model_stays_on_meta(workers, keep_model):
    model = meta(FAMILIES["mlp"][0])
    x = torch.randn(8, 12)
    net = net_of(model, (x,), None, workers=workers, keep_model=keep_model)
    smex.init(net)
    net.eval()(x)
    model[0].weight.requires_grad_(False)
    net.train()(torch.randn(3, 12)).sum().backward()
    assert "0.weight" not in net.full_grads()
    model[2] = nn.Linear(24, 12)
    net(x)
    assert torch.equal(net.state_dict()["2.weight"], model[2].weight)
    model[2] = meta(lambda: nn.Linear(24, 12))
    with pytest.raises(smex.SmexRuntimeError, match=r'"2.weight", "2.bias" of a model'):
        net(x)
    smex.init(net)
    net(x)


# ---- errors ----


class Bad(nn.Linear):
    def __init__(self, change):
        nn.Linear.__init__(self, 4, 4)
        self.change = change

    def reset_parameters(self):
        if hasattr(self, "change"):
            super().reset_parameters()
            self.change(self)


def change_shape(module):
    module.weight = nn.Parameter(torch.zeros(5, 4))


def loops(module):
    while module.weight.abs().max() > 0.1:
        module.weight.normal_()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m.weight.fill_(m.bias.abs().max().item()), r"is read at test_init.py:\d+"),
        (loops, r"read at test_init.py:\d+ \(.item\(\), an if or a while\)"),
        (lambda m: m.weight[m.weight > 0].numel(), "Bad.reset_parameters reads values"),
        (change_shape, r'"weight" gets the shape \[5, 4\], its shards have \[4, 4\]'),
        (lambda m: m.weight.copy_(torch.zeros(3)), r"Bad.reset_parameters fails at test_init"),
        (lambda m: torch.multinomial(m.weight.abs(), 2), r"aten::multinomial at test_init.py"),
        (lambda m: m.weight.normal_(generator=torch.Generator()), "given a generator"),
        (lambda m: m.register_buffer("more", torch.zeros(2)), 'gets or loses "more"'),
        (lambda m: setattr(m, "kept", torch.zeros(2)), 'attribute "kept"'),
        (lambda m: m.weight.copy_(torch.empty(4, 4)), 'nothing gives values to "weight"'),
        (lambda m: setattr(m, "weight", nn.Parameter(m.weight.double())), "becomes torch.float64"),
    ],
)
def test_what_cannot_initialise(change, message):
    model = meta(lambda: Bad(change))
    net = net_of(model, (torch.randn(3, 4),), None)
    with pytest.raises(smex.SmexRuntimeError, match=message):
        smex.init(net)
    assert model.weight.is_meta
    assert model.weight.shape == (4, 4)
    assert set(model._buffers) == set()
    assert "kept" not in vars(model)


def test_parameters_without_a_method_are_named():
    class Scale(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.ones(4))

        def forward(self, x):
            return x * self.scale

    for model in (Scale(), meta(Scale)):
        net = net_of(model, (torch.randn(3, 4),), None)
        with pytest.raises(
            smex.SmexRuntimeError, match=r'"scale": give Scale a method reset_param'
        ):
            smex.init(net)
        smex.init(net, init_fn=lambda module: module.scale.fill_(2))
        assert (net.state_dict()["scale"] == 2).all()


def test_an_operator_that_fails_leaves_no_values():
    def change(module):
        module.bias.copy_(torch.bernoulli(module.weight[0] + 2))

    net = net_of(Bad(change), (torch.randn(3, 4),), None)
    x = torch.randn(3, 4)
    net(x)
    with pytest.raises(smex.SmexRuntimeError, match='computing "bias" fails: .*probabilities'):
        smex.init(net)
    with pytest.raises(smex.SmexRuntimeError, match='"bias" of a model on the meta device, or'):
        net(x)
    net._model[0].change = lambda module: None
    smex.init(net)
    net(x)


def test_half_a_parameter_is_not_enough():
    model = meta(lambda: Bad(lambda m: None))
    net = net_of(model, (torch.randn(3, 4),), None)
    model.change = lambda m: setattr(m, "weight", nn.Parameter(torch.empty(4, 4)))
    with pytest.raises(smex.SmexRuntimeError, match="Bad.reset_parameters does not set all"):
        smex.init(net)

    def halves(m):
        m.weight = nn.Parameter(torch.empty(4, 4))
        m.weight[:2].normal_()
        m.weight[2:, :3].zero_()
        if m.whole:
            m.weight[2:, 3:].fill_(1)

    model.change, model.whole = halves, False
    with pytest.raises(smex.SmexRuntimeError, match='values to "weight"'):
        smex.init(net)
    model.whole = True
    smex.init(net)
    assert net.state_dict()["weight"][2:].tolist() == [[0.0, 0.0, 0.0, 1.0]] * 2


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"seed": -1}, smex.SmexValueError),
        ({"seed": 2**63}, smex.SmexValueError),
        ({"seed": 1.0}, smex.SmexTypeError),
        ({"init_fn": 3}, smex.SmexTypeError),
        ({"net": nn.Linear(2, 2)}, smex.SmexTypeError),
    ],
)
def test_arguments(arguments, error):
    net = net_of(nn.Linear(4, 4), (torch.randn(3, 4),), None)
    with pytest.raises(error, match=r"^init: "):
        smex.init(**{"net": net, **arguments})
