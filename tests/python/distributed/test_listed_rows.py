"""Rows that are listed one by one, between processes: gathered into packets, counted exactly."""

import pytest
import torch

from smex import _C
from smex.distributed.world import World

GROUP = {"SMEX_SHARED_MEMORY": "0"}
WORLD, ROWS, WIDTH = 3, 6000, 96


def wanted_rows(rank):
    """About half of all rows; of rank 2 a few."""
    draw = torch.rand(ROWS, generator=torch.Generator().manual_seed(rank))
    return (draw < (0.001 if rank == 2 else 0.5)).nonzero().flatten().tolist()


def bounds_of(rank):
    cuts = [0, 1000, 1001, ROWS]  # uneven: rank 1 has one row
    return cuts[rank], cuts[rank + 1]


def rows_program():
    workers = []
    for rank in range(WORLD):
        wanted = wanted_rows(rank)
        parts = []
        for source in range(WORLD):
            lo, hi = bounds_of(source)
            theirs = [row - lo for row in wanted if lo <= row < hi]
            begin = sum(row < lo for row in wanted)
            if not theirs:
                continue
            parts.append(
                _C.CopyPart(
                    source,
                    0,
                    [(0, hi - lo), (0, WIDTH)],
                    [(begin, begin + len(theirs)), (0, WIDTH)],
                    source_list=(0, theirs),
                )
            )
        instr = _C.FetchInstr(1, [len(wanted), WIDTH], "float32", parts, kind="halo", relayout=0)
        workers.append(
            _C.WorkerProgram(
                2, [instr, _C.FreeInstr(0)], [], remote_reads=[], slot_itemsizes=[4, 4]
            )
        )
    inputs = [_C.Binding(0, [0] * WORLD)]
    return _C.Program(workers, inputs, [_C.Binding(1, [1] * WORLD)])


def gathered(rank):
    world = World.of(range(WORLD), WORLD, "cpu", 60.0)
    program = rows_program()
    whole = torch.randn(ROWS, WIDTH, generator=torch.Generator().manual_seed(7))
    tiles = [whole[slice(*bounds_of(worker))].clone() for worker in range(WORLD)]
    executor = _C.Executor(program, **world.executor_options())
    for _ in range(2):
        session = executor.start([tiles])
        session.run_forward()
    right = torch.equal(session.outputs(0)[rank], whole[wanted_rows(rank)])
    return right, session.stats()["moved_bytes"].get("halo", 0), executor.volumes


@pytest.mark.parametrize("variables", [{}, GROUP], ids=["memory", "group"])
def test_rows_are_gathered_and_counted(processes, variables):
    found = processes.run(gathered, WORLD, variables=variables)
    for rank, (right, moved, _) in enumerate(found):
        assert right
        lo, hi = bounds_of(rank)
        remote = [row for row in wanted_rows(rank) if not lo <= row < hi]
        assert moved == len(remote) * WIDTH * 4
