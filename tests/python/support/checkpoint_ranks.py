"""What ranks do with checkpoints of nets that they run together."""

import os

import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

import smex
from support.checkpoints import net_of, train


def told(call):
    """Returns what an error says, which other ranks are told too."""
    try:
        call()
    except smex.SmexError as error:
        return type(error).__name__, str(error)
    return None


def assert_mine(net, opt, whole):
    """This rank's tiles are parts of what is whole, bit by bit."""
    checked = 0
    for name, cut in net._state.cuts.items():
        for tile, worker in cut.unique if name in whole else []:
            place = tuple(slice(*each) for each in cut.boxes[worker][1])
            assert torch.equal(tile, whole[name][place]), name
            for key, value in opt.state.get(tile, {}).items():
                part = whole[f"{name}.{key}"]
                assert torch.equal(value, part[place] if part.dim() else part), (name, key)
                checked += 1
    assert checked or not any(cut.unique for cut in net._state.cuts.values())


def save(rank, workers, path, options):
    """Returns the losses of two steps after the save."""
    net, opt = net_of(workers)
    train(net, opt, 2)
    saved = smex.save(path, net, opt, {"step": 2}, **options)
    losses = train(net, opt, 2)
    saved.wait()
    return losses


def load(rank, workers, paths, wholes):
    """Loads checkpoints one after the other; returns the losses of two steps after each."""
    net, opt = net_of(workers, seed=1)
    losses = []
    for path, whole in zip(paths, wholes, strict=True):
        assert smex.load(path, net, opt) == {"step": 2}
        assert_mine(net, opt, whole)
        losses.append(train(net, opt, 2))
    return losses


def save_whole(rank, workers, path, size):
    net, opt = net_of(workers)
    train(net, opt, 2)
    smex.save(path, net, format="hf", max_shard_bytes=size)


def save_failing(rank, workers, path, failing):
    """The disk of one rank is full; then it is not. Returns the errors of both ways to save."""
    net, opt = net_of(workers)
    real = os.fsync

    def full(descriptor):
        raise OSError(28, "No space left on device")

    errors = []
    for background in (False, True):
        try:
            if rank == failing:
                os.fsync = full
            errors.append(told(lambda: smex.save(path, net, opt, background=background).wait()))  # noqa: B023
        finally:
            os.fsync = real
        assert not os.path.exists(path)
    smex.save(path, net, opt, background=True).wait()  # the groups are as they were
    return errors


def save_elsewhere(rank, workers, folder):
    """Each rank gives a path of its own."""
    net, opt = net_of(workers)
    return told(lambda: smex.save(f"{folder}/of-rank-{rank}", net, opt))


def load_failing(rank, workers, path):
    net, opt = net_of(workers, seed=1)
    tiles = [tile for cut in net._state.cuts.values() for tile, _ in cut.unique]
    before = [tile.detach().clone() for tile in tiles]
    error = told(lambda: smex.load(path, net, opt))
    assert all(torch.equal(tile, value) for tile, value in zip(tiles, before, strict=True))
    assert not opt.state
    return error


def load_fewer(rank, workers, path):
    """Into an optimiser of all parameters, and into one without the first layer."""
    net, opt = net_of(workers, seed=1)
    smex.load(path, net, opt)
    fewer = [p for name, p in net.named_parameters() if not name.endswith("up.weight")]
    return told(lambda: smex.load(path, net, torch.optim.AdamW(fewer)))


def load_different(rank, workers, paths):
    net, opt = net_of(workers)
    return told(lambda: smex.load(paths[rank], net, opt))


def save_torch(rank, workers, path):
    net, opt = net_of(workers)
    train(net, opt, 2)
    dcp.save(net.sharded_state_dict(opt), checkpoint_id=path)


def load_torch(rank, workers, path, whole):
    net, opt = net_of(workers, seed=1)
    state = net.sharded_state_dict(opt, for_loading=True)
    dcp.load(state, checkpoint_id=path)
    net.load_sharded_state_dict(state, opt)
    assert_mine(net, opt, whole)
    return train(net, opt, 2)


def as_dtensors(rank, workers, shape):
    """Out of one net and into another, on a mesh of this shape and with other cuts."""
    net, _ = net_of(workers)
    whole = net.state_dict()
    mesh = init_device_mesh("cpu", shape) if shape else None
    found = net.dtensors(mesh)
    assert found.keys() == whole.keys()
    assert any(value.placements[0].is_shard() for value in found.values())
    for name, value in found.items():
        assert torch.equal(value.full_tensor(), whole[name]), name
    other, _ = net_of(workers, seed=1)
    other.load_dtensors(found)
    assert all(torch.equal(v, whole[n]) for n, v in other.state_dict().items())
    mesh = mesh or init_device_mesh("cpu", (3,))
    cuts = [Shard(0), Replicate(), Shard(1)][: mesh.ndim]
    third, _ = net_of(workers, seed=2)
    third.load_dtensors(
        {
            name: distribute_tensor(
                value, mesh, cuts if value.dim() == 2 else [Replicate()] * mesh.ndim
            )
            for name, value in whole.items()
        }
    )
    assert all(torch.equal(v, whole[n]) for n, v in third.state_dict().items())
    del found["norm.weight"]
    return told(lambda: third.load_dtensors(found))
