"""A spec function called on one operator call's arguments, and what it returns as a native Spec."""

from __future__ import annotations

import math
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from smex._C import tdl as _native
from smex.errors import SpecError
from smex.tdl.expressions import ANYWHERE, Operand, Trace, active, as_expr
from smex.tdl.reductions import index_names, parameters


def trace(
    name: str, function: Callable[..., Any], args: Sequence[Any],
    input_shapes: Sequence[Sequence[int]], output_shapes: Sequence[Sequence[int] | None],
) -> Any:  # fmt: skip
    """Returns the native Spec of one operator call.

    Args:
        name: the operator, for error texts.
        function: the spec function.
        args: its arguments, with SymbolicTensors in the tensors' places.
        input_shapes: the shapes of the operator's tensor operands, in order of first appearance.
        output_shapes: the real outputs' shapes; None for one that nobody uses.

    Returns:
        The Spec, or None when the function declines this call by returning None.

    Raises:
        SpecError: the function's outputs do not match the operator's.
    """
    trace_ = Trace(name)
    token = active.set(trace_)
    try:
        lambdas = function(*args)
        if lambdas is None:
            return None
        lambdas = lambdas if isinstance(lambdas, (tuple, list)) else (lambdas,)
        for output in lambdas:
            if output is not None and not callable(output):
                raise trace_.fail(
                    f"expected for each output a function of its indices, found {output!r}"
                )
        if len(lambdas) != len(output_shapes):
            raise trace_.fail(f"expected {len(output_shapes)} outputs, found {len(lambdas)}")
        statements = []
        for position, (output, shape) in enumerate(zip(lambdas, output_shapes)):
            if output is None and shape is not None and math.prod(shape) > 0:
                return None  # something used is not described
            statements.append(_statement(trace_, position, output, shape))
        extents = dict[str, int]()
        for index, extent in trace_.extents.items():
            if extent is None:
                raise trace_.fail(
                    f"index {index}: its extent is unknown; give it: Sum(..., {index}=...)"
                )
            extents[index] = extent
        indices = [(index, extents[index], index in trace_.wholes) for index in trace_.indices]
    except SpecError as error:
        text = str(error)
        if text.startswith(ANYWHERE):
            raise trace_.fail(text.removeprefix(ANYWHERE)) from error
        raise
    except Exception as error:
        at = _place(error)
        raise trace_.fail(f"its function fails{at}: {type(error).__name__}: {error}") from error
    finally:
        active.reset(token)
    try:
        return _native.Spec(indices, [list(shape) for shape in input_shapes], statements)
    except ValueError as error:
        raise SpecError(f"spec of {name}: {error}") from error


def _place(error: Exception) -> str:
    """Where a spec function fails: the last line of the traceback outside of this package."""
    here = Path(__file__).parent
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame for frame in frames if Path(frame.filename).parent != here]
    return f" at {Path(lines[-1].filename).name}:{lines[-1].lineno}" if lines else ""


def _statement(
    trace_: Trace,
    position: int,
    output: Callable[..., Operand] | None,
    shape: Sequence[int] | None,
) -> tuple[list[int], Any]:
    if shape is None:
        return [], None
    if output is None:
        names = [f"_{position}_{dim}" for dim in range(len(shape))]
    else:
        default = [f"i{dim}" for dim in range(len(shape))]
        names = index_names(output, default)
    if len(names) != len(shape):
        raise trace_.fail(
            f"output {position}: expected {len(shape)} indices (shape {list(shape)}), "
            f"found {len(names)}"
        )
    named = output is not None and names == parameters(output, [])
    indices = [trace_.bind(name, extent, strict=named) for name, extent in zip(names, shape)]
    body = None if output is None else as_expr(output(*indices)).node
    trace_.release(indices)
    return trace_.positions(indices), body
