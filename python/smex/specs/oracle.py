"""Executes strategies as they are written: nothing here knows how they were derived."""

from __future__ import annotations

import itertools
import math
from typing import Any, NamedTuple

import torch
from torch.utils import _pytree as pytree

TOLERANCE = 1e-9


class Call(NamedTuple):
    """The arguments of a call."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    backward: bool = False  # made by a backward pass
    sizes: str = "odd"  # of the field's samples


class WrongError(Exception):
    """A strategy does not give what the whole call gives."""


def run(op: Any, args: Any, kwargs: Any) -> list[Any]:
    """Returns what a call returns, flat, on copies of its tensors."""
    args, kwargs = pytree.tree_map_only(torch.Tensor, torch.clone, (args, kwargs))
    with torch.no_grad():
        return flat(op(*args, **kwargs))


def flat(out: Any) -> list[Any]:
    """Returned values in one list."""
    if isinstance(out, (list, tuple)):
        return [y for x in out for y in flat(x)]
    return [out]


def part(tensor: torch.Tensor, reference: dict[str, Any]) -> torch.Tensor:
    """Returns the part of a tensor that a worker gets, freshly allocated."""
    box = reference["box"]
    if reference.get("table") is not None:
        return torch.tensor(reference["table"], dtype=tensor.dtype)
    if reference.get("rows") is not None:
        dim, indices = reference["rows"]
        whole = [(0, size) for size in tensor.shape]
        sides = [*(whole if box is None else box)]
        sides[dim] = (0, len(indices))
        return part(tensor.index_select(dim, torch.tensor(indices)), {"box": sides})
    if box is None:
        return tensor.clone()
    if len(box) != tensor.dim():
        raise WrongError(f"a box of {len(box)} dimensions for a tensor of {tensor.dim()}")
    sizes = [hi - lo for lo, hi in box]
    if min(sizes, default=0) < 0:
        raise WrongError(f"the box {box} is no box")
    result = torch.full(sizes, reference.get("fill", 0.0), dtype=tensor.dtype)
    inside = [(max(lo, 0), min(hi, size)) for (lo, hi), size in zip(box, tensor.shape)]
    if all(lo < hi for lo, hi in inside) or not box:
        source = tensor[tuple(slice(lo, hi) for lo, hi in inside)]
        target = tuple(slice(lo - at, hi - at) for (lo, hi), (at, _) in zip(inside, box))
        result[target] = source
    return result


def is_reference(x: Any) -> bool:
    """Returns whether something stands in place of a tensor."""
    return isinstance(x, dict) and set(x) >= {"leaf", "box"}


def placed(x: Any, leaves: list[torch.Tensor]) -> Any:
    """Returns a worker's arguments."""
    return pytree.tree_map(
        lambda y: part(leaves[y["leaf"]], y) if is_reference(y) else y, x, is_leaf=is_reference
    )


def same(a: torch.Tensor, b: torch.Tensor, tolerance: float | None = None) -> bool:
    """Equal but for rounding, which the dtype decides unless a tolerance is given."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.dtype.is_floating_point or a.dtype.is_complex:
        if tolerance is None:
            tolerance = TOLERANCE if a.dtype in (torch.float64, torch.complex128) else 1e-3
        return torch.allclose(a, b, rtol=tolerance, atol=tolerance, equal_nan=True)
    return torch.equal(a, b)


def difference(wanted: torch.Tensor, found: torch.Tensor, tolerance: float | None = None) -> str:
    """Returns the first element that differs, or how else the two do."""
    if wanted.shape != found.shape or wanted.dtype != found.dtype:
        names = [f"{str(x.dtype).removeprefix('torch.')}{list(x.shape)}" for x in (wanted, found)]
        return f": expected {names[0]}, found {names[1]}"
    for at in itertools.product(*(range(size) for size in wanted.shape)):
        if not same(found[at], wanted[at], tolerance):
            return f" at {list(at)}: expected {wanted[at].item():g}, found {found[at].item():g}"
    return ": no element differs"


def check(op: Any, call: Any, strategy: dict[str, Any], whole: list[Any] | None = None) -> None:
    """Raises WrongError, or what the operator raises, where a strategy is wrong."""
    leaves = [x for x in pytree.tree_leaves((call.args, call.kwargs)) if torch.is_tensor(x)]
    whole = run(op, call.args, call.kwargs) if whole is None else whole
    expected = [x for x in whole if torch.is_tensor(x)]
    results = []
    for worker in strategy["workers"]:
        args, kwargs = placed(worker["args"], leaves), placed(worker["kwargs"], leaves)
        with torch.no_grad():
            results.append(flat((strategy["op"] or op)(*args, **kwargs)))
    results = [[x for x in result if torch.is_tensor(x)] for result in results]
    if len(strategy["outs"]) != len(expected) or any(len(r) != len(expected) for r in results):
        raise WrongError(f"{len(expected)} tensors are returned, {len(strategy['outs'])} described")
    for position, (out, wanted) in enumerate(zip(strategy["outs"], expected)):
        parts = [result[position] for result in results]
        if out.get("reduce") == "softmaxmean":
            parts = _weighed(parts, [result[out["by"]] for result in results])
            out = {"reduce": "sum"}
        found = _combined(out, parts, wanted)
        if not same(found, wanted):
            raise WrongError(f"output {position}{difference(wanted, found)}")


def _weighed(parts: list[torch.Tensor], sums: list[torch.Tensor]) -> list[torch.Tensor]:
    """Means of parts times what each part weighs among all."""
    total = torch.stack(sums).logsumexp(0)
    shares = [torch.where(s == -torch.inf, 0, (s - total).exp()) for s in sums]
    return [
        part * share.reshape([*share.shape, *[1] * (part.dim() - share.dim())])
        for part, share in zip(parts, shares)
    ]


def _combined(out: dict[str, Any], parts: list[torch.Tensor], wanted: torch.Tensor) -> torch.Tensor:
    if out.get("same"):
        for other in parts:
            if not same(other, wanted):
                raise WrongError(f"the results of workers differ{difference(wanted, other)}")
        return parts[0]
    if "reduce" in out:
        weights = out.get("weights") or [1] * len(parts)
        stacked = torch.stack([x * w if w != 1 else x for x, w in zip(parts, weights)])
        return {
            "sum": lambda: stacked.sum(0).to(wanted.dtype),
            "prod": lambda: stacked.prod(0).to(wanted.dtype),
            "max": lambda: stacked.amax(0),
            "min": lambda: stacked.amin(0),
            "logsumexp": lambda: stacked.logsumexp(0),
        }[out["reduce"]]()
    result = torch.zeros_like(wanted)
    covered = torch.zeros(wanted.shape, dtype=torch.int64)
    for worker, (piece, box) in enumerate(zip(parts, out["place"])):
        crop = out["crop"][worker] if out["crop"] else None
        if crop is not None:
            piece = piece[tuple(slice(lo, hi) for lo, hi in crop)]
        at = tuple(slice(lo, hi) for lo, hi in box)
        if list(piece.shape) != [hi - lo for lo, hi in box]:
            raise WrongError(f"a result of shape {list(piece.shape)} for the box {box}")
        result[at] = piece
        covered[at] += 1
    if covered.numel() != math.prod(wanted.shape) or bool((covered != 1).any()):
        raise WrongError("the results do not tile the output")
    return result
