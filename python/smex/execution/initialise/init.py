"""`smex.init`: values for a net, by place, the same however it is divided."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from smex.capture.session import tracing
from smex.capture.swap import StateSlot, all_slots
from smex.errors import SmexRuntimeError, SmexTypeError, SmexValueError
from smex.execution.differences import refuse_differences
from smex.execution.initialise.run import recorded
from smex.execution.initialise.values import Values
from smex.execution.module import _CAPTURES, PartitionedModule


def init(
    net: PartitionedModule,
    seed: int = 0,
    init_fn: Callable[[torch.nn.Module], Any] | None = None,
    *,
    progress: Callable[[str, int, int], Any] | None = None,
) -> dict[str, Any]:
    """Initialises a net, whether its model is on the meta device or has values.

    The model's modules initialise themselves (`reset_parameters`, children before parents, as they
    were made), then `init_fn` changes what it likes. Neither computes anything: their calls are
    recorded, and each worker computes its own tiles. Random numbers depend on the seed, the
    tensor's name, how many times it was drawn, and the element's place: the values are the same,
    bit by bit, for any number of workers or processes and any plan, and do not depend on other
    tensors of the model. They are not those that torch's generator draws, but of the same
    distributions, by the formulas of `torch.nn.init`. All are computed on the CPU.

    What is no function of the elements at one place, such as the QR factorisation of
    `orthogonal_`, every process computes as a whole. Otherwise the memory is that of the shards.
    All processes of a net call this.

    Buffers that have values and that nothing sets keep them.

    Args:
        net: what `smex.partition` returned, captured (`args=`, or called once).
        seed: 0 to 2**63 - 1.
        init_fn: called for each module, children before parents, as by `nn.Module.apply`; what it
            sets last counts. For a method of the whole model:
            `lambda module: module.init_weights() if module is model else None`.
        progress: called with a tensor's name after it has values, how many have, and how many
            will.

    Returns:
        An empty dictionary, where `smex.load` returns what was saved beside the net.

    Raises:
        SmexRuntimeError: the net was not captured; nothing gives values to a parameter, or to a
            buffer on the meta device; the initialisation fails, reads values (`.item()`, an `if`),
            changes shapes or ties, or draws by an operator that cannot be divided: found before
            anything is computed. An operator fails when it is computed: its tensor has no values
            then. Or ranks give different seeds.
        SmexTypeError: not a net, or a seed that is no int.
        SmexValueError: a seed out of range.

    Example:
        >>> with torch.device("meta"):
        ...     model = torch.nn.Linear(64, 64)
        >>> x = torch.randn(8, 64)
        >>> net = smex.partition(model, workers=2, args=(x,))
        >>> smex.init(net, seed=1)
        {}
        >>> net(x).shape
        torch.Size([8, 64])
    """
    if not isinstance(net, PartitionedModule):
        raise SmexTypeError(f"init: expected what smex.partition returns, got {type(net).__name__}")
    if not isinstance(seed, int) or isinstance(seed, bool):
        raise SmexTypeError(f"init: seed must be an int, got {seed!r}")
    if not 0 <= seed < 2**63:
        raise SmexValueError(f"init: seed must be from 0 to 2**63 - 1, got {seed}")
    if init_fn is not None and not callable(init_fn):
        raise SmexTypeError(f"init: init_fn must be a function of a module, got {init_fn!r}")
    net._look()
    model, loss_fn = net._model[0], net._loss_fn
    slots = all_slots(model, loss_fn)
    _refuse_uncut(net, slots)
    with net._world.during("smex.init"):
        told = {"seed": str(seed), "init_fn": getattr(init_fn, "__qualname__", str(type(init_fn)))}
        refuse_differences(net._world, "init", told, "every rank must give the same")
    values = Values(seed)
    kept = [slot.role == "buffer" and not slot.tensor.is_meta for slot in slots]
    with _CAPTURES, tracing():
        made = recorded([model, loss_fn], slots, kept, init_fn, values.number)
    todo = [(slot.names[0], view) for slot, view in zip(slots, made, strict=True) if view]
    net._usual = None  # the next call looks whether there are values
    with torch.no_grad():
        for number, (name, view) in enumerate(todo, 1):
            net._state.lose_values(name)
            try:
                for tile, box in net._state.tiles_of(name, net._world.workers):
                    values.fill(tile, view, box)
            except (RuntimeError, ValueError) as error:  # of an operator
                raise SmexRuntimeError(f'init: computing "{name}" fails: {error}') from error
            values.forget()
            net._state.has_values([name])
            if progress is not None:
                progress(name, number, len(todo))
    return {}


def _refuse_uncut(net: PartitionedModule, slots: list[StateSlot]) -> None:
    for slot in slots:
        if slot.names[0] not in net._state.cuts:
            raise SmexRuntimeError(
                f'init: "{slot.names[0]}" has no shards yet, which exist once the model is '
                "captured: pass example inputs, smex.partition(model, ..., args=(x,))"
            )
