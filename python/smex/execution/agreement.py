"""Whether ranks have alike what the program takes for the same: whole inputs, and replicas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from smex.distributed.world import World
from smex.errors import SmexValueError
from smex.execution.shards import ShardedState

_OF_INPUT, _OF_REPLICA = 4096, 64
"""So many elements of a tensor are compared, spread over it."""
_TOLERANCE = {torch.float16: 3e-2, torch.bfloat16: 3e-2}
"""What differs by less is rounding, of processors that are not alike; of other types 1e-3."""


class Agreement:
    """Compares ranks in the calls 1, 2, 4, 8 and so on of a net.

    Args:
        world: of the processes.
        whole_inputs: each rank passes the whole batch.
    """

    def __init__(self, world: World, whole_inputs: bool):
        self._world = world
        self._whole_inputs = whole_inputs
        self._calls = 0

    def check(
        self, inputs: Sequence[torch.Tensor], names: Sequence[str], state: ShardedState
    ) -> None:
        """Counts a call, and raises SmexValueError on all ranks where they differ.

        Args:
            inputs: of the call.
            names: theirs.
            state: the shards.
        """
        self._calls += 1
        if self._world.is_alone or self._calls & (self._calls - 1):
            return
        own: dict[Any, list[float]] = {}
        if self._whole_inputs:
            own |= {name: _sampled(x, _OF_INPUT) for name, x in zip(names, inputs, strict=False)}
        for name, cut in state.cuts.items():
            for tile, worker in cut.unique:
                held, box = cut.boxes[worker]
                if held:
                    own[(name, tuple(box))] = _sampled(tile, _OF_REPLICA)
        everyone = self._world.gather(own)
        first: dict[Any, tuple[int, list[float]]] = {}
        for rank, found in enumerate(everyone):
            for what, numbers in found.items():
                other, wanted = first.setdefault(what, (rank, numbers))
                if not _are_close(numbers, wanted):
                    _refuse(what, other, rank)


def _sampled(tensor: torch.Tensor, count: int) -> list[float]:
    """Returns elements of a tensor, and before them by how much others may differ from these."""
    flat = tensor.detach().reshape(-1)
    step = max(1, flat.numel() // count)
    some = flat[::step][:count]
    if some.is_complex():
        some = torch.view_as_real(some.resolve_conj()).reshape(-1)
    is_exact = not some.is_floating_point()
    tolerance = 0.0 if is_exact else _TOLERANCE.get(some.dtype, 1e-3)
    return [tolerance, float(tensor.numel()), *some.to("cpu", torch.float64).tolist()]


def _are_close(numbers: list[float], wanted: list[float]) -> bool:
    if len(numbers) != len(wanted):
        return False
    a, b = torch.tensor(numbers[1:]), torch.tensor(wanted[1:])
    scale = b.nan_to_num(0, 0, 0).abs().mean().item() if numbers[0] else 0.0
    return torch.allclose(a, b, rtol=numbers[0], atol=numbers[0] * scale, equal_nan=True)


def _refuse(what: Any, one: int, other: int) -> None:
    if isinstance(what, tuple):
        raise SmexValueError(
            f'partition: ranks {one} and {other} both hold parameter or buffer "{what[0]}", or the '
            "same part of it, and have different values: what ranks write to a net they write "
            "alike (seed them alike before net.apply, load the same on all of them); "
            "net.load_state_dict with the same values on all ranks, or smex.load, makes them equal"
        )
    raise SmexValueError(
        f'partition: ranks {one} and {other} passed different tensors as "{what}"; with '
        'inputs="whole" all ranks pass the same whole batch (shuffle with a generator of the same '
        'seed on all ranks, without a DistributedSampler); inputs="local" takes rows of their own'
    )
