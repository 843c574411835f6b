"""The structure of one edge type, against SciPy, networkx and plain Python."""

import copy
import pickle
import threading

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import smex
from smex.graph.structure.relation import Relation, unique_and_relabel

DTYPES = [torch.int32, torch.int64]
fuzz = settings(
    deadline=None,
    derandomize=True,
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow],  # a loaded machine is no defect
)


def edges_of(num_src, num_dst, num_edges, hub=0.0, seed=0, dtype=torch.int64):
    draw = torch.Generator().manual_seed(seed)
    src = torch.randint(num_src, (num_edges,), generator=draw)
    dst = torch.randint(num_dst, (num_edges,), generator=draw)
    dst[torch.rand(num_edges, generator=draw) < hub] = num_dst // 2
    return src.to(dtype), dst.to(dtype)


def relation_of(*args, **kwargs):
    src, dst = edges_of(*args, **kwargs)
    return Relation.from_coo(src, dst, args[0], args[1])


@st.composite
def relations(draw, square=False):
    """Small graphs: isolated nodes, self loops, parallel edges, hubs, no edges, no nodes."""
    num_src = draw(st.integers(0, 8))
    num_dst = num_src if square else draw(st.integers(0, 8))
    most = 30 if num_src and num_dst else 0
    dtype = draw(st.sampled_from(DTYPES))
    hub = draw(st.booleans())
    pairs = draw(
        st.lists(
            st.tuples(st.integers(0, max(num_src - 1, 0)), st.integers(0, max(num_dst - 1, 0))),
            max_size=most,
        )
    )
    if hub:
        pairs = [(u, 0 if i % 2 else v) for i, (u, v) in enumerate(pairs)]
    src, dst = (torch.tensor([p[k] for p in pairs], dtype=dtype) for k in (0, 1))
    relation = Relation.from_coo(src, dst, num_src, num_dst)
    form = draw(st.sampled_from(["coo", "csr", "csc", "reverse"]))
    if form == "csr":
        return Relation.from_csr(*relation.csr(), num_src, num_dst)
    if form == "csc":
        return Relation.from_csc(*relation.csc(), num_src, num_dst)
    if form == "reverse":
        return Relation.from_coo(dst, src, num_dst, num_src).reverse()
    return relation


def listed(relation):
    return list(zip(*(t.tolist() for t in relation.coo())))


def check_compressed(form, rows, columns, num_rows):
    """Against the definition: a stable sort of the edges by row."""
    order = np.argsort(rows.numpy(), kind="stable")
    assert form.indptr.tolist() == [0, *np.cumsum(np.bincount(rows, minlength=num_rows)).tolist()]
    assert form.edge_ids().tolist() == order.tolist()
    assert form.indices.tolist() == columns.numpy()[order].tolist()
    assert {t.dtype for t in form.tensors()} == {rows.dtype}


# ---- formats ----


@fuzz
@given(relations())
def test_formats_are_stable_sorts(relation):
    src, dst = relation.coo()
    check_compressed(relation.csr(), src, dst, relation.num_src)
    check_compressed(relation.csc(), dst, src, relation.num_dst)
    assert relation.num_edges == src.shape[0]
    assert relation.created_formats() == ["coo", "csr", "csc"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("sizes", "hub"),
    [((1, 1, 20000), 0), ((1000, 300, 20001), 0.5), ((70000, 5, 40000), 0), ((513, 511, 99999), 1)],
)
def test_formats_of_large_graphs(sizes, hub, dtype):
    relation = relation_of(*sizes, hub=hub, dtype=dtype)
    src, dst = relation.coo()
    check_compressed(relation.csr(), src, dst, sizes[0])
    check_compressed(relation.csc(), dst, src, sizes[1])
    for again in (
        Relation.from_csr(*relation.csr(), *sizes[:2]),
        Relation.from_csc(*relation.csc(), *sizes[:2]),
    ):
        assert all(torch.equal(a, b) for a, b in zip(again.coo(), (src, dst)))


@fuzz
@given(relations())
def test_scipy_agrees(relation):
    src, dst = (t.numpy() for t in relation.coo())
    shape = (relation.num_src, relation.num_dst)
    matrix = sp.coo_matrix((np.ones(len(src)), (src, dst)), shape)
    assert relation.out_degrees().tolist() == matrix.sum(1).reshape(-1).tolist()[0]
    assert relation.in_degrees().tolist() == matrix.sum(0).reshape(-1).tolist()[0]
    simple, counts, edge_map = relation.to_simple()
    summed = matrix.tocsr()
    summed.sum_duplicates()
    assert counts.tolist() == summed.data.tolist()
    assert [t.tolist() for t in simple.coo()] == [t.tolist() for t in summed.nonzero()]
    for end, simple_end in zip(relation.coo(), simple.coo()):
        assert torch.equal(simple_end[edge_map.long()], end)
    assert relation.is_multigraph() == (len(src) > summed.nnz)


def test_identity_edge_ids_are_left_out():
    r = Relation.from_csc(torch.tensor([0, 1, 3]), torch.tensor([2, 0, 2]), None, 3, 2)
    assert len(r.in_edges()) == 2 and len(r.out_edges()) == 3
    assert listed(r) == [(2, 0), (0, 1), (2, 1)]
    assert r.csr().edge_ids().tolist() == [1, 0, 2]
    assert r.in_edges_of(torch.tensor([1]))[2].tolist() == [1, 2]
    assert r.edge_ids(torch.tensor([2]), torch.tensor([1])).tolist() == [2]


def test_a_reverse_shares_the_formats_made_later():
    relation = relation_of(5, 4, 20)
    reverse = relation.reverse()
    assert (reverse.num_src, reverse.num_dst) == (4, 5)
    made = reverse.csc()
    assert relation.csr() is made and reverse.reverse().csr() is made
    assert reverse.coo()[0] is relation.coo()[1]
    assert [*relation.created_formats()] == ["coo", "csr"]
    assert [*reverse.created_formats()] == ["coo", "csc"]
    assert relation.formats("csc").reverse().created_formats() == ["csr"]


def test_restricted_formats():
    relation = relation_of(5, 4, 20)
    only = relation.formats("csc")
    assert only.created_formats() == ["csc"] == only.allowed_formats()
    both = relation.formats(["csr", "csc"])
    assert both.created_formats() == ["csr"]
    both.create_formats_()
    assert both.created_formats() == ["csr", "csc"]
    assert "csc" in both.formats(["coo", "csc"]).created_formats()
    assert relation.created_formats() == ["coo"]
    assert only.out_degrees().tolist() == relation.out_degrees().tolist()
    assert only.created_formats() == ["csc"]


@fuzz
@given(relations())
def test_pickles_copies_and_id_types(relation):
    relation.create_formats_()
    for other in (pickle.loads(pickle.dumps(relation)), copy.deepcopy(relation)):
        assert other.created_formats() == relation.created_formats()
        assert listed(other) == listed(relation)
        assert (other.num_src, other.num_dst) == (relation.num_src, relation.num_dst)
    for dtype in DTYPES:
        other = relation.astype(dtype)
        assert other.idtype == dtype and listed(other) == listed(relation)
    assert relation.astype(relation.idtype) is relation
    assert relation.to("cpu") is relation
    assert "num_edges" in repr(relation)


@fuzz
@given(relations())
def test_several_formats_at_once(relation):
    relation.create_formats_()
    forms = {name: getattr(relation, name)() for name in relation.created_formats()}
    sizes = (relation.num_src, relation.num_dst)
    for chosen in (["coo"], ["csc"], ["csr", "csc"], ["csc", "coo", "csr"]):
        other = Relation.from_formats({name: forms[name] for name in chosen}, *sizes)
        assert sorted(other.created_formats()) == sorted(chosen)
        assert (other.num_src, other.num_dst) == sizes and listed(other) == listed(relation)


def test_formats_of_different_edges():
    coo, csr = relation_of(5, 4, 20).coo(), relation_of(5, 4, 19).csr()
    with pytest.raises(smex.SmexValueError, match="'coo': '20 of torch.int64', 'csr': '19 of"):
        Relation.from_formats({"coo": coo, "csr": csr}, 5, 4)
    narrow = tuple(ids.int() for ids in coo)
    with pytest.raises(smex.SmexValueError, match="'coo': '20 of torch.int32'"):
        Relation.from_formats({"coo": narrow, "csr": relation_of(5, 4, 20).csr()}, 5, 4)
    with pytest.raises(smex.SmexValueError, match="from_csr: indptr must be"):
        Relation.from_formats({"csr": csr}, 6, 4)


def test_to_the_meta_device_keeps_shapes():
    relation = relation_of(5, 4, 20)
    moved = relation.to("meta")
    assert moved.device.type == "meta" and moved.csc().indptr.shape == (5,)
    assert not moved.is_pinned()


@pytest.mark.skipif(torch.cuda.is_available(), reason="pins where there is a CUDA device")
def test_pinning_without_a_gpu():
    relation = relation_of(5, 4, 20)
    assert not relation.is_pinned() and relation.unpin_memory_() is relation
    with pytest.raises(smex.SmexRuntimeError, match="pinned memory needs a CUDA device"):
        relation.pin_memory_()


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", DTYPES)
def test_cuda_agrees_with_the_cpu(dtype):
    relation = relation_of(1000, 300, 50000, hub=0.2, dtype=dtype)
    moved = Relation.from_coo(*(t.cuda() for t in relation.coo()), 1000, 300)
    for mine, theirs in (
        (relation.csc(), moved.csc()),
        (relation.csr(), moved.csr()),
        (relation.sorted_csr(), moved.sorted_csr()),
        (relation.to_simple()[1:], moved.to_simple()[1:]),
    ):
        assert all(torch.equal(a, b.cpu()) for a, b in zip(mine, theirs))
    back = Relation.from_csc(*moved.csc(), 1000, 300)
    assert listed(back.to("cpu")) == listed(relation)
    u, v = edges_of(1000, 300, 500, seed=1, dtype=dtype)
    assert torch.equal(moved.edge_ids(u.cuda(), v.cuda()).cpu(), relation.edge_ids(u, v))
    assert torch.equal(moved.in_degrees().cpu(), relation.in_degrees())
    assert relation.pin_memory_().is_pinned() and not relation.unpin_memory_().is_pinned()


# ---- queries ----


@fuzz
@given(relations(), st.data())
def test_degrees_of_chosen_nodes(relation, data):
    for size, degrees in (
        (relation.num_src, relation.out_degrees),
        (relation.num_dst, relation.in_degrees),
    ):
        nodes = data.draw(st.lists(st.integers(0, size - 1), max_size=4)) if size else []
        every = degrees()
        assert every.dtype == relation.idtype and every.sum() == relation.num_edges
        chosen = degrees(torch.tensor(nodes, dtype=torch.int64))
        assert chosen.tolist() == [every[n].item() for n in nodes]


@fuzz
@given(relations(), st.booleans())
def test_edges_between_nodes(relation, sort_first):
    if sort_first:
        relation._structure.get_sorted()
    edges = listed(relation)
    u = torch.arange(relation.num_src).repeat_interleave(relation.num_dst)
    v = torch.arange(relation.num_dst).repeat(relation.num_src)
    ids = [[i for i, e in enumerate(edges) if e == pair] for pair in zip(u.tolist(), v.tolist())]
    assert relation.has_edges(u, v).tolist() == [bool(found) for found in ids]
    assert relation.edge_ids(u, v).tolist() == [found[0] if found else -1 for found in ids]
    us, vs, eids = relation.edge_ids_all(u, v)
    assert eids.tolist() == [i for found in ids for i in found]
    assert list(zip(us.tolist(), vs.tolist())) == [edges[i] for found in ids for i in found]
    src, dst = relation.find_edges(eids)
    assert torch.equal(src, us) and torch.equal(dst, vs)


def test_queries_broadcast():
    r = Relation.from_coo(torch.tensor([0, 0]), torch.tensor([1, 2]), 3, 3)
    assert r.has_edges(torch.tensor([0]), torch.tensor([0, 1, 2])).tolist() == [False, True, True]
    assert r.edge_ids(torch.tensor([0, 1]), torch.tensor([2])).tolist() == [1, -1]


def test_many_queries_of_a_hub_sort_the_edges_once():
    relation = relation_of(1000, 50, 20000, hub=0.9)
    one = torch.tensor([25])
    assert relation._structure.sorted is None
    for u in range(600):
        relation.reverse().has_edges(one, torch.tensor([u]))
    assert relation.created_formats() == ["coo", "csr"]  # the few edges of each source are read
    hub = relation_of(50, 1000, 20000).reverse()
    for _ in range(100):
        hub.has_edges(torch.arange(1000), torch.zeros(1000, dtype=torch.int64))
    assert hub._structure.sorted is not None


@fuzz
@given(relations(), st.data())
def test_edges_of_nodes(relation, data):
    edges = [(u, v, i) for i, (u, v) in enumerate(listed(relation))]
    for end, size, query in (
        (0, relation.num_src, relation.out_edges_of),
        (1, relation.num_dst, relation.in_edges_of),
    ):
        nodes = data.draw(st.lists(st.integers(0, size - 1), max_size=4)) if size else []
        found = query(torch.tensor(nodes, dtype=relation.idtype))
        expected = [e for n in nodes for e in edges if e[end] == n]
        assert list(zip(*(t.tolist() for t in found))) == expected
    if relation.num_edges:
        u, v, _ = edges[0]
        assert relation.successors(u).tolist() == [e[1] for e in edges if e[0] == u]
        assert relation.predecessors(torch.tensor(v)).tolist() == [e[0] for e in edges if e[1] == v]


# ---- subgraphs ----


@fuzz
@given(relations(), st.data())
def test_node_subgraphs(relation, data):
    def choose(size):
        return data.draw(
            st.permutations(range(size)).flatmap(lambda p: st.just(p[: size // 2 + 1]))
        )

    src, dst = choose(relation.num_src), choose(relation.num_dst)
    sub, eids = relation.node_subgraph(torch.tensor(src).long(), torch.tensor(dst).long())
    edges = listed(relation)
    expected = [
        (src.index(u), dst.index(v), i)
        for u in src
        for i, (w, v) in enumerate(edges)
        if w == u and v in dst
    ]
    assert [(u, v, i) for (u, v), i in zip(listed(sub), eids.tolist())] == expected
    assert (sub.num_src, sub.num_dst) == (len(src), len(dst))


@fuzz
@given(relations(), st.data())
def test_edge_in_and_out_subgraphs(relation, data):
    edges = listed(relation)
    some = data.draw(st.lists(st.integers(0, len(edges) - 1), max_size=6)) if edges else []
    assert listed(relation.edge_subgraph(torch.tensor(some).long())) == [edges[i] for i in some]
    if relation.num_src and relation.num_dst:
        sub, eids = relation.in_subgraph(torch.tensor([0]))
        assert eids.tolist() == [i for i, (_, v) in enumerate(edges) if v == 0]
        assert listed(sub) == [e for e in edges if e[1] == 0]
        sub, eids = relation.out_subgraph(torch.tensor([0]))
        assert eids.tolist() == [i for i, (u, _) in enumerate(edges) if u == 0]
        assert (sub.num_src, sub.num_dst) == (relation.num_src, relation.num_dst)


@fuzz
@given(
    st.lists(st.lists(st.integers(0, 12), max_size=15), min_size=1, max_size=3),
    st.sampled_from(DTYPES),
    st.sampled_from([None, 13, 2**30]),
)
def test_relabelling(lists, dtype, num_ids):
    tensors = [torch.tensor(ids, dtype=dtype) for ids in lists]
    unique, new = unique_and_relabel(tensors, num_ids=num_ids)
    assert unique.tolist() == list(dict.fromkeys(i for ids in lists for i in ids))
    assert [unique[n.long()].tolist() for n in new] == lists
    first = torch.tensor([5, 5, 1], dtype=dtype)
    unique, new = unique_and_relabel(tensors, first, num_ids)
    assert unique.tolist() == list(dict.fromkeys([5, 1, *(i for ids in lists for i in ids)]))
    assert [unique[n.long()].tolist() for n in new] == lists


@pytest.mark.skipif(
    not torch._C._dispatch_has_kernel_for_dispatch_key("smex::take_rows", "CUDA"),
    reason="built without CUDA kernels",
)
@fuzz
@given(relations(), st.data())
def test_algorithms_by_torch_agree_with_the_operators(relation, data):
    form = relation.csr()
    rows = data.draw(st.lists(st.integers(0, relation.num_src - 1))) if relation.num_src else []
    rows = torch.tensor(rows, dtype=relation.idtype)
    names = torch.arange(relation.num_dst).flip(0) - 2
    names = names.clamp_min(-1).to(relation.idtype)
    ops = torch.ops.smex
    pairs = [
        (ops.take_rows(*form, rows), by_torch("take_rows", *form, rows)),
        (ops.induced_edges(*form, rows, names), by_torch("induced_edges", *form, rows, names)),
    ]
    by_column = relation.sorted_csr()
    pairs.append((ops.merge_parallel(*by_column), by_torch("merge_parallel", *by_column)))
    lists = [form.indices, rows]
    ours, theirs = ops.relabel_ids(lists), by_torch("relabel_ids", lists)
    pairs.append(((ours[0], *ours[1]), (theirs[0], *theirs[1])))
    for mine, other in pairs:
        assert all(torch.equal(a, b) and a.dtype == b.dtype for a, b in zip(mine, other))


def by_torch(name, *args):
    """What CUDA runs, torch's own operators, on tensors of the CPU."""
    op = getattr(torch.ops.smex, name).default
    return op._op_dk(torch._C.DispatchKey.CUDA, *args)


# ---- traversals ----


def steps(ids, sizes):
    return [part.tolist() for part in ids.split(sizes.tolist())]


@fuzz
@given(relations(square=True), st.data())
def test_breadth_first_levels_are_distances(relation, data):
    if relation.num_src == 0:
        return
    sources = data.draw(st.lists(st.integers(0, relation.num_src - 1), unique=True, min_size=1))
    graph = nx.MultiDiGraph(listed(relation))
    graph.add_nodes_from(range(relation.num_src))
    lengths = nx.multi_source_dijkstra_path_length(graph, set(sources), weight=lambda *_: 1)
    start = torch.tensor(sources, dtype=relation.idtype)
    form = relation.csr()
    levels = steps(*torch.ops.smex.bfs_nodes_levels(form.indptr, form.indices, start))
    assert levels[0] == sources
    assert {n: k for k, level in enumerate(levels) for n in level} == lengths
    edges = listed(relation)
    tree = steps(*torch.ops.smex.bfs_edges_levels(*form, start))
    assert [[edges[i][1] for i in level] for level in tree] == levels[1:]
    assert all(lengths[edges[i][0]] == k for k, level in enumerate(tree) for i in level)
    near = torch.ops.smex.bfs_nodes_levels(form.indptr, form.indices, start, 1)
    assert steps(*near) == levels[:2]


@fuzz
@given(relations(square=True))
def test_topological_levels(relation):
    graph = nx.MultiDiGraph(listed(relation))
    graph.add_nodes_from(range(relation.num_src))
    form = relation.csr()
    levels = steps(*torch.ops.smex.topological_levels(form.indptr, form.indices))
    if nx.is_directed_acyclic_graph(graph):
        assert [sorted(level) for level in levels] == [
            sorted(level) for level in nx.topological_generations(graph)
        ]
    else:
        assert sum(map(len, levels)) < relation.num_src


@fuzz
@given(relations(square=True))
def test_depth_first_edges_follow_paths(relation):
    if relation.num_src == 0:
        return
    edges, form = listed(relation), relation.csr()
    start = torch.zeros(1, dtype=relation.idtype)
    eids, labels, _ = torch.ops.smex.dfs_labeled_edges(*form, start, True, True)
    path, seen = [0], {0}
    for i, label in zip(eids.tolist(), labels.tolist()):
        u, v = edges[i]
        if label == 1:
            assert (path[-2], path.pop()) == (u, v)
            continue
        assert path[-1] == u and (v in seen) == (label == 2)
        if label == 0:
            path.append(v)
            seen.add(v)
    assert path == [0]
    graph = nx.MultiDiGraph(edges)
    graph.add_node(0)
    assert seen == {0, *nx.descendants(graph, 0)}
    assert sorted(set(eids.tolist())) == [i for i, (u, _) in enumerate(edges) if u in seen]


# ---- torch.compile, threads, operators ----


def test_formats_are_made_inside_a_compiled_function():
    relation = relation_of(6, 5, 20)
    indptr = relation_of(6, 5, 20).csc().indptr

    @torch.compile(fullgraph=True, backend="aot_eager")
    def degrees(x):
        return relation.in_edges()[0].diff() * x + relation.in_degrees() + relation.num_edges

    assert torch.equal(degrees(torch.ones(5)), indptr.diff() * 2 + 20.0)
    assert "csc" in relation.created_formats() and torch.equal(relation.csc().indptr, indptr)


def test_a_relation_made_inside_a_compiled_function():
    @torch.compile(fullgraph=True, backend="aot_eager")
    def total(src, dst):
        relation = Relation.from_coo(src, dst, 6, 5, check=False)
        return relation.reverse().csr().indices.sum() + relation.csr().indptr.sum()

    src, dst = edges_of(6, 5, 20)
    relation = Relation.from_coo(src, dst, 6, 5)
    assert total(src, dst) == src.sum() + relation.csr().indptr.sum()


def test_threads_share_a_relation():
    for seed in range(10):
        relation = relation_of(300, 200, 9000, hub=0.3, seed=seed)
        expected = relation_of(300, 200, 9000, hub=0.3, seed=seed)
        expected.create_formats_()
        start, wrong = threading.Barrier(4), []

        def use(relation=relation, expected=expected, start=start, wrong=wrong):
            start.wait()
            for mine, theirs in (
                (relation.csc(), expected.csc()),
                (relation.csr(), expected.csr()),
                (relation.sorted_csr(), expected.sorted_csr()),
            ):
                if not all(torch.equal(a, b) for a, b in zip(mine, theirs)):
                    wrong.append(relation)

        threads = [threading.Thread(target=use) for _ in range(4)]
        [t.start() for t in threads]
        [t.join() for t in threads]
        assert not wrong


@pytest.mark.parametrize("dtype", DTYPES)
def test_opcheck(dtype):
    src, dst = edges_of(7, 5, 30, dtype=dtype)
    relation = Relation.from_coo(src, dst, 7, 5)
    form, ops = relation.csc(), torch.ops.smex
    ordered = relation.sorted_csr()
    for op, args in (
        (ops.compress_edges, (dst, src, None, 5, 7)),
        (ops.compress_edges, (dst, src, form.eids, 5, 7)),
        (ops.expand_edges, tuple(form)),
        (ops.expand_rows, (form.indptr, 30)),
        (ops.count_ids, (dst, 5)),
        (ops.find_scan, (*form, dst, src)),
        (ops.find_sorted, (ordered.indptr, ordered.indices, src, dst)),
    ):
        torch.library.opcheck(op, args)


# ---- errors ----

ONE, TWO = torch.tensor([0]), torch.tensor([0, 1])


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (
            lambda: Relation.from_coo(ONE.float(), ONE, 1, 1),
            smex.SmexTypeError,
            "src must be torch.int32 or torch.int64, found torch.float32",
        ),
        (
            lambda: Relation.from_coo(ONE.int(), ONE, 1, 1),
            smex.SmexTypeError,
            "ids must have one dtype, found torch.int32 and torch.int64",
        ),
        (
            lambda: Relation.from_coo(ONE, TWO, 2, 2),
            smex.SmexValueError,
            r"vectors of one length, found shapes \[1\] and \[2\]",
        ),
        (
            lambda: Relation.from_coo(ONE.to("meta"), ONE, 2, 2),
            smex.SmexValueError,
            "ids must be on one device, found meta and cpu",
        ),
        (
            lambda: Relation.from_coo(TWO, TWO, 1, 2),
            smex.SmexValueError,
            r"from_coo: src has id 1, expected ids in \[0, 1\)",
        ),
        (
            lambda: Relation.from_coo(TWO, TWO - 1, 2, 2),
            smex.SmexValueError,
            r"dst has id -1, expected ids in \[0, 2\)",
        ),
        (
            lambda: Relation.from_csr(TWO, ONE, None, 3, 1),
            smex.SmexValueError,
            r"indptr must be torch.int64 of shape \[4\], found torch.int64 of shape \[2\]",
        ),
        (
            lambda: Relation.from_csc(TWO, TWO, None, 2, 1),
            smex.SmexValueError,
            "indptr must ascend from 0 to the number of edges, 2, found values from 0 to 1",
        ),
        (
            lambda: Relation.from_csc(TWO * 2, TWO, ONE.repeat(2), 2, 1),
            smex.SmexValueError,
            "eids must name every edge from 0 to 1 once",
        ),
        (
            lambda: Relation.from_csc(TWO * 2, TWO, TWO + 1, 2, 1),
            smex.SmexValueError,
            r"eids has id 2, expected ids in \[0, 2\)",
        ),
        (
            lambda: relation_of(3, 3, 4).formats("csx"),
            smex.SmexValueError,
            "formats: expected names among 'coo', 'csr', 'csc', found",
        ),
        (
            lambda: relation_of(3, 3, 4).formats([]),
            smex.SmexValueError,
            "formats: expected names among",
        ),
        (
            lambda: relation_of(3, 3, 4).astype(torch.int16),
            smex.SmexTypeError,
            "astype: expected torch.int32 or torch.int64, found torch.int16",
        ),
        (
            lambda: Relation.from_coo(ONE, ONE, 2**31, 1).astype(torch.int32),
            smex.SmexValueError,
            "2147483648 nodes or edges do not fit into int32",
        ),
        (
            lambda: relation_of(3, 3, 4).to("meta").pin_memory_(),
            smex.SmexRuntimeError,
            "the graph must be on the CPU, found meta",
        ),
        (
            lambda: relation_of(3, 3, 4).in_degrees(TWO + 2),
            smex.SmexValueError,
            r"in_degrees: nodes has id 3, expected ids in \[0, 3\)",
        ),
        (
            lambda: relation_of(3, 3, 4).find_edges(TWO + 3),
            smex.SmexValueError,
            "find_edges: eids has id 4",
        ),
        (
            lambda: relation_of(3, 3, 4).find_edges(TWO.float()),
            smex.SmexTypeError,
            "find_edges: eids must be torch.int32 or torch.int64",
        ),
        (
            lambda: relation_of(3, 3, 4).has_edges(TWO - 1, TWO),
            smex.SmexValueError,
            "has_edges: u has id -1",
        ),
        (
            lambda: relation_of(3, 3, 4).edge_ids(TWO, torch.arange(3)),
            smex.SmexValueError,
            "edge_ids: u and v must have one length, or one of them length 1, found 2 and 3",
        ),
        (
            lambda: relation_of(3, 3, 4).in_edges_of(TWO + 2),
            smex.SmexValueError,
            "in_edges: v has id 3",
        ),
        (
            lambda: unique_and_relabel([]),
            smex.SmexValueError,
            "unique_and_relabel: expected at least one list of ids, found none",
        ),
        (
            lambda: relation_of(3, 3, 4).node_subgraph(TWO, TWO + 2),
            smex.SmexValueError,
            "node_subgraph: dst_nodes has id 3",
        ),
    ],
)
def test_errors(call, error, text):
    with pytest.raises(error, match=text):
        call()


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            lambda o: o.compress_edges(TWO, TWO, None, 1, 2),
            r"rows\[1\] is 1, expected an id in \[0, 1\)",
        ),
        (lambda o: o.compress_edges(TWO, TWO, None, 2, 1), r"columns\[1\] is 1"),
        (lambda o: o.compress_edges(TWO, TWO, TWO * 2, 2, 2), r"eids\[1\] is 2"),
        (
            lambda o: o.compress_edges(TWO, ONE, None, 2, 2),
            "rows and columns must have one length, found 2 and 1",
        ),
        (lambda o: o.compress_edges(TWO, TWO, ONE, 2, 2), "eids must have 2 elements, found 1"),
        (lambda o: o.compress_edges(TWO, TWO, None, -1, 2), "must not be negative"),
        (lambda o: o.compress_edges(TWO.view(1, 2), TWO, None, 2, 2), "rows must be a vector"),
        (lambda o: o.count_ids(TWO, 1), r"ids\[1\] is 1"),
        (lambda o: o.expand_rows(TWO, 3), "indptr must ascend from 0 to the number of edges, 3"),
        (lambda o: o.expand_rows(TWO[:0], 0), "indptr must not be empty"),
        (lambda o: o.expand_edges(TWO, ONE, TWO), "eids must have 1 elements as indices, found 2"),
        (lambda o: o.expand_edges(TWO, ONE, ONE + 1), r"eids\[0\] is not in \[0, 1\)"),
        (lambda o: o.take_rows(TWO, ONE, None, ONE + 5), r"row 5 at position 0 is not in \[0, 1\)"),
        (lambda o: o.induced_edges(TWO, ONE, None, ONE + 5, ONE), "row 5 at position 0"),
        (lambda o: o.find_sorted(TWO, ONE, TWO, TWO), "row 1 at position 1"),
        (lambda o: o.find_scan(TWO, ONE, None, TWO, ONE), "rows and columns must have one length"),
        (lambda o: o.has_parallel(TWO[1:], ONE), "indptr must ascend"),
        (lambda o: o.merge_parallel(TWO, ONE, ONE + 1), r"eids must be in \[0, 1\)"),
        (
            lambda o: o.relabel_ids([ONE, TWO], 1),
            r"id 1 at position 1 of list 1 is not in \[0, 1\)",
        ),
        (
            lambda o: o.bfs_nodes_levels(TWO, ONE, TWO),
            r"sources\[1\] is 1, expected a node in \[0, 1\)",
        ),
        (
            lambda o: o.bfs_nodes_levels(TWO, ONE + 1, ONE),
            "source and destination nodes must be of one type",
        ),
        (lambda o: o.topological_levels(TWO[1:], ONE), "indptr must ascend"),
    ],
)
def test_errors_of_operators(call, text):
    with pytest.raises(ValueError, match=text):
        call(torch.ops.smex)


def test_operators_need_one_type_of_ids():
    with pytest.raises(TypeError, match="columns must be Long as the other ids, found Int"):
        torch.ops.smex.compress_edges(TWO, TWO.int(), None, 2, 2)
    with pytest.raises(TypeError, match="ids must be int32 or int64, found Float"):
        torch.ops.smex.count_ids(TWO.float(), 2)


# ---- degrees to a power ----


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
def test_degree_power(dtype):
    src, dst = edges_of(30, 20, 200, hub=0.3)
    relation = Relation.from_coo(src, dst, 30, 20)
    for of, end, size in (
        (relation, "src", 30),
        (relation, "dst", 20),
        (relation.reverse(), "dst", 30),
    ):
        degrees = np.bincount((src if size == 30 else dst).numpy(), minlength=size)
        for power in (-0.5, -1.0):
            found = of.degree_power(end, power, dtype)
            expected = torch.tensor(np.maximum(degrees, 1.0) ** power).to(dtype)
            torch.testing.assert_close(found, expected)
            assert of.degree_power(end, power, dtype) is found


def test_degree_powers_of_inference_serve_training():
    relation = Relation.from_coo(torch.tensor([0, 1]), torch.tensor([1, 1]), 2, 2)
    with torch.inference_mode():
        found = relation.degree_power("dst", -0.5, torch.float32)
    assert not found.is_inference()
    x = torch.ones(2, requires_grad=True)
    (x * relation.degree_power("dst", -0.5, torch.float32)).sum().backward()
    torch.testing.assert_close(x.grad, torch.tensor([1.0, 2**-0.5]))


def test_degree_powers_that_are_kept_are_numbers_also_under_a_tracer():
    relation = Relation.from_coo(torch.tensor([0, 1]), torch.tensor([1, 1]), 2, 2)
    relation.in_edges()
    with torch._subclasses.FakeTensorMode(allow_non_fake_inputs=True):
        traced = relation.degree_power("dst", -0.5, torch.float32)
    assert type(traced) is torch.Tensor
    torch.testing.assert_close(traced, torch.tensor([1.0, 2**-0.5]))
    assert relation.degree_power("dst", -0.5, torch.float32) is traced


def test_degree_powers_are_not_pickled():
    relation = Relation.from_coo(torch.tensor([0, 1]), torch.tensor([1, 1]), 2, 2)
    before = len(pickle.dumps(relation))
    relation.degree_power("dst", -0.5, torch.float32)
    assert len(pickle.dumps(relation)) == before
