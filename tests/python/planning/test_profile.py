"""`smex.profile`: calls are measured one by one, and told apart by what they do."""

import dataclasses
import json

import pytest
import torch
from torch import nn
from torch.nn import functional

import smex
import smex.graph as sg
from smex.planning.call_costs import CallCost
from smex.planning.profiling import Sample, fitted, programs_of

MACHINE = smex.Machine(
    "slow", {"float32": 1e3, "float64": 1e3}, 1e3, 1.0, 1e9, (smex.Level(8, 1e-5, 1e9),)
)  # whose seconds nothing measured here takes


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(30, 16)
        self.conv = nn.Conv1d(16, 16, 3, padding=1)
        self.norm = nn.BatchNorm1d(16)
        self.heads = nn.MultiheadAttention(16, 4, batch_first=True)
        self.out = nn.Linear(16, 5)

    def forward(self, ids, mask):
        x = self.norm(self.conv(self.embedding(ids).transpose(1, 2))).transpose(1, 2)
        x, _ = self.heads(x, x, x, need_weights=False)
        return self.out(functional.dropout(x, 0.1).masked_fill(mask.unsqueeze(-1), 0).mean(1))


def captured():
    ids, mask = torch.randint(30, (16, 12)), torch.rand(16, 12) < 0.2
    target = torch.randint(5, (16,))
    with torch.device("meta"):
        model = Net()
    return smex.capture(model, (ids, mask, target), loss_fn=functional.cross_entropy)


def test_all_calls_of_a_network_are_known():
    graph = captured()
    machine = smex.profile(graph, MACHINE)
    plan = smex.search(graph, 2, objective="time", machine=machine)
    # A call of the roofline would take a second and more.
    assert plan.timeline().seconds < 0.5
    for target in ("aten::addmm", "aten::embedding", "aten::convolution", "fetch"):
        assert target in machine.calls, sorted(machine.calls)


def test_calls_along_edges_read_the_graph():
    x = torch.randn(4000, 16)

    def seconds(edges):
        g = sg.rand_graph(4000, edges)
        graph = smex.capture(sg.nn.GraphConv(16, 16, allow_zero_in_degree=True), (g, x))
        return smex.search(graph, 1, machine=smex.profile(graph, MACHINE)).timeline().seconds

    assert seconds(2_000_000) > 3 * seconds(8000)


def test_a_machine_keeps_what_it_knows(tmp_path):
    graph = captured()
    machine = smex.profile(graph, MACHINE)
    again = smex.Machine.from_contents(json.loads(json.dumps(machine.contents())))
    assert again == machine
    plan = smex.search(graph, 2, objective="time", machine=machine)
    plan.save(tmp_path / "plan.json")
    loaded = smex.Plan.load(tmp_path / "plan.json", graph)
    assert loaded.machine == machine
    assert loaded.timeline().seconds == plan.timeline().seconds


def test_what_was_measured_before_stays():
    first = smex.profile(captured(), MACHINE)
    second = smex.profile(smex.capture(nn.Tanh(), torch.randn(300, 300)), first)
    assert set(first.calls) < set(second.calls)
    assert "aten::tanh" in second.calls and "aten::tanh" not in first.calls
    assert dataclasses.replace(second, calls={}) == MACHINE


def test_measured_calls_are_told_exactly_and_others_by_weights():
    samples = [
        Sample("aten::mm a", "aten::mm", 4, (1, n**3, n**2, 0, 0), 1e-6 + 1e-9 * n**3)
        for n in (10, 20, 40)
    ]
    samples[2] = dataclasses.replace(samples[2], seconds=3 * samples[2].seconds)  # out of a cache
    costs = fitted(samples)
    assert set(costs) == {"aten::mm a", "aten::mm"}
    assert costs["aten::mm"][4].measured == ()
    machine = dataclasses.replace(MACHINE, calls=costs)
    assert all(weight >= 0 for weight in costs["aten::mm a"][4].weights)
    cost = costs["aten::mm a"][4]
    for sample in samples:
        told = sum(w * f for w, f in zip(cost.weights, sample.features))
        (factor,) = {row[3] for row in cost.measured if row[0] == sample.features[1]}
        assert told * factor == pytest.approx(sample.seconds, rel=1e-6)
    assert machine.contents()["calls"]["aten::mm"]


def test_programs_have_tiles_of_several_sizes():
    graph = smex.capture_graph(nn.Linear(64, 64), torch.randn(64, 64))
    assert len(programs_of(graph)) > 4
    machine = smex.profile(graph, MACHINE)
    (cost,) = (costs[4] for kind, costs in machine.calls.items() if kind.startswith("aten::addmm "))
    assert len({row[0] for row in cost.measured}) >= 4


def test_meta_inputs_and_threads():
    threads = torch.get_num_threads()
    with torch.device("meta"):
        graph = smex.capture(nn.Linear(8, 8), torch.empty(4, 8))
    machine = smex.profile(graph, MACHINE, verbose=True)
    assert machine.calls
    assert torch.get_num_threads() == threads


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda c: c.update(calls=[1]), "expected calls by kind and item size"),
        (lambda c: c["calls"].update(x={"4": {"weights": [1]}}), "expected calls by kind"),
        (
            lambda c: c["calls"].update(x={"4": {"weights": [1, 2], "measured": []}}),
            "expected 5 numbers",
        ),
        (
            lambda c: c["calls"].update(x={"4": {"weights": [0, 0, -1, 0, 0], "measured": []}}),
            "not negative",
        ),
    ],
)
def test_contents_that_are_none(change, text):
    content = dataclasses.replace(MACHINE, calls={"y": {4: CallCost((1, 0, 0, 0, 0))}}).contents()
    change(content)
    with pytest.raises(smex.SmexTypeError, match=text):
        smex.Machine.from_contents(content)


def test_arguments():
    graph = smex.capture(nn.ReLU(), torch.randn(4))
    with pytest.raises(smex.SmexTypeError, match=r"expected what smex.capture returns, got ReLU"):
        smex.profile(nn.ReLU(), MACHINE)
    with pytest.raises(smex.SmexTypeError, match=r"expected a smex.Machine, got NoneType"):
        smex.profile(graph, None)
    with pytest.raises(smex.SmexValueError, match="processes must be 1"):
        smex.profile(graph, MACHINE, processes=2)


def test_draws_of_the_caller_are_as_before():
    graph = captured()
    torch.manual_seed(3)
    expected = torch.randn(4)
    torch.manual_seed(3)
    smex.profile(graph, MACHINE)
    assert torch.equal(torch.randn(4), expected)
