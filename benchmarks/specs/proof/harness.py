"""Checks every Spec and every strategy on the recorded field, each overload in its own process."""

from __future__ import annotations

import functools
import inspect
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from proof import brute_force, mutations
from proof.field import load
from proof.processes import describe, run_each
from smex.operators import operator_named
from smex.specs import definition, oracle
from smex.specs.oracle import Call
from smex.specs.strategies import OperatorCall
from smex.specs.verification import check_meaning

WORKERS = (2, 3, 4)
SHARES = ((1.0, 0.0, 3.0), (2.0, 1.0, 0.0, 1.0))
"""Workers that get parts of other sizes, or nothing."""
MUTATED_CALLS = 2
"""Of so many calls of an overload also wrong Specs and strategies are tried."""


@dataclass
class Finding:
    """What is known of one overload after all its calls were checked.

    Attributes:
        calls: how many were recorded.
        described: of these, how many have a Spec.
        divisible: of these, how many can be divided along some dimension, as their Spec says.
        is_opaque: what it computes is left open.
        is_core: it belongs to the core of ATen.
        is_backward: only backward passes call it.
        splittable: how many can be divided, by brute force or by a strategy.
        split: how many of these have a correct strategy.
        valid: cuts that brute force found.
        found: of these, how many some strategy makes.
        strategies: how many were executed.
        uneven: how many were among workers of uneven shares, one of which has nothing.
        wrong: what is wrong with the Spec or a strategy.
        missing: some cuts that no strategy makes.
        mutants: Specs and strategies with one thing changed, of the first calls.
        survivors: mutants that no check rejects.
        error: why the process gave no answer.
        has_brute_force: false where wrong slices end the process: then only strategies count.
    """

    overload: str
    calls: int = 0
    described: int = 0
    divisible: int = 0
    is_opaque: bool = False
    is_core: bool = False
    is_backward: bool = True
    splittable: int = 0
    split: int = 0
    valid: int = 0
    found: int = 0
    strategies: int = 0
    uneven: int = 0
    seconds: float = 0.0
    wrong: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    mutants: int = 0
    survivors: list[str] = field(default_factory=list)
    error: str = ""
    has_brute_force: bool = True

    def __str__(self) -> str:
        if self.error:
            return f"{self.overload}: {self.error}"
        lines = [
            f"{self.overload}: {self.calls} calls, {self.described} described; {self.splittable} "
            f"can be divided, {self.split} are; {self.found} of {self.valid} cuts; "
            f"{self.seconds:.1f} s" + ("" if self.has_brute_force else ", without brute force")
        ]
        lines += [f"    wrong: {text}" for text in self.wrong[:5]]
        lines += [f"    not rejected: {text}" for text in self.survivors[:5]]
        lines += [f"    missing: {text}" for text in self.missing[:6]]
        return "\n".join(lines)


def verify_overload(folder: Path, overload: str, has_brute_force: bool = True) -> Finding:
    """Checks the recorded calls of one overload."""
    op = operator_named(overload, "specs")
    start = time.time()
    finding = Finding(overload, has_brute_force=has_brute_force)
    finding.is_core = torch.Tag.core in op.tags
    for number, call in enumerate(load(folder, overload)):
        finding.calls += 1
        finding.is_backward = finding.is_backward and call.backward
        try:
            whole = oracle.run(op, call.args, call.kwargs)
        except Exception:
            continue  # a sample that is meant to fail
        _verify_call(finding, number, op, call, whole)
    finding.seconds = time.time() - start
    return finding


UNSET = ("aten::empty", "aten::new_empty", "aten::resize", "aten::_efficientzerotensor")
"""The values of what these return are not set."""


def _verify_call(finding: Finding, number: int, op: Any, call: Call, whole: list[Any]) -> None:
    has_no_values = torch.Tag.nondeterministic_seeded in op.tags or op.name().startswith(UNSET)
    try:
        described = OperatorCall(op, call.args, call.kwargs)
        if described.spec is not None:
            finding.described += 1
            finding.is_opaque |= described.spec.is_opaque()
            finding.divisible += bool(described.splits())
        if has_no_values:
            return
        check_meaning(described)
    except oracle.WrongError as error:
        finding.wrong.append(f"call {number}: {error}"[:400])
    except Exception as error:
        finding.wrong.append(f"call {number}: {describe(error)}"[:400])
        return
    made = set()
    for k in WORKERS:
        for strategy in described.strategies(k):
            finding.strategies += 1
            wrong = _wrong(op, call, strategy, whole, f"among {k} workers")
            if wrong:
                finding.wrong.append(f"call {number}: {wrong}"[:300])
            elif k == brute_force.WORKERS:
                made.add(brute_force.cuts_of(op, call, strategy))
    for shares in SHARES:
        for strategy in described.strategies(len(shares), shares):
            finding.uneven += 1
            wrong = _wrong(op, call, strategy, whole, f"by {shares}")
            if wrong:
                finding.wrong.append(f"call {number}: {wrong}"[:300])
    if finding.has_brute_force and number < MUTATED_CALLS and not finding.wrong:
        tried, surviving = mutations.survivors(described)
        finding.mutants += tried
        finding.survivors += [f"call {number}: {text}" for text in surviving]
    valid = brute_force.valid_cuts(op, call) if finding.has_brute_force else set()
    finding.splittable += bool(valid or made)
    finding.split += bool(made)
    finding.valid += len(valid)
    missing = [cuts for cuts in valid if not brute_force.is_made(cuts, made)]
    finding.found += len(valid) - len(missing)
    finding.missing += [f"call {number}: {cuts}" for cuts in sorted(missing, key=str)[:2]]


def _wrong(
    op: Any, call: Call, strategy: dict[str, Any], whole: list[Any], among: str
) -> str | None:
    """What is wrong with a strategy, None where its results are the operator's."""
    try:
        oracle.check(op, call, strategy, whole)
    except Exception as error:
        return f"{strategy['name']} {among}: {error}"
    return None


def verify_all(folder: Path, overloads: Sequence[str]) -> list[Finding]:
    """Checks overloads side by side; a crash or a hang of one is a finding, too."""
    findings, failed = [], []
    check = functools.partial(verify_overload, folder)
    for outcome in run_each(check, overloads, "verifying"):
        if outcome.error:
            failed.append(outcome.item)
        else:
            findings.append(outcome.value)
    # Is it the Spec, or a wrong slice?
    check = functools.partial(verify_overload, folder, has_brute_force=False)
    for outcome in run_each(check, failed, "without brute force"):
        findings.append(outcome.value or Finding(outcome.item, error=outcome.error))
    return sorted(findings, key=lambda finding: finding.overload)


def why_whole(overload: str) -> str:
    """What an operator does that cannot be divided along any dimension, beginning with the verb."""
    tags = operator_named(overload, "specs").tags
    if torch.Tag.nondeterministic_seeded in tags:
        return "Draws its numbers one after another"
    if torch.Tag.dynamic_output_shape in tags:
        return "Has a result whose size depends on the values"
    found = definition(overload)
    text = inspect.getdoc(found.source) if found else ""
    return (text or "Gives no reason").partition("\n")[0].rstrip(".")


def summary(findings: Sequence[Finding]) -> str:
    """The totals as a table in Markdown, and what cannot be divided."""
    proven = [f for f in findings if f.described and not f.wrong and not f.error]
    whole = [f for f in proven if not f.divisible]
    opaque = [f for f in whole if f.is_opaque]
    splittable = [f for f in findings if f.splittable]

    def total(name: str) -> int:
        return sum(getattr(f, name) for f in findings)

    def part(of: Sequence[Finding], which: Sequence[Finding]) -> tuple[int, int]:
        return sum(f in which for f in of), len(of)

    core = [f for f in findings if f.is_core]
    backward = [f for f in splittable if f.is_backward]
    split = [f for f in splittable if f.split]
    mutants = total("mutants")
    rejected = mutants - sum(len(f.survivors) for f in findings)
    rows = [
        ("overloads with a Spec that no execution contradicts", *part(findings, proven)),
        ("- core overloads", *part(core, proven)),
        ("- opaque in every dimension", len(opaque), len(proven)),
        ("overloads that can be divided: with a correct strategy", *part(splittable, split)),
        ("- core overloads", *part([f for f in splittable if f.is_core], split)),
        ("- only in backward passes", *part(backward, split)),
        ("calls that can be divided: with a correct strategy", total("split"), total("splittable")),
        ("cuts that brute force finds: made by a strategy", total("found"), total("valid")),
        ("wrong Specs and strategies: rejected", rejected, mutants),
    ]
    lines = [
        "| of operators and their calls | number | of | share |",
        "| --- | ---: | ---: | ---: |",
    ]
    lines += [f"| {text} | {n} | {of} | {n / max(1, of):.2%} |" for text, n, of in rows]
    wrong = sum(len(f.wrong) for f in findings)
    lines.append(f"| strategies executed; contradictions | {total('strategies')} | {wrong} | |")
    lines.append(f"| - among workers of which one has nothing | {total('uneven')} | | |")
    reasons: dict[str, list[str]] = {}
    for finding in opaque:
        reasons.setdefault(why_whole(finding.overload), []).append(_name(finding))
    lines += ["", "Opaque in every dimension:", ""] if reasons else []
    lines += [f"- {reason}: {', '.join(names)}" for reason, names in sorted(reasons.items())]
    others = [_name(finding) for finding in whole if not finding.is_opaque]
    if others:
        lines += ["", f"Described, but not divided in any of these calls: {', '.join(others)}."]
    return "\n".join(lines)


def _name(finding: Finding) -> str:
    return f"`{finding.overload.partition('::')[2]}`"
