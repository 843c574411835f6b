"""What ranks do with checkpoints: each has the tiles of its workers only."""

import os

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp

import smex
from smex.distributed.world import World
from support.checkpoints import adamw, assert_same, net_of, train, whole_state


def divided(rank, ranks, steps, seed=0):
    """A net of one process that keeps the tiles of this rank's workers; what was whole beside it."""
    net, opt = net_of(len(ranks), seed)
    train(net, opt, steps)
    whole = {name: value.clone() for name, value in whole_state(net, opt).items()}
    net._world = world = World(rank, tuple(ranks), dist.group.WORLD)
    mine = []
    for cut in net._state.cuts.values():
        for worker in range(len(ranks)):
            if worker not in world.workers:
                cut.tiles[worker] = None
        vars(cut.pieces).pop("unique", None)
        if isinstance(cut.source, torch.nn.Parameter):
            mine += [tile for tile, _ in cut.unique]
    own = adamw(mine)
    own.state.update({tile: opt.state[tile] for tile in mine if tile in opt.state})
    return net, own, whole


def assert_mine(net, opt, whole):
    """This rank's tiles are parts of what is whole."""
    checked = 0
    for name, cut in net._state.cuts.items():
        for tile, worker in cut.unique if name in whole else []:
            place = tuple(slice(*each) for each in cut.boxes[worker][1])
            assert torch.equal(tile, whole[name][place]), name
            for key, value in opt.state.get(tile, {}).items():
                part = whole[f"{name}.{key}"]
                assert torch.equal(value, part[place] if part.dim() else part), (name, key)
                checked += 1
    assert checked


def save(rank, ranks, path, options):
    net, opt, _ = divided(rank, ranks, 2)
    saved = smex.save(path, net, opt, {"step": 2}, **options)
    saved.wait()


def load(rank, ranks, path, whole):
    net, opt, _ = divided(rank, ranks, 0, seed=1)
    assert smex.load(path, net, opt) == {"step": 2}
    assert_mine(net, opt, whole)


def save_whole(rank, ranks, path, size):
    net, _, _ = divided(rank, ranks, 2)
    smex.save(path, net, format="hf", max_shard_bytes=size)


def save_failing(rank, ranks, path, options, failing):
    """The disk of one rank is full."""
    net, opt, _ = divided(rank, ranks, 2)
    real = os.fsync

    def full(descriptor):
        raise OSError(28, "No space left on device")

    try:
        if rank == failing:
            os.fsync = full
        smex.save(path, net, opt, **options).wait()
    finally:
        os.fsync = real


def load_failing(rank, ranks, path):
    net, opt, _ = divided(rank, ranks, 1, seed=1)
    before = {name: cut.unique[0][0].clone() for name, cut in net._state.cuts.items() if cut.unique}
    try:
        smex.load(path, net, opt)
    finally:
        assert_same({n: net._state.cuts[n].unique[0][0].detach() for n in before},
                    {n: value.detach() for n, value in before.items()})  # fmt: skip


def load_different(rank, ranks, paths):
    net, opt, _ = divided(rank, ranks, 0)
    smex.load(paths[rank], net, opt)


def save_torch(rank, ranks, path):
    net, opt, _ = divided(rank, ranks, 2)
    dcp.save(net.sharded_state_dict(opt), checkpoint_id=path)


def load_torch(rank, ranks, path, whole):
    net, _, _ = divided(rank, ranks, 0, seed=1)
    opt = adamw([tile for cut in net._state.cuts.values() for tile, _ in cut.unique
                 if isinstance(tile, torch.nn.Parameter)])  # fmt: skip
    state = net.sharded_state_dict(opt, for_loading=True)
    dcp.load(state, checkpoint_id=path)
    net.load_sharded_state_dict(state, opt)
    assert_mine(net, opt, whole)
