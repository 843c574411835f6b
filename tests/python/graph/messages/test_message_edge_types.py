"""Message passing along several edge types, and how their results are combined."""

import pytest
import torch

import smex
import smex.graph.function as fn
from support.message_functions import two_ways


@pytest.mark.parametrize(
    ("cross", "inner", "expected"),
    [
        ("sum", "sum", [-2, -3, -6, 0]),
        ("mean", "sum", [-1, -1.5, -3, 0]),
        ("max", "max", [2, -3, -6, 0]),
        ("min", "min", [-5, -3, -6, 0]),
        ("max", "sum", [3, 0, 0, 0]),
        ("sum", "max", [-3, -3, -6, 0]),
    ],
)
def test_cross_reducers(cross, inner, expected):
    g = two_ways()
    pair = (fn.copy_u("h", "m"), getattr(fn, inner)("m", "out"))
    g.multi_update_all({"plays": pair, "makes": pair}, cross)
    assert g.nodes["game"].data["out"].view(-1).tolist() == expected
    udf = (lambda e: {"m": e.src["h"]}, fn.sum("m", "out"))
    if inner == "sum":
        g.multi_update_all({"plays": udf, "makes": pair}, cross)
        assert g.nodes["game"].data["out"].view(-1).tolist() == expected


def test_stack_and_functions_as_cross_reducers():
    g = two_ways()
    pair = (fn.copy_u("h", "m"), fn.sum("m", "out"))
    g.multi_update_all({"plays": pair, "makes": pair}, "stack")  # by edge type id: makes first
    assert g.nodes["game"].data["out"].shape == (4, 2, 1)
    assert g.nodes["game"].data["out"][0].view(-1).tolist() == [-5, 3]
    ones = (*pair, lambda n: {"out": n.data["out"] * 0 + 1})
    g.multi_update_all(
        {"plays": pair, "makes": ones, "follows": pair},
        lambda parts: torch.cat(parts, 1),
        lambda n: {"name": torch.full((len(n),), len(n.ntype))},
    )
    assert g.nodes["game"].data["out"][:2].tolist() == [[3, 1], [-3, 1]]
    assert g.nodes["user"].data["out"].view(-1).tolist() == [0, 1, 0]
    assert g.nodes["user"].data["name"].tolist() == [4, 4, 4]


def test_builtins_on_all_types_at_once():
    g = two_ways()
    g.update_all(fn.copy_u("h", "m"), fn.max("m", "out"))
    assert g.nodes["game"].data["out"].view(-1).tolist() == [2, -3, -6, 0]
    assert g.nodes["user"].data["out"].view(-1).tolist() == [0, 1, 0]
    g.apply_edges(fn.copy_u("h", "k"))
    assert g.edges["makes"].data["k"].view(-1).tolist() == [-5, -6]
    name = r"found test_builtins\S+<lambda> \(line \d+\)"
    with pytest.raises(smex.SmexValueError, match=f"update_all: on several edge types .* {name}"):
        g.update_all(lambda e: {"m": e.src["h"]}, fn.max("m", "out"))
    with pytest.raises(smex.SmexValueError, match=f"apply_edges: on several edge types .* {name}"):
        g.apply_edges(lambda e: {"m": e.src["h"]})
    with pytest.raises(smex.SmexValueError, match="mean over several edge types at once"):
        g.update_all(fn.copy_u("h", "m"), fn.mean("m", "out"))
