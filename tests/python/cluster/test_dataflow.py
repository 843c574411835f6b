"""Placements of operators on like devices, by the rules and numbers of DOPPLER's simulator."""

import doctest
import json
import os
import pathlib

import pytest

import smex
import smex.cluster
from smex.cluster import Dataflow
from smex.cluster import dataflow as module

ROOT = pathlib.Path(__file__).parents[3]
DATA = pathlib.Path(os.environ.get("SMEX_DATA") or ROOT.parent / "shared" / "data") / "doppler"
GRAPHS = ("chainmm", "ffnn", "llama-block", "llama-layer", "llama-block-8", "llama-layer-8")
UNIT = 1e10  # of the stored makespans


def loaded(name):
    if not DATA.is_dir():
        pytest.skip(f"no folder doppler in $SMEX_DATA or {DATA.parent}")
    found = json.loads((DATA / f"{name}.json").read_text())
    return Dataflow(found["compute"], found["transfer"], found["edges"], found["devices"])


def two_chains():
    return Dataflow([1, 2, 3, 4, 5], [2] * 5, [(0, 1), (1, 4), (2, 3), (3, 4)], devices=2)


def test_the_example():
    outcome = doctest.testmod(module)
    assert outcome.failed == 0
    assert outcome.attempted > 3


@pytest.mark.parametrize("name", GRAPHS)
def test_makespans_are_those_of_the_published_simulator(name):
    graph = loaded(name)
    stored = json.loads((DATA / "makespans.json").read_text())["graphs"][name]["edges"]
    for devices, makespan in stored:
        found = graph.makespan([int(device) for device in devices]) / UNIT
        assert found == pytest.approx(makespan, abs=0.006)  # stored with two places


@pytest.mark.parametrize(("name", "critical_path"), [("chainmm", 1500.03), ("ffnn", 83.97)])
def test_placements_are_a_tenth_shorter_than_by_the_critical_path(name, critical_path):
    graph = loaded(name)
    found = graph.place(calls=20_000)
    assert found.makespan / UNIT <= 0.9 * critical_path
    assert graph.makespan(found.devices) == found.makespan


def test_annealing_finds_shorter_ones_than_drawing():
    graph = loaded("llama-block")
    drawn = graph.place(calls=1_000, search="random")
    assert graph.place(calls=1_000).makespan < drawn.makespan
    assert (drawn.calls, graph.makespan(drawn.devices)) == (1_000, drawn.makespan)


def test_a_search_goes_on_from_where_it_was():
    graph = two_chains()
    first = graph.place(calls=5, seed=3)
    second = graph.place(calls=200, start=first.devices, seed=4)
    assert second.makespan <= first.makespan <= graph.makespan([0] * 5)
    assert graph.place(calls=5, seed=3).devices == first.devices


def test_progress(capsys):
    two_chains().place(calls=20_000, verbose=True)
    assert "best 1" in capsys.readouterr().err


def test_words_for_it():
    graph = two_chains()
    assert repr(graph) == "Dataflow(5 operators, 4 edges, 2 devices)"
    assert len(graph) == 5
    assert repr(graph.place(calls=1)) == "Placement(15 s, 1 calls)"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"devices": 0}, "expected a device or more, found 0"),
        ({"transfer": [1]}, "a time to move each of the 2 results, found 1"),
        ({"compute": [1, -1]}, "expected seconds of at least 0, found -1"),
        ({"edges": [(0, 2)]}, "expected edges of operators below 2, found 2"),
        ({"edges": [(0, 1), (1, 0)]}, "operator 0 waits for itself, or for a ring"),
    ],
)
def test_bad_graphs_are_named(change, message):
    given = {"compute": [1, 2], "transfer": [1, 1], "edges": [(0, 1)], "devices": 2}
    with pytest.raises(smex.SmexValueError, match=message):
        Dataflow(**{**given, **change})


def test_bad_placements_and_searches_are_named():
    graph = two_chains()
    with pytest.raises(smex.SmexValueError, match="a device for each of the 5 operators, found 2"):
        graph.makespan([0, 1])
    with pytest.raises(smex.SmexValueError, match="expected devices below 2, found 2"):
        graph.place(start=[0, 0, 0, 0, 2])
    with pytest.raises(smex.SmexValueError, match="expected search to be of .*, found 'all'"):
        graph.place(search="all")
    with pytest.raises(smex.SmexValueError, match="expected 1 call or more, found 0"):
        graph.place(calls=0)
