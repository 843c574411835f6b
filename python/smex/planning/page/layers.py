"""How the weights and activations of each layer are cut, along the network (Tofu, Figure 11)."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterator, Sequence

from smex._C import home_tiles
from smex.capture.records import ValueRecord, returns_view
from smex.planning.markup import escape, section
from smex.planning.page.names import numbers_words
from smex.planning.page.tiles import legend, tiles_svg
from smex.planning.placed import PlacedGraph
from smex.planning.semantic import SemanticGraph
from smex.text import placement_words, shape_words, size_words

_SMALLEST, _LARGEST = 24.0, 80.0  # sides of a picture, in pixels
_WORDS = (
    "The forward calls that use a weight, in the order of the program: above, the weight (↓ "
    "dimension 0, for convolutions the output channels; → dimension 1, the input channels); below, "
    "the activations that the call reads and makes (↓ dimension 0, the batch; → dimension 1, the "
    "channels). Boxes are tiles in the colours of their workers; a hatched box is held by several, "
    "as replicas or cut along another dimension. Sides grow with the logarithm of a tensor's bytes."
)


@dataclasses.dataclass(frozen=True)
class _Tensor:
    """What of a tensor is drawn."""

    value: int
    shape: tuple[int, ...]
    itemsize: int
    placement: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.itemsize

    def alike(self) -> tuple[object, ...]:
        return self.shape, self.itemsize, self.placement


@dataclasses.dataclass(frozen=True)
class _Layer:
    """A call that uses a weight."""

    module: str
    target: str
    weight: _Tensor
    source: _Tensor
    result: _Tensor
    calls: int = 1


@dataclasses.dataclass
class _Block:
    """Layers of one numbered module, and the numbers of the modules that are like it."""

    prefix: str
    numbers: list[int]
    layers: list[_Layer]

    def alike(self) -> tuple[object, ...]:
        skipped = len(self.prefix) and len(f"{self.prefix}{self.numbers[0]}")
        return self.prefix, *(
            (
                layer.module[skipped:],
                layer.target,
                layer.calls,
                *(tensor.alike() for tensor in (layer.weight, layer.source, layer.result)),
            )
            for layer in self.layers
        )


def layers_section(plan: PlacedGraph) -> str:
    """Returns the layers along the network; repeated blocks that are cut alike are drawn once."""
    layers = list(_merged_calls(_layers(plan)))
    if not layers:
        return ""
    blocks = _repeated(_blocks(layers))
    drawn = _Pictures(plan, [layer for block in blocks for layer in block.layers])
    boxes = "\n".join(drawn.block(block) for block in blocks)
    return section(
        "Layers", f"<p>{_WORDS}</p>", legend(plan.workers), f'<div class="flow">\n{boxes}\n</div>'
    )


# ---- which calls ----


def _layers(plan: PlacedGraph) -> Iterator[_Layer]:
    """Forward calls with a weight of two or more dimensions and an activation."""
    graph = plan.graph
    weights = _weights(graph)
    for op in graph.captured.ops:
        if op.backward or returns_view(op) or op.outputs[0] is None:
            continue
        inputs = op.inputs()
        used = [weights[i] for i in inputs if i in weights]
        others = [i for i in inputs if i not in weights]
        if not used or not others:
            continue
        source = max(others, key=lambda i: math.prod(graph.captured.values[i].shape))
        yield _Layer(
            op.module_path, op.target,
            _tensor(plan, used[0]), _tensor(plan, source), _tensor(plan, op.outputs[0]),
        )  # fmt: skip


def _weights(graph: SemanticGraph) -> dict[int, int]:
    """Parameters of two or more dimensions by their own ids and those of their views."""
    values = graph.captured.values
    found = {v.id: v.id for v in values if v.role == "parameter" and len(v.shape) >= 2}
    for op in graph.captured.ops:
        if returns_view(op) and op.inputs() and op.inputs()[0] in found:
            for output in op.outputs:
                if output is not None:
                    found[output] = found[op.inputs()[0]]
    return found


def _tensor(plan: PlacedGraph, value_id: int) -> _Tensor:
    value: ValueRecord = plan.graph.captured.values[value_id]
    placement = tuple(plan.value_choices[value_id])
    return _Tensor(value_id, tuple(value.shape), value.dtype.itemsize, placement)


def _merged_calls(layers: Iterator[_Layer]) -> Iterator[_Layer]:
    """Unrolled steps that use a weight in the same way as one layer, at the first one's place."""
    found: dict[tuple[object, ...], list[_Layer]] = {}
    for layer in layers:
        key = (layer.weight.value, layer.target, layer.source.alike(), layer.result.alike())
        found.setdefault(key, []).append(layer)
    for same in found.values():
        yield dataclasses.replace(same[0], calls=len(same))


# ---- repeated blocks ----


def _blocks(layers: Sequence[_Layer]) -> list[_Block]:
    """Consecutive layers below the same numbered module; layers of none are blocks of their own."""
    blocks: list[_Block] = []
    for layer in layers:
        prefix, number = _numbered(layer.module)
        last = blocks[-1] if blocks else None
        if last and number is not None and (last.prefix, last.numbers) == (prefix, [number]):
            last.layers.append(layer)
        else:
            blocks.append(_Block(prefix, [] if number is None else [number], [layer]))
    return blocks


def _numbered(module: str) -> tuple[str, int | None]:
    """`layer3.` and 5 of `layer3.5.conv2`."""
    parts = module.split(".")
    for position, part in enumerate(parts):
        if part.isdecimal():
            return "".join(f"{before}." for before in parts[:position]), int(part)
    return "", None


def _repeated(blocks: Sequence[_Block]) -> list[_Block]:
    """Neighbours that differ in their number alone become one."""
    found: list[_Block] = []
    for block in blocks:
        if found and block.numbers and found[-1].numbers and block.alike() == found[-1].alike():
            found[-1] = dataclasses.replace(found[-1], numbers=[*found[-1].numbers, *block.numbers])
        else:
            found.append(block)
    return found


# ---- pictures ----


class _Pictures:
    """Draws layers whose tiles have been asked for at once."""

    def __init__(self, plan: PlacedGraph, layers: Sequence[_Layer]):
        self._mesh = plan.mesh
        self._weightings = plan.graph.weighting_names
        tensors = {
            tensor.value: tensor
            for layer in layers
            for tensor in (layer.weight, layer.source, layer.result)
        }
        tiles = home_tiles(plan.graph.native, plan.native, list(tensors))
        self._tiles = dict(zip(tensors, tiles, strict=True))
        sizes = [math.log(max(tensor.nbytes, 1)) for tensor in tensors.values()]
        self._least, self._most = min(sizes), max(sizes)

    def block(self, block: _Block) -> str:
        """Returns a frame with the layers of a block side by side."""
        if block.numbers:
            title = f"{block.prefix}{numbers_words(tuple(sorted(block.numbers)))}"
        else:
            title = block.layers[0].module or "model"
        count = f" × {len(block.numbers)}" if len(block.numbers) > 1 else ""
        skipped = len(f"{block.prefix}{block.numbers[0]}.") if block.numbers else len(title) + 1
        layers = "\n".join(self._layer(layer, layer.module[skipped:]) for layer in block.layers)
        return (
            f'<div class="block"><b>{escape(title)}{count}</b>\n'
            f'<div class="layers">\n{layers}\n</div></div>'
        )

    def _layer(self, layer: _Layer, name: str) -> str:
        repeated = f" × {layer.calls}" if layer.calls > 1 else ""
        kind = layer.target.partition("::")[2].partition(".")[0]
        title = f"{name or kind}{repeated}"
        return (
            f'<div class="layer"><span title="{escape(layer.target)}">{escape(title)}</span>\n'
            f"{self._tensor(layer.weight, 'weight')}\n"
            f'<div class="acts">{self._tensor(layer.source, "reads")}\n'
            f"{self._tensor(layer.result, 'makes')}</div></div>"
        )

    def _tensor(self, tensor: _Tensor, role: str) -> str:
        grown = (math.log(max(tensor.nbytes, 1)) - self._least) / (self._most - self._least or 1)
        side = _SMALLEST + grown * (_LARGEST - _SMALLEST)
        axes = (0, 1) if len(tensor.shape) > 1 else (-1, len(tensor.shape) - 1)
        drawn = tiles_svg(tensor.shape, self._tiles[tensor.value], axes, (round(side), round(side)))
        return (
            f'<div class="tensor"><div class="cell">{drawn}</div>{role} '
            f"{shape_words(tensor.shape)}<br/>{escape(self._caption(tensor.placement))}"
            f"<br/>{size_words(tensor.nbytes)}</div>"
        )

    def _caption(self, placement: Sequence[int]) -> str:
        """Returns a placement without the parts where they are the same in all steps: `S0 S1 R`."""
        words = placement_words(placement, self._mesh, self._weightings).split()
        if len(set(self._mesh)) > 1:
            return " ".join(words)
        return " ".join(re.sub(r"/\d+", "", word) for word in words)
