"""Clusters that are measured: this process, and several."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import smex
from support.processes import ProcessPool


def captured():
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 8))
    return smex.capture_graph(model, (torch.rand(48, 32), torch.rand(48, 8)), loss_fn=F.mse_loss)


def test_this_process(tmp_path):
    cluster = smex.cluster.profile(captured())
    assert cluster.workers == 1 and "aten::addmm" in cluster.devices[0].calls
    plan = smex.search(captured(), 1, objective="time", machine=cluster)
    assert 0 < plan.compute_seconds == pytest.approx(smex.simulate(plan).seconds, rel=0.5)
    cluster.save(tmp_path / "cluster.json")
    again = smex.Cluster.load(tmp_path / "cluster.json")
    assert smex.simulate(plan, again).seconds == smex.simulate(plan).seconds


def test_without_a_model_the_roofline_tells():
    assert smex.cluster.profile().devices[0].calls == {}


def test_what_is_profiled():
    with pytest.raises(smex.SmexTypeError, match=r"profile: expected what smex.capture returns"):
        smex.cluster.profile(nn.Linear(2, 2))


def measure(rank):
    torch.set_num_threads(1)
    cluster = smex.cluster.profile(captured())
    torch.manual_seed(0)
    model = nn.Linear(32, 8).double()
    x = torch.rand(48, 32, dtype=torch.float64)
    net = smex.partition(model, args=(x,), objective="time", machine=cluster, replicate_bytes=0)
    return cluster.contents(), (net(x) - model(x)).abs().max().item(), net.plan.placements()


@pytest.mark.costly(cases=1)
@pytest.mark.parametrize("shared", ["0", "1"])
def test_processes(shared):
    pool = ProcessPool()
    try:
        found = pool.run(measure, 3, timeout=120, variables={"SMEX_SHARED_MEMORY": shared})
    finally:
        pool.close()
    contents, differences, placements = zip(*found, strict=True)
    assert contents[0] == contents[1] == contents[2]
    assert placements[0] == placements[1] == placements[2]
    assert max(differences) < 1e-12
    cluster = smex.Cluster.from_contents(contents[0])
    assert cluster.workers == 3
    assert len(cluster.ports) == (3 if shared == "0" else 1)
    links = [cluster.link(a, b) for a in range(3) for b in range(3) if a != b]
    assert all(1e6 < link.bandwidth < 1e12 and 0 < link.latency < 1 for link in links)
