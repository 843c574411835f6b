"""Vertex functions on CUDA: against the CPU, without waiting for the device, and in CUDA graphs."""

import pytest
import torch

import smex
import smex.vertex as sv
from support.vertex_functions import Average, Binary, ChildSum, loss_of, random_graph, star

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(
        not smex.show_config().native,
        reason=f"native library: {smex.show_config().native_reason}",
    ),
]

TOLERANCE = {
    torch.float32: {"rtol": 1e-4, "atol": 1e-4},
    torch.float64: {"rtol": 1e-10, "atol": 1e-10},
    torch.float16: {"rtol": 1e-2, "atol": 1e-2},
    torch.bfloat16: {"rtol": 5e-2, "atol": 5e-2},
}
GRAPHS = {
    "trees": [random_graph(n, 2, n, shared=False) for n in (1, 2, 9, 30)],
    "shared children": [random_graph(n, 2, n) for n in (1, 4, 40, 200)],
    "chains": [sv.chain(n) for n in (3, 1, 8, 5)],
}


def case(cls, graphs, dtype=torch.float32, hidden=16):
    torch.manual_seed(0)
    x = torch.randn(sum(g.num_vertices for g in graphs), 3, dtype=dtype)
    return cls(3, hidden).to(dtype), x


def results(function, graphs, x):
    """States, outputs, and the gradients of the input and the parameters."""
    x = x.detach().requires_grad_()
    result = sv.run(function, graphs, x)
    values = [*result.states.values(), *result.outputs.values()]
    loss = loss_of(list(result.states.values()), result.outputs["out"])
    return [*values, *torch.autograd.grad(loss, [x, *function.parameters()])]


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("graphs", GRAPHS.values(), ids=GRAPHS)
def test_equal_to_the_cpu(graphs, dtype):
    function, x = case(Binary, graphs, dtype)
    wanted = results(function.double(), graphs, x.double())
    found = results(function.to("cuda", dtype), graphs, x.cuda())
    for one, other in zip(found, wanted):
        scale = max(1.0, float(other.detach().abs().amax()))
        torch.testing.assert_close(one.cpu().double() / scale, other / scale, **TOLERANCE[dtype])


def test_an_empty_batch():
    function, x = case(Binary, [])
    result = sv.run(function.cuda(), [sv.chain(0)], x.cuda())
    assert result.states["h"].shape == (0, 16)
    assert result.outputs["out"].device.type == "cuda"


@pytest.mark.parametrize("width", [1, 2, 3, 5, 8])
def test_rows_that_wide_loads_do_not_reach(width):
    """Gates that are columns of a wider matrix, and rows that begin between multiples of 16 bytes."""
    torch.manual_seed(0)
    flat = torch.randn(1 + 6 * 8 * width, device="cuda")
    wide = flat[1:].view(6, 8 * width)
    gates, cells = wide[:, width : 6 * width], [wide[:, :width], wide[:, 6 * width : 7 * width]]
    found = sv.tree_lstm(gates, cells)
    wanted = sv.tree_lstm(gates.cpu().double(), [c.cpu().double() for c in cells])
    for one, other in zip(found, wanted):
        torch.testing.assert_close(one.cpu().double(), other, rtol=1e-5, atol=1e-5)


def test_more_children_than_the_kernel_takes():
    torch.manual_seed(0)
    gates = torch.randn(5, (3 + 40) * 4, dtype=torch.float64)
    cells = [torch.randn(5, 4, dtype=torch.float64) for _ in range(40)]
    found = sv.tree_lstm(gates.cuda(), [c.cuda() for c in cells])
    for one, other in zip(found, sv.tree_lstm(gates, cells)):
        torch.testing.assert_close(one.cpu(), other)


def test_operands_on_another_device_are_refused():
    with pytest.raises(ValueError, match="expected cells on cuda:0 as the gates, found cpu"):
        sv.lstm(torch.zeros(2, 12, device="cuda"), torch.zeros(2, 3))
    to = torch.zeros(2, 3, device="cuda")
    with pytest.raises(ValueError, match="expected numbers and rows on cuda:0"):
        torch.ops.smex.add_rows(to, torch.tensor([1]), torch.zeros(1, 3, device="cuda"))


@pytest.mark.parametrize("options", [{}, {"trace": False}], ids=["traced", "called"])
@pytest.mark.parametrize("cls", [Binary, ChildSum, Average])
def test_nothing_waits_for_the_device(cls, options):
    """Once a batch has its schedule."""
    graphs = [random_graph(30, 2, 3), star(2), sv.chain(4)]
    function, x = case(cls, graphs)
    function, x, batch = function.cuda(), x.cuda(), sv.batch(graphs)
    with sv.options(**options):
        results(function, batch, x)
        torch.cuda.set_sync_debug_mode("error")
        try:
            results(function, batch, x)
        finally:
            torch.cuda.set_sync_debug_mode("default")


def test_results_are_the_same_every_time():
    graphs = [random_graph(400, 2, 8), star(2)]
    function, x = case(Binary, graphs)
    function, x = function.cuda(), x.cuda()
    first = results(function, graphs, x)
    for _ in range(5):
        for one, other in zip(results(function, graphs, x), first):
            assert torch.equal(one, other)


def test_another_stream():
    graphs = [random_graph(100, 2, 8)]
    function, x = case(Binary, graphs)
    function, x = function.cuda(), x.cuda()
    torch.cuda.synchronize()
    found = []
    for _ in range(3):  # the schedule is made on the first stream, and used on all
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            found.append(results(function, graphs, x))
    torch.cuda.synchronize()
    for one in found[1:]:
        for a, b in zip(one, found[0]):
            torch.testing.assert_close(a, b)


@pytest.mark.parametrize("cls", [Binary, ChildSum])
def test_a_training_step_in_a_cuda_graph(cls):
    batch = sv.batch([random_graph(40, 2, 4), sv.chain(6)])
    function, x = case(cls, [], torch.float64)
    function, x = function.cuda(), torch.randn(46, 3, dtype=torch.float64, device="cuda")

    def step():
        result = sv.run(function, batch, x)
        loss = loss_of(list(result.states.values()), result.outputs["out"])
        return [loss, *torch.autograd.grad(loss, list(function.parameters()))]

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = step()
    for seed in range(3):
        torch.manual_seed(seed)
        x.copy_(torch.randn(46, 3, dtype=torch.float64))
        graph.replay()
        for one, other in zip(captured, step()):
            torch.testing.assert_close(one, other)


def test_a_capture_without_a_schedule_is_refused():
    function, x = case(Binary, [])
    function, x = function.cuda(), torch.randn(7, 3, device="cuda")
    sv.run(function, [sv.chain(7)], x)  # traces the function
    graph = torch.cuda.CUDAGraph()
    refused = pytest.raises(smex.SmexRuntimeError, match="while a CUDA graph is captured")
    with refused, torch.cuda.graph(graph):
        sv.run(function, [sv.chain(5), sv.chain(2)], x)
