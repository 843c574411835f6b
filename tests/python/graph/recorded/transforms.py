"""Functions and modules that make a graph of a graph, and measures of graphs."""

import itertools

EDITED = ["plain", "multi32", "empty", "many"]
ONE = ["plain", "multi", "multi32", "dag"]
TYPED = ["typed", "typed32", "manytyped"]


def _edits(g):
    """Functions that take graphs of any kind whose edges have one type."""
    for a, b in itertools.product((True, False), (True, False)):
        yield f"dgl.reverse({g}, copy_ndata={a}, copy_edata={b})"
    for name in ("h", "x"):
        yield f"dgl.reverse({g}, copy_edata=True).ndata['{name}']"
    yield from (f"dgl.to_simple({g})", f"dgl.to_simple({g}, return_counts=None)")
    yield f"dgl.to_simple({g}, return_counts='many', writeback_mapping=True)"
    yield f"dgl.to_simple({g}, copy_ndata=False, copy_edata=True)"
    for how in ("sum", "mean", "max", "min", "none"):
        yield f"dgl.to_simple({g}, copy_edata=True, aggregator='{how}')"
    yield from (f"dgl.add_nodes({g}, {n})" for n in (0, 2, -1))
    yield f"dgl.add_nodes({g}, 2, {{'h': torch.ones(2, 2).double()}})"
    yield f"dgl.add_nodes({g}, 2, {{'new': torch.ones(2, 3)}})"
    yield f"dgl.add_nodes({g}, 1, ntype='none')"
    for u, v in (("[0, 1]", "[2, 0]"), ("0", "1"), ("[0]", "[1, 2]"), (f"t([1]).to({g}.idtype)", f"t([7]).to({g}.idtype)"), ("[]", "[]"),
                 ("[0, 1]", "[2, 0, 1]")):  # fmt: skip
        yield f"dgl.add_edges({g}, {u}, {v})"
    yield f"dgl.add_edges({g}, [0, 1], [2, 0], {{'w': torch.ones(2).double()}})"
    yield f"dgl.add_edges({g}, [0, 1], [2, 0], {{'new': torch.ones(2, 1)}})"
    for ids in ("[0, 2]", f"t([1]).to({g}.idtype)", "[]", "[99]", "3", "[1, 1]", "[-1]"):
        for store in ("", ", store_ids=True"):
            yield f"dgl.remove_edges({g}, {ids}{store})"
            yield f"dgl.remove_nodes({g}, {ids}{store})"
    for fill in ("", ", fill_data='sum'", ", fill_data='mean'", ", ['w'], 2.0", ", ['e'], 'max'",
                 ", fill_data='min'", ", ['q']", ", fill_data='none'"):  # fmt: skip
        yield f"dgl.add_self_loop({g}{fill})"
    yield f"dgl.remove_self_loop({g})"
    yield f"dgl.remove_self_loop(dgl.add_self_loop({g}))"
    yield f"dgl.norm_by_dst({g})"
    yield from (
        f"dgl.to_float({g})",
        f"dgl.to_half({g})",
        f"dgl.to_double({g})",
        f"dgl.to_bfloat16({g})",
    )


def _one(g):
    """Functions of homogeneous graphs."""
    for a, b in itertools.product((True, False), (True, False)):
        yield f"dgl.add_reverse_edges({g}, copy_ndata={a}, copy_edata={b})"
    yield f"dgl.add_reverse_edges({g}, exclude_self=False)"
    yield f"dgl.add_reverse_edges({g}, copy_edata=True, exclude_self=False)"
    yield from (f"dgl.to_bidirected({g})", f"dgl.to_bidirected({g}, copy_ndata=True)")
    yield from (f"dgl.line_graph({g}{o})" for o in ("", ", shared=True", ", backtracking=False"))
    yield f"dgl.line_graph({g}, backtracking=False, shared=True)"
    for k in (0, 1, 2, 3):
        yield f"dgl.khop_adj({g}, {k})"
        yield f"by_ends(dgl.khop_graph({g}, {k}))"
    yield f"by_ends(dgl.khop_graph({g}, 2, copy_ndata=False))"
    yield f"by_ends(dgl.metapath_reachable_graph({g}, ['_E']))"
    yield f"by_ends(dgl.metapath_reachable_graph({g}, ['_E', '_E']))"
    yield f"dgl.to_simple_graph({g})"
    for root in ("None", "0", "2", "99"):
        yield f"dgl.shortest_dist({g}, {root})"
        yield f"dgl.shortest_dist({g}, {root}, return_paths=True)"
    for u, v in ((0, 1), (2, 0), (0, 99)):
        yield f"dgl.double_radius_node_labeling({g}, {u}, {v})"
    for k in (1, 3):
        yield f"dgl.random_walk_pe({g}, {k})"
        yield f"dgl.random_walk_pe({g}, {k}, 'w')"
    yield f"dgl.lap_pe({g}, 9, padding=True, return_eigval=True)[1].shape"
    yield f"dgl.svd_pe({g}, 2, random_flip=False).abs()"
    for name in ("node_homophily", "edge_homophily", "linkx_homophily", "adjusted_homophily"):
        yield f"dgl.{name}({g}, {g}.ndata['x'] % 3)"
    for algorithm in ("rcmk", "custom", "none"):
        options = f", permute_config={{'nodes_perm': list(range({g}.num_nodes()))[::-1]}}"
        for edge in ("src", "dst"):
            yield f"by_ends(dgl.reorder_graph({g}, '{algorithm}', '{edge}'{options}))"
    yield f"dgl.reorder_graph({g}, 'custom', 'custom', permute_config={{'nodes_perm': list(range({g}.num_nodes())), 'edges_perm': list(range({g}.num_edges()))[::-1]}})"
    tags = f"torch.arange({g}.num_nodes()) % 3"
    for way in ("csr", "csc"):
        yield f"dgl.sort_{way}_by_tag({g}, {tags}).ndata['_TAG_OFFSET']"
        yield f"dgl.sort_{way}_by_tag({g}, {tags}).adj_tensors('{way}')"
        yield f"dgl.sort_{way}_by_tag({g}, torch.arange({g}.num_edges()) % 3, tag_type='edge').adj_tensors('{way}')"
        yield f"dgl.sort_{way}_by_tag({g}, {tags}, tag_type='none')"
    parts = f"torch.arange({g}.num_nodes()) % 2"
    for hops, shuffled in itertools.product((0, 1, 2), (False, True)):
        yield f"dgl.partition_graph_with_halo({g}, {parts}, {hops}, reshuffle={shuffled})"
    yield f"dgl.merge([{g}, {g}.clone()])"
    yield f"dgl.adj_sum_graph([{g}, {g}], 'w').num_edges()"
    yield f"by_ends(dgl.adj_product_graph({g}, {g}, 'w'))"


def _modules(g):
    for call in (
        "AddSelfLoop()", "AddSelfLoop(allow_duplicate=True)", "AddSelfLoop(edge_feat_names=['w'], fill_data='sum')",
        "AddSelfLoop(new_etypes=True)", "RemoveSelfLoop()", "AddReverse()", "AddReverse(copy_edata=True)",
        "AddReverse(sym_new_etype=True)", "ToSimple()", "ToSimple(return_counts='n', aggregator='sum')",
        "LineGraph()", "GCNNorm()", "GCNNorm('w')", "DropNode(0)", "DropEdge(0)", "AddEdge(0)",
        "FeatMask(0, ['h'])", "RandomWalkPE(2)", "RandomWalkPE(2, 'r', 'w')", "SIGNDiffusion(2, 'h')",
        "SIGNDiffusion(1, 'h', 'o', 'w')", "SIGNDiffusion(2, 'h', diffuse_op='gcn')",
        "SIGNDiffusion(2, 'h', diffuse_op='ppr', alpha=0.3)", "SIGNDiffusion(2, 'h', diffuse_op='rw')",
        "Compose([dgl.AddSelfLoop(), dgl.ToSimple()])",
        "AddMetaPaths({'path': [('user', 'buys', 'item'), ('item', 'sold', 'user')]})",
        "AddMetaPaths({'path': [('user', 'buys', 'item'), ('item', 'sold', 'user')]}, keep_orig_edges=False)",
    ):  # fmt: skip
        yield f"dgl.{call}(floats({g}))"
    for k in (1, 2):
        yield f"by_ends(dgl.KHopGraph({k})({g}))"
    if g == "multi":  # whose parallel edges add up here
        return
    for call in (
        "PPR(0.3, eps=1e-4)",
        "PPR(0.3, 'w', eps=1e-4)",
        "HeatKernel(1.5, eps=1e-4)",
        "GDC([0.5, 0.3, 0.2], eps=1e-4)",
        "GDC([1.0], eps=0.2)",
    ):
        yield f"by_ends(dgl.{call}(floats({g})))"


def _typed(g):
    for etype in ("'follows'", "'buys'", "'has'", "('user', 'likes', 'item')", "'none'"):
        yield f"dgl.add_edges({g}, [0, 1], [1, 1], etype={etype})"
        yield f"dgl.add_edges({g}, [0], [8], etype={etype})"
        yield f"dgl.remove_edges({g}, [0], etype={etype})"
        yield f"dgl.remove_edges({g}, [1, 0], etype={etype}, store_ids=True)"
        yield f"dgl.add_self_loop({g}, etype={etype})"
        yield f"dgl.remove_self_loop({g}, etype={etype})"
        yield f"dgl.norm_by_dst({g}, etype={etype})"
    for ntype in ("user", "item", "tag", "none"):
        yield f"dgl.add_nodes({g}, 2, ntype='{ntype}')"
        yield f"dgl.remove_nodes({g}, [0], ntype='{ntype}')"
        yield f"dgl.remove_nodes({g}, [1, 0], ntype='{ntype}', store_ids=True)"
    for call in (
        "reverse",
        "to_simple",
        "add_self_loop",
        "remove_self_loop",
        "add_reverse_edges",
        "to_bidirected",
        "line_graph",
    ):
        yield f"dgl.{call}({g})"
    yield f"dgl.reverse({g}, copy_edata=True)"
    yield f"dgl.to_simple({g}, copy_edata=True, aggregator='sum', writeback_mapping=True)"
    yield f"dgl.add_reverse_edges({g}, ignore_bipartite=True)"
    yield f"dgl.add_reverse_edges({g}, ignore_bipartite=True, copy_edata=True)"
    for path in ("['buys', 'sold']", "['sold', 'buys']", "['follows', 'follows']", "['follows', 'likes']",
                 "['buys', 'has']", "['buys', 'buys']", "['buys']", "[]", "['none']"):  # fmt: skip
        yield f"by_ends(dgl.metapath_reachable_graph({g}, {path}))"
    yield from (f"dgl.to_float({g})", f"dgl.to_half({g})")


def programs():
    """Every program of this area."""
    for g in EDITED:
        yield from _edits(g)
    for g in ONE:
        yield from _one(g)
    for g in ("plain", "multi", "both", "typed", "twin"):
        yield from _modules(g)
    yield from ("dgl.GCNNorm('k')(multi)", "dgl.ToLevi()(multi)")
    ones = "both.edata['w'] = torch.ones(6)"
    yield from (f"{ones}; by_ends(dgl.HeatKernel({t}, eps=0.01)(both))" for t in (0.5, 2))
    yield "multi.edata['k'] = multi.edata['w'] ** 2; dgl.GCNNorm('k')(multi)"
    for g in TYPED:
        yield from _typed(g)
    for g in ("pair", "pair32"):
        yield from (
            f"dgl.reverse({g})",
            f"dgl.reverse({g}, copy_edata=True)",
            f"dgl.to_simple({g})",
        )
        yield from (f"dgl.add_edges({g}, [0], [2])", f"dgl.add_edges({g}, [0], [9])")
        yield from (
            f"dgl.remove_edges({g}, [1])",
            f"dgl.add_self_loop({g})",
            f"dgl.to_bidirected({g})",
        )
        yield from (f"dgl.add_reverse_edges({g})", f"dgl.add_nodes({g}, 1, ntype='v')")
        yield from (f"dgl.add_nodes({g}, 1)", f"dgl.remove_nodes({g}, [0], ntype='u')")
        yield from (f"dgl.line_graph({g})", f"dgl.khop_graph({g}, 2)", f"dgl.khop_adj({g}, 2)")
        yield f"dgl.sort_csc_by_tag({g}, t([0, 1, 1, 0]).to({g}.idtype)).dstdata['_TAG_OFFSET']"
        yield f"dgl.sort_csr_by_tag({g}, t([0, 1, 1])).srcdata['_TAG_OFFSET']"
    points = "t([[0.1, 0.2], [1, 0.1], [2.3, 0], [4, 4], [4.2, 3], [0.2, 2]])"
    for k in (1, 2, 6):
        yield f"by_ends(dgl.knn_graph({points}, {k}))"
        yield f"by_ends(dgl.knn_graph({points}, {k}, exclude_self=True))"
        yield f"by_ends(dgl.knn_graph({points}.view(2, 3, 2), {min(k, 3)}))"
        yield f"by_ends(dgl.knn_graph({points}, {k}, dist='cosine'))"
    for sizes in ("[2, 4]", "[6]", "[3, 3]"):
        yield f"by_ends(dgl.segmented_knn_graph({points}, 1, {sizes}))"
        yield f"by_ends(dgl.segmented_knn_graph({points}, 2, {sizes}))"
        yield f"by_ends(dgl.segmented_knn_graph({points}, 1, {sizes}, exclude_self=True))"
    for r in (0.5, 1.5, 3):
        for options in ("", ", self_loop=True", ", p=1"):
            yield f"by_ends(dgl.radius_graph({points}, {r}{options}))"
