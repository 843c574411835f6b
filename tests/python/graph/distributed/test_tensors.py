"""Tensors of many ranks in a program of one process: indices, mistakes, and what they share."""

import io

import pytest
import torch

import smex
import smex.graph as sg
from support.parted import small_graph, typed_graph

sgd = sg.distributed


@pytest.fixture
def graph(tmp_path):
    sgd.partition_graph(small_graph(), "g", 3, tmp_path, part_method="random")
    yield sgd.DistGraph("g", part_config=tmp_path)
    sgd.exit_client()


def test_indices(graph):
    y = sgd.DistTensor((300, 2), torch.int64, "y")
    whole = torch.randint(99, (300, 2))
    y[:] = whole
    for index in ([3, 1, 3], torch.tensor([-1, 299]), slice(5, 9), slice(None, None, 50), slice(9, 2),
                  torch.arange(300) % 7 == 0, torch.tensor([], dtype=torch.int64),
                  torch.tensor([4], dtype=torch.int32), torch.arange(3).numpy()):  # fmt: skip
        expected = whole[torch.as_tensor(index) if not isinstance(index, slice) else index]
        assert torch.equal(y[index], expected)
    assert torch.equal(y[7], whole[[7]])  # as in DGL
    y[[1, 1]] = torch.tensor([[1, 1], [2, 2]])
    y[5] = 4
    assert y[[1, 5]].tolist() == [[2, 2], [4, 4]]
    assert len(y) == 300 and y.shape == (300, 2) and y.dim() == y.ndim == 2
    assert y.name == y.kvstore_key == "node~_N~y" and y.tensor_name == "y"
    assert y.part_policy.policy_str == "node~_N" and y.local_start == 0
    assert torch.equal(y.local_partition, y[:])
    assert repr(y) == "DistTensor([300, 2], torch.int64, name='y', node~_N)"
    assert graph.ndata["x"].stats()["asked"] == 0


def test_mistakes(graph):
    x, y = graph.ndata["x"], sgd.DistTensor((300, 2), torch.float32)

    def refused(kind, text, do):
        with pytest.raises(kind, match=text):
            do()

    refused(smex.SmexIndexError, "expected ids from 0 to 299, found 300", lambda: y[[300]])
    refused(smex.SmexIndexError, "expected ids from 0 to 299, found -301", lambda: y[[-301]])
    refused(smex.SmexIndexError, r"a mask of shape \[300\]", lambda: y[torch.ones(5) > 0])
    refused(smex.SmexTypeError, "a vector of ids, a mask or a slice", lambda: y[torch.ones(5)])
    refused(smex.SmexTypeError, "a tensor that may be written, found the feature 'x'",
            lambda: x.__setitem__(0, 1.0))  # fmt: skip
    refused(smex.SmexTypeError, "rows of torch.float32, found torch.float64",
            lambda: y.__setitem__([0], torch.zeros(1, 2).double()))  # fmt: skip
    refused(smex.SmexValueError, r"rows of shape \[1, 2\], found torch.float32 \[3, 2\]",
            lambda: y.__setitem__([0], torch.zeros(3, 2)))  # fmt: skip
    refused(smex.SmexTypeError, "expected a torch.dtype", lambda: sgd.DistTensor((3,), "float"))
    refused(smex.SmexValueError, "a name of a tensor that is persistent",
            lambda: sgd.DistTensor((3,), torch.bool, persistent=True))  # fmt: skip
    refused(smex.SmexValueError, "expected 300 rows as node~_N has, found shape",
            lambda: sgd.DistTensor((3,), torch.bool, part_policy=x.part_policy))  # fmt: skip
    refused(smex.SmexValueError, "expected init_func to return a tensor of shape",
            lambda: sgd.DistTensor((3,), torch.bool, init_func=lambda s, d: None))  # fmt: skip
    refused(smex.SmexKeyError, 'expected a feature of .*, found "q"', lambda: graph.ndata["q"])
    refused(smex.SmexTypeError, 'a DistTensor of 300 rows as feature "q"',
            lambda: graph.ndata.update(q=torch.zeros(300)))  # fmt: skip
    refused(smex.SmexValueError, "expected a book of .*, found that of another graph",
            lambda: sgd.DistGraph("g", sgd.GraphPartitionBook(0, 1, {"_N": [0, 1]}, {}),
                                  graph._written.folder))  # fmt: skip
    sampler = sg.dataloading.NeighborSampler([2])
    refused(smex.SmexTypeError, "expected a DistGraph, found Graph",
            lambda: sgd.DistNodeDataLoader(graph.graph, [0], sampler))  # fmt: skip
    refused(smex.SmexTypeError, "a sampler with a method sample, found int",
            lambda: sgd.DistNodeDataLoader(graph, [0], 3))  # fmt: skip
    refused(smex.SmexTypeError, "found collate_fn beside it",
            lambda: sgd.DistNodeDataLoader(graph, [0], sampler, collate_fn=list))  # fmt: skip
    refused(smex.SmexTypeError, "expected no option 'colour'",
            lambda: sgd.DistNodeDataLoader(graph, [0], sampler, colour=1))  # fmt: skip
    refused(smex.SmexTypeError, "expected DistEmbedding objects, found Embedding",
            lambda: sgd.optim.SparseAdam([torch.nn.Embedding(2, 2)], 0.1))  # fmt: skip
    emb = sgd.DistEmbedding(4, 2, "e")
    refused(smex.SmexValueError, "embeddings of different names, found 'e' twice",
            lambda: sgd.optim.SparseAdagrad([emb, emb], 0.1))  # fmt: skip
    book = graph.get_partition_book()
    refused(smex.SmexValueError, "expected partition_book with a mask",
            lambda: sgd.node_split(torch.ones(300) > 0))  # fmt: skip
    refused(smex.SmexValueError, r"expected a mask of shape \[300\]",
            lambda: sgd.node_split(torch.ones(3) > 0, book))  # fmt: skip
    refused(smex.SmexValueError, "expected ids from 0 to 299, found 5 to 300",
            lambda: sgd.node_split([5, 300], book))  # fmt: skip
    refused(smex.SmexValueError, "numbers 0 and 1, or different ids, found .* with 1 repet",
            lambda: sgd.node_split([5, 5], book))  # fmt: skip
    refused(smex.SmexValueError, "expected a rank from 0 to 0, found 1",
            lambda: sgd.node_split([5], book, rank=1))  # fmt: skip


def test_rows_that_may_be_those_of_several_types(tmp_path):
    g = sg.heterograph({("a", "x", "b"): ([0, 1], [1, 0])})
    assignment = {"a": torch.tensor([0, 0]), "b": torch.tensor([0, 1])}
    sgd.partition_graph(g, "twins", 2, tmp_path, part_method=assignment)
    sgd.DistGraph("twins", part_config=tmp_path)
    with pytest.raises(smex.SmexValueError, match="2 rows may be those of .*, node~"):
        sgd.DistTensor((2,), torch.bool)
    sgd.exit_client()


def test_features_that_programs_set(graph):
    y = sgd.DistTensor((300, 2), torch.float32)
    graph.ndata["y"] = y
    y[:] = torch.arange(300.0)[:, None]
    sampler = sg.dataloading.NeighborSampler([2], prefetch_node_feats=["y"])
    for step, (inputs, _, blocks) in enumerate(
        sgd.DistNodeDataLoader(graph, torch.arange(100), sampler, batch_size=10)
    ):
        # What is written meanwhile is seen: it is read when the batch is given out.
        assert torch.equal(blocks[0].srcdata["y"][:, 0], inputs.float() + step)
        y[:] = torch.arange(300.0)[:, None] + step + 1
    assert set(graph.ndata) == {"x", "label", "train", "y"}
    del graph.ndata["y"]
    assert "y" not in graph.ndata
    with pytest.raises(smex.SmexKeyError):
        del graph.ndata["y"]


def test_weights_and_questions(graph):
    edges = sgd.sample_neighbors(graph, torch.arange(50), 3, prob="w")
    assert edges.num_nodes() == 300 and edges.in_degrees().max() <= 3
    twice = sgd.sample_neighbors(graph, torch.arange(50), 400, "in", None, True)
    assert twice.in_degrees()[:50].unique().tolist() in ([400], [0, 400])  # with replacement
    whole = sgd.in_subgraph(graph, [4, 5])
    assert torch.equal(sgd.in_degrees(graph, [4, 5]), whole.in_degrees()[[4, 5]])
    assert sgd.sample_etype_neighbors(graph, [4], -1).num_edges() == int(graph.in_degrees(4))
    u, v = sgd.find_edges(graph, torch.tensor([7]))
    assert torch.equal(sgd.find_edges(graph, {"_E": torch.tensor([7])})[0], u)
    assert graph.has_edges_between(u, v).all()  # what any graph can be asked
    assert int(sgd.out_degrees(graph, [3])) == int(graph.out_degrees(3))
    part = graph.edge_subgraph([7, 8])
    assert part.num_edges() == 2 and torch.equal(part.edata[sg.EID], torch.tensor([7, 8]))
    assert graph.rank() == 0 and not graph.is_pinned() and graph.device.type == "cpu"
    assert graph.local_partition.ndata["inner_node"].sum() == len(
        graph.get_partition_book().partid2nids(0)
    )
    assert "rank 0 of 1" in repr(graph)


def test_a_tensor_in_a_file_is_a_plain_one():
    y = sgd.DistTensor((5, 2), torch.float32)
    y[2] = 1.0
    file = io.BytesIO()
    torch.save({"y": y}, file)
    file.seek(0)
    assert torch.equal(torch.load(file)["y"], y[:])


def test_what_is_saved_of_an_optimiser_is_checked(tmp_path):
    first, other = sgd.DistEmbedding(6, 2, "first"), sgd.DistEmbedding(7, 2, "other")
    sgd.optim.SparseAdam([first], 0.1).save(tmp_path)
    with pytest.raises(smex.SmexValueError, match="SparseAdagrad with .* in .*, found SparseAdam"):
        sgd.optim.SparseAdagrad([first], 0.1).load(tmp_path)
    with pytest.raises(smex.SmexValueError, match='SparseAdam with "other", "other/mem"'):
        sgd.optim.SparseAdam([other], 0.1).load(tmp_path)
    sgd.exit_client()  # forgets names
    first, longer = None, sgd.DistEmbedding(8, 2, "first")
    with pytest.raises(smex.SmexValueError, match=r"expected 'first' of shape \[8, 2\] in"):
        sgd.optim.SparseAdam([longer], 0.1).load(tmp_path)
    sgd.exit_client()
    first = sgd.DistEmbedding(6, 2, "first")
    (tmp_path / "0.0.bin").write_bytes(b"\1" * 48)
    with pytest.raises(smex.SmexRuntimeError, match=r"0\.0\.bin: expected sum"):
        sgd.optim.SparseAdam([first], 0.1).load(tmp_path)


def test_books_without_types_of_that_name(tmp_path):
    sgd.partition_graph(typed_graph(), "typed", 2, tmp_path, part_method="range")
    g = sgd.DistGraph("typed", part_config=tmp_path)
    policy = g.get_edge_partition_policy("plays")
    assert sgd.PartitionPolicy(policy.policy_str, policy.partition_book).starts == policy.starts
    assert not policy.is_node and policy.get_size() == 200 and policy.part_id == 0
    ids = policy.partition_book.partid2eids(0, "plays")
    assert torch.equal(policy.to_local(ids), torch.arange(policy.get_part_size()))
    assert (policy.to_partid(ids) == 0).all()
    sgd.exit_client()
