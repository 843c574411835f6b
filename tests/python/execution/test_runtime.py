"""The executor on programs written by hand; the oracle is the same arithmetic in plain torch."""

from __future__ import annotations

import gc
import os
import signal
import threading
import time

import pytest
import torch

from smex import _C
from smex._C import (
    Binding,
    ComputeInstr,
    CopyPart,
    Executor,
    FetchInstr,
    FreeInstr,
    Program,
    ValueRef,
    WorkerProgram,
)

ITEM = 4  # bytes of a float32


def call(target, *args, out, **kwargs):
    """A ComputeInstr; an argument written "%3" is slot 3, "%-" an absent tensor."""

    def convert(arg):
        if isinstance(arg, str) and arg.startswith("%"):
            return ValueRef(-1 if arg == "%-" else int(arg[1:]))
        return [convert(a) for a in arg] if isinstance(arg, list) else arg

    outputs = out if isinstance(out, list) else [out]
    return ComputeInstr(target, [convert(a) for a in args], outputs, **kwargs)


def part(worker, slot, source, dest=None):
    return CopyPart(worker, slot, source, source if dest is None else dest)


def fetch(dest, shape, parts, dtype="float32", **kwargs):
    return FetchInstr(dest, shape, dtype, parts, **kwargs)


def box(*sizes):
    return [(0, size) for size in sizes]


def single(num_slots, forward, inputs, outputs, backward=(), **kwargs):
    """A program of one worker; inputs and outputs are slots."""
    worker = WorkerProgram(num_slots, list(forward), list(backward), **kwargs)
    return Program([worker], [Binding(s, [s]) for s in inputs], [Binding(s, [s]) for s in outputs])


def run(program, inputs, **kwargs):
    session = Executor(program, **kwargs).start(inputs)
    session.run_forward()
    return session


# ---------------------------------------------------------------------------------------------
# one worker


def test_mm_and_add():
    a, b, c = torch.randn(5, 7), torch.randn(7, 3), torch.randn(5, 3)
    program = single(
        5,
        [
            call("aten::mm", "%0", "%1", out=3, op=0, output_shapes=[[5, 3]]),
            call("aten::add.Tensor", "%3", "%2", 1, out=4, op=1),
            FreeInstr(3),
        ],
        [0, 1, 2],
        [4],
    )
    session = run(program, [[a], [b], [c]])
    torch.testing.assert_close(session.outputs(0)[0], a @ b + c)


@pytest.mark.parametrize(
    ("instr", "reference"),
    [
        (call("aten::add.Tensor", "%0", 2.5, 1, out=1), lambda x: x + 2.5),
        (call("aten::mul.Scalar", "%0", 3, out=1), lambda x: x * 3),
        (call("aten::sum.dim_IntList", "%0", [1], True, None, out=1), lambda x: x.sum(1, True)),
        (call("aten::mean.dim", "%0", 0, False, None, out=1), lambda x: x.mean(0)),
        (
            call("aten::_to_copy", "%0", 7, None, None, None, False, None, out=1),
            lambda x: x.double(),
        ),
        (
            call("aten::full", [2, 3], 4, 6, 0, "cpu", False, out=1),
            lambda x: torch.full((2, 3), 4.0),
        ),
        (call("aten::clone", "%0", out=1), lambda x: x),
        (call("aten::cat", ["%0", "%0"], 1, out=1), lambda x: torch.cat([x, x], 1)),
        (call("aten::index.Tensor", "%0", ["%-", "%2"], out=1), lambda x: x[:, [2, 0]]),
        (call("aten::leaky_relu", "%0", 1, out=1), lambda x: x),
        (
            call("aten::conv2d", "%3", "%4", "%-", 1, [1, 1], out=1),
            lambda x: torch.nn.functional.conv2d(
                torch.ones(1, 2, 4, 4), torch.ones(3, 2, 3, 3), padding=1
            ),
        ),
    ],
    ids=lambda value: value.target if isinstance(value, ComputeInstr) else "",
)
def test_arguments_follow_the_schema(instr, reference):
    x = torch.randn(4, 6)
    extra = [torch.tensor([2, 0]), torch.ones(1, 2, 4, 4), torch.ones(3, 2, 3, 3)]
    session = run(single(5, [instr], [0, 2, 3, 4], [1]), [[x], *[[e] for e in extra]])
    found, expected = session.outputs(0)[0], reference(x)
    assert found.dtype == expected.dtype
    torch.testing.assert_close(found, expected)


def test_several_and_listed_outputs():
    x = torch.randn(6, 4)
    program = single(
        5,
        [
            call("aten::max.dim", "%0", 1, False, out=[1, 2]),
            call("aten::split.Tensor", "%0", 3, 0, out=[-1, 3]),
            call("aten::native_layer_norm", "%0", [4], "%-", "%-", 1e-5, out=[4, -1, -1]),
        ],
        [0],
        [1, 2, 3, 4],
    )
    session = run(program, [[x]])
    expected = [*x.max(1), x[3:], torch.nn.functional.layer_norm(x, [4])]
    for index, tensor in enumerate(expected):
        torch.testing.assert_close(session.outputs(index)[0], tensor)


def test_view_of_a_strided_tile():
    x = torch.randn(4, 6)
    program = single(
        3,
        [call("aten::t", "%0", out=1), call("aten::view", "%1", [24], out=2)],
        [0],
        [2],
    )
    torch.testing.assert_close(run(program, [[x]]).outputs(0)[0], x.t().reshape(24))


def test_views_share_storage_and_cost_nothing():
    x = torch.randn(8, 8)
    program = single(
        4,
        [
            call("aten::view", "%0", [64], out=1),
            call("aten::slice.Tensor", "%1", 0, 8, 24, 1, out=2),
            fetch(3, [4], [part(0, 2, [(4, 8)], box(4))], view=True),
            FreeInstr(0),
            FreeInstr(1),
            FreeInstr(2),
        ],
        [0],
        [3],
    )
    session = run(program, [[x]])
    tile = session.outputs(0)[0]
    assert tile.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    torch.testing.assert_close(tile, x.view(64)[12:16])
    assert session.stats()["live_bytes"] == [64 * ITEM]
    assert session.stats()["peak_bytes"] == [64 * ITEM]


def test_crop():
    x = torch.randn(6, 5)
    instr = call("aten::relu", "%0", out=1, crop=[(1, 4), (2, 5)], output_shapes=[[3, 3]])
    torch.testing.assert_close(
        run(single(2, [instr], [0], [1]), [[x]]).outputs(0)[0], x[1:4, 2:].relu()
    )


def test_peak_bytes_are_exact_and_frees_are_in_order():
    kib = 256 * ITEM
    program = single(
        4,
        [
            call("aten::relu", "%0", out=1),
            call("aten::relu", "%1", out=2),
            FreeInstr(1),
            call("aten::relu", "%2", out=3),
            FreeInstr(2),
        ],
        [0],
        [3],
    )
    session = run(program, [[torch.randn(256)]])
    assert session.stats()["peak_bytes"] == [3 * kib]
    assert session.stats()["live_bytes"] == [2 * kib]


def test_freed_slot_cannot_be_read():
    program = single(3, [FreeInstr(0), call("aten::relu", "%0", out=1)], [0], [1])
    session = Executor(program).start([[torch.ones(2)]])
    with pytest.raises(RuntimeError, match="slot 0 .*was freed"):
        session.run_forward()


def test_backward_reads_what_forward_kept():
    x, w, tangent = torch.randn(4, 3), torch.randn(3, 2), torch.randn(4, 2)
    program = Program(
        [
            WorkerProgram(
                6,
                [call("aten::mm", "%0", "%1", out=3)],
                [call("aten::t", "%0", out=4), FreeInstr(0), call("aten::mm", "%4", "%2", out=5)],
            )
        ],
        [Binding(0, [0]), Binding(1, [1]), Binding(2, [2], [box(4, 2)])],
        [Binding(3, [3]), Binding(5, [5])],
    )
    executor = Executor(program)
    session = executor.start([[x], [w], None])
    with pytest.raises(ValueError, match="run_backward"):
        session.run_backward()
    session.run_forward()
    with pytest.raises(ValueError, match="not computed yet"):
        session.outputs(1)
    with pytest.raises(
        ValueError, match=r"input 2 on worker 0: expected shape \[4, 2\], found \[2, 4\]"
    ):
        session.set_input(2, [tangent.t()])
    session.set_input(2, [tangent])
    with pytest.raises(ValueError, match="was set before"):
        session.set_input(2, [tangent])
    session.run_backward()
    torch.testing.assert_close(session.outputs(1)[0], x.t() @ tangent)
    assert session.stats()["backward_seconds"] > 0


def test_no_autograd_and_no_autocast():
    x = torch.nn.Parameter(torch.randn(4, 4))
    program = single(2, [call("aten::mm", "%0", "%0", out=1)], [0], [1])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = run(program, [[x]]).outputs(0)[0]
    assert y.dtype == torch.float32
    assert not y.requires_grad


def test_seed_comes_from_the_session():
    x = torch.ones(64)
    instr = call("smex::dropout_mask", "%0", 0.5, 1, 3, [0], [64], out=1)
    executor = Executor(single(2, [instr], [0], [1]))
    masks = []
    for seed in (7, 8, 7):
        session = executor.start([[x]], seed=seed)
        session.run_forward()
        masks.append(session.outputs(0)[0])
        expected = torch.ops.smex.dropout_mask(x, 0.5, seed, 3, [0], [64])
        assert torch.equal(masks[-1], expected)
    assert not torch.equal(masks[0], masks[1])
    assert torch.equal(masks[0], masks[2])


@pytest.mark.parametrize("size", [0, 1])
def test_empty_and_one(size):
    x = torch.randn(size, 3)
    program = single(
        3,
        [
            fetch(1, [size, 3], [part(0, 0, box(size, 3))]),
            call("aten::relu", "%1", out=2, output_shapes=[[size, 3]]),
        ],
        [0],
        [2],
    )
    torch.testing.assert_close(run(program, [[x]]).outputs(0)[0], x.relu())


def relu_chain(regions=(), output_shapes=(), slot_itemsizes=()):
    """Two activations, with as much about sizes as the caller gives."""
    forward = [
        call("aten::relu", "%0", out=1, output_shapes=list(output_shapes)),
        call("aten::relu", "%1", out=2, output_shapes=list(output_shapes)),
        FreeInstr(1),
    ]
    worker = WorkerProgram(3, forward, slot_itemsizes=list(slot_itemsizes))
    return Program([worker], [Binding(0, [0], list(regions))], [Binding(1, [2])])


def test_predicted_peak_of_a_program_by_hand():
    program = relu_chain([box(256)], [[256]], [ITEM] * 3)
    session = run(program, [[torch.randn(256)]])
    assert _C.peak_bytes(program, set()) == session.stats()["peak_bytes"] == [3 * 256 * ITEM]
    assert _C.peak_bytes(program, {"aten::relu"}) == [256 * ITEM]


@pytest.mark.parametrize("hears_of_its_peer", [False, True])
def test_a_predicted_peak_counts_what_a_slow_peer_has_still_to_fetch(hears_of_its_peer):
    """Worker 0 frees slot 1, which worker 1 fetches, and may learn that it has done so."""

    def relu(source, out):
        return call("aten::relu", f"%{source}", out=out, output_shapes=[[256]])

    news = [fetch(4, [1], [part(1, 1, box(1))])] if hears_of_its_peer else []
    ahead = [relu(0, 1), FreeInstr(1), *news, relu(0, 2), relu(2, 3)]
    behind = [fetch(0, [256], [part(0, 1, box(256))]), relu(0, 1)]
    program = Program(
        [
            WorkerProgram(5, ahead, slot_itemsizes=[ITEM] * 5),
            WorkerProgram(2, behind, slot_itemsizes=[ITEM] * 2),
        ],
        [Binding(0, [0, -1], [box(256), box(0)])],
        [Binding(1, [3, -1])],
    )
    expected = 3 * 256 + 1 if hears_of_its_peer else 4 * 256
    assert _C.peak_bytes(program, set())[0] == expected * ITEM


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({}, "the regions of input value 0 are not given"),
        ({"regions": [box(4)]}, "expected slot_itemsizes for slot 0, found 0 of them"),
        (
            {"regions": [box(4)], "slot_itemsizes": [ITEM] * 3},
            "the shape of output 0 of aten::relu is not given",
        ),
        (
            {"regions": [box(4)], "slot_itemsizes": [ITEM], "output_shapes": [[4]]},
            "expected slot_itemsizes for slot 1, found 1 of them",
        ),
    ],
)
def test_a_peak_needs_sizes(given, text):
    with pytest.raises(ValueError, match=f"peak_bytes: {text}"):
        _C.peak_bytes(relu_chain(**given), set())


def test_moved_bytes_need_sizes():
    program = Program(
        [WorkerProgram(1, []), WorkerProgram(1, [fetch(0, [2], [part(0, 0, box(2))])])],
        [Binding(0, [0, -1])],
        [],
    )
    with pytest.raises(ValueError, match="moved_bytes: expected slot_itemsizes for slot 0"):
        _C.moved_bytes(program)


def test_a_program_prints_what_each_call_stands_for():
    calls = [call("aten::relu", "%0", out=1, op=3), call("aten::addmm", "%1", out=2)]
    lines = str(single(3, calls, [0], [2])).splitlines()
    assert lines[1:3] == ["  1 = aten::relu  # op 3", "  2 = aten::addmm  # added"]


# ---------------------------------------------------------------------------------------------
# several workers


def both(make):
    return [make(0), make(1)]


def test_two_workers_exchange_halves():
    x = torch.randn(6, 4)
    program = Program(
        both(
            lambda w: WorkerProgram(
                3,
                [
                    fetch(
                        1,
                        [6, 4],
                        [
                            part(0, 0, box(3, 4)),
                            part(1, 0, box(3, 4), [(3, 6), (0, 4)]),
                        ],
                        kind="all_gather",
                    ),
                    FreeInstr(0),
                    call("aten::mul.Scalar", "%1", w + 1, out=2),
                    FreeInstr(1),
                ],
                remote_reads=[1, 0, 0],
                slot_itemsizes=[ITEM] * 3,
            )
        ),
        [Binding(0, [0, 0], [box(3, 4), box(3, 4)])],
        [Binding(1, [2, 2])],
    )
    session = run(program, [[x[:3].clone(), x[3:].clone()]])
    for worker, tile in enumerate(session.outputs(0)):
        torch.testing.assert_close(tile, x * (worker + 1))
    stats = session.stats()
    assert stats["moved_bytes"] == {"all_gather": 2 * 12 * ITEM}
    assert stats["received_bytes"] == [12 * ITEM, 12 * ITEM]
    assert stats["live_bytes"] == [24 * ITEM, 24 * ITEM]
    assert sum(stats["moved_bytes"].values()) == _C.moved_bytes(program)


@pytest.mark.parametrize("workers", [2, 3, 5, 8])
@pytest.mark.parametrize("reduce", ["sum", "max", "min", "prod"])
def test_reduce_scatter_uneven(workers, reduce):
    torch.manual_seed(workers)
    n = 17
    cuts = [n * w // workers for w in range(workers + 1)]
    tiles = [torch.randn(n, 3) for _ in range(workers)]
    lists = []
    for w in range(workers):
        lo, hi = cuts[w], cuts[w + 1]
        parts = [part(p, 0, [(lo, hi), (0, 3)], box(hi - lo, 3)) for p in range(workers)]
        instr = fetch(1, [hi - lo, 3], parts, reduce=reduce, kind="reduce_scatter")
        lists.append(WorkerProgram(2, [instr, FreeInstr(0)]))
    program = Program(lists, [Binding(0, [0] * workers)], [Binding(1, [1] * workers)])
    session = run(program, [tiles])
    stacked = torch.stack(tiles)
    expected = {
        "sum": stacked.sum(0),
        "max": stacked.amax(0),
        "min": stacked.amin(0),
        "prod": stacked.prod(0),
    }[reduce]
    torch.testing.assert_close(torch.cat(session.outputs(0)), expected)
    assert session.stats()["moved_bytes"]["reduce_scatter"] == (workers - 1) * n * 3 * ITEM


def test_overlapping_reduction_with_fill():
    a, b = torch.randn(4), torch.randn(4)
    instr = fetch(
        1,
        [8],
        [part(0, 0, box(4), [(1, 5)]), part(1, 0, box(4), [(3, 7)])],
        reduce="sum",
        fill=9.0,
    )
    program = Program(
        [WorkerProgram(2, [instr, FreeInstr(0)]), WorkerProgram(1, [FreeInstr(0)])],
        [Binding(0, [0, 0])],
        [Binding(1, [1, -1])],
    )
    session = run(program, [[a, b]])
    expected = torch.zeros(8)
    expected[1:5] += a
    expected[3:7] += b
    expected[[0, 7]] = 9.0
    found, nothing = session.outputs(0)
    assert nothing is None
    torch.testing.assert_close(found, expected)


def test_listed_rows_are_gathered():
    x = torch.randn(9, 3)
    tiles = [x[:4].clone(), x[4:].clone()]
    wanted = [[1, 3, 4, 6, 8], [0, 2, 3, 7]]
    workers = []
    for rows in wanted:
        own = [row for row in rows if row < 4]
        others = [row - 4 for row in rows if row >= 4]
        parts = [
            CopyPart(0, 0, box(4, 3), box(len(own), 3), source_list=(0, own)),
            CopyPart(1, 0, box(5, 3), [(len(own), len(rows)), (0, 3)], source_list=(0, others)),
        ]
        instr = fetch(1, [len(rows), 3], parts, kind="halo")
        workers.append(WorkerProgram(2, [instr, FreeInstr(0)]))
    program = Program(workers, [Binding(0, [0, 0])], [Binding(1, [1, 1])])
    session = run(program, [tiles])
    for found, rows in zip(session.outputs(0), wanted, strict=True):
        assert torch.equal(found, x[rows])
    assert session.stats()["moved_bytes"]["halo"] == (3 + 3) * 3 * ITEM


@pytest.mark.parametrize("reduce", [None, "sum", "max"])
def test_listed_rows_are_scattered(reduce):
    """Into columns of a new tensor, of which the others hold the fill."""
    a, b = torch.randn(2, 3), torch.randn(2, 4)
    places = [[1, 4, 6], [0, 2, 5, 8] if reduce is None else [0, 4, 5, 6]]
    parts = [
        CopyPart(w, 0, box(2, len(into)), box(2, 10), dest_list=(1, into))
        for w, into in enumerate(places)
    ]
    options = {} if reduce is None else {"reduce": reduce}
    instr = fetch(1, [2, 10], parts, fill=-5.0, **options)
    program = Program(
        [WorkerProgram(2, [instr, FreeInstr(0)]), WorkerProgram(1, [FreeInstr(0)])],
        [Binding(0, [0, 0])],
        [Binding(1, [1, -1])],
    )
    found = run(program, [[a, b]]).outputs(0)[0]
    expected = torch.full((2, 10), -5.0)
    expected[:, places[0]] = a
    for n, column in enumerate(places[1]):
        both = torch.stack([expected[:, column], b[:, n]])
        first = column not in places[0]
        expected[:, column] = b[:, n] if first else both.sum(0) if reduce == "sum" else both.amax(0)
    assert torch.equal(found, expected)


def test_a_list_of_no_dimension_is_an_error():
    with pytest.raises(ValueError, match="no such dimension"):
        CopyPart(0, 0, box(4), box(4), source_list=(1, [0, 2]))


def test_halo_with_fill():
    x = torch.randn(2, 9)
    tiles = [x[:, :4].clone(), x[:, 4:].clone()]
    left = fetch(
        1,
        [2, 6],
        [
            part(0, 0, box(2, 4), [(0, 2), (1, 5)]),
            part(1, 0, box(2, 1), [(0, 2), (5, 6)]),
        ],
        fill=float("-inf"),
        kind="halo",
    )
    right = fetch(
        1,
        [2, 7],
        [
            part(0, 0, [(0, 2), (3, 4)], box(2, 1)),
            part(1, 0, box(2, 5), [(0, 2), (1, 6)]),
        ],
        fill=float("-inf"),
        kind="halo",
    )
    program = Program(
        [WorkerProgram(2, [left, FreeInstr(0)]), WorkerProgram(2, [right, FreeInstr(0)])],
        [Binding(0, [0, 0])],
        [Binding(1, [1, 1])],
    )
    session = run(program, [tiles])
    padded = torch.nn.functional.pad(x, (1, 1), value=float("-inf"))
    torch.testing.assert_close(session.outputs(0)[0], padded[:, :6])
    torch.testing.assert_close(session.outputs(0)[1], padded[:, 4:])
    assert session.stats()["moved_bytes"] == {"halo": 2 * 2 * ITEM}


def test_memory_is_kept_for_the_remote_reader_only():
    """Worker 0 frees at once; worker 1 reads late, and the bytes go only then."""
    slow = [call("aten::mm", "%0", "%0", out=1), FreeInstr(1)]
    program = Program(
        [
            WorkerProgram(1, [FreeInstr(0)], []),
            WorkerProgram(3, [*slow, fetch(2, [4], [part(0, 0, box(4))])]),
        ],
        [Binding(0, [0, -1]), Binding(1, [-1, 0])],
        [Binding(2, [-1, 2])],
    )
    session = run(program, [[torch.arange(4.0), None], [None, torch.randn(300, 300)]])
    torch.testing.assert_close(session.outputs(0)[1], torch.arange(4.0))
    assert session.stats()["live_bytes"][0] == 0
    assert session.stats()["peak_bytes"][0] == 4 * ITEM


def chain(workers, length):
    """Each worker adds its left neighbour's tile to its own, `length` times."""
    lists = []
    for w in range(workers):
        instrs, slot = [], 0
        for _ in range(length):
            left = (w - 1) % workers
            instrs += [
                fetch(slot + 1, [3], [part(left, slot, box(3))], kind="shift"),
                call("aten::add.Tensor", f"%{slot}", f"%{slot + 1}", 1, out=slot + 2, op=slot),
                FreeInstr(slot),
                FreeInstr(slot + 1),
            ]
            slot += 2
        lists.append(WorkerProgram(2 * length + 1, instrs))
    return Program(lists, [Binding(0, [0] * workers)], [Binding(1, [2 * length] * workers)])


def chain_reference(tiles, length):
    x = torch.stack(tiles)
    for _ in range(length):
        x = x + x.roll(1, 0)
    return x


def test_stress():
    executor = Executor(chain(4, 25))
    tiles = [torch.randint(0, 5, (3,)).float() for _ in range(4)]
    expected = chain_reference(tiles, 25)
    for _ in range(200):
        session = executor.start([tiles])
        session.run_forward()
        assert torch.equal(torch.stack(session.outputs(0)), expected)
        assert session.stats()["live_bytes"] == [3 * ITEM] * 4


def test_several_live_sessions():
    executor = Executor(chain(3, 4))
    batches = [[torch.randn(3) for _ in range(3)] for _ in range(5)]
    sessions = [executor.start([tiles]) for tiles in batches]
    for session in reversed(sessions):
        session.run_forward()
    del executor
    gc.collect()
    for tiles, session in zip(batches, sessions):
        torch.testing.assert_close(torch.stack(session.outputs(0)), chain_reference(tiles, 4))


def test_sessions_from_several_threads():
    executor = Executor(chain(2, 10))
    tiles = [torch.ones(3), torch.ones(3)]
    failures = []

    def work():
        for _ in range(20):
            session = executor.start([tiles])
            session.run_forward()
            if not torch.equal(torch.stack(session.outputs(0)), chain_reference(tiles, 10)):
                failures.append(session)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


# ---------------------------------------------------------------------------------------------
# faults


def faulty(workers):
    """Worker 0 multiplies what worker 1's input shape may make impossible; the others wait for it."""
    lists = [
        WorkerProgram(
            2,
            [call("aten::mm", "%0", "%0", out=1, op=7)],
            slot_names=["x", "fc.out"],
        )
    ]
    for _ in range(1, workers):
        lists.append(WorkerProgram(1, [fetch(0, [2, 2], [part(0, 1, box(2, 2))])]))
    return Program(
        lists, [Binding(0, [0] + [-1] * (workers - 1))], [Binding(1, [1] + [0] * (workers - 1))]
    )


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_error_reaches_the_caller_and_the_executor_recovers(workers):
    executor = Executor(faulty(workers))
    nothing = [None] * (workers - 1)
    for _ in range(3):
        session = executor.start([[torch.randn(2, 3), *nothing]])
        with pytest.raises(RuntimeError, match=r"aten::mm \(op 7, slot 1 'fc.out'\) on worker 0"):
            session.run_forward()
        with pytest.raises(ValueError, match="start another"):
            session.run_forward()
        x = torch.randn(2, 2)
        session = executor.start([[x, *nothing]])
        session.run_forward()
        for tile in session.outputs(0):
            torch.testing.assert_close(tile, x @ x)


def test_shape_mismatch_names_op_and_shapes():
    program = single(2, [call("aten::t", "%0", out=1, op=3, output_shapes=[[2, 3]])], [0], [1])
    session = Executor(program).start([[torch.ones(2, 3)]])
    with pytest.raises(
        RuntimeError, match=r"aten::t \(op 3.*expected shape \[2, 3\], found \[3, 2\]"
    ):
        session.run_forward()


def test_index_error_keeps_its_type():
    program = single(2, [call("aten::select.int", "%0", 5, 0, out=1, op=2)], [0], [1])
    session = Executor(program).start([[torch.ones(2, 3)]])
    with pytest.raises(IndexError, match=r"aten::select.int \(op 2"):
        session.run_forward()


@pytest.fixture(scope="module")
def python_op():
    with torch.library._scoped_library("smex_test", "FRAGMENT") as library:
        library.define("call_back(Tensor x, int what) -> Tensor")

        def call_back(x, what):
            if what == 0:
                raise KeyError("from Python")
            time.sleep(what / 1000)
            return x + 1

        library.impl("call_back", call_back, "CPU")
        yield "smex_test::call_back"


@pytest.mark.parametrize("workers", [1, 3])
def test_python_operators_and_their_exceptions(python_op, workers):
    def program(what):
        lists = [WorkerProgram(2, [call(python_op, "%0", what, out=1)]) for _ in range(workers)]
        return Program(lists, [Binding(0, [0] * workers)], [Binding(1, [1] * workers)])

    tiles = [torch.zeros(2)] * workers
    session = run(program(1), [tiles])
    assert all(torch.equal(tile, torch.ones(2)) for tile in session.outputs(0))
    with pytest.raises(KeyError, match="from Python"):
        run(program(0), [tiles])


@pytest.mark.parametrize("workers", [1, 2])
def test_keyboard_interrupt(python_op, workers):
    """Ctrl-C in the midst of 400 calls of 20 ms: raised within a second, and the executor lives on."""
    lists = [
        WorkerProgram(401, [call(python_op, f"%{i}", 20, out=i + 1) for i in range(400)])
        for _ in range(workers)
    ]
    program = Program(lists, [Binding(0, [0] * workers)], [Binding(1, [400] * workers)])
    executor = Executor(program)
    session = executor.start([[torch.zeros(1)] * workers])
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    begin = time.monotonic()
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        session.run_forward()
    assert time.monotonic() - begin < 1.5
    timer.join()
    executor.start([[torch.zeros(1)] * workers])


def test_deadlock_is_reported():
    """Each worker fetches what the other has not yet written."""

    def worker(w):
        return WorkerProgram(
            3,
            [
                fetch(1, [2], [part(1 - w, 2, box(2))]),
                call("aten::relu", "%0", out=2),
            ],
        )

    program = Program(both(worker), [Binding(0, [0, 0])], [Binding(1, [1, 1])])
    session = Executor(program).start([[torch.ones(2), torch.ones(2)]])
    with pytest.raises(RuntimeError, match="the workers wait for each other"):
        session.run_forward()


def test_slot_never_written():
    program = Program(
        [WorkerProgram(1, [fetch(0, [2], [part(1, 0, box(2))])]), WorkerProgram(1, [])],
        [],
        [Binding(0, [0, -1])],
    )
    session = Executor(program).start([])
    with pytest.raises(RuntimeError, match="worker 1 finished without writing slot 0"):
        session.run_forward()


def bad_program(*forward, num_slots=3, **kwargs):
    return Program([WorkerProgram(num_slots, list(forward), **kwargs)], [Binding(0, [0])], [])


@pytest.mark.parametrize(
    ("program", "message"),
    [
        (bad_program(call("aten::no_such_op", "%0", out=1)), "no operator 'aten::no_such_op'"),
        (bad_program(call("aten::relu", "%0", out=0)), "slot 0 is written twice"),
        (bad_program(call("aten::relu", "%9", out=1)), "operand slot 9"),
        (bad_program(call("aten::mm", "%0", out=1)), "argument 1 'mat2' has no default"),
        (bad_program(call("aten::relu", "%0", 1, out=1)), "takes 1 arguments, found 2"),
        (
            bad_program(call("aten::sum.dim_IntList", "%0", "x", out=1)),
            "argument 1 'dim' is .* found str",
        ),
        (bad_program(fetch(1, [2], [part(4, 0, box(2))])), "slot 0 of worker 4"),
        (bad_program(fetch(1, [2], [part(0, 0, box(3))])), r"copies \[0:3\] to \[0:3\]"),
        (bad_program(fetch(1, [2], [part(0, 0, box(1))], view=True)), "a view must be"),
        (bad_program(fetch(1, [2], [part(0, 0, box(2))], dtype="float7")), "dtype 'float7'"),
        (bad_program(remote_reads=[1, 0, 0]), "remote_reads is 1, but 0"),
    ],
    ids=lambda value: value.replace(" ", "_") if isinstance(value, str) else "",
)
def test_malformed_programs_are_rejected(program, message):
    with pytest.raises(RuntimeError, match=message):
        Executor(program)


def test_wrong_inputs_and_options():
    program = single(2, [call("aten::relu", "%0", out=1)], [0], [1])
    executor = Executor(program)
    with pytest.raises(ValueError, match="expected 1 inputs, found 2"):
        executor.start([[torch.ones(1)], None])
    with pytest.raises(ValueError, match="input 0 on worker 0: expected a tile, found None"):
        executor.start([[None]])
    with pytest.raises(ValueError, match="expected device cpu, found meta"):
        executor.start([[torch.ones(1, device="meta")]])
    with pytest.raises(
        ValueError, match="devices: expected one for each of the 1 workers, found 2"
    ):
        Executor(program, devices=["cpu", "cpu"])
    with pytest.raises(ValueError, match="threads_per_worker"):
        Executor(program, threads_per_worker=-1)
    with pytest.raises(RuntimeError, match="slot 0 .*holds nothing yet"):
        executor.start([None]).run_forward()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_fork_is_refused_and_does_not_hang():
    executor = Executor(chain(2, 1))
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            executor.start([[torch.ones(3), torch.ones(3)]]).run_forward()
        except ValueError as error:
            code = 0 if "forked" in str(error) else 2
        del executor
        os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


# ---------------------------------------------------------------------------------------------
# threads and measurements


def test_thread_counts_are_left_alone():
    before = torch.get_num_threads()
    executor = Executor(chain(2, 2), threads_per_worker=3)
    executor.start([[torch.ones(3), torch.ones(3)]]).run_forward()
    assert torch.get_num_threads() == before
    lone = Executor(chain(1, 2), threads_per_worker=3)
    lone.start([[torch.ones(3)]]).run_forward()
    assert torch.get_num_threads() == before
    found = []
    thread = threading.Thread(target=lambda: found.append(torch.get_num_threads()))
    thread.start()
    thread.join()
    assert found == [before]
    assert Executor(chain(2, 1)).threads_per_worker == max(1, before // 2)


def test_threads_end_with_the_executor():
    def count():
        return len(os.listdir("/proc/self/task"))

    before = count()
    executor = Executor(chain(4, 1), threads_per_worker=1)
    assert count() == before + 3  # the first worker runs on the caller's
    del executor
    assert count() == before


def test_trace():
    executor = Executor(chain(2, 3))
    tiles = [torch.ones(3), torch.ones(3)]
    session = executor.start([tiles])
    session.run_forward()
    assert session.trace_events() == []
    executor.set_trace(True)
    session = executor.start([tiles])
    session.run_forward()
    events = session.trace_events()
    computes = [event for event in events if event[2] == "compute"]
    shifts = [event for event in events if event[2] == "shift"]
    assert len(computes) == len(shifts) == 6
    assert {event[1] for event in computes} == {"aten::add.Tensor"}
    assert all(event[5] == 3 * ITEM for event in shifts)
    assert all(event[3] >= 0 and event[4] >= 0 for event in events)
    assert all(0 <= event[9] <= event[4] + 100 for event in events)  # a processor's microseconds
    stats = session.stats()
    assert all(seconds > 0 for seconds in stats["compute_seconds"])
    assert set(stats["seconds_by_target"]) == {"aten::add.Tensor", "shift"}
    total = sum(stats["compute_seconds"]) + sum(stats["fetch_seconds"])
    assert sum(stats["seconds_by_target"].values()) == pytest.approx(total)
    assert stats["forward_seconds"] > 0


def test_taken_outputs_are_given_away_unless_they_share_memory():
    forward = [
        call("aten::neg", "%0", out=1),
        call("aten::neg", "%0", out=2),
        call("aten::view", "%2", [4], out=3),
    ]
    session = Executor(single(4, forward, [0], [1, 2, 3])).start([[torch.ones(2, 2)]])
    session.run_forward()
    live = session.stats()["live_bytes"][0]
    (taken,) = session.take_outputs(0)
    assert torch.equal(taken, -torch.ones(2, 2))
    assert session.outputs(0) == [None]
    assert session.stats()["live_bytes"][0] == live - 4 * ITEM
    (shared,) = session.take_outputs(1)
    assert torch.equal(session.outputs(2)[0], shared.view(4))
    assert torch.equal(session.outputs(1)[0], shared)


def test_gradients_are_not_copied_for_the_parameters():
    import smex

    net = smex.partition(torch.nn.Linear(8, 8, bias=False), workers=1)
    net(torch.randn(4, 8)).sum().backward()
    session = net._last.session
    live = session.stats()["live_bytes"][0]
    # The weight and the output; its gradient is not held beside the parameter's .grad.
    assert live == (8 * 8 + 4 * 8) * ITEM
