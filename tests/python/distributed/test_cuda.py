"""Ranks on a GPU, whose tiles go through NCCL, against threads on the same GPU.

Where there are too few GPUs ranks share one: each takes itself for a host of its own, so that NCCL
does not refuse the device, and speaks through sockets.
"""

import math
import os
import signal
import time

import pytest
import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh

import smex
from support.families import FAMILIES, small_case
from support.processes import ProcessPool

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(
        not smex.show_config().native,
        reason=f"native library: {smex.show_config().native_reason}",
    ),
]

TIMEOUT = 110  # a context, NCCL, and kernels of several processes that take turns on one GPU


@pytest.fixture(scope="module")
def ranks():
    """Processes that no test on the CPU uses: CUDA and NCCL stay as they began."""
    pool = ProcessPool()
    yield pool
    pool.close()


def place(rank):
    """The device of a rank, which NCCL will take for that of another host."""
    os.environ.update(
        NCCL_HOSTID=f"host-{rank}", NCCL_SOCKET_IFNAME="lo", NCCL_IB_DISABLE="1",
        NCCL_P2P_DISABLE="1", NCCL_SHM_DISABLE="1",
    )  # fmt: skip
    torch.cuda.set_device(rank % torch.cuda.device_count())
    torch.backends.cudnn.deterministic = True
    return torch.device("cuda", torch.cuda.current_device())


def moved(tensors, device):
    return tuple(tensor.to(device) for tensor in tensors)


def train(rank, family, workers, options=None):
    """Trains and evaluates in turns; what a user may read afterwards, on the CPU."""
    device = place(rank)
    model, inputs, target, loss_fn = small_case(family)
    args = moved((*inputs, target), device)
    torch.manual_seed(0)
    net = smex.partition(
        model.to(device), workers=workers, devices=device, loss_fn=loss_fn, replicate_bytes=0,
        args=args, **(options or {}),
    )  # fmt: skip
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
    losses = []
    for _ in range(2):
        net.train()
        loss = net(*args)
        loss.backward()
        norm = smex.clip_grad_norm_(net, 1e9)
        grads = net.full_grads()
        optimizer.step()
        optimizer.zero_grad()
        losses += [loss.detach(), norm.to(loss)]
        net.eval()
        with torch.no_grad():
            losses.append(net(*args))
    stats = net.stats()
    assert stats["bytes_moved"] == stats["predicted_bytes_moved"]
    tensors = {**{f"gradient of {n}": g for n, g in grads.items()}, **net.state_dict()}
    tensors["losses"] = torch.stack(losses)
    return {name: tensor.cpu() for name, tensor in tensors.items()}


def assert_close(found, expected, exact=False):
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        if exact:
            assert torch.equal(found[name], tensor), name
        scale = float(tensor.abs().max()) if tensor.is_floating_point() and tensor.numel() else 0.0
        torch.testing.assert_close(found[name], tensor, rtol=1e-9, atol=1e-9 * scale, msg=name)


@pytest.mark.parametrize("family", FAMILIES)
def test_ranks_equal_threads(ranks, family):
    expected = train(0, family, 2)
    for found in ranks.run(train, 2, family, 2, timeout=TIMEOUT):
        assert_close(found, expected)


def test_three_ranks_change_no_bit(ranks):
    expected = train(0, "gpt", 3)
    for found in ranks.run(train, 3, "gpt", 3, timeout=TIMEOUT):
        assert_close(found, expected, exact=True)


@pytest.mark.parametrize("options", [{}, {"deterministic": False}], ids=["in order", "any order"])
def test_collectives(ranks, options):
    expected = train(0, "gpt", 2)
    options = {"collectives": "always", **options}
    for found in ranks.run(train, 2, "gpt", 2, options, timeout=TIMEOUT):
        assert_close(found, expected, exact=options.get("deterministic", True))


def test_unequal_parts(ranks):
    expected = train(0, "gpt", 3, {"weights": [2, 0, 1]})
    for found in ranks.run(train, 3, "gpt", 3, {"weights": [2, 0, 1]}, timeout=TIMEOUT):
        assert_close(found, expected, exact=True)


def save_and_go_on(rank, folder):
    """A model on the meta device over a mesh: initialised, trained, saved, loaded, gone on with."""
    place(rank)
    mesh = init_device_mesh("cuda", (2,))
    args = torch.randn(8, 16, generator=torch.Generator().manual_seed(1)).cuda()

    def net_of(seed):
        with torch.device("meta"):
            model = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 16))
        net = smex.partition(
            model, mesh=mesh, args=(args, args), loss_fn=nn.functional.mse_loss, replicate_bytes=0
        )
        assert {device.type for device in net.devices} == {"cuda"}
        smex.init(net, seed=seed)
        return net, torch.optim.AdamW(net.parameters(), lr=1e-2)

    def step(net, opt):
        opt.zero_grad()
        loss = net(args, args)
        loss.backward()
        opt.step()
        return loss.item()

    net, opt = net_of(0)
    step(net, opt)
    smex.save(f"{folder}/step", net, opt, background=True).wait()
    wanted = [step(net, opt) for _ in range(2)]
    other, again = net_of(1)
    smex.load(f"{folder}/step", other, again)
    assert [step(other, again) for _ in range(2)] == wanted
    return wanted


def test_initialised_saved_and_gone_on_with(ranks, tmp_path):
    first, second = ranks.run(save_and_go_on, 2, str(tmp_path), timeout=TIMEOUT)
    assert first == second
    assert all(value > 0 for value in first)


def fail(rank, how):
    """Rank 1 fails in its third step; what the other is told, which waits for its device."""
    device = place(rank)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(32, 64), nn.Tanh(), nn.Linear(64, 32)).to(device)
    net = smex.partition(model, args=torch.randn(16, 32, device=device), replicate_bytes=0,
                         devices=device)  # fmt: skip
    begun = math.inf
    try:
        for step in range(20):
            if rank == 1 and step == 2:
                if how == "raises":
                    raise ValueError("no more data")
                if how == "goes":
                    return how
                if how == "does something else":
                    net(torch.randn(16, 32, device=device))
                    net(torch.randn(16, 32, device=device))
                else:
                    os.kill(os.getpid(), signal.SIGKILL if how == "is killed" else signal.SIGSTOP)
            begun = time.monotonic()
            net(torch.randn(16, 32, device=device)).sum().backward()
            torch.cuda.synchronize()
    except smex.RankFailure as failure:
        took = time.monotonic() - begun
        usable = (torch.ones(3, device=device) + 1).sum().item()  # the device is not stuck
        return failure.kind, failure.rank, took, usable, str(failure)
    return "nothing"


@pytest.mark.parametrize(
    ("how", "kind", "seconds"),
    [
        ("is killed", "gone", 5),
        ("raises", "raised", 5),
        ("goes", "left", 10),
        ("stops", "silent", 10),
        ("does something else", "raised", 10),
    ],
)
def test_a_rank_that_fails_is_named(how, kind, seconds):
    pool = ProcessPool()
    try:
        good, what = pool.outcomes(fail, 2, how, timeout=TIMEOUT, ends=how != "stops")[0]
    finally:
        pool.close()
    assert good, what
    assert what[0] == kind and what[1] in (1, *([0] if "else" in how else [])), what
    assert what[2] < seconds and what[3] == 6, what


def measure(rank):
    """The machine and the cluster that two ranks are, and a net that is planned by time."""
    device = place(rank)
    mesh = init_device_mesh("cuda", (2,))
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 256)).to(device)
    x = torch.randn(64, 256, device=device)
    graph = smex.capture_graph(model, (x, x), loss_fn=nn.functional.mse_loss)
    machine = smex.profile(graph, smex.Machine.calibrate(mesh=mesh), mesh=mesh)
    cluster = smex.cluster.profile(graph, mesh=mesh)
    net = smex.partition(
        model, mesh=mesh, args=(x, x), loss_fn=nn.functional.mse_loss, objective="time"
    )
    loss = net(x, x)
    loss.backward()
    assert abs(loss.item() - nn.functional.mse_loss(model(x), x).item()) < 1e-4
    return machine.levels[0], sorted(machine.calls), [d.name for d in cluster.devices]


def test_ranks_are_measured(ranks):
    first, second = ranks.run(measure, 2, timeout=TIMEOUT)
    assert first == second
    level, calls, names = first
    assert level.size == 2 and level.latency > 0 and level.bandwidth > 1e5
    assert any("addmm" in kind or "mm" in kind for kind in calls)
    assert all(torch.cuda.get_device_name(0) in name for name in names)
