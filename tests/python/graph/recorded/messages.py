"""Built-in messages and reductions, functions of one's own, typed graphs, propagation, readouts."""

import itertools

REDUCERS = ("sum", "mean", "max", "min")
OPERATORS = ("add", "sub", "mul", "div", "dot")
GRAPHS = ("multi", "plain32", "pair", "block")
TYPED = ("typed32", "manytyped", "typedblock")
FEATURES = {"u": "h", "v": "h", "e": "e"}


def _after(g, call, what):
    return f"{g}.{call}; {g}.{what}"


def _builtins(g):
    for reduce in REDUCERS:
        for copy in ("copy_u('h', 'm')", "copy_e('w', 'm')", "copy_e('e', 'm')"):
            yield _after(g, f"update_all(fn.{copy}, fn.{reduce}('m', 'o'))", "dstdata['o']")
    for op, (a, b) in itertools.product(OPERATORS, itertools.permutations("uve", 2)):
        message = f"fn.{a}_{op}_{b}('{FEATURES[a]}', '{FEATURES[b]}', 'm')"
        yield _after(g, f"apply_edges({message})", "edata['m']")
        yield _after(g, f"update_all({message}, fn.sum('m', 'o'))", "dstdata['o']")
    for a, b in (("u", "e"), ("e", "v")):
        features = {**FEATURES, "e": "w"}
        message = f"fn.{a}_mul_{b}('{features[a]}', '{features[b]}', 'm')"
        yield _after(g, f"apply_edges({message})", "edata")
    message = "fn.copy_u('h', 'm')"
    yield _after(
        g,
        f"update_all({message}, fn.sum('m', 'o'), lambda n: {{'p': n.data['o'] + n.data['h']}})",
        "dstdata",
    )
    yield _after(g, f"update_all({message}, fn.sum('n', 'o'))", "dstdata")
    yield _after(g, "update_all(fn.copy_u('q', 'm'), fn.sum('m', 'o'))", "dstdata")
    yield _after(
        g, "apply_edges(lambda e: {'m': e.src['h'] * e.dst['h'] + e.data['e']})", "edata['m']"
    )
    yield _after(g, "apply_edges(lambda e: {'m': e.data['w'] * 2}, [2, 0])", "edata['m']")
    yield _after(g, "apply_edges(fn.u_sub_v('h', 'h', 'm'), [1])", "edata['m']")
    yield _after(g, "apply_edges(fn.copy_e('w', 'm'), ([0], [1]))", "edata['m']")
    own = "lambda n: {'o': n.mailbox['m'].sum(1)}"
    yield _after(g, f"update_all({message}, {own})", "dstdata['o']")
    yield _after(
        g,
        "update_all(lambda e: {'m': e.src['h'], 'k': e.data['w']}, lambda n: {'o': (n.mailbox['m'] * n.mailbox['k'].unsqueeze(2)).sum(1)})",
        "dstdata['o']",
    )
    yield _after(
        g,
        "update_all(lambda e: {'m': e.data['w']}, lambda n: {'o': n.mailbox['m'].max(1)[0]})",
        "dstdata['o']",
    )
    yield _after(g, "update_all(lambda e: {'m': e.src['h']}, fn.mean('m', 'o'))", "dstdata['o']")
    yield _after(
        g,
        f"update_all({message}, lambda n: {{'o': torch.full((len(n),), n.batch_size())}})",
        "dstdata['o']",
    )


def _parts(g):
    own = "lambda n: {'o': n.mailbox['m'].sum(1)}"
    for reduce in ("fn.sum('m', 'o')", "fn.mean('m', 'o')", "fn.max('m', 'o')", own):
        message = "fn.copy_u('h', 'm')"
        yield _after(g, f"pull([1, 0], {message}, {reduce})", "ndata['o']")
        yield _after(g, f"push([0, 2], {message}, {reduce})", "ndata['o']")
        yield _after(g, f"send_and_recv([2, 0], {message}, {reduce})", "ndata['o']")
        yield _after(g, f"send_and_recv(([0], [1]), {message}, {reduce})", "ndata['o']")
    then = "lambda n: {'p': n.data['o'] * 2}"
    yield _after(g, f"pull([1, 0], fn.u_mul_e('h', 'e', 'm'), fn.sum('m', 'o'), {then})", "ndata")
    yield _after(g, f"push([1], fn.copy_e('w', 'm'), fn.sum('m', 'o'), {then})", "ndata")
    yield _after(g, "pull([], fn.copy_u('h', 'm'), fn.sum('m', 'o'))", "ndata")
    yield _after(g, "pull([99], fn.copy_u('h', 'm'), fn.sum('m', 'o'))", "ndata")
    yield _after(g, "send_and_recv([], fn.copy_u('h', 'm'), fn.sum('m', 'o'))", "ndata")


def _propagated(g):
    functions = "fn.copy_u('h', 'm'), fn.sum('m', 'h')"
    yield _after(g, f"prop_nodes([[1], [2, 0]], {functions})", "ndata['h']")
    yield _after(g, f"prop_edges([[1, 0], [2]], {functions})", "ndata['h']")
    for reverse in ("", "reverse=True, "):
        yield f"dgl.prop_nodes_topo({g}, {reverse}message_func=fn.copy_u('h', 'm'), reduce_func=fn.sum('m', 'h')); {g}.ndata['h']"
        yield f"dgl.prop_nodes_bfs({g}, 0, {reverse}message_func=fn.copy_u('h', 'm'), reduce_func=fn.sum('m', 'h')); {g}.ndata['h']"
        yield f"dgl.prop_edges_dfs({g}, 0, {reverse}message_func=fn.copy_u('h', 'm'), reduce_func=fn.sum('m', 'h')); {g}.ndata['h']"


def _typed(g):
    for etype, reduce in itertools.product(("follows", "buys", "has"), REDUCERS):
        e = f"etype='{etype}'"
        end = {"follows": "user", "buys": "item", "has": "tag"}[etype]
        copied = f"update_all(fn.copy_u('h', 'm'), fn.{reduce}('m', 'o'), {e})"
        yield _after(g, copied, f"dstnodes['{end}'].data")
        weighed = f"update_all(fn.u_mul_e('h', 'e', 'm'), fn.{reduce}('m', 'o'), {e})"
        yield _after(g, weighed, f"dstnodes['{end}'].data")
    for etype, op in itertools.product(("follows", "buys", "has"), OPERATORS):
        call = f"apply_edges(fn.u_{op}_v('h', 'h', 'm'), etype='{etype}')"
        yield _after(g, call, f"edges['{etype}'].data['m']")
    for cross, reduce in (
        *itertools.product((*REDUCERS, "stack"), ("sum", "mean")),
        ("max", "max"),
        ("min", "min"),
    ):
        pairs = ", ".join(
            f"'{e}': (fn.copy_u('h', 'm'), fn.{reduce}('m', 'o'))"
            for e in ("follows", "sold", "buys", "likes")
        )
        yield _after(g, f"multi_update_all({{{pairs}}}, '{cross}')", "dstdata['o']")
    then = "lambda n: {'p': n.data['o'] * 2}"
    some = "{'follows': (fn.copy_u('h', 'm'), fn.sum('m', 'o')), ('user', 'likes', 'item'): (fn.copy_e('w', 'm'), fn.max('m', 'o'))}"
    yield _after(g, f"multi_update_all({some}, 'sum', {then})", "dstdata")
    mixed = "{'follows': (lambda e: {'m': e.src['h']}, lambda n: {'o': n.mailbox['m'].sum(1)}), 'sold': (fn.copy_u('h', 'm'), fn.mean('m', 'o'))}"
    yield _after(g, f"multi_update_all({mixed}, 'max')", "dstdata['o']")
    yield _after(
        g, f"multi_update_all({mixed}, lambda flist: torch.stack(flist).sum(0))", "dstdata['o']"
    )
    named = "{'none': (fn.copy_u('h', 'm'), fn.sum('m', 'o'))}"
    yield _after(g, f"multi_update_all({named}, 'sum')", "dstdata")
    yield _after(g, "update_all(fn.copy_u('h', 'm'), fn.sum('m', 'o'), etype='none')", "dstdata")
    yield _after(
        g,
        "apply_edges(lambda e: {'y': e.src['h'] - e.dst['h']}, etype='buys')",
        "edges['buys'].data['y']",
    )
    yield _after(
        g,
        "apply_edges(lambda e: {'y': e.data['w']}, [1, 0], etype='buys')",
        "edges['buys'].data['y']",
    )
    yield _after(
        g,
        "update_all(lambda e: {'m': e.src['h']}, lambda n: {'o': n.mailbox['m'].sum(1)}, etype='sold')",
        "dstnodes['user'].data['o']",
    )
    yield _after(
        g,
        "pull([1, 0], fn.copy_u('h', 'm'), fn.sum('m', 'o'), etype='buys')",
        "dstnodes['item'].data['o']",
    )
    yield _after(
        g,
        "push([0, 1], fn.copy_u('h', 'm'), fn.max('m', 'o'), etype='sold')",
        "dstnodes['user'].data['o']",
    )
    yield _after(
        g,
        "send_and_recv([0, 1], fn.copy_u('h', 'm'), fn.mean('m', 'o'), etype='likes')",
        "dstnodes['item'].data['o']",
    )


def _readouts(g):
    for op in ("sum", "mean", "max", "min"):
        yield f"dgl.readout_nodes({g}, 'h', op='{op}')"
        yield f"dgl.readout_edges({g}, 'e', op='{op}')"
        yield f"dgl.readout_nodes({g}, 'h', 'k', op='{op}') if {g}.ndata.update({{'k': numbers({g}.num_nodes(), 1)}}) is None else 0"
    for what in ("nodes", "edges"):
        feature = {"nodes": "h", "edges": "e"}[what]
        yield f"dgl.softmax_{what}({g}, '{feature}')"
        yield f"dgl.broadcast_{what}({g}, numbers({g}.batch_size, 3))"
        yield f"dgl.sum_{what}({g}, '{feature}')"
        yield f"dgl.sum_{what}({g}, 'q')"
        for k, options in itertools.product(
            (1, 2), ("", ", sortby=1", ", descending=False, sortby=0")
        ):
            yield f"dgl.topk_{what}({g}, '{feature}', {k}{options})"
    yield f"dgl.sum_edges({g}, 'e', 'w')"
    yield f"dgl.mean_edges({g}, 'w')"


def programs():
    """Every program of this area."""
    for g in GRAPHS:
        yield from _builtins(g)
    for g in ("multi", "plain32", "many"):
        yield from _parts(g)
    for g in ("plain", "dag", "many"):
        yield from _propagated(g)
    for g in TYPED:
        yield from _typed(g)
    for g in ("multi", "many32"):
        yield from _readouts(g)
    for reduce, copied in itertools.product(
        REDUCERS,
        (
            "copy_u('h', 'm')",
            "copy_e('w', 'm')",
            "u_mul_e('h', 'e', 'm')",
            "u_add_v('h', 'h', 'm')",
        ),
    ):
        yield _after("twin", f"update_all(fn.{copied}, fn.{reduce}('m', 'o'))", "dstdata['o']")
    for op in OPERATORS:
        yield _after(
            "twin", f"apply_edges(fn.u_{op}_v('h', 'h', 'm'), etype=('a', 'r', 'b'))", "edata['m']"
        )
    for op in ("sum", "mean", "max"):
        for n in ("user", "item", "tag"):
            yield f"dgl.{op}_nodes(manytyped, 'h', ntype='{n}')"
        for e in ("follows", "buys"):
            yield f"dgl.{op}_edges(manytyped, 'e', etype='{e}')"
    yield from ("dgl.softmax_nodes(manytyped, 'h', ntype='user')", "dgl.sum_nodes(manytyped, 'h')")
    yield from ("dgl.topk_nodes(manytyped, 'h', 2, sortby=0, ntype='user')",)
    yield from ("dgl.broadcast_nodes(manytyped, numbers(2, 2), ntype='item')",)
    yield from ("dgl.broadcast_edges(manytyped, numbers(2, 2), etype='buys')",)
    for op in ("copy_u", "copy_v"):
        yield f"dgl.{op}(plain, numbers(6, 2))"
    for op in OPERATORS:
        yield f"dgl.u_{op}_v(plain, numbers(6, 2), numbers(6, 2, start=50))"
        yield f"dgl.u_{op}_v(pair, numbers(4, 2), numbers(3, 2, start=50))"
    ends = {"u": "numbers(6, 2)", "v": "numbers(6, 2, start=40)", "e": "numbers(7, 2, start=80)"}
    for op, reduce in itertools.product(OPERATORS[:4], REDUCERS):
        yield f"dgl.ops.u_{op}_e_{reduce}(plain, {ends['u']}, {ends['e']})"
    for reduce in REDUCERS:
        yield f"dgl.ops.copy_u_{reduce}(plain, {ends['u']})"
        yield f"dgl.ops.copy_e_{reduce}(plain, {ends['e']})"
    for (a, b), op in itertools.product(itertools.permutations("uve", 2), OPERATORS):
        yield f"dgl.ops.{a}_{op}_{b}(plain, {ends[a]}, {ends[b]})"
    for g, edges in (("plain", 7), ("multi", 8), ("pair", 4)):
        for by in ("dst", "src"):
            yield f"dgl.ops.edge_softmax({g}, numbers({edges}, 2), norm_by='{by}')"
    yield from ("dgl.nn.functional.edge_softmax(plain, numbers(3, 1), eids=t([0, 2, 4]))",)
    for reduce in REDUCERS:
        yield f"dgl.ops.segment_reduce(t([2, 0, 3]), numbers(5, 2), '{reduce}')"
