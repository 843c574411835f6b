"""Lists of steps that use memory, drawn, and the fewest bytes that any schedule of them moves."""

from __future__ import annotations

import numpy as np
from scipy.optimize import LinearConstraint, milp
from scipy.sparse import coo_array

from smex import _C


def random_dag(seed: int, steps: int, equal: bool, share: float) -> _C.SpillProblem:
    """Operators in the order of their list, each of a few operands and one or two results."""
    random = np.random.default_rng(seed)
    inputs = int(random.integers(1, 4))
    uses: list[list[int]] = [[] for _ in range(inputs)]
    for step in range(steps):
        known = len(uses)
        count = min(known, int(random.integers(1, 4)))
        recent = random.random() < 0.6
        among = np.arange(max(0, known - 4), known) if recent else np.arange(known)
        for block in random.choice(among, size=min(count, len(among)), replace=False):
            uses[block].append(step)
        uses += [[step] for _ in range(int(random.integers(1, 3)))]
    sizes = [1 if equal else int(random.integers(1, 12)) for _ in uses]
    blocks = [
        _C.SpillBlock(size, used, on_host=n < inputs, kept=n >= inputs and random.random() < 0.1)
        for n, (size, used) in enumerate(zip(sizes, uses, strict=True))
    ]
    problem = _C.SpillProblem(steps, 0, blocks)
    least = max(problem.bytes_of_steps())
    alive = most_alive(problem)
    problem.capacity = least + int(share * max(0, alive - least))
    return problem


def most_alive(problem: _C.SpillProblem) -> int:
    """Bytes at the peak where nothing leaves."""
    held = np.zeros(problem.num_steps + 1)
    for block in problem.blocks:
        if block.uses:
            held[block.uses[0]] += block.bytes
            held[block.uses[-1] + 1] -= block.bytes
    return int(np.cumsum(held).max())


def fewest_bytes(problem: _C.SpillProblem) -> int:
    """The integer program: where a block is at each step, what comes back and what is written."""
    costs: list[float] = []
    fixed = 0
    rows: list[tuple[dict[int, float], float, float]] = []
    held: list[dict[int, float]] = [{} for _ in range(problem.num_steps)]
    ones: set[int] = set()

    def variable(cost: float, is_one: bool = False) -> int:
        costs.append(cost)
        if is_one:
            ones.add(len(costs) - 1)
        return len(costs) - 1

    for block in problem.blocks:
        if not block.uses:
            continue
        first, last = block.uses[0], block.uses[-1]
        written = None
        if block.on_host:
            fixed += block.bytes  # it comes for its first use
        elif block.kept:
            fixed += block.bytes
        else:
            written = variable(block.bytes)
        before = None
        for step in range(first, last + 1):
            here = variable(0, is_one=step in block.uses)
            held[step][here] = block.bytes
            if before is not None:
                comes = variable(block.bytes)
                rows.append(({comes: 1, here: -1, before: 1}, 0, np.inf))
            if written is not None:
                rows.append(({written: 1, here: 1}, 1, np.inf))
            before = here
    rows += [(of_step, -np.inf, problem.capacity) for of_step in held if of_step]
    entries = [(n, at, value) for n, (row, _, _) in enumerate(rows) for at, value in row.items()]
    places = tuple(np.array([entry[i] for entry in entries]) for i in (0, 1))
    matrix = coo_array((np.array([entry[2] for entry in entries]), places),
                       shape=(len(rows), len(costs)))  # fmt: skip
    found = milp(
        np.array(costs),
        integrality=np.ones(len(costs)),
        bounds=(np.array([float(n in ones) for n in range(len(costs))]), np.ones(len(costs))),
        constraints=LinearConstraint(matrix, [r[1] for r in rows], [r[2] for r in rows]),
        options={"mip_rel_gap": 0.0},
    )
    assert found.success, found.message
    return fixed + round(found.fun)
