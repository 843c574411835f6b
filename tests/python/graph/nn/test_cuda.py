"""Every layer on CUDA against itself on the CPU: results, gradients, and under autocast."""

import copy

import pytest
import torch

import smex
from support import layer_cases, layer_cases_edges
from support.layer_cases import KINDS, features, graph_of

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(
        not smex.show_config().native,
        reason=f"native library: {smex.show_config().native_reason}",
    ),
]

CASES = [*layer_cases.CASES, *layer_cases_edges.CASES]
PAIRS = [pytest.param(c, k, id=f"{c.name}-{k}") for c in CASES for k in KINDS if k in c.kinds]
TOLERANCE = {torch.float64: 1e-9, torch.float32: 2e-4}


@pytest.fixture(autouse=True)
def _exact_products(monkeypatch):
    """Recurrent layers of cuDNN round their operands otherwise."""
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)


def moved(x, device, dtype):
    """Tensors on a device, floating point ones as leaves of a dtype."""
    if isinstance(x, (tuple, list)):
        return tuple(moved(part, device, dtype) for part in x)
    if not isinstance(x, torch.Tensor):
        return x
    x = x.detach().to(device)
    return x.to(dtype).requires_grad_() if x.is_floating_point() else x


def leaves(x):
    if isinstance(x, tuple):
        return [leaf for part in x for leaf in leaves(part)]
    return [x] if isinstance(x, torch.Tensor) and x.requires_grad else []


def results_and_gradients(layer, g, feat, extra):
    result = layer(g, feat, *extra)
    parts = result if isinstance(result, tuple) else (result,)
    loss = sum((part.double().sin() * (n + 1)).sum() for n, part in enumerate(parts))
    wanted = [*leaves(feat), *leaves(extra), *layer.parameters()]
    found = torch.autograd.grad(loss, wanted, allow_unused=True)
    return [*parts, *(torch.zeros_like(x) if d is None else d for d, x in zip(found, wanted))]


def made(case, kind, dtype, lonely=False):
    """A layer, a graph, features and further arguments on the CPU."""
    torch.manual_seed(0)
    g = graph_of(kind, lonely)
    layer = case.layer(kind).to(dtype)
    if hasattr(layer, "set_allow_zero_in_degree"):
        layer.set_allow_zero_in_degree(True)
    feat, _, _ = features(g, kind, dst_width=case.width(kind))
    return layer, g, feat, case.extra(g)


@pytest.mark.parametrize("lonely", [False, True])
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(("case", "kind"), PAIRS)
def test_equal_to_the_cpu(case, kind, dtype, lonely):
    layer, g, feat, extra = made(case, kind, dtype, lonely)
    there = copy.deepcopy(layer).cuda()
    wanted = results_and_gradients(layer, g, moved(feat, "cpu", dtype), moved(extra, "cpu", dtype))
    found = results_and_gradients(
        there, g.to("cuda"), moved(feat, "cuda", dtype), moved(extra, "cuda", dtype)
    )
    for one, other in zip(found, wanted, strict=True):
        assert one.device.type == "cuda"
        scale = max(1.0, float(other.detach().abs().max())) if other.numel() else 1.0
        torch.testing.assert_close(
            one.cpu(), other, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype] * scale
        )


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize(("case", "kind"), PAIRS)
def test_under_autocast(case, kind, dtype):
    layer, g, feat, extra = made(case, kind, torch.float32)
    there = copy.deepcopy(layer).cuda()
    wanted = results_and_gradients(
        layer, g, moved(feat, "cpu", torch.float32), moved(extra, "cpu", torch.float32)
    )
    with torch.autocast("cuda", dtype):
        found = results_and_gradients(
            there,
            g.to("cuda"),
            moved(feat, "cuda", torch.float32),
            moved(extra, "cuda", torch.float32),
        )
    assert all(one.isfinite().all() for one in found)
    first, expected = found[0].float().cpu(), wanted[0].detach()
    scale = max(1.0, float(expected.abs().max()))
    torch.testing.assert_close(first, expected, rtol=0.05, atol=case.tolerance * scale)


@pytest.mark.parametrize(("case", "kind"), PAIRS)
def test_a_graph_without_edges(case, kind):
    if not case.empty:
        pytest.skip("the layer needs edges")
    layer, g, feat, _ = made(case, kind, torch.float32)
    g.remove_edges(torch.arange(g.num_edges()))
    result = layer.cuda()(
        g.to("cuda"),
        moved(feat, "cuda", torch.float32),
        *moved(case.extra(g), "cuda", torch.float32),
    )
    first = result[0] if isinstance(result, tuple) else result
    assert first.shape[0] == g.num_dst_nodes()
    assert first.isfinite().all()


def test_training_goes_on_after_evaluation():
    """Three rounds of steps and an evaluation, the third on another graph, as on the CPU."""
    torch.manual_seed(0)
    layer = smex.graph.nn.GraphConv(5, 3, allow_zero_in_degree=True)
    ours, theirs = copy.deepcopy(layer).cuda(), layer
    optimisers = [torch.optim.SGD(each.parameters(), lr=0.1) for each in (ours, theirs)]
    for _ in range(3):
        g = graph_of("homogeneous", lonely=True)
        x = torch.randn(g.num_nodes(), 5)
        for each, optimiser, device in zip((ours, theirs), optimisers, ("cuda", "cpu")):
            here, rows = g.to(device), x.to(device)
            for _ in range(2):
                optimiser.zero_grad()
                each(here, rows).square().mean().backward()
                optimiser.step()
            with torch.no_grad():
                each.eval()(here, rows)
            each.train()
        with torch.no_grad():
            torch.testing.assert_close(
                ours(g.to("cuda"), x.cuda()).cpu(), theirs(g, x), rtol=1e-4, atol=1e-5
            )
