"""Programs in the shape of DGL's distributed examples, and what their users do next."""

import os
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import smex
import smex.graph as sg
from support.parted import SAGE, small_graph

sgd = sg.distributed
PROGRAMS = pathlib.Path(__file__).parent / "programs"
PACKAGES = str(pathlib.Path(sg.__file__).parents[2])
MESSAGES = {"SMEX_SHARED_MEMORY": "0"}


def run(program, *arguments, **variables):
    """What a program prints on two ranks."""
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    command = [sys.executable, *launcher, str(PROGRAMS / program), *map(str, arguments)]
    paths = os.pathsep.join(filter(None, [PACKAGES, os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": paths, **variables}
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, env=environment)
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


def numbers(word, output):
    return [float(found) for found in re.findall(rf"{word} ([\d.]+)", output)]


def papers():
    """Papers of three classes that are told by their authors, fields and features together."""
    torch.manual_seed(0)
    labels = torch.randint(3, (240,))
    near = labels * 30 + torch.randint(30, (240,))
    pairs = {
        ("author", "writes", "paper"): (near, torch.arange(240)),
        ("paper", "has_topic", "field"): (torch.arange(240), labels * 4 + near % 4),
    }
    back = {(d, f"rev-{e}", s): (v, u) for (s, e, d), (u, v) in pairs.items()}
    g = sg.heterograph(pairs | back, num_nodes_dict={"author": 90, "paper": 240, "field": 12})
    masks = torch.randperm(240)
    g.nodes["paper"].data["feat"] = F.one_hot(labels, 3) + torch.randn(240, 3)
    g.nodes["paper"].data["labels"] = labels
    g.nodes["paper"].data["train_mask"] = masks < 120
    g.nodes["paper"].data["test_mask"] = masks >= 120
    return g


def test_a_typed_graph_with_learned_rows(tmp_path):
    g = papers()
    mask = {"paper": g.nodes["paper"].data["train_mask"]}
    sgd.partition_graph(
        g, "mag", 2, str(tmp_path), part_method="metis", balance_ntypes=mask, balance_edges=True,
        num_trainers_per_machine=1, use_graphbolt=True,
    )  # fmt: skip
    arguments = ("--graph-name", "mag", "--ip-config", "none.txt")
    output = run("typed_classification.py", *arguments, "--conf-path", tmp_path / "mag.json")
    losses, accuracies = numbers("loss", output), numbers("accuracy", output)
    assert len(losses) == len(accuracies) == 5
    assert losses[-1] < losses[0] / 2 and accuracies[-1] > 0.8


def circles():
    """Two communities, with features that tell little of them."""
    torch.manual_seed(0)
    ends = torch.randint(100, (2, 1500))
    ends[:, 750:] += 100
    g = sg.to_bidirected(sg.graph((ends[0], ends[1]), num_nodes=200))
    g.ndata["features"] = torch.randn(200, 8) + (torch.arange(200) < 100).float()[:, None]
    return g


@pytest.mark.costly(cases=1)
@pytest.mark.parametrize("options", [["--remove_edge"], ["--dgl_sparse"]])
def test_links(tmp_path, options):
    sgd.partition_graph(circles(), "links", 2, tmp_path, part_method="random")
    output = run(
        "link_prediction.py", "--graph_name", "links", "--ip_config", "none.txt", "--output",
        tmp_path / "found.pt", *options, DGL_CONF_PATH=str(tmp_path / "links.json"),
    )  # fmt: skip
    losses = numbers("loss", output)
    assert len(losses) == 4 and losses[-1] < losses[0]
    found = torch.load(tmp_path / "found.pt")
    assert isinstance(found, torch.Tensor) and found.shape == (200, 16)
    assert found.isfinite().all() and found.std(0).max() > 0


def test_the_same_with_one_process_without_a_launcher(tmp_path, monkeypatch):
    monkeypatch.delenv("DGL_CONF_PATH", raising=False)
    with pytest.raises(smex.SmexValueError, match="found None, and no DGL_CONF_PATH in the env"):
        sgd.DistGraph("links")
    monkeypatch.setenv("DGL_CONF_PATH", str(tmp_path / "links.json"))
    sgd.partition_graph(circles(), "links", 2, tmp_path, part_method="ldg")
    sgd.initialize(ip_config="none.txt", net_type="socket")
    g = sgd.DistGraph("links")
    assert g.device == torch.device("cpu") and g.rank() == 0
    eids = sgd.edge_split(torch.ones(g.num_edges(), dtype=torch.bool), g.get_partition_book())
    loader = sgd.DistEdgeDataLoader(
        g, eids.numpy(), sg.dataloading.MultiLayerNeighborSampler([4]), batch_size=300,
        negative_sampler=sg.dataloading.negative_sampler.Uniform(2),
    )  # fmt: skip
    predictor = sg.nn.EdgePredictor("dot")
    for _, positive, negative, blocks in loader:
        x = g.ndata["features"][blocks[0].srcdata[sg.NID]][: positive.num_nodes()]
        for graph in (positive, negative):
            src, dst = graph.edges()
            assert predictor(x[src], x[dst]).shape[0] == graph.num_edges()
    local = g.local_partition
    own = local.ndata[sg.NID][local.ndata["inner_node"].bool()]
    assert torch.equal(own, g.get_partition_book().partid2nids(0))
    sgd.exit_client()


# ---- blocks of typed graphs ----


def ends_of_types(rank, folder):
    g = sgd.DistGraph("mag", part_config=folder)
    train = sgd.node_split(
        g.nodes["paper"].data["train_mask"], ntype="paper",
        node_trainer_ids=torch.zeros(240, dtype=torch.int64),
    )  # fmt: skip
    sampler = sg.dataloading.NeighborSampler([3, 3])
    found = []
    for inputs, seeds, blocks in sgd.DistNodeDataLoader(g, {"paper": train}, sampler, batch_size=8):
        assert set(inputs) == set(g.ntypes) and set(seeds) == {"paper"}
        assert blocks[-1].srctypes == blocks[-1].dsttypes == g.ntypes
        for block in blocks:
            for source, etype, destination in block.canonical_etypes:
                assert block.num_dst_nodes(destination) > 0
                src, dst = block.edges(etype=etype)
                there = g.graph.has_edges_between(
                    block.srcnodes[source].data[sg.NID][src],
                    block.dstnodes[destination].data[sg.NID][dst],
                    etype=etype,
                )
                assert there.all()
        found.append({etype for _, etype, _ in blocks[-1].canonical_etypes})
    return found


def test_blocks_have_the_edge_types_that_end_somewhere(processes, tmp_path):
    sgd.partition_graph(papers(), "mag", 2, tmp_path, part_method="random")
    for found in processes.run(ends_of_types, 2, str(tmp_path)):
        assert len(found) == 8 and all(each == {"writes", "rev-has_topic"} for each in found)


def sampled_by_weights(rank, folder):
    """Draws by weights that programs have set, without the reverse of what is predicted."""
    g = sgd.DistGraph("mag", part_config=folder)
    for canonical in g.canonical_etypes:
        g.edges[canonical].data["prob"] = sgd.DistTensor(
            (g.num_edges(etype=canonical),), torch.float32, init_func=half,
            part_policy=g.get_edge_partition_policy(canonical),
        )  # fmt: skip
    writes = ("author", "writes", "paper")
    types = g.canonical_etypes
    reverses = {c: next(r for r in types if r[::2] == c[::-2]) for c in types}
    ids = torch.ones((g.num_edges(etype=writes),), dtype=torch.bool)
    share = sgd.edge_split(ids, g.get_partition_book(), etype=writes, force_even=True)
    assert g.get_etype_id(writes) == g.canonical_etypes.index(writes)
    sampler = sg.dataloading.MultiLayerNeighborSampler([4, 4], prob="prob")
    loader = sg.dataloading.DistEdgeDataLoader(
        g, {writes: share}, sampler, negative_sampler=sg.dataloading.negative_sampler.Uniform(3),
        exclude="reverse_types", reverse_etypes=reverses, batch_size=32, shuffle=True,
    )  # fmt: skip
    seen = []
    for _, positive, negative, blocks in loader:
        seeds = positive.edges["writes"].data[sg.EID]
        assert negative.num_edges("writes") == 3 * seeds.shape[0]
        for block in blocks:
            for canonical in block.canonical_etypes:
                eids = block.edges[canonical].data[sg.EID]
                assert (g.edges[canonical].data["prob"][eids] > 0).all()
                if canonical[1] in ("writes", "rev-writes"):
                    assert block is not blocks[-1] or not torch.isin(eids, seeds).any()
        seen.append(seeds)
    g.barrier()
    return torch.cat(seen)


def half(shape, dtype):
    weights = torch.rand(shape, dtype=dtype)
    weights[: shape[0] // 2] = 0
    return weights


def test_links_of_a_typed_graph_by_weights(processes, tmp_path):
    sgd.partition_graph(papers(), "mag", 2, tmp_path, part_method="random")
    found = processes.run(sampled_by_weights, 2, str(tmp_path), variables=MESSAGES)
    assert torch.equal(torch.cat(found).unique(), torch.arange(240))


# ---- journeys ----


class Training:
    """A network with learned rows of a graph of three classes."""

    def __init__(self, folder):
        self.g = sgd.DistGraph("g", part_config=folder)
        torch.manual_seed(3)
        self.net = SAGE(inputs=4)
        if torch.distributed.is_initialized():
            self.net = torch.nn.parallel.DistributedDataParallel(self.net)
        self.rows = sgd.DistEmbedding(self.g.num_nodes(), 4, "rows", uniform)
        self.dense = torch.optim.Adam(self.net.parameters(), lr=0.02)
        self.sparse = sgd.optim.SparseAdam([self.rows], lr=0.02)
        ids = self.g.ndata["train"][:].nonzero().view(-1)
        self.loader = sg.dataloading.DistNodeDataLoader(
            self.g,
            ids,
            sg.dataloading.NeighborSampler([4, 4]),
            batch_size=10,
            shuffle=True,
            ahead=3,
        )

    def epoch(self, most=None):
        losses = []
        for input_nodes, seeds, blocks in self.loader:
            if most is not None and len(losses) == most:
                break
            logits = self.net(blocks, self.rows(input_nodes))
            loss = F.cross_entropy(logits, self.g.ndata["label"][seeds])
            self.dense.zero_grad()
            self.sparse.zero_grad()
            loss.backward()
            self.dense.step()
            self.sparse.step()
            losses.append(float(loss))
        return np.mean(losses)

    def everything(self):
        """The rows that were learned; as an evaluation reads them."""
        x = sgd.DistTensor((self.g.num_nodes(), 4), torch.float32, "everything", persistent=True)
        nodes = sgd.node_split(np.arange(self.g.num_nodes()), self.g.get_partition_book())
        with torch.no_grad():
            x[nodes] = self.rows(nodes)
        self.g.barrier()
        return x


def uniform(shape, dtype):
    return torch.empty(shape, dtype=dtype).uniform_(-1, 1)


def trained_evaluated_trained(rank, folder, saves):
    torch.manual_seed(3)
    training = Training(folder)
    losses = [training.epoch()]
    before = training.everything()[:]
    losses.append(training.epoch(most=2))  # an evaluation before it, and a break out of it
    losses += [training.epoch() for _ in range(3)]
    after = training.everything()[:]  # again, by the same name
    assert not torch.equal(before, after)
    assert torch.equal(after, training.rows.weight[:])
    training.sparse.save(saves)
    training.g.barrier()
    return losses, after, training.loader.state_dict()


def loaded(rank, folder, saves):
    torch.manual_seed(8)  # other rows at first
    training = Training(folder)
    training.sparse.load(saves)
    training.g.barrier()
    found = training.rows.weight[:]
    training.g.barrier()
    return found, training.epoch()


@pytest.mark.parametrize("way", [{}, MESSAGES])
def test_training_goes_on_after_evaluations_and_breaks(processes, tmp_path, way):
    folder, saves = str(tmp_path / "parts"), str(tmp_path / "saves")
    sgd.partition_graph(small_graph(), "g", 2, folder, part_method="random")
    found = processes.run(trained_evaluated_trained, 2, folder, saves, variables=way)
    (losses, rows, state), (others, same, _) = found
    assert torch.equal(rows, same)
    assert losses[-1] + others[-1] < losses[0] + others[0]
    assert state["epoch"] == 4
    for ranks in (1, 3):
        for again, loss in processes.run(loaded, ranks, folder, saves, variables=way):
            assert torch.equal(again, rows) and loss < losses[0] * 1.2
