"""A trace freezes no value, and no function or tensor notices it."""

from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import smex
import smex.graph as sg
from support.message_functions import ADD, Counter, graph

SCALE = 2.0
WEIGHT = torch.rand(4, dtype=torch.float64)


def value_of(g, message):
    g.update_all(message, ADD)
    return g.ndata["out"] / torch.zeros_like(g.ndata["out"]).index_add(
        0, g.edges()[1], g.ndata["h"][g.edges()[0]]
    )


def test_values_that_change_between_calls():
    g, space, factor = graph(), SimpleNamespace(by=3.0), 5.0

    def closure(edges):
        return {"m": edges.src["h"] * factor}

    def attribute(edges):
        return {"m": edges.src["h"] * space.by}

    def shared(edges):
        return {"m": edges.src["h"] * SCALE}

    def flag(edges):
        if space.by > 3:
            return {"m": edges.src["h"] * 10}
        return {"m": edges.src["h"] * 20}

    global SCALE
    for message in (closure, attribute, shared, flag):
        assert sg.explain(g, message, ADD).fused
    for factor, space.by, SCALE in ((5.0, 3.0, 2.0), (6.0, 4.0, 7.0)):
        expected = [factor, space.by, SCALE, 10.0 if space.by > 3 else 20.0]
        for message, number in zip((closure, attribute, shared, flag), expected):
            found = value_of(g, message)[:4]
            torch.testing.assert_close(found, torch.full_like(found, number))
    SCALE = 2.0


def helper(x):
    return x * 2


def test_functions_that_are_replaced(monkeypatch):
    g = graph()

    def message(edges):
        return {"m": helper(edges.src["h"])}

    assert value_of(g, message)[0, 0].item() == pytest.approx(2)
    calls = []
    monkeypatch.setitem(globals(), "helper", lambda x: x * 3)
    assert value_of(g, message)[0, 0].item() == pytest.approx(3)
    monkeypatch.setitem(globals(), "helper", lambda x: (calls.append(1), x)[1] * 4)
    assert not sg.explain(g, message, ADD).fused and not calls
    assert value_of(g, message)[0, 0].item() == pytest.approx(4)
    assert calls == [1]


def test_side_effects_happen_once():
    g, counter = graph(), Counter()
    for method in (counter.counts, counter.asks):
        counter.count = 0
        sg.explain(g, method, ADD)
        assert counter.count == 0
        g.update_all(method, ADD)
        assert counter.count == 1
    g.update_all(counter.keeps, ADD)
    assert len(counter.kept) == 1 and isinstance(counter.kept[0], torch.Tensor)


def test_comprehensions_are_looked_into():
    g, kept = graph(), []
    names = ("h",)

    def doubles(edges):
        return {"m": sum([edges.src[n] * 2 for n in names if n in edges.src])}

    def keeps(edges):
        return {"m": sum([edges.src[n] * 2 for n in names if not kept.append(n)])}

    assert sg.explain(g, doubles, ADD).fused
    assert not sg.explain(g, keeps, ADD).fused and not kept
    g.update_all(lambda edges: {"m": edges.src["h"] * 2}, ADD)
    expected = g.ndata["out"]
    for function in (doubles, keeps):
        g.update_all(function, ADD)
        torch.testing.assert_close(g.ndata["out"], expected)
    assert kept == ["h"]


def test_random_numbers_are_drawn_once():
    g = graph()

    def noisy(edges):
        return {"m": edges.src["h"] * torch.rand(8, 1, dtype=torch.float64)}

    torch.manual_seed(3)
    expected = (g.ndata["h"][g.edges()[0]] * torch.rand(8, 1, dtype=torch.float64)).sum()
    after = torch.rand(1)
    torch.manual_seed(3)
    sg.explain(g, noisy, ADD)
    g.update_all(noisy, ADD)
    torch.testing.assert_close(g.ndata["out"].sum(), expected)
    assert torch.rand(1).equal(after)


def test_a_symbol_is_never_told_from_a_tensor():
    g = graph()

    def tells(edges):
        return {"m": edges.src["h"] * (1 if isinstance(edges.src["h"], torch.Tensor) else 100)}

    assert value_of(g, tells)[0, 0].item() == pytest.approx(1)
    assert "isinstance" in sg.explain(g, tells, ADD).reason


def test_features_that_may_be_missing():
    g = graph()

    def optional(edges):
        if "nothing" in edges.data:
            return {"m": edges.src["h"] * edges.data["nothing"]}
        other = edges.data.get("other")
        return {"m": edges.src["h"] if other is None else edges.src["h"] * other}

    assert sg.explain(g, optional, ADD).fused
    assert value_of(g, optional)[0, 0].item() == pytest.approx(1)
    g.edata["other"] = torch.full((8, 1), 5.0, dtype=torch.float64)
    assert value_of(g, optional)[0, 0].item() == pytest.approx(5)


def test_hooks_of_a_module_run():
    g, calls = graph(), []

    class Message(nn.Module):
        def forward(self, edges):
            return {"m": edges.src["h"]}

    message = Message()
    assert sg.explain(g, message, ADD).fused
    message.register_forward_hook(lambda *_: calls.append(1))
    assert not sg.explain(g, message, ADD).fused
    g.update_all(message, ADD)
    assert calls == [1]


def test_mistakes_keep_their_own_error():
    g = graph()

    def wrong(edges):
        return {"m": edges.src["h"] * edges.src["heads"]}

    with pytest.raises(RuntimeError, match="must match the size"):
        g.update_all(wrong, ADD)
    with pytest.raises(KeyError, match='feature "nothing" is not set'):
        g.update_all(lambda e: {"m": e.src["nothing"]}, ADD)
    with pytest.raises(smex.SmexTypeError, match="message function: expected a built-in"):
        sg.explain(g, None, ADD)


def test_a_trace_changes_no_tensor_from_outside():
    g, before = graph(), WEIGHT.clone()
    for message in (
        lambda e: {"m": e.src["h"] * F.relu(WEIGHT - 5, inplace=True)},
        lambda e: {"m": e.src["h"] * torch.neg(WEIGHT, out=WEIGHT)},
        lambda e: {"m": e.src["h"] * F.leaky_relu(WEIGHT, 0.1, True)},
    ):
        assert not sg.explain(g, message, ADD).fused
        assert torch.equal(WEIGHT, before)
