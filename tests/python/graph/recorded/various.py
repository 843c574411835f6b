"""What the other areas leave: texts, methods, views, blocks, networkx, loaders, mistakes."""

TEXT = """
repr(plain)
str(typed)
repr(block)
repr(typedblock)
repr(many)
repr(manytyped)
repr(twin)
repr(pair)
repr(empty)
str(plain.node_attr_schemes())
str(typed.edge_attr_schemes('buys'))
repr(dgl.graph(([],[])))
repr(dgl.heterograph({('u','r','v'):([0],[1])}))
repr(dgl.node_subgraph(plain,[0,1]))
plain.subgraph([0,1])
plain.edge_subgraph([0,1])
typed.edge_subgraph({'buys':[0,2]})
plain.in_subgraph([1])
plain.out_subgraph([1])
plain.khop_in_subgraph(1, 2)
plain.khop_out_subgraph(1, 2)
plain.reverse()
plain.to_simple()
plain.line_graph()
plain.add_self_loop()
plain.remove_self_loop()
plain.int().idtype
plain.is_pinned()
plain.sample_neighbors([0], -1).num_edges()
plain.reorder_graph(edge_permute_algo='src')
plain.nodes['_N'].data['x']
plain.nodes['none'].data
plain.nodes[None].data['x']
plain.edges['_E'].data['w']
plain.edges[('_N','_E','_N')].data['w']
typed.nodes[[0, 1]].data
typed.edges[[0]].data
typed.nodes[[0, 1], 'user'].data['x']
typed.edges[[0, 1], 'buys'].data['w']
typed.ndata
typed.edata
typed.edata['w']
typed.srcdata['x']
typed.dstdata
typed.ndata['x']['user']
typed.nodes['user'].data.keys()
sorted(typed.nodes['user'].data)
typed.nodes['user'].data.pop('x'); typed.ndata
dict(plain.ndata)
plain.ndata == {}
len(typed.ndata)
list(typed.ndata.items())
typed.ndata.get('q')
plain.ndata.get('q', 3)
plain.ndata.clear(); plain
plain.ndata.setdefault('x', 0)
plain.ndata['s'] = 3; plain.ndata
plain.ndata['s'] = [1,2,3,4,5,6]; plain.ndata
plain.ndata['s'] = torch.ones(6, requires_grad=True); plain.ndata['s'].requires_grad
plain.ndata.update(a=torch.ones(6)); plain.ndata['a']
h = plain.local_var(); h.ndata['z'] = torch.ones(6); 'z' in plain.ndata
h = plain.clone(); h.ndata['h'][0] = 0; plain.ndata['h'][0]
h = plain.local_var(); h.ndata['h'][0] = 0; plain.ndata['h'][0]
h = plain.int(); h.ndata['h'][0] = 0; plain.ndata['h'][0]
h = dgl.reverse(plain); h.ndata['h'][0] = 0; plain.ndata['h'][0]
plain.set_n_initializer(lambda shape, dtype, ctx, ids: torch.full(shape, 7, dtype=dtype)); plain.add_nodes(1); plain.ndata
plain.set_e_initializer(lambda shape, dtype, ctx, ids: torch.full(shape, 7, dtype=dtype), 'w'); plain.add_edges([0], [1]); plain.edata
plain.set_n_initializer(dgl.init.base_initializer); plain.nodes[[0]].data['k'] = torch.ones(1); plain.ndata['k']
typed.set_n_initializer(lambda shape, dtype, ctx, ids: torch.full(shape, 7, dtype=dtype), ntype='user'); typed.add_nodes(1, ntype='user'); typed.ndata
typed.add_nodes(1); typed
typed.add_edges([0], [1]); typed
typed.remove_nodes([0]); typed
typed.remove_edges([0]); typed
typed.add_edges([7], [0], etype='buys'); typed
typed.add_edges([0], [9], {'w': torch.ones(1).double()}, etype='follows'); typed
block.add_nodes(1); block
block.remove_edges([0]); block
dgl.add_self_loop(block)
dgl.reverse(block)
dgl.remove_self_loop(typed, 'buys')
dgl.batch([block, block])
dgl.node_subgraph(block, [0])
dgl.edge_subgraph(block, [0])
block.in_degrees()
block.out_degrees()
block.in_edges([0])
block.out_edges([0,1], 'all')
block.has_nodes([0])
block.int()
block.to('cpu')
block.num_nodes('SRC/_N')
block.num_nodes('DST/_N')
block.nodes('DST/_N')
typedblock.num_nodes('DST/user')
typedblock.nodes['DST/user'].data
typedblock.nodes['SRC/item'].data
typedblock.num_nodes('user')
typedblock.num_nodes()
typedblock.ndata['x']
typedblock.srcdata
typedblock.dstdata['x']
typedblock['buys']
typedblock.edges['buys'].data
typedblock.edge_subgraph({'buys': [0]})
typedblock.multi_update_all({'buys': (fn.u_mul_v('h','h','m'), fn.sum('m','o'))}, 'sum'); typedblock.dstdata['o']
block.srcdata['n'] = torch.ones(4); block.dstdata['n'] = torch.zeros(2); block.ndata['n']
block.apply_edges(lambda e: {'d': e.src['h'][:, 0] - e.dst['h'][:, 1]}); block.edata['d']
block.update_all(lambda e: {'m': e.src['h']}, lambda n: {'o': n.mailbox['m'].mean(1) + n.data['h']}); block.dstdata['o']
block.update_all(fn.u_add_v('h', 'h', 'm'), fn.max('m', 'o')); block.dstdata['o']
block.apply_nodes(lambda n: {'y': n.data['x']}); block
block.filter_nodes(lambda n: n.data['x'] > 0)
block.filter_edges(lambda e: e.data['w'] > 0)
block.adj_external().to_dense()
block.inc('in').to_dense()
block.is_multigraph
dgl.block_to_graph(typedblock)
dgl.block_to_graph(block).nodes['_N_src'].data
dgl.compact_graphs(block)
dgl.to_simple(block)
dgl.readout_nodes(block, 'h')
dgl.sum_nodes(pair, 'h', ntype='u')
dgl.sum_nodes(typed, 'h', ntype='user')
dgl.mean_nodes(plain, 'h', 'x')
dgl.max_nodes(many, 'h', 'w')
dgl.broadcast_nodes(plain, t([[1.0, 2]]))
dgl.broadcast_nodes(many, t([[1.0, 2]]))
dgl.softmax_nodes(manytyped, 'h')
dgl.topk_nodes(many, 'h', 1, sortby=5)
dgl.unbatch(typed)
dgl.batch([typed, typed]).batch_num_nodes('user')
dgl.batch([typed, typed]).batch_num_edges(('user','buys','item'))
dgl.batch([typed, typed]).batch_num_nodes()
dgl.batch([typed, typed]).batch_num_edges('buys')
dgl.slice_batch(manytyped, 1)
dgl.slice_batch(manytyped, 1, store_ids=True)
dgl.slice_batch(many, 7)
dgl.unbatch(manytyped)[1]
dgl.unbatch(manytyped, {'user': t([4, 5]), 'item': t([3, 3]), 'tag': t([2, 0])}, {e: t([len(manytyped.edges(etype=e)[0]), 0]) for e in manytyped.canonical_etypes})
dgl.batch([dgl.batch([plain, dag]), plain]).batch_size
dgl.batch([many, plain]).batch_num_nodes()
dgl.batch([plain, dag], ndata=['h']).edata
dgl.batch([plain, dag], edata=None)
plain.batch_num_nodes()
plain.batch_num_edges()
plain.set_batch_num_nodes(t([3, 3])); plain.batch_size
dgl.in_subgraph(many, [0]).batch_size
dgl.to_bidirected(plain).ndata
dgl.to_bidirected(typed)
dgl.khop_graph(typed, 2)
dgl.line_graph(typed)
dgl.add_reverse_edges(pair)
dgl.to_simple(typed, return_counts='n', copy_edata=True)
dgl.metapath_reachable_graph(typed, ['buys', 'sold', 'follows']).num_edges()
by_ends(dgl.metapath_reachable_graph(twin, [('a','r','b'), 's']))
dgl.edge_type_subgraph(typed, [('user','buys','item')]).ndata
dgl.node_type_subgraph(twin, ['a'])
dgl.node_type_subgraph(twin, ['b'])
dgl.edge_type_subgraph(twin, ['r'])
dgl.edge_type_subgraph(twin, [('a', 'r', 'b')])
by_ends(dgl.adj_product_graph(pair, dgl.reverse(pair, copy_edata=True), 'w'))
dgl.to_networkx(pair)
dgl.to_networkx(typed, node_attrs=['x'])
dgl.bipartite_from_networkx(networkx.Graph([(0, 1)]), 'a', 'b', 'c')
dgl.from_networkx(networkx.path_graph(4))
dgl.from_networkx(networkx.path_graph(4), idtype=torch.int32)
dgl.from_networkx(networkx.DiGraph([('b', 'a'), ('a', 'c')]))
dgl.from_networkx(networkx.MultiDiGraph([(0, 1), (0, 1), (2, 0)]))
dgl.from_networkx(networkx.DiGraph([(0, 1, {'w': 2.5}), (1, 2, {'w': 1.0})]), edge_attrs=['w'])
dgl.from_networkx(networkx.DiGraph([(0, 1, {'id': 1}), (1, 2, {'id': 0})]), edge_id_attr_name='id')
dgl.ops.gspmm(plain, 'mul', 'sum', numbers(6, 2), numbers(7, 1))
dgl.ops.gspmm(plain, 'copy_lhs', 'max', numbers(6, 2), None)
dgl.ops.gsddmm(plain, 'add', numbers(6, 2), numbers(6, 1), 'u', 'v')
dgl.ops.gsddmm(plain, 'dot', numbers(6, 2), numbers(7, 2), 'v', 'e')
dgl.ops.gsddmm(plain, 'copy_rhs', None, numbers(6, 2), 'u', 'v')
dgl.ops.u_mul_e_sum(typed['buys'], numbers(4, 2), numbers(5, 1))
dgl.ops.segment_mm(numbers(5, 2), numbers(2, 2, 3), t([2, 3]))
dgl.ops.gather_mm(numbers(4, 2), numbers(2, 2, 3), t([0, 1, 1, 0]))
plain.edge_ids([0, 1], [1, 9])
plain.edge_ids(0, 4)
plain.has_edges_between(0, 9)
plain.find_edges([[0, 1]])
plain.in_degrees([0.5])
plain.in_degrees('x')
plain.in_degrees(t([True, False, True, False, False, False]))
dgl.node_subgraph(plain, t([True, False, True, False, False, False]))
plain.num_nodes('x')
plain.edges(form='x')
plain.adj_tensors('x')
plain.adj_tensors('csr', etype='_E')
dgl.graph('x')
dgl.graph(None)
dgl.graph(5)
dgl.heterograph({('a','b'): ([0],[1])})
dgl.heterograph({('a','b','c'): 3})
dgl.from_scipy(3)
plain.update_all('x', 'y')
plain.update_all(fn.copy_u('h','m'), fn.copy_u('h','m'))
plain.apply_edges(None)
plain.apply_edges(lambda e: e.src['h'])
plain.update_all(lambda e: {'m': e.src['h'][:2]}, fn.sum('m','o')); plain.ndata['o']
plain.update_all(fn.u_add_v('h', 'x', 'm'), fn.sum('m', 'o')); plain.ndata['o']
plain.update_all(fn.u_mul_e('h', 'w', 'm'), fn.sum('m', 'o')); plain.ndata['o']
plain.multi_update_all({'_E': (fn.copy_u('h', 'm'), fn.sum('m', 'o'))}, 'sum'); plain.ndata['o']
plain.push(0, fn.copy_u('h', 'm'), fn.sum('m', 'o')); plain.ndata['o']
plain.pull(0, fn.copy_u('h', 'm'), fn.sum('m', 'o')); plain.ndata['o']
plain.ndata['o'] = torch.ones(6, 2).double(); plain.pull([0], fn.copy_u('h', 'm'), fn.sum('m', 'o')); plain.ndata['o']
plain.ndata['o'] = torch.ones(6, 2).double(); plain.update_all(fn.copy_u('h', 'm'), fn.sum('m', 'o')); plain.ndata['o']
plain.ndata['o'] = torch.ones(6, 2).double(); plain.update_all(fn.copy_u('h', 'm'), lambda n: {'o': n.mailbox['m'].sum(1)}); plain.ndata['o']
plain.ndata['o'] = torch.ones(6, 2).double(); plain.push([0], fn.copy_u('h', 'm'), lambda n: {'o': n.mailbox['m'].sum(1)}); plain.ndata['o']
empty.update_all(fn.copy_u('h', 'm'), fn.max('m', 'o')); empty.ndata
none.update_all(fn.copy_u('h', 'm'), fn.sum('m', 'o')); none.ndata
empty.apply_edges(fn.u_add_v('h', 'h', 'm')); empty.edata
empty.apply_edges(lambda e: {'m': e.src['h']}); empty.edata
dgl.khop_in_subgraph(typed, {'user': 0}, 1)
dgl.khop_in_subgraph(typed, {'user': t([0])}, 1, store_ids=False)
dgl.node_subgraph(typed, {'user': t([True, False, True, False])})
sampling.sample_neighbors(plain, {'_N': t([0])}, -1).num_edges()
sampling.sample_neighbors(plain, 0, -1).num_edges()
by_ends(sampling.sample_neighbors(plain, [0, 0], -1))
by_ends(sampling.select_topk(plain, 1, 'x', [0]))
sampling.sample_neighbors(plain, [0], -1, edge_dir='x')
loading.find_exclude_eids(typed, {('user','buys','item'): t([0])}, lambda e: e)
loading.NeighborSampler([2, 2], fused=False).fanouts
len(loading.DataLoader(plain, [0, 1, 2], loading.NeighborSampler([-1]), batch_size=2))
batches_of(loading.DataLoader(plain, [0, 1, 2], loading.NeighborSampler([-1]), batch_size=2))
batches_of(loading.DataLoader(typed, {'user': [0, 1], 'tag': [0]}, loading.NeighborSampler([-1]), batch_size=2))
[len(b[1]) for b in loading.DataLoader(plain, torch.arange(6), loading.NeighborSampler([-1]), batch_size=4, shuffle=True)]
loading.as_edge_prediction_sampler(loading.NeighborSampler([-1]), exclude='reverse_id')
batch_of(loading.as_edge_prediction_sampler(loading.NeighborSampler([-1]), exclude='reverse_types').sample(typed, {'buys': t([0])}))
by_ends(dgl.adj_sum_graph([plain, plain], 'w'))
loading.negative_sampler.Uniform(2)(plain, t([0, 3]))[0]
loading.negative_sampler.PerSourceUniform(3)(plain, t([0, 3]))[0]
{k: v[0] for k, v in loading.negative_sampler.Uniform(2)(typed, {('user', 'buys', 'item'): t([0, 3])}).items()}
{k: v[0].dtype for k, v in loading.negative_sampler.Uniform(2)(typed32, {('user', 'buys', 'item'): t([0, 3]).int()}).items()}
loading.negative_sampler.Uniform(1)(plain32, t([0]).int())[1].dtype
g = loading.as_edge_prediction_sampler(loading.NeighborSampler([-1]), negative_sampler=loading.negative_sampler.Uniform(2)).sample(plain, t([0, 3])); [len(g), g[1].num_edges(), g[2].num_edges(), g[2].num_nodes() == g[1].num_nodes()]
batches_of(loading.DataLoader(plain, {'_N': t([0, 1])}, loading.NeighborSampler([-1]), batch_size=2))
batches_of(loading.DataLoader(plain, torch.arange(6), loading.NeighborSampler([-1]), batch_size=4, num_workers=0, drop_last=False, device='cpu'))
batches_of(loading.DataLoader(plain, torch.arange(6), loading.NeighborSampler([-1]), batch_size=4, use_ddp=False, pin_prefetcher=False, use_prefetch_thread=False))
batches_of(loading.DataLoader(typed, {('user', 'buys', 'item'): t([0, 3])}, loading.as_edge_prediction_sampler(loading.NeighborSampler([-1]), exclude='self'), batch_size=1))
batches_of(loading.DataLoader(typed, {'buys': t([0, 3]), 'follows': t([1])}, loading.as_edge_prediction_sampler(loading.NeighborSampler([-1])), batch_size=2))
batches_of(loading.DataLoader(plain, t([], dtype=torch.int64), loading.NeighborSampler([-1]), batch_size=2))
loading.DataLoader(plain, t([0, 99]), loading.NeighborSampler([-1]), batch_size=2).__len__()
batch_of(loading.NeighborSampler([-1, -1], prob=None, replace=False).sample(plain, t([0])))
batch_of(loading.NeighborSampler([{'buys': -1, 'follows': 0, 'sold': 0, 'likes': 0, 'has': 0}]).sample(typed, {'item': t([0, 1])}))
loading.NeighborSampler([{'buys': -1}]).sample(typed, {'item': t([0, 1])})
plain.edata['m'] = plain.edata['w'] > 0; batch_of(loading.NeighborSampler([-1], mask='m').sample(plain, t([0, 1, 2])))
plain.edata['m'] = (plain.edata['w'] > 0).double(); batch_of(loading.NeighborSampler([9], prob='m').sample(plain, t([0, 1, 2])))
plain.edata['m'] = plain.edata['w'] > 0; batch_of(loading.NeighborSampler([9], mask='m').sample(plain, t([0, 1, 2])))
typed.edata['m'] = {e: w > 0 for e, w in typed.edata['w'].items()}; batch_of(loading.NeighborSampler([9], mask='m').sample(typed, {'user': t([0, 1, 2]), 'item': t([1])}))
batch_of(loading.LaborSampler([-1]).sample(dag, t([3, 4])))
batch_of(loading.LaborSampler([9]).sample(dag, t([3, 4])))
batch_of(loading.LaborSampler([9, 9]).sample(typed, {'user': t([1, 0])}))
a, b, s = loading.ShaDowKHopSampler([9, 9]).sample(dag, t([3])); batch_of((a, b, [s]))
loading.BlockSampler().sample(plain, t([0]))
loading.Sampler().sample(plain, t([0]))
dgl.AddReverse()(typed)
dgl.AddReverse(copy_edata=True, sym_new_etype=True)(typed)
dgl.AddReverse()(pair)
dgl.AddReverse()(twin)
dgl.ToSimple()(typed)
dgl.ToSimple(return_counts='n', aggregator='mean')(typed)
dgl.LineGraph(backtracking=False)(plain)
dgl.RemoveSelfLoop()(typed)
dgl.AddMetaPaths({'p': [('user','buys','item'), ('item','sold','user'), ('user','follows','user')]})(typed)
dgl.AddMetaPaths({'p': [('user','buys','item'), ('user','follows','user')]})(typed)
dgl.Compose([dgl.RemoveSelfLoop(), dgl.AddReverse()])(multi)
repr(dgl.Compose([dgl.RemoveSelfLoop(), dgl.AddReverse()]))
dgl.RowFeatNormalizer(node_feat_names=['h'])(floats(plain)).edata
dgl.FeatMask(1.0, ['h'])(plain).ndata['h'].abs().sum()
dgl.DropNode(1.0)(plain)
dgl.DropEdge(1.0)(plain)
dgl.NodeShuffle()(plain).num_edges()
dgl.RandomWalkPE(2, feat_name='r')(plain).ndata['r']
dgl.RandomWalkPE(2)(typed)
dgl.LapPE(2, 'p', 'v')(plain).ndata['v'].shape
dgl.LapPE(9, padding=True)(plain).ndata['PE'].shape
dgl.SVDPE(2, 's')(plain).ndata['s'].shape
dgl.SVDPE(9, 's', padding=True)(plain).ndata['s'].shape
dgl.AddEdge(1.0)(plain).num_edges()
dgl.AddEdge(0.5)(typed).num_edges('buys')
dgl.DropEdge(0.0)(typed).num_edges('buys')
dgl.ToLevi()(loops)
dgl.norm_by_dst(typed, 'buys')
dgl.norm_by_dst(pair)
dgl.add_self_loop(typed, fill_data='sum', etype='follows')
dgl.add_self_loop(typed, ['w'], 5, 'follows')
dgl.to_half(plain).ndata['h'].dtype
dgl.to_float(plain).ndata['x'].dtype
dgl.to_double(floats(plain)).edata['w'].dtype
dgl.shortest_dist(both, 0, return_paths=True)
dgl.shortest_dist(dag, 0)
dgl.shortest_dist(typed)
dgl.random_walk_pe(loops, 3)
dgl.random_walk_pe(multi, 2, 'w')
dgl.random_walk_pe(plain, 2, 'q')
dgl.double_radius_node_labeling(both, 0, 2)
dgl.double_radius_node_labeling(dag, 0, 4)
dgl.svd_pe(plain, 9, padding=True, random_flip=False).shape
dgl.lap_pe(both, 2).shape
dgl.laplacian_lambda_max(both)[0] > 1
dgl.edge_label_informativeness(both, t([0, 1, 0, 1]))
dgl.node_homophily(both, t([0, 1, 0, 1]))
dgl.edge_homophily(both, t([0, 0, 0, 1]))
dgl.linkx_homophily(both, t([0, 1, 0, 1]))
dgl.adjusted_homophily(both, t([0, 1, 0, 1]))
dgl.khop_adj(multi, 2)
by_ends(dgl.khop_graph(multi, 2))
by_ends(dgl.khop_graph(loops, 3))
dgl.khop_out_subgraph(dag, [0, 2], 1)
dgl.khop_in_subgraph(dag, {'_N': [3]}, 2)
dgl.merge([plain, plain32])
dgl.merge([plain])
dgl.merge([])
dag.prop_nodes([[1], [3]], lambda e: {'m': e.src['h']}, lambda n: {'h': n.mailbox['m'].sum(1)}); dag.ndata['h']
dgl.prop_nodes_topo(dag, lambda e: {'m': e.src['h']}, lambda n: {'h': n.mailbox['m'].sum(1) + n.data['h']}); dag.ndata['h']
dgl.prop_nodes_topo(dag, fn.copy_u('h', 'm'), fn.sum('m', 'o'), apply_node_func=lambda n: {'h': n.data['h'] + 1}); dag.ndata
dgl.prop_nodes_topo(dag, fn.copy_u('h', 'm'), fn.mean('m', 'h'), reverse=True); dag.ndata['h']
dgl.prop_nodes_bfs(typed, 0, fn.copy_u('h', 'm'), fn.sum('m', 'h'))
dgl.bfs_nodes_generator(typed, 0)
dgl.bfs_nodes_generator(plain, [])
dgl.topological_nodes_generator(many)
dgl.dfs_edges_generator(dag, [0, 1])
plain.nodes[2].data
plain.edges[2].data
plain.edges[[0, 1], [1, 2]].data['w']
plain.edges[t([0, 1])].data['w'] = torch.zeros(2).double(); plain.edata['w']
plain.nodes[[0, 0]].data['h'] = numbers(2, 2); plain.ndata['h'][1]
typed.edges['buys'].data['z'] = torch.ones(5); typed.edata['z']
typed.edges['buys'].data['z'] = torch.ones(4)
typed.nodes['tag'].data['z'] = torch.ones(2, 0); typed.ndata['z']
typed.apply_edges(fn.u_dot_v('h', 'h', 's'), etype='buys'); typed.edata['s']
typed.apply_edges({'buys': fn.u_dot_v('h', 'h', 's')})
typed.update_all(fn.copy_u('h', 'm'), lambda n: {'o': n.mailbox['m'].sum(1)})
twin.apply_edges(fn.u_dot_v('h', 'h', 's')); twin.edata['s']
twin.multi_update_all({('a','r','a'): (fn.copy_u('h', 'm'), fn.sum('m', 'o')), ('b','s','a'): (fn.copy_u('h', 'm'), fn.sum('m', 'o'))}, 'stack'); twin.ndata['o']
twin.multi_update_all({('a','r','a'): (fn.copy_u('h', 'm'), fn.sum('m', 'o'), lambda n: {'o': n.data['o'] * 2}), ('b','s','a'): (fn.copy_u('h', 'm'), fn.sum('m', 'o'))}, 'sum'); twin.ndata['o']
twin.multi_update_all({'s': (fn.copy_u('h', 'm'), fn.sum('m', 'p')), ('a','r','a'): (fn.copy_u('h', 'm'), fn.sum('m', 'o'))}, 'sum'); twin.ndata
twin['s'].update_all(fn.copy_u('h', 'm'), fn.sum('m', 'o')); twin.nodes['a'].data
g = twin['s']; g.update_all(fn.copy_u('h', 'm'), fn.sum('m', 'o')); g.dstdata
plain.send_and_recv(([0, 1], [1, 2]), fn.copy_u('h', 'm'), fn.max('m', 'o')); plain.ndata['o']
plain.update_all(lambda e: {'m': e.src['h'] * e.data['w'].unsqueeze(1)}, fn.max('m', 'o')); plain.ndata['o']
plain.update_all(lambda e: {'m': torch.stack([e.edges()[0], e.edges()[1], e.edges()[2]], 1)}, lambda n: {'o': n.mailbox['m'].sum(1)}); plain.ndata['o']
plain.update_all(lambda e: {'m': e.data['w']}, lambda n: {'o': n.nodes() * 10 + n.batch_size()}); plain.ndata['o']
multi.update_all(lambda e: {'m': e.data['w']}, lambda n: {'o': n.mailbox['m'][:, 0]}); multi.ndata['o']
multi.update_all(lambda e: {'m': e.data['w']}, lambda n: {'o': n.mailbox['m'][:, -1]}); multi.ndata['o']
plain.apply_nodes(fn.copy_u('h', 'o'))
plain.apply_nodes(lambda n: {'o': n.nodes()}, [3, 1]); plain.ndata['o']
plain.apply_nodes(lambda n: {'o': n.data['h'] * len(n)}); plain.ndata['o']
plain.apply_edges(lambda e: {'o': e.edges()[2]}, [3, 1]); plain.edata['o']
plain.apply_edges(lambda e: {'o': e.src['x'] * 100 + e.dst['x']}); plain.edata['o']
s = plain.local_scope(); s.__enter__(); plain.ndata['h'] = torch.zeros(6); plain.edata['n'] = torch.zeros(7); s.__exit__(None, None, None); plain
"""


def programs():
    """Every program of this area, a line each."""
    return TEXT.strip().splitlines()
