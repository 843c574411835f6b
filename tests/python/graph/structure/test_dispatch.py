"""Which implementations the operators of graphs have, their shapes without numbers, and those made
of torch's operators, which CUDA runs, on the CPU against the CPU's kernels."""

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch._subclasses import FakeTensorMode

import smex  # noqa: F401
from smex.graph.structure.relation import Relation

WITH_META = [
    "compress_edges",
    "count_ids",
    "expand_edges",
    "expand_rows",
    "find_scan",
    "find_sorted",
    "node2vec_walk",
    "random_walk",
]
OF_SIZES_THAT_DEPEND_ON_VALUES = [
    "bfs_edges_levels",
    "bfs_nodes_levels",
    "dfs_labeled_edges",
    "has_parallel",
    "induced_edges",
    "merge_parallel",
    "relabel_ids",
    "sample_labors",
    "sample_neighbors",
    "select_topk",
    "take_rows",
    "topological_levels",
]
KERNELS_ON_CUDA = ["compress_edges", "count_ids", "expand_edges", "expand_rows", "find_sorted"]
BY_TORCH_ON_CUDA = [
    "find_scan",
    "has_parallel",
    "induced_edges",
    "merge_parallel",
    "relabel_ids",
    "select_topk",
    "take_rows",
]
DTYPES = [torch.int32, torch.int64]
fuzz = settings(
    deadline=None,
    derandomize=True,
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow],  # a loaded machine is no defect
)


def has_kernel(name, key):
    return torch._C._dispatch_has_kernel_for_dispatch_key(f"smex::{name}", key)


with_cuda = pytest.mark.skipif(
    not has_kernel("find_sorted", "CUDA"), reason="built without CUDA kernels"
)


def for_cuda(name, *args):
    """What CUDA would run, called on tensors of the CPU."""
    op = getattr(torch.ops.smex, name).default
    return op._op_dk(torch._C.DispatchKey.CUDA, *args)


def relation_of(num_src, num_dst, num_edges, dtype=torch.int64, seed=0):
    draw = torch.Generator().manual_seed(seed)
    src = torch.randint(num_src, (num_edges,), generator=draw).to(dtype)
    dst = torch.randint(num_dst, (num_edges,), generator=draw).to(dtype)
    return Relation.from_coo(src, dst, num_src, num_dst)


def flat(result):
    """The tensors of a result, lists in it too."""
    if isinstance(result, torch.Tensor):
        return [result]
    return [each for part in result for each in flat(part)]


# ---- the dispatcher's table ----


@pytest.mark.parametrize("name", WITH_META + OF_SIZES_THAT_DEPEND_ON_VALUES)
def test_every_operator_has_a_kernel_of_the_cpu(name):
    assert has_kernel(name, "CPU")


def test_shapes_are_registered_where_they_follow_from_the_arguments():
    assert all(has_kernel(name, "Meta") for name in WITH_META)
    assert not any(has_kernel(name, "Meta") for name in OF_SIZES_THAT_DEPEND_ON_VALUES)


@with_cuda
def test_cuda_has_all_but_traversals_and_random_draws():
    names = WITH_META + OF_SIZES_THAT_DEPEND_ON_VALUES
    found = {name for name in names if has_kernel(name, "CUDA")}
    assert found == {*KERNELS_ON_CUDA, *BY_TORCH_ON_CUDA}


# ---- shapes ----


def calls_with_meta(dtype):
    r = relation_of(7, 5, 40, dtype)
    form, by_column = r.csr(), r.sorted_csr()
    src, dst = r.coo()
    square = relation_of(6, 6, 30, dtype, seed=1)
    edges = square.csr()
    ordered = square.sorted_csr()
    seeds = torch.tensor([0, 3, 3, 5], dtype=dtype)
    weights = torch.rand(30)
    two = [edges.indptr, edges.indptr], [edges.indices, edges.indices], [edges.eids, None]
    return {
        "compress_edges": (src, dst, None, 7, 5),
        "count_ids": (dst, 5),
        "expand_edges": tuple(form),
        "expand_rows": (form.indptr, 40),
        "find_scan": (*form, src[:9], dst[:9]),
        "find_sorted": (by_column.indptr, by_column.indices, src[:9], dst[:9]),
        "random_walk": (*two, [weights, None], [0, 1, 0], seeds, torch.tensor([0.5]), 7),
        "node2vec_walk": (*edges, weights, ordered.indptr, ordered.indices, seeds, 4, 0.5, 2.0, 7),
    }


def moved(args, change):
    if isinstance(args, torch.Tensor):
        return change(args)
    if isinstance(args, (tuple, list)):
        return type(args)(moved(each, change) for each in args)
    return args


def facts(result):
    return [(each.shape, each.dtype, each.stride()) for each in flat(result)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", WITH_META)
def test_shapes_and_types_without_numbers(name, dtype):
    args = calls_with_meta(dtype)[name]
    op = getattr(torch.ops.smex, name)
    expected = facts(op(*args))
    on_meta = op(*moved(args, lambda t: t.to("meta")))
    assert facts(on_meta) == expected and all(each.is_meta for each in flat(on_meta))
    with FakeTensorMode() as mode:
        fake = op(*moved(args, mode.from_tensor))
    assert facts(fake) == expected
    assert all(each.device.type == "cpu" for each in flat(fake))


@pytest.mark.parametrize("name", WITH_META)
def test_schemas_and_shapes_hold(name):
    args = calls_with_meta(torch.int64)[name]
    op = getattr(torch.ops.smex, name).default
    torch.library.opcheck(op, args, test_utils=("test_schema", "test_faketensor"))


def test_sizes_that_depend_on_values_are_not_made_up():
    form = relation_of(3, 3, 5).csr()
    args = moved((*form, torch.tensor([0])), lambda t: t.to("meta"))
    with pytest.raises(NotImplementedError, match="smex::take_rows"):
        torch.ops.smex.take_rows(*args)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda a: (a[0][:1], *a[1:]), "expected indptrs, indices, eids and weights of one length"),
        (lambda a: (*a[:4], [0, 2], *a[5:]), "path must have numbers below 2, found 2"),
        (lambda a: (*a[:5], a[5].int(), *a[6:]), "seeds must be Long as the other ids, found Int"),
        (lambda a: (*a[:6], torch.ones(2), a[7]), "restart must have 1 or 3 elements"),
        (lambda a: (*a[:3], [torch.ones(3), None], *a[4:]), "one element for each of 30 edges"),
        (lambda a: (*a[:3], [torch.ones(30).half(), None], *a[4:]), "bool, float32 or float64"),
    ],
)
@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_walks_are_checked_with_and_without_numbers(change, message, device):
    args = moved(change(calls_with_meta(torch.int64)["random_walk"]), lambda t: t.to(device))
    with pytest.raises((ValueError, TypeError), match=message):
        torch.ops.smex.random_walk(*args)


# ---- by torch's operators ----


@st.composite
def forms(draw):
    """Compressed edges with parallel ones, hubs, empty rows or none, with and without ids."""
    num_rows, num_columns = draw(st.integers(0, 7)), draw(st.integers(1, 6))
    dtype = draw(st.sampled_from(DTYPES))
    pairs = draw(
        st.lists(
            st.tuples(st.integers(0, max(num_rows - 1, 0)), st.integers(0, num_columns - 1)),
            max_size=40 if num_rows else 0,
        )
    )
    src, dst = (torch.tensor([pair[k] for pair in pairs], dtype=dtype) for k in (0, 1))
    relation = Relation.from_coo(src, dst, num_rows, num_columns)
    form = relation.sorted_csr() if draw(st.booleans()) else relation.csr()
    return form._replace(eids=None) if draw(st.booleans()) else form


def ids(data, size, dtype, count=12):
    drawn = data.draw(st.lists(st.integers(0, size - 1), max_size=count)) if size else []
    return torch.tensor(drawn, dtype=dtype)


def assert_same(name, *args):
    mine, other = getattr(torch.ops.smex, name)(*args), for_cuda(name, *args)
    if isinstance(mine, bool):
        assert mine == other
        return
    mine, other = flat(mine), flat(other)
    assert len(mine) == len(other)
    for a, b in zip(mine, other):
        assert a.dtype == b.dtype and a.tolist() == b.tolist(), name


@with_cuda
@fuzz
@given(forms(), st.data())
def test_rows_by_torch_are_those_of_the_kernels(form, data):
    dtype, num_rows = form.indptr.dtype, form.indptr.shape[0] - 1
    rows = ids(data, num_rows, dtype)
    assert_same("take_rows", *form, rows)
    names = torch.tensor(
        data.draw(st.lists(st.integers(-1, 5), min_size=6, max_size=6)), dtype=dtype
    )
    assert_same("induced_edges", *form, rows, names)
    columns = torch.tensor(
        data.draw(st.lists(st.integers(0, 5), min_size=len(rows), max_size=len(rows))), dtype=dtype
    )
    assert_same("find_scan", *form, rows, columns)


@with_cuda
@fuzz
@given(forms(), st.data())
def test_the_best_edges_by_torch_are_those_of_the_kernels(form, data):
    rows = ids(data, form.indptr.shape[0] - 1, form.indptr.dtype)
    value = st.sampled_from([0.0, -0.0, 1.0, 2.5, -3.0, float("inf"), float("-inf"), float("nan")])
    size = form.indices.shape[0]
    values = torch.tensor(
        data.draw(st.lists(value, min_size=size, max_size=size)), dtype=torch.float64
    )
    k, ascending = data.draw(st.integers(-1, 5)), data.draw(st.booleans())
    assert_same("select_topk", *form, rows, k, values, ascending)


@with_cuda
@fuzz
@given(forms())
def test_parallel_edges_by_torch_are_those_of_the_kernels(form):
    num_rows, num_edges = form.indptr.shape[0] - 1, form.indices.shape[0]
    rows = torch.ops.smex.expand_rows(form.indptr, num_edges)
    by_column = torch.ops.smex.compress_edges(form.indices, rows, form.eids, 6, num_rows)
    transposed = torch.ops.smex.expand_rows(by_column[0], num_edges)
    ordered = torch.ops.smex.compress_edges(
        by_column[1], transposed, by_column[2], max(num_rows, 1), 6
    )
    assert_same("has_parallel", ordered[0], ordered[1])
    assert_same("merge_parallel", *ordered)
    assert_same("merge_parallel", ordered[0], ordered[1], None)


@with_cuda
@fuzz
@given(st.sampled_from(DTYPES), st.booleans(), st.data())
def test_relabelling_by_torch_is_that_of_the_kernels(dtype, bounded, data):
    lists = [ids(data, 9, dtype) for _ in range(data.draw(st.integers(1, 3)))]
    assert_same("relabel_ids", lists, 9 if bounded else None)


@with_cuda
def test_ids_out_of_range_are_named_by_torch_too():
    form = relation_of(4, 4, 9).csr()
    with pytest.raises(IndexError):
        for_cuda("take_rows", *form, torch.tensor([4]))
    lists = [torch.tensor([0, 2]), torch.tensor([1, 5])]
    for call in (torch.ops.smex.relabel_ids, lambda *args: for_cuda("relabel_ids", *args)):
        with pytest.raises(ValueError, match=r"id 5 at position 1 of list 1 is not in \[0, 3\)"):
            call(lists, 3)
