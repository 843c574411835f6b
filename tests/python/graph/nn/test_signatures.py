"""The parameters and defaults of DGL's layers, which programs rely on: of making and of calling."""

import inspect

import pytest

import smex.graph as sg

LAYERS = {
    "AGNNConv": ("init_beta=1.0, learn_beta=True, allow_zero_in_degree=False", "graph, feat"),
    "APPNPConv": ("k, alpha, edge_drop=0.0", "graph, feat, edge_weight=None"),
    "AtomicConv": ("interaction_cutoffs, rbf_kernel_means, rbf_kernel_scaling, features_to_use=None", "graph, feat, distances"),
    "AvgPooling": ("", "graph, feat"),
    "BiasedMHA": ("feat_size, num_heads, bias=True, attn_bias_type='add', attn_drop=0.1", "ndata, attn_bias=None, attn_mask=None"),
    "CFConv": ("node_in_feats, edge_in_feats, hidden_feats, out_feats", "g, node_feats, edge_feats"),
    "CuGraphGATConv": ("in_feats, out_feats, num_heads, feat_drop=0.0, negative_slope=0.2, residual=False, activation=None, bias=True", "g, feat, max_in_degree=None"),
    "CuGraphRelGraphConv": ("in_feat, out_feat, num_rels, regularizer=None, num_bases=None, bias=True, self_loop=True, dropout=0.0, apply_norm=False", "g, feat, etypes, max_in_degree=None"),
    "CuGraphSAGEConv": ("in_feats, out_feats, aggregator_type='mean', feat_drop=0.0, bias=True", "g, feat, max_in_degree=None"),
    "DGNConv": ("in_size, out_size, aggregators, scalers, delta, dropout=0.0, num_towers=1, edge_feat_size=0, residual=True", "graph, node_feat, edge_feat=None, eig_vec=None"),
    "DeepWalk": ("g, emb_dim=128, walk_length=40, window_size=5, neg_weight=1, negative_size=5, fast_neg=True, sparse=True", "batch_walk"),
    "DegreeEncoder": ("max_degree, embedding_dim, direction='both'", "degrees"),
    "DenseChebConv": ("in_feats, out_feats, k, bias=True", "adj, feat, lambda_max=None"),
    "DenseGraphConv": ("in_feats, out_feats, norm='both', bias=True, activation=None", "adj, feat"),
    "DenseSAGEConv": ("in_feats, out_feats, feat_drop=0.0, bias=True, norm=None, activation=None", "adj, feat"),
    "DotGatConv": ("in_feats, out_feats, num_heads, allow_zero_in_degree=False", "graph, feat, get_attention=False"),
    "EGATConv": ("in_node_feats, in_edge_feats, out_node_feats, out_edge_feats, num_heads, bias=True, allow_zero_in_degree=False", "graph, nfeats, efeats, edge_weight=None, get_attention=False"),
    "EGNNConv": ("in_size, hidden_size, out_size, edge_feat_size=0", "graph, node_feat, coord_feat, edge_feat=None"),
    "EGTLayer": ("feat_size, edge_feat_size, num_heads, num_virtual_nodes, dropout=0, attn_dropout=0, activation=None, edge_update=True", "nfeat, efeat, mask=None"),
    "EdgeConv": ("in_feat, out_feat, batch_norm=False, allow_zero_in_degree=False", "g, feat"),
    "EdgeGATConv": ("in_feats, edge_feats, out_feats, num_heads, feat_drop=0.0, attn_drop=0.0, negative_slope=0.2, residual=True, activation=None, allow_zero_in_degree=False, bias=True", "graph, feat, edge_feat, get_attention=False"),
    "EdgePredictor": ("op, in_feats=None, out_feats=None, bias=False", "h_src, h_dst"),
    "EdgeWeightNorm": ("norm='both', eps=0.0", "graph, edge_weight"),
    "GATConv": ("in_feats, out_feats, num_heads, feat_drop=0.0, attn_drop=0.0, negative_slope=0.2, residual=False, activation=None, allow_zero_in_degree=False, bias=True", "graph, feat, edge_weight=None, get_attention=False"),
    "GATv2Conv": ("in_feats, out_feats, num_heads, feat_drop=0.0, attn_drop=0.0, negative_slope=0.2, residual=False, activation=None, allow_zero_in_degree=False, bias=True, share_weights=False", "graph, feat, get_attention=False"),
    "GCN2Conv": ("in_feats, layer, alpha=0.1, lambda_=1, project_initial_features=True, allow_zero_in_degree=False, bias=True, activation=None", "graph, feat, feat_0, edge_weight=None"),
    "GINConv": ("apply_func=None, aggregator_type='sum', init_eps=0, learn_eps=False, activation=None", "graph, feat, edge_weight=None"),
    "GINEConv": ("apply_func=None, init_eps=0, learn_eps=False", "graph, node_feat, edge_feat"),
    "GMMConv": ("in_feats, out_feats, dim, n_kernels, aggregator_type='sum', residual=False, bias=True, allow_zero_in_degree=False", "graph, feat, pseudo"),
    "GNNExplainer": ("model, num_hops, lr=0.01, num_epochs=100, *, alpha1=0.005, alpha2=1.0, beta1=1.0, beta2=0.1, log=True", None),
    "GatedGCNConv": ("input_feats, edge_feats, output_feats, dropout=0, batch_norm=True, residual=True, activation=relu", "graph, feat, edge_feat"),
    "GatedGraphConv": ("in_feats, out_feats, n_steps, n_etypes, bias=True", "graph, feat, etypes=None"),
    "GlobalAttentionPooling": ("gate_nn, feat_nn=None", "graph, feat, get_attention=False"),
    "GraphConv": ("in_feats, out_feats, norm='both', weight=True, bias=True, activation=None, allow_zero_in_degree=False", "graph, feat, weight=None, edge_weight=None"),
    "GraphormerLayer": ("feat_size, hidden_size, num_heads, attn_bias_type='add', norm_first=False, dropout=0.1, attn_dropout=0.1, activation=None", "nfeat, attn_bias=None, attn_mask=None"),
    "GroupRevRes": ("gnn_module, groups=2", "g, x, *args"),
    "HGTConv": ("in_size, head_size, num_heads, num_ntypes, num_etypes, dropout=0.2, use_norm=False", "g, x, ntype, etype, *, presorted=False"),
    "HeteroEmbedding": ("num_embeddings, embedding_dim", "input_ids"),
    "HeteroGNNExplainer": ("model, num_hops, lr=0.01, num_epochs=100, *, alpha1=0.005, alpha2=1.0, beta1=1.0, beta2=0.1, log=True", None),
    "HeteroGraphConv": ("mods, aggregate='sum'", "g, inputs, mod_args=None, mod_kwargs=None"),
    "HeteroLinear": ("in_size, out_size, bias=True", "feat"),
    "HeteroPGExplainer": ("model, num_features, num_hops=None, explain_graph=True, coff_budget=0.01, coff_connect=0.0005, sample_bias=0.0", None),
    "JumpingKnowledge": ("mode='cat', in_feats=None, num_layers=None", "feat_list"),
    "KNNGraph": ("k", "x, algorithm='bruteforce-blas', dist='euclidean', exclude_self=False"),
    "LabelPropagation": ("k, alpha, norm_type='sym', clamp=True, normalize=False, reset=False", "g, labels, mask=None"),
    "LapPosEncoder": ("model_type, num_layer, k, dim, n_head=1, batch_norm=False, num_post_layer=0", "eigvals, eigvecs"),
    "MaxPooling": ("", "graph, feat"),
    "MetaPath2Vec": ("g, metapath, window_size, emb_dim=128, negative_size=5, sparse=True", "pos_u, pos_v, neg_v"),
    "NNConv": ("in_feats, out_feats, edge_func, aggregator_type='mean', residual=False, bias=True", "graph, feat, efeat"),
    "PNAConv": ("in_size, out_size, aggregators, scalers, delta, dropout=0.0, num_towers=1, edge_feat_size=0, residual=True", "graph, node_feat, edge_feat=None"),
    "PGExplainer": ("model, num_features, num_hops=None, explain_graph=True, coff_budget=0.01, coff_connect=0.0005, sample_bias=0.0", None),
    "PathEncoder": ("max_len, feat_dim, num_heads=1", "dist, path_data"),
    "RadiusGraph": ("r, p=2, self_loop=False, compute_mode='donot_use_mm_for_euclid_dist'", "x, get_distances=False"),
    "RelGraphConv": ("in_feat, out_feat, num_rels, regularizer=None, num_bases=None, bias=True, activation=None, self_loop=True, dropout=0.0, layer_norm=False", "g, feat, etypes, norm=None, *, presorted=False"),
    "SAGEConv": ("in_feats, out_feats, aggregator_type, feat_drop=0.0, bias=True, norm=None, activation=None", "graph, feat, edge_weight=None"),
    "SGConv": ("in_feats, out_feats, k=1, cached=False, bias=True, norm=None, allow_zero_in_degree=False", "graph, feat, edge_weight=None"),
    "SegmentedKNNGraph": ("k", "x, segs, algorithm='bruteforce-blas', dist='euclidean', exclude_self=False"),
    "Set2Set": ("input_dim, n_iters, n_layers", "graph, feat"),
    "SetTransformerDecoder": ("d_model, num_heads, d_head, d_ff, n_layers, k, dropouth=0.0, dropouta=0.0", "graph, feat"),
    "SetTransformerEncoder": ("d_model, n_heads, d_head, d_ff, n_layers=1, block_type='sab', m=None, dropouth=0.0, dropouta=0.0", "graph, feat"),
    "SortPooling": ("k", "graph, feat"),
    "SpatialEncoder": ("max_dist, num_heads=1", "dist"),
    "SpatialEncoder3d": ("num_kernels, num_heads=1, max_node_type=100", "coord, node_type=None"),
    "HeteroSubgraphX": ("model, num_hops, coef=10.0, high2low=True, num_child=12, num_rollouts=20, node_min=3, shapley_steps=100, log=False", None),
    "SubgraphX": ("model, num_hops, coef=10.0, high2low=True, num_child=12, num_rollouts=20, node_min=3, shapley_steps=100, log=False", None),
    "SumPooling": ("", "graph, feat"),
    "TAGConv": ("in_feats, out_feats, k=2, bias=True, activation=None", "graph, feat, edge_weight=None"),
    "TransE": ("num_rels, feats, p=1", "h_head, h_tail, rels"),
    "TransR": ("num_rels, rfeats, nfeats, p=1", "h_head, h_tail, rels"),
    "TypedLinear": ("in_size, out_size, num_types, regularizer=None, num_bases=None", "x, x_type, sorted_by_type=False"),
    "WeightAndSum": ("in_feats", "g, feats"),
    "WeightBasis": ("shape, num_bases, num_outputs", ""),
}  # fmt: skip


def parameters(function):
    """Names and defaults, without annotations and ``self``."""
    plain = []
    for p in list(inspect.signature(function).parameters.values())[1:]:
        p = p.replace(annotation=p.empty)
        name = getattr(p.default, "__name__", None) if callable(p.default) else None
        plain.append(f"{p.name}={name}" if name and p.default is not p.empty else p)
    text, starred = [], False
    for p in plain:
        if not isinstance(p, str) and p.kind is p.KEYWORD_ONLY and not starred:
            text.append("*")
            starred = True
        text.append(str(p))
    return ", ".join(text)


@pytest.mark.parametrize("name", LAYERS)
def test_layers(name):
    layer, (making, calling) = getattr(sg.nn, name), LAYERS[name]
    if making:
        assert parameters(layer.__init__) == making
    if calling is not None:
        assert parameters(layer.forward) == calling


def test_the_table_has_all_layers_but_those_with_many_arguments():
    assert set(sg.nn.__all__) - set(LAYERS) == {
        "ChebConv",
        "Sequential",
        "TWIRLSConv",
        "TWIRLSUnfoldingAndAttention",
    }
