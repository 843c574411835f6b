"""Plans that compute repeated modules once more rather than keep what they made."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import smex


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(x)))


def model(depth=6, width=32):
    torch.manual_seed(0)
    return nn.Sequential(*(Block(width) for _ in range(depth)))


def batch(rows=256, width=32):
    return torch.randn(rows, width), torch.randn(rows, width)


def captured():
    return smex.capture_graph(model(), batch(), loss_fn=F.mse_loss)


def again(plan):
    return sum(plan.graph.native.runs_again())


@pytest.mark.costly(cases=1)
@pytest.mark.parametrize("workers", [1, 2, 4])
def test_a_limit_is_kept_by_computing_again(workers):
    graph = captured()
    free = smex.search(graph, workers, replicate_bytes=0)
    most = max(free.peak_bytes())
    counts = []
    for share in (0.8, 0.6, 0.5):
        plan = smex.search(graph, workers, memory_limit=share * most)
        assert max(plan.peak_bytes()) <= share * most
        assert ("run again" in repr(plan)) == (again(plan) > 0)
        counts.append(again(plan))
    assert counts[-1] > 0
    assert again(free) == 0
    assert not any(graph.native.runs_again()), "the graph that was searched stays"


def test_only_checkpoints_if_asked():
    graph = captured()
    limit = 0.5 * max(smex.search(graph, 1).peak_bytes())
    smex.search(graph, 1, memory_limit=limit, recompute="auto")
    with pytest.raises(smex.PlanError, match="the smallest found takes"):
        smex.search(graph, 1, memory_limit=limit, recompute="checkpoints")
    with pytest.raises(smex.PlanError, match='unknown recompute True; known are "auto"'):
        smex.search(graph, 1, recompute=True)


@pytest.mark.parametrize("workers", [1, 2])
def test_values_stay(workers):
    net_model, plain = model(), model()
    x, y = batch()
    limit = 0.45 * max(smex.search(captured(), workers).peak_bytes())
    net = smex.partition(
        net_model, workers=workers, loss_fn=F.mse_loss, memory_limit=limit, args=(x, y)
    )
    assert again(net.plan) > 0
    optimisers = [torch.optim.SGD(m.parameters(), lr=0.1) for m in (net, plain)]
    for _ in range(3):
        losses = [net(x, y), F.mse_loss(plain(x), y)]
        torch.testing.assert_close(*losses)
        for loss, optimiser in zip(losses, optimisers, strict=True):
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        stats = net.stats()
        assert max(stats["peak_bytes"]) <= limit
        assert stats["bytes_moved"] == stats["predicted_bytes_moved"] == net.plan.total_bytes
    for name, tensor in plain.state_dict().items():
        torch.testing.assert_close(net.state_dict()[name], tensor)
    net.eval()
    with torch.no_grad():
        torch.testing.assert_close(net(x, y), F.mse_loss(plain(x), y))


def test_a_changed_input_is_noticed():
    x, y = batch()
    limit = 0.45 * max(smex.search(captured(), 1).peak_bytes())
    net = smex.partition(model(), workers=1, loss_fn=F.mse_loss, memory_limit=limit, args=(x, y))
    loss = net(x, y)
    x.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_plans_are_saved_with_what_runs_again(tmp_path):
    graph = captured()
    limit = 0.5 * max(smex.search(graph, 2).peak_bytes())
    plan = smex.search(graph, 2, memory_limit=limit)
    plan.save(tmp_path / "plan.json")
    for other in (graph, captured()):
        loaded = smex.Plan.load(tmp_path / "plan.json", other)
        assert again(loaded) == again(plan) > 0
        assert loaded.peak_bytes() == plan.peak_bytes()
        assert loaded.total_bytes == plan.total_bytes
    net = smex.partition(model(), plan=plan, loss_fn=F.mse_loss, args=batch())
    assert net.plan.peak_bytes() == plan.peak_bytes()
    net(*batch()).backward()
    assert max(net.stats()["peak_bytes"]) <= limit
    assert "rejected" in plan.explain("0.up.weight")


def test_time_prices_what_runs_again():
    graph = captured()
    machine = smex.Machine.h100_nvlink()
    options = {"objective": "time", "machine": machine}
    free = smex.search(graph, 2, **options)
    limit = 0.6 * max(free.peak_bytes())
    plan = smex.search(graph, 2, memory_limit=limit, **options)
    assert again(plan) > 0
    assert free.seconds < plan.seconds < 1.5 * free.seconds
    assert plan.compute_seconds > free.compute_seconds
    try:
        kept = smex.search(graph, 2, memory_limit=limit, recompute="checkpoints", **options)
    except smex.PlanError:
        return
    assert plan.seconds <= kept.seconds


def test_what_runs_again_has_its_price():
    machine = smex.Machine.h100_nvlink()
    free = smex.search(captured(), 1, objective="time", machine=machine)
    plan = smex.search(
        captured(), 1, objective="time", machine=machine, memory_limit=0.8 * free.peak()
    )
    assert again(plan) > 0
    assert plan.again_seconds() == pytest.approx(plan.seconds - free.seconds)
    assert " again in " in repr(plan)
    assert free.again_seconds() == 0


@pytest.mark.parametrize("share", [0.9, 0.7, 0.5])
def test_cheap_calls_run_again_before_products(share):
    graph = captured()
    peak = smex.search(graph, 1).peak()
    plan = smex.search(graph, 1, memory_limit=share * peak)
    ops = plan.graph.captured.ops
    run = {op.target for op, twice in zip(ops, plan.graph.native.runs_again()) if twice}
    assert run
    # What GELU makes is four fifths of what can be saved without a product.
    assert ("aten::addmm" in run or "aten::mm" in run) == (share < 0.6)


def test_ops_of_gradients_alone_stand_where_they_are_read():
    """Else what they read would be made again at the beginning of the backward pass."""

    class Attends(nn.Module):
        def forward(self, x):
            return F.scaled_dot_product_attention(x, x, x)

    graph = smex.capture_graph(
        nn.Sequential(*(Attends() for _ in range(3))),
        (torch.randn(2, 2, 8, 4, requires_grad=True),) * 2,
        loss_fn=F.mse_loss,
    )
    ops = graph.captured.ops
    last = max(op.id for op in ops if not op.backward)
    assert all(not op.backward for op in ops[:last])


def normalised(width):
    return nn.Sequential(nn.Linear(width, width), nn.BatchNorm1d(width), nn.GELU())


@pytest.mark.parametrize("share", [1.0, 1.2, 2.0])
def test_a_peak_that_was_found_is_a_limit_that_is_kept(share):
    """What the operators of a fused call make between them takes no memory."""
    layers = nn.Sequential(*(normalised(16) for _ in range(4)))
    graph = smex.capture_graph(layers, (torch.randn(128, 16), torch.randn(128, 16)), F.mse_loss)
    peak = max(smex.search(graph, 1).peak_bytes())
    assert max(smex.search(graph, 1, memory_limit=share * peak).peak_bytes()) <= share * peak
    less = smex.search(graph, 1, memory_limit=0.9 * peak)
    assert max(less.peak_bytes()) <= 0.9 * peak
    assert again(less) > 0


@pytest.mark.parametrize(
    "wrap",
    [
        lambda blocks: nn.Sequential(nn.Sequential(*blocks)),
        lambda blocks: nn.Sequential(*[blocks[0]] * len(blocks)),
    ],
    ids=["in another", "one used again"],
)
def test_repeats_are_found(wrap):
    net = wrap([Block(32) for _ in range(6)])
    graph = smex.capture_graph(net, batch(), loss_fn=F.mse_loss)
    limit = 0.6 * max(smex.search(graph, 1).peak_bytes())
    plan = smex.search(graph, 1, memory_limit=limit)
    assert again(plan) > 0
    assert max(plan.peak_bytes()) <= limit
