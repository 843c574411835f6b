"""Steps that all processes take, or none."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from smex import errors
from smex.distributed.world import World

Result = TypeVar("Result")


def together(world: World, do: Callable[[], Result]) -> list[Result]:
    """Runs a function in every process and returns the results by rank.

    What fails in one is raised in all, so that none waits for it: as the error of SMEX that it is
    there, or else as a RankFailure. The text names the lowest rank that failed. A process that is
    alone raises its own error.
    """
    if world.is_alone:
        return [do()]
    mine, failure = None, None
    try:
        mine = do()
    except Exception as error:  # whatever it is, the others have to hear of it
        failure = error
    told = None if failure is None else (type(failure).__name__, str(failure))
    everyone = world.gather((told, mine))
    for rank, (failed, _) in enumerate(everyone):
        if failed is not None:
            kind, text = failed
            if kind in errors.__all__:
                raise getattr(errors, kind)(f"rank {rank}: {text}") from failure
            text = f"{kind}: {text}"
            raise errors.RankFailure(f"rank {rank}: {text}", rank, "", text) from failure
    return [result for _, result in everyone]
