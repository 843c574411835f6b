"""Machines that are GPUs, measured; the order of what they take, no seconds."""

import pytest
import torch
from torch import nn

import smex
from smex.planning.profiling import measured
from smex.planning.semantic import SemanticGraph

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(
        not smex.show_config().native,
        reason=f"native library: {smex.show_config().native_reason}",
    ),
]


class Words(nn.Module):
    """Integers that index, a convolution, an attention and a norm."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(500, 64)
        self.near = nn.Conv1d(64, 64, 3, padding=1)
        self.attention = nn.MultiheadAttention(64, 4, batch_first=True)
        self.norm = nn.LayerNorm(64)

    def forward(self, words):
        x = self.words(words)
        x = x + self.near(x.transpose(1, 2)).transpose(1, 2)
        return self.norm(x + self.attention(x, x, x, need_weights=False)[0]).mean(1)


@pytest.fixture(scope="module")
def graph():
    words = torch.randint(500, (32, 16), device="cuda")
    target = torch.randn(32, 64, device="cuda")
    return smex.capture_graph(Words().cuda(), (words, target), loss_fn=nn.functional.mse_loss)


@pytest.fixture(scope="module")
def machine():
    return smex.Machine.calibrate(1, device="cuda")


def test_rates(machine):
    assert torch.cuda.get_device_name() in machine.name
    assert machine.memory == torch.cuda.get_device_properties(0).total_memory
    assert machine.flops["float32"] > 1e12 and machine.flops["float16"] > machine.flops["float32"]
    assert 1e11 < machine.memory_bandwidth < 1e14
    assert machine.gather_bandwidth > 1e10
    assert 1e-7 < machine.launch < 1e-3
    with pytest.raises(smex.SmexValueError, match="one for each GPU"):
        smex.Machine.calibrate(torch.cuda.device_count() + 1, device="cuda")


def test_calls_are_measured_where_they_will_run(graph, machine):
    generators = torch.get_rng_state(), torch.cuda.get_rng_state()
    profiled = smex.profile(graph, machine, device="cuda")
    assert torch.equal(generators[0], torch.get_rng_state())
    assert torch.equal(generators[1], torch.cuda.get_rng_state())
    assert {"aten::embedding", "aten::convolution"} <= profiled.calls.keys()
    plan = smex.search(graph, 1, machine=profiled, objective="time")
    assert smex.simulate(plan).seconds > 0
    cluster = smex.cluster.profile(graph, device="cuda")
    assert torch.cuda.get_device_name() in cluster.devices[0].name
    assert cluster.devices[0].calls.keys() == profiled.calls.keys()


def test_larger_products_take_longer():
    rows = torch.randn(4096, 4096, device="cuda")
    captured = smex.capture(nn.Linear(4096, 4096).cuda(), (rows,))
    found = measured(SemanticGraph(captured), False, torch.device("cuda", 0))
    products = [call for call in found if call.features[1] > 1e9]
    least, most = (f(products, key=lambda call: call.features[1]) for f in (min, max))
    assert most.features[1] > 4 * least.features[1]
    assert most.seconds > 1.5 * least.seconds
