"""What graphs on CUDA do, against the same graph on the CPU."""

import pickle

import pytest
import torch

import smex
import smex.graph as sg
import smex.graph.function as fn

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(
        not smex.show_config().native,
        reason=f"native library: {smex.show_config().native_reason}",
    ),
]


def homogeneous(idtype=torch.int64):
    torch.manual_seed(0)
    g = sg.graph(
        (torch.randint(40, (300,)), torch.randint(40, (300,))), num_nodes=40, idtype=idtype
    )
    g.ndata["h"] = torch.randn(40, 6)
    g.ndata["q"] = torch.randn(40, 1)
    g.edata["w"] = torch.randn(300, 1)
    g.edata["e"] = torch.randn(300, 6)
    return g


def heterograph():
    torch.manual_seed(0)
    ends = lambda a, b, count: (torch.randint(a, (count,)), torch.randint(b, (count,)))  # noqa: E731
    g = sg.heterograph(
        {
            ("user", "follows", "user"): ends(12, 12, 50),
            ("user", "plays", "game"): ends(12, 7, 40),
            ("game", "played by", "user"): ends(7, 12, 40),
        },
        {"user": 12, "game": 7},
    )
    g.nodes["user"].data["h"] = torch.randn(12, 4)
    g.nodes["game"].data["h"] = torch.randn(7, 4)
    return g


def same(found, wanted):
    """Equal values, of which the first are on CUDA."""
    if isinstance(wanted, torch.Tensor):
        assert found.device.type == "cuda"
        torch.testing.assert_close(found.cpu(), wanted, rtol=1e-4, atol=1e-4)
    elif isinstance(wanted, sg.Graph):
        assert found.device.type == "cuda"
        assert (found.ntypes, found.canonical_etypes) == (wanted.ntypes, wanted.canonical_etypes)
        for etype in wanted.canonical_etypes:
            same(found.edges(etype=etype, order="eid"), wanted.edges(etype=etype, order="eid"))
            same(dict(found.edges[etype].data), dict(wanted.edges[etype].data))
        for ntype in wanted.ntypes:
            same(dict(found.nodes[ntype].data), dict(wanted.nodes[ntype].data))
    elif isinstance(wanted, dict):
        assert found.keys() == wanted.keys()
        for key, value in wanted.items():
            same(found[key], value)
    elif isinstance(wanted, (tuple, list)):
        for one, other in zip(found, wanted, strict=True):
            same(one, other)
    else:
        assert found == wanted


MESSAGES = {
    "copy_u": fn.copy_u("h", "m"),
    "copy_e": fn.copy_e("e", "m"),
    "u_mul_e": fn.u_mul_e("h", "w", "m"),
    "u_add_v": fn.u_add_v("h", "h", "m"),
    "e_sub_v": fn.e_sub_v("e", "h", "m"),
    "u_div_e": fn.u_div_e("h", "e", "m"),
    "v_dot_e": fn.v_dot_e("h", "e", "m"),
}
REDUCES = {"sum": fn.sum, "mean": fn.mean, "max": fn.max, "min": fn.min}


@pytest.mark.parametrize("idtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("reduce", REDUCES)
@pytest.mark.parametrize("message", MESSAGES)
def test_messages(message, reduce, idtype):
    results = []
    for device in ("cpu", "cuda"):
        g = homogeneous(idtype).to(device)
        leaves = [g.ndata["h"], g.edata["w"], g.edata["e"]]
        for name, leaf in zip(("h", "w", "e"), leaves):
            (g.edata if name != "h" else g.ndata)[name] = leaf.requires_grad_()
        g.update_all(MESSAGES[message], REDUCES[reduce]("m", "out"))
        out = g.ndata["out"]
        grads = torch.autograd.grad(out.sin().sum(), leaves, allow_unused=True)
        results.append([out.detach(), *(grad for grad in grads if grad is not None)])
    same(results[1], results[0])


def multiply(edges):
    return {"m": torch.sigmoid(edges.src["h"] * edges.data["w"]) * edges.dst["q"].exp()}


def longest(nodes):
    return {"out": nodes.mailbox["m"].pow(2).sum(1)}


STEPS = {
    "own functions": lambda g: g.update_all(multiply, longest) or g.ndata["out"],
    "own messages": lambda g: g.update_all(multiply, fn.max("m", "out")) or g.ndata["out"],
    "apply_edges": lambda g: g.apply_edges(fn.u_dot_v("h", "h", "s")) or g.edata["s"],
    "apply own": lambda g: g.apply_edges(multiply) or g.edata["m"],
    "pull": lambda g: g.pull([1, 5], fn.copy_u("h", "m"), fn.sum("m", "o")) or g.ndata["o"],
    "push": lambda g: g.push([1, 5], fn.copy_u("h", "m"), fn.sum("m", "o")) or g.ndata["o"],
    "send_and_recv": lambda g: (
        g.send_and_recv([3, 4, 9], fn.copy_u("h", "m"), fn.mean("m", "o")) or g.ndata["o"]
    ),
    "softmax by destination": lambda g: sg.ops.edge_softmax(g, g.edata["w"]),
    "softmax by source": lambda g: sg.ops.edge_softmax(g, g.edata["w"], norm_by="src"),
    "sum_nodes": lambda g: sg.sum_nodes(g, "h"),
    "mean_edges": lambda g: sg.mean_edges(g, "e"),
    "topk_nodes": lambda g: sg.topk_nodes(g, "h", 3, sortby=0),
    "in_degrees": lambda g: g.in_degrees(),
    "out_degrees": lambda g: g.out_degrees(torch.tensor([3, 1], device=g.device)),
    "adjacency": lambda g: g.adj_external(ctx=g.device).to_dense(),
    "find_edges": lambda g: g.find_edges(torch.tensor([7, 0, 200], device=g.device)),
    "edge_ids": lambda g: g.edge_ids(*g.find_edges(torch.tensor([7, 0], device=g.device))),
    "has_edges": lambda g: g.has_edges_between(
        torch.tensor([1, 2, 3], device=g.device), torch.tensor([4, 5, 6], device=g.device)
    ),
    "predecessors": lambda g: g.predecessors(3).sort().values,
    "successors": lambda g: g.successors(3).sort().values,
    "in_edges": lambda g: g.in_edges([2, 4], form="all"),
    "reverse": lambda g: sg.reverse(g, copy_edata=True),
    "self loops": lambda g: sg.add_self_loop(sg.remove_self_loop(g)),
    "to_simple": lambda g: sg.to_simple(g, writeback_mapping=False),
    "to_bidirected": lambda g: sg.to_bidirected(g.cpu()).to(g.device),
    "add_reverse_edges": lambda g: sg.add_reverse_edges(g),
    "line_graph": lambda g: sg.line_graph(sg.edge_subgraph(g, torch.arange(20, device=g.device))),
    "node_subgraph": lambda g: sg.node_subgraph(g, torch.arange(0, 40, 3, device=g.device)),
    "edge_subgraph": lambda g: sg.edge_subgraph(g, torch.arange(0, 300, 7, device=g.device)),
    "in_subgraph": lambda g: sg.in_subgraph(g, torch.tensor([4, 7], device=g.device)),
    "out_subgraph": lambda g: sg.out_subgraph(g, torch.tensor([4, 7], device=g.device)),
    "batch": lambda g: sg.batch([g, sg.reverse(g, copy_edata=True), g]),
    "unbatch": lambda g: sg.unbatch(sg.batch([g, g])),
    "sum of a batch": lambda g: sg.sum_nodes(sg.batch([g, g]), "h"),
    "softmax of a batch": lambda g: sg.softmax_nodes(sg.batch([g, g]), "h"),
    "broadcast": lambda g: sg.broadcast_nodes(sg.batch([g, g]), torch.eye(2, device=g.device)),
    "to_block": lambda g: sg.to_block(sg.in_subgraph(g, torch.tensor([4, 7], device=g.device))),
    "homogeneous and back": lambda g: sg.to_homogeneous(g, ndata=["h"], edata=["w"]),
    "astype": lambda g: g.int(),
    "khop_in_subgraph": lambda g: sg.khop_in_subgraph(g, 3, 2)[0],
    "spmm": lambda g: sg.ops.copy_u_sum(g, g.ndata["h"]),
    "gspmm": lambda g: sg.ops.gspmm(g, "mul", "max", g.ndata["h"], g.edata["w"]),
    "segment_reduce": lambda g: sg.ops.segment_reduce(
        torch.tensor([10, 0, 30], device=g.device), g.ndata["h"], "mean"
    ),
    "formats": lambda g: [g.formats(each).in_degrees() for each in ("coo", "csr", "csc")],
    "pickled": lambda g: pickle.loads(pickle.dumps(g)).to(g.device),
    "laplacian": lambda g: sg.laplacian_lambda_max(sg.to_bidirected(g.cpu()).to(g.device)),
    "random walks": lambda g: sg.random_walk_pe(g, 4),
}


@pytest.mark.parametrize("name", STEPS)
def test_steps(name):
    step = STEPS[name]
    same(step(homogeneous().to("cuda")), step(homogeneous()))


HETERO = {
    "multi_update_all": lambda g: (
        g.multi_update_all(
            {etype: (fn.copy_u("h", "m"), fn.sum("m", "o")) for etype in g.canonical_etypes}, "sum"
        )
        or [g.nodes[ntype].data["o"] for ntype in g.ntypes]
    ),
    "softmax over types": lambda g: [
        sg.ops.edge_softmax(g[etype], torch.ones(g.num_edges(etype), 2, device=g.device))
        for etype in g.canonical_etypes
    ],
    "to_homogeneous": lambda g: sg.to_homogeneous(g, ndata=["h"]),
    "metapath": lambda g: sg.metapath_reachable_graph(g, ["plays", "played by"]).in_degrees(),
    "edge_type_subgraph": lambda g: sg.edge_type_subgraph(g, ["plays"]),
    "batch": lambda g: sg.batch([g, g]),
    "to_block": lambda g: sg.to_block(
        sg.in_subgraph(g, {"user": torch.tensor([4, 7], device=g.device)})
    ),
    "compact": lambda g: sg.compact_graphs(g),
}


@pytest.mark.parametrize("name", HETERO)
def test_heterographs(name):
    step = HETERO[name]
    same(step(heterograph().to("cuda")), step(heterograph()))


@pytest.mark.parametrize("workers", [0, 2])
def test_batches_on_the_gpu(workers):
    """Blocks from a loader, trained for two epochs on the GPU."""
    g = homogeneous()
    sampler = sg.dataloading.NeighborSampler([3, 3], prefetch_node_feats=["h"])
    loader = sg.dataloading.DataLoader(
        g, torch.arange(40), sampler, device="cuda", batch_size=8, shuffle=True, num_workers=workers
    )
    layers = torch.nn.ModuleList([sg.nn.SAGEConv(6, 6, "mean"), sg.nn.SAGEConv(6, 2, "mean")])
    layers.cuda()
    optimiser = torch.optim.Adam(layers.parameters())
    for _ in range(2):
        seen = []
        for _, outputs, blocks in loader:
            x = blocks[0].srcdata["h"]
            assert x.device.type == "cuda"
            torch.testing.assert_close(x.cpu(), g.ndata["h"][blocks[0].srcdata[sg.NID].cpu()])
            for layer, block in zip(layers, blocks):
                x = layer(block, x)
            optimiser.zero_grad()
            x.square().mean().backward()
            optimiser.step()
            seen.append(outputs)
        assert torch.cat(seen).sort().values.tolist() == list(range(40))


def test_compiled_layers():
    g = homogeneous().to("cuda")
    layer = sg.nn.GraphConv(6, 3, allow_zero_in_degree=True).cuda()
    wanted = layer(g, g.ndata["h"])
    found = torch.compile(layer, backend="aot_eager")(g, g.ndata["h"])
    torch.testing.assert_close(found, wanted)


def test_a_step_in_a_cuda_graph():
    """Sums and softmax over edges and their gradients are captured and replayed."""
    g = homogeneous().to("cuda")
    layer = sg.nn.GATConv(6, 3, 2, allow_zero_in_degree=True).cuda()
    x = torch.randn(40, 6, device="cuda", requires_grad=True)

    def step():
        x.grad = None
        layer(g, x).square().sum().backward()

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    recorded = torch.cuda.CUDAGraph()
    x.grad = None
    with torch.cuda.graph(recorded):
        layer(g, x).square().sum().backward()
    fresh = torch.randn(40, 6, device="cuda")
    with torch.no_grad():
        x.copy_(fresh)
    recorded.replay()
    again = fresh.clone().requires_grad_()
    layer(g, again).square().sum().backward()
    torch.testing.assert_close(x.grad, again.grad, rtol=1e-4, atol=1e-4)


def test_operands_elsewhere_are_named():
    g = homogeneous().to("cuda")
    with pytest.raises(smex.SmexValueError, match='feature "x": expected a tensor on cuda:0'):
        g.ndata["x"] = torch.zeros(40, 2)
    with pytest.raises(ValueError, match="operand u0 is on cpu, the graph on cuda:0"):
        sg.ops.copy_u_sum(g, torch.zeros(40, 2))


def test_sampling_is_on_the_cpu():
    g = homogeneous().to("cuda")
    with pytest.raises(smex.SmexValueError, match=r"sample from g\.cpu\(\)"):
        sg.sampling.sample_neighbors(g, torch.tensor([3, 9], device="cuda"), 2)
