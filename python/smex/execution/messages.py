"""In which order processes of several hosts send each other the tiles of a program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from smex._C import Collective, Message, predicted_seconds, simulate
from smex.distributed.world import World
from smex.planning.machine import GB, Level, Machine
from smex.planning.placed import view_targets
from smex.planning.plan import Plan
from smex.planning.plan_file import machine_of


def message_order(
    world: World, plan: Plan, program: Any, collectives: Sequence[Collective]
) -> tuple[list[Message], list[Message]]:
    """Returns which messages of the forward and the backward list go before which others.

    It is the order of the program's predicted course: of the tiles that are there, the one goes
    first that is needed first. All processes call this together.

    Shared memory and collectives have an order of their own, that of relayouts, which the course
    does not know. Beside them messages in another one could wait in a circle, so they keep it too.

    Args:
        world: of the processes.
        plan: whose machine tells how long instructions and links take. That of rank 0 counts, as
            ranks may have measured theirs each for itself; without one, `_nominal`.
        program: of the plan.
        collectives: that carry some of its relayouts.

    Returns:
        Two lists; empty where not all goes by messages.

    Raises:
        RankFailure: a process has failed.
    """
    if world.links is None or not world.links.sends_messages_only or collectives:
        return [], []
    machines = world.gather(plan.machine and plan.machine.contents())
    machine = machine_of(machines[0]) if machines[0] else _nominal(len(world.ranks))
    native = machine.native(plan.mesh)
    seconds = predicted_seconds(program, native, view_targets(plan.graph))
    timeline = simulate(program, seconds, list(plan.mesh), native, ranks=list(world.ranks))
    forward, backward = timeline.messages
    return forward, backward


def _nominal(workers: int) -> Machine:
    """Cores of today's servers on Ethernet of 10 Gbit/s."""
    return Machine(
        "cores on Ethernet", {"float32": 5e10, "float64": 2.5e10}, 10 * GB, 5e-6, 16 * GB,
        (Level(workers, 50e-6, 1.1 * GB),),
    )  # fmt: skip
