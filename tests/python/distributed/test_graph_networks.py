"""One graph on several processes: what ranks compute of their vertices, and what they send."""

import pytest
import torch
from torch.testing import assert_close

import smex
import smex.graph as sg
from smex.execution import recut
from support.graph_networks import graph, trained

pytestmark = pytest.mark.costly

GROUP = {"SMEX_SHARED_MEMORY": "0"}


def train(rank, name, workers):
    torch.set_num_threads(1)
    g = graph()
    x = torch.randn(g.num_nodes(), 6, dtype=torch.float64)
    model, expected, weights, gradients = trained(name, g, x)
    net = smex.partition(model, args=(g, x), workers=workers, replicate_bytes=0, pins={"x": 0})
    found = []
    for _ in range(2):
        out = net(g, x)
        (out * weights).sum().backward()
        found.append((out.detach(), net.full_grads()))
        net.zero_grad()
    stats = net.stats()
    moved = (stats["bytes_moved"], stats["predicted_bytes_moved"])
    return {"found": found, "moved": moved, "expected": (expected, gradients)}


@pytest.mark.parametrize("variables", [{}, GROUP], ids=["memory", "group"])
@pytest.mark.parametrize("name", ["GCN", "GAT", "GIN"])
def test_ranks_equal_threads_and_one_process(processes, name, variables):
    threads = train(0, name, 3)
    for ranks in processes.run(train, 3, name, 3, variables=variables):
        expected, gradients = ranks["expected"]
        moved, predicted = ranks["moved"]  # of a result that each rank has whole, more than threads
        assert moved == predicted
        for (out, grads), (wanted, wanted_grads) in zip(ranks["found"], threads["found"]):
            assert torch.equal(out, wanted)
            assert_close(out, expected, rtol=1e-10, atol=1e-10)
            for key, grad in grads.items():
                assert torch.equal(grad, wanted_grads[key]), key
                assert_close(grad, gradients[key], rtol=1e-10, atol=1e-10)


def train_by_peer(rank, workers):
    torch.set_num_threads(1)
    g = graph(nodes=60, edges=900)
    x = torch.randn(g.num_nodes(), 6, dtype=torch.float64)
    model, expected, weights, gradients = trained("SAGE", g, x)
    options = {"replicate_bytes": 0, "planner": "vertices", "pins": {"x": 0}}
    plan = smex.partition(model, args=(g, x), workers=workers, **options).plan
    plan.native.by_peer = True  # as a memory limit may have it
    plan.forget_program()
    net = smex.partition(model, args=(g, x), plan=plan)
    out = net(g, x)
    (out * weights).sum().backward()
    stats = net.stats()
    moved = (stats["bytes_moved"], stats["predicted_bytes_moved"])
    found = (out.detach(), net.full_grads())
    return {
        "by_peer": net.plan.program().sums_by_peer,
        "found": found,
        "moved": moved,
        "expected": (expected, gradients),
    }


@pytest.mark.parametrize("variables", [{}, GROUP], ids=["memory", "group"])
def test_ranks_add_up_by_peer(processes, variables):
    for ranks in processes.run(train_by_peer, 2, 4, variables=variables):
        assert ranks["by_peer"] > 0
        assert ranks["moved"][0] == ranks["moved"][1]
        out, grads = ranks["found"]
        expected, gradients = ranks["expected"]
        assert_close(out, expected, rtol=1e-10, atol=1e-10)
        for key, grad in grads.items():
            assert_close(grad, gradients[key], rtol=1e-10, atol=1e-10)


class Steps:
    """A net whose cut is learned, and the same network on one process, trained side by side."""

    def __init__(self, g, x, state=None):
        torch.manual_seed(0)
        model = sg.nn.SAGEConv(x.shape[1], 5, "mean").double()
        self.inputs = g, x
        self.reference = sg.nn.SAGEConv(x.shape[1], 5, "mean").double()
        self.reference.load_state_dict(state or model.state_dict())
        self.net = smex.partition(
            model, args=self.inputs, planner="vertices", replicate_bytes=0, boundaries="learned"
        )
        self.both = [
            (module, torch.optim.Adam(module.parameters(), 0.05))
            for module in (self.net, self.reference)
        ]

    def take(self, count):
        """Returns the ends of the vertices' ranges in each step."""
        ends = []
        for _ in range(count):
            for module, optimizer in self.both:
                optimizer.zero_grad()
                module(*self.inputs).square().mean().backward()
                optimizer.step()
            ends.append(tuple(self.net.plan.options.boundaries.ends[self.inputs[0].num_nodes()]))
        return ends

    def differences(self):
        """Returns how far the parameters are from those of one process."""
        wanted = self.reference.state_dict()
        return [
            (value - wanted[key]).abs().max().item() for key, value in self.net.state_dict().items()
        ]


def learn(rank, folder):
    torch.set_num_threads(1)
    think = recut.Recuts.think
    recut.Recuts.think = lambda self, _: think(self, 0.0)  # as if programs were made at once
    recut._LEAST_GAIN = 0.0
    torch.manual_seed(0)
    hubs = torch.arange(4000) % 20
    any_of = torch.randint(400, (2, 4000))
    g = sg.graph((any_of[0], torch.where(torch.arange(4000) % 2 == 0, hubs, any_of[1])))
    x = torch.randn(g.num_nodes(), 6, dtype=torch.float64)
    steps = Steps(g, x)
    ends = steps.take(12)
    found = [steps.differences()]
    smex.save(folder, steps.net, steps.both[0][1])
    again = Steps(g, x, steps.reference.state_dict())
    smex.load(folder, again.net, again.both[0][1])
    again.both[1][1].load_state_dict(steps.both[1][1].state_dict())
    ends += again.take(6)
    found.append(again.differences())
    return {"ends": ends, "differences": found}


@pytest.mark.parametrize("variables", [{}, GROUP], ids=["memory", "group"])
def test_ranks_learn_where_vertices_are_cut_together(processes, tmp_path, variables):
    pytest.importorskip("scipy")
    ranks = processes.run(learn, 2, tmp_path / "saved", variables=variables)
    assert ranks[0]["ends"] == ranks[1]["ends"]
    assert len(set(ranks[0]["ends"])) > 1
    for rank in ranks:
        for differences in rank["differences"]:
            assert differences and max(differences) < 1e-10
