"""Executes the registry of Specs on the samples that PyTorch tests its operators with.

    python benchmarks/specs/verify.py [aten::mm ...] [--calls build/specs] [--out build/specs.json]
        [--page docs/specs.md]

The first run records the calls that OpInfo's samples reach, which needs `expecttest` and `tqdm`.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import tempfile
from pathlib import Path

import torch
from proof import field, harness
from proof.page import page

from smex.errors import SmexValueError
from smex.operators import checked_name


def verify(operators: list[str], folder: Path, out: Path | None, to: Path | None) -> int:
    """Executes the Specs of these operators, all by default; returns the exit status."""
    for operator in operators:
        checked_name(operator, "verify")
    if not field.overloads(folder):
        print(f"recording the calls of OpInfo's samples into {folder}", file=sys.stderr)
        recorder = field.record()
        field.save(recorder, folder)
        print(field.summary(recorder))
    chosen = [
        overload
        for overload in field.overloads(folder)
        if not operators or overload in operators or overload.partition(".")[0] in operators
    ]
    if not chosen:
        print(f"no recorded call of {', '.join(operators)}")
        return 1
    findings = harness.verify_all(folder, chosen)
    for finding in findings:
        if operators or finding.wrong or finding.error or finding.survivors:
            print(finding)
    print(harness.summary(findings))
    if out is not None:
        out.write_text(json.dumps([dataclasses.asdict(x) for x in findings], indent=1))
    if to is not None:
        to.write_text(page(folder, findings))
    return int(any(x.wrong or x.error for x in findings))


def main() -> int:
    """Runs the command; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("operator", nargs="*", help="such as aten::mm; all by default")
    parser.add_argument(
        "--calls",
        type=Path,
        default=Path(tempfile.gettempdir()) / f"smex-specs-{torch.__version__}",
        help="folder of the recorded calls",
    )
    parser.add_argument("--out", type=Path, help="write what was found as JSON")
    parser.add_argument("--page", type=Path, help="write a page in Markdown with all Specs")
    options = parser.parse_args()
    try:
        return verify(options.operator, options.calls, options.out, options.page)
    except SmexValueError as error:
        print(error, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
