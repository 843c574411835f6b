"""Subgraphs, batches, blocks, conversions between one type and several."""

import itertools

SOME = ["multi", "plain32", "many"]


def _subgraphs(g):
    options = ("", ", relabel_nodes=False", ", store_ids=False")
    for nodes in ("[1, 0, 2]", f"t([2, 1]).to({g}.idtype)", "[]", "[1]", "[99]", "[-1]"):
        for option in options:
            yield f"dgl.node_subgraph({g}, {nodes}{option})"
        yield f"{g}.subgraph({nodes})"
    for edges in ("[1, 0]", f"t([2]).to({g}.idtype)", "[]", "[99]", "[1, 1]"):
        for option in options:
            yield f"dgl.edge_subgraph({g}, {edges}{option})"
    yield f"dgl.node_subgraph({g}, {g}.ndata['x'] > 0)"
    yield f"dgl.edge_subgraph({g}, {g}.edata['w'] > 0)"
    for way, nodes in itertools.product(
        ("in", "out"), ("[1, 0]", f"t([2]).to({g}.idtype)", "[]", "[99]", "1")
    ):
        yield f"dgl.{way}_subgraph({g}, {nodes})"
        yield f"dgl.{way}_subgraph({g}, {nodes}, relabel_nodes=True)"
        yield f"dgl.{way}_subgraph({g}, {nodes}, store_ids=False)"
    for way, nodes, k in itertools.product(
        ("in", "out"), ("0", "[1, 2]", f"t([2]).to({g}.idtype)"), (0, 1, 2)
    ):
        yield f"dgl.khop_{way}_subgraph({g}, {nodes}, {k})"
    for way in ("in", "out"):
        yield f"dgl.khop_{way}_subgraph({g}, 1, 2, relabel_nodes=False)"
        yield f"dgl.khop_{way}_subgraph({g}, 1, 1, store_ids=False)"
        yield f"dgl.khop_{way}_subgraph({g}, 99, 1)"


def _typed_subgraphs(g):
    nodes = ("{'user': [1, 0, 3]}", "{'user': [0, 1], 'item': [2, 0]}", "{'item': [1], 'tag': [0]}",
             "{'user': [77]}", "[0, 1]")  # fmt: skip
    edges = ("{'buys': [0, 3, 4]}", "{('user', 'follows', 'user'): [1], 'sold': [0, 1]}",
             "{'has': []}", "{'none': [0]}", "{'buys': [77]}", "[0]")  # fmt: skip
    options = ("", ", relabel_nodes=False", ", store_ids=False")
    for option in options:
        yield from (f"dgl.node_subgraph({g}, {some}{option})" for some in nodes)
        yield from (f"dgl.edge_subgraph({g}, {some}{option})" for some in edges)
    for way, some in itertools.product(("in", "out"), nodes):
        yield f"dgl.{way}_subgraph({g}, {some})"
        yield f"dgl.{way}_subgraph({g}, {some}, relabel_nodes=True)"
        if "none" not in some and "77" not in some:
            yield f"dgl.khop_{way}_subgraph({g}, {some}, 1)"
            yield f"dgl.khop_{way}_subgraph({g}, {some}, 2, relabel_nodes=False)"
    yield f"dgl.edge_type_subgraph({g}, ['buys', ('user', 'likes', 'item')])"
    yield f"dgl.edge_type_subgraph({g}, ['follows'])"
    yield f"dgl.edge_type_subgraph({g}, ['none'])"
    yield f"dgl.node_type_subgraph({g}, ['user'])"
    yield f"dgl.node_type_subgraph({g}, ['item', 'tag'])"
    yield f"dgl.node_type_subgraph({g}, ['none'])"


def _blocks(g):
    yield from (f"dgl.to_block({g})", f"dgl.to_block({g}, include_dst_in_src=False)")
    for some in ("[2, 0]", "[3, 0, 1, 2]", "[1]"):
        nodes = f"t({some}).to({g}.idtype)"
        yield f"dgl.to_block(dgl.in_subgraph({g}, {nodes}), {nodes})"
        yield f"dgl.to_block(dgl.in_subgraph({g}, {nodes}), {nodes}, include_dst_in_src=False)"
    for options in (
        "",
        ", always_preserve=t([2]).to({0}.idtype)",
        ", copy_ndata=False",
        ", copy_edata=False",
    ):
        yield f"dgl.compact_graphs({g}{options.format(g)})"
    yield f"dgl.compact_graphs([{g}, dgl.reverse({g})])"


def _typed_blocks(g):
    idtype = f".to({g}.idtype)"
    every = "{n: " + g + ".nodes(n) for n in " + g + ".ntypes}"
    for nodes in (
        "None",
        every,
        f"{{'user': t([1, 0]){idtype}}}",
        f"{{'item': t([2]){idtype}, 'user': t([3]){idtype}}}",
    ):
        inside = g if nodes == "None" else f"dgl.in_subgraph({g}, {nodes})"
        yield f"dgl.to_block({inside}, {nodes})"
        yield f"dgl.to_block({inside}, {nodes}, include_dst_in_src=False)"
    for preserve in ("None", f"{{'tag': t([1]){idtype}}}", f"{{'user': t([3, 2]){idtype}}}"):
        yield f"dgl.compact_graphs({g}, {preserve})"
        yield f"dgl.compact_graphs([{g}, {g}.clone()], {preserve})"
    yield f"dgl.block_to_graph(dgl.to_block({g}))"


def _converted(g):
    yield f"dgl.to_homogeneous({g})"
    yield f"dgl.to_homogeneous({g}, ndata=['h'], edata=['w'])"
    yield f"dgl.to_homogeneous({g}, ndata=['x'], store_type=False)"
    yield f"dgl.to_homogeneous({g}, edata=['e'], return_count=True)"
    yield f"dgl.to_homogeneous({g}, ndata=['q'])"
    back = f"dgl.to_heterogeneous(dgl.to_homogeneous({g}, ndata=['h'], edata=['w']), {g}.ntypes, {g}.etypes"
    yield f"{back})"
    yield f"{back}, metagraph={g}.metagraph())"
    yield f"{back}[:1])"


def _batched():
    lists = ("[plain, empty]", "[plain]", "[empty, empty.clone()]", "[multi32, plain32]", "[]",
             "[plain, plain32]", "[typed, typed2]", "[typed2]", "[plain, typed]", "[none, plain]",
             "[many, plain]", "[pair, pair.clone()]", "[block, block.clone()]")  # fmt: skip
    for graphs in lists:
        for options in ("", ", ndata=None", ", ndata=['h'], edata=['w']"):
            yield f"dgl.batch({graphs}{options})"
        yield f"dgl.unbatch(dgl.batch({graphs}))"
        yield f"b = dgl.batch({graphs}); [b.batch_size, b.batch_num_nodes(b.ntypes[0]), b.batch_num_edges(b.canonical_etypes[0])]"
        for number in ("0", "1", "-1"):
            yield f"dgl.slice_batch(dgl.batch({graphs}), {number})"
        yield f"dgl.slice_batch(dgl.batch({graphs}), 0, store_ids=True)"
    yield "del empty.ndata['h']; dgl.batch([plain, empty])"
    yield "del multi.ndata['h']; dgl.batch([plain, multi])"
    yield "multi.ndata['h'] = multi.ndata['h'].float(); dgl.batch([plain, multi])"
    yield "multi.ndata['h'] = multi.ndata['h'][:, 0]; dgl.batch([plain, multi])"
    yield "dgl.unbatch(many, t([6, 8]), t([7, 6]))"
    yield "dgl.unbatch(many, t([6, 7]), t([7, 6]))"
    yield "many.set_batch_num_nodes(t([6, 8])); many.set_batch_num_edges(t([7, 6])); dgl.unbatch(many)"
    yield "many.set_batch_num_nodes(t([6, 8])); many.batch_size"
    yield "many.set_batch_num_nodes(t([6, 7])); dgl.unbatch(many)"
    yield "g = dgl.to_homogeneous(manytyped); g.batch_size"
    yield "manytyped.set_batch_num_nodes({'user': t([9]), 'item': t([6]), 'tag': t([2])}); manytyped.batch_size"
    for change in ("add_nodes(1)", "add_edges([0], [1])", "remove_nodes([0])", "remove_edges([0])"):
        yield f"many.{change}; many.batch_size"
        yield f"many.{change}; many.batch_num_nodes()"
    for call in ("many.local_var()",
                 "many.clone()", "many.to('cpu')", "dgl.remove_self_loop(many)",
                 "dgl.node_subgraph(many, [0, 1])", "many.formats('csc')"):  # fmt: skip
        yield f"[{call}.batch_size, {call}.batch_num_nodes()]"


def _made():
    for options in ("", ", num_nodes=5", ", num_nodes=1", ", idtype=torch.int32"):
        for edges in ("([0, 2], [1, 0])", "(t([0, 2]), t([1, 0]))", "([], [])", "[(0, 1), (2, 0)]",
                      "(t([0, 2]).int(), t([1, 0]).int())", "([0, 2], [1])",
                      "('csr', ([0, 1, 2], [1, 0], []))", "('csc', ([0, 1, 2], [1, 0], [1, 0]))",
                      "('coo', ([0, 1], [1, 0]))", "(0, 1)",
                      "('csr', ([0, 1, 1, 1], [1], []))", "t([[0, 1], [1, 0]])"):  # fmt: skip
            yield f"dgl.graph({edges}{options})"
    one = "('u', 'r', 'v'): ([0, 2], [1, 0])"
    for data in (f"{{{one}}}", f"{{{one}, ('v', 's', 'u'): ([], [])}}", "{('u', 'r', 'u'): ([], [])}",
                 "{('u', 'r', 'v'): (t([0, 2]).int(), t([1, 0]).int()), ('v', 'r', 'u'): (t([1]).int(), t([0]).int())}", "{}", "{'r': ([0], [1])}",
                 "{('u', 'r', 'v'): ('csc', ([0, 1, 2], [1, 0], []))}", "{('b', 'r', 'a'): ([3], [0]), ('a', 'q', 'b'): ([1], [1])}"):  # fmt: skip
        for options in (
            "",
            ", {'u': 4, 'v': 3}",
            ", {'u': 4, 'v': 3, 'z': 2}",
            ", {'u': 1, 'v': 1}",
            ", idtype=torch.int32",
        ):
            yield f"dgl.heterograph({data}{options})"
    for data in ("([0, 1], [1, 0])", f"{{{one}}}", "('csc', ([0, 1, 2], [0, 1], []))"):
        for options in ("", ", num_src_nodes=4, num_dst_nodes=3", ", num_src_nodes=1"):
            yield f"dgl.create_block({data}{options})"
    yield f"dgl.create_block({{{one}}}, {{'u': 4}}, {{'v': 3}})"
    for g in ("plain", "multi", "plain32"):
        yield f"dgl.to_networkx({g})"
        yield f"dgl.to_networkx({g}, ['x'], ['w'])"
        yield f"dgl.from_networkx(dgl.to_networkx({g}))"
        yield f"dgl.from_networkx(dgl.to_networkx({g}, ['x'], ['w']), ['x'], ['w'])"
        yield f"dgl.from_scipy({g}.adj_external(scipy_fmt='coo'))"
        yield f"dgl.from_scipy({g}.adj_external(scipy_fmt='csr'), eweight_name='k')"
        yield f"dgl.from_scipy({g}.adj_external(scipy_fmt='coo'), idtype=torch.int32)"
    yield "dgl.bipartite_from_scipy(pair.adj_external(scipy_fmt='coo'), 'a', 'b', 'c')"
    yield "dgl.bipartite_from_scipy(pair.adj_external(scipy_fmt='csr'), 'a', 'b', 'c', eweight_name='k')"
    yield "dgl.to_networkx(typed)"
    yield "dgl.to_networkx(typed, ['x'], ['w'])"


def programs():
    """Every program of this area."""
    for g in SOME:
        yield from _subgraphs(g)
        yield from _blocks(g)
    for g in ("typed32", "manytyped"):
        yield from _typed_subgraphs(g)
        yield from _typed_blocks(g)
    for g in ("typed", "typed2", "twin", "multi32", "pair", "manytyped"):
        yield from _converted(g)
    yield from _batched()
    yield from _made()
