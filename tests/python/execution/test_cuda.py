"""Models whose workers are on a GPU against the models themselves on it."""

import copy
import json

import pytest
import torch
from torch.nn import functional as F

import smex
from support.families import FAMILIES
from support.graph_networks import NETWORKS, graph

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(
        not smex.show_config().native,
        reason=f"native library: {smex.show_config().native_reason}",
    ),
]


def build(family, dtype=torch.float64):
    torch.manual_seed(0)
    cls, loss_fn = FAMILIES[family]
    model = cls.small().to("cuda", dtype)
    *inputs, target = cls.small_inputs()
    moved = [x.to("cuda", dtype) if x.is_floating_point() else x.cuda() for x in inputs]
    with torch.no_grad():
        shape = copy.deepcopy(model)(*moved).shape
    target = target.cuda()
    if loss_fn is F.mse_loss:
        target = torch.randn(shape, dtype=dtype, device="cuda")
    elif loss_fn is F.binary_cross_entropy_with_logits:
        target = torch.rand(shape, dtype=dtype, device="cuda")
    return model, moved, target, loss_fn


def close(found, wanted, what, tolerance=1e-9):
    assert found.device.type == "cuda", what
    scale = float(wanted.detach().abs().max()) if wanted.numel() else 0.0
    torch.testing.assert_close(
        found,
        wanted,
        rtol=tolerance,
        atol=tolerance * max(scale, 1e-3),
        msg=lambda m: f"{what}: {m}",
    )


@pytest.mark.parametrize("workers", [1, 2, 4])
@pytest.mark.parametrize("family", FAMILIES)
def test_training_equals_the_model(family, workers):
    """Steps, an evaluation, and steps again."""
    model, inputs, target, loss_fn = build(family)
    reference = copy.deepcopy(model)
    net = smex.partition(
        model, workers=workers, devices="cuda", loss_fn=loss_fn, args=(*inputs, target)
    )
    ours = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    theirs = torch.optim.SGD(reference.parameters(), lr=0.05, momentum=0.9)
    for _ in range(2):
        for _ in range(2):
            ours.zero_grad()
            theirs.zero_grad()
            loss = net(*inputs, target)
            expected = loss_fn(reference(*inputs), target)
            close(loss, expected, "loss")
            loss.backward()
            expected.backward()
            grads = net.full_grads()
            for name, parameter in reference.named_parameters():
                close(grads[name], parameter.grad, f"gradient of {name}", 1e-8)
            ours.step()
            theirs.step()
        net.eval()
        reference.eval()
        with torch.no_grad():
            close(net(*inputs, target), loss_fn(reference(*inputs), target), "evaluated", 1e-7)
        net.train()
        reference.train()
    stats = net.stats()
    assert stats["bytes_moved"] == stats["predicted_bytes_moved"]
    state = net.state_dict()
    for name, tensor in reference.state_dict().items():
        close(state[name].to(tensor.device), tensor, name, 1e-7)


@pytest.mark.parametrize("planner", ["tofu", "data_parallel", "homes"])
@pytest.mark.parametrize("family", FAMILIES)
def test_unequal_parts(family, planner):
    """One worker has twice what another has, and one nothing."""
    model, inputs, target, loss_fn = build(family)
    args = (*inputs, target)
    net = smex.partition(
        model, workers=3, devices="cuda", loss_fn=loss_fn, args=args, planner=planner,
        weights=[2, 0, 1], replicate_bytes=0 if planner == "tofu" else None,
    )  # fmt: skip
    reference = copy.deepcopy(model)
    expected = loss_fn(reference(*inputs), target)
    expected.backward()
    loss = net(*args)
    close(loss, expected, "loss")
    loss.backward()
    grads = net.full_grads()
    for name, parameter in reference.named_parameters():
        close(grads[name], parameter.grad, f"gradient of {name}", 1e-8)


def test_plans_are_compared():
    """By the steps of each, beside data parallelism, on workers of one GPU."""
    model, inputs, target, loss_fn = build("gpt", torch.float32)
    args = (*inputs, target)
    graph = smex.capture_graph(model, args, loss_fn=loss_fn)
    cluster = smex.cluster.heterog_testbed().first(2)
    found = smex.cluster.plan(graph, cluster, "local", calls=4)
    comparison = smex.cluster.compare(
        model, args, loss_fn, {"local": found}, steps=2, rounds=2, devices="cuda"
    )
    assert len(comparison.rows) == 2
    assert all(row.seconds > 0 for row in comparison.rows)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_autocast(family, dtype):
    model, inputs, target, loss_fn = build(family, torch.float32)
    reference = copy.deepcopy(model)
    net = smex.partition(model, workers=2, devices="cuda")
    with torch.autocast("cuda", dtype):
        found, expected = net(*inputs), reference(*inputs)
    assert found.dtype == expected.dtype
    close(found.float(), expected.float(), "output", 0.05)
    loss_fn(found.float(), target.float() if target.is_floating_point() else target).backward()
    assert all(g.isfinite().all() for g in net.full_grads().values())


def test_regions_of_autocast():
    """A model with a region of its own, and one without casts inside; trained by a scaled loss."""

    class Mixed(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = torch.nn.Linear(16, 32), torch.nn.Linear(32, 8)
            self.norm = torch.nn.LayerNorm(32)

        def forward(self, x):
            with torch.autocast("cuda", torch.float16):
                x = torch.nn.functional.gelu(self.norm(self.first(x)))
                with torch.autocast("cuda", enabled=False):
                    x = x.float() / x.float().norm(dim=-1, keepdim=True)
                return self.second(x)

    torch.manual_seed(0)
    model = Mixed().cuda()
    reference = copy.deepcopy(model)
    net = smex.partition(model, workers=2, devices="cuda", args=(torch.randn(12, 16).cuda(),))
    ours = torch.optim.SGD(net.parameters(), lr=0.1)
    theirs = torch.optim.SGD(reference.parameters(), lr=0.1)
    for _ in range(3):
        x = torch.randn(12, 16, device="cuda")
        found, expected = net(x), reference(x)
        assert found.dtype == expected.dtype == torch.float16
        close(found.float(), expected.float(), "output", 0.02)
        for result, optimiser in ((found, ours), (expected, theirs)):
            optimiser.zero_grad()
            (result.float().square().mean() * 8).backward()
        grads = net.full_grads()
        for name, parameter in reference.named_parameters():
            assert grads[name].dtype == parameter.grad.dtype
            close(grads[name], parameter.grad, name, 0.05)
        ours.step()
        theirs.step()


@pytest.mark.parametrize("planner", [None, "vertices", "features", "edges"])
@pytest.mark.parametrize("name", NETWORKS)
def test_graph_networks(name, planner):
    torch.manual_seed(2)
    g = graph().to("cuda")
    x = torch.randn(g.num_nodes(), 6, dtype=torch.float64, device="cuda")
    model = NETWORKS[name]().to("cuda", torch.float64)
    expected = model(g, x)
    weights = torch.randn_like(expected)
    (expected * weights).sum().backward()
    gradients = {key: p.grad.clone() for key, p in model.named_parameters()}
    model.zero_grad()
    options = {"planner": planner} if planner else {}
    net = smex.partition(model, args=(g, x), workers=3, devices="cuda", **options)
    found = net(g, x)
    close(found, expected, "output")
    (found * weights).sum().backward()
    grads = net.full_grads()
    for key, wanted in gradients.items():
        close(grads[key], wanted, key)


def test_saved_here_and_loaded_on_the_cpu(tmp_path):
    """Trained on two workers of a GPU, gone on with on three of the CPU, as one model."""
    model, inputs, target, loss_fn = build("gpt")
    reference = copy.deepcopy(model).cpu()
    args = (*inputs, target)
    net = smex.partition(model, workers=2, devices="cuda", loss_fn=loss_fn, args=args)
    opt = torch.optim.AdamW(net.parameters(), lr=1e-3)
    theirs = torch.optim.AdamW(reference.parameters(), lr=1e-3)
    here = [x.cpu() for x in args]

    def step(net, opt, args):
        opt.zero_grad()
        net(*args).backward()
        opt.step()

    def expected():
        theirs.zero_grad()
        loss_fn(reference(*here[:-1]), here[-1]).backward()
        theirs.step()

    step(net, opt, args)
    expected()
    smex.save(tmp_path / "step", net, opt)
    other = smex.partition(copy.deepcopy(reference), workers=3, loss_fn=loss_fn, args=tuple(here))
    again = torch.optim.AdamW(other.parameters(), lr=1e-3)
    smex.load(tmp_path / "step", other, again)
    step(other, again, here)
    expected()
    state = other.state_dict()
    for name, tensor in reference.state_dict().items():
        torch.testing.assert_close(state[name], tensor, rtol=1e-5, atol=1e-6)


def test_memory_of_the_device_is_kept_to():
    """Tiles lie on the host between uses, and results are the model's."""
    model, inputs, target, loss_fn = build("gpt")
    reference = copy.deepcopy(model)
    host = [x.cpu() for x in (*inputs, target)]
    plain = smex.partition(model.cpu(), workers=1, loss_fn=loss_fn, args=tuple(host))
    limit = int(0.7 * max(plain.plan.peak_bytes()))
    net = smex.partition(
        copy.deepcopy(reference).cpu(),
        workers=1,
        devices="cuda",
        loss_fn=loss_fn,
        args=tuple(host),
        device_memory=limit,
    )
    for _ in range(2):
        loss = net(*host)
        expected = loss_fn(reference(*inputs), target)
        torch.testing.assert_close(loss.cpu(), expected.cpu(), rtol=1e-9, atol=1e-9)
        loss.backward()
    assert max(net.stats()["peak_bytes"]) <= limit


def test_a_trace(tmp_path):
    """Operators of a worker follow each other, and take as long as the device needs."""
    model = torch.nn.Sequential(*[torch.nn.Linear(1024, 1024) for _ in range(4)]).cuda()
    x = torch.randn(512, 1024, device="cuda")
    net = smex.partition(model, workers=2, devices="cuda", args=(x,))
    net(x)
    result = net.trace(tmp_path / "trace.json", x, backward=True)
    close(result, model(x), "result", 1e-3)
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    computed = [event for event in events if event.get("dur")]
    assert {event["pid"] for event in computed}
    assert all(event["dur"] > 0 for event in computed)
