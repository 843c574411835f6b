"""The page of the documentation that shows every Spec."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from proof.field import load
from proof.harness import Finding, summary
from smex.operators import operator_named
from smex.specs import definition
from smex.specs.strategies import OperatorCall

_HEAD = """# Specifications

Made by `make verify-specs`: torch {torch}, the calls that OpInfo's samples reach in float64, \
forward and backward, of odd, even and empty sizes, and drawn ones. Each Spec is shown on one of \
these calls, in short: which elements of the inputs an element of the outputs is made of, `:` for \
all of a dimension, and what is reduced. `python -m smex.specs show OPERATOR SHAPE ...` prints it \
in full. "Run" counts the ways of dividing a call among 2, 3 and 4 workers that were executed.

{summary}
"""

_MAX_LENGTH = 160


def page(folder: Path, findings: Sequence[Finding]) -> str:
    """The page in Markdown: for each family its operators, their Specs and what was proven."""
    families: dict[str, list[Finding]] = {}
    for finding in findings:
        found = definition(finding.overload)
        if found is not None and finding.described:
            families.setdefault(found.source.__module__, []).append(finding)
    parts = [_HEAD.format(torch=torch.__version__.partition("+")[0], summary=summary(findings))]
    for module, members in sorted(families.items(), key=lambda item: item[0].rpartition(".")[2]):
        title = (inspect.getdoc(sys.modules[module]) or module).partition("\n")[0].rstrip(".")
        parts.append(f"## {title}\n\n| operator | Spec | divided along | calls | run |\n"
                     "| --- | --- | --- | ---: | ---: |")  # fmt: skip
        parts[-1] += "".join(f"\n{row}" for row in _rows(folder, members))
    return "\n\n".join(parts) + "\n"


def _rows(folder: Path, findings: Sequence[Finding]) -> Iterator[str]:
    for finding in findings:
        call = _example(folder, finding.overload)
        if call is None:
            continue
        text = str(call.spec)
        if len(text) > _MAX_LENGTH:
            text = f"{text[:_MAX_LENGTH]} …"
        along = ", ".join(_kinds(call)) or "nothing"
        name = finding.overload.partition("::")[2]
        yield f"| `{name}` | `{text}` | {along} | {finding.calls} | {finding.strategies} |"


def _example(folder: Path, overload: str) -> Any:
    """The described call with the most ways to divide it."""
    op = operator_named(overload, "specs")
    best = None
    for call in load(folder, overload):
        if call.sizes not in ("odd", "even"):
            continue
        try:
            found = OperatorCall(op, call.args, call.kwargs)
        except Exception:  # a sample that is meant to fail
            continue
        if found.spec is None:
            continue
        if best is None or len(found.splits()) > len(best.splits()):
            best = found
    return best


def _kinds(call: Any) -> Iterator[str]:
    """The indices, and how the outputs are reduced where they are."""
    for split, is_mean in call.splits():
        kinds = sorted({kind.name for kind in split.reduces if kind is not None})
        name = call.spec.indices[split.index].name
        weighed = "weighted " if is_mean else ""
        yield f"{name} ({weighed}{', '.join(kinds)})" if kinds else name
