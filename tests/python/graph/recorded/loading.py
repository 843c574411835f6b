"""Mini-batches of all neighbours: ids, blocks, edges that are left out, negative pairs."""

import itertools

SETUP = "loading.MultiLayerFullNeighborSampler"
BOTH = "{'buys': 'sold', 'sold': 'buys'}"
NEGATIVE = "lambda g, e: (g.find_edges(e)[0].repeat_interleave(2), torch.arange(2 * len(e)).to(g.idtype) % 3)"
TYPED_NEGATIVE = (
    "lambda g, e: {k: (g.find_edges(v, etype=k)[0], torch.zeros_like(v)) for k, v in e.items()}"
)


def _nodes(g):
    ids = f".to({g}.idtype)"
    for seeds, layers in itertools.product(
        (f"t([2, 0]){ids}", f"t([1]){ids}", f"t([1, 0, 2]){ids}"), (1, 2)
    ):
        yield f"batch_of({SETUP}({layers}).sample({g}, {seeds}))"
        yield f"batch_of(loading.NeighborSampler([-1] * {layers}).sample({g}, {seeds}))"
        yield f"batch_of({SETUP}({layers}).sample({g}, {seeds}, exclude_eids=t([0, 1]){ids}))"
        yield f"batch_of(loading.NeighborSampler([0] * {layers}).sample({g}, {seeds}))"
    seeds = f"torch.arange({g}.num_nodes()){ids}"
    for size, last, layers in itertools.product((1, 2, 4), (True, False), (1, 2)):
        yield f"batches_of(loading.DataLoader({g}, {seeds}, {SETUP}({layers}), batch_size={size}, drop_last={last}))"
    for size in (2, 3):
        yield f"batches_of(loading.DataLoader({g}, {seeds}, loading.NeighborSampler([-1, -1], prefetch_node_feats=['h'], prefetch_labels=['x'], prefetch_edge_feats=['w']), batch_size={size}))"
        yield f"[len(loading.DataLoader({g}, {seeds}, {SETUP}(1), batch_size={size}, drop_last=b)) for b in (True, False)]"
        for fanouts in ("[-1]", "[-1, -1]"):
            load = f"loading.DataLoader({g}, {seeds}, loading.ShaDowKHopSampler({fanouts}), batch_size={size})"
            yield f"[batch_of((a, b, [s])) for a, b, s in {load}]"
    yield f"loading.ShaDowKHopSampler([-1]).sample({g}, t([2, 0]){ids})[2].num_nodes()"


def _edges(g):
    ids = f".to({g}.idtype)"
    reverse = f"t(list(range({g}.num_edges()))[::-1]){ids}"
    excludes = ("", ", exclude='self'", f", exclude='reverse_id', reverse_eids={reverse}",
                ", exclude=lambda e: e[:1]", f", exclude=t([1, 2]){ids}", ", exclude=lambda e: None",
                ", exclude='none'", f", exclude=loading.SpotTarget({g}, 'self', 2)")  # fmt: skip
    for exclude, negative in itertools.product(excludes, ("", f", negative_sampler={NEGATIVE}")):
        wrap = f"loading.as_edge_prediction_sampler({SETUP}(1){exclude}{negative})"
        yield f"batch_of({wrap}.sample({g}, t([0, 3]){ids}))"
        yield f"batches_of(loading.DataLoader({g}, torch.arange({g}.num_edges()){ids}, {wrap}, batch_size=3))"
    two = f"loading.as_edge_prediction_sampler({SETUP}(2), exclude='self', prefetch_labels=['w'])"
    yield f"batches_of(loading.DataLoader({g}, torch.arange({g}.num_edges()){ids}, {two}, batch_size=4))"


def _typed(g):
    ids = f".to({g}.idtype)"
    for seeds, layers in itertools.product(
        (
            f"{{'user': t([1, 3]){ids}}}",
            f"{{'item': t([2, 0]){ids}, 'user': t([0]){ids}}}",
            f"{{'tag': t([0]){ids}}}",
        ),
        (1, 2),
    ):
        yield f"batch_of({SETUP}({layers}).sample({g}, {seeds}))"
        yield f"batch_of(loading.NeighborSampler([{{'follows': -1, 'sold': 0, 'buys': -1, 'likes': 0, 'has': 0}}] * {layers}).sample({g}, {seeds}))"
        yield f"batch_of({SETUP}({layers}).sample({g}, {seeds}, exclude_eids={{('user', 'buys', 'item'): t([0]){ids}}}))"
        yield f"a, b, s = loading.ShaDowKHopSampler([-1] * {layers}).sample({g}, {seeds}); batch_of((a, b, [s]))"
    every = f"{{n: {g}.nodes(n) for n in ('user', 'item')}}"
    for size, layers in itertools.product((1, 3, 9), (1, 2)):
        yield f"batches_of(loading.DataLoader({g}, {every}, {SETUP}({layers}), batch_size={size}))"
    buys = f"{{('user', 'buys', 'item'): t([0, 3]){ids}}}"
    two = f"{{'buys': t([1, 4]){ids}, 'follows': t([0]){ids}}}"
    excludes = ("", ", exclude='self'", f", exclude='reverse_types', reverse_etypes={BOTH}",
                f", exclude='reverse_types', reverse_etypes={{'follows': 'follows', **{BOTH}}}",
                ", exclude=lambda e: e", f", exclude={{('item', 'sold', 'user'): t([0]){ids}}}",
                f", exclude='reverse_id', reverse_eids={{('user', 'buys', 'item'): t([4, 3, 2, 1, 0]){ids}, ('user', 'follows', 'user'): t([3, 2, 1, 0]){ids}}}")  # fmt: skip
    for exclude, negative in itertools.product(
        excludes, ("", f", negative_sampler={TYPED_NEGATIVE}")
    ):
        wrap = f"loading.as_edge_prediction_sampler({SETUP}(1){exclude}{negative})"
        for seeds in (buys, two):
            yield f"batch_of({wrap}.sample({g}, {seeds}))"
            yield f"batches_of(loading.DataLoader({g}, {seeds}, {wrap}, batch_size=2))"


def _collators():
    for g in ("plain", "multi"):
        for size in (2, 4):
            yield f"c = loading.NodeCollator({g}, torch.arange(4), {SETUP}(1)); [batch_of(c.collate(list(range({size})))), len(c.dataset)]"
            yield f"c = loading.EdgeCollator({g}, torch.arange(6), {SETUP}(1), exclude='self'); batch_of(c.collate(list(range({size}))))"
            yield f"c = loading.EdgeCollator({g}, torch.arange(6), {SETUP}(1), negative_sampler={NEGATIVE}); batch_of(c.collate(list(range({size}))))"
    yield f"c = loading.NodeCollator(typed, {{'user': torch.arange(3), 'tag': torch.arange(1)}}, {SETUP}(1)); [batch_of(c.collate([('user', 1), ('tag', 0)])), len(c.dataset)]"
    yield "c = loading.GraphCollator(); c.collate([plain, multi])"
    yield "c = loading.GraphCollator(); c.collate([(plain, 0), (multi, 1)])"
    yield "c = loading.GraphCollator(); c.collate([(plain, t([0.5])), (multi, t([1.0]))])"
    for size, last in itertools.product((1, 2), (True, False)):
        yield f"[*loading.GraphDataLoader([(plain, 0), (multi, 1), (empty, 2)], batch_size={size}, drop_last={last})]"
    yield "list(loading.GraphDataLoader([typed, typed2], batch_size=2))"


def programs():
    """Every program of this area."""
    for g in ("plain", "multi", "loops"):
        yield from _nodes(g)
    for g in ("plain32", "multi"):
        yield from _edges(g)
    for g in ("typed", "typed32"):
        yield from _typed(g)
    yield from _collators()
