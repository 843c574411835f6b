"""One run of a program: what it is given, what it returns and changes, and its gradients."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from smex._C import moved_bytes
from smex.execution.compiled import Compiled
from smex.execution.shards import ShardedState, Tiles, assembled, sliced

_STATE = ("parameter", "buffer")


class Iteration:
    """The forward program of one call, and its backward program when it is asked for.

    Args:
        compiled: the call's program.
        state: the shards.
        inputs: whole tensors of the call.
    """

    def __init__(self, compiled: Compiled, state: ShardedState, inputs: Sequence[torch.Tensor]):
        self.compiled = compiled
        named = compiled.captured.values
        read = [named[i].name for i in compiled.binding_of if named[i].role in _STATE]
        self._cuts = {name: state.cuts[name] for name in read}  # whatever they are called later
        self._devices = state.devices
        seed = int(torch.empty((), dtype=torch.int64).random_().item()) if compiled.draws else 0
        self.session = compiled.executor.start(list(self._bound(inputs)), seed=seed)
        self.session.run_forward()

    def _bound(self, inputs: Sequence[torch.Tensor]) -> Iterator[Tiles | None]:
        """Yields the tiles of everything that the program reads.

        Tangents come when backward begins.
        """
        compiled = self.compiled
        refs = compiled.captured.input_refs
        by_id = {ref.id: tensor for ref, tensor in zip(refs, inputs, strict=True)}
        for binding, position in compiled.binding_of.items():
            value = compiled.captured.values[binding]
            if value.role == "tangent":
                yield None
                continue
            if value.role in _STATE:
                held = self._cuts[value.name].tiles
                tiles: Tiles = [None if tile is None else tile.detach() for tile in held]
            elif value.role == "constant":
                tiles = self._scatter(position, compiled.constants[binding])
            else:
                tiles = self._scatter(position, by_id[value.id])
            if binding in compiled.read_back and binding in compiled.updated:
                # This call's new value comes before backward reads the old one.
                tiles = [None if tile is None else tile.clone() for tile in tiles]
            yield tiles

    def _scatter(self, position: int, whole: torch.Tensor) -> Tiles:
        """Returns the tiles of an input of the program."""
        whole = whole.detach().resolve_conj().resolve_neg()
        slots = self.compiled.program.inputs[position].slots
        boxes, devices = self.compiled.regions[position], self._devices
        return [
            None if slot < 0 else sliced(whole, box).to(device).contiguous()
            for slot, box, device in zip(slots, boxes, devices, strict=True)
        ]

    def _gather(self, position: int) -> torch.Tensor:
        """Returns the whole of an output of the program, in memory that is none of the inputs'."""
        binding = self.compiled.program.outputs[position]
        shape = list(self.compiled.captured.values[binding.value].shape)
        boxes = [
            (slot >= 0, list(box)) for slot, box in zip(binding.slots, binding.regions, strict=True)
        ]
        tiles = self.session.outputs(position)
        whole = assembled(shape, boxes, tiles)
        is_tile = any(whole is tile for tile in tiles)
        return whole.clone() if is_tile and binding.value in self.compiled.borrowed else whole

    # ---- forward ----

    def results(self) -> list[torch.Tensor]:
        """Returns the whole tensors that the model returns."""
        outputs = self.compiled.captured.outputs
        return [self._gather(n) for n, output in enumerate(outputs) if output.kind == "output"]

    def write_updates(self, inputs: Sequence[torch.Tensor]) -> None:
        """Writes what the model changes: parameters, buffers, and the caller's own `inputs`."""
        # All values are there before one is written: they may be made of what others were.
        for tensor, new in [*self._state_updates(), *self._input_updates(inputs)]:
            tensor.copy_(new)

    def _state_updates(self) -> list[tuple[torch.Tensor, torch.Tensor]]:
        found: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        for position, output in enumerate(self.compiled.captured.outputs):
            if output.kind != "buffer_update" or output.value is None:
                continue
            is_borrowed = output.value in self.compiled.borrowed
            made = self.session.outputs(position)
            for tile, new in zip(self._cuts[output.name].tiles, made, strict=True):
                if tile is not None:
                    found.setdefault(id(tile), (tile, new.clone() if is_borrowed else new))
        return list(found.values())

    def _input_updates(
        self, inputs: Sequence[torch.Tensor]
    ) -> list[tuple[torch.Tensor, torch.Tensor]]:
        captured = self.compiled.captured
        place = {ref.id: n for n, ref in enumerate(captured.input_refs)}
        return [
            (inputs[place[output.target]], self._gather(position))
            for position, output in enumerate(captured.outputs)
            if output.kind == "input_update" and output.target is not None
        ]

    # ---- backward ----

    def run_backward(self, grads: Sequence[torch.Tensor | None]) -> None:
        """Runs the backward program for the gradients of the results; None is zero."""
        captured = self.compiled.captured
        for tangent, grad in zip(captured.tensor_tangents, grads, strict=True):
            if tangent is None:
                continue
            value = captured.values[tangent]
            whole = torch.zeros(value.shape, dtype=value.dtype) if grad is None else grad
            position = self.compiled.binding_of[tangent]
            self.session.set_input(position, self._scatter(position, whole))
        self.session.run_backward()

    def gradients(
        self, grads: Sequence[torch.Tensor | None], devices: Sequence[torch.device]
    ) -> list[torch.Tensor | None]:
        """Returns the gradients of the inputs, on `devices`, and of the shards.

        None: reads no given grad.

        Args:
            grads: what `run_backward` was given.
            devices: of the inputs.
        """
        captured = self.compiled.captured
        given = {
            tangent
            for tangent, grad in zip(captured.tensor_tangents, grads, strict=True)
            if grad is not None
        }
        position_of = {
            output.target: position
            for position, output in enumerate(captured.outputs)
            if output.kind == "gradient"
            and output.value is not None
            and not given.isdisjoint(self.compiled.tangents_of[output.value])
        }
        result: list[torch.Tensor | None] = []
        for ref, device in zip(captured.input_refs, devices, strict=True):
            found = position_of.get(ref.id)
            result.append(None if found is None else self._gather(found).to(device))
        for value in self.compiled.parameters:
            found = position_of.get(value.id)
            tiles = None if found is None else self.session.take_outputs(found)
            for _, worker in self._cuts[value.name].unique:
                result.append(None if tiles is None else tiles[worker])
        return result

    # ---- measurements ----

    def stats(self) -> dict[str, Any]:
        """Returns what was measured, beside what the plan predicts."""
        measured = dict(self.session.stats())
        measured["bytes_moved"] = sum(measured["moved_bytes"].values())
        measured["predicted_bytes_moved"] = moved_bytes(
            self.compiled.program, backward=measured["backward_seconds"] > 0
        )
        measured["predicted_peak_bytes"] = self.compiled.plan.peak_bytes()
        measured["plan_bytes"] = self.compiled.plan.total_bytes
        return measured
