"""A net over several processes against the same net on threads, in float64: equal bit by bit."""

import pytest
import torch

import smex
from smex.execution.partition import refuse_shared_devices
from support.families import FAMILIES, small_case

pytestmark = pytest.mark.costly

GROUP = {"SMEX_SHARED_MEMORY": "0"}


def train(rank, family, workers, steps=2, **options):
    """Trains and evaluates in turns; everything that a user may read afterwards."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model, inputs, target, loss_fn = small_case(family)
    net = smex.partition(model, workers=workers, loss_fn=loss_fn, replicate_bytes=0, **options)
    net.prepare((*inputs, target))
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
    torch.manual_seed(1)
    losses = []
    for _ in range(steps):
        net.train()
        loss = net(*inputs, target)
        loss.backward()
        grads = net.full_grads()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
        net.eval()
        with torch.no_grad():
            losses.append(net(*inputs, target))
    stats = net.stats()
    return {
        "losses": losses,
        "grads": grads,
        "state": net.state_dict(),
        "bytes": (stats["bytes_moved"], stats["predicted_bytes_moved"]),
    }


def assert_equal(found, expected, what):
    assert [loss.item() for loss in found["losses"]] == [x.item() for x in expected["losses"]], what
    for part in ("grads", "state"):
        assert found[part].keys() == expected[part].keys(), (what, part)
        for name, tensor in expected[part].items():
            assert torch.equal(found[part][name], tensor), (what, part, name)
    counted, predicted = found["bytes"]
    assert counted == predicted, what


@pytest.mark.costly(cases=3)
@pytest.mark.parametrize("world", [2, 3, 4, 6, 8])
@pytest.mark.parametrize("family", FAMILIES)
def test_processes_equal_threads(processes, family, world):
    expected = train(0, family, world)
    for rank, found in enumerate(processes.run(train, world, family, world)):
        assert_equal(found, expected, f"rank {rank}")


@pytest.mark.parametrize("variables", [{}, GROUP], ids=["shared memory", "group"])
@pytest.mark.parametrize("world", [2, 3])
def test_processes_of_two_threads_each(processes, world, variables):
    workers = 2 * world
    expected = train(0, "gpt", workers)
    for found in processes.run(train, world, "gpt", workers, variables=variables):
        assert_equal(found, expected, variables)


@pytest.mark.parametrize("family", ["dlrm", "gpt"])
@pytest.mark.parametrize("world", [2, 4])
def test_through_the_process_group(processes, family, world):
    expected = train(0, family, world)
    for found in processes.run(train, world, family, world, variables=GROUP):
        assert_equal(found, expected, world)


def train_large(rank, workers):
    """Moves more at once than there is shared memory, and more than messages are asked for."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = torch.nn.Sequential(torch.nn.Linear(1500, 3000, bias=False), torch.nn.ReLU()).double()
    net = smex.partition(
        model, workers=workers, planner="fsdp", args=torch.randn(24, 1500, dtype=torch.float64)
    )
    x = torch.randn(24, 1500, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    for _ in range(2):
        net(x).square().sum().backward()
    return [grad.sum().item() for grad in net.full_grads().values()], net.stats()["bytes_moved"]


@pytest.mark.parametrize("variables", [{}, GROUP], ids=["shared memory", "group"])
def test_tiles_larger_than_what_may_be_on_its_way(processes, variables):
    expected = train_large(0, 3)
    assert expected[1] > 70e6
    for found in processes.run(train_large, 3, 3, variables=variables):
        assert found[0] == expected[0]
        assert found[1] >= expected[1]  # results are gathered too


@pytest.mark.parametrize(
    ("devices", "text"),
    [
        (["cuda"] * 4, "2 workers of rank 0 are on cuda,"),
        (["cuda:0", "cuda:1", "cuda:1", "cuda:1"], "2 workers of rank 1 are on cuda:1,"),
        (["cuda:0", "cuda:1"] * 2, None),
        (["cpu"] * 4, None),
    ],
)
def test_workers_of_a_process_do_not_share_a_gpu(devices, text):
    places = [torch.device(device) for device in devices]
    if text is None:
        refuse_shared_devices(places, 2)
        return
    with pytest.raises(smex.SmexValueError, match=text):
        refuse_shared_devices(places, 2)
