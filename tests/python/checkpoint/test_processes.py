"""Checkpoints of nets whose workers are in several processes."""

import os

import pytest
import safetensors
import torch
import torch.distributed.checkpoint as dcp

import smex
from support import checkpoint_ranks as on_ranks
from support.checkpoints import assert_same, net_of, train, whole_state
from support.processes import ProcessPool

RANKS = [1, 2, 3, 4, 6, 8]


@pytest.fixture(scope="module")
def pool():
    made = ProcessPool()
    yield made
    made.close()


def same_as_one_process(workers):
    """On as many threads as the ranks have: the order of additions is theirs."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    net, opt = net_of(workers)
    train(net, opt, 2)
    torch.set_num_threads(threads)
    return net, whole_state(net, opt)


@pytest.fixture(scope="module")
def saved(pool, tmp_path_factory):
    """By number of ranks, each one worker: the checkpoint, what it has, and the losses after it."""
    found = {}
    for ranks in RANKS:
        path = str(tmp_path_factory.mktemp("saved") / "step-2")
        losses = pool.run(on_ranks.save, ranks, ranks, path, {}, timeout=120)
        found[ranks] = path, same_as_one_process(ranks)[1], losses[0]
    return found


@pytest.mark.costly(cases=1)
@pytest.mark.parametrize("ranks", RANKS)
def test_any_number_of_ranks_into_any_other(pool, saved, ranks):
    paths, wholes, losses = zip(*saved.values(), strict=True)
    found = pool.run(on_ranks.load, ranks, ranks, paths, wholes, timeout=120)
    for after in found:
        for before, own, others in zip(saved, after, losses, strict=True):
            if before == ranks:
                assert own == others
            else:
                assert own == pytest.approx(others, rel=1e-12)


@pytest.mark.parametrize("options", [{}, {"background": True}])
def test_threads_in_processes(pool, tmp_path, options):
    path = tmp_path / "a"
    pool.run(on_ranks.save, 2, 6, str(path), options)
    assert os.listdir(tmp_path) == ["a"]
    files = sorted(path.glob("*.safetensors"))
    sizes = [file.stat().st_size for file in files]
    assert len(files) == 2 and max(sizes) < 1.2 * min(sizes)
    keys = []
    for file in files:
        with safetensors.safe_open(file, "pt") as opened:
            keys += opened.keys()
    assert len(keys) == len(set(keys))  # each box once
    net, opt = net_of(2, seed=1)
    assert smex.load(path, net, opt) == {"step": 2}
    whole = same_as_one_process(6)[1]
    assert_same(whole_state(net, opt), whole)
    pool.run(on_ranks.load, 2, 4, [str(path)], [whole])


@pytest.mark.parametrize("size", [10**9, 3000])
def test_whole_tensors_written_together(pool, tmp_path, size):
    pool.run(on_ranks.save_whole, 3, 6, str(tmp_path / "a"), size)
    found = {}
    for file in (tmp_path / "a").glob("*.safetensors"):
        with safetensors.safe_open(file, "pt") as opened:
            found |= {key: opened.get_tensor(key) for key in opened.keys()}  # noqa: SIM118
    expected = same_as_one_process(6)[0].state_dict()
    expected.pop("head.weight")
    assert_same(found, {name: expected[name] for name in found})
    assert found.keys() == expected.keys()


@pytest.mark.parametrize("failing", [0, 2])
def test_a_full_disk_of_one_rank_is_told_on_all(pool, tmp_path, failing):
    path = tmp_path / "a"
    for errors in pool.run(on_ranks.save_failing, 3, 3, str(path), failing):
        for kind, text in errors:
            assert kind == "CheckpointError"
            assert text.startswith(f"rank {failing}: save: {path} cannot be written: No space left")
    assert os.listdir(tmp_path) == ["a"]


def test_ranks_save_to_the_same_path(pool, tmp_path):
    for kind, text in pool.run(on_ranks.save_elsewhere, 2, 2, str(tmp_path)):
        assert kind == "CheckpointError"
        assert "of-rank-1.tmp-" in text and f"rank 0 made {tmp_path}/of-rank-0.tmp-" in text
    assert os.listdir(tmp_path) == []


def test_a_changed_byte_that_one_rank_reads_stops_all(pool, tmp_path):
    net, opt = net_of(4)
    smex.save(tmp_path / "a", net, opt, {"step": 2})
    (file,) = (tmp_path / "a").glob("*.safetensors")
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    for kind, text in pool.run(on_ranks.load_failing, 3, 3, str(tmp_path / "a")):
        assert kind == "CheckpointError" and "has other bytes" in text and "rank 0: " in text


def test_an_optimiser_of_fewer_parameters(pool, tmp_path):
    net, opt = net_of(2)
    train(net, opt, 1)
    smex.save(tmp_path / "a", net, opt)
    for kind, text in pool.run(on_ranks.load_fewer, 3, 6, str(tmp_path / "a")):
        assert kind == "SmexValueError" and '"up.weight" was in group 0' in text


def test_ranks_load_the_same_checkpoint(pool, tmp_path):
    net, opt = net_of(3)
    paths = [str(tmp_path / name) for name in ("a", "b", "a")]
    for path in paths[:2]:
        smex.save(path, net, opt)
    for kind, text in pool.run(on_ranks.load_different, 3, 3, paths):
        assert kind == "CheckpointError" and "rank 1 reads another checkpoint" in text


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
def test_torch_reads_what_ranks_wrote(pool, tmp_path):
    path = str(tmp_path / "dcp")
    pool.run(on_ranks.save_torch, 2, 4, path)
    net, whole = same_as_one_process(4)
    read = {name: torch.zeros_like(value) for name, value in net.state_dict().items()}
    dcp.load(read, checkpoint_id=path, no_dist=True)
    assert_same(read, net.state_dict())
    losses = [pool.run(on_ranks.load_torch, ranks, n, path, whole) for ranks, n in ((3, 3), (2, 4))]
    assert losses[0][0] == pytest.approx(losses[1][0], rel=1e-12)


@pytest.mark.parametrize(("ranks", "workers", "shape"), [(3, 3, None), (4, 8, (2, 2))])
def test_dtensors(pool, ranks, workers, shape):
    for kind, text in pool.run(on_ranks.as_dtensors, ranks, workers, shape):
        assert kind == "SmexValueError" and '"norm.weight" is missing' in text


def test_dtensors_of_one_process():
    net, _ = net_of(2)
    with pytest.raises(smex.SmexRuntimeError, match="net.state_dict.. has whole tensors"):
        net.dtensors()
    with pytest.raises(smex.SmexRuntimeError, match="net.state_dict.. has whole tensors"):
        net.load_dtensors({})
