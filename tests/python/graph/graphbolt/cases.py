"""What DGL's GraphBolt 2.1 makes of some inputs, and what is made here.

`tools/record_dgl.py` records it. Nothing is drawn at random but the inputs, by NumPy.
"""

import functools
import json
import os
import tempfile

import numpy as np
import torch

CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


def plain(value):
    """Tensors as lists, edges by column as pairs of them."""
    if isinstance(value, torch.Tensor):
        return value.tolist()
    if hasattr(value, "indptr"):
        return [value.indptr.tolist(), value.indices.tolist()]
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in sorted(value.items())}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    return value


def told(subgraph):
    return plain([
        subgraph.sampled_csc, subgraph.original_column_node_ids, subgraph.original_row_node_ids,
        subgraph.original_edge_ids,
    ])  # fmt: skip


def one_type(gb, rng, n=12, m=40):
    src, dst = rng.integers(n, size=m), rng.integers(n, size=m)
    order = np.argsort(dst, kind="stable")
    indptr = np.r_[0, np.bincount(dst, minlength=n).cumsum()]
    return gb.fused_csc_sampling_graph(
        torch.from_numpy(indptr), torch.from_numpy(src[order]),
        edge_attributes={gb.ORIGINAL_EDGE_ID: torch.from_numpy(order)},
    )  # fmt: skip


TYPES = {"a:r:a": (0, 0), "a:s:b": (0, 1), "b:t:a": (1, 0)}
COUNTS = (7, 5)


def several_types(gb, rng):
    src, dst, kind, own = [], [], [], []
    starts = np.r_[0, np.cumsum(COUNTS)]
    for number, (a, b) in enumerate(TYPES.values()):
        m = int(rng.integers(5, 20))
        src.append(rng.integers(COUNTS[a], size=m) + starts[a])
        dst.append(rng.integers(COUNTS[b], size=m) + starts[b])
        kind.append(np.full(m, number))
        own.append(np.arange(m))
    src, dst, kind, own = map(np.concatenate, (src, dst, kind, own))
    order = np.lexsort((kind, dst))
    indptr = np.r_[0, np.bincount(dst, minlength=12).cumsum()]
    return gb.fused_csc_sampling_graph(
        torch.from_numpy(indptr), torch.from_numpy(src[order]), torch.from_numpy(starts),
        torch.from_numpy(kind[order]), {"a": 0, "b": 1}, {t: n for n, t in enumerate(TYPES)},
        None, {gb.ORIGINAL_EDGE_ID: torch.from_numpy(own[order])},
    )  # fmt: skip


def chosen(rng, n, k):
    return torch.from_numpy(rng.permutation(n)[:k])


@case
def layers_of_one_type(gb, rng):
    graph = one_type(gb, rng)
    items = gb.ItemSet(chosen(rng, 12, 6), names="seed_nodes")
    pipe = gb.ItemSampler(items, 4).sample_neighbor(graph, [-1, -1])
    return [[plain(b.input_nodes), [told(s) for s in b.sampled_subgraphs]] for b in pipe]


@case
def layers_of_several_types(gb, rng):
    graph = several_types(gb, rng)
    items = gb.ItemSetDict({
        "a": gb.ItemSet(chosen(rng, 7, 3), names="seed_nodes"),
        "b": gb.ItemSet(chosen(rng, 5, 2), names="seed_nodes"),
    })  # fmt: skip
    fanouts = [torch.tensor([-1]), torch.tensor([-1, 0, -1])]
    pipe = gb.ItemSampler(items, 4).sample_neighbor(graph, fanouts)
    return [[plain(b.seed_nodes), [told(s) for s in b.sampled_subgraphs]] for b in pipe]


@case
def in_subgraphs(gb, rng):
    one, several = one_type(gb, rng), several_types(gb, rng)
    nodes = {"a": chosen(rng, 7, 4), "b": chosen(rng, 5, 3)}
    return [told(one.in_subgraph(chosen(rng, 12, 5))), told(several.in_subgraph(nodes))]


@case
def pairs_that_are_left_out(gb, rng):
    graph = one_type(gb, rng)
    ends = torch.stack([graph.indices, gb.expand_indptr(graph.csc_indptr, torch.int64)], 1)
    pairs = ends[torch.from_numpy(rng.permutation(40)[:6])]
    items = gb.ItemSet((pairs, torch.arange(6)), names=("node_pairs", "labels"))
    pipe = gb.ItemSampler(items, 6).sample_neighbor(graph, [-1, -1])
    pipe = pipe.transform(functools.partial(gb.exclude_seed_edges, include_reverse_edges=True))
    (batch,) = pipe
    return [
        plain(batch.compacted_node_pairs), plain(batch.node_pairs_with_labels),
        [told(s) for s in batch.sampled_subgraphs],
    ]  # fmt: skip


@case
def pairs_of_types_that_are_left_out(gb, rng):
    graph = several_types(gb, rng)
    drawn = graph.in_subgraph({"a": torch.arange(7), "b": torch.arange(5)})
    csc = drawn.sampled_csc["a:s:b"]
    ends = torch.stack([csc.indices, gb.expand_indptr(csc.indptr, torch.int64)], 1)
    items = gb.ItemSetDict({"a:s:b": gb.ItemSet(ends[::2], names="node_pairs")})
    negative = torch.from_numpy(rng.integers(5, size=(len(ends[::2]), 2)))

    def with_negatives(batch):
        batch.negative_dsts = {"a:s:b": negative}
        return batch

    pipe = gb.ItemSampler(items, 100).transform(with_negatives).sample_neighbor(graph, [-1])
    exclude = functools.partial(
        gb.exclude_seed_edges, include_reverse_edges=True,
        reverse_etypes_mapping={"a:s:b": "b:t:a"},
    )  # fmt: skip
    (batch,) = pipe.transform(exclude)
    return [
        plain(batch.compacted_negative_dsts), plain(batch.negative_node_pairs),
        plain(batch.node_pairs_with_labels), [told(s) for s in batch.sampled_subgraphs],
    ]  # fmt: skip


@case
def numbers_of_nodes(gb, rng):
    nodes = {"a": chosen(rng, 9, 3), "b": chosen(rng, 9, 2)}
    csc = {
        "a:r:b": gb.CSCFormatBase(
            torch.tensor([0, 2, 5]), torch.from_numpy(rng.integers(9, size=5))
        ),
        "b:s:a": gb.CSCFormatBase(
            torch.tensor([0, 1, 1, 4]), torch.from_numpy(rng.integers(9, size=4))
        ),
    }
    times = {"a": torch.tensor([5, 6, 7]), "b": torch.tensor([8, 9])}
    lists = [torch.from_numpy(rng.integers(20, size=n)) for n in (4, 0, 7)]
    return plain([
        gb.unique_and_compact(lists), gb.unique_and_compact({"a": lists}),
        gb.unique_and_compact_csc_formats(csc, nodes), gb.compact_csc_format(csc, nodes),
        gb.compact_csc_format(csc, nodes, times),
    ])  # fmt: skip


@case
def edges_that_lead_back(gb, rng):
    pairs = [torch.from_numpy(rng.integers(9, size=(3, 2))) for _ in range(2)]
    both = {"a:r:b": pairs[0], "b:s:a": pairs[1]}
    back = {"a:r:b": "b:s:a"}
    return plain([
        gb.add_reverse_edges((pairs[0][:, 0], pairs[0][:, 1])), gb.add_reverse_edges_2(pairs[1]),
        gb.add_reverse_edges_2(both, back), gb.add_reverse_edges_2({"a:r:b": pairs[0]}, back),
        gb.add_reverse_edges({t: (p[:, 0], p[:, 1]) for t, p in both.items()}, back),
    ])  # fmt: skip


@case
def batches(gb, rng):
    n, size = int(rng.integers(1, 30)), int(rng.integers(1, 9))
    items = gb.ItemSet((torch.arange(n), torch.arange(n) * 2), names=("seed_nodes", "labels"))
    typed = gb.ItemSetDict({
        "a": gb.ItemSet(n, names="seed_nodes"), "b": gb.ItemSet(size, names="seed_nodes")
    })  # fmt: skip
    some = sorted(rng.integers(n + size, size=2).tolist())
    found = []
    for drop_last in (False, True):
        found.append([
            [plain(b.seed_nodes), plain(b.labels)]
            for b in gb.ItemSampler(items, size, drop_last=drop_last)
        ])  # fmt: skip
        found.append(
            [plain(b.seed_nodes) for b in gb.ItemSampler(typed, size, drop_last=drop_last)]
        )
    if some[0] < some[1]:
        part = typed[some[0] : some[1]]
        # DGL has an empty entry for the type before one with whose first item the slice begins.
        found.append(plain({kind: each for kind, each in part.items() if len(each)}))
    return [*found, plain(items[n // 2]), len(typed)]


@case
def files(gb, rng):
    import yaml

    with tempfile.TemporaryDirectory() as folder:
        ends = {t: [rng.integers(COUNTS[k], size=9) for k in ab] for t, ab in TYPES.items()}
        for etype, pair in ends.items():
            np.savetxt(
                os.path.join(folder, etype + ".csv"), np.stack(pair, 1), delimiter=",", fmt="%d"
            )
        np.save(os.path.join(folder, "x.npy"), rng.integers(9, size=(7, 2)))
        np.save(os.path.join(folder, "i.npy"), np.arange(4))
        content = {
            "dataset_name": "drawn",
            "graph": {
                "nodes": [{"type": t, "num": n} for t, n in zip("ab", COUNTS)],
                "edges": [{"type": t, "format": "csv", "path": t + ".csv"} for t in ends],
            },
            "feature_data": [{"domain": "node", "type": "a", "name": "x", "format": "numpy",
                              "path": "x.npy"}],
            "tasks": [{"name": "t", "train_set": [{"type": "a", "data": [
                {"name": "seed_nodes", "format": "numpy", "path": "i.npy"}]}]}],
        }  # fmt: skip
        with open(os.path.join(folder, "metadata.yaml"), "w") as file:
            yaml.safe_dump(content, file)
        dataset = gb.OnDiskDataset(folder, include_original_edge_id=True).load()
        graph = dataset.graph
        return plain([
            graph.csc_indptr, graph.indices, graph.type_per_edge, graph.node_type_offset,
            graph.node_type_to_id, graph.edge_type_to_id, graph.edge_attributes, graph.num_nodes,
            graph.num_edges, str(graph.indices.dtype), str(graph.type_per_edge.dtype),
            dataset.feature.read("node", "a", "x"), dataset.tasks[0].train_set[:],
            len(dataset.all_nodes_set),
        ])  # fmt: skip


REPEATS = 25


def results(gb):
    """By case what is made of each of several inputs."""
    found = {}
    for name, function in CASES.items():
        found[name] = [
            json.loads(json.dumps(function(gb, np.random.default_rng([n, len(name)]))))
            for n in range(REPEATS)
        ]
    return found
