"""Activation checkpoints: what they save, and that nothing else changes."""

import functools

import pytest
import torch
from pairs import WIDTH, Calls, both, close, pair, rows, same_grads, same_state
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    checkpoint_sequential,
    create_selective_checkpoint_contexts,
)

import smex


class Block(nn.Module):
    def __init__(self, width=WIDTH, dropout=0.0):
        super().__init__()
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.norm, self.dropout = nn.LayerNorm(width), nn.Dropout(dropout)

    def forward(self, x):
        return x + self.dropout(self.down(F.gelu(self.up(self.norm(x)))))


class Deep(nn.Module):
    def __init__(self, depth=4, saves=True, reentrant=False, width=WIDTH, dropout=0.0):
        super().__init__()
        self.blocks = nn.ModuleList(Block(width, dropout) for _ in range(depth))
        self.saves, self.reentrant = saves, reentrant

    def forward(self, x):
        for block in self.blocks:
            saves = self.saves and self.training
            x = checkpoint(block, x, use_reentrant=self.reentrant) if saves else block(x)
        return x


def step(net, x):
    net.zero_grad()
    torch.manual_seed(3)
    loss = net(x).square().mean()
    loss.backward()
    return loss.detach()


@pytest.mark.parametrize("reentrant", [True, False])
@pytest.mark.parametrize("workers", [1, 2, 4])
def test_values_and_gradients_stay(workers, reentrant):
    net, plain = pair(Deep(reentrant=reentrant), workers=workers)
    x = rows(8).requires_grad_()
    close(step(net, x), step(plain, x))
    same_grads(net, plain)


@pytest.mark.parametrize("workers", [1, 2])
def test_less_is_kept_as_predicted(workers):
    peaks = {}
    for saves in (False, True):
        net = smex.partition(Deep(8, saves), workers=workers)
        step(net, rows(256).float())
        stats = net.stats()
        peaks[saves] = stats["peak_bytes"]
        assert stats["bytes_moved"] == stats["predicted_bytes_moved"] == net.plan.total_bytes
        if workers == 1:
            assert stats["peak_bytes"] == net.plan.peak_bytes()
        else:
            assert all(map(int.__le__, stats["peak_bytes"], net.plan.peak_bytes()))
    assert max(peaks[True]) < 0.5 * max(peaks[False])


def test_masks_are_drawn_alike_both_times():
    nets = [smex.partition(Deep(3, saves, dropout=0.5), workers=2) for saves in (False, True)]
    nets[1].prepare((rows().float(),))
    nets[0].prepare((rows().float(),))
    nets[1].load_state_dict(nets[0].state_dict())
    x = rows(16).float()
    losses = [step(net, x) for net in nets]
    assert losses[0] == losses[1]
    grads = [net.full_grads() for net in nets]
    for name, grad in grads[0].items():
        torch.testing.assert_close(grads[1][name], grad)


def test_what_runs_again_is_moved_again():
    """Tensor parallelism: the sums of the second products are needed once more."""
    moved = {}
    for saves in (False, True):
        model = nn.Sequential(nn.Linear(WIDTH, 64), nn.ReLU(), nn.Linear(64, WIDTH), nn.GELU())
        if saves:
            model = Calls(lambda s, x: checkpoint(s.inner, x, use_reentrant=False), inner=model)
        pins = [smex.pin("*0.weight", "S0"), smex.pin("*2.weight", "S1")]
        net = smex.partition(model, workers=2, pins=pins)
        net(rows(4).float()).square().sum().backward()
        stats = net.stats()
        assert stats["bytes_moved"] == stats["predicted_bytes_moved"] == net.plan.total_bytes
        moved[saves] = stats["bytes_moved"]
    assert moved[True] > moved[False]


def test_training_evaluation_training():
    net, plain = pair(Deep())
    optimisers = [torch.optim.AdamW(m.parameters(), lr=1e-2) for m in (plain,)]
    x = rows(8)
    net.prepare((x,))
    optimisers.append(torch.optim.AdamW(net.parameters(), lr=1e-2))
    for mode in (True, False, True):
        net.train(mode), plain.train(mode)
        for model, optimiser in zip((plain, net), optimisers, strict=True):
            step(model, x)
            optimiser.step()
        with torch.no_grad():
            both(net, plain, x)
    same_state(net, plain)


def test_running_statistics_count_a_batch_once():
    block = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.BatchNorm1d(WIDTH), nn.ReLU())
    # Eager's checkpoint counts a batch twice where its region has batch normalization.
    net, plain = pair(
        Calls(lambda self, x: checkpoint(self.block, x, use_reentrant=False), block=block)
    )
    x = rows()
    step(net, x)
    plain.block(x).square().mean().backward()
    same_grads(net, plain)
    same_state(net, plain)


def test_a_module_used_twice_and_a_checkpoint_in_another():
    def forward(self, x):
        inner = lambda y: checkpoint(self.block, self.block(y), use_reentrant=False)  # noqa: E731
        return checkpoint(inner, checkpoint(self.block, x, use_reentrant=False), use_reentrant=True)

    net, plain = pair(Calls(forward, block=Block()))
    x = rows().requires_grad_()
    close(step(net, x), step(plain, x))
    same_grads(net, plain)


def test_checkpoint_sequential():
    layers = nn.Sequential(*(Block() for _ in range(4)))
    net, plain = pair(
        Calls(
            lambda s, x: checkpoint_sequential(s.layers, 2, x, use_reentrant=False), layers=layers
        )
    )
    x = rows()
    close(step(net, x), step(plain, x))
    same_grads(net, plain)


def test_several_results_and_inputs():
    def part(self, x, y, scale=1.0):
        hidden = torch.sin(x @ self.w) * scale
        return hidden, {"sum": hidden + y, "product": hidden.exp() * y}

    def forward(self, x, y):
        first, rest = checkpoint(
            functools.partial(part, self), x, y, use_reentrant=False, scale=0.5
        )
        return first.tanh() + rest["sum"] * rest["product"]

    net, plain = pair(Calls(forward, w=nn.Parameter(torch.randn(WIDTH, WIDTH))))
    x, y = rows().requires_grad_(), rows().requires_grad_()
    found, wanted = net(x, y), plain(x, y)
    close(found, wanted)
    grads = [torch.autograd.grad(out.sum(), (x, y)) for out in (found, wanted)]
    close(grads[0], grads[1])


def test_an_input_changed_before_the_backward_pass_is_noticed():
    net, _ = pair(Deep())
    x = rows()
    loss = net(x).sum()
    x.zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_a_policy_of_what_is_saved_is_told():
    saves = functools.partial(
        create_selective_checkpoint_contexts,
        lambda *_, **__: CheckpointPolicy.MUST_SAVE,
    )
    net, plain = pair(
        Calls(
            lambda s, x: checkpoint(s.block, x, use_reentrant=False, context_fn=saves),
            block=Block(),
        )
    )
    x = rows()
    with pytest.warns(smex.CaptureWarning, match="policy of .* at test_checkpoints.py"):
        found = net(x)
    close(found, plain(x))


def test_without_gradients_nothing_runs_twice():
    net, plain = pair(Deep())
    with torch.no_grad():
        both(net, plain, rows())
    assert net.stats()["backward_seconds"] == 0


def test_a_saved_plan_is_that_of_the_regions(tmp_path):
    x = rows(64).float()
    first = smex.partition(Deep(), workers=2, args=(x,))
    first.plan.save(tmp_path / "plan.json")
    again = smex.partition(Deep(), plan=tmp_path / "plan.json", workers=2, args=(x,))
    assert again.plan.peak_bytes() == first.plan.peak_bytes()
    assert again.plan.total_bytes == first.plan.total_bytes
