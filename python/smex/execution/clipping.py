"""The norm of all gradients of a net, whose shards are spread over workers and processes."""

from __future__ import annotations

import torch

from smex.distributed.relayout import Boxes, Move, Relayout, Tiles
from smex.errors import SmexRuntimeError, SmexTypeError, SmexValueError
from smex.execution.module import PartitionedModule
from smex.execution.shards import ShardedState


def clip_grad_norm_(
    net: PartitionedModule,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
) -> torch.Tensor:
    """Scales all gradients so that their norm, as that of one vector, is at most `max_norm`.

    Every element of a gradient counts once, however many workers hold it. The result is the same
    for workers that are threads and for those in processes, which each call this.

    Args:
        net: what `smex.partition` returned, after its backward pass.
        max_norm: of all gradients together, at least 0.
        norm_type: p of the p-norm; `inf` for the largest magnitude.
        error_if_nonfinite: whether a norm that is nan or infinite is an error.

    Returns:
        The norm before, a scalar on the CPU.

    Raises:
        SmexTypeError: `net` is no net.
        SmexValueError: `max_norm` is negative.
        SmexRuntimeError: the norm is not finite, with `error_if_nonfinite`; nothing is changed.
    """
    if not isinstance(net, PartitionedModule):
        raise SmexTypeError(
            f"clip_grad_norm_: expected what smex.partition returned, got {type(net).__name__}; "
            "torch.nn.utils.clip_grad_norm_ clips the gradients of other modules"
        )
    if not max_norm >= 0:
        raise SmexValueError(f"clip_grad_norm_: max_norm must be at least 0, got {max_norm!r}")
    state = net._state
    with state.world.during("smex.clip_grad_norm_"):
        total = state.cached(_TileNorms).total(float(norm_type))
    if error_if_nonfinite and not torch.isfinite(total):
        raise SmexRuntimeError(
            f"clip_grad_norm_: the norm of order {norm_type} of all gradients is {total.item()}; "
            "error_if_nonfinite=False scales by it all the same"
        )
    scale = torch.clamp(max_norm / (total + 1e-6), max=1.0)
    with torch.no_grad():
        for cut in state.cuts.values():
            for tile, _ in cut.unique:
                if tile.grad is not None:
                    tile.grad.mul_(scale.to(tile.grad.device, tile.grad.dtype))
    return total


class _TileNorms:
    """The norms of the distinct tiles of all gradients, in one order in all processes."""

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

    def total(self, order: float) -> torch.Tensor:
        tiles: Tiles = [None] * len(self._owned)
        for worker in self._workers:
            norms = [self._norm(tile, order) for tile in self._owned[worker]]
            stacked = torch.stack(norms) if norms else torch.zeros(0, dtype=self._dtype)
            tiles[worker] = stacked.to(self._devices[worker])
        whole = self._relayout.run([tiles])[0][self._own]
        assert whole is not None
        return torch.linalg.vector_norm(whole.cpu(), order)

    def _norm(self, tile: torch.Tensor | None, order: float) -> torch.Tensor:
        if tile is None or tile.grad is None or tile.numel() == 0:
            return torch.zeros((), dtype=self._dtype)
        return torch.linalg.vector_norm(tile.grad, order, dtype=self._dtype).cpu()
