"""A captured model at another batch, without capturing it again."""

from __future__ import annotations

import dataclasses
from typing import Any

from smex.capture.records import CapturedGraph, OpRecord

PRIME_BATCH = 509
"""A batch that divides no other size of the models, so that its multiples can be told."""


def at_batch(captured: CapturedGraph, batch: int) -> CapturedGraph:
    """The graph that was captured at `PRIME_BATCH`, as it is at `batch`.

    Every size and every whole number among the arguments that is a multiple of `PRIME_BATCH` has
    the batch as a factor. Fractions, such as one over the number of elements, stay as they are:
    they cost the same. `tests/python/benchmarks/test_baselines.py` compares with captures at other
    batches.
    """

    def scaled(x: Any) -> Any:
        if type(x) is int:
            return x // PRIME_BATCH * batch if x > 0 and x % PRIME_BATCH == 0 else x
        if isinstance(x, (list, tuple)):
            return type(x)(scaled(item) for item in x)
        return x

    def call(op: OpRecord) -> OpRecord:
        return dataclasses.replace(op, args=scaled(op.args))

    return dataclasses.replace(
        captured,
        values=[dataclasses.replace(v, shape=scaled(v.shape)) for v in captured.values],
        ops=[call(op) for op in captured.ops],
        fusions=[dataclasses.replace(f, fused=call(f.fused)) for f in captured.fusions],
    )
