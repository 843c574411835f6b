"""Random functions of edges, fused and not: the same values and gradients, and no stored message."""

import random
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

import smex.graph as sg
import smex.graph.function as fn
from smex.graph.tracing.fuse import explain

LEAVES = ["e.src['h']", "e.src['k']", "e.dst['h']", "e.data['z']", "e.data['w']", "e.src['c']"]
UNARY = [
    "-({})",
    "({}).abs()",
    "torch.exp(({}) * 0.1)",
    "torch.sigmoid({})",
    "({}).tanh()",
    "F.relu({})",
    "F.leaky_relu({}, 0.1)",
    "(({}) ** 2)",
    "torch.sqrt(1 + ({}) * ({}))",
    "({}).sum(-1, keepdim=True)",
]
BINARY = ["({} + {})", "({} - {})", "({} * {})", "({} / (2 + abs({})))", "torch.maximum({}, {})"]


def formula(rng, depth):
    """The text of a random expression."""
    kind = rng.random()
    if depth == 0 or kind < 0.15:
        return rng.choice(LEAVES)
    if kind < 0.45:
        inside = formula(rng, depth - 1)
        return rng.choice(UNARY).format(inside, inside)
    if kind < 0.6:
        return rng.choice(BINARY[:4]).format(formula(rng, depth - 1), round(rng.uniform(0.1, 3), 2))
    return rng.choice(BINARY).format(formula(rng, depth - 1), formula(rng, depth - 1))


def random_graph(rng, dtype=torch.float64):
    """Hubs, isolated nodes, self loops and multi-edges; negative features too."""
    nodes, edges = rng.randint(1, 9), rng.randint(1, 40)
    src = [rng.randrange(nodes) for _ in range(edges)]
    dst = [rng.randrange(nodes) if rng.random() < 0.6 else 0 for _ in range(edges)]
    g = sg.graph((src, dst), num_nodes=nodes, idtype=rng.choice([torch.int32, torch.int64]))
    for data, names in ((g.ndata, {"h": 3, "k": 3, "c": 1}), (g.edata, {"z": 3, "w": 1})):
        for name, size in names.items():
            rows = nodes if name in ("h", "k", "c") else edges
            data[name] = torch.randn(rows, size, dtype=dtype).requires_grad_()
    return g


def gradients(g, out):
    leaves = [*(g.ndata[n] for n in "hkc"), *(g.edata[n] for n in "zw")]
    weight = torch.linspace(-1, 2, out.numel(), dtype=out.dtype).view_as(out)
    found = torch.autograd.grad((out * weight).sum(), leaves, allow_unused=True)
    return [torch.zeros_like(x) if y is None else y for x, y in zip(leaves, found)]


@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "min"])
@pytest.mark.parametrize("number", range(25))
def test_random_functions(number, reduce, seed):
    rng = random.Random(seed + number)
    text = formula(rng, depth=4)
    if "e." not in text:
        text += " + e.src['h']"
    space = {"torch": torch, "F": torch.nn.functional}
    message = eval(f"lambda e: {{'m': {text}}}", space)
    space["print"] = print
    plain = eval(f"lambda e: (print(end=''), {{'m': {text}}})[1]", space)
    g = random_graph(rng)
    assert not explain(g, plain, fn.sum("m", "out")).fused
    found = explain(g, message, getattr(fn, reduce)("m", "out"))
    assert found.fused or "more than 512 terms" in found.reason, (text, found)
    g.update_all(message, getattr(fn, reduce)("m", "a"))
    extremum = "" if reduce in ("sum", "mean") else "[0]"
    buckets = eval(f"lambda n: (print(end=''), {{'b': n.mailbox['m'].{reduce}(1){extremum}}})[1]")
    g.update_all(plain, buckets)
    torch.testing.assert_close(g.ndata["a"], g.ndata["b"], msg=lambda m: f"{text}: {m}")
    for a, b in zip(gradients(g, g.ndata["a"]), gradients(g, g.ndata["b"])):
        torch.testing.assert_close(a, b, msg=lambda m: f"{text}: {m}")


def test_no_message_is_stored():
    """No allocation of the forward or the backward pass is as large as the messages."""
    nodes, edges, size = 200, 20000, 64
    g = sg.graph((torch.randint(nodes, (edges,)), torch.randint(nodes, (edges,))), num_nodes=nodes)
    g.ndata["h"] = torch.rand(nodes, size, requires_grad=True)
    g.edata["w"] = torch.rand(edges, 1, requires_grad=True)
    g.create_formats_()

    def message(edges):
        return {
            "m": torch.relu(edges.src["h"] - edges.dst["h"]) * edges.data["w"],
            "w": edges.data["w"],
        }

    def reduce(nodes):
        alpha = torch.softmax(nodes.mailbox["w"], 1)
        return {"x": nodes.mailbox["m"].sum(1), "y": (alpha * nodes.mailbox["m"]).sum(1)}

    assert explain(g, message, reduce).message_bytes == edges * (size + 1) * 4
    with torch.profiler.profile(profile_memory=True) as profile:
        g.update_all(message, reduce)
        (g.ndata["x"].sum() + g.ndata["y"].square().sum()).backward()
    largest = max(event.self_cpu_memory_usage for event in profile.events())
    assert 0 < largest < edges * size * 4 / 4


def test_threads():
    """Functions are traced and run in several threads at once."""

    def work(number):
        g = sg.graph(([0, 1, 2], [1, 1, 0]))
        g.ndata["h"] = torch.full((3, 2), float(number))
        for i in range(50):
            g.update_all(
                lambda e: {"m": e.src["h"] * number + i},  # noqa: B023
                lambda n: {"out": n.mailbox["m"].sum(1)},
            )
            assert g.ndata["out"][1, 0] == 2 * (number * number + i)
        return True

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(8)))
