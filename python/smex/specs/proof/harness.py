"""Checks every Spec and every strategy on the recorded field, each overload in its own process."""

from __future__ import annotations

import multiprocessing
import time
import traceback
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
from tqdm.auto import tqdm

from smex.specs import oracle
from smex.specs.oracle import Call
from smex.specs.proof import brute_force, mutations
from smex.specs.proof.field import load
from smex.specs.strategies import OperatorCall
from smex.specs.verification import check_meaning

WORKERS = (2, 3, 4)
MUTATED_CALLS = 2
"""Of so many calls of an overload also wrong Specs and strategies are tried."""

MAX_SECONDS = 60
"""For one overload: wrong slices can make a kernel hang."""


@dataclass
class Finding:
    """What is known of one overload after all its calls were checked.

    Attributes:
        calls: how many were recorded.
        described: of these, how many have a Spec.
        splittable: how many can be divided, by brute force or by a strategy.
        split: how many of these have a correct strategy.
        valid: cuts that brute force found.
        found: of these, how many some strategy makes.
        strategies: how many were executed.
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
    splittable: int = 0
    split: int = 0
    valid: int = 0
    found: int = 0
    strategies: int = 0
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
    op = oracle.resolve(overload)
    start = time.time()
    finding = Finding(overload, has_brute_force=has_brute_force)
    for number, call in enumerate(load(folder, overload)):
        finding.calls += 1
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
        finding.described += described.spec is not None
        if has_no_values:
            return
        check_meaning(described)
    except oracle.WrongError as error:
        finding.wrong.append(f"call {number}: {error}"[:400])
    except Exception as error:
        finding.wrong.append(f"call {number}: {_where(error)}"[:400])
        return
    made = set()
    for k in WORKERS:
        for strategy in described.strategies(k):
            finding.strategies += 1
            try:
                oracle.check(op, call, strategy, whole)
            except Exception as error:
                name = strategy["name"]
                finding.wrong.append(f"call {number}: {name} among {k} workers: {error}"[:300])
            else:
                if k == brute_force.WORKERS:
                    made.add(brute_force.cuts_of(op, call, strategy))
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


def _where(error: Exception) -> str:
    line = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({Path(line.filename).name}:{line.lineno})"


def _child(connection: Connection, folder: Path, overload: str, has_brute_force: bool) -> None:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    try:
        connection.send(verify_overload(folder, overload, has_brute_force))
    except Exception as error:
        connection.send(Finding(overload, error=_where(error)))


class _Running:
    """One overload's process."""

    def __init__(self, folder: Path, overload: str, has_brute_force: bool = True):
        context = multiprocessing.get_context("fork")
        self.overload = overload
        self.has_brute_force = has_brute_force
        self.start = time.time()
        self.receiver, sender = context.Pipe(duplex=False)
        self.process = context.Process(
            target=_child, args=(sender, folder, overload, has_brute_force)
        )
        self.process.start()
        sender.close()

    def finding(self) -> Finding | None:
        """What came of it; None while it runs."""
        result = None
        if self.receiver.poll(0.01):
            try:
                result = self.receiver.recv()
            except EOFError:
                self.process.join()
                status = self.process.exitcode
                result = Finding(self.overload, error=f"its process ended with status {status}")
        elif time.time() - self.start > MAX_SECONDS:
            self.process.kill()
            result = Finding(self.overload, error=f"stopped after {MAX_SECONDS} s")
        if result is not None:
            self.process.join()
        return result


def verify_all(folder: Path, overloads: Sequence[str], processes: int = 2) -> list[Finding]:
    """Checks overloads side by side; a crash or a hang of one is a finding, too."""
    waiting = list(reversed(overloads))
    running: list[_Running] = []
    findings: list[Finding] = []
    with tqdm(total=len(overloads), unit="op", disable=None) as bar:
        while waiting or running:
            while waiting and len(running) < processes:
                running.append(_Running(folder, waiting.pop()))
            for one in list(running):
                finding = one.finding()
                if finding is None:
                    continue
                running.remove(one)
                if finding.error and one.has_brute_force:  # is it the Spec, or a wrong slice?
                    running.append(_Running(folder, one.overload, has_brute_force=False))
                    continue
                findings.append(finding)
                bar.update()
    return sorted(findings, key=lambda finding: finding.overload)


def summary(findings: Sequence[Finding]) -> str:
    """The totals as a table in Markdown."""
    described = [f for f in findings if f.described and not f.wrong and not f.error]
    splittable = [f for f in findings if f.splittable]
    split = [f for f in findings if f.split]

    def total(name: str) -> int:
        return sum(getattr(f, name) for f in findings)

    mutants = total("mutants")
    rejected = mutants - sum(len(f.survivors) for f in findings)
    rows = [
        ("overloads with a Spec that no execution contradicts", len(described), len(findings)),
        ("overloads that can be divided: with a correct strategy", len(split), len(splittable)),
        ("calls that can be divided: with a correct strategy", total("split"), total("splittable")),
        ("cuts that brute force finds: made by a strategy", total("found"), total("valid")),
        ("wrong Specs and strategies: rejected", rejected, mutants),
    ]
    lines = ["| | | of | |", "| --- | ---: | ---: | ---: |"]
    for text, part, whole in rows:
        lines.append(f"| {text} | {part} | {whole} | {part / max(1, whole):.2%} |")
    wrong = sum(len(f.wrong) for f in findings)
    lines.append(f"| strategies executed; contradictions | {total('strategies')} | {wrong} | |")
    return "\n".join(lines)
