"""Which tiles leave a device: ROC's Algorithm 1 against an integer program, LRU and Belady."""

from __future__ import annotations

import pytest

from smex import _C
from support.transfers import fewest_bytes, random_dag


def followed(problem: _C.SpillProblem, schedule: _C.SpillSchedule) -> tuple[int, int]:
    """Plays a schedule: bytes that it moves and the most that it has on the device."""
    places = ["host" if block.on_host else "" for block in problem.blocks]
    moved = most = 0
    for step in range(problem.num_steps):
        for b in schedule.dropped[step]:
            moved += problem.blocks[b].bytes * (places[b] == "dirty")
            assert places[b] in ("dirty", "clean")
            places[b] = "host"
        for b, block in enumerate(problem.blocks):
            if step not in block.uses:
                continue
            if places[b] == "host":
                moved += block.bytes
                places[b] = "clean"
            elif places[b] == "":
                assert not block.on_host
                assert block.uses[0] == step
                moved += block.bytes * block.kept
                places[b] = "clean" if block.kept else "dirty"
        there = ("clean", "dirty")
        most = max(most, sum(block.bytes for b, block in enumerate(problem.blocks)
                             if places[b] in there))  # fmt: skip
        for b, block in enumerate(problem.blocks):
            if block.uses and block.uses[-1] == step:
                places[b] = "gone"
    return moved, most


@pytest.mark.parametrize("equal", [True, False], ids=["equal sizes", "sizes"])
@pytest.mark.parametrize("part", range(5))
def test_algorithm_1_moves_as_few_bytes_as_an_integer_program(part, equal):
    """300 random DAGs in all, those of benchmarks/graph/spill.py."""
    for seed in range(30 * part, 30 * part + 30):
        share = (0.0, 0.1, 0.3, 0.6)[seed % 4]
        problem = random_dag(seed, steps=8 + seed % 9, equal=equal, share=share)
        found = _C.schedule_transfers(problem)
        assert found.to_host + found.to_device == fewest_bytes(problem), f"seed {seed}"
        assert found.least == found.to_host + found.to_device, f"seed {seed}: proven"
        for policy in ("lru", "belady", "none"):
            other = _C.schedule_transfers(problem, policy)
            assert found.to_host + found.to_device <= other.to_host + other.to_device, (
                f"seed {seed}: {policy}"
            )
            assert followed(problem, other)[0] == other.to_host + other.to_device


@pytest.mark.costly(cases=4)
@pytest.mark.parametrize("seed", range(12))
def test_long_lists_are_never_worse_than_lru_or_belady(seed):
    problem = random_dag(1000 + seed, steps=300, equal=False, share=(0.05, 0.2, 0.5)[seed % 3])
    found = _C.schedule_transfers(problem)
    moved, most = followed(problem, found)
    assert moved == found.to_host + found.to_device, f"seed {seed}"
    assert most <= problem.capacity, f"seed {seed}"
    assert found.least <= moved, f"seed {seed}"
    for policy in ("lru", "belady", "none"):
        other = _C.schedule_transfers(problem, policy)
        assert moved <= other.to_host + other.to_device, f"seed {seed}: {policy}"
