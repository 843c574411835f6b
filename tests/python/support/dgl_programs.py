"""Small programs of DGL's names, whose results in DGL 2.1 are recorded.

Each is a function of the module, ``dgl`` or ``smex.graph``, that returns tensors, numbers, strings
and containers of these. ``tools/record_dgl.py`` writes what DGL returns.
"""

from __future__ import annotations

import importlib
import os
import tempfile

import numpy as np
import torch

PROGRAMS = {}


def program(function):
    PROGRAMS[function.__name__] = function
    return function


def plain(value):
    """A result as JSON has it: numbers of tensors rounded, keys as strings, tuples as lists."""
    if isinstance(value, torch.Tensor):
        return plain(value.tolist())
    if isinstance(value, dict):
        return {str(key): plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    return round(value, 4) + 0.0 if isinstance(value, float) else value


def star(dgl):
    """Four edges into node 5, and one out of it."""
    return dgl.graph(([0, 1, 2, 3, 5], [5, 5, 5, 5, 0]))


def typed(dgl):
    edges = {
        ("u", "f", "u"): ([0, 1, 2], [1, 2, 0]),
        ("u", "p", "g"): ([0, 0, 1], [0, 1, 1]),
        ("g", "rp", "u"): ([0, 1, 1], [0, 0, 1]),
    }
    return dgl.heterograph(edges)


def of_blocks(block):
    return [
        {n: block.srcnodes[n].data["_ID"] for n in block.srctypes},
        {n: block.dstnodes[n].data["_ID"] for n in block.dsttypes},
        {e: [*block.edges(etype=e), block.edges[e].data["_ID"]] for e in block.canonical_etypes},
    ]


# ---- integers of NumPy ----


@program
def numpy_integers_sample(dgl):
    g, two = star(dgl), np.int32(2)
    g.edata["w"] = torch.arange(5.0)
    return [
        dgl.sampling.sample_neighbors(g, [5], fanout=two).num_edges(),
        dgl.sampling.sample_neighbors(g, [5], {"_E": np.int64(3)}).num_edges(),
        dgl.sampling.select_topk(g, two, "w").edata["_ID"],
        list(dgl.sampling.random_walk(g, [0], length=two)[0].shape),
    ]


@program
def numpy_integers_load(dgl):
    g, two = star(dgl), np.int64(2)
    loading = dgl.dataloading
    samplers = (
        loading.NeighborSampler([two]),
        loading.ShaDowKHopSampler([np.int64(9)]),
        loading.MultiLayerFullNeighborSampler(1),
    )
    loader = loading.DataLoader(g, torch.arange(6), samplers[0], batch_size=two)
    negative = loading.negative_sampler.Uniform(two)(g, torch.tensor([0, 1]))
    return [
        samplers[0].sample(g, torch.tensor([5]))[2][0].num_edges(),
        samplers[1].sample(g, torch.tensor([5]))[2].num_nodes(),
        samplers[2].sample(g, torch.tensor([5]))[2][0].num_edges(),
        [len(seeds) for _, seeds, _ in loader],
        len(negative[0]),
        dgl.add_nodes(g, two).num_nodes(),
        dgl.add_edges(g, two, np.int64(3)).num_edges(),
        dgl.graph(([0], [1]), num_nodes=two).num_nodes(),
    ]


# ---- weights, functions that say yes or no ----


@program
def weights_by_type(dgl):
    weights = [torch.tensor([1.0, 0, 1])] * 3
    nodes = {"u": torch.tensor([0, 1, 2]), "g": torch.tensor([0, 1])}
    drawn = dgl.sampling.sample_neighbors(typed(dgl), nodes, 1, prob=weights)
    found = [drawn.edges[e].data["_ID"].sort()[0] for e in drawn.canonical_etypes[1:]]
    alone = dgl.sampling.sample_neighbors(star(dgl), [5], 4, prob=[torch.tensor([1.0, 0, 1, 0, 1])])
    return [*found, alone.edata["_ID"].sort()[0]]


@program
def filters_that_return_numbers(dgl):
    g = star(dgl)
    return [
        g.filter_nodes(lambda nodes: torch.tensor([0, 1, 1, 0, 0, 2])),
        g.filter_nodes(lambda nodes: torch.tensor([0, 1.0, 0, 0, 0, 0.5])),
        g.filter_nodes(lambda nodes: torch.tensor([0, 1, 1]).byte(), nodes=torch.tensor([3, 4, 5])),
        g.filter_edges(lambda edges: torch.tensor([0, 1, 1, 0, 0]).byte()),
    ]


# ---- types ----


@program
def parameters_as_features(dgl):
    nn = dgl.nn
    torch.manual_seed(0)
    features = torch.nn.ParameterDict(
        {"u": torch.nn.Parameter(torch.ones(3, 2)), "g": torch.nn.Parameter(torch.ones(2, 2))}
    )
    weight = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    convs = {e: nn.GraphConv(2, 2, weight=False, bias=False) for e in ("f", "p", "rp")}
    layer = nn.HeteroGraphConv(convs)
    weights = {e: {"weight": weight} for e in convs}
    g = typed(dgl)
    pair = layer(g, (features, features), mod_kwargs=weights)
    linear = nn.HeteroLinear({"u": 2, "g": 2}, 2)(features)
    block = dgl.to_block(g)
    return [
        layer(g, features, mod_kwargs=weights),
        pair,
        {k: list(v.shape) for k, v in linear.items()},
        layer(block, features, mod_kwargs=weights),
    ]


@program
def homogeneous_features_of_some_types(dgl):
    g = typed(dgl)
    g.nodes["u"].data["a"], g.nodes["g"].data["a"] = torch.ones(3), torch.zeros(2)
    g.nodes["g"].data["only"] = torch.ones(2)
    g.edges["rp"].data["w"] = torch.ones(3)
    made = dgl.to_homogeneous(g, ndata=["a", "only"], edata=["w"])
    return [sorted(made.ndata), sorted(made.edata), made.ndata["a"]]


@program
def homogeneous_features_of_types_with_nodes(dgl):
    g = dgl.heterograph({("a", "r", "b"): ([], []), ("b", "s", "b"): ([0], [1])}, {"a": 0, "b": 2})
    g.nodes["b"].data["h"] = torch.ones(2)
    return dgl.to_homogeneous(g, ndata=["h"]).ndata["h"]


# ---- edges that a batch leaves out ----


@program
def edges_left_out(dgl):
    find, g, h = dgl.dataloading.find_exclude_eids, star(dgl), typed(dgl)
    seeds, both = torch.tensor([0, 2]), {"p": "rp", "rp": "p"}
    typed_seeds = {("u", "p", "g"): seeds}
    reverse = torch.tensor([4, 3, 2, 1, 0])
    by_types = find(h, typed_seeds, "reverse_types", reverse_etypes=both)
    of_both = find(
        h, {"p": seeds, "rp": torch.tensor([1, 2])}, "reverse_types", reverse_etypes=both
    )
    by_id = find(h, typed_seeds, "reverse_id", {("u", "p", "g"): torch.tensor([2, 1, 0])})
    return [
        find(g, seeds, "self"),
        find(g, seeds, "reverse_id", reverse),
        find(g, seeds, lambda eids: eids[:1]),
        find(g, seeds, torch.tensor([3])),
        *({k: ids.sort()[0] for k, ids in d.items()} for d in (by_types, of_both, by_id)),
    ]


@program
def edges_left_out_of_batches(dgl):
    full, g, h = dgl.dataloading.MultiLayerFullNeighborSampler(1), star(dgl), typed(dgl)
    wrap = dgl.dataloading.as_edge_prediction_sampler
    reverse = torch.tensor([4, 3, 2, 1, 0])
    excludes = (
        {"exclude": "reverse_id", "reverse_eids": reverse},
        {"exclude": lambda eids: eids},
        {"exclude": lambda eids: None},
        {"exclude": torch.tensor([1])},
    )
    one = torch.tensor([0])
    found = [wrap(full, **e).sample(g, one)[2][0].edata["_ID"].sort()[0] for e in excludes]
    for exclude in (
        {"exclude": "reverse_types", "reverse_etypes": {"p": "rp", "rp": "p"}},
        {"exclude": lambda eids: {("u", "p", "g"): one, ("g", "rp", "u"): one + 1}},
        {"exclude": {("u", "p", "g"): one}},
    ):
        block = wrap(full, **exclude).sample(h, {"p": one})[2][0]
        found.append({e: block.edges[e].data["_ID"].sort()[0] for e in block.canonical_etypes})
    return found


# ---- structure ----


@program
def blocks(dgl):
    g, h, order = dgl.graph(([1, 2, 7, 3], [2, 3, 3, 2])), typed(dgl), torch.tensor([3, 2])
    every = {"u": torch.tensor([0, 1, 2]), "g": torch.tensor([1, 0])}
    return [
        of_blocks(dgl.to_block(g)),
        of_blocks(dgl.to_block(g, order)),
        of_blocks(dgl.to_block(g, torch.tensor([5, 3, 2]))),
        of_blocks(dgl.to_block(g, {"_N": order})),
        of_blocks(dgl.to_block(g, include_dst_in_src=False)),
        of_blocks(dgl.to_block(g, order, include_dst_in_src=False)),
        of_blocks(dgl.to_block(g, order, src_nodes=torch.tensor([3, 2, 7, 1]))),
        of_blocks(dgl.to_block(h)),
        of_blocks(dgl.to_block(h, every)),
        of_blocks(dgl.to_block(h, every, include_dst_in_src=False)),
    ]


@program
def formats(dgl):
    g = dgl.graph(([1, 0, 1], [0, 1, 1]))
    made = dgl.graph(([1, 0, 1], [0, 1, 1]))
    made.create_formats_()
    few = g.formats(["coo", "csc"])
    one = g.formats("csr")
    one.create_formats_()
    given = dgl.graph(("csr", ([0, 1, 3], [1, 0, 1], [0, 2, 1])))
    return [
        *(each.formats() for each in (g, made, few, one, given)),
        *([*each.adj_tensors(name)] for each in (g, given) for name in ("coo", "csr", "csc")),
        typed(dgl).adj_tensors("csr", etype="p"),
        str(g.int().adj_tensors("csr")[2].dtype),
    ]


@program
def traversals(dgl):
    g = dgl.graph(([0, 0, 1, 2], [1, 2, 3, 3]))
    labeled = dgl.dfs_labeled_edges_generator
    every = labeled(g, 0, has_reverse_edge=True, has_nontree_edge=True)
    steps = [
        dgl.bfs_nodes_generator(g, 0),
        dgl.bfs_nodes_generator(g, [0, 1]),
        dgl.bfs_nodes_generator(g, 3, reverse=True),
        dgl.bfs_edges_generator(g, 0),
        dgl.dfs_edges_generator(g, 0),
        dgl.topological_nodes_generator(g),
        dgl.topological_nodes_generator(g, reverse=True),
        labeled(g, 0),
        every,
        labeled(g, 0, return_labels=False),
    ]
    return [[type(each).__name__, len(each), each] for each in steps]


@program
def edges_by_tag(dgl):
    g, tag = dgl.graph(([0, 0, 0, 1, 1], [0, 1, 2, 0, 2])), torch.tensor([1, 1, 0])
    g.edata["w"] = torch.arange(5)
    out, into = dgl.sort_csr_by_tag(g, tag), dgl.sort_csc_by_tag(g, tag, "offsets")
    by_edge = dgl.sort_csr_by_tag(g, torch.tensor([1, 1, 0, 2, 0]), tag_type="edge")
    return [
        *((*each.adj_tensors("csr"), each.ndata["_TAG_OFFSET"]) for each in (out, by_edge)),
        (*into.adj_tensors("csc"), into.ndata["offsets"]),
        out.edges(),
        out.edata["w"],
        out.out_edges(0, form="eid"),
        out.successors(0),
        into.predecessors(2),
    ]


# ---- features of nodes, points, labels ----


@program
def directed_laplacian(dgl):
    """Graphs whose eigenvalues differ: vectors are known but for their signs."""
    g = dgl.graph(([0, 1, 2, 3, 1, 4, 0], [1, 2, 3, 1, 4, 0, 3]))
    vectors, values = dgl.lap_pe(g, 4, return_eigval=True)
    return [values, vectors.abs()[:, [0, 3]] if values[0] < values[1] - 0.01 else None]


@program
def radius_graphs(dgl):
    x = torch.tensor([[0.0, 0], [1, 0], [1.5, 0], [4, 4]])
    own, along = dgl.radius_graph(x, 1.2, self_loop=True, get_distances=True)
    layer, of_layer = dgl.nn.RadiusGraph(1.2, self_loop=True)(x, get_distances=True)
    return [
        dgl.radius_graph(x, 1.2).edges(),
        own.edges(),
        along,
        dgl.radius_graph(torch.zeros(3, 2), 1.2).edges(),
        layer.edges(),
        of_layer,
    ]


@program
def label_propagation(dgl):
    edges = torch.tensor([[0, 1, 2, 3, 0], [1, 2, 3, 4, 4]])
    g = dgl.graph((torch.cat([edges[0], edges[1]]), torch.cat([edges[1], edges[0]])))
    other = dgl.graph(([0, 1, 2], [1, 0, 0]), num_nodes=7)
    labels, mask = torch.tensor([0, 1, 0, 2, 1]), torch.tensor([1, 0, 0, 1, 0]).bool()
    several = torch.tensor([[1, 0, 1], [0, 1, 1], [0, 0, 1], [1, 0, 0], [0, 0, 0]])
    options = ({}, {"norm_type": "row"}, {"reset": True}, {"normalize": True}, {"clamp": False})
    layers = [dgl.nn.LabelPropagation(3, 0.5, **each) for each in options]
    return [
        *(layer(g, labels, mask) for layer in layers),
        *(layer(g, several, mask) for layer in layers),
        layers[0](g, labels, torch.tensor([0, 3])),
        layers[0](g, labels[:, None], mask),
        layers[0](g, labels),
        layers[0](other, torch.tensor([0, 1, 0, 2, 1, 1, 0]), torch.arange(7) < 2),
    ]


@program
def names_of_layers(dgl):
    """What torch's own layers add to their lines differs between its versions."""
    nn, relu = dgl.nn, torch.nn.ReLU()
    layers = [
        nn.GraphConv(2, 3),
        nn.GraphConv(2, 3, activation=relu),
        nn.GATConv(2, 3, 2),
        nn.GATv2Conv(2, 3, 2, negative_slope=0.1),
        nn.EdgeGATConv(2, 2, 2, 2),
        nn.SAGEConv(2, 3, "lstm"),
        nn.GCN2Conv(2, 2),
        nn.PNAConv(2, 2, ["mean"], ["identity"], 1.0),
        nn.DGNConv(2, 2, ["dir1-av"], ["identity"], 1.0),
        nn.AtomicConv(torch.ones(1), torch.ones(1), torch.ones(1)),
        nn.HeteroGraphConv({"f": nn.GraphConv(2, 2)}),
        nn.TypedLinear(2, 3, 2, "basis", 1),
        nn.Set2Set(2, 2, 1),
        dgl.Compose([dgl.AddSelfLoop(), dgl.DropEdge(0.5)]),
    ]
    return [repr(layer).replace("bias=True, track", "track").split("\n") for layer in layers]


# ---- modules of their own ----


@program
def farthest_points(dgl):
    import importlib

    geometry = importlib.import_module(f"{dgl.__name__}.geometry")
    torch.manual_seed(3)
    x = torch.rand(3, 20, 3)
    return [
        geometry.farthest_point_sampler(x, 6, start_idx=2),
        geometry.farthest_point_sampler(x.double(), 20, start_idx=0),
        list(geometry.farthest_point_sampler(x, 4).shape),
    ]


@program
def reversible_layers(dgl):
    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(2, 2)

        def forward(self, g, x, scale):
            with g.local_scope():
                g.ndata["h"] = self.linear(x) * scale
                g.update_all(dgl.function.copy_u("h", "m"), dgl.function.sum("m", "h"))
                return g.ndata["h"].tanh()

    g = star(dgl)
    layer = dgl.nn.GroupRevRes(Layer(), 3)
    for n, weight in enumerate(layer.parameters()):
        weight.data = torch.linspace(-1, 1, weight.numel()).view(weight.shape) + 0.1 * n
    x = torch.linspace(-1, 1, 36).view(6, 6).requires_grad_()
    scale = torch.linspace(1, 2, 36).view(6, 6).requires_grad_()
    result = layer(g, x * 1, scale * 1)
    value = result.detach().clone()
    (result * torch.arange(36.0).view(6, 6)).sum().backward()
    return [value, x.grad, scale.grad, [weight.grad for weight in layer.parameters()]]


@program
def reordered(dgl):
    import importlib

    partition = importlib.import_module(f"{dgl.__name__}.partition")
    g = partition.reorder_nodes(dgl.graph(([0, 1, 3], [1, 2, 0])), torch.tensor([2, 0, 1, 3]))
    return [sorted(zip(*(ids.tolist() for ids in g.edges()))), g.ndata["orig_id"]]


@program
def structures_of_values(dgl):
    values = {"a": [1, (2, 3)], "b": 4}
    return [
        dgl.utils.recursive_apply(values, lambda x, y: x * y, 10),
        dgl.utils.recursive_apply_pair(values, values, lambda x, y: x + y),
    ]


@program
def backend_functions(dgl):
    f, x = dgl.backend, torch.tensor([[3.0, 0], [1, 2]])
    return [
        f.asnumpy(x).tolist(),
        f.astype(x, f.int64),
        str(f.dtype(x)),
        f.gather_row(x, torch.tensor([1])),
        f.nonzero_1d(torch.tensor([0, 1, 1])),
        list(f.sort_1d(torch.tensor([3, 1, 2]))),
        f.zeros((2, 2), f.float32, f.cpu()),
        f.sum(x, 0),
        f.full_1d(2, 5, f.int64, f.cpu()),
        f.is_tensor(x),
        f.boolean_mask(x, torch.tensor([True, False])),
        str(f.data_type_dict["float32"]),
        f.cat([x, x], 0),
        list(f.shape(x)),
        f.backend_name,
    ]


@program
def collators(dgl):
    loading, g, h = dgl.dataloading, star(dgl), typed(dgl)
    full = loading.MultiLayerFullNeighborSampler(1)
    nodes = loading.NodeCollator(g, torch.arange(6), full)
    loader = torch.utils.data.DataLoader(nodes.dataset, 4, collate_fn=nodes.collate)
    by_type = loading.NodeCollator(h, {"u": torch.arange(3), "g": torch.arange(2)}, full)
    edges = loading.EdgeCollator(g, torch.arange(5), full, exclude="self")
    _, pairs, (block,) = edges.collate([0, 1])
    other = loading.EdgeCollator(g, torch.arange(5), full, g_sampling=dgl.reverse(g))
    return [
        [output for _, output, _ in loader],
        by_type.collate([("u", 0), ("g", 1), ("u", 2)])[1],
        len(by_type.dataset),
        pairs.edata["_ID"],
        sorted(block.edata["_ID"].tolist()),
        other.collate([4])[2][0].num_edges(),
    ]


@program
def files_of_dgl(dgl):
    import importlib

    utils = importlib.import_module(f"{dgl.__name__}.data.utils")
    return utils._get_dgl_url("dataset/ACM.mat")


@program
def initial_values(dgl):
    """The same seed draws the same weights; each sum has a weight of the number's place."""
    nn = dgl.nn
    found = {}
    for name, make in {
        "SAGEConv mean": lambda: nn.SAGEConv(6, 4, "mean"),
        "SAGEConv gcn": lambda: nn.SAGEConv(6, 4, "gcn"),
        "SAGEConv pool": lambda: nn.SAGEConv((6, 5), 4, "pool"),
        "SAGEConv lstm": lambda: nn.SAGEConv(6, 4, "lstm"),
        "GATConv": lambda: nn.GATConv(6, 4, 2, residual=True),
        "GATConv pair": lambda: nn.GATConv((6, 5), 4, 2),
        "GATv2Conv": lambda: nn.GATv2Conv(6, 4, 2, residual=True),
        "EGATConv": lambda: nn.EGATConv(6, 5, 4, 3, 2),
        "EdgeGATConv": lambda: nn.EdgeGATConv(6, 5, 4, 2, residual=True),
        "RelGraphConv": lambda: nn.RelGraphConv(6, 4, 3, "basis", 2, layer_norm=True),
        "RelGraphConv bdd": lambda: nn.RelGraphConv(6, 4, 3, "bdd", 2),
        "PNAConv": lambda: nn.PNAConv(6, 4, ["mean", "max"], ["identity"], 2.5, num_towers=2),
        "DGNConv": lambda: nn.DGNConv(6, 4, ["dir1-av", "sum"], ["identity"], 2.5),
        "SpatialEncoder3d": lambda: nn.SpatialEncoder3d(4, 2),
        "GraphConv": lambda: nn.GraphConv(6, 4),
        "HGTConv": lambda: nn.HGTConv(6, 4, 2, 2, 3),
        "EGNNConv": lambda: nn.EGNNConv(6, 7, 4, 5),
        "GatedGraphConv": lambda: nn.GatedGraphConv(6, 8, 2, 3),
    }.items():
        torch.manual_seed(3)
        layer = make()
        found[name] = {
            key: (value.flatten().double() * torch.arange(1, value.numel() + 1)).sum().item()
            for key, value in layer.state_dict().items()
        }
    return found


@program
def pages_of_information(dgl):
    """What `save_info` writes comes back as it was."""
    utils = importlib.import_module(f"{dgl.__name__}.data.utils")
    info = {"names": {0: "cat", 1: "dog"}, "shape": (1, 2), None: True, 2.5: [1, (2,)], "s": {3}}
    info["number"], info["array"] = np.int64(3), np.arange(3.0)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "info.pkl")
        utils.save_info(path, info)
        found = utils.load_info(path)
    return [repr(sorted(map(repr, found))), repr(found["names"]), repr(found["shape"]),
            repr(found[2.5]), repr(found["s"]), int(found["number"]), found["array"].tolist()]  # fmt: skip
