"""Negative controls: Specs and strategies with one thing changed, which the checks must reject."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils import _pytree as pytree

from proof import brute_force
from smex.specs import oracle
from smex.specs.strategies import OperatorCall
from smex.specs.verification import as_lists, can_interpret, meaning_error

# ---- Specs, as text ----

_READ = re.compile(r"#\d+(?:\{[^}]*\})?\[([^\[\]#]*)\]")


def _arguments(text: str) -> list[str]:
    """The indices of a read, at the commas outside of parentheses."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]


def _with_reads(text: str, change: Callable[[list[str]], list[str] | None]) -> Iterator[str]:
    """The text with the indices of one read changed."""
    for read in _READ.finditer(text):
        indices = _arguments(read[1])
        changed = change(list(indices)) if indices != [""] else None
        if changed is not None and changed != indices:
            yield text[: read.start(1)] + ", ".join(changed) + text[read.end(1) :]


def _offset(indices: list[str]) -> list[str] | None:
    if not re.fullmatch(r"[a-z]\w*", indices[-1]):
        return None
    return [*indices[:-1], f"add({indices[-1]}, 1)"]


def _exchanged(indices: list[str]) -> list[str] | None:
    return [indices[1], indices[0], *indices[2:]] if len(indices) > 1 else None


def spec_mutants(text: str) -> Iterator[tuple[str, str]]:
    """(what was changed, the text of a wrong Spec)."""
    for mutant in _with_reads(text, _offset):
        yield "an offset by one", mutant
    for mutant in _with_reads(text, _exchanged):
        yield "two indices exchanged", mutant
    for kind, other in (("sum{", "max{"), ("max{", "sum{"), ("prod{", "sum{"), ("min{", "max{")):
        if kind in text:
            yield "another reduction", text.replace(kind, other, 1)


# ---- strategies ----


def _boxes(strategy: dict[str, Any]) -> Iterator[Any]:
    for worker in strategy["workers"]:
        for x in pytree.tree_leaves(worker, is_leaf=oracle.is_reference):
            if oracle.is_reference(x) and x["box"]:
                yield x


def strategy_mutants(
    strategy: dict[str, Any], leaves: set[int]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """(what was changed, a wrong strategy); only of the parts of these tensors, by leaf."""
    for position, box in enumerate(_boxes(strategy)):
        if box["leaf"] not in leaves:
            continue
        for dim, (lo, hi) in enumerate(box["box"]):
            if lo > 0:
                moved = copy.deepcopy(strategy)
                list(_boxes(moved))[position]["box"][dim] = [lo - 1, hi - 1]
                yield "a box moved by one", moved
            if lo < 0:
                cropped = copy.deepcopy(strategy)
                list(_boxes(cropped))[position]["box"][dim] = [0, hi]
                yield "a halo lost", cropped
    for position, out in enumerate(strategy["outs"]):
        wrong = copy.deepcopy(strategy)
        if "reduce" in out:
            wrong["outs"][position]["reduce"] = "max" if out["reduce"] != "max" else "sum"
            yield "another reduction", wrong
        elif "place" in out:
            wrong["outs"][position] = {"same": True}
            yield "parts taken for the whole", wrong


# ---- the checks ----

MAX_DRAWS = 40
"""Of other values, on which a wrong strategy may show that was right on the sample's own: the
largest of a row is not always where it was lost.
"""


def _afresh(call: Any, is_sparse: bool) -> Any:
    def drawn(x: torch.Tensor) -> torch.Tensor:
        if x.is_floating_point():
            return torch.randn_like(x) * (torch.rand(x.shape) < 0.3 if is_sparse else 1)
        return x.flatten()[torch.randperm(x.numel())].reshape(x.shape)

    args, kwargs = pytree.tree_map_only(torch.Tensor, drawn, (call.args, call.kwargs))
    return oracle.Call(args, kwargs)


def _is_rejected(check: Callable[..., object], *arguments: Any) -> bool:
    try:
        check(*arguments)
    except Exception:
        return True
    return False


def survivors(call: OperatorCall) -> tuple[int, list[str]]:
    """How many mutants of a call's Spec and strategies there are, and which pass every check."""
    outs = [x for x in oracle.run(call.op, call.args, call.kwargs) if torch.is_tensor(x)]
    if not any(x.numel() for x in outs):
        return 0, []
    own = oracle.Call(tuple(call.args), call.kwargs)
    draws = [own, *(_afresh(own, is_sparse=n % 2 == 1) for n in range(MAX_DRAWS))]
    tried, surviving = _spec_survivors(call, draws[:3])
    leaves = brute_force.read_tensors(call.op, own)
    numbers = all(x.is_floating_point() for x in outs)
    if not leaves:
        return tried, surviving  # other integers could be no arguments
    for strategy in call.strategies(2):
        for what, wrong in strategy_mutants(strategy, leaves):
            if what == "another reduction" and not numbers:
                continue  # the largest of truths is their sum
            tried += 1
            if not any(_is_rejected(oracle.check, call.op, draw, wrong) for draw in draws):
                surviving.append(f"{what}: {strategy['name']}")
    return tried, surviving


def _spec_survivors(call: OperatorCall, draws: list[oracle.Call]) -> tuple[int, list[str]]:
    """Of the Spec. Mutants that the interpreter cannot tell from it mean the same."""
    if call.spec is None or not can_interpret(call.spec):
        return 0, []
    inputs = [call.inputs_among(_tensors(draw)) for draw in draws]
    meant = [call.spec.evaluate(as_lists(x)) for x in inputs]
    tried, surviving = 0, []
    for what, text in spec_mutants(call.spec.text()):
        try:
            mutant = type(call.spec).parse(text)
            found = [mutant.evaluate(as_lists(x)) for x in inputs]
        except Exception:
            tried += 1  # rejected: it reads out of range, or is no Spec
            continue
        if all(_is_same(a, b) for a, b in zip(found, meant)):
            continue
        tried += 1
        if not any(meaning_error(call.op, d, mutant, x) for d, x in zip(draws, inputs)):
            surviving.append(f"{what}: {text}")
    return tried, surviving


def _tensors(call: oracle.Call) -> list[torch.Tensor]:
    return [x for x in pytree.tree_leaves((call.args, call.kwargs)) if torch.is_tensor(x)]


def _is_same(found: Any, expected: Any) -> bool:
    pairs = (
        (torch.tensor(a, dtype=torch.float64), torch.tensor(b, dtype=torch.float64))
        for (a, _), (b, _) in zip(found, expected)
    )
    return all(oracle.same(a, b) for a, b in pairs)
