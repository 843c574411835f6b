"""Whether what a vertex function computes for one vertex depends on others, told by a trial.

Specs say which calls surely treat rows apart. Of the other calls some do so as well, or undo what
the ones before have mixed: the function is run on a few rows of which one is then changed.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, fx
from torch.utils import _pytree as pytree

from smex.capture.origin import user_stacklevel
from smex.errors import MixedRowsWarning, SmexError
from smex.vertex.compile.trace import Joint, Operand, Signature, UntraceableError, trace
from smex.vertex.words.function import VertexFunction

TRIAL_ROWS, TRIAL_EDGES = 23, 41
"""Primes that are no sizes of layers: what dimension has rows is told by its size."""

CHANGES = (1.0, 30.0, -30.0)
"""What is added to the first row; much, so that it becomes a maximum or a minimum."""

MOST_ROWS = 1000
"""Among how many rows of an input another one is looked for."""

Values = dict[fx.Node, Any]


def warn_of_mixed_rows(function: VertexFunction, signature: Signature) -> None:
    """Warns, once for a function, if it mixes rows; says nothing where that cannot be tried."""
    if function._has_warned:
        return
    forward = replace(signature, wants=frozenset(), with_gradients=False)
    try:
        joint = trace(function, forward)
        line = _mixing_line(joint, _Trial(joint, function, forward))
    except (SmexError, UntraceableError):
        return
    except Exception:  # the trial's rows are none that the function takes
        return
    if line is None:
        return
    function._has_warned = True
    where = f" at {line}" if line else ""
    warnings.warn(
        f"{type(function).__name__}: forward mixes the rows of different vertices{where}: what it "
        "computes for one vertex depends on which others are in the batch; treat rows apart "
        "(LayerNorm in place of BatchNorm, means and sums over dimension 1 and higher)",
        MixedRowsWarning,
        stacklevel=user_stacklevel(),
    )


class _Trial:
    """Arguments of a trace for a few rows."""

    def __init__(self, joint: Joint, function: VertexFunction, signature: Signature):
        self._joint = joint
        self._signature = signature
        self._outside = {found.name: found.current(function) for found in joint.outside}
        self._given = {node: self._drawn(node, op) for node, op in joint.inputs.items()}
        self._module = fx.GraphModule(torch.nn.Module(), joint.graph)

    def run(self, rows: int = TRIAL_ROWS, change: float = 0.0) -> Values:
        """Returns the values of all calls on some rows.

        `change`: how far the first is another one.
        """
        edges = TRIAL_EDGES if rows == TRIAL_ROWS else TRIAL_EDGES + 1
        arguments = []
        for node, operand in self._joint.inputs.items():
            value = self._given[node]
            if operand.role in ("param", "counts"):
                value = value[:rows] if operand.role == "counts" else value
            elif operand.role == "parents":
                value = value[:edges]
            else:
                value = value[: edges if operand.role == "each" else rows].clone()
                if change:
                    self._change(value, operand, change)
            arguments.append(value.clone())
        recorder = _Recorder(self._module)
        devices = {x.device for x in arguments if x.device.type == "cuda"}
        with torch.random.fork_rng(devices=list(devices)), torch.no_grad():
            torch.manual_seed(0)
            recorder.run(*arguments)
        return recorder.values

    def is_random(self) -> bool:
        """Returns whether random numbers are drawn, others for another number of rows."""
        targets = [n.target for n in self._joint.graph.nodes if n.op == "call_function"]
        tag = torch.Tag.nondeterministic_seeded
        return any(isinstance(t, torch._ops.OpOverload) and tag in t.tags for t in targets)

    def _drawn(self, node: fx.Node, operand: Operand) -> Tensor:
        fake: Tensor = node.meta["val"]
        generator = torch.Generator().manual_seed(len(node.name))
        if operand.role == "param":
            found = self._outside.get(operand.name)
            return (self._signature.params[operand.name] if found is None else found).detach()
        if operand.role == "counts":
            return torch.full((TRIAL_ROWS + 1,), 2, device=fake.device)
        if operand.role == "parents":
            return torch.arange(TRIAL_EDGES + 1, device=fake.device) % TRIAL_ROWS
        if operand.role == "input":
            return self._rows_of(self._signature.inputs[operand.name].detach())
        rows = (TRIAL_EDGES if operand.role == "each" else TRIAL_ROWS) + 1
        drawn = torch.randn((rows, *fake.shape[1:]), generator=generator, dtype=torch.float64)
        return drawn.to(fake.device, fake.dtype)

    def _rows_of(self, given: Tensor) -> Tensor:
        """Rows of an input: of numbers drawn, of what may be indices the user's own."""
        if given.is_floating_point():
            generator = torch.Generator().manual_seed(1)
            shape = (TRIAL_ROWS + 1, *given.shape[1:])
            drawn = torch.randn(shape, generator=generator, dtype=torch.float64)
            return drawn.to(given.device, given.dtype)
        return given[torch.arange(TRIAL_ROWS + 1, device=given.device) % given.shape[0]]

    def _change(self, value: Tensor, operand: Operand, change: float) -> None:
        """Changes the first row, of edges those of the first vertex."""
        if operand.role == "each":
            value[::TRIAL_ROWS] += change
        elif value.is_floating_point():
            value[0] += change
        elif operand.role == "input":
            others = self._signature.inputs[operand.name][:MOST_ROWS]
            differs = (others != value[0]).flatten(1).any(1) if others.dim() > 1 else (
                others != value[0]
            )  # fmt: skip
            if bool(differs.any()):
                value[0] = others[differs.nonzero()[0, 0]]


class _Recorder(fx.Interpreter):
    """Keeps the values of all calls, as they were made."""

    def __init__(self, module: fx.GraphModule):
        super().__init__(module, garbage_collect_values=False)
        self.values: Values = {}

    def run_node(self, n: fx.Node) -> Any:
        """Runs a call."""
        value = super().run_node(n)
        self.values[n] = pytree.tree_map_only(Tensor, torch.clone, value)
        return value


def _mixing_line(joint: Joint, trial: _Trial) -> str | None:
    """Returns the user's line that mixes rows, "" if that is not known; None where none does."""
    plain = trial.run()
    results = list(joint.values.values())
    for change in CHANGES:
        changed = trial.run(change=change)
        if any(_spreads(plain[n], changed[n]) for n in results):
            nodes = [n for n in joint.graph.nodes if n.op == "call_function"]
            first = next((n for n in nodes if _spreads(plain[n], changed[n])), None)
            return _line(first)
    if trial.is_random():
        return None
    more = trial.run(TRIAL_ROWS + 1)
    if any(_differs(plain[n], more[n][:TRIAL_ROWS]).any() for n in results):
        return _line(_first_of_size(joint))
    return None


def _first_of_size(joint: Joint) -> fx.Node | None:
    """Returns the first call that computes with the number of rows."""
    for node in joint.graph.nodes:
        of_size = [n for n in node.all_input_nodes if isinstance(n.meta.get("val"), torch.SymInt)]
        if of_size and isinstance(node.meta.get("val"), (torch.SymFloat, Tensor)):
            return node
    return None


def _line(node: fx.Node | None) -> str:
    if node is None:
        return ""
    line, target = node.meta.get("smex_line", ""), node.target
    return f"{line} ({target})" if line else str(target)


def _spreads(one: Any, other: Any) -> bool:
    """Returns whether a change of the first row shows elsewhere in a value."""
    if isinstance(one, (tuple, list)):
        return any(_spreads(a, b) for a, b in zip(one, other))
    if not isinstance(one, Tensor) or one.shape != other.shape:
        return False
    differs = _differs(one, other)
    for dim, size in enumerate(one.shape):
        for rows, every in ((TRIAL_ROWS, TRIAL_ROWS), (TRIAL_EDGES, TRIAL_ROWS)):
            if not size or size % rows:
                continue
            place = torch.arange(size, device=one.device)
            there = differs.transpose(0, dim)
            # Several of each row lie side by side, or all rows several times one after the other.
            beside, again = (place // (size // rows), place % rows)
            return all(bool(there[of % every != 0].any()) for of in (beside, again))
    return bool(differs.any())


def _differs(one: Tensor, other: Tensor) -> Tensor:
    """Returns where two tensors differ by more than rounding."""
    if not one.is_floating_point() and not one.is_complex():
        return one != other
    rounding = max(1e-9, min(1e4 * torch.finfo(one.dtype).eps, 0.1))
    return ~torch.isclose(one, other, rtol=rounding, atol=rounding, equal_nan=True)
