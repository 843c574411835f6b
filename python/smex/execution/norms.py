"""The norm of gradients of a net, whose shards are spread over workers and processes."""

from __future__ import annotations

import functools
import math
import weakref
from collections.abc import Callable, Collection, Iterable
from typing import Any

import torch
from torch.nn.utils import clip_grad

from smex.distributed.relayout import Boxes, Move, Relayout, Tiles
from smex.errors import SmexRuntimeError
from smex.execution.shards import ShardedState


class GradientNorms:
    """The norms of the distinct tiles of all gradients, in one order in all processes.

    Every element of a gradient counts once, however many workers hold it.
    """

    def __init__(self, state: ShardedState):
        workers = len(state.devices)
        self._own = state.world.workers[0]
        owned: list[list[torch.Tensor | None]] = [[] for _ in range(workers)]
        dtypes = set()
        for cut in state.cuts.values():
            if not isinstance(cut.source, torch.nn.Parameter):
                continue
            dtypes.add(cut.source.dtype)
            seen = set()
            for worker, (held, box) in enumerate(cut.boxes):
                if held and tuple(box) not in seen:
                    seen.add(tuple(box))
                    owned[worker].append(cut.tiles[worker])
        self._owned = owned
        self._dtype = torch.float64 if torch.float64 in dtypes else torch.float32
        ends = torch.tensor([len(tiles) for tiles in owned]).cumsum(0).tolist()
        boxes: Boxes = [
            (True, [(end - len(tiles), end)]) for tiles, end in zip(owned, ends, strict=True)
        ]
        everywhere = state.whole_everywhere([ends[-1]])
        self._workers = state.world.workers
        self._devices = state.devices
        self._relayout = Relayout(
            state.world, state.devices, [Move(boxes, everywhere, self._dtype)], state.net_number
        )

    def total(self, order: float, chosen: Collection[int] | None = None) -> torch.Tensor:
        """Returns the norm of the gradients as one vector, a scalar on the CPU.

        Every process calls this.

        Args:
            order: p of the p-norm.
            chosen: `id`s of this process's gradients that count; all by default.
        """
        tiles: Tiles = [None] * len(self._owned)
        for worker in self._workers:
            norms = [self._norm(tile, order, chosen) for tile in self._owned[worker]]
            stacked = torch.stack(norms) if norms else torch.zeros(0, dtype=self._dtype)
            tiles[worker] = stacked.to(self._devices[worker])
        whole = self._relayout.run([tiles])[0][self._own]
        assert whole is not None
        return torch.linalg.vector_norm(whole.cpu(), order)

    def _norm(
        self, tile: torch.Tensor | None, order: float, chosen: Collection[int] | None
    ) -> torch.Tensor:
        grad = None if tile is None else tile.grad
        if grad is None or grad.numel() == 0 or (chosen is not None and id(grad) not in chosen):
            return torch.full((), 0.0 if order >= 0 else math.inf, dtype=self._dtype)
        return torch.linalg.vector_norm(grad, order, dtype=self._dtype).cpu()


def refuse_nonfinite(total: torch.Tensor, order: float) -> None:
    """Raises SmexRuntimeError where a norm is nan or infinite."""
    if not torch.isfinite(total):
        raise SmexRuntimeError(
            f"clip_grad_norm_: the norm of order {order} of all gradients is {total.item()}; "
            "error_if_nonfinite=False scales by it all the same"
        )


def count_in_torchs_norms(state: ShardedState) -> None:
    """Has torch's functions that take the norm of gradients take that of all processes.

    `torch.nn.utils.clip_grad_norm_` and `get_total_norm` see one process's shards. From here on
    they tell those of this net from other tensors, wherever they were imported. Nothing is done
    for a net whose elements this process has once each.
    """
    if not state.world.is_alone or len(set(state.devices)) > 1:
        _STATES.add(state)
        _teach_torch()


_STATES: weakref.WeakSet[ShardedState] = weakref.WeakSet()
"""Those of which a process has only a part, or some elements twice."""


@functools.cache
def _teach_torch() -> None:
    """Replaces the function inside of the one that torch's others and its users call."""
    known: Any = clip_grad._get_total_norm
    inner = known.__wrapped__
    for cell in known.__closure__:
        if cell.cell_contents is inner:
            cell.cell_contents = functools.partial(_total_norm, inner)


def _total_norm(
    torchs: Callable[..., torch.Tensor],
    tensors: torch.Tensor | Iterable[torch.Tensor],
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> torch.Tensor:
    """Does what the function of torch's does, with gradients of nets counted once."""
    listed = [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)
    order = float(norm_type)
    norms = []
    others = {id(tensor): tensor for tensor in listed}
    # In the order in which nets were made, which is the same on all ranks.
    for state in sorted(_STATES, key=lambda state: state.net_number):
        chosen = state.gradients() & others.keys()
        if chosen:
            for each in chosen:
                del others[each]
            with state.world.during("torch.nn.utils.clip_grad_norm_ or get_total_norm"):
                norms.append(state.cached(GradientNorms).total(order, chosen))
    if not norms:
        return torchs(listed, norm_type, error_if_nonfinite, foreach)
    if others:
        norms.append(torchs(list(others.values()), norm_type, False, foreach).to(norms[0]))
    total = norms[0] if len(norms) == 1 else torch.linalg.vector_norm(torch.stack(norms), order)
    if error_if_nonfinite:
        refuse_nonfinite(total, order)
    return total.to(listed[0].device)
