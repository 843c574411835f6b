"""Operators on messages: CUDA against the CPU, for every type of features and ids."""

import itertools

import pytest
import torch

import smex

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(
        not smex.show_config().native,
        reason=f"native library: {smex.show_config().native_reason}",
    ),
]

DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
ID_TYPES = [torch.int32, torch.int64]
TOLERANCE = {
    torch.float32: {"rtol": 1e-4, "atol": 1e-4},
    torch.float64: {"rtol": 1e-10, "atol": 1e-10},
    torch.float16: {"rtol": 2e-3, "atol": 2e-3},
    torch.bfloat16: {"rtol": 1.6e-2, "atol": 1.6e-2},
}
NUM_SOURCES = 50

# A message and the feature shapes of its operands.
ELEMENTWISE = [
    ("u0", [()]),
    ("u0", [(3,)]),
    ("u0", [(64,)]),
    ("u0", [(600,)]),
    ("e0", [(6,)]),
    ("v0", [(4,)]),
    ("u0 * e1", [(16,), ()]),
    ("u0 * e1", [(7,), (1,)]),
    ("e0 * u1", [(8, 1), (8, 32)]),
    ("u0 * e1", [(3, 5), (3, 1)]),
    ("u0 * e1", [(64,), (64,)]),
    ("u0 * e1", [(2, 4), (4,)]),
    ("u0 - e1", [(2, 1, 3), (5, 1)]),
    ("u0 + v1", [(33,), (33,)]),
    ("u0 / v1", [(8,), (1,)]),
    ("exp(leaky_relu(u0 - v1, 0.2)) * e2 + 1.5", [(5,), (5,), (1,)]),
]
DOTS = [
    ("dot(u0, v1)", [(64,), (64,)]),
    ("dot(u0, v1)", [(8, 16), (8, 16)]),
    ("dot(u0, e1)", [(3, 5), (3, 5)]),
    ("dot(u0, e1)", [(5,), (2, 5)]),
]
SUMS_WITHIN = [
    ("dot(u0, v1) * u0", [(2, 40), (2, 40)]),
    ("sigmoid(dot(u0, v1)) * e2", [(2, 5), (2, 5), (5,)]),
]
# More operands than a kernel's parameters hold: every message is stored.
TOO_LONG = [(" + ".join(f"e{i}" for i in range(14)), [(3,)] * 14)]


def sample_graph(id_type, degrees, with_eids=True):
    """[indptr, indices(, eids)] of the in-edges and of the out-edges, on the CPU."""
    degrees = torch.tensor(degrees, dtype=torch.int64)
    dst = torch.repeat_interleave(torch.arange(len(degrees)), degrees)
    src = torch.randint(NUM_SOURCES, dst.shape)
    eids = torch.randperm(len(dst)) if with_eids else torch.arange(len(dst))
    in_indptr = torch.cat([torch.zeros(1, dtype=torch.int64), degrees.cumsum(0)])
    order = torch.argsort(src, stable=True)
    out_indptr = torch.zeros(NUM_SOURCES + 1, dtype=torch.int64)
    out_indptr[1:] = torch.bincount(src, minlength=NUM_SOURCES).cumsum(0)
    in_edges = [in_indptr, src] + ([eids] if with_eids else [])
    out_edges = [out_indptr, dst[order], eids[order]]
    return [[x.to(id_type) for x in edges] for edges in (in_edges, out_edges)]


def hub_degrees():
    """Empty rows, short rows and a hub that many blocks share."""
    degrees = torch.randint(0, 6, (300,)).tolist()
    degrees[0] = degrees[-1] = 0
    degrees[150] = 5_000  # sums stay within the range of float16
    return degrees


def sample_operands(message, shapes, in_edges, dtype):
    rows = {"u": NUM_SOURCES, "v": in_edges[0].shape[0] - 1, "e": in_edges[1].shape[0]}
    operands = []
    for i, shape in enumerate(shapes):
        count = next(rows[letter] for letter in "uve" if f"{letter}{i}" in message)
        operands.append((torch.rand(count, *shape) / 4 + 0.1).to(dtype))
    return operands


def on(device, tensors, dtype=None):
    return [x.to(device, dtype) for x in tensors]


def compare(run, structure, operands, dtype):
    """``run`` on CUDA in ``dtype`` against the CPU in double: results and gradients."""
    results = []
    for device, used in (("cpu", torch.float64), ("cuda", dtype)):
        leaves = [x.to(device, used).requires_grad_() for x in operands]
        out = run(*[on(device, edges) for edges in structure], leaves)
        assert out.device.type == device and out.dtype == used
        weight = torch.linspace(-1, 1, out.numel(), dtype=torch.float64).view_as(out)
        grads = torch.autograd.grad((out * weight.to(device, used)).sum(), leaves)
        results.append([x.detach().cpu().double() for x in (out, *grads)])
    for expected, found in zip(*results):
        scale = max(1.0, expected.abs().max().item() if expected.numel() else 1.0)
        torch.testing.assert_close(found / scale, expected / scale, **TOLERANCE[dtype])


@pytest.mark.parametrize("id_type", ID_TYPES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("reduce", ["sum", "mean"])
@pytest.mark.parametrize(("message", "shapes"), ELEMENTWISE + DOTS + SUMS_WITHIN + TOO_LONG)
def test_spmm(message, shapes, reduce, dtype, id_type):
    structure = sample_graph(id_type, hub_degrees())
    operands = sample_operands(message, shapes, structure[0], dtype)
    compare(
        lambda i, o, x: torch.ops.smex.spmm(i, o, message, reduce, x), structure, operands, dtype
    )


@pytest.mark.parametrize("id_type", ID_TYPES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("reduce", ["max", "min"])
@pytest.mark.parametrize(("message", "shapes"), ELEMENTWISE + DOTS + TOO_LONG)
def test_spmm_extremum(message, shapes, reduce, dtype, id_type):
    in_edges, _ = sample_graph(id_type, hub_degrees())
    operands = sample_operands(message, shapes, in_edges, dtype)
    found, winner = torch.ops.smex.spmm_extremum(
        on("cuda", in_edges), [], message, reduce, on("cuda", operands), False
    )
    expected, _ = torch.ops.smex.spmm_extremum(
        in_edges, [], message, reduce, on("cpu", operands, torch.float64), False
    )
    torch.testing.assert_close(found.cpu().double(), expected, **TOLERANCE[dtype])
    winner = winner.cpu().long()
    assert ((winner >= 0) == expected.isfinite()).all()
    # The winning positions give the extreme values.
    per_edge = torch.ops.smex.sddmm(in_edges, [], message, on("cpu", operands, torch.float64))
    by_position = per_edge[in_edges[2].long()].view(len(per_edge), -1)
    won = by_position.gather(0, winner.clamp_min(0).view(len(winner), -1)).view_as(expected)
    won = torch.where(winner >= 0, won, expected)
    torch.testing.assert_close(won, expected, **TOLERANCE[dtype])


@pytest.mark.parametrize("id_type", ID_TYPES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", [1, 6, 64])
@pytest.mark.parametrize("reduce", ["max", "min"])
def test_the_first_of_equal_messages_wins(reduce, width, dtype, id_type):
    in_edges, _ = sample_graph(id_type, hub_degrees())
    x = torch.randint(0, 3, (NUM_SOURCES, width)).to(dtype)
    expected = torch.ops.smex.spmm_extremum(in_edges, [], "u0", reduce, [x], True)
    found = torch.ops.smex.spmm_extremum(on("cuda", in_edges), [], "u0", reduce, [x.cuda()], True)
    assert found[0].cpu().equal(expected[0])
    assert found[1].cpu().equal(expected[1])


@pytest.mark.parametrize("id_type", ID_TYPES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("message", "shapes"), ELEMENTWISE + DOTS + SUMS_WITHIN + TOO_LONG)
def test_sddmm(message, shapes, dtype, id_type):
    structure = sample_graph(id_type, hub_degrees())
    operands = sample_operands(message, shapes, structure[0], dtype)
    compare(lambda i, o, x: torch.ops.smex.sddmm(i, o, message, x), structure, operands, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("message", "shapes", "reduce_to"),
    [
        ("u0 * v1", [(8, 16), (8, 16)], [8, 1]),
        ("u0 * v1", [(8, 16), (8, 16)], []),
        ("u0 * e1", [(6, 4), (6, 4)], [4]),
        ("u0 + v1", [(2, 3, 4), (2, 3, 4)], [1, 3, 1]),
        ("dot(u0, v1) * e2", [(2, 6), (2, 6), (2, 6)], [2, 1]),
    ],
)
def test_sddmm_summed_to_a_shape(message, shapes, reduce_to, dtype):
    structure = sample_graph(torch.int64, hub_degrees(), with_eids=False)
    operands = sample_operands(message, shapes, structure[0], dtype)
    compare(
        lambda i, o, x: torch.ops.smex.sddmm(i, o, message, x, reduce_to),
        structure,
        operands,
        dtype,
    )


@pytest.mark.parametrize("id_type", ID_TYPES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (1,), (8,), (3, 1), (40,)])
@pytest.mark.parametrize("side", [0, 1])
def test_edge_softmax(side, shape, dtype, id_type):
    structure = sample_graph(id_type, hub_degrees())
    score = (torch.randn(structure[0][1].shape[0], *shape) * 5).to(dtype)
    compare(
        lambda i, o, x: torch.ops.smex.edge_softmax((i, o)[side], x[0]), structure, [score], dtype
    )


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), float("nan")])
def test_edge_softmax_of_what_is_not_finite(value):
    (in_edges, _) = sample_graph(torch.int64, [3, 1, 200, 2])
    score = torch.randn(206, 4)
    score[::7] = value
    score[3] = value
    expected = torch.ops.smex.edge_softmax(in_edges, score)
    found = torch.ops.smex.edge_softmax(on("cuda", in_edges), score.cuda()).cpu()
    torch.testing.assert_close(found, expected, equal_nan=True)


@pytest.mark.parametrize("degrees", [[], [0], [0, 0, 0], [1], [5000]])
def test_small_and_empty_graphs(degrees):
    in_edges, _ = sample_graph(torch.int64, degrees, with_eids=False)
    x, w = torch.rand(NUM_SOURCES, 4), torch.rand(sum(degrees), 4)
    cuda = on("cuda", in_edges)
    for reduce in ("sum", "mean"):
        wide = [x.double(), w.double()]
        expected = torch.ops.smex.spmm(in_edges, [], "u0 * e1", reduce, wide).float()
        found = torch.ops.smex.spmm(cuda, [], "u0 * e1", reduce, on("cuda", [x, w]))
        torch.testing.assert_close(found.cpu(), expected)
    expected = torch.ops.smex.spmm_extremum(in_edges, [], "u0", "max", [x], False)
    found = torch.ops.smex.spmm_extremum(cuda, [], "u0", "max", [x.cuda()], False)
    assert found[0].cpu().equal(expected[0]) and found[1].cpu().equal(expected[1])
    found = torch.ops.smex.edge_softmax(cuda, w.cuda()).cpu()
    torch.testing.assert_close(found, torch.ops.smex.edge_softmax(in_edges, w))
    found = torch.ops.smex.sddmm(cuda, [], "dot(u0, e1)", on("cuda", [x, w])).cpu()
    expected = torch.ops.smex.sddmm(in_edges, [], "dot(u0, e1)", [x, w])
    torch.testing.assert_close(found, expected)


def test_features_of_no_elements():
    in_edges, _ = sample_graph(torch.int64, [2, 0, 3])
    cuda = on("cuda", in_edges)
    x, y = torch.empty(NUM_SOURCES, 0, device="cuda"), torch.empty(3, 0, device="cuda")
    assert torch.ops.smex.spmm(cuda, [], "u0", "sum", [x]).shape == (3, 0)
    found = torch.ops.smex.spmm(cuda, [], "dot(u0, v1)", "sum", [x, y])
    assert found.cpu().equal(torch.zeros(3, 1))
    found = torch.ops.smex.sddmm(cuda, [], "dot(u0, v1)", [x, y])
    assert found.cpu().equal(torch.zeros(5, 1))


def test_results_are_the_same_every_time():
    in_edges, _ = sample_graph(torch.int32, hub_degrees())
    cuda, x = on("cuda", in_edges), torch.randn(NUM_SOURCES, 64, device="cuda")
    w = torch.randn(in_edges[1].shape[0], 8, 1, device="cuda")
    runs = [
        lambda: torch.ops.smex.spmm(cuda, [], "u0", "sum", [x]),
        lambda: torch.ops.smex.spmm(cuda, [], "u0 * e1", "mean", [x.view(-1, 8, 8), w]),
        lambda: torch.ops.smex.edge_softmax(cuda, w),
    ]
    for run in runs:
        first = run()
        for _ in range(5):
            assert run().equal(first)


def test_unaligned_features():
    """Rows that begin where no wide load can."""
    in_edges, _ = sample_graph(torch.int64, hub_degrees())
    cuda = on("cuda", in_edges)
    for shift, width in itertools.product(range(4), (1, 2, 4, 8)):
        flat = torch.rand(NUM_SOURCES * width + shift, device="cuda")
        x = flat[shift:].view(NUM_SOURCES, width)
        expected = torch.ops.smex.spmm(in_edges, [], "u0", "sum", [x.cpu().double()]).float()
        found = torch.ops.smex.spmm(cuda, [], "u0", "sum", [x])
        torch.testing.assert_close(found.cpu(), expected)


def test_another_stream():
    in_edges, _ = sample_graph(torch.int64, hub_degrees())
    cuda, x = on("cuda", in_edges), torch.rand(NUM_SOURCES, 64, device="cuda")
    expected = torch.ops.smex.spmm(cuda, [], "u0", "sum", [x])
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        found = torch.ops.smex.spmm(cuda, [], "u0", "sum", [x])
    stream.synchronize()
    assert found.equal(expected)


def test_operands_on_another_device_are_refused():
    in_edges, _ = sample_graph(torch.int64, [2, 1])
    with pytest.raises(ValueError, match="is on cpu, the graph on cuda"):
        torch.ops.smex.spmm(on("cuda", in_edges), [], "u0", "sum", [torch.rand(NUM_SOURCES, 2)])
