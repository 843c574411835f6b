"""Tables of a plan's page: tensors, steps of the mesh, and the ops that cost most."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

from smex._C import cut_of
from smex.planning import markup
from smex.planning.markup import code, escape, section, table
from smex.planning.page.names import collapse
from smex.planning.page.tiles import bar, legend, tensor_picture
from smex.planning.placed import PlacedGraph
from smex.planning.prices import OpPrice
from smex.text import cut_words, duration_words, shape_words, size_words, strategy_words

_MOST_OPS = 300  # rows of the table of ops
_DIM_COLOURS = ("#4c78a8", "#f58518", "#54a24b", "#b279a2", "#9d755d")
_REPLICA_COLOUR = "#bab0ac"


# ---- named tensors ----


def tensors_section(plan: PlacedGraph) -> str:
    """Returns how parameters, inputs and buffers are cut.

    Buffers, of which there are many, are folded.
    """
    roles = {plan.graph.captured.values[i].role for i in plan.graph.value_by_name.values()}
    parts = [
        f"<h3>{title}</h3>\n{_tensor_table(plan, role)}"
        for role, title in (("parameter", "Parameters"), ("input", "Inputs"))
        if role in roles
    ]
    if "buffer" in roles:
        buffers = _tensor_table(plan, "buffer")
        parts.append(f"<details><summary>Buffers</summary>\n{buffers}\n</details>")
    return section("Tensors", legend(plan.workers), *parts)


def _tensor_table(plan: PlacedGraph, role: str) -> str:
    """Rows of one role; tensors that are alike but for numbers in their names share a row."""
    rows = []
    for name, value_id in plan.graph.value_by_name.items():
        value = plan.graph.captured.values[value_id]
        if value.role == role:
            dtype = value.type_str().partition("[")[0]
            words, each = plan.words(name), plan.worker_bytes(name)
            rows.append((name, (tuple(value.shape), dtype, words, each)))
    lines = []
    for pattern, (shape, dtype, words, each), names in collapse(rows):
        lines.append(
            (
                code(pattern),
                f"{len(names)} ×" if len(names) > 1 else "",
                dtype,
                shape_words(shape),
                escape(words),
                size_words(each),
                size_words(each * len(names)),
                tensor_picture(shape, plan.placement(names[0]), plan.tiles(names[0])),
            )
        )
    head = ("tensor", "", "dtype", "shape", "placement", "per worker", "together", "tiles")
    return table(head, lines, right=(1, 3, 5, 6))


# ---- steps ----


def steps_section(plan: PlacedGraph) -> str:
    """Returns what each recursive step adds, and how it cuts the tensors."""
    links = plan.machine.links(plan.mesh) if plan.machine else [None] * len(plan.mesh)
    rows = []
    for step, parts in enumerate(plan.mesh):
        share = plan.step_bytes[step] / plan.total_bytes if plan.total_bytes else 0
        row = [str(step), str(parts), size_words(plan.step_bytes[step]), f"{share:.0%}"]
        link = links[step]
        if link is not None:
            row += [
                f'<span class="unbroken">{link.bandwidth / 1e9:g} GB/s</span>, '
                f'<span class="unbroken">{duration_words(link.latency)}</span>',
                duration_words(plan.step_seconds[step]),
            ]
        rows.append((*row, _cut_words(plan, step, True), _cut_words(plan, step, False)))
    timed = ("link", "takes") if plan.machine else ()
    head = ("step", "parts", "adds", "share", *timed, "parameters by the cut dimension")
    words = (
        "The steps cut one after the other what the steps before have left. S0 is cut along "
        "dimension 0, R is held by all parts; how many tensors, and their bytes as a whole."
    )
    found = table((*head, "all other tensors"), rows, right=(0, 1, 2, 3, 5) if timed else range(4))
    return section("Steps", f"<p>{words}</p>", found if rows else "<p>One worker has no steps.</p>")


def _cut_words(plan: PlacedGraph, step: int, parameters: bool) -> str:
    """Returns a bar by bytes, and by dimension the number and bytes of tensors."""
    counts: Counter[int] = Counter()
    sizes: Counter[int] = Counter()
    for value, choices in zip(plan.graph.captured.values, plan.value_choices, strict=True):
        if (value.role == "parameter") == parameters:
            choice = choices[step]
            dim = choice if choice < 0 else cut_of(choice)
            counts[dim] += 1
            sizes[dim] += math.prod(value.shape) * value.dtype.itemsize
    dims = sorted(counts, key=lambda dim: (dim < 0, dim))
    words = {dim: f"{cut_words(dim)} {counts[dim]:,} ({size_words(sizes[dim])})" for dim in dims}
    if not sum(sizes.values()):
        return ""
    drawn = bar([(sizes[dim], _dim_colour(dim), words[dim]) for dim in dims])
    keys = " ".join(
        f'<span class="unbroken"><span style="color:{_dim_colour(dim)}">■</span> '
        f"{words[dim]}</span>"
        for dim in dims
    )
    return f"{drawn}<br/><small>{keys}</small>"


def _dim_colour(dim: int) -> str:
    return _REPLICA_COLOUR if dim < 0 else _DIM_COLOURS[dim % len(_DIM_COLOURS)]


# ---- ops ----


def ops_section(plan: PlacedGraph, prices: Sequence[OpPrice]) -> tuple[str, dict[int, str]]:
    """Returns the calls that cost most, those that are alike together.

    Returns:
        The table, and by op the id of its row, as far as it has one.
    """
    timed = any(price.seconds for price in prices)
    alike: dict[tuple[str, tuple[Any, ...]], list[int]] = defaultdict(list)
    for op, native, price, choices in zip(
        plan.graph.captured.ops, plan.graph.native.ops, prices, plan.op_choices, strict=True
    ):
        split = strategy_words(native.spec, choices)
        cost = (price.nbytes, price.communication_seconds, price.compute_seconds)
        alike[op.module_path, (op.target, split, op.source, op.backward, *cost)].append(op.id)
    groups = []
    for module, (key, _), paths in collapse((p, (k, len(n))) for (p, k), n in alike.items()):
        groups.append((module, key, [op for path in paths for op in alike[path, key]]))
    if timed:
        groups.sort(key=lambda group: (group[1][5] + group[1][6]) * len(group[2]), reverse=True)
    else:
        groups = [group for group in groups if group[1][4]]
        groups.sort(key=lambda group: group[1][4] * len(group[2]), reverse=True)
    total = plan.seconds if timed else plan.total_bytes
    rows: list[list[str]] = []
    places: dict[int, str] = {}
    for module, (target, split, source, backward, nbytes, sent, computed), ops in groups[
        :_MOST_OPS
    ]:
        places.update(dict.fromkeys(ops, f"smex-op-{len(rows)}"))
        count = len(ops)
        share = (sent + computed if timed else nbytes) * count / total if total else 0
        row = [code(target), markup.module(module), "backward" if backward else "forward"]
        row += [escape(split), f"{share:.1%}", f"{count:,} ×"]
        row += [size_words(nbytes), size_words(nbytes * count)]
        if timed:
            row += [duration_words(sent * count), duration_words(computed * count)]
        rows.append([*row, escape(source)])
    head = ["op", "module", "pass", "split", "share", "calls", "each moves", "together"]
    head += ["communication", "compute"] if timed else []
    which = "all" if len(rows) == len(groups) else f"the first {len(rows):,} of"
    by = "predicted seconds" if timed else "bytes that they move"
    words = (
        f"By {by}, {which} {len(groups):,} kinds of call. A split "
        "names for each step the index along which the op is divided; repeat: every part does all."
    )
    if not rows:
        return section("Ops", "<p>Nothing is moved.</p>"), {}
    ids = [f"smex-op-{number}" for number in range(len(rows))]
    found = table([*head, "line"], rows, right=range(4, len(head)), ids=ids)
    return section("Ops that cost most", f"<p>{words}</p>", found), places
