"""Checkpoints of nets whose workers are in several processes."""

import os

import pytest
import safetensors
import torch

import smex
from support import checkpoint_ranks as on_ranks
from support.checkpoints import assert_same, net_of, train, whole_state
from support.ranks import Ranks

DIVISIONS = [(0, 1, 2), (0, 0, 1, 2), (0, 1, 1, 2, 2, 2)]
"""By worker its rank."""


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    pool = Ranks(3, tmp_path_factory.mktemp("ranks"))
    yield pool
    pool.close()


def same_as_one_process(workers):
    net, opt = net_of(workers)
    train(net, opt, 2)
    return net, whole_state(net, opt)


@pytest.mark.parametrize("options", [{}, {"background": True}])
def test_processes_into_one_and_back(ranks, tmp_path, options):
    path = tmp_path / "a"
    ranks.results(on_ranks.save, (0, 0, 1, 2), str(path), options)
    assert os.listdir(tmp_path) == ["a"]
    files = sorted(path.glob("*.safetensors"))
    assert len(files) == 3
    sizes = [file.stat().st_size for file in files]
    keys = []
    for file in files:
        with safetensors.safe_open(file, "pt") as opened:
            keys += opened.keys()
    assert len(keys) == len(set(keys))  # each box once
    assert max(sizes) < 0.6 * sum(sizes)  # rank 0 has half of the workers
    net, opt = net_of(2, seed=1)
    assert smex.load(path, net, opt) == {"step": 2}
    whole = same_as_one_process(4)[1]
    assert_same(whole_state(net, opt), whole)
    for division in DIVISIONS:
        ranks.results(on_ranks.load, division, str(path), whole)


def test_one_process_into_several(ranks, tmp_path):
    net, opt = net_of(4)
    train(net, opt, 2)
    smex.save(tmp_path / "a", net, opt, {"step": 2})
    for division in DIVISIONS:
        ranks.results(on_ranks.load, division, str(tmp_path / "a"), whole_state(net, opt))


@pytest.mark.parametrize("size", [10**9, 3000])
def test_whole_tensors_written_together(ranks, tmp_path, size):
    ranks.results(on_ranks.save_whole, (0, 1, 1, 2, 2, 2), str(tmp_path / "a"), size)
    found = {}
    for file in (tmp_path / "a").glob("*.safetensors"):
        with safetensors.safe_open(file, "pt") as opened:
            found |= {key: opened.get_tensor(key) for key in opened.keys()}  # noqa: SIM118
    expected = same_as_one_process(6)[0].state_dict()
    expected.pop("head.weight")
    assert_same(found, {name: expected[name] for name in found})
    assert found.keys() == expected.keys()


@pytest.mark.parametrize("failing", [0, 2])
@pytest.mark.parametrize("options", [{}, {"background": True}])
def test_a_full_disk_of_one_rank_is_told_on_all(ranks, tmp_path, failing, options):
    path = tmp_path / "a"
    found = ranks.call(on_ranks.save_failing, (0, 0, 1, 2), str(path), options, failing)
    for error, text in found:
        assert error == "CheckpointError"
        assert text.startswith(f"rank {failing}: save: {path} cannot be written: No space left")
    assert os.listdir(tmp_path) == []
    ranks.results(on_ranks.save, (0, 0, 1, 2), str(path), options)  # the group is as it was


def test_a_changed_byte_that_one_rank_reads_stops_all(ranks, tmp_path):
    net, opt = net_of(4)
    smex.save(tmp_path / "a", net, opt, {"step": 2})
    (file,) = (tmp_path / "a").glob("*.safetensors")
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    for error, text in ranks.call(on_ranks.load_failing, (0, 0, 1, 2), str(tmp_path / "a")):
        assert error == "CheckpointError" and "has other bytes" in text and "rank 0: " in text


def test_ranks_load_the_same_checkpoint(ranks, tmp_path):
    net, opt = net_of(3)
    paths = [str(tmp_path / name) for name in ("a", "b", "a")]
    for path in paths[:2]:
        smex.save(path, net, opt)
    for error, text in ranks.call(on_ranks.load_different, (0, 1, 2), paths):
        assert error == "CheckpointError" and "rank 1 reads another checkpoint" in text


def test_torch_reads_what_ranks_wrote(ranks, tmp_path):
    import torch.distributed.checkpoint as dcp

    path = str(tmp_path / "dcp")
    ranks.results(on_ranks.save_torch, (0, 0, 1, 2), path)
    net, whole = same_as_one_process(4)
    read = {name: torch.zeros_like(value) for name, value in net.state_dict().items()}
    dcp.load(read, checkpoint_id=path, no_dist=True)
    assert_same(read, net.state_dict())
    for division in DIVISIONS:
        ranks.results(on_ranks.load_torch, division, path, whole)
