"""What is meant to be otherwise here than in DGL, with the reasons; all other programs agree.

`docs/graph.md`, "Where this differs from DGL", says so to users.
"""

DTYPE = "ids that are stored or returned have the graph's dtype; in DGL some are int64 always"
BATCH = "transforms keep a batch; DGL makes it one graph"
ADDS = "new features must have a row for each; DGL takes what does not fit"
UNKNOWN = "a type that the graph does not have is an error; DGL passes it over"
RANGE = "ids that do not exist are an error; DGL takes them"
FAILS = "DGL fails, for no reason that its documentation has"
WRONG = "DGL's result is wrong"
INFERRED = "sizes that are left out are inferred, and may be larger than a format's"
DESTINATIONS = "destinations of edges that to_block is not given are an error"

DIFFERENT = {
    # ---- ids and their dtype ----
    "plain32.filter_edges(lambda e: e.data['w'] > 0)": DTYPE,
    "plain32.filter_edges(lambda e: e.src['x'] > e.dst['x'])": DTYPE,
    "typed32['user', :, 'item']": DTYPE,
    "dgl.to_simple(multi32, copy_ndata=False, copy_edata=True)": DTYPE,
    "dgl.add_reverse_edges(multi32, copy_ndata=True, copy_edata=True)": DTYPE,
    "dgl.add_reverse_edges(multi32, copy_ndata=False, copy_edata=True)": DTYPE,
    "dgl.add_reverse_edges(multi32, copy_edata=True, exclude_self=False)": DTYPE,
    "dgl.add_reverse_edges(typed32, ignore_bipartite=True, copy_edata=True)": DTYPE,
    "many.int().batch_num_nodes()": DTYPE,
    "multi32.in_degrees(t([1, 0]))": "ids may be of any integer dtype; DGL wants the graph's",
    "dgl.node_subgraph(multi32, t([1, 0]))": "ids may be of any integer dtype",
    "dgl.add_edges(plain, t([1]).int(), t([0]).int())": "ids may be of any integer dtype",
    "dgl.add_edges(plain, [-1], [0])": RANGE,
    "dgl.graph(([-1], [0]))": RANGE,
    "by_ends(sampling.sample_neighbors(plain, [99], 0))": RANGE,
    "dgl.double_radius_node_labeling(plain, 1, 1)": "the two nodes must differ",
    "dgl.graph((t([0.5]), t([1.0])), idtype=torch.int32)": "ids must be integers; DGL rounds them",
    "multi.has_edges_between([0, 1], [0, 1, 2]).shape": "ids must be as many; DGL repeats the first",
    # ---- types ----
    "twin.to_canonical_etype(('b', 'r', 'a'))": UNKNOWN,
    "dgl.node_subgraph(typed, {'none': [0]})": UNKNOWN,
    "dgl.in_subgraph(typed, {'none': [0]})": UNKNOWN,
    "dgl.out_subgraph(typed, {'none': [0]})": UNKNOWN,
    "by_ends(sampling.sample_neighbors(typed, {'none': t([0])}, -1))": UNKNOWN,
    "dgl.node_subgraph(typed, {})": "no type is a selection too",
    "dgl.in_subgraph(typed, {})": "no type is a selection too",
    "by_ends(sampling.sample_neighbors(typed, {}, -1))": "no type is a selection too",
    "by_ends(sampling.sample_neighbors(typed, {'item': t([0, 2])}, -1, exclude_edges={'buys': t([1])}))": "names of types are enough; DGL passes over those that are not triples",
    "dgl.node_subgraph(multi, [1, 1])": "edges end at the last place of a node given twice; DGL's at the first",
    "loading.find_exclude_eids(typed, {'buys': t([0])}, 'self')": "types are returned as triples",
    "'q' in typed.ndata": WRONG + ": it has every name",
    "list(plain.ndata.values())": FAILS,
    # ---- blocks ----
    "block.formats('csc')": FAILS,
    "dgl.to_homogeneous(block)": WRONG + ": a type has its number of sources on both sides",
    "block.add_edges([0], [1]); block": WRONG + ": a type has its number of sources on both sides",
    "dgl.to_block(plain, t([2, 0]))": DESTINATIONS,
    "dgl.to_block(typed, {'user': t([1, 0])})": DESTINATIONS,
    "block.clone()": FAILS,
    "block.adj()": "a block's matrix has a column for each destination; DGL's one for each source",
    "typedblock.multi_update_all({'follows': (fn.copy_u('h', 'm'), fn.sum('m', 'o')), ('user', 'likes', 'item'): (fn.copy_e('w', 'm'), fn.max('m', 'o'))}, 'sum', lambda n: {'p': n.data['o'] * 2}); typedblock.dstdata": FAILS,
    # ---- what graphs are made of ----
    "dgl.graph(('csr', ([0, 1, 2], [1, 0], [])), num_nodes=5)": INFERRED,
    "dgl.graph(('csc', ([0, 1, 2], [1, 0], [1, 0])), num_nodes=5)": INFERRED,
    "dgl.graph(('csr', ([0, 1, 1, 1], [1], [])), num_nodes=5)": INFERRED,
    "dgl.heterograph({('u', 'r', 'v'): ('csc', ([0, 1, 2], [1, 0], []))}, {'u': 4, 'v': 3})": INFERRED,
    "dgl.heterograph({('u', 'r', 'v'): ('csc', ([0, 1, 2], [1, 0], []))}, {'u': 4, 'v': 3, 'z': 2})": INFERRED,
    "dgl.heterograph({('b', 'r', 'a'): ([3], [0]), ('a', 'q', 'b'): ([1], [1])}, {'u': 4, 'v': 3})": INFERRED,
    "dgl.heterograph({('b', 'r', 'a'): ([3], [0]), ('a', 'q', 'b'): ([1], [1])}, {'u': 4, 'v': 3, 'z': 2})": INFERRED,
    "dgl.heterograph({('b', 'r', 'a'): ([3], [0]), ('a', 'q', 'b'): ([1], [1])}, {'u': 1, 'v': 1})": INFERRED,
    "dgl.create_block(('csc', ([0, 1, 2], [0, 1], [])), num_src_nodes=4, num_dst_nodes=3)": INFERRED,
    "dgl.heterograph({('a', 'b', 'a'): ([0], [1])}, {'z': 1})": INFERRED,
    "dgl.heterograph({('u', 'r', 'v'): ([0], [1]), ('v', 's', 'u'): (t([1]).int(), t([0]).int())})": "the dtype of ids is that of the tensors; lists take part in DGL",
    # ---- conversions and transforms ----
    "dgl.to_heterogeneous(dgl.to_homogeneous(twin, ndata=['h'], edata=['w']), twin.ntypes, twin.etypes, metagraph=twin.metagraph())": WRONG + ": types of one name lose their edges",
    "dgl.to_heterogeneous(dgl.to_homogeneous(multi32, ndata=['h'], edata=['w']), multi32.ntypes, multi32.etypes, metagraph=multi32.metagraph())": DTYPE,
    "dgl.to_heterogeneous(dgl.to_homogeneous(multi32, ndata=['h'], edata=['w']), multi32.ntypes, multi32.etypes)": DTYPE,
    "dgl.to_heterogeneous(dgl.to_homogeneous(multi32, ndata=['h'], edata=['w']), multi32.ntypes, multi32.etypes[:1])": DTYPE,
    "dgl.to_homogeneous(empty)": FAILS,
    "[dgl.reverse(many).batch_size, dgl.reverse(many).batch_num_nodes()]": BATCH,
    "[dgl.add_self_loop(many).batch_size, dgl.add_self_loop(many).batch_num_nodes()]": BATCH,
    "dgl.add_nodes(plain, 2, {'h': torch.ones(1, 2).double()})": ADDS,
    "dgl.add_edges(plain, [0, 1], [2, 0], {'w': torch.ones(1).double()})": ADDS,
    "dgl.add_self_loop(plain, fill_data=torch.tensor(3.0))": "a tensor fills too; DGL passes it over",
    "dgl.lap_pe(plain, 9).shape": "too many eigenvectors are an error without padding, as DGL documents it",
    "dgl.reorder_graph(plain, None, 'dst', store_ids=False)": WRONG + ": it has a feature __orig__",
    "dgl.merge([empty, empty.clone()])": "merge keeps features of no rows",
    "dgl.merge([plain, dgl.graph(([0], [1]), num_nodes=9)])": "merge fills features that are missing",
    "dgl.GCNNorm('e')(multi)": "a weight is one number; DGL normalises each column",
    "by_ends(dgl.PPR(0.3, eps=1e-4)(floats(multi)))": "parallel edges add up",
    "by_ends(dgl.HeatKernel(1.5, eps=1e-4)(floats(multi)))": "parallel edges add up",
    "by_ends(dgl.HeatKernel(1.5, eps=1e-4)(floats(both)))": WRONG + ": it has one weight of both directions",
    "by_ends(dgl.GDC([0.5, 0.3, 0.2], eps=1e-4)(floats(multi)))": "parallel edges add up",
    "dgl.ToLevi()(plain)": WRONG + ": nodes without edges are lost",
    "dgl.SIGNDiffusion(2, 'h')(floats(typed))": "the formula is that of a graph of one type",
    "dgl.SIGNDiffusion(1, 'h', 'o', 'w')(floats(typed))": "the formula is that of a graph of one type",
    "dgl.SIGNDiffusion(2, 'h')(floats(twin))": "the formula is that of a graph of one type",
    "dgl.SIGNDiffusion(1, 'h', 'o', 'w')(floats(twin))": "the formula is that of a graph of one type",
    "by_ends(dgl.segmented_knn_graph(t([[0.1], [1], [2], [4], [4.5]]), 2, [2, 3], exclude_self=True))": "sets with fewer points have all neighbours; DGL takes fewer of all sets then",
    "dgl.sort_csr_by_tag(empty, t([0, 1, 2])).adj_tensors('csr')": FAILS,
    # ---- partition ----
    "dgl.partition_graph_with_halo(plain, torch.arange(plain.num_nodes()) % 2, 0, reshuffle=True)": FAILS,
    "dgl.partition_graph_with_halo(multi32, torch.arange(multi32.num_nodes()) % 2, 0, reshuffle=False)": FAILS,
    "dgl.partition_graph_with_halo(multi32, torch.arange(multi32.num_nodes()) % 2, 0, reshuffle=True)": FAILS,
    "dgl.partition_graph_with_halo(multi32, torch.arange(multi32.num_nodes()) % 2, 1, reshuffle=False)": FAILS,
    "dgl.partition_graph_with_halo(multi32, torch.arange(multi32.num_nodes()) % 2, 1, reshuffle=True)": FAILS,
    "dgl.partition_graph_with_halo(multi32, torch.arange(multi32.num_nodes()) % 2, 2, reshuffle=False)": FAILS,
    "dgl.partition_graph_with_halo(multi32, torch.arange(multi32.num_nodes()) % 2, 2, reshuffle=True)": FAILS,
    # ---- messages ----
    "plain.adj(eweight_name='w')": FAILS,
    "multi.update_all(fn.copy_u('x', 'm'), fn.sum('m', 'o')); multi.ndata['o']": "integers are taken",
    "multi.apply_edges(fn.u_add_v('x', 'x', 'm')); multi.edata['m']": "integers are taken",
    "dgl.readout_nodes(many, 'x', op='sum')": "integers are taken",
    "dgl.topk_nodes(many, 'x', 1)": "integers are taken",
    "dgl.topk_nodes(many, 'h', 0)": FAILS,
    "empty.update_all(fn.copy_u('h', 'm'), lambda n: {'o': n.mailbox['m'].sum(1)}); empty.ndata": "without edges the result is 0; DGL sets nothing",
    "dgl.mean_edges(manytyped, 'e', etype='has')": "the mean of nothing is 0; DGL's nan without edges",
    "dgl.topk_edges(many, 'e', 9)": WRONG + ": padding has features of other edges",
    "typed.update_all(fn.copy_u('h', 'm'), fn.sum('m', 'o')); typed.ndata['o']": WRONG + ": all are 0 if one type has no edges",
    "typed.multi_update_all({'buys': (fn.copy_u('h', 'm'), fn.max('m', 'o')), 'likes': (fn.copy_u('h', 'm'), fn.max('m', 'o'))}, 'sum'); typed.ndata['o']": WRONG + ": what is infinite for one type takes the others with it",
    "typed.multi_update_all({'buys': (fn.copy_u('h', 'm'), fn.sum('m', 'o'))}, 'prod'); typed.ndata['o']": "DGL does not document it",
    "dgl.prop_nodes(plain, [[0], [1]], fn.copy_u('h', 'm'), fn.sum('m', 'h')); plain.ndata['h']": FAILS,
    "dgl.bfs_nodes_generator(plain, 99)": RANGE,
    "sampling.sample_neighbors(plain, [1], 1, prob='q').num_edges()": "a feature that no edge type has is an error as prob",
    "by_ends(sampling.sample_neighbors(plain, [1], -1, copy_edata=False))": "sampled graphs have EID always",
    "loading.find_exclude_eids(plain, t([0, 2]), 'reverse_types', reverse_etypes={'_E': '_E'})": FAILS,
}  # fmt: skip


def programs():
    """Every program of this area."""
    return list(DIFFERENT)
