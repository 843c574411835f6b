"""Proves a Spec by execution: no Spec is trusted that was not run against its operator."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Any

import torch

from smex.errors import SpecError
from smex.specs import oracle
from smex.specs.strategies import OperatorCall

__all__ = ["check_meaning", "verify"]

MAX_WORK = 3_000
"""The interpreter is not asked for more element evaluations than about this in `verify`'s samples
of several indices: its cost is the product of all extents."""


def verify(
    op: str | torch._ops.OpOverload,
    samples: Iterable[Sequence[Any]],
    workers: Sequence[int] = (2, 3),
) -> int:
    """Checks an operator's Spec on samples: what it means, and every way of dividing it.

    Args:
        op: the operator, such as ``"mylib::scale"``.
        samples: argument lists; float64 tensors with few elements and odd sizes prove most.
        workers: into how many parts the calls are divided.

    Returns:
        How many strategies were executed.

    Raises:
        SpecError: there is no Spec, or it is wrong: with an output, its indices, what the operator
            gives and what the Spec says, or with the strategy that fails.

    Example:
        >>> smex.specs.verify("aten::mm", [(torch.rand(3, 4), torch.rand(4, 5))])
        6
    """
    overload = oracle.resolve(op) if isinstance(op, str) else op
    executed = 0
    for number, args in enumerate(samples):
        call = OperatorCall(overload, tuple(args))
        if call.spec is None:
            raise SpecError(f"{overload.name()}: no Spec describes sample {number}; add one")
        try:
            check_meaning(call)
            for k in workers:
                for strategy in call.strategies(k):
                    executed += 1
                    _check_strategy(call, strategy, k)
        except oracle.WrongError as error:
            raise SpecError(f"spec of {overload.name()}: sample {number}: {error}") from None
    return executed


_ROUNDING = {torch.float32: 1e-5, torch.float16: 1e-2, torch.bfloat16: 1e-1}
"""What the interpreter, which computes in float64, may differ by."""


def _check_strategy(call: OperatorCall, strategy: dict[str, Any], k: int) -> None:
    try:
        oracle.check(call.op, call, strategy)
    except Exception as error:
        name = strategy["name"]
        raise oracle.WrongError(f"divided along {name} among {k} workers: {error}") from None


def check_meaning(call: OperatorCall) -> None:
    """Compares the interpreter's outputs with the operator's; opaque and complex ones cannot be.

    Raises:
        WrongError: they differ, or the Spec's text does not read back.
    """
    spec = call.spec
    if spec is None:
        return
    text = spec.text()
    if type(spec).parse(text).text() != text:
        raise oracle.WrongError(f"the Spec's text does not read back:\n{text}")
    if not can_interpret(spec) or any(t.dtype.is_complex for t in call.inputs):
        return
    error = meaning_error(call.op, call, spec, call.inputs)
    if error is not None:
        raise oracle.WrongError(error)


def can_interpret(spec: Any) -> bool:
    """Whether the interpreter knows all functions, and needs few element evaluations."""
    work = math.prod(max(1, index.extent) for index in spec.indices)
    return not spec.is_opaque() and work <= MAX_WORK


def as_lists(tensors: Sequence[torch.Tensor]) -> list[tuple[list[float], list[int]]]:
    """Tensors as the interpreter takes them."""
    return [(t.double().flatten().tolist(), list(t.shape)) for t in tensors]


def meaning_error(op: Any, call: Any, spec: Any, inputs: Sequence[torch.Tensor]) -> str | None:
    """The first element of which a Spec says something else than the operator, or None."""
    expected = oracle.run(op, call.args, call.kwargs)
    results = [x for x in expected if torch.is_tensor(x)]
    tolerance = max(_ROUNDING.get(t.dtype, oracle.TOLERANCE) for t in (*inputs, *results))
    for position, (data, shape) in enumerate(spec.evaluate(as_lists(inputs))):
        wanted = expected[position]
        if not spec.describes(position) or wanted is None or wanted.dtype.is_complex:
            continue
        found = torch.tensor(data, dtype=torch.float64).reshape(shape)
        if not oracle.same(found, wanted.double(), tolerance):
            return _counterexample(position, wanted.double(), found, spec.text())
    return None


def _counterexample(position: int, wanted: torch.Tensor, found: torch.Tensor, text: str) -> str:
    for at in itertools.product(*(range(size) for size in wanted.shape)):
        a, b = float(wanted[at]), float(found[at])
        if not (abs(a - b) <= 1e-9 * max(1, abs(a)) or (a != a and b != b)):
            where = f"output {position} at {list(at)}"
            return f"{where}: expected {a:g}, found {b:g}, by\n{text}"
    return f"output {position}: expected shape {list(wanted.shape)}, found {list(found.shape)}"
