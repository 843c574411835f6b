"""Sizes, edges, degrees, neighbours, matrices, slices, features, traversals."""

ONE = ["plain", "multi32", "loops", "none", "pair", "many"]
TYPED = ["typed32", "twin", "manytyped"]
BLOCKS = ["block", "block32", "typedblock"]
RELATIONS = ["follows", "buys", "has", "('user', 'likes', 'item')"]


def _name(relation):
    return relation if relation.startswith("(") else f"'{relation}'"


def _facts(g):
    """What every graph is asked."""
    facts = (
        "num_nodes()", "num_edges()", "is_multigraph", "is_homogeneous", "is_block", "idtype",
        "ntypes", "etypes", "canonical_etypes", "srctypes", "dsttypes", "is_unibipartite",
        "num_src_nodes()", "num_dst_nodes()", "batch_size", "device", "formats()",
        "number_of_nodes()", "number_of_edges()", "number_of_src_nodes()", "number_of_dst_nodes()",
    )  # fmt: skip
    for start in range(0, len(facts), 7):
        yield f"[{', '.join(f'{g}.{what}' for what in facts[start : start + 7])}]"
    yield f"list({g}.metagraph().edges(keys=True))"
    yield from (f"{g}.int()", f"{g}.long()", f"{g}.local_var()")


def _edges(g):
    """Of graphs with one type of edges."""
    for form in ("uv", "eid", "all"):
        yield from (f"{g}.edges('{form}', order='{o}')" for o in ("eid", "srcdst"))
    yield from (f"{g}.edges('pairs')", f"{g}.edges(order='dst')", f"{g}.all_edges('all')")
    yield from (f"{g}.in_degrees()", f"{g}.out_degrees()", f"{g}.adj_tensors('coo')")
    yield from (f"{g}.adj_tensors('csr')", f"{g}.adj_tensors('csc')", f"{g}.adj_tensors('dense')")
    yield from (f"{g}.adj()", f"{g}.adj(eweight_name='q')")
    yield from (f"{g}.adj_external(transpose={b}).to_dense()" for b in (True, False))
    yield from (f"{g}.adj_external(scipy_fmt='{f}')" for f in ("coo", "csr"))
    yield from (f"{g}.inc('{way}').to_dense()" for way in ("in", "out", "both"))
    yield from (f"{g}.find_edges([0, 2])", f"{g}.find_edges(t([1, 0]).to({g}.idtype))")
    yield from (f"{g}.find_edges(99)", f"{g}.find_edges([])", f"{g}.edge_attr_schemes()['w'].shape")
    for v in ("1", "[1, 0]", f"t([1, 0, 1]).to({g}.idtype)", "[]", "99", "[0, 99]"):
        yield f"{g}.out_degrees({v})"
        if "99" not in v:
            yield f"{g}.in_degrees({v})"
        for form in ("uv", "eid", "all"):
            yield f"{g}.in_edges({v}, '{form}')"
            yield f"{g}.out_edges({v}, '{form}')"
    for u, v in (("0", "1"), ("[0, 2]", "[1, 0]"), ("[2, 1, 0]", "1"), ("1", "[0, 1]"), ("[]", "[]"), ("0", "99")):  # fmt: skip
        yield f"{g}.has_edges_between({u}, {v})"
        yield f"{g}.edge_ids({u}, {v})"
        yield f"{g}.edge_ids({u}, {v}, return_uv=True)"
    for v in ("0", "2", "99"):
        yield from (f"{g}.predecessors({v}).sort()[0]", f"{g}.successors({v}).sort()[0]")


def _nodes(g):
    """Of graphs with one type of nodes."""
    yield from (f"{g}.nodes()", f"{g}.has_nodes(0)", f"{g}.has_nodes([0, 9, 2])", f"{g}.ndata")
    yield from (f"{g}.has_nodes(t([], dtype={g}.idtype))", f"{g}.has_nodes(-1)", f"{g}.edata")
    yield from (
        f"{g}.nodes[[0]].data['h']",
        f"{g}.nodes[t([1, 0]).to({g}.idtype)].data",
        f"{g}.nodes[9].data",
    )
    yield from (f"{g}.edges[[1, 0]].data['w']", f"{g}.edges[0, 1].data", f"{g}.edges[0].data")
    yield from (f"{g}.ndata['q']", f"{g}.ndata['h'] = numbers(2, 2); 0", f"'h' in {g}.ndata")
    yield f"{g}.ndata['n'] = torch.ones({g}.num_nodes(), 3); {g}.ndata"
    yield f"{g}.nodes[[0]].data['n'] = torch.ones(1, 3); {g}.ndata['n']"
    yield f"{g}.edges[[1]].data['n'] = torch.ones(1); {g}.edata['n']"
    yield f"{g}.nodes[[1]].data['h'] = torch.zeros(1, 2).double(); {g}.ndata['h']"
    yield f"{g}.ndata.pop('h'); {g}.ndata"
    yield f"{g}.ndata.pop('q'); {g}.ndata"
    yield f"del {g}.edata['w']; {g}"
    yield f"{g}.ndata.update({{'z': torch.zeros({g}.num_nodes())}}); list({g}.ndata)"
    yield f"[len({g}.ndata), len({g}.edata), list({g}.ndata.keys())]"
    yield f"{g}.apply_nodes(lambda n: {{'y': n.data['h'] * 2}}); {g}.ndata"
    yield f"{g}.apply_nodes(lambda n: {{'y': n.data['h'] * 2}}, [1, 0]); {g}.ndata"
    yield f"{g}.filter_nodes(lambda n: n.data['x'] > 1)"
    yield f"{g}.filter_nodes(lambda n: n.data['x'] > 1, [2, 0, 1])"
    yield f"{g}.filter_edges(lambda e: e.data['w'] > 0)"
    yield f"{g}.filter_edges(lambda e: e.src['x'] > e.dst['x'])"
    yield f"{g}.filter_edges(lambda e: e.data['w'] > 0, [1, 0])"
    yield f"{g}.filter_edges(lambda e: e.data['w'] > 0, ([0], [1]))"
    yield f"{g}.formats('csc').formats()"
    yield f"{g}.formats(['coo', 'csr']).formats()"
    yield f"{g}.formats('none')"
    yield f"{g}.set_n_initializer(dgl.init.zero_initializer); {g}.add_nodes(1); {g}.ndata"
    yield f"{g}.add_nodes(2); {g}"
    yield f"{g}.add_nodes(1, {{'h': torch.ones(1, 2)}}); {g}"
    yield f"{g}.add_nodes(2, {{'h': torch.ones(1, 2)}}); {g}"
    yield f"{g}.add_edges([0, 1], [2, 0]); {g}"
    yield f"{g}.add_edges(0, [2, 7]); {g}"
    yield f"{g}.add_edges([0], [2], {{'w': torch.ones(1)}}); {g}"
    yield f"{g}.add_edges([0], [2], {{'w': torch.ones(1).double()}}); {g}"
    yield f"{g}.remove_edges([1, 0]); {g}"
    yield f"{g}.remove_edges([0], store_ids=True); {g}"
    yield f"{g}.remove_nodes([1]); {g}"
    yield f"{g}.remove_nodes([0, 2], store_ids=True); {g}"
    yield f"{g}.remove_nodes([99]); {g}"
    yield f"{g}.remove_edges([99]); {g}"


def _traversals(g):
    for reverse in ("", ", reverse=True"):
        for source in ("0", "[0, 2]", f"t([1]).to({g}.idtype)"):
            yield f"dgl.bfs_nodes_generator({g}, {source}{reverse})"
            yield f"dgl.bfs_edges_generator({g}, {source}{reverse})"
            yield f"dgl.dfs_edges_generator({g}, {source}{reverse})"
            yield f"dgl.dfs_labeled_edges_generator({g}, {source}{reverse})"
            options = "has_reverse_edge=True, has_nontree_edge=True"
            yield f"dgl.dfs_labeled_edges_generator({g}, {source}{reverse}, {options})"
    yield from (f"dgl.topological_nodes_generator({g}{r})" for r in ("", ", reverse=True"))


def _relation(g, relation):
    e = f"etype={_name(relation)}"
    yield from (f"{g}.num_edges({_name(relation)})", f"{g}.is_multigraph", f"{g}.edges({e})")
    yield from (f"{g}.edges('all', order='srcdst', {e})", f"{g}.adj_tensors('csr', {e})")
    yield from (f"{g}.in_degrees({e})", f"{g}.out_degrees({e})", f"{g}.in_degrees([1, 0], {e})")
    yield from (f"{g}.adj({e})", f"{g}.adj({e}, eweight_name='w')", f"{g}.find_edges([0], {e})")
    yield from (f"{g}.inc('{way}', {e}).to_dense()" for way in ("in", "out", "both"))
    yield from (f"{g}.in_edges([0, 1], 'all', {e})", f"{g}.out_edges([3, 0], 'all', {e})")
    yield from (f"{g}.has_edges_between([0, 3], [0, 1], {e})", f"{g}.edge_ids([3, 0], [1, 0], {e})")
    yield from (f"{g}.edge_ids([3], [1], True, {e})", f"{g}.successors(0, {e}).sort()[0]")
    yield from (f"{g}.predecessors(1, {e}).sort()[0]", f"{g}.edges[{_name(relation)}].data")
    yield from (f"{g}[{_name(relation)}]", f"{g}.to_canonical_etype({_name(relation)})")
    yield from (
        f"{g}.get_etype_id({_name(relation)})",
        f"{g}.edge_type_subgraph([{_name(relation)}])",
    )
    yield f"{g}.adj_external(scipy_fmt='coo', {e})"
    yield f"{g}.adj_external(True, {e}).to_dense()"
    yield f"{g}.remove_edges([0], {e}); {g}"
    yield f"{g}.add_edges([0, 1], [1, 2], {e}); {g}"
    yield f"{g}.add_edges([0, 1], [1, 2], {{'w': torch.ones(2).double()}}, {e}); {g}"
    yield f"{g}.filter_edges(lambda e: e.data['w'] > 0, {e})"
    yield f"{g}.apply_edges(lambda e: {{'y': e.src['h'] + e.dst['h']}}, {e}); {g}"


def _types(g):
    for n in ("user", "item", "tag", "none"):
        yield from (f"{g}.num_nodes('{n}')", f"{g}.nodes('{n}')", f"{g}.get_ntype_id('{n}')")
        yield from (f"{g}.has_nodes([0, 3], '{n}')", f"{g}.nodes['{n}'].data", f"{g}.ndata['h']")
        yield from (f"{g}.num_src_nodes('{n}')", f"{g}.num_dst_nodes('{n}')")
        yield from (
            f"{g}.srcnodes('{n}')",
            f"{g}.dstnodes('{n}')",
            f"{g}.node_type_subgraph(['{n}'])",
        )
        yield f"{g}.filter_nodes(lambda n: n.data['x'] > 1, ntype='{n}')"
        yield f"{g}.apply_nodes(lambda n: {{'y': n.data['h'] * 2}}, ntype='{n}'); {g}.ndata['y']"
        yield f"{g}.add_nodes(2, ntype='{n}'); {g}"
        yield f"{g}.remove_nodes([1], ntype='{n}'); {g}"
        yield f"{g}.remove_nodes([1, 0], ntype='{n}', store_ids=True); {g}"
    for key in (
        "'user', :, 'item'", "'user', 'buys', :", ":, 'sold', 'user'", "'user'", ":, :, 'user'",
        "'user', ('buys', 'likes'), 'item'", "'item', :, 'item'", "'none'", ":, :, :",
    ):  # fmt: skip
        yield f"{g}[{key}]"
    yield f"{g}.ndata['z'] = {{'user': torch.zeros({g}.num_nodes('user'))}}; {g}.ndata"
    yield f"{g}.edata['z'] = {{('user', 'buys', 'item'): torch.zeros(99)}}; {g}.edata"
    yield f"{g}.edata['z'] = {{('user', 'likes', 'item'): torch.zeros({g}.num_edges('likes'))}}; {g}"
    yield f"{g}.ndata['z'] = torch.zeros(4); {g}.ndata"
    yield from (f"{g}.ndata.pop('x'); {g}.ndata", f"{g}.edata['w']", f"{g}.srcdata['x']")
    yield from (f"{g}.dstdata['x']", f"{g}.edges['none'].data", f"{g}.edges(etype='none')")
    yield from (
        f"{g}.edge_type_subgraph(['buys', 'sold'])",
        f"{g}.node_type_subgraph(['user', 'item'])",
    )
    yield from (f"{g}.in_degrees()", f"{g}.edges()", f"{g}.nodes()", f"{g}.adj()", f"{g}.inc('in')")
    yield from (
        f"{g}.node_attr_schemes('user')['h'].shape",
        f"{g}.edge_attr_schemes('buys')['w'].shape",
    )


def _batches(g):
    yield from (f"{g}.batch_num_nodes()", f"{g}.batch_num_edges()", f"dgl.unbatch({g})")


def programs():
    """Every program of this area."""
    for g in [*ONE, *TYPED, *BLOCKS]:
        yield from _facts(g)
    for g in ("multi", "empty", "pair32", "block"):
        yield from _edges(g)
    for g in ("multi", "plain32", "empty"):
        yield from _nodes(g)
    for g in ("plain", "dag", "multi32", "empty"):
        yield from _traversals(g)
    for relation in RELATIONS:
        yield from _relation("typed", relation)
    for relation in ("buys", "has"):
        yield from _relation("manytyped", relation)
    for g in ("typed", "manytyped"):
        yield from _types(g)
    for g in ("many", "many32", "plain", "empty"):
        yield from _batches(g)
    for etype in ("('user', 'follows', 'user')", "'buys'", "('item', 'has', 'tag')"):
        yield f"manytyped.batch_num_edges({etype})"
    for ntype in ("user", "item", "tag"):
        yield f"manytyped.batch_num_nodes('{ntype}')"
    for e in ("'r'", "('a', 'r', 'b')", "('a', 'r', 'a')", "'s'"):
        yield from (f"twin.num_edges({e})", f"twin.edges(etype={e})", f"twin.in_degrees(etype={e})")
        yield from (f"twin[{e}]", f"twin.to_canonical_etype({e})", f"twin.adj_tensors('csc', {e})")
        yield from (f"twin.edges[{e}].data['w']", f"twin.edge_type_subgraph([{e}])")
        yield from (f"twin.edge_ids([0], [1], etype={e})", f"twin.get_etype_id({e})")
    for g in BLOCKS:
        yield from (f"{g}.srcdata['x']", f"{g}.dstdata['x']", f"{g}.ndata['x']", f"{g}.srcnodes()")
        yield from (
            f"{g}.dstnodes()",
            f"{g}.edata['w']",
            f"{g}.nodes()",
            f"dgl.block_to_graph({g})",
        )
        yield from (f"{g}.srcdata['n'] = torch.ones(3); {g}", f"{g}.number_of_dst_nodes()")
    yield from ("typedblock.srcnodes('user')", "typedblock.dstnodes['item'].data")
    yield from ("typedblock.num_dst_nodes('tag')", "typedblock.edges(etype='buys')")
    yield from ("typedblock.in_degrees(etype='sold')", "typedblock.num_src_nodes('user')")
