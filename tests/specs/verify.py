"""Checks every Spec and every strategy on the recorded field, and prints what is covered.

python tests/specs/field.py build/specs      # records the calls
python tests/specs/verify.py build/specs     # all of them, or: verify.py build/specs aten::mm ...
"""

from __future__ import annotations

import argparse
import collections
import itertools
import json
import multiprocessing
import sys
import time
import traceback
import warnings
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parent))
import field
import oracle
from torch.utils import _pytree as pytree

import smex
from smex.specs.lookup import instantiate
from smex.specs.strategies import _Call

WORKERS = (2, 3, 4)
MAX_SECONDS = 60
MAX_INTERPRETED = 3_000
MAX_COMBINATIONS = 600


def interpret(op: Any, call: field.Call) -> str | None:
    """Why the interpreter's outputs are not ATen's; None where they are, or it cannot tell."""
    record = _Call(op, call.args, call.kwargs)
    order = _order_of(record)
    tensors = [record.tensors[n] for n in order]
    found = instantiate(
        op.name(), record.records, [tuple(t.shape) for t in tensors], record.outputs
    )
    if found is None:
        return None
    spec, _ = found
    text = spec.text()
    if type(spec).parse(text).text() != text:
        return "the text does not read back"
    if spec.is_opaque() or any(t.dtype.is_complex for t in tensors):
        return None
    work = 1
    for index in spec.indices:
        work *= max(1, index.extent)
    if work > MAX_INTERPRETED:
        return None
    lists = [(t.double().flatten().tolist(), list(t.shape)) for t in tensors]
    expected = oracle.run(op, call.args, call.kwargs)
    for position, (data, shape) in enumerate(spec.evaluate(lists)):
        wanted = expected[position]
        if not spec.describes(position) or wanted is None or wanted.dtype.is_complex:
            continue
        result = torch.tensor(data, dtype=torch.float64).reshape(shape)
        if not oracle.same(result, wanted.double()):
            return f"output {position}: expected {wanted.flatten()[:4].tolist()}, found {data[:4]}: {text}"
    return None


def _order_of(record: Any) -> list[int]:
    from smex.specs.strategies import _order

    return _order(record.records)


# ---- brute force ----


def _pieces(x: torch.Tensor, dim: int | None, k: int) -> list[torch.Tensor]:
    return [x] * k if dim is None else list(torch.tensor_split(x, k, dim))


def brute_force(op: Any, call: field.Call, k: int = 2) -> set[tuple[Any, ...]]:
    """(split dimension or None of every tensor, how every output combines) of what is valid."""
    leaves, tree = pytree.tree_flatten((call.args, call.kwargs))
    places = [n for n, x in enumerate(leaves) if torch.is_tensor(x)]
    choices = [[None, *(d for d, size in enumerate(leaves[n].shape) if size >= k)] for n in places]
    combinations = 1
    for choice in choices:
        combinations *= len(choice)
    if combinations > MAX_COMBINATIONS or combinations == 1:
        return set()
    draws = [leaves]
    for seed in (1, 2):
        torch.manual_seed(seed)
        draws.append([_afresh(x) if torch.is_tensor(x) else x for x in leaves])
    wholes = []
    for draw in draws:
        try:
            args, kwargs = pytree.tree_unflatten(draw, tree)
            wholes.append((draw, oracle.run(op, args, kwargs)))
        except Exception:
            continue
    valid = set()
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
    return valid


def _afresh(x: torch.Tensor) -> torch.Tensor:
    if x.dtype.is_floating_point:
        return x * (0.5 + torch.rand_like(x)) + 0.01 * torch.rand_like(x)
    return x


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
        if wanted.dtype is not torch.bool and oracle.same(stacked.sum(0).to(wanted.dtype), wanted):
            kinds.add("sum")
        if oracle.same(stacked.amax(0), wanted):
            kinds.add("max")
        if oracle.same(stacked.amin(0), wanted):
            kinds.add("min")
        if wanted.dtype is not torch.bool and oracle.same(stacked.prod(0).to(wanted.dtype), wanted):
            kinds.add("prod")
    return kinds


def shape_of(call: field.Call, strategy: dict[str, Any]) -> tuple[Any, ...]:
    """A strategy in the terms of brute force."""
    leaves = [x for x in pytree.tree_leaves((call.args, call.kwargs)) if torch.is_tensor(x)]
    references = {}
    for worker in strategy["workers"]:
        for x in pytree.tree_leaves(worker, is_leaf=oracle._is_reference):
            if oracle._is_reference(x):
                references.setdefault(x["leaf"], []).append(x["box"])
    dims = []
    for n, leaf in enumerate(leaves):
        cut = [
            d
            for box in references.get(n, [])
            if box is not None
            for d, bounds in enumerate(box)
            if tuple(bounds) != (0, leaf.shape[d])
        ]
        dims.append(cut[0] if cut else None)
    outs = []
    for out in strategy["outs"]:
        if "place" in out:
            first, second = out["place"][:2]
            outs.append(next((d for d, (a, b) in enumerate(zip(first, second)) if a != b), "same"))
        else:
            outs.append("same" if out.get("same") else out["reduce"])
    return tuple(dims), tuple(outs)


# ---- one overload ----


def verify(folder: Path, overload: str) -> dict[str, Any]:
    """What is known of one overload after all its calls were checked."""
    op = oracle.resolve(overload)
    calls = field.load(folder, overload)
    seen: dict[str, Any] = collections.defaultdict(int)
    seen["calls"], seen["wrong"], seen["missing"], seen["seconds"] = len(calls), [], [], time.time()
    random = torch.Tag.nondeterministic_seeded in op.tags
    for number, call in enumerate(calls):
        try:
            whole = oracle.run(op, call.args, call.kwargs)
        except Exception:
            seen["failing"] += 1
            continue
        try:
            reason = None if random else interpret(op, call)
            found = {k: smex.specs.strategies(op, call.args, call.kwargs, k) for k in WORKERS}
            described = bool(found[2]) or _is_described(op, call)
        except Exception as error:
            line = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{Path(line.filename).name}:{line.lineno}"
            reason, found, described = f"{type(error).__name__}: {error} ({where})", {2: []}, False
        seen["described"] += described
        if reason:
            seen["wrong"].append(f"call {number}: {reason}"[:400])
        correct = set()
        for k, strategies in found.items():
            for strategy in [] if random else strategies:
                seen["strategies"] += 1
                try:
                    oracle.check(op, call, strategy, whole)
                    if k == 2:
                        correct.add(shape_of(call, strategy))
                except Exception as error:
                    text = f"call {number}: k = {k}, {strategy['name']}: {error}"
                    seen["wrong"].append(text[:300])
        valid = set() if random else brute_force(op, call)
        seen["splittable"] += bool(valid or correct)
        seen["split"] += bool(correct)
        seen["valid"] += len(valid)
        seen["found"] += len(valid & correct)
        seen["missing"] += [f"call {number}: {x}" for x in sorted(valid - correct, key=str)][:2]
    seen["seconds"] = time.time() - seen["seconds"]
    return dict(seen)


def _is_described(op: Any, call: field.Call) -> bool:
    record = _Call(op, call.args, call.kwargs)
    shapes = [tuple(record.tensors[n].shape) for n in _order_of(record)]
    return instantiate(op.name(), record.records, shapes, record.outputs) is not None


def _child(connection: Any, folder: Path, overload: str) -> None:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    try:
        connection.send(verify(folder, overload))
    except Exception as error:
        connection.send({"error": f"{type(error).__name__}: {error}"[:300]})


def verify_all(folder: Path, names: list[str], processes: int = 2) -> dict[str, dict[str, Any]]:
    """Each overload in a process of its own with a time limit."""
    context = multiprocessing.get_context("fork")
    waiting, running, results = list(names), {}, {}
    while waiting or running:
        while waiting and len(running) < processes:
            name = waiting.pop(0)
            receiver, sender = context.Pipe(duplex=False)
            process = context.Process(target=_child, args=(sender, folder, name))
            process.start()
            sender.close()
            running[name] = (process, receiver, time.time())
        for name, (process, receiver, start) in list(running.items()):
            result = None
            if receiver.poll(0.01):
                try:
                    result = receiver.recv()
                except EOFError:
                    process.join()
                    result = {"error": f"the process ended with status {process.exitcode}"}
            elif time.time() - start > MAX_SECONDS:
                process.kill()
                result = {"error": f"stopped after {MAX_SECONDS} s"}
            if result is not None:
                process.join()
                results[name] = result
                del running[name]
    return results


def report(results: dict[str, dict[str, Any]], verbose: bool) -> None:
    """Prints the totals and what is wrong."""
    total: dict[str, int] = collections.Counter()
    for name, seen in sorted(results.items()):
        if "error" in seen:
            print(f"{name}: {seen['error']}")
            total["errors"] += 1
            continue
        total["overloads"] += 1
        total["described overloads"] += seen.get("described", 0) > 0
        total["splittable overloads"] += seen["splittable"] > 0
        total["split overloads"] += seen["split"] > 0
        total["wrong overloads"] += bool(seen["wrong"])
        for key in ("calls", "splittable", "split", "valid", "found", "strategies"):
            total[key] += seen.get(key, 0)
        total["wrong"] += len(seen["wrong"])
        for text in seen["wrong"][: 5 if verbose else 1]:
            print(f"{name}: WRONG {text}")
        if verbose:
            print(
                f"{name}: {seen['calls']} calls, described {seen.get('described', 0)}, splittable "
                f"{seen['splittable']}, split {seen['split']}, found {seen.get('found', 0)} of "
                f"{seen.get('valid', 0)}, {seen['seconds']:.1f} s"
            )
            for text in seen["missing"][:6]:
                print(f"    missing {text}")
    print(json.dumps(total, indent=1))


def main() -> None:
    """Reads the folder and prints the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("overloads", nargs="*")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--verbose", action="store_true")
    arguments = parser.parse_args()
    names = [
        name
        for name in field.overloads(arguments.folder)
        if not arguments.overloads
        or any(name == x or name.startswith(x + ".") for x in arguments.overloads)
    ]
    results = verify_all(arguments.folder, names)
    if arguments.out:
        arguments.out.write_text(json.dumps(results, indent=1))
    report(results, arguments.verbose or bool(arguments.overloads))


if __name__ == "__main__":
    main()
