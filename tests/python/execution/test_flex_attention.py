"""`flex_attention` as plain operators for some queries at a time."""

import math

import pytest
import torch
from torch.nn.attention import flex_attention as flex

import smex
from smex.capture import attention
from smex.errors import CaptureError

pytestmark = [
    pytest.mark.costly,
    pytest.mark.skipif(
        not hasattr(flex, "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG"), reason="an older torch"
    ),
]


class Layer(torch.nn.Module):
    """Scores by a trained bias of each head and distance; `dense` writes the same without flex."""

    def __init__(self, shared=4, mask_mod=None, lse=False, dense=False):
        super().__init__()
        self.shared, self.mask_mod, self.lse, self.dense = shared, mask_mod, lse, dense
        self.query, self.keys = torch.nn.Linear(16, 16), torch.nn.Linear(16, 8 * shared)
        self.bias = torch.nn.Parameter(torch.randn(4, 65))

    def forward(self, x):
        n, t, _ = x.shape
        q = self.query(x).view(n, t, 4, 4).transpose(1, 2)
        k, v = self.keys(x).view(n, t, 2, self.shared, 4).permute(2, 0, 3, 1, 4)
        out, lse = (self.products if self.dense else self.flex)(q, k, v)
        return (out * lse.unsqueeze(-1)).sum(1) if self.lse else out

    def flex(self, q, k, v):
        def score_mod(score, b, h, i, j):
            return torch.tanh(score) + self.bias[h, i - j + 32] * (b + 1)

        n, _, t, _ = q.shape
        mask = self.mask_mod and flex.create_block_mask(self.mask_mod, n, None, t, t, device="cpu")
        aux = flex.AuxRequest(lse=True) if self.lse else None
        made = flex.flex_attention(
            q, k, v, score_mod, mask, enable_gqa=self.shared < 4, return_aux=aux
        )
        return (made[0], made[1].lse) if self.lse else (made, None)

    def products(self, q, k, v):
        k, v = (t.repeat_interleave(4 // self.shared, 1) for t in (k, v))
        n, _, t, _ = q.shape
        b, i, j = torch.arange(n), torch.arange(t)[:, None], torch.arange(t)[None]
        score = torch.tanh(q @ k.transpose(-1, -2) / 2)
        score = score + self.bias[:, i - j + 32] * (b + 1)[:, None, None, None]
        if self.mask_mod:
            score = score.masked_fill(~self.mask_mod(b, None, i, j), -math.inf)
        return torch._safe_softmax(score, -1) @ v, score.logsumexp(-1)


def causal(b, h, i, j):
    return i >= j


def window(b, h, i, j):
    return (i - j).abs() < 3


KINDS = {
    "plain": {},
    "shared heads": {"shared": 2},
    "causal": {"mask_mod": causal},
    "window": {"mask_mod": window, "shared": 1},
    "sums": {"lse": True},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("workers", "blocks"), [(1, 1), (2, 3), (4, 2)])
def test_equals_the_products(kind, workers, blocks, monkeypatch):
    monkeypatch.setattr(attention, "_BLOCK_SCORES", -(-4 * 4 * 17 * 17 // blocks))
    torch.manual_seed(0)
    model = Layer(**KINDS[kind]).double()
    dense = Layer(**KINDS[kind], dense=True).double()
    dense.load_state_dict(model.state_dict())
    x = torch.randn(4, 17, 16).double()
    net = smex.partition(model, workers, args=(x,), replicate_bytes=0)
    for tokens in (17, 5):
        x = torch.randn(4, tokens, 16).double()
        wanted, found = dense(x), net(x)
        torch.testing.assert_close(found, wanted, rtol=1e-10, atol=1e-12)
        grad = torch.randn_like(wanted)
        expected = torch.autograd.grad(wanted, list(dense.parameters()), grad)
        net.zero_grad()
        found.backward(grad)
        for (name, _), theirs in zip(model.named_parameters(), expected, strict=True):
            torch.testing.assert_close(net.full_grads()[name], theirs, rtol=1e-9, atol=1e-11)
    with torch.no_grad():  # torch has no gradients of it on the CPU
        torch.testing.assert_close(net(x), model(x), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("workers", [1, 2])
def test_few_scores_are_stored(workers):
    tokens = 1024
    model = torch.nn.Sequential(Layer(), torch.nn.Flatten(1))
    model[0].bias = torch.nn.Parameter(torch.randn(4, 2 * tokens + 33))
    x = torch.randn(4, tokens, 16)
    net = smex.partition(model, workers, args=(x,))
    net(x).sum().backward()
    scores = 4 * 4 * tokens * tokens * 4
    stats = net.stats()
    assert max(stats["peak_bytes"]) < scores * (1.25 if workers == 1 else 1)
    for measured, predicted in zip(stats["peak_bytes"], stats["predicted_peak_bytes"], strict=True):
        assert 0.9 * predicted <= measured <= predicted


def test_what_torch_refuses_is_refused():
    class Wrong(torch.nn.Module):
        def forward(self, q, k):
            return flex.flex_attention(q, k, k)

    with pytest.raises(CaptureError, match="same number of heads"):
        smex.capture(Wrong(), (torch.randn(2, 4, 5, 8), torch.randn(2, 2, 5, 8)))


def test_a_score_of_a_value_is_refused():
    class Reads(torch.nn.Module):
        def forward(self, q):
            def score_mod(score, b, h, i, j):
                return score if score > 0 else -score

            return flex.flex_attention(q, q, q, score_mod)

    with pytest.raises(CaptureError, match="capture: .*test_flex_attention.py"):
        smex.capture(Reads(), torch.randn(2, 4, 5, 8))
