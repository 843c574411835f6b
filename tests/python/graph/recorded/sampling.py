"""Samples that leave nothing to chance: all neighbours, none, the heaviest, the only walk."""

import itertools

ONE = ["multi", "plain32", "empty"]
TYPED = ["typed", "typed32"]
FANOUTS = ("-1", "0", "9")


def _one(g):
    ids = f"dtype={g}.idtype"
    for nodes in (f"t([2, 0], {ids})", "[1]", f"t([], {ids})"):
        for fanout, way in itertools.product(FANOUTS, ("in", "out")):
            yield f"by_ends(sampling.sample_neighbors({g}, {nodes}, {fanout}, edge_dir='{way}'))"
        for options in (", copy_ndata=False", f", exclude_edges=t([2, 0], {ids})[:{g}.num_edges()]",
                        f", exclude_edges=torch.arange({g}.num_edges(), {ids})"):  # fmt: skip
            yield f"by_ends(sampling.sample_neighbors({g}, {nodes}, -1{options}))"
        for k, up in itertools.product((1, 2, -1), (True, False)):
            yield f"by_ends(sampling.select_topk({g}, {k}, 'w', {nodes}, ascending={up}))"
        yield f"by_ends(sampling.select_topk({g}, 1, 'w', {nodes}, edge_dir='out'))"
    for k in (1, 2):
        yield f"by_ends(sampling.select_topk({g}, {k}, 'w'))"
    yield f"sampling.select_topk({g}, 1, 'q')"
    yield f"by_ends(sampling.sample_neighbors({g}, [1, 2], {{'_E': -1}}))"
    yield f"{g}.edata['p'] = ({g}.edata['w'] > 0).double(); by_ends(sampling.sample_neighbors({g}, [1, 2, 0], 9, prob='p'))"
    yield f"{g}.edata['p'] = {g}.edata['w'] > 0; by_ends(sampling.sample_neighbors({g}, [1, 2, 0], 9, prob='p'))"
    yield f"{g}.edata['p'] = {g}.edata['w'] > 0; by_ends(sampling.sample_neighbors({g}, [1, 2, 0], -1, prob='p'))"
    yield f"by_ends(sampling.sample_labors({g}, [1, 0], 99)[0])"


def _typed(g):
    ids = f".to({g}.idtype)"
    seeds = (f"{{'user': t([1, 3]){ids}}}", f"{{'user': t([0]){ids}, 'item': t([2, 1]){ids}}}",
             f"{{'tag': t([0]){ids}, 'item': t([1]){ids}}}", "t([0])")  # fmt: skip
    fanouts = ("-1", "{'buys': -1}", "{'follows': -1, 'sold': 0, 'buys': -1, 'likes': 0, 'has': 0}",
               "{('user', 'follows', 'user'): 9, 'sold': 9, 'buys': 0, 'likes': 9, 'has': 9}")  # fmt: skip
    for nodes, fanout, way in itertools.product(seeds, fanouts, ("in", "out")):
        yield f"by_ends(sampling.sample_neighbors({g}, {nodes}, {fanout}, edge_dir='{way}'))"
    for nodes in seeds:
        yield f"by_ends(sampling.sample_neighbors({g}, {nodes}, -1, exclude_edges={{('user', 'buys', 'item'): t([0, 3]){ids}, ('item', 'sold', 'user'): t([1]){ids}}}))"
        yield f"by_ends(sampling.sample_neighbors({g}, {nodes}, -1, copy_ndata=False))"
        yield f"by_ends(sampling.select_topk({g}, 1, 'w', {nodes}))"
        yield f"by_ends(sampling.select_topk({g}, {{'follows': 1, 'sold': 1, 'buys': 2, 'likes': 0, 'has': 1}}, 'w', {nodes}))"


def _walks():
    for length in (1, 2, 4):
        yield f"sampling.random_walk(dag, [2, 3, 4, 2], length={length})"
        yield f"sampling.random_walk(dag, t([3]), length={length}, return_eids=True)"
    yield "sampling.random_walk(dag.int(), t([3, 2]).int(), length=3, return_eids=True)"
    yield "sampling.random_walk(plain, [1, 3, 4, 5], length=1, return_eids=True)"
    yield "sampling.random_walk(empty, [0, 1], length=2, return_eids=True)"
    yield "sampling.random_walk(plain, [99], length=2)"
    yield "sampling.random_walk(plain, [], length=2)"
    for path in (
        "['likes']",
        "['likes', 'sold']",
        "['has']",
        "['sold', 'has']",
        "['buys', 'buys']",
    ):
        yield f"sampling.random_walk(typed, [2, 2], metapath={path}, return_eids=True)"
    yield "sampling.random_walk(typed, [2, 2], metapath=['none'])"
    yield "sampling.random_walk(typed, [2], length=2)"
    yield "dag.edata['p'] = t([1.0, 0, 0, 1, 1, 1]); sampling.random_walk(dag, [0, 0, 2], length=1, prob='p')"
    yield "sampling.pack_traces(*sampling.random_walk(typed, [2, 2], metapath=['likes']))"
    yield "sampling.pack_traces(t([[0, 1, -1], [2, -1, -1]]), t([0, 0, 0]))"
    yield "sampling.pack_traces(t([[0, 1, 1], [2, -1, -1]]), t([0, 1, 0]))"
    yield "sampling.pack_traces(*sampling.random_walk(dag.int(), [2, 3, 4], length=3))"
    for p, q in ((1, 1), (2, 0.5)):
        yield f"sampling.node2vec_random_walk(dag, [2, 3, 4], {p}, {q}, 3)"
        yield f"sampling.node2vec_random_walk(dag, [2, 3, 4], {p}, {q}, 3, return_eids=True)"


def _exclusion():
    """Edges that a batch leaves out."""
    find, both = "loading.find_exclude_eids", "{'buys': 'sold', 'sold': 'buys'}"
    for g in ("plain", "plain32", "multi"):
        reverse = f"t(list(range({g}.num_edges()))[::-1]).to({g}.idtype)"
        for seeds in (
            f"t([0, 2]).to({g}.idtype)",
            f"t([]).to({g}.idtype)",
            f"t([6]).to({g}.idtype)",
        ):
            yield f"{find}({g}, {seeds}, None)"
            yield f"{find}({g}, {seeds}, 'self')"
            yield f"{find}({g}, {seeds}, 'reverse_id', {reverse})"
            yield f"{find}({g}, {seeds}, lambda e: e[:1])"
            yield f"{find}({g}, {seeds}, 'none')"
            yield f"{find}({g}, {seeds}, t([1, 3]))"
            for degree in (1, 2, 9):
                yield f"loading.SpotTarget({g}, 'self', {degree})({seeds})"
                yield f"loading.SpotTarget({g}, 'reverse_id', {degree}, {reverse})({seeds})"
    for seeds in ("{('user', 'buys', 'item'): t([0, 3])}", "{('item', 'sold', 'user'): t([1])}",
                  "{('user', 'follows', 'user'): t([1])}",
                  "{('user', 'buys', 'item'): t([0, 3]), ('user', 'follows', 'user'): t([2])}"):  # fmt: skip
        sort = "{{k: v.sort()[0] for k, v in {}.items()}}"
        yield f"{find}(typed, {seeds}, 'self')"
        yield sort.format(f"{find}(typed, {seeds}, 'reverse_types', reverse_etypes={both})")
        yield sort.format(
            f"{find}(typed, {seeds}, 'reverse_id', {{('user', 'buys', 'item'): t([4, 3, 2, 1, 0]), ('user', 'follows', 'user'): t([3, 2, 1, 0]), ('item', 'sold', 'user'): t([4, 3, 2, 1, 0])}})"
        )
        yield f"{find}(typed, {seeds}, lambda e: e)"


def programs():
    """Every program of this area."""
    for g in ONE:
        yield from _one(g)
    for g in TYPED:
        yield from _typed(g)
    yield from _walks()
    yield from _exclusion()
    yield "by_ends(sampling.sample_neighbors(twin, {'a': t([2])}, -1))"
    yield "by_ends(sampling.sample_neighbors(twin, {'b': t([0, 1])}, {('a', 'r', 'b'): -1}))"
    for nodes in ("[0]", "[1, 0]"):
        yield f"by_ends(sampling.sample_neighbors(pair, {{'v': {nodes}}}, -1))"
        yield f"by_ends(sampling.sample_neighbors(pair, {{'u': {nodes}}}, -1, edge_dir='out'))"
        yield f"by_ends(sampling.sample_neighbors(pair32, {{'v': {nodes}}}, -1))"
    tags = "t([0, 1, 0, 1, 0, 1])"
    for p, (way, form) in itertools.product(
        ("t([1.0, 0])", "t([0.0, 1])"), (("in", "csc"), ("out", "csr"))
    ):
        draw = f"sampling.sample_neighbors_biased(g, [2, 0, 1], 9, bias={p}, edge_dir='{way}')"
        yield f"g = dgl.sort_{form}_by_tag(plain, {tags}); {draw}.edata['_ID'].sort()[0]"
