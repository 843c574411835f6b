"""Proves a Spec by execution: no Spec is trusted that was not run against its operator."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch

from smex.errors import SmexTypeError, SmexValueError, SpecError
from smex.operators import operator_named
from smex.specs import oracle
from smex.specs.lookup import definition
from smex.specs.strategies import OperatorCall, check_workers

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
        samples: tuples of arguments, or pairs ``(arguments, keyword arguments)`` of a tuple and a
            dict; float64 tensors with few elements and odd sizes prove most.
        workers: into how many parts the calls are divided.

    Returns:
        How many strategies were executed; 0 for a Spec that allows none on these samples.

    Raises:
        SpecError: there is no Spec, or it is wrong: with an output, its indices, what the operator
            gives and what the Spec says, or with the strategy that fails.
        SmexTypeError: `samples` or `workers` are no lists of these.
        SmexValueError: there is no such operator, it refuses a sample, or nothing is proven.

    Example:
        >>> smex.specs.verify("aten::mm", [(torch.rand(3, 4), torch.rand(4, 5))])
        6
    """
    overload = operator_named(op, "verify")
    if not isinstance(workers, Iterable) or not (workers := tuple(workers)):
        raise SmexTypeError(
            f"verify: expected numbers of workers such as (2, 3), found {workers!r}"
        )
    for k in workers:
        check_workers(k, "verify")
    executed = 0
    proves = False
    for number, (args, kwargs) in enumerate(_calls(samples)):
        call = OperatorCall(overload, args, kwargs)
        if call.spec is None:
            raise SpecError(_undescribed(overload, number))
        try:
            proves |= check_meaning(call)
            for k in workers:
                for strategy in call.strategies(k):
                    executed += 1
                    _check_strategy(call, strategy, k)
        except oracle.WrongError as error:
            raise SpecError(f"spec of {overload.name()}: sample {number}: {error}") from None
        if any(shape is not None and 0 not in shape for shape in call.outputs):
            proves |= executed > 0 or not call.splits()
    if not proves:
        raise SmexValueError(
            f"verify: the samples of {overload.name()} prove nothing: there are none, or they have "
            "too few elements; give some with 3 or more in each dimension"
        )
    return executed


def _calls(samples: Any) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    if isinstance(samples, torch.Tensor) or not isinstance(samples, Iterable):
        raise SmexTypeError(
            f"verify: expected a list of argument tuples, found {type(samples).__name__}; write "
            "[(x, y)]"
        )
    for number, sample in enumerate(samples):
        if not isinstance(sample, (tuple, list)):
            raise SmexTypeError(
                f"verify: sample {number}: expected a tuple of arguments, found "
                f"{type(sample).__name__}; samples are a list of tuples, [(x, y)]"
            )
        if len(sample) == 2 and isinstance(sample[0], tuple) and isinstance(sample[1], dict):
            yield sample[0], sample[1]
        else:
            yield tuple(sample), {}


def _undescribed(op: Any, number: int) -> str:
    if definition(op.name()) is None:
        return f"{op.name()}: no Spec describes sample {number}; add one"
    return (
        f"{op.name()}: its Spec declines sample {number}: it returns None or leaves an output out, "
        "or a tensor is not strided; such calls run unsplit"
    )


_ROUNDING = {torch.float32: 1e-5, torch.float16: 1e-2, torch.bfloat16: 1e-1}
"""What the interpreter, which computes in float64, may differ by."""


def _check_strategy(call: OperatorCall, strategy: dict[str, Any], k: int) -> None:
    try:
        oracle.check(call.op, call, strategy)
    except Exception as error:
        name = strategy["name"]
        raise oracle.WrongError(f"divided along {name} among {k} workers: {error}") from None


def check_meaning(call: OperatorCall) -> bool:
    """Compares the interpreter's outputs with the operator's; opaque and complex ones cannot be.

    Returns:
        Whether there was something to compare.

    Raises:
        WrongError: they differ, or the Spec's text does not read back.
    """
    spec = call.spec
    if spec is None:
        return False
    text = spec.text()
    if type(spec).parse(text).text() != text:
        raise oracle.WrongError(f"the Spec's text does not read back:\n{text}")
    if not can_interpret(spec) or any(t.dtype.is_complex for t in call.inputs):
        return False
    error = meaning_error(call.op, call, spec, call.inputs)
    if error is not None:
        raise oracle.WrongError(error)
    return all(index.extent > 0 for index in spec.indices)


def can_interpret(spec: Any) -> bool:
    """Returns whether the interpreter knows all functions, and needs few element evaluations."""
    work = math.prod(max(1, index.extent) for index in spec.indices)
    return not spec.is_opaque() and work <= MAX_WORK


def as_lists(tensors: Sequence[torch.Tensor]) -> list[tuple[list[float], list[int]]]:
    """Tensors as the interpreter takes them."""
    return [(t.double().flatten().tolist(), list(t.shape)) for t in tensors]


def meaning_error(op: Any, call: Any, spec: Any, inputs: Sequence[torch.Tensor]) -> str | None:
    """Returns the first element of which a Spec says something else than the operator, or None."""
    expected = oracle.run(op, call.args, call.kwargs)
    results = [x for x in expected if torch.is_tensor(x)]
    tolerance = max(_ROUNDING.get(t.dtype, oracle.TOLERANCE) for t in (*inputs, *results))
    try:
        evaluated = spec.evaluate(as_lists(inputs))
    except SmexValueError as error:
        return str(error)
    for position, (data, shape) in enumerate(evaluated):
        wanted = expected[position]
        if not spec.describes(position) or wanted is None or wanted.dtype.is_complex:
            continue
        found = torch.tensor(data, dtype=torch.float64).reshape(shape)
        if not oracle.same(found, wanted.double(), tolerance):
            where = oracle.difference(wanted.double(), found, tolerance)
            return f"output {position}{where}, by\n{spec.text()}"
    return None
