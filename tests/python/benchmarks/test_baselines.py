"""Estimates of baselines against what is known of them, and Megatron's placements."""

import dataclasses
import itertools
import math
import re

import baselines
import batches
import pytest
import torch
from baselines.iteration import Iteration
from baselines.layers import Schedule
from torch import nn
from torch.nn import functional as F

import smex
from smex import _C
from support.families import FAMILIES, models

pytestmark = pytest.mark.costly

MACHINE = smex.Machine.k80_pcie()
ESTIMATES = (baselines.ideal, baselines.small_batch, baselines.swapping)


def chain(size=64, layers=3, batch=8):
    """Square matrices one after the other, without a loss."""
    model = nn.Sequential(*(nn.Linear(size, size, bias=False) for _ in range(layers)))
    return smex.capture_graph(model, (torch.empty(batch, size),))


def rnn(layers=4, batch=16, hidden=256):
    with torch.device("meta"):
        args = (torch.empty(batch, 5, 32), torch.empty(batch, 5, hidden))
        return smex.capture_graph(models.RNN(layers, hidden, inputs=32), args, loss_fn=F.mse_loss)


def wresnet(batch=4):
    with torch.device("meta"):
        args = (torch.empty(batch, 3, 64, 64), torch.empty(batch, dtype=torch.int64))
        return smex.capture_graph(models.WResNet(26, 1), args, loss_fn=F.cross_entropy)


def with_memory(nbytes):
    return dataclasses.replace(MACHINE, memory=nbytes)


# ---- one iteration ----


@pytest.mark.parametrize("family", FAMILIES)
def test_seconds_of_ops_and_peak_are_those_of_the_plan_for_one_worker(family):
    model, _ = FAMILIES[family]
    args = model.small_inputs(torch.float32)[: 2 if family == "dlrm" else 1]
    graph = smex.capture_graph(model.small(), args)
    plan = smex.search(graph, 1, machine=MACHINE)
    seconds = baselines.op_seconds(graph, MACHINE)
    assert sum(seconds) == pytest.approx(plan.compute_seconds)
    iteration = Iteration(graph, MACHINE, 0)
    assert sum(step.seconds for step in iteration.steps) == pytest.approx(plan.compute_seconds)
    assert iteration.peak_bytes() == plan.peak_bytes()[0]


@pytest.mark.parametrize("states", [0, 1, 2])
def test_ideal_is_one_worker_times_their_number(states):
    graph = chain()
    estimate = baselines.ideal(graph, MACHINE, optimizer_states=states)
    parameters = 3 * 64 * 64 * 4
    alone = smex.search(graph, 1, machine=MACHINE).compute_seconds
    update = (3 + 2 * states) * parameters / MACHINE.memory_bandwidth
    assert estimate.seconds == pytest.approx(alone + update)
    assert estimate.samples == 8 * MACHINE.workers and estimate.moved_bytes == 0
    assert estimate.samples_per_second == pytest.approx(64 / estimate.seconds)
    assert estimate.fits and estimate.memory == math.inf
    small = baselines.small_batch(graph, MACHINE, optimizer_states=states)
    assert (small.seconds, small.peak_bytes) == (estimate.seconds, estimate.peak_bytes)
    assert small.peak_bytes >= (2 + states) * parameters  # with the gradients


def test_small_batch_fits_exactly_its_peak():
    peak = baselines.small_batch(chain(), MACHINE, optimizer_states=1).peak_bytes
    for memory, fits in ((peak, True), (peak - 1, False)):
        estimate = baselines.small_batch(chain(), with_memory(memory), optimizer_states=1)
        assert estimate.fits == fits
        assert ("does not fit" in repr(estimate)) != fits


def test_planned_adds_the_update_of_the_tiles():
    graph = chain()
    plan = smex.search(graph, 2, machine=MACHINE, replicate_bytes=0)
    estimate = baselines.planned(plan, optimizer_states=1)
    tiles = 3 * 64 * 64 * 4 / 2
    assert estimate.seconds == pytest.approx(plan.seconds + 5 * tiles / MACHINE.memory_bandwidth)
    assert estimate.moved_bytes == plan.total_bytes and estimate.samples == 8
    assert estimate.peak_bytes == max(plan.peak_bytes()) + tiles
    assert repr(estimate).startswith("Estimate(tofu: ")
    with pytest.raises(smex.SmexTypeError, match="planned: the plan has no machine"):
        baselines.planned(smex.search(graph, 2))


def test_the_largest_batch_that_fits():
    def estimate(batch):
        return baselines.small_batch(chain(batch=batch), with_memory(200_000))

    batch, found = baselines.largest_fitting(estimate, [512, 16, 64, 128])
    assert found.fits and not estimate(2 * batch).fits
    assert found.samples == batch * MACHINE.workers
    assert baselines.largest_fitting(estimate, [4096]) is None
    assert baselines.largest_fitting(estimate, []) is None


# ---- swapping ----


@pytest.mark.parametrize("policy", ["belady", "lru"])
@pytest.mark.parametrize("make", [chain, rnn, wresnet])
def test_swapping_with_enough_memory_moves_nothing(make, policy):
    graph = make()
    ideal = baselines.ideal(graph, MACHINE, optimizer_states=1)
    estimate = baselines.swapping(graph, MACHINE, optimizer_states=1, policy=policy)
    assert estimate.moved_bytes == 0 and estimate.fits
    assert estimate.seconds == pytest.approx(ideal.seconds)
    assert estimate.peak_bytes <= ideal.peak_bytes  # a gradient is dropped after its update


@pytest.mark.parametrize("make", [chain, rnn, wresnet])
def test_swapping_of_less_memory_is_never_faster(make):
    graph = make()
    whole = baselines.swapping(graph, MACHINE, optimizer_states=1).peak_bytes
    by_policy = {}
    for policy in ("belady", "lru"):
        found = [
            baselines.swapping(graph, with_memory(whole * part), optimizer_states=1, policy=policy)
            for part in (1, 0.8, 0.6, 0.4, 0.3, 0.2)
        ]
        moved = [estimate.moved_bytes for estimate in found]
        assert moved[0] == 0 and moved == sorted(moved)
        seconds = [estimate.seconds for estimate in found]
        assert seconds == sorted(seconds)
        assert all(e.peak_bytes <= e.memory for e in found if e.fits)
        by_policy[policy] = sum(moved)
    assert by_policy["belady"] <= by_policy["lru"]


def test_swapping_asks_for_the_memory_of_the_largest_call():
    graph = chain(layers=2, batch=1)
    largest = 3 * 64 * 64 * 4  # an update: the parameter, its gradient and the state
    assert baselines.swapping(graph, with_memory(largest), optimizer_states=1).fits
    estimate = baselines.swapping(graph, with_memory(largest - 1), optimizer_states=1)
    assert not estimate.fits and estimate.peak_bytes == largest
    assert "does not fit" in repr(estimate)


def test_swapping_of_a_chain_by_hand():
    """Two weights of W bytes, their states, and room for 3 W and the activations.

    An iteration begins with the first weight and its state, which were updated last. The second
    weight is brought; its gradient and its state drive out the first weight and state, which have
    changed and are written. The first layer's update brings them again and drives out the second
    weight and state, changed too. So all four are brought once and written once.
    """
    size = 256
    graph = chain(size=size, layers=2, batch=1)
    weight, activations = size * size * 4, 16 * size * 4
    memory = with_memory(3 * weight + activations)
    for policy in ("belady", "lru"):
        estimate = baselines.swapping(graph, memory, optimizer_states=1, policy=policy)
        moved = estimate.moved_bytes / MACHINE.workers
        assert 8 * weight <= moved <= 8 * weight + activations


def test_the_host_is_shared_by_all_workers():
    graph = rnn()
    small = baselines.swapping(graph, MACHINE, optimizer_states=1).peak_bytes * 0.3
    alone = dataclasses.replace(with_memory(small), levels=(smex.Level(1, 0, 1),))
    one, eight = (
        baselines.swapping(graph, machine, optimizer_states=1, host_bandwidth=1e9)
        for machine in (alone, with_memory(small))
    )
    assert eight.moved_bytes == 8 * one.moved_bytes
    assert eight.seconds == pytest.approx(8 * one.seconds)  # both wait for the host
    assert eight.samples == 8 * one.samples


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"policy": "fifo"}, 'swapping: unknown policy "fifo"; known are "belady" and "lru"'),
        ({"host_bandwidth": 0}, "expected a host_bandwidth of more than 0, found 0"),
    ],
)
def test_swapping_that_cannot_be(options, text):
    with pytest.raises(smex.SmexValueError, match=re.escape(text)):
        baselines.swapping(chain(), MACHINE, **options)


# ---- operator placement ----

LAYERS = [f"cells.{layer}" for layer in range(4)]


def test_placement_on_one_device_is_one_device():
    graph = rnn()
    one = baselines.op_placement(graph, MACHINE, LAYERS, devices=1, optimizer_states=1)
    ideal = baselines.ideal(graph, MACHINE, optimizer_states=1)
    assert one.seconds == pytest.approx(ideal.seconds) and one.moved_bytes == 0
    assert one.samples * MACHINE.workers == ideal.samples
    assert one.peak_bytes == ideal.peak_bytes


def test_layers_on_devices_overlap():
    graph = rnn()
    found = {
        n: baselines.op_placement(graph, MACHINE, LAYERS, devices=n, optimizer_states=1)
        for n in (1, 2, 4, 8)
    }
    assert found[1].seconds > found[2].seconds > found[4].seconds
    assert found[1].seconds < 4 * found[4].seconds  # a pipeline has to fill
    assert found[1].peak_bytes > found[2].peak_bytes > found[4].peak_bytes
    assert dataclasses.replace(found[8]) == found[4]  # four layers fill four devices
    hidden = 16 * 256 * 4
    between = 2 * 3 * 5 * hidden  # forward and back, 3 links, 5 steps
    assert between <= found[4].moved_bytes <= 1.2 * between


def test_more_layers_than_devices_take_turns():
    graph = rnn(layers=3)
    iteration = Iteration(graph, MACHINE, 0)
    schedule = Schedule(iteration, LAYERS[:3], 2)
    for step, device in zip(schedule._steps, schedule.device, strict=True):
        path = step.op.module_path if step.op else ""
        if path.startswith("cells."):
            assert device == int(path.split(".")[1]) % 2
    schedule.run()
    assert min(schedule.finish) >= 0 and max(schedule.free) == max(schedule.finish)


def test_a_schedule_respects_data_and_devices():
    """No call begins before its operands have arrived, and no device runs two at once."""
    iteration = Iteration(rnn(), MACHINE, 1)
    schedule = Schedule(iteration, LAYERS, 4)
    schedule.run()
    spans = {}
    for n, step in enumerate(schedule._steps):
        for value in step.inputs:
            made = schedule._producer.get(value)
            if made is not None:
                assert schedule._start[n] >= schedule.finish[made]
        spans.setdefault(schedule.device[n], []).append((schedule._start[n], schedule.finish[n]))
    for device in spans.values():
        device.sort()
        assert all(a[1] <= b[0] for a, b in itertools.pairwise(device))


@pytest.mark.parametrize(
    ("layers", "options", "text"),
    [
        (["cells.0", "cell"], {}, 'op_placement: no call belongs to a module "cell"'),
        (LAYERS, {"devices": 9}, "op_placement: expected 1 to 8 devices, found 9"),
        (LAYERS, {"devices": 0}, "op_placement: expected 1 to 8 devices, found 0"),
    ],
)
def test_placements_that_cannot_be(layers, options, text):
    with pytest.raises(smex.SmexValueError, match=re.escape(text)):
        baselines.op_placement(rnn(), MACHINE, layers, **options)


# ---- arguments ----


@pytest.mark.parametrize("estimate", ESTIMATES)
def test_what_is_no_graph_or_machine(estimate):
    with pytest.raises(smex.SmexTypeError, match="expected a smex.SemanticGraph, found"):
        estimate(nn.Linear(2, 2), MACHINE)
    with pytest.raises(smex.SmexTypeError, match="expected a smex.Machine, found 'k80'"):
        estimate(chain(), "k80")


@pytest.mark.parametrize("estimate", ESTIMATES)
def test_a_model_without_a_batch(estimate):
    graph = smex.capture_graph(lambda x: x * 2, (torch.tensor(1.0),))
    with pytest.raises(smex.SmexValueError, match="first input has no dimension"):
        estimate(graph, MACHINE)


# ---- captures at another batch ----


@pytest.mark.parametrize("batch", [1, 2, 6])
@pytest.mark.parametrize("make", [wresnet, rnn], ids=["wresnet", "rnn"])
def test_a_capture_at_another_batch(make, batch):
    scaled = batches.at_batch(make(batch=batches.PRIME_BATCH).captured, batch)
    captured = make(batch=batch).captured
    fractions = re.compile(r"\b\d+\.\d+(e-\d+)?\b")
    expected, found = (
        [
            fractions.sub("_", re.sub(r"cells\.\d+|layer\d\.\d", "", line))
            for line in str(g).split("\n")
        ]
        for g in (captured, scaled)
    )
    assert found == expected
    plans = [smex.search(smex.SemanticGraph(g), 4, machine=MACHINE) for g in (captured, scaled)]
    assert plans[0].total_bytes == plans[1].total_bytes
    assert plans[0].seconds == pytest.approx(plans[1].seconds)


# ---- Megatron ----


class Network(nn.Module):
    """The feed-forward half of a transformer's block."""

    def __init__(self, embed):
        super().__init__()
        self.norm = nn.LayerNorm(embed)
        self.up, self.down = nn.Linear(embed, 4 * embed), nn.Linear(4 * embed, embed)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Layer(nn.Module):
    """A block whose queries, keys and values come from one matrix, grouped by head."""

    def __init__(self, embed, heads):
        super().__init__()
        self.heads, self.norm = heads, nn.LayerNorm(embed)
        self.qkv, self.proj = nn.Linear(embed, 3 * embed), nn.Linear(embed, embed)
        self.network = Network(embed)

    def forward(self, x):
        n, t, e = x.shape
        qkv = self.qkv(self.norm(x)).view(n, t, self.heads, 3, e // self.heads)
        q, k, v = qkv.permute(3, 0, 2, 1, 4).unbind(0)
        y = (q @ k.mT).softmax(-1) @ v
        return self.network(x + self.proj(y.transpose(1, 2).reshape(n, t, e)))


def token_loss(logits, targets):
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def all_reduces(capture, workers, backward, numel):
    """How many all-reduces of `numel` numbers what a layer moves is equal to.

    `capture` gives a model of so many layers; one more moves so much more.
    """
    moved = []
    for layers in (3, 4):
        graph = capture(layers)
        pins = baselines.megatron(graph, [workers])
        plan = smex.search(graph, workers, mesh=[workers], pinned=pins, replicate_bytes=2**62)
        nbytes = _C.op_bytes(graph.native, plan.native)
        moved.append(
            sum(n for n, op in zip(nbytes, graph.captured.ops, strict=True)
                if op.backward == backward)
        )  # fmt: skip
    return (moved[1] - moved[0]) / (2 * (workers - 1) * 4 * numel)


@pytest.mark.parametrize("workers", [2, 4, 8])
def test_a_network_of_megatron_takes_an_all_reduce_each_way(workers):
    def capture(layers):
        with torch.device("meta"):
            model = nn.Sequential(*(Network(512) for _ in range(layers)))
            args = (torch.empty(4, 64, 512), torch.empty(4, 64, 512))
            return smex.capture_graph(model, args, loss_fn=F.mse_loss)

    pins = baselines.megatron(capture(2), [workers])
    assert pins["1.up.weight"] == pins["1.up.bias"] == [0] and pins["1.down.weight"] == [1]
    assert pins["1.down.bias"] == pins["1.norm.weight"] == pins["input"] == [-1]
    for backward in (False, True):
        found = all_reduces(capture, workers, backward, 4 * 64 * 512)
        assert found == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize("workers", [2, 4])
@pytest.mark.parametrize(
    ("batch", "fused", "forward", "backward"),
    [
        (1, True, 2, 2),  # Megatron's
        (1, False, 2, 2),  # the gradients of queries, keys and values are summed before
        (8, False, 1.5, 1.5),  # attention by samples in place of heads
    ],
)
def test_all_reduces_of_a_layer_of_megatron(workers, batch, fused, forward, backward):
    def capture(layers):
        with torch.device("meta"):
            if fused:
                model, loss_fn = nn.Sequential(*(Layer(512, 8) for _ in range(layers))), F.mse_loss
                args = (torch.empty(batch, 256, 512), torch.empty(batch, 256, 512))
            else:
                model, loss_fn = models.GPT(layers, 512, 8, 1000, 256), token_loss
                args = tuple(torch.empty(batch, 256, dtype=torch.int64) for _ in range(2))
            return smex.capture_graph(model, args, loss_fn=loss_fn)

    for expected, backwards in ((forward, False), (backward, True)):
        found = all_reduces(capture, workers, backwards, batch * 256 * 512)
        assert found == pytest.approx(expected, abs=0.02)


@pytest.mark.parametrize("model", [models.GPT, models.Llama])
@pytest.mark.parametrize(("mesh", "data_steps"), [([2], 0), ([2, 2], 1), ([2], 1)])
def test_megatron_runs_and_equals_the_model(model, mesh, data_steps):
    torch.manual_seed(0)
    net, (x, y) = model.small().double(), model.small_inputs()
    x, y = x[:2], y[:2]
    graph = smex.capture_graph(net, (x, y), loss_fn=token_loss)
    pins = baselines.megatron(graph, mesh, data_parallel_steps=data_steps)
    workers = math.prod(mesh)
    plan = smex.search(graph, workers, mesh=mesh, pinned=pins, replicate_bytes=2**62)
    divided = smex.partition(net, workers=workers, plan=plan, loss_fn=token_loss, args=(x, y))
    assert divided.plan.placements()["blocks.0.down.weight"] == pins["blocks.0.down.weight"]
    loss, expected = divided(x, y), token_loss(net(x), y)
    torch.testing.assert_close(loss, expected)
    loss.backward()
    expected.backward()
    gradients = divided.full_grads()
    for name, parameter in net.named_parameters():
        torch.testing.assert_close(gradients[name], parameter.grad)


def test_llama_8b_is_pinned_without_being_allocated():
    with torch.device("meta"):
        model = models.Llama.of_size("8B", layers=2).bfloat16()
        args = (torch.empty(1, 128, dtype=torch.int64), torch.empty(1, 128, dtype=torch.int64))
        whole = models.Llama.of_size("8B")
        graph = smex.capture_graph(model, args, loss_fn=token_loss)
    assert sum(p.numel() for p in whole.parameters()) == 8_030_261_248
    pins = baselines.megatron(graph, [8])
    plan = smex.search(graph, 8, mesh=[8], pinned=pins, replicate_bytes=2**62)
    assert plan.words("blocks.1.gate.weight") == "S0/8" and plan.words("norm.weight") == "R/8"


def test_models_that_megatron_does_not_know():
    with pytest.raises(smex.SmexValueError, match="megatron: no module of the model is called"):
        baselines.megatron(chain(), [2])
    assert baselines.megatron(chain(), [2], data_parallel_steps=1)["input"] == [0]
    assert baselines.megatron(chain(), [2], column=["0"], row=["1"])["1.weight"] == [1]
    with pytest.raises(smex.SmexValueError, match="expected 0 to 1 data_parallel_steps, found 2"):
        baselines.megatron(chain(), [2], data_parallel_steps=2)
