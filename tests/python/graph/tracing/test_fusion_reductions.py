"""Reductions by users' functions, and what they compute from the reduced messages."""

import pytest
import torch
import torch.nn.functional as F

import smex.graph as sg
import smex.graph.function as fn
from support.message_functions import assert_fused, graph, unfused

SCALE = 2.0


@pytest.mark.parametrize(
    ("reduce", "name"),
    [
        (lambda n: {"out": n.mailbox["m"].sum(1)}, "sum"),
        (lambda n: {"out": n.mailbox["m"].sum(dim=1)}, "sum"),
        (lambda n: {"out": torch.sum(n.mailbox["m"], dim=1)}, "sum"),
        (lambda n: {"out": torch.sum(n.mailbox["m"], 1)}, "sum"),
        (lambda n: {"out": n.mailbox["m"].sum(-2)}, "sum"),
        (lambda n: {"out": n.mailbox["m"].sum((1,))}, "sum"),
        (lambda n: {"out": n.mailbox["m"].mean(1)}, "mean"),
        (lambda n: {"out": torch.mean(n.mailbox["m"], dim=1)}, "mean"),
        (lambda n: {"out": n.mailbox["m"].max(1)[0]}, "max"),
        (lambda n: {"out": n.mailbox["m"].max(dim=1).values}, "max"),
        (lambda n: {"out": torch.max(n.mailbox["m"], dim=1)[0]}, "max"),
        (lambda n: {"out": torch.min(n.mailbox["m"], 1).values}, "min"),
        (lambda n: {"out": n.mailbox["m"].min(1)[0]}, "min"),
    ],
)
def test_reductions(reduce, name):
    assert_fused(fn.u_mul_e("h", "w", "m"), reduce, f"{name} of u.h * e.w")
    assert_fused(lambda e: {"m": e.src["h"] * e.data["w"]}, reduce, f"{name} of u.h * e.w")


def unpacks(nodes):
    values, _ = nodes.mailbox["m"].max(1)
    return {"out": values}


def test_an_unpacked_maximum():
    assert_fused(fn.copy_u("h", "m"), unpacks, "max of u.h")


def test_amax_is_fused_where_no_gradient_is_shared_among_equal_messages():
    def largest(nodes):
        return {"out": nodes.mailbox["m"].amax(1)}

    g = graph()
    found = sg.explain(g, fn.copy_u("h", "m"), largest)
    assert not found.fused and "shares the gradient" in found.reason
    with torch.no_grad():
        assert sg.explain(g, fn.copy_u("h", "m"), largest).fused
        assert sg.explain(
            g, fn.copy_u("h", "m"), lambda n: {"o": torch.amin(n.mailbox["m"], 1)}
        ).fused


# ---- what follows the reduction ----


@pytest.mark.parametrize(
    ("reduce", "text"),
    [
        (lambda n: {"out": n.mailbox["m"].sum(1) * 2}, '"out" = sum(u.h) * 2.0'),
        (lambda n: {"out": F.relu(n.mailbox["m"].sum(1) - 2)}, "relu(sum(u.h) - 2.0)"),
        (lambda n: {"out": n.mailbox["m"].sum(1) + n.data["h"]}, "sum(u.h) + n.h"),
        (
            lambda n: {"out": n.data["k"] - n.mailbox["m"].max(1)[0] * SCALE},
            "n.k - (max(u.h) * 2.0)",
        ),
        (lambda n: {"out": n.mailbox["m"].sum(1) / n.data["h"].size(1)}, "sum(u.h) / 4.0"),
        (
            lambda n: {"out": torch.cat([n.mailbox["m"].mean(1), n.data["h"]], 1)},
            "cat(1, mean(u.h), n.h)",
        ),
        (
            lambda n: {"out": torch.cat([n.mailbox["m"].sum(1), n.data["k"] ** 2], dim=-1).exp()},
            "exp(cat(1, sum(u.h), pow(n.k, 2.0)))",
        ),
        (lambda n: {"out": n.mailbox["m"].sum(1).log()}, "log(sum(u.h))"),
        (lambda n: {"out": torch.maximum(n.mailbox["m"].sum(1), n.data["h"])}, "maximum("),
        (lambda n: {"out": (n.mailbox["m"].sum(1) * n.data["h"]).sum(-1)}, "dot(sum(u.h), n.h)"),
        (lambda n: {"out": n.mailbox["m"].sum(1) * n.data["s"][:, None]}, "sum(u.h) * n."),
        (
            lambda n: {
                "out": n.mailbox["m"].max(1)[0] - n.mailbox["m"].min(1)[0],
                "s": n.data["s"],
            },
            "max(u.h) - min(u.h)",
        ),
    ],
)
def test_what_follows_a_reduction_is_done_for_all_nodes(reduce, text):
    assert_fused(fn.copy_u("h", "m"), reduce, text, "no message is stored")


def test_each_reduction_runs_once(monkeypatch):
    calls = []
    kernel = sg.tracing.symbols.formulas.aggregate
    monkeypatch.setattr(
        sg.tracing.symbols.formulas, "aggregate", lambda *a: calls.append(a[1]) or kernel(*a)
    )

    def reduce(nodes):
        total = nodes.mailbox["m"].sum(1)
        return {"a": total * 2, "b": total * total, "c": nodes.mailbox["m"].max(1)[0] + total}

    g = graph()
    g.update_all(fn.copy_u("h", "m"), reduce)
    assert len(calls) == 2


def test_nodes_without_messages_take_no_part_in_what_follows():
    g = sg.graph(([0], [1]))
    g.ndata["h"] = torch.zeros(2, 1, requires_grad=True)
    g.ndata["k"] = torch.tensor([[0.0], [1.0]], requires_grad=True)
    reduce = lambda n: {"out": (n.mailbox["m"].sum(1) / n.data["k"]).exp()}  # noqa: E731
    assert sg.explain(g, fn.copy_u("h", "m"), reduce).fused
    g.update_all(fn.copy_u("h", "m"), reduce)
    assert g.ndata["out"].tolist() == [[0], [1]]
    g.ndata["out"].sum().backward()
    assert g.ndata["k"].grad.isfinite().all() and g.ndata["h"].grad.tolist() == [[1], [0]]


def test_what_follows_sees_the_pulled_nodes():
    g, plain = graph(), graph()
    reduce = lambda n: {"h": n.mailbox["m"].sum(1) + n.data["h"]}  # noqa: E731
    for name in ("h",):
        plain.ndata[name] = g.ndata[name].detach()
    for each, function in ((g, reduce), (plain, unfused(reduce))):
        each.pull([1, 3, 4], fn.copy_u("h", "m"), function)
    torch.testing.assert_close(g.ndata["h"], plain.ndata["h"])
