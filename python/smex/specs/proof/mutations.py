"""Negative controls: Specs and strategies with one thing changed, which the checks must reject."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils import _pytree as pytree

from smex.specs import oracle
from smex.specs.proof import brute_force
from smex.specs.strategies import described_call, strategies
from smex.specs.verification import MAX_WORK, meaning_error, work_of

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
    return oracle.PlainCall(args, kwargs)


def _is_rejected(check: Callable[..., object], *arguments: Any) -> bool:
    try:
        check(*arguments)
    except Exception:
        return True
    return False


def survivors(op: Any, call: Any) -> tuple[int, list[str]]:
    """How many mutants of a call's Spec and strategies there are, and which pass every check.

    Mutants of the Spec that the interpreter cannot tell from the Spec mean the same.
    """
    outs = [x for x in oracle.run(op, call.args, call.kwargs) if torch.is_tensor(x)]
    if not any(x.numel() for x in outs):
        return 0, []
    tried, surviving = 0, []
    draws = [call, *(_afresh(call, is_sparse=n % 2 == 1) for n in range(MAX_DRAWS))]
    spec = described_call(op, call.args, call.kwargs)[0]
    if spec is not None and not spec.is_opaque() and work_of(spec) <= MAX_WORK:
        for what, text in spec_mutants(spec.text()):
            if _means_the_same(op, draws[:3], text):
                continue
            tried += 1
            if not any(_is_rejected(_check_text, op, draw, text) for draw in draws[:3]):
                surviving.append(f"{what}: {text}")
    leaves = brute_force.read_tensors(op, call)
    numbers = all(x.is_floating_point() for x in outs)
    if not leaves:
        return tried, surviving  # other integers could be no arguments
    for strategy in strategies(op, call.args, call.kwargs, k=2):
        for what, wrong in strategy_mutants(strategy, leaves):
            if what == "another reduction" and not numbers:
                continue  # the largest of truths is their sum
            tried += 1
            if not any(_is_rejected(oracle.check, op, draw, wrong) for draw in draws):
                surviving.append(f"{what}: {strategy['name']}")
    return tried, surviving


def _means_the_same(op: Any, draws: Any, text: str) -> bool:
    for draw in draws:
        spec, tensors = described_call(op, draw.args, draw.kwargs)
        lists = [(t.double().flatten().tolist(), list(t.shape)) for t in tensors]
        try:
            pairs = zip(type(spec).parse(text).evaluate(lists), spec.evaluate(lists))
        except Exception:
            return False
        for (found, _), (expected, _) in pairs:
            a, b = (torch.tensor(x, dtype=torch.float64) for x in (found, expected))
            if not oracle.same(a, b):
                return False
    return True


def _check_text(op: Any, call: Any, text: str) -> None:
    spec, tensors = described_call(op, call.args, call.kwargs)
    error = meaning_error(op, call.args, call.kwargs, type(spec).parse(text), tensors)
    if error is not None:
        raise oracle.WrongError(error)
