"""Data sets by the names of command lines."""

import argparse

import pytest

import smex
import smex.graph as sg
from smex.graph.data import arguments, citation_graph, tree


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("cora", "cora of planetoid"),
        ("pubmed", "pubmed of planetoid"),
        ("reddit", "reddit without loops"),
        ("reddit-self-loop", "reddit with loops"),
    ],
)
def test_names_choose_data_sets(monkeypatch, name, expected):
    loaders = {n: lambda n=n: f"{n} of planetoid" for n in ("cora", "citeseer", "pubmed")}
    monkeypatch.setattr(arguments, "_LOADERS", loaders)
    words = {True: "reddit with loops", False: "reddit without loops"}
    monkeypatch.setattr(arguments, "RedditDataset", lambda self_loop: words[self_loop])
    parser = argparse.ArgumentParser()
    sg.data.register_data_args(parser)
    assert sg.data.load_data(parser.parse_args(["--dataset", name])) == expected


def test_other_names_and_modules():
    with pytest.raises(smex.SmexValueError, match="load_data: expected .* found None"):
        sg.data.load_data(argparse.Namespace(dataset=None))
    assert tree.SSTDataset is sg.data.SSTDataset
    made = []

    class Fake(citation_graph.CoraGraphDataset):
        def __init__(self, *options):
            made.append(options)

    original = citation_graph.CoraGraphDataset
    citation_graph.CoraGraphDataset = Fake
    try:
        citation_graph.load_cora("folder", reverse_edge=False)
    finally:
        citation_graph.CoraGraphDataset = original
    assert made == [("folder", False, True, False, None)]


def test_numbers_of_text(tmp_path):
    file = tmp_path / "numbers.txt"
    file.write_text("1 2\n3 4\n")
    assert sg.data.loadtxt(file, " ").tolist() == [[1, 2], [3, 4]]
    file.write_text("1 2.5\n")
    found = sg.data.loadtxt(file, " ")
    assert found.tolist() == [[1.0, 2.5]] and found.dtype == float
