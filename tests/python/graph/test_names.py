"""The names, parameters and defaults of DGL 2.1's public functions, which programs rely on."""

import inspect
import subprocess
import sys

import pytest
import torch

import smex
import smex.graph as sg

FUNCTIONS = {
    "add_edges": "(g, u, v, data=None, etype=None)",
    "add_nodes": "(g, num, data=None, ntype=None)",
    "add_reverse_edges": "(g, readonly=None, copy_ndata=True, copy_edata=False, ignore_bipartite=False, exclude_self=True)",
    "add_self_loop": "(g, edge_feat_names=None, fill_data=1.0, etype=None)",
    "apply_each": "(data, fn, *args, **kwargs)",
    "batch": "(graphs, ndata='__ALL__', edata='__ALL__')",
    "bfs_edges_generator": "(graph, source, reverse=False)",
    "bfs_nodes_generator": "(graph, source, reverse=False)",
    "bipartite_from_networkx": "(nx_graph, utype, etype, vtype, u_attrs=None, e_attrs=None, v_attrs=None, edge_id_attr_name=None, idtype=None, device=None)",
    "bipartite_from_scipy": "(sp_mat, utype, etype, vtype, eweight_name=None, idtype=None, device=None)",
    "block_to_graph": "(block)",
    "broadcast_edges": "(graph, graph_feat, *, etype=None)",
    "broadcast_nodes": "(graph, graph_feat, *, ntype=None)",
    "compact_graphs": "(graphs, always_preserve=None, copy_ndata=True, copy_edata=True)",
    "copy_u": "(g, x_node, etype=None)",
    "copy_v": "(g, x_node, etype=None)",
    "create_block": "(data_dict, num_src_nodes=None, num_dst_nodes=None, idtype=None, device=None)",
    "dfs_edges_generator": "(graph, source, reverse=False)",
    "double_radius_node_labeling": "(g, src, dst)",
    "edge_subgraph": "(graph, edges, *, relabel_nodes=True, store_ids=True, output_device=None, preserve_nodes=None)",
    "edge_type_subgraph": "(graph, etypes, output_device=None)",
    "from_networkx": "(nx_graph, node_attrs=None, edge_attrs=None, edge_id_attr_name=None, idtype=None, device=None)",
    "from_scipy": "(sp_mat, eweight_name=None, idtype=None, device=None)",
    "graph": "(data, *, num_nodes=None, idtype=None, device=None, row_sorted=False, col_sorted=False)",
    "heterograph": "(data_dict, num_nodes_dict=None, idtype=None, device=None)",
    "in_subgraph": "(graph, nodes, *, relabel_nodes=False, store_ids=True, output_device=None)",
    "khop_adj": "(g, k)",
    "khop_graph": "(g, k, copy_ndata=True)",
    "khop_in_subgraph": "(graph, nodes, k, *, relabel_nodes=True, store_ids=True, output_device=None)",
    "khop_out_subgraph": "(graph, nodes, k, *, relabel_nodes=True, store_ids=True, output_device=None)",
    "knn_graph": "(x, k, algorithm='bruteforce-blas', dist='euclidean', exclude_self=False)",
    "lap_pe": "(g, k, padding=False, return_eigval=False)",
    "laplacian_pe": "(g, k, padding=False, return_eigval=False)",
    "line_graph": "(g, backtracking=True, shared=False)",
    "load_graphs": "(filename, idx_list=None)",
    "load_labels": "(filename)",
    "max_edges": "(graph, feat, weight=None, *, etype=None)",
    "max_nodes": "(graph, feat, weight=None, *, ntype=None)",
    "mean_edges": "(graph, feat, weight=None, *, etype=None)",
    "mean_nodes": "(graph, feat, weight=None, *, ntype=None)",
    "merge": "(graphs)",
    "metapath_reachable_graph": "(g, metapath)",
    "metis_partition": "(g, k, extra_cached_hops=0, reshuffle=False, balance_ntypes=None, balance_edges=False, mode='k-way')",
    "metis_partition_assignment": "(g, k, balance_ntypes=None, balance_edges=False, mode='k-way', objtype='cut')",
    "node_subgraph": "(graph, nodes, *, relabel_nodes=True, store_ids=True, output_device=None)",
    "node_type_subgraph": "(graph, ntypes, output_device=None)",
    "norm_by_dst": "(g, etype=None)",
    "out_subgraph": "(graph, nodes, *, relabel_nodes=False, store_ids=True, output_device=None)",
    "partition_graph_with_halo": "(g, node_part, extra_cached_hops, reshuffle=False)",
    "radius_graph": "(x, r, p=2, self_loop=False, compute_mode='donot_use_mm_for_euclid_dist', get_distances=False)",
    "rand_bipartite": "(utype, etype, vtype, num_src_nodes, num_dst_nodes, num_edges, idtype=torch.int64, device=device(type='cpu'))",
    "rand_graph": "(num_nodes, num_edges, idtype=torch.int64, device=device(type='cpu'))",
    "random_walk_pe": "(g, k, eweight_name=None)",
    "readout_edges": "(graph, feat, weight=None, *, op='sum', etype=None)",
    "readout_nodes": "(graph, feat, weight=None, *, op='sum', ntype=None)",
    "remove_edges": "(g, eids, etype=None, store_ids=False)",
    "remove_nodes": "(g, nids, ntype=None, store_ids=False)",
    "remove_self_loop": "(g, etype=None)",
    "reverse": "(g, copy_ndata=True, copy_edata=False, *, share_ndata=None, share_edata=None)",
    "save_graphs": "(filename, g_list, labels=None, formats=None)",
    "seed": "(val)",
    "segmented_knn_graph": "(x, k, segs, algorithm='bruteforce-blas', dist='euclidean', exclude_self=False)",
    "shortest_dist": "(g, root=None, return_paths=False)",
    "slice_batch": "(g, gid, store_ids=False)",
    "softmax_edges": "(graph, feat, *, etype=None)",
    "softmax_nodes": "(graph, feat, *, ntype=None)",
    "sum_edges": "(graph, feat, weight=None, *, etype=None)",
    "sum_nodes": "(graph, feat, weight=None, *, ntype=None)",
    "svd_pe": "(g, k, padding=False, random_flip=True)",
    "to_bfloat16": "(g)",
    "to_bidirected": "(g, copy_ndata=False, readonly=None)",
    "to_block": "(g, dst_nodes=None, include_dst_in_src=True, src_nodes=None)",
    "to_double": "(g)",
    "to_float": "(g)",
    "to_half": "(g)",
    "to_heterogeneous": "(G, ntypes, etypes, ntype_field='_TYPE', etype_field='_TYPE', metagraph=None)",
    "to_homogeneous": "(G, ndata=None, edata=None, store_type=True, return_count=False)",
    "to_networkx": "(g, node_attrs=None, edge_attrs=None, ntype_attr='ntype', etype_attr='etype', eid_attr='id')",
    "to_simple": "(g, return_counts='count', writeback_mapping=False, copy_ndata=True, copy_edata=False, aggregator='arbitrary')",
    "to_simple_graph": "(g)",
    "topological_nodes_generator": "(graph, reverse=False)",
    "u_add_v": "(g, x_node, y_node, etype=None)",
    "u_div_v": "(g, x_node, y_node, etype=None)",
    "u_dot_v": "(g, x_node, y_node, etype=None)",
    "u_mul_v": "(g, x_node, y_node, etype=None)",
    "u_sub_v": "(g, x_node, y_node, etype=None)",
    "unbatch": "(g, node_split=None, edge_split=None)",
}
SAMPLING = {
    "global_uniform_negative_sampling": "(g, num_samples, exclude_self_loops=True, replace=False, etype=None, redundancy=None)",
    "node2vec_random_walk": "(g, nodes, p, q, walk_length, prob=None, return_eids=False)",
    "pack_traces": "(traces, types)",
    "random_walk": "(g, nodes, *, metapath=None, length=None, prob=None, restart_prob=None, return_eids=False)",
    "sample_etype_neighbors": "(g, nodes, etype_offset, fanout, edge_dir='in', prob=None, replace=False, copy_ndata=True, copy_edata=True, etype_sorted=False, _dist_training=False, output_device=None)",
    "sample_labors": "(g, nodes, fanout, edge_dir='in', prob=None, importance_sampling=0, random_seed=None, seed2_contribution=0, copy_ndata=True, copy_edata=True, exclude_edges=None, output_device=None)",
    "sample_neighbors": "(g, nodes, fanout, edge_dir='in', prob=None, replace=False, copy_ndata=True, copy_edata=True, _dist_training=False, exclude_edges=None, output_device=None)",
    "select_topk": "(g, k, weight, nodes=None, edge_dir='in', ascending=False, copy_ndata=True, copy_edata=True, output_device=None)",
}
SAMPLERS = {
    "PinSAGESampler": "(G, ntype, other_type, num_traversals, termination_prob, num_random_walks, num_neighbors, weight_column='weights')",
    "RandomWalkNeighborSampler": "(G, num_traversals, termination_prob, num_random_walks, num_neighbors, metapath=None, weight_column='weights')",
}
LOADING = {
    "BlockSampler": "(prefetch_node_feats=None, prefetch_labels=None, prefetch_edge_feats=None, output_device=None)",
    "ClusterGCNSampler": "(g, k, cache_path='cluster_gcn.pkl', balance_ntypes=None, balance_edges=False, mode='k-way', prefetch_ndata=None, prefetch_edata=None, output_device=None)",
    "DataLoader": "(graph, indices, graph_sampler, device=None, use_ddp=False, ddp_seed=0, batch_size=1, drop_last=False, shuffle=False, use_prefetch_thread=None, use_alternate_streams=None, pin_prefetcher=None, use_uva=False, gpu_cache=None, **kwargs)",
    "EdgePredictionSampler": "(sampler, exclude=None, reverse_eids=None, reverse_etypes=None, negative_sampler=None, prefetch_labels=None)",
    "GraphDataLoader": "(dataset, collate_fn=None, use_ddp=False, ddp_seed=0, **kwargs)",
    "LaborSampler": "(fanouts, edge_dir='in', prob=None, importance_sampling=0, layer_dependency=False, batch_dependency=1, prefetch_node_feats=None, prefetch_labels=None, prefetch_edge_feats=None, output_device=None)",
    "MultiLayerFullNeighborSampler": "(num_layers, **kwargs)",
    "MultiLayerNeighborSampler": "(fanouts, edge_dir='in', prob=None, mask=None, replace=False, prefetch_node_feats=None, prefetch_labels=None, prefetch_edge_feats=None, output_device=None, fused=True)",
    "NeighborSampler": "(fanouts, edge_dir='in', prob=None, mask=None, replace=False, prefetch_node_feats=None, prefetch_labels=None, prefetch_edge_feats=None, output_device=None, fused=True)",
    "SAINTSampler": "(mode, budget, cache=True, prefetch_ndata=None, prefetch_edata=None, output_device='cpu')",
    "ShaDowKHopSampler": "(fanouts, replace=False, prob=None, prefetch_node_feats=None, prefetch_edge_feats=None, output_device=None)",
    "as_edge_prediction_sampler": "(sampler, exclude=None, reverse_eids=None, reverse_etypes=None, negative_sampler=None, prefetch_labels=None)",
    "find_exclude_eids": "(g, seed_edges, exclude, reverse_eids=None, reverse_etypes=None, output_device=None)",
}
NEGATIVE = {
    "GlobalUniform": "(k, exclude_self_loops=True, replace=False)",
    "PerSourceUniform": "(k)",
    "Uniform": "(k)",
}
MODULES = {
    sg.sampling: SAMPLING | SAMPLERS,
    sg.dataloading: LOADING,
    sg.dataloading.negative_sampler: NEGATIVE,
}
SAMPLING_METHODS = [
    "global_uniform_negative_sampling",
    "sample_etype_neighbors",
    "sample_labors",
    "sample_neighbors",
    "sample_neighbors_biased",
    "sample_neighbors_fused",
    "select_topk",
]
TRANSFORMS = {
    "AddEdge": "(ratio=0.2)",
    "AddMetaPaths": "(metapaths, keep_orig_edges=True)",
    "AddReverse": "(copy_edata=False, sym_new_etype=False)",
    "AddSelfLoop": "(allow_duplicate=False, new_etypes=False, edge_feat_names=None, fill_data=1.0)",
    "Compose": "(transforms)",
    "DropEdge": "(p=0.5)",
    "DropNode": "(p=0.5)",
    "FeatMask": "(p=0.5, node_feat_names=None, edge_feat_names=None)",
    "GCNNorm": "(eweight_name='w')",
    "GDC": "(coefs, eweight_name='w', eps=None, avg_degree=5)",
    "HeatKernel": "(t=2.0, eweight_name='w', eps=None, avg_degree=5)",
    "KHopGraph": "(k)",
    "LapPE": "(k, feat_name='PE', eigval_name=None, padding=False)",
    "LaplacianPE": "(k, feat_name='PE', eigval_name=None, padding=False)",
    "LineGraph": "(backtracking=True)",
    "NodeShuffle": "()",
    "PPR": "(alpha=0.15, eweight_name='w', eps=None, avg_degree=5)",
    "RandomWalkPE": "(k, feat_name='PE', eweight_name=None)",
    "RemoveSelfLoop": "()",
    "RowFeatNormalizer": "(subtract_min=False, node_feat_names=None, edge_feat_names=None)",
    "SIGNDiffusion": "(k, in_feat_name='feat', out_feat_name='out_feat', eweight_name=None, diffuse_op='raw', alpha=0.2)",
    "SVDPE": "(k, feat_name='svd_pe', padding=False, random_flip=True)",
    "ToLevi": "()",
    "ToSimple": "(return_counts='count', aggregator='arbitrary')",
}
METHODS = [
    "add_self_loop",
    "edge_subgraph",
    "edge_type_subgraph",
    "in_subgraph",
    "khop_in_subgraph",
    "khop_out_subgraph",
    "line_graph",
    "node_type_subgraph",
    "out_subgraph",
    "remove_self_loop",
    "reorder_graph",
    "reverse",
    "to_networkx",
    "to_simple",
]


def parameters(function):
    """A signature without annotations."""
    signature = inspect.signature(function)
    plain = [p.replace(annotation=inspect.Parameter.empty) for p in signature.parameters.values()]
    return plain, str(signature.replace(parameters=plain, return_annotation=signature.empty))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name):
    assert parameters(getattr(sg, name))[1] == FUNCTIONS[name] and name in sg.__all__


@pytest.mark.parametrize(("module", "name"), [(m, n) for m in MODULES for n in MODULES[m]])
def test_modules(module, name):
    assert parameters(getattr(module, name))[1] == MODULES[module][name] and name in module.__all__


@pytest.mark.parametrize("name", SAMPLING_METHODS)
def test_sampling_methods(name):
    method = parameters(getattr(sg.DGLGraph, name))[0][1:]
    function = parameters(getattr(sg.sampling, name))[0][1:]
    assert [str(p) for p in method] == [str(p) for p in function]


@pytest.mark.parametrize("name", TRANSFORMS)
def test_modules_of_transforms(name):
    assert parameters(getattr(sg, name))[1] == TRANSFORMS[name]
    assert getattr(sg.transforms, name) is getattr(sg, name)


@pytest.mark.parametrize("name", METHODS)
def test_methods_are_functions_whose_first_argument_is_the_graph(name):
    method = parameters(getattr(sg.DGLGraph, name))[0][1:]
    assert [str(p) for p in method] == [str(p) for p in parameters(getattr(sg, name))[0][1:]]
    assert parameters(sg.Graph.subgraph)[0][1:] == parameters(sg.node_subgraph)[0][1:]


@pytest.mark.parametrize(
    "call",
    [
        lambda g: [g.add_self_loop(), sg.add_self_loop(g)],
        lambda g: [g.edge_subgraph([1]), sg.edge_subgraph(g, [1])],
        lambda g: [g.edge_type_subgraph(["_E"]), sg.edge_type_subgraph(g, ["_E"])],
        lambda g: [g.in_subgraph([1]), sg.in_subgraph(g, [1])],
        lambda g: [g.khop_in_subgraph([1], 1)[0], sg.khop_in_subgraph(g, [1], 1)[0]],
        lambda g: [g.khop_out_subgraph([1], 1)[0], sg.khop_out_subgraph(g, [1], 1)[0]],
        lambda g: [g.line_graph(), sg.line_graph(g)],
        lambda g: [g.node_type_subgraph(["_N"]), sg.node_type_subgraph(g, ["_N"])],
        lambda g: [g.out_subgraph([1]), sg.out_subgraph(g, [1])],
        lambda g: [g.remove_self_loop(), sg.remove_self_loop(g)],
        lambda g: [g.reorder_graph(), sg.reorder_graph(g)],
        lambda g: [g.reverse(), sg.reverse(g)],
        lambda g: [g.subgraph([1, 2]), sg.node_subgraph(g, [1, 2])],
        lambda g: [g.to_simple(), sg.to_simple(g)],
        lambda g: [g.sample_neighbors([2], -1), sg.sampling.sample_neighbors(g, [2], -1)],
        lambda g: [g.sample_labors([2], -1)[0], sg.sampling.sample_labors(g, [2], -1)[0]],
        lambda g: [
            g.sample_etype_neighbors([2], [0, 4], -1),
            sg.sampling.sample_etype_neighbors(g, [2], [0, 4], -1),
        ],
    ],
)
def test_methods_call_the_functions(call):
    method, function = call(sg.graph(([0, 1, 1, 1], [1, 2, 2, 1])))
    assert repr(method) == repr(function)
    assert torch.equal(torch.stack(method.edges()), torch.stack(function.edges()))


def test_constants():
    assert (sg.NID, sg.EID, sg.NTYPE, sg.ETYPE, sg.ALL) == (
        "_ID",
        "_ID",
        "_TYPE",
        "_TYPE",
        "__ALL__",
    )
    assert sg.DGLError is smex.SmexError and sg.DGLGraph is sg.Graph
    assert all(hasattr(sg, name) for name in sg.__all__)


def test_modules_and_functions_of_one_name():
    import smex.graph.batch
    import smex.graph.graph

    assert callable(sg.graph) and callable(sg.batch)
    assert smex.graph.graph is sg.graph


def test_values_for_each_edge():
    h = sg.heterograph({("a", "x", "b"): ([0, 1], [1, 1]), ("a", "y", "b"): ([2], [0])})
    a, b = (
        torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]),
        torch.tensor([[2.0, 2.0], [4.0, 8.0]]),
    )
    u, v = a[[0, 1]], b[[1, 1]]
    for name, expected in {
        "add": u + v,
        "sub": u - v,
        "mul": u * v,
        "div": u / v,
        "dot": (u * v).sum(-1, keepdim=True),
    }.items():
        torch.testing.assert_close(getattr(sg, f"u_{name}_v")(h, a, b, etype="x"), expected)
    assert torch.equal(sg.copy_u(h, a, "y"), a[2:]) and torch.equal(sg.copy_v(h["y"], b), b[:1])


def test_apply_each():
    assert sg.apply_each({"a": 1}, str) == {"a": "1"} and sg.apply_each([1, 2], str) == ["1", "2"]
    assert sg.apply_each("ab", len) == 2


@pytest.mark.costly(cases=3)
@pytest.mark.parametrize(
    "line",
    [
        "from smex.graph.nn.pytorch import GATConv, edge_softmax",
        "from smex.graph.nn.pytorch.conv import GINConv",
        "from smex.graph.nn.pytorch.glob import SumPooling",
        "from smex.graph.nn.pytorch.utils import JumpingKnowledge",
        "import smex.graph.nn.pytorch.hetero as hetero; hetero.HeteroGraphConv",
        "import smex.graph as dgl; dgl.nn.pytorch.glob.SumPooling",
        "from smex.graph.nn.pytorch.factory import KNNGraph, knn_graph",
        "from smex.graph.transforms import reorder_graph, to_block",
        "from smex.graph.transforms.functional import to_bidirected; import smex.graph.transforms.module",
        "from smex.graph.data import download, load_labels",
    ],
)
def test_programs_import_layers_from_the_modules_of_dgl(line):
    """In an interpreter of their own, which has imported nothing yet."""
    subprocess.run([sys.executable, "-c", line], check=True)


@pytest.mark.parametrize("name", ["compact_graphs", "metis_partition", "reorder_graph", "to_block"])
def test_functions_that_transforms_has_too(name):
    assert getattr(sg.transforms, name) is getattr(sg, name)
    assert sg.nn.edge_softmax is sg.ops.edge_softmax
