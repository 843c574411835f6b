"""Executes specs: the interpreter against ATen, and every derived split against the whole call."""

from __future__ import annotations

import dataclasses
import itertools
import math
from typing import Any

import torch

from smex import specs
from smex.capture.records import ValueRef

TOLERANCE = 1e-10


@dataclasses.dataclass
class Call:
    """An ATen call on real tensors, with the Spec that SMEX found for it."""

    target: str
    args: list[Any]

    def __post_init__(self) -> None:
        namespace, _, name = self.target.partition("::")
        packet, _, overload = name.partition(".")
        self.op = getattr(getattr(getattr(torch.ops, namespace), packet), overload or "default")
        for argument in self.op._schema.arguments[len(self.args) :]:
            self.args.append(argument.default_value)
        self.inputs: list[torch.Tensor] = []
        self.records = self._record(self.args)
        self.whole = self.run(self.args)

    def _record(self, arg: Any) -> Any:
        if isinstance(arg, torch.Tensor):
            for position, known in enumerate(self.inputs):
                if known is arg:
                    return ValueRef(position)
            self.inputs.append(arg)
            return ValueRef(len(self.inputs) - 1)
        if isinstance(arg, (list, tuple)):
            return [self._record(item) for item in arg]
        return arg

    def run(self, args: list[Any]) -> list[torch.Tensor | None]:
        schema = self.op._schema.arguments
        positional = [a for a, s in zip(args, schema) if not s.kwarg_only]
        keywords = {s.name: a for a, s in zip(args, schema) if s.kwarg_only}
        result = self.op(*positional, **keywords)
        return list(result) if isinstance(result, (list, tuple)) else [result]

    def instantiate(self, used: list[bool] | None = None) -> Any:
        used = used or [True] * len(self.whole)
        shapes = [
            tuple(out.shape) if out is not None and keep else None
            for out, keep in zip(self.whole, used)
        ]
        return specs.instantiate(
            self.target, self.records, [tuple(t.shape) for t in self.inputs], shapes
        )

    def placed(self, records: Any, tensors: list[torch.Tensor]) -> Any:
        if isinstance(records, ValueRef):
            return tensors[records.id]
        if isinstance(records, (list, tuple)):
            return [self.placed(item, tensors) for item in records]
        return records


def bounds_slice(bounds: list[tuple[int, int]]) -> tuple[slice, ...]:
    return tuple(slice(lo, max(lo, hi)) for lo, hi in bounds)


def close(a: torch.Tensor, b: torch.Tensor) -> bool:
    if a.shape != b.shape:
        return False
    return torch.allclose(a.double(), b.double(), rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True)


def interpreted(spec: Any, inputs: list[torch.Tensor]) -> dict[int, torch.Tensor]:
    tensors = [(t.double().flatten().tolist(), list(t.shape)) for t in inputs]
    return {
        position: torch.tensor(data, dtype=torch.float64).reshape(shape)
        for position, (data, shape) in enumerate(spec.evaluate(tensors))
        if spec.describes(position)
    }


def check_meaning(call: Call, spec: Any) -> None:
    """The interpreter's outputs equal ATen's."""
    for position, found in interpreted(spec, call.inputs).items():
        expected = call.whole[position]
        assert close(found, expected), (
            f"{call.target}: output {position}: expected\n{expected}\nfound\n{found}\n{spec.text()}"
        )


def _padding(region, unclamped):
    """F.pad's list: what a padded read touches outside of the region."""
    result = []
    for (lo, hi), (want_lo, want_hi) in zip(reversed(region), reversed(unclamped)):
        before = max(0, lo - want_lo)
        result += [before, (want_hi - want_lo) - (hi - lo) - before]
    return result


def cuts_window(need, full) -> bool:
    """Whether a tile divides a padded dimension: the call or the tile leaves the input."""
    return any(
        mine != whole and (mine != clamped or whole != bounds)
        for mine, clamped, whole, bounds in zip(
            need.unclamped, need.region, full.unclamped, full.region
        )
    )


def crop_of(spec, local, output, ranges, padded):
    """By cropped dimension: the landing region, and how far the tile reaches beyond it."""
    if not any(rule == "window" for _, rule in local) or not spec.has_landings():
        return {}
    full = spec.output_region(output, spec.full_ranges())
    tile, landings = spec.output_region(output, ranges), spec.landings(output, ranges)
    return {
        d: (landing, max(0, tile[d][1] - landing[1]))
        for d, landing in enumerate(landings)
        if landing and (padded or tile[d] != full[d])
    }


def run_tile(
    call: Call, spec: Any, local: list[tuple[int, str]], ranges
) -> list[torch.Tensor | None]:
    """Runs the call's kernel on what one tile needs, its arguments rewritten by the local rules."""
    needs = spec.input_needs(ranges)
    full_needs = spec.input_needs(spec.full_ranges())
    cut_window = any(rule == "window" for _, rule in local) and any(
        cuts_window(need, full) for need, full in zip(needs, full_needs)
    )
    described = next(o for o in range(len(call.whole)) if spec.describes(o))
    region = spec.output_region(described, ranges)
    if any(rule == "window" for _, rule in local) and spec.has_landings():
        full = spec.output_region(described, spec.full_ranges())
        landings = spec.landings(described, ranges)
        if any(at and mine != all_ for at, mine, all_ in zip(landings, region, full)):
            cut_window = cut_window or any(n.used and n.unclamped != n.region for n in needs)
    crop = crop_of(spec, local, described, ranges, cut_window)
    tensors = []
    for tensor, need in zip(call.inputs, needs):
        piece = tensor[bounds_slice(need.region)].clone()
        if not need.used and piece.is_floating_point():
            shape = list(piece.shape)
            for d, (landing, rest) in crop.items() if need.region == region else ():
                shape[d] = landing[1] - landing[0] + rest
            piece = piece.new_full(shape, float("nan"))  # only the shape may matter
        if cut_window and need.unclamped != need.region:
            value = float("-inf") if "max_pool" in call.target else 0.0
            piece = torch.nn.functional.pad(
                piece, _padding(need.region, need.unclamped), value=value
            )
        tensors.append(piece)
    args = call.placed(call.records, tensors)
    for position, rule in local:
        if rule == "output_shape":
            args[position] = [hi - lo for lo, hi in region]
        elif rule == "zero":
            args[position] = 0
        elif rule == "max_int":
            args[position] = 2**63 - 1
        elif rule == "rows":
            args[position] = tensors[0].shape[0]
        elif rule == "offset":
            args[position] = [lo for lo, _ in region]
        elif rule.startswith("begin:"):
            named = [index.name for index in spec.indices].index(rule.removeprefix("begin:"))
            args[position] = [ranges[named][0]]
        elif rule == "diagonal":
            args[position] += region[-2][0] - region[-1][0]
        elif rule in ("window", "window_rest") and cut_window:
            args[position] = [0 for _ in args[position]]
        if crop and rule in ("window", "window_rest"):
            spatial = len(args[position])
            args[position] = [
                old if d not in crop else (crop[d][1] if rule == "window_rest" else 0)
                for d, old in enumerate(args[position], start=len(region) - spatial)
            ]
    results = call.run(args)
    if crop:
        cropped = results[described]
        for d, ((start, _), _) in crop.items():
            lo, hi = region[d]
            cropped = cropped.narrow(d, lo - start, hi - lo)
        results[described] = cropped
    return results


def tiles(extent: int, granule: int, parts: int) -> list[tuple[int, int]]:
    """Uneven tiles: the first takes what is left over, one is empty only if there is too little."""
    units = math.ceil(extent / granule)
    cuts = sorted({0, *(granule * (units * p // parts) for p in range(1, parts)), extent})
    return list(itertools.pairwise(cuts))


def merge_means(mean: Any, log_sum: Any, other: Any, other_sum: Any) -> None:
    """Makes of two weighted means [..., E], with the logarithms of their weights, that of both."""
    other_sum = other_sum.double()
    log_sum = torch.as_tensor(log_sum, dtype=torch.float64).expand(other_sum.shape)
    both = torch.logaddexp(log_sum, other_sum)

    def share(part):
        return torch.where(part == -math.inf, 0.0, (part - both).exp()).unsqueeze(-1)

    mean.mul_(share(log_sum)).add_(other.double() * share(other_sum))


def check_split(call: Call, spec: Any, local, split: Any, parts: int) -> None:
    """The tiles of one split, each run by the kernel, combine to the whole call's outputs."""
    ranges = spec.full_ranges()
    name = spec.indices[split.index].name
    combined: list[Any] = [None] * len(call.whole)
    for tile in tiles(spec.indices[split.index].extent, split.granule, parts):
        ranges[split.index] = tile
        results = run_tile(call, spec, local, ranges)
        for position, result in enumerate(results):
            if not spec.describes(position):
                continue
            region = spec.output_region(position, ranges)
            assert list(result.shape) == [hi - lo for lo, hi in region], (
                f"{call.target}: split {name}: tile {tile}: expected shape of {region}, "
                f"found {list(result.shape)}\n{spec.text()}"
            )
            reduce = split.reduces[position] and split.reduces[position].name
            if combined[position] is None:
                start = {"sum": 0.0, "prod": 1.0, "max": -math.inf, "min": math.inf}
                start |= {"softmaxmean": 0.0, "logsumexp": -math.inf}
                fill = start[reduce] if reduce else math.nan
                combined[position] = torch.full(
                    call.whole[position].shape, fill, dtype=torch.float64
                )
            target = combined[position][bounds_slice(region)]
            if not reduce:
                target.copy_(result)
            elif reduce == "sum":
                target += result
            elif reduce == "prod":
                target *= result
            elif reduce == "softmaxmean":
                by = spec.weight_sums()[position]
                assert by > position, "the sum before this tile is still needed"
                before = -math.inf if combined[by] is None else combined[by]
                merge_means(target, before, result, results[by])
            elif reduce == "logsumexp":
                torch.logaddexp(target, result.double(), out=target)
            elif reduce == "max":
                torch.maximum(target, result.double(), out=target)
            else:
                torch.minimum(target, result.double(), out=target)
    for position, found in enumerate(combined):
        if found is not None:
            assert close(found, call.whole[position]), (
                f"{call.target}: split {name} in {parts}: output {position} differs\n"
                f"expected\n{call.whole[position]}\nfound\n{found}\n{spec.text()}"
            )
