"""How many of the recorded calls DTensor divides correctly, by the rule that strategies obey.

Every way to hold a call's tensors, replicated or cut along one dimension on two workers, is tried
in one process. A rule of DTensor's is one that communicates nothing; it is right if the whole
results are the operator's.

    python benchmarks/specs/verify.py --calls build/specs --out build/specs.json
    python benchmarks/specs/dtensor.py build/specs
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from proof import field
from proof.processes import run_each
from torch.distributed._local_tensor import LocalTensorMode
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.debug import CommDebugMode
from torch.utils import _pytree as pytree

from smex.operators import operator_named
from smex.specs import oracle, strategies

MAX_COMBINATIONS = 40
MAX_SECONDS = 180
"""For one overload."""


def whole(x: Any) -> torch.Tensor:
    """A result of every worker, which must agree."""
    full = x.full_tensor() if isinstance(x, DTensor) else x
    parts = list(full._local_tensors.values()) if hasattr(full, "_local_tensors") else [full]
    if not all(oracle.same(part, parts[0]) for part in parts):
        raise oracle.WrongError("workers disagree")
    return parts[0]


def rules(op: Any, call: oracle.Call, mesh: Any, expected: list[torch.Tensor]) -> tuple[int, int]:
    """(right rules, wrong rules) of one call."""
    leaves, tree = pytree.tree_flatten((call.args, call.kwargs))
    places = [n for n, x in enumerate(leaves) if torch.is_tensor(x)]
    choices = [
        [Replicate(), *(Shard(d) for d, size in enumerate(leaves[n].shape) if size > 1)]
        for n in places
    ]
    right = wrong = 0
    for placements in itertools.islice(itertools.product(*choices), 1, MAX_COMBINATIONS):
        mine = list(leaves)
        try:
            for n, placement in zip(places, placements):
                mine[n] = distribute_tensor(leaves[n].clone(), mesh, [placement])
            args, kwargs = pytree.tree_unflatten(mine, tree)
            with CommDebugMode() as communication, torch.no_grad():
                outs = oracle.flat(op(*args, **kwargs))
            if communication.get_total_counts():
                continue
            outs = [x for x in outs if torch.is_tensor(x)]
            if all(p.is_replicate() for x in outs if isinstance(x, DTensor) for p in x.placements):
                continue  # nothing is divided
            found = [whole(x) for x in outs]
        except oracle.WrongError:
            wrong += 1
            continue
        except Exception:
            continue
        if all(oracle.same(a, b) for a, b in zip(found, expected)):
            right += 1
        else:
            wrong += 1
    return right, wrong


def judge(folder: Path, sizes: list[str], overload: str) -> dict[str, int]:
    """The counts of one overload, over the samples of some sizes."""
    op = operator_named(overload, "specs")
    counts = {"calls": 0, "smex": 0, "dtensor": 0, "right": 0, "wrong": 0}
    if torch.Tag.nondeterministic_seeded in op.tags:
        return counts
    dist.init_process_group("fake", rank=0, world_size=2)
    for call in field.load(folder, overload):
        if call.sizes not in sizes:
            continue
        try:
            expected = [x for x in oracle.run(op, call.args, call.kwargs) if torch.is_tensor(x)]
        except Exception:
            continue
        if all(x.numel() == 0 for x in expected):
            continue  # nothing to be right about
        ours = bool(strategies(op, call.args, call.kwargs, k=2))
        with LocalTensorMode(2):
            mesh = dist.init_device_mesh("cpu", (2,))
            right, wrong = rules(op, call, mesh, expected)
        counts["calls"] += ours or right > 0
        counts["smex"] += ours
        counts["dtensor"] += right > 0
        counts["right"] += right
        counts["wrong"] += wrong
    return counts


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("overloads", nargs="*")
    parser.add_argument("--out", type=Path, help="write the counts of each overload as JSON")
    parser.add_argument("--sizes", nargs="+", default=["odd", "even"], choices=field.SIZES)
    arguments = parser.parse_args()
    names = [
        name
        for name in field.overloads(arguments.folder)
        if not arguments.overloads or name.partition(".")[0] in arguments.overloads
    ]
    results: dict[str, dict[str, int]] = {}
    failed = []
    compare = functools.partial(judge, arguments.folder, arguments.sizes)
    for outcome in run_each(compare, names, "comparing", max_seconds=MAX_SECONDS):
        if outcome.error:
            failed.append(outcome.item)
        else:
            results[outcome.item] = outcome.value
    if arguments.out:
        arguments.out.write_text(json.dumps(results, indent=1))
    able = [counts for counts in results.values() if counts["calls"]]
    calls = sum(counts["calls"] for counts in able)
    wrong = sorted(name for name, counts in results.items() if counts["wrong"])
    print(f"torch {torch.__version__}; {len(failed)} overloads ended or hung: {', '.join(failed)}")
    print("| | SMEX | DTensor | of |")
    print("| --- | ---: | ---: | ---: |")
    for text, key in (("calls", "calls"), ("overloads", "overloads")):
        ours, theirs = (
            sum(c[k] if key == "calls" else c[k] > 0 for c in able) for k in ("smex", "dtensor")
        )
        print(f"| {text} divided correctly | {ours} | {theirs} | "
              f"{calls if key == 'calls' else len(able)} |")  # fmt: skip
    rules_ = sum(counts["right"] + counts["wrong"] for counts in results.values())
    print(f"| wrong rules | | {sum(c['wrong'] for c in results.values())} | {rules_} |")
    print(f"wrong on {len(wrong)} overloads: {', '.join(wrong)}")


if __name__ == "__main__":
    main()
