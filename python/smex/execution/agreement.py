"""Whether ranks have alike what the program takes for the same: whole inputs, and replicas."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from smex.distributed.relayout import Boxes, Move, Relayout, Tiles, whole_at
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
        compared = [
            (name, tensor, _OF_INPUT)
            for name, tensor in zip(names, inputs, strict=False)
            if self._whole_inputs
        ]
        first_own = self._world.workers[0]
        for name, cut in sorted(state.cuts.items()):
            if all(box == cut.boxes[0] for box in cut.boxes) and cut.boxes[0][0]:
                tile = cut.tiles[first_own]
                assert tile is not None
                compared.append((name, tile, _OF_REPLICA))
        if not compared:
            return
        samples = [_sampled(tensor, count) for _, tensor, count in compared]
        everyone = self._gathered(torch.cat(samples), state)
        begin = 0
        for (name, tensor, count), sample in zip(compared, samples, strict=True):
            found = everyone[:, begin : begin + len(sample)]
            begin += len(sample)
            for rank in range(1, len(found)):
                if not _are_close(found[rank], found[0], tensor.dtype):
                    _refuse(name, rank, is_input=count == _OF_INPUT)

    def _gathered(self, sample: torch.Tensor, state: ShardedState) -> torch.Tensor:
        """Returns the rows of all ranks, by a program: a rank that does something else is found."""
        world = self._world
        firsts = [world.ranks.index(rank) for rank in range(world.size)]
        width = len(sample)
        boxes: Boxes = [(False, [])] * len(world.ranks)
        for rank, worker in enumerate(firsts):
            boxes[worker] = (True, [(rank, rank + 1), (0, width)])
        wanted = whole_at([world.size, width], firsts, len(world.ranks))
        tiles: Tiles = [None] * len(world.ranks)
        own = firsts[world.rank]
        tiles[own] = sample.reshape(1, -1).to(state.devices[own])
        move = Move(boxes, wanted, torch.float64, "samples")
        brought = Relayout(world, state.devices, [move], state.net_number).run([tiles])
        whole = brought[0][own]
        assert whole is not None
        return whole.cpu()


def _sampled(tensor: torch.Tensor, count: int) -> torch.Tensor:
    """Returns elements of a tensor, spread over it, as numbers."""
    flat = tensor.detach().reshape(-1)
    some = flat[:: max(1, flat.numel() // count)][:count]
    if some.is_complex():
        some = torch.view_as_real(some.resolve_conj()).reshape(-1)
    return some.to("cpu", torch.float64)


def _are_close(a: torch.Tensor, b: torch.Tensor, dtype: torch.dtype) -> bool:
    is_exact = not (dtype.is_floating_point or dtype.is_complex)
    tolerance = 0.0 if is_exact else _TOLERANCE.get(dtype, 1e-3)
    scale = b.nan_to_num(0, 0, 0).abs().mean().item() if len(b) else 0.0
    return torch.allclose(a, b, rtol=tolerance, atol=tolerance * scale, equal_nan=True)


def _refuse(what: str, rank: int, is_input: bool) -> None:
    if not is_input:
        raise SmexValueError(
            f'partition: ranks 0 and {rank} hold parameter or buffer "{what}" and have different '
            "values: what ranks write to a net they write alike (seed them alike before net.apply, "
            "load the same on all of them); net.load_state_dict with the same values on all ranks, "
            "or smex.load, makes them equal"
        )
    raise SmexValueError(
        f'partition: ranks 0 and {rank} passed different tensors as "{what}"; with '
        'inputs="whole" all ranks pass the same whole batch (shuffle with a generator of the same '
        'seed on all ranks, without a DistributedSampler); inputs="local" takes rows of their own'
    )
