"""The semantic graph: a captured model whose operators carry their specifications."""

from __future__ import annotations

import copy
import functools
import keyword
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from smex._C import Graph, OutputKind, Role, coarse_sizes
from smex._C import ValueRef as NativeValueRef
from smex.capture import CapturedGraph, OpRecord, ValueRef, capture
from smex.capture.filled import FilledGraph
from smex.capture.origin import user_stacklevel
from smex.errors import CaptureError, MissingSpecWarning
from smex.planning.sized import SizedGraph, SpecQuestion, contents
from smex.specs import argument_names, instantiate, told

# c10::ScalarType's numbers, which the dispatcher takes for dtypes. Without the quantised ones and
# those of less than a byte, which the tiles of a program cannot hold.
_SCALAR_TYPES = {
    torch.uint8: 0,
    torch.int8: 1,
    torch.int16: 2,
    torch.int32: 3,
    torch.int64: 4,
    torch.float16: 5,
    torch.float32: 6,
    torch.float64: 7,
    torch.complex32: 8,
    torch.complex64: 9,
    torch.complex128: 10,
    torch.bool: 11,
    torch.bfloat16: 15,
    torch.float8_e5m2: 23,
    torch.float8_e4m3fn: 24,
    torch.float8_e5m2fnuz: 25,
    torch.float8_e4m3fnuz: 26,
    torch.uint16: 27,
    torch.uint32: 28,
    torch.uint64: 29,
    torch.float8_e8m0fnu: 44,
}
_MEMORY_FORMATS = {
    torch.contiguous_format: 0,
    torch.preserve_format: 1,
    torch.channels_last: 2,
    torch.channels_last_3d: 3,
}


def _scalar_type(dtype: torch.dtype, where: str) -> int:
    if dtype not in _SCALAR_TYPES:
        raise CaptureError(
            f"capture: {where}: tensors of {dtype} cannot be partitioned; compute in another dtype"
        )
    return _SCALAR_TYPES[dtype]


def _native_arg(arg: Any, target: str) -> Any:
    """Returns an argument record of a call of `target` as the native graph takes it."""
    if isinstance(arg, ValueRef):
        return NativeValueRef(arg.id)
    if isinstance(arg, (list, tuple)):
        return [_native_arg(item, target) for item in arg]
    if isinstance(arg, torch.dtype):
        return _scalar_type(arg, target)
    if isinstance(arg, torch.memory_format):
        return _MEMORY_FORMATS[arg]
    if isinstance(arg, torch.layout):
        return 0  # strided, the only layout that capture lets through
    if isinstance(arg, torch.device):
        return None
    return arg


def find_spec(op: OpRecord, captured: CapturedGraph) -> tuple[Any, list[tuple[int, str]]] | None:
    """Returns the Spec of a captured call, see :func:`smex.specs.instantiate`."""
    return instantiate(*SpecQuestion.of(op, captured).parts())


class SemanticGraph:
    """A captured model in the native graph, every op with its Spec where one is known.

    Attributes:
        captured: the records it was made from.
        features: of vertices, by the structure of their edges.
        boundaries: by number of vertices where these are cut; see `smex.search`.
        weightings: by name the shares of workers that plans may cut in proportion to.
        missing: targets without a Spec, which run unsplit.
    """

    def __init__(self, captured: CapturedGraph):
        self.captured = captured
        # What is told of constants by Spec and constants; with the Spec, whose id is in the key.
        self._specs: dict[tuple[int, ...], tuple[Any, Any]] = {}
        self.features: dict[tuple[int, ...], Any] = {}
        self.boundaries: dict[int, Sequence[int]] = {}
        self.weightings: tuple[tuple[str, tuple[float, ...]], ...] = ()
        self._native: Graph | None = self._made()
        self._regions: list[int] | None = None
        self.missing: dict[str, str] = {}
        for number in self.native.ops_without_spec:
            op = captured.structure.ops[number]
            self.missing.setdefault(op.target, op.source)
        self._warn_missing()

    @property
    def native(self) -> Graph:
        """The C++ graph that search and lowering read."""
        if self._native is None:
            made = self._made()
            made = made if self._regions is None else made.with_regions(self._regions)
            made = made.with_boundaries(self.boundaries) if self.boundaries else made
            self._native = made.with_weightings(self.weightings) if self.weightings else made
        return self._native

    def forget_native(self) -> None:
        """Lets the C++ graph go where it can be made again from that of another size."""
        if isinstance(self.captured, FilledGraph):
            self._native = None

    def _made(self) -> Graph:
        captured = self.captured
        if not isinstance(captured, FilledGraph):
            return self._from_records()
        known = captured.template.known
        if SizedGraph in known:
            return known[SizedGraph].at(captured.numbers)
        graph = self._from_records()
        known[SizedGraph] = SizedGraph(captured.template, graph)
        return graph

    def _from_records(self) -> Graph:
        captured = self.captured
        graph = Graph()
        makers = {value: op.target for op in captured.ops for value in op.outputs}
        for value in captured.values:
            _scalar_type(value.dtype, makers.get(value.id, value.name))
            graph.add_value(
                value.name,
                list(value.shape),
                str(value.dtype).removeprefix("torch."),
                value.dtype.itemsize,
                getattr(Role, value.role),
            )
        for op in captured.ops:
            graph.add_op(**self._call(op))
        for fusion in captured.fusions:
            graph.add_fusion(**self._call(fusion.fused), members=fusion.members)
        for output in captured.outputs:
            # An input's new value goes to the caller as an output does, however it lies.
            goes_out = output.kind == "input_update"
            graph.add_output(
                -1 if output.value is None else output.value,
                getattr(OutputKind, "output" if goes_out else output.kind),
                output.name,
                -1 if output.target is None or goes_out else output.target,
            )
        graph.verify()
        return graph

    def _call(self, op: OpRecord) -> dict[str, Any]:
        found = find_spec(op, self.captured)
        spec, local = found if found is not None else (None, [])
        if spec is not None:
            spec = self._told(spec, op)
        return {
            "target": op.target,
            "args": [_native_arg(arg, op.target) for arg in op.args],
            "outputs": [-1 if i is None else i for i in op.outputs],
            "spec": spec,
            "local": local,
            "module_path": op.module_path,
            "source": op.source,
            "backward": op.backward,
            "region": op.region,
            "random": torch.Tag.nondeterministic_seeded in op.dispatch.tags,
        }

    def _told(self, spec: Any, op: OpRecord) -> Any:
        """Returns the Spec with what constants tell; one for all calls that have the same."""
        known = contents(op, self.captured)
        if not any(tensor is not None for tensor in known):
            return spec
        key = (id(spec), *map(id, known))
        if key not in self._specs:
            self._specs[key] = (spec, told(spec, known))
        return self._specs[key][1]

    def _warn_missing(self) -> None:
        if not self.missing:
            return
        used = [
            f"{target} (first used at {source})" if source else target
            for target, source in self.missing.items()
        ]
        runs = "which runs" if len(used) == 1 else "which run"
        first = next(iter(self.missing))
        names = ", ".join(name + "_" * keyword.iskeyword(name) for name in argument_names(first))
        warnings.warn(
            f"{self.captured.name}: no Spec describes {', '.join(used)}, {runs} unsplit"
            f"{', random numbers drawn by one worker' * self._draws(first)}. Describe what takes "
            "long:\n"
            f'    @smex.spec("{first}")\n'
            f"    def op({names}):\n"
            "        return lambda i: ...  # its output element",
            MissingSpecWarning,
            stacklevel=user_stacklevel(),
        )

    def _draws(self, target: str) -> bool:
        op = next(op for op in self.captured.structure.ops if op.target == target)
        return torch.Tag.nondeterministic_seeded in op.dispatch.tags

    @property
    def regions(self) -> list[int]:
        """By op the region that the backward pass runs again with it; -1 for none."""
        return self.native.regions

    def with_regions(self, regions: list[int]) -> SemanticGraph:
        """Returns the same graph with other regions."""
        other = copy.copy(self)
        other._native = self.native.with_regions(regions)
        other._regions = regions
        return other

    def with_boundaries(self, boundaries: Mapping[int, Sequence[int]]) -> SemanticGraph:
        """Returns the same graph, whose vertices are cut elsewhere."""
        if boundaries == self.boundaries:
            return self
        other = copy.copy(self)
        other.boundaries = dict(boundaries)
        other._native = self.native.with_boundaries(other.boundaries)
        return other

    def with_weightings(self, weightings: Sequence[tuple[str, tuple[float, ...]]]) -> SemanticGraph:
        """Returns the same graph, of which plans may cut in these proportions."""
        if tuple(weightings) == self.weightings:
            return self
        other = copy.copy(self)
        other.weightings = tuple(weightings)
        other._native = self.native.with_weightings(other.weightings)
        return other

    @property
    def weighting_names(self) -> list[str]:
        """What plans' tables call the weightings."""
        return [name for name, _ in self.weightings]

    def like(self, other: SemanticGraph) -> SemanticGraph:
        """Returns the same graph with what plans of another of the same calls are given."""
        graph = self.with_boundaries(other.boundaries).with_weightings(other.weightings)
        return graph if other.regions == graph.regions else graph.with_regions(other.regions)

    @functools.cached_property
    def value_by_name(self) -> dict[str, int]:
        """Ids of parameters, buffers and inputs by their names; tied names share an id."""
        ids = {}
        for value in self.captured.structure.values:
            if value.role in ("parameter", "buffer", "input"):
                for name in (value.name, *value.aliases):
                    ids[name] = value.id
        return ids

    def __repr__(self) -> str:
        groups, classes = coarse_sizes(self.native)
        records = self.captured.structure
        return (
            f"SemanticGraph({self.captured.name}, {len(records.ops)} ops, "
            f"{len(records.values)} values; coarsened to {groups} tensor groups and "
            f"{classes} op classes)"
        )

    def __str__(self) -> str:
        return str(self.native)


def capture_graph(
    model: Callable,
    args: tuple | torch.Tensor = (),
    loss_fn: Callable | None = None,
    **options: Any,
) -> SemanticGraph:
    """Captures a model and attaches a Spec to every op; `options` are those of `smex.capture`."""
    return SemanticGraph(capture(model, args, loss_fn=loss_fn, **options))
