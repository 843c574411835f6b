"""The files of plans: what they say, and whether it is still true of a model."""

from __future__ import annotations

import hashlib
import json
import math
import os
import pathlib
from collections.abc import Iterable, Sequence
from typing import Any

from smex._C import Plan as _NativePlan
from smex._C import edge_walks
from smex.errors import PlanError, SmexError, SmexTypeError
from smex.planning.cluster import Cluster
from smex.planning.machine import Machine
from smex.planning.semantic import SemanticGraph
from smex.planning.sized import contents

FORMAT = "smex-plan-1"
_FILE_KEYS: dict[str, type] = {
    "workers": int,
    "mesh": list,
    "planner": str,
    "replicate_bytes": int,
    "placements": dict,
}


def read_plan_file(path: str | pathlib.Path) -> dict[str, Any]:
    """Returns the content of a file that `Plan.save` wrote.

    Raises:
        PlanError: it is not such a file, or a key is missing or of the wrong type.
        OSError: it cannot be read.
        SmexTypeError: it is no path.
    """
    if not isinstance(path, (str, os.PathLike)):
        raise SmexTypeError(f"plan: expected the path of a file, got {path!r}")
    try:
        content = json.loads(pathlib.Path(path).read_text())
    except ValueError as error:
        raise PlanError(f"plan: {path} is not JSON: {error}") from error
    if not isinstance(content, dict):
        raise PlanError(f"plan: {path} holds a {type(content).__name__}, expected an object")
    if content.get("format") != FORMAT:
        raise PlanError(f"plan: {path} has format {content.get('format')!r}, expected {FORMAT!r}")
    for key, kind in _FILE_KEYS.items():
        if key not in content:
            raise PlanError(f'plan: {path} has no key "{key}"')
        if type(content[key]) is not kind:
            raise PlanError(
                f'plan: "{key}" in {path} must be {kind.__name__}, got {content[key]!r}'
            )
    workers, mesh = content["workers"], content["mesh"]
    if workers < 1:
        raise PlanError(f'plan: "workers" in {path} must be at least 1, got {workers}')
    if any(type(parts) is not int or parts < 2 for parts in mesh) or math.prod(mesh) != workers:
        raise PlanError(
            f'plan: "mesh" in {path} is {mesh}, expected numbers above 1 whose product is {workers}'
        )
    if content.get("machine") is not None:
        try:
            machine_of(content["machine"])
        except SmexError as error:
            raise PlanError(f'plan: "machine" in {path} is none: {error}') from error
    return content


def machine_of(content: dict[str, Any]) -> Machine | Cluster:
    """Returns the machine or cluster whose numbers a file has.

    Raises:
        SmexTypeError: it is neither.
        SmexValueError: a number is out of range.
    """
    is_cluster = isinstance(content, dict) and "format" in content
    return Cluster.from_contents(content) if is_cluster else Machine.from_contents(content)


def described(graph: SemanticGraph) -> tuple[Any, ...]:
    """Returns all that a plan depends on: the values, the calls and what becomes of them."""
    values = [(v.name, v.role, tuple(v.shape), v.dtype) for v in graph.captured.values]
    outputs = [(out.kind, out.value, out.target) for out in graph.captured.outputs]
    return values, outputs, str(graph)


def choices_text(choices: Iterable[Sequence[int]]) -> list[str]:
    """By value or op the choices of all steps, as text."""
    return [" ".join(map(str, steps)) for steps in choices]


def digest(graph: SemanticGraph, content: dict[str, Any]) -> str:
    """Of the calls and of all that a file says; no signature."""
    said = {key: content[key] for key in content if key != "digest"}
    text = json.dumps([repr(described(graph)), said], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def structures(graph: SemanticGraph) -> dict[str, list[str]]:
    """By number of vertices the hashes (SHA-256) of the edges that calls walk, in any dtype."""
    found: dict[str, set[str]] = {}
    known: dict[tuple[int, ...], str] = {}
    for walk in edge_walks(graph.native):
        tables = [
            tensor
            for tensor in contents(graph.captured.ops[walk.op], graph.captured)
            if tensor is not None and not tensor.is_floating_point()
        ]
        key = tuple(map(id, tables))
        if key not in known:
            sha = hashlib.sha256()
            for tensor in tables:
                sha.update(repr(tuple(tensor.shape)).encode())
                sha.update(tensor.detach().cpu().long().contiguous().numpy().data)
            known[key] = sha.hexdigest()
        found.setdefault(str(walk.rows), set()).add(known[key])
    return {rows: sorted(hashes) for rows, hashes in found.items()}


def has_same_edges(content: dict[str, Any], graph: SemanticGraph) -> bool:
    """Returns whether a graph has the edges that a file was written for.

    Sizes that only one of them has do not count; nor do walks, such as those of a backward pass.
    Files of older versions say nothing of edges.

    Raises:
        PlanError: it has not, and the file says where its vertices are cut.
    """
    told = content.get("structures")
    if not told:
        return True
    found = structures(graph)
    same = True
    for rows in told.keys() & found.keys():
        there, here = set(told[rows]), set(found[rows])
        if there <= here or here <= there:
            continue
        same = False
        if any(ends[-1] == int(rows) for ends in (content.get("boundaries") or {}).get("ends", ())):
            raise PlanError(
                f"plan: its boundaries were found for another graph of {rows} vertices than "
                f"{graph.captured.name} is called with: edges hash to {min(here)[:12]}, expected "
                f"{min(there)[:12]}; search again, or pass the graph that the plan is of, "
                "renumbered as it was"
            )
    return same


def native_of(content: dict[str, Any], graph: SemanticGraph) -> Any:
    """Returns the native plan that a file holds, None where it is of other calls or was edited.

    Raises:
        PlanError: it cuts the vertices of a graph with other edges.
    """
    if not has_same_edges(content, graph) or content.get("digest") != digest(graph, content):
        return None
    choices = content["choices"]
    native = _NativePlan()
    native.mesh = content["mesh"]
    native.values, native.ops = (
        [list(map(int, steps.split())) for steps in choices[key]] for key in ("values", "ops")
    )
    native.planner = content["planner"]
    native.exact, native.gap = choices["exact"], choices["gap"]
    native.by_peer = choices.get("by_peer", False)
    native.order = choices.get("order", [])
    return native
