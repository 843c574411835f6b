"""Every way to cut a call's tensors, tried by execution: what strategies are measured against."""

from __future__ import annotations

import contextlib
import itertools
import math
from typing import Any

import torch
from torch.utils import _pytree as pytree

from smex.specs import oracle
from smex.specs.oracle import Call

WORKERS = 2
"""Among so many workers tensors are cut."""

MAX_COMBINATIONS = 600
"""A call with more ways to cut its tensors is left out."""


def _pieces(x: torch.Tensor, dim: int | None, k: int) -> list[torch.Tensor]:
    return [x] * k if dim is None else list(torch.tensor_split(x, k, dim))


def valid_cuts(op: Any, call: Call, k: int = WORKERS) -> set[tuple[Any, ...]]:
    """(split dimension or None of every tensor, how every output combines) of what is valid.

    Where every worker would make the whole of all outputs no work is divided: left out.
    """
    leaves, tree = pytree.tree_flatten((call.args, call.kwargs))
    places = [n for n, x in enumerate(leaves) if torch.is_tensor(x)]
    ignored = written_to(op, call)
    choices = [
        [None, *(d for d, size in enumerate(leaves[n].shape) if size >= k and n not in ignored)]
        for n in places
    ]
    combinations = math.prod(map(len, choices))
    if combinations > MAX_COMBINATIONS or combinations == 1:
        return set()
    outs = [x for x in oracle.run(op, call.args, call.kwargs) if torch.is_tensor(x)]
    if not any(x.numel() for x in outs) or any(x.layout is not torch.strided for x in outs):
        return set()
    draws = [leaves]
    torch.manual_seed(1)
    for sign in (1, 1, -1):
        draws.append([_afresh(x, sign) if torch.is_tensor(x) else x for x in leaves])
    wholes = []
    for draw in draws:
        try:
            args, kwargs = pytree.tree_unflatten(draw, tree)
            wholes.append((draw, oracle.run(op, args, kwargs)))
        except Exception:
            continue
    valid: set[tuple[Any, ...]] = set()
    for combination in itertools.product(*choices):
        if all(dim is None for dim in combination):
            continue
        kinds: list[set[Any]] | None = None
        for draw, whole in wholes:
            found = _kinds(op, draw, tree, places, combination, whole, k)
            kinds = found if kinds is None else [a & b for a, b in zip(kinds, found)]
            if not kinds or not all(kinds):
                break
        if kinds and all(kinds):
            valid.update((combination, outs) for outs in itertools.product(*kinds))
    unread = _unread(op, leaves, tree, places, draws)
    return {
        (tuple(None if n in unread else d for n, d in zip(places, dims)), outs)
        for dims, outs in valid
        if set(outs) != {"same"}
    }


def _unread(op: Any, leaves: Any, tree: Any, places: list[int], draws: list[Any]) -> set[int]:
    """The tensors of which only the shape matters: how they are cut says nothing."""
    expected = oracle.run(op, *pytree.tree_unflatten(leaves, tree))
    found = set()
    for n in places:
        for draw in draws[1:]:
            mine = [draw[m] if m == n else x for m, x in enumerate(leaves)]
            try:
                outs = oracle.run(op, *pytree.tree_unflatten(mine, tree))
            except Exception:
                break
            if not all(oracle.same(a, b) for a, b in zip(outs, expected) if torch.is_tensor(b)):
                break
        else:
            found.add(n)
    return found


def is_made(cuts: tuple[Any, ...], made: set[tuple[Any, ...]]) -> bool:
    """Whether a strategy gives the same results, and no worker more of any tensor."""
    dims, outs = cuts
    return any(
        outs == other and all(d is None or m is not None for d, m in zip(dims, mine))
        for mine, other in made
    )


def read_tensors(op: Any, call: Call) -> set[int]:
    """The tensors of numbers, counted as strategies do, of which the content matters."""
    leaves, tree = pytree.tree_flatten((call.args, call.kwargs))
    places = [n for n, x in enumerate(leaves) if torch.is_tensor(x)]
    draws = [leaves]
    for sign in (1, -1):
        draws.append([_afresh(x, sign) if torch.is_tensor(x) else x for x in leaves])
    unread = _unread(op, leaves, tree, places, draws)
    numbers = {n for n in places if leaves[n].is_floating_point() and leaves[n].numel()}
    return {position for position, n in enumerate(places) if n in numbers - unread}


def written_to(op: Any, call: Call) -> set[int]:
    """The leaves that only take the result; how they are cut says nothing."""
    names = {a.name for a in op._schema.arguments if a.kwarg_only and a.alias_info is not None}
    first = len(pytree.tree_leaves(call.args))
    return {first + n for n, name in enumerate(call.kwargs) if name in names}


def _afresh(x: torch.Tensor, sign: int) -> torch.Tensor:
    """Other values of the same kind, so that no cut is right by coincidence."""
    shuffled = x.flatten()[torch.randperm(x.numel())].reshape(x.shape)
    if x.dtype is torch.bool:
        return torch.rand(x.shape) < 0.5
    if not x.dtype.is_floating_point:
        return shuffled
    return sign * shuffled * (0.5 + torch.rand_like(x)) + 0.01 * torch.randn_like(x)


def _kinds(op, leaves, tree, places, combination, whole, k) -> list[set[Any]]:
    results = []
    pieces = {n: _pieces(leaves[n], dim, k) for n, dim in zip(places, combination)}
    for worker in range(k):
        mine = list(leaves)
        for n in places:
            mine[n] = pieces[n][worker]
        try:
            args, kwargs = pytree.tree_unflatten(mine, tree)
            results.append(oracle.run(op, args, kwargs))
        except Exception:
            return []
    if any(len(r) != len(whole) for r in results):
        return []
    found = []
    for position, wanted in enumerate(whole):
        if torch.is_tensor(wanted):
            found.append(_kinds_of([r[position] for r in results], wanted))
    return found


_REDUCTIONS = {
    "sum": lambda x: x.sum(0),
    "max": lambda x: x.amax(0),
    "min": lambda x: x.amin(0),
    "prod": lambda x: x.prod(0),
}


def _kinds_of(parts: list[Any], wanted: torch.Tensor) -> set[Any]:
    kinds: set[Any] = set()
    if not all(torch.is_tensor(p) and p.dim() == wanted.dim() for p in parts):
        return kinds
    if all(oracle.same(p, wanted) for p in parts):
        return {"same"}
    for dim in range(wanted.dim()):
        sizes = [list(p.shape[:dim]) + list(p.shape[dim + 1 :]) for p in parts]
        if any(s != sizes[0] for s in sizes):
            continue
        if oracle.same(torch.cat(parts, dim), wanted):
            kinds.add(dim)
    if all(p.shape == wanted.shape for p in parts) and not wanted.dtype.is_complex:
        stacked = torch.stack(parts)
        for name, reduce in _REDUCTIONS.items():
            if wanted.dtype is torch.bool and name in ("sum", "prod"):
                continue
            with contextlib.suppress(RuntimeError):  # a dtype that cannot be reduced so
                if oracle.same(reduce(stacked).to(wanted.dtype), wanted):
                    kinds.add(name)
    return kinds


def cuts_of(op: Any, call: Call, strategy: dict[str, Any]) -> tuple[Any, ...]:
    """A strategy in the terms of brute force."""
    written = written_to(op, call)
    places = [
        (n in written, x)
        for n, x in enumerate(pytree.tree_leaves((call.args, call.kwargs)))
        if torch.is_tensor(x)
    ]
    references: dict[int, list[Any]] = {}
    for worker in strategy["workers"]:
        for x in pytree.tree_leaves(worker, is_leaf=oracle.is_reference):
            if oracle.is_reference(x):
                references.setdefault(x["leaf"], []).append(x["box"])
    dims = []
    for n, (is_written, leaf) in enumerate(places):
        boxes = references.get(n, [])
        whole = [(0, size) for size in leaf.shape]
        spans = [[tuple(bounds) for bounds in box] if box else whole for box in boxes]
        cut = [d for d in range(leaf.dim()) if len({span[d] for span in spans}) > 1]
        dims.append(cut[0] if cut and not is_written else None)
    outs = []
    for out in strategy["outs"]:
        if "place" in out:
            first, second = out["place"][:2]
            outs.append(next((d for d, (a, b) in enumerate(zip(first, second)) if a != b), "same"))
        else:
            kind = "weighted" if out.get("weights") else out.get("reduce")
            outs.append("same" if out.get("same") else kind)
    return tuple(dims), tuple(outs)
