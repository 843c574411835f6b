"""Attention with dropout, trained masks and other shapes stays one call that stores no scores."""

import math

import pytest
import torch
from torch.nn import functional as F

import smex
from smex.errors import CaptureError

pytestmark = pytest.mark.costly


def products(q, k, v, mask=None, p=0.0, causal=False, scale=None):
    """The same as matrix products and a softmax, whose weights `F.dropout` drops."""
    groups = q.shape[-3] // k.shape[-3]
    k, v = k.repeat_interleave(groups, -3), v.repeat_interleave(groups, -3)
    score = q @ k.transpose(-1, -2) * (scale or 1 / math.sqrt(q.shape[-1]))
    if mask is not None and mask.dtype == torch.bool:
        mask = torch.zeros_like(mask, dtype=q.dtype).masked_fill(~mask, -math.inf)
    if mask is not None:
        score = score + mask
    if causal:
        seen = torch.ones(score.shape[-2:], dtype=torch.bool).tril()
        score = score.masked_fill(~seen, -math.inf)
    return F.dropout(torch._safe_softmax(score, -1), p) @ v


class Block(torch.nn.Module):
    """A layer of attention; `dense` is how the same is written without the fused call."""

    heads, shared = 4, 4

    def __init__(self, p=0.0, dense=False):
        super().__init__()
        self.p, self.dense = p, dense
        self.query, self.out = torch.nn.Linear(32, 32), torch.nn.Linear(32, 32)
        self.keys = torch.nn.Linear(32, 64 * self.shared // self.heads)
        self.norm = torch.nn.LayerNorm(32)

    def attend(self, q, k, v, mask=None, causal=False, scale=None):
        p = self.p if self.training else 0.0
        if self.dense:
            return products(q, k, v, mask, p, causal, scale)
        return F.scaled_dot_product_attention(
            q, k, v, mask, p, causal, scale=scale, enable_gqa=self.shared < self.heads
        )

    def project(self, x):
        n, t, _ = x.shape
        q = self.query(x).view(n, t, self.heads, -1).transpose(1, 2)
        k, v = self.keys(x).view(n, t, 2, self.shared, -1).permute(2, 0, 3, 1, 4)
        return q, k, v

    def finish(self, x, y):
        return self.norm(x + self.out(y.transpose(1, 2).reshape(x.shape)))


class Gpt(Block):
    def forward(self, x):
        return self.finish(x, self.attend(*self.project(x), causal=True))


class Bert(Block):
    """Padding: the last keys of each sequence are hidden."""

    def forward(self, x):
        t = x.shape[1]
        lengths = t - torch.arange(x.shape[0]) % (t // 2)
        mask = (torch.arange(t) < lengths[:, None])[:, None, None]
        return self.finish(x, self.attend(*self.project(x), mask))


class T5(Block):
    """A bias for each head and distance, by buckets, which is trained; no scale."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.bias = torch.nn.Embedding(8, self.heads)

    def forward(self, x):
        place = torch.arange(x.shape[1])
        bucket = (place[None] - place[:, None]).clamp(-4, 3) + 4
        mask = self.bias(bucket).permute(2, 0, 1)[None]
        return self.finish(x, self.attend(*self.project(x), mask, scale=1.0))


class Swin(Block):
    """Windows of 8 tokens, with a trained bias and a mask of its own for each window."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.bias = torch.nn.Parameter(torch.randn(self.heads, 8, 8))

    def forward(self, x):
        n, t, d = x.shape
        windows = x.view(n * t // 8, 8, d)
        place = torch.arange(t).view(-1, 8) % 5
        shifted = torch.zeros(t // 8, 8, 8, dtype=x.dtype)
        shifted = shifted.masked_fill(place[:, None] != place[:, :, None], -3.0)
        mask = self.bias[None] + shifted.repeat(n, 1, 1)[:, None]
        y = self.attend(*self.project(windows), mask)
        return self.finish(windows, y).view(x.shape)


class Mistral(Block):
    """Heads that share keys, and a sliding window."""

    shared = 2

    def forward(self, x):
        place = torch.arange(x.shape[1])
        away = place[:, None] - place[None]
        return self.finish(x, self.attend(*self.project(x), (away >= 0) & (away < 5)))


class Alibi(Block):
    """A trained slope for each head, beside what is hidden."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.slope = torch.nn.Parameter(torch.rand(self.heads, 1, 1))

    def forward(self, x):
        place = torch.arange(x.shape[1])
        away = place[:, None] - place[None]
        hidden = torch.zeros(away.shape, dtype=x.dtype).masked_fill(away < 0, -math.inf)
        return self.finish(x, self.attend(*self.project(x), hidden - self.slope * away.abs()))


KINDS = [Gpt, Bert, T5, Swin, Mistral, Alibi]


def loss_fn(y, target):
    return F.mse_loss(y, target)


def batch(tokens=16, rows=4):
    return torch.randn(rows, tokens, 32).double(), torch.randn(rows, tokens, 32).double()


def model_of(kind, **options):
    torch.manual_seed(3)
    return torch.nn.Sequential(kind(**options), kind(**options)).double()


def gradients(net, *args, seed=9):
    torch.manual_seed(seed)
    net.zero_grad()
    loss = net(*args)
    loss.backward()
    return loss.detach(), net.full_grads()


def assert_equal(found, wanted):
    torch.testing.assert_close(found[0], wanted[0], rtol=1e-10, atol=1e-12)
    for name, grad in wanted[1].items():
        torch.testing.assert_close(found[1][name], grad, rtol=1e-9, atol=1e-11)


def calls(net, *args):
    """How often each operator is called in the graph of a call."""
    return [op.target for op in smex.capture(net, args).ops]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("workers", "cut"), [(1, None), (2, 0), (3, 1), (4, None)])
def test_journeys(kind, workers, cut):
    """Train, evaluate, other sizes, train: equal to the products at every station."""
    model, dense = model_of(kind, p=0.3), model_of(kind, p=0.3, dense=True)
    x, target = batch()
    pins = {} if cut is None else {"input": cut}
    how = {"loss_fn": loss_fn, "args": (x, target)}
    net = smex.partition(model, workers, pins=pins, replicate_bytes=0, **how)
    whole = smex.partition(dense, 1, **how)
    assert_equal(gradients(net, x, target), gradients(whole, x, target))
    net.eval()
    dense.eval()
    with torch.no_grad():
        torch.testing.assert_close(
            net(x, target), loss_fn(dense(x), target), rtol=1e-10, atol=1e-12
        )
    net.train()
    dense.train()
    if workers == 2:
        other = batch(tokens=8)
        assert_equal(gradients(net, *other), gradients(whole, *other))
    assert_equal(gradients(net, x, target, seed=5), gradients(whole, x, target, seed=5))


@pytest.mark.parametrize("kind", KINDS)
def test_no_scores_in_the_graph(kind):
    model = model_of(kind, p=0.3)
    found = calls(model, batch()[0])
    assert found.count("smex::scaled_dot_product") == 2
    assert found.count("smex::scaled_dot_product_backward") == 2
    assert not {"aten::_softmax", "aten::bmm", "smex::dropout_mask"} & set(found)


@pytest.mark.parametrize("kind", KINDS)
def test_parameters_after_training(kind):
    model, dense = model_of(kind), model_of(kind, dense=True)
    net = smex.partition(model, 3, loss_fn=loss_fn, args=batch())
    mine = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    theirs = torch.optim.SGD(dense.parameters(), lr=0.1, momentum=0.9)
    for _ in range(3):
        x, target = batch()
        mine.zero_grad()
        net(x, target).backward()
        mine.step()
        theirs.zero_grad()
        loss_fn(dense(x), target).backward()
        theirs.step()
    for name, value in dense.state_dict().items():
        torch.testing.assert_close(net.state_dict()[name], value, rtol=1e-9, atol=1e-11)


def test_two_calls_draw_different_weights():
    model, dense = model_of(Gpt, p=0.5), model_of(Gpt, p=0.5, dense=True)
    x, target = batch()
    net = smex.partition(model, 2, loss_fn=loss_fn, args=(x, target))
    whole = smex.partition(dense, 1, loss_fn=loss_fn, args=(x, target))
    torch.manual_seed(1)
    first, second = net(x, target).item(), net(x, target).item()
    assert first != second
    torch.manual_seed(1)
    assert first == pytest.approx(whole(x, target).item(), rel=1e-12)
    assert second == pytest.approx(whole(x, target).item(), rel=1e-12)


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_a_checkpoint_draws_the_same_again(workers):
    class Checkpointed(torch.nn.Module):
        def __init__(self, dense):
            super().__init__()
            self.inner = model_of(T5, p=0.4, dense=dense)

        def forward(self, x):
            return torch.utils.checkpoint.checkpoint(self.inner, x, use_reentrant=False)

    x, target = batch()
    how = {"loss_fn": loss_fn, "args": (x, target)}
    net = smex.partition(Checkpointed(False), workers, **how)
    whole = smex.partition(Checkpointed(True), 1, **how)
    assert_equal(gradients(net, x, target), gradients(whole, x, target))


class Cross(torch.nn.Module):
    """Queries of one tensor, keys and values of another; what is trained broadcasts as asked."""

    def __init__(self, mask=None, p=0.0, dense=False):
        super().__init__()
        self.p, self.dense = p, dense
        self.query, self.keys = torch.nn.Linear(16, 16), torch.nn.Linear(16, 32)
        self.mask = None if mask is None else torch.nn.Parameter(mask.clone())

    def forward(self, x, memory):
        n, t, _ = x.shape
        q = self.query(x).view(n, t, 2, -1).transpose(1, 2)
        k, v = self.keys(memory).view(n, memory.shape[1], 2, 2, -1).permute(2, 0, 3, 1, 4)
        if self.dense:
            y = products(q, k, v, self.mask, self.p)
        else:
            y = F.scaled_dot_product_attention(q, k, v, self.mask, self.p)
        return y.transpose(1, 2).reshape(n, t, 16)


MASKS = {
    "none": None,
    "queries and keys": (4, 384),
    "heads": (1, 2, 4, 384),
    "all heads": (1, 1, 4, 384),
    "keys": (1, 1, 1, 384),
    "queries": (4, 1),
}


@pytest.mark.parametrize("kind", MASKS)
@pytest.mark.parametrize(("workers", "p"), [(2, 0.4), (3, 0.0), (4, 0.4)])
def test_keys_are_cut(kind, workers, p, tmp_path):
    torch.manual_seed(2)
    mask = None if MASKS[kind] is None else torch.randn(MASKS[kind]).double()
    x, memory = torch.randn(1, 4, 16).double(), torch.randn(1, 384, 16).double()
    args = (x, memory, torch.randn(1, 4, 16).double())
    models = []
    for dense in (False, True):
        torch.manual_seed(4)
        models.append(Cross(mask, p, dense).double())
    pins = {"memory": 1, "x": "R"} | ({"mask": len(mask.shape) - 1} if kind == "keys" else {})
    net = smex.partition(
        models[0], workers, loss_fn=loss_fn, args=args, replicate_bytes=0, pins=pins
    )
    whole = smex.partition(models[1], 1, loss_fn=loss_fn, args=args)
    for seed in (1, 2):
        assert_equal(gradients(net, *args, seed=seed), gradients(whole, *args, seed=seed))
    net.trace(tmp_path / "trace.json", *args)
    assert (tmp_path / "trace.json").read_text().count("weigh_part") >= workers
    stats = net.stats()
    assert stats["bytes_moved"] == stats["predicted_bytes_moved"]


class Plain(torch.nn.Module):
    """One call on tensors that are inputs and parameters."""

    def __init__(self, **options):
        super().__init__()
        self.options = options
        self.gain = torch.nn.Parameter(torch.ones(()))

    def forward(self, q, k, v, mask=None):
        return F.scaled_dot_product_attention(q * self.gain, k, v, mask, **self.options)


R = torch.randn
SHAPES = {
    "one head": (R(5, 7, 8), R(5, 9, 8), R(5, 9, 8), None),
    "one head and a mask": (R(5, 7, 8), R(5, 9, 8), R(5, 9, 8), R(5, 1, 9)),
    "one sequence": (R(7, 8), R(9, 8), R(9, 8), R(7, 9)),
    "more batches": (R(2, 3, 4, 7, 8), R(2, 3, 4, 9, 8), R(2, 3, 4, 9, 8), R(3, 1, 7, 9)),
    "a mask of batches": (R(2, 3, 4, 7, 8), R(2, 3, 4, 9, 8), R(2, 3, 4, 9, 8), R(2, 1, 4, 1, 9)),
    "other values": (R(2, 4, 7, 8), R(2, 4, 9, 8), R(2, 4, 9, 5), None),
    "one query": (R(2, 4, 1, 8), R(2, 4, 9, 8), R(2, 4, 9, 8), R(1, 9)),
    "one key": (R(2, 4, 7, 8), R(2, 4, 1, 8), R(2, 4, 1, 8), R(7, 1)),
    "no query": (R(2, 4, 0, 8), R(2, 4, 9, 8), R(2, 4, 9, 8), None),
    "no key": (R(2, 4, 7, 8), R(2, 4, 0, 8), R(2, 4, 0, 8), None),
    "no sample": (R(0, 4, 7, 8), R(0, 4, 9, 8), R(0, 4, 9, 8), None),
    "shared batch": (R(3, 4, 7, 8), R(1, 4, 9, 8), R(1, 1, 9, 8), R(7, 9) > 0),
    "numbers of a width": (R(2, 4, 7, 8), R(2, 4, 9, 8), R(2, 4, 9, 8), R(9)),
}


@pytest.mark.parametrize("kind", SHAPES)
@pytest.mark.parametrize(("workers", "p"), [(1, 0.0), (2, 0.0), (2, 1.0)])
def test_shapes(kind, workers, p):
    *given, mask = (t if t is None or t.dtype == torch.bool else t.double() for t in SHAPES[kind])
    trained = mask is not None and mask.is_floating_point()
    tensors = [t.clone().requires_grad_() for t in given]
    if mask is not None:
        tensors.append(mask.clone().requires_grad_(trained))
    model = Plain(dropout_p=p)
    assert "smex::scaled_dot_product" in calls(model, *tensors)
    net = smex.partition(model, workers, args=tuple(tensors), replicate_bytes=0)
    wanted = model(*tensors)
    found = net(*tensors)
    torch.testing.assert_close(found, wanted, rtol=1e-10, atol=1e-12)
    grad = torch.randn_like(wanted)
    leaves = [t for t in tensors if t.requires_grad]
    expected = torch.autograd.grad(wanted, [*leaves, model.gain], grad)
    for tensor in leaves:
        tensor.grad = None
    found.backward(grad)
    for tensor, theirs in zip(leaves, expected[:-1], strict=True):
        torch.testing.assert_close(tensor.grad, theirs, rtol=1e-9, atol=1e-11)
    torch.testing.assert_close(net.full_grads()["gain"], expected[-1], rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("heads", [(6, 3, 3), (6, 2, 3), (6, 1, 1), (6, 6, 6)])
def test_heads_share_keys(heads):
    q, k, v = (torch.randn(2, h, 7, 8).double().requires_grad_() for h in heads)
    mask = torch.randn(1, 6, 7, 7).double().requires_grad_()
    model = Plain(enable_gqa=True)
    net = smex.partition(model, 2, args=(q, k, v, mask), replicate_bytes=0)
    wanted, found = model(q, k, v, mask), net(q, k, v, mask)
    torch.testing.assert_close(found, wanted, rtol=1e-10, atol=1e-12)
    grad = torch.randn_like(wanted)
    expected = torch.autograd.grad(wanted, (q, k, v, mask), grad)
    found.backward(grad)
    for tensor, theirs in zip((q, k, v, mask), expected, strict=True):
        torch.testing.assert_close(tensor.grad, theirs, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("mask", [(6, 7, 9), (6, 1, 9), (7, 9)])
def test_heads_share_keys_without_a_batch(mask):
    q, k, v = (torch.randn(h, t, 8).double() for h, t in ((6, 7), (2, 9), (2, 9)))
    mask = torch.randn(mask).double()
    model = Plain(enable_gqa=True)
    found = smex.partition(model, 2, args=(q, k, v, mask), replicate_bytes=0)(q, k, v, mask)
    torch.testing.assert_close(found, model(q, k, v, mask), rtol=1e-10, atol=1e-12)
    assert "smex::scaled_dot_product" in calls(model, q, k, v, mask)


@pytest.mark.parametrize("p", [0.0, 1.0])
def test_queries_that_see_nothing_are_as_in_torch(p):
    q, k, v = (torch.randn(2, 3, 6, 8).double().requires_grad_() for _ in range(3))
    mask = torch.randn(6, 6).double()
    mask[2] = -math.inf
    mask.requires_grad_()
    model = Plain(dropout_p=p)
    net = smex.partition(model, 2, args=(q, k, v, mask), replicate_bytes=0)
    wanted, found = model(q, k, v, mask), net(q, k, v, mask)
    torch.testing.assert_close(found, wanted)
    expected = torch.autograd.grad(wanted.square().sum(), (q, k, v, mask))
    found.square().sum().backward()
    for tensor, theirs in zip((q, k, v, mask), expected, strict=True):
        torch.testing.assert_close(tensor.grad, theirs)


def test_halves_and_autocast():
    x = torch.randn(2, 9, 32)
    for kind in (Gpt, T5):
        model = model_of(kind).float()
        net = smex.partition(model, 2, args=(x,))
        torch.testing.assert_close(net(x), model(x), rtol=1e-4, atol=1e-5)

        class Cast(torch.nn.Module):
            def __init__(self, inner):
                super().__init__()
                self.inner = inner

            def forward(self, x):
                with torch.autocast("cpu", torch.bfloat16):
                    return self.inner(x).float()

        cast = Cast(model)
        found = smex.partition(cast, 2, args=(x,))(x)
        torch.testing.assert_close(found, cast(x), rtol=0.03, atol=0.03)


def test_gradients_of_gradients():
    class Penalised(torch.nn.Module):
        def __init__(self, p=0.0):
            super().__init__()
            self.block = T5(p).double()

        def forward(self, x):
            x = x.requires_grad_()
            y = self.block(x).square().sum()
            (slope,) = torch.autograd.grad(y, x, create_graph=True)
            return y + slope.square().sum()

    class Dense(Penalised):
        def __init__(self):
            super().__init__()
            self.block.dense = True

    torch.manual_seed(0)
    model, dense = Penalised(), Dense()
    dense.load_state_dict(model.state_dict())
    x = batch()[0]
    net = smex.partition(model, 2, args=(x,))
    net(x).backward()
    wanted = torch.autograd.grad(dense(x.clone()), list(dense.parameters()))
    for (name, _), theirs in zip(dense.named_parameters(), wanted, strict=True):
        torch.testing.assert_close(net.full_grads()[name], theirs, rtol=1e-9, atol=1e-10)
    with pytest.raises(CaptureError, match="attention with dropout is differentiated again"):
        smex.capture(Penalised(0.5), x)


@pytest.mark.parametrize(
    ("options", "shapes", "message"),
    [
        (
            {"is_causal": True},
            [(2, 4, 7, 8)] * 3 + [(7, 7)],
            "is_causal|causal attention takes no mask",
        ),
        ({"dropout_p": 1.5}, [(2, 4, 7, 8)] * 3, "p must be in .0, 1., found 1.5"),
        ({"enable_gqa": True}, [(2, 4, 7, 8), (2, 3, 7, 8), (2, 3, 7, 8)], "number of heads"),
        ({}, [(2, 4, 7, 8)] * 3 + [(3, 1, 7, 7)], "failed"),
    ],
)
def test_what_torch_refuses_is_refused(options, shapes, message):
    with pytest.raises(CaptureError, match=message):
        smex.capture(Plain(**options), tuple(torch.randn(shape) for shape in shapes))


@pytest.mark.parametrize("kind", [Gpt, T5])
@pytest.mark.parametrize("workers", [1, 2])
def test_memory_is_that_of_the_fused_call(kind, workers):
    tokens = 1024
    x, target = (torch.randn(1, tokens, 32) for _ in range(2))
    peaks = {}
    for p in (0.0, 0.2):
        model = kind(p)
        net = smex.partition(model, workers, loss_fn=loss_fn, args=(x, target))
        net(x, target).backward()
        stats = net.stats()
        for measured, predicted in zip(
            stats["peak_bytes"], stats["predicted_peak_bytes"], strict=True
        ):
            assert 0.95 * predicted <= measured <= predicted
        peaks[p] = max(stats["peak_bytes"])
    assert peaks[0.2] == pytest.approx(peaks[0.0], rel=0.01)
    if kind is Gpt:
        assert peaks[0.2] < 4 * tokens * tokens * 4 / 2
