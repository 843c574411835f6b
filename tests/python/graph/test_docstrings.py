"""The examples in docstrings run and print what stands there; so does the example script."""

import doctest
import importlib
import pkgutil
import sys
from pathlib import Path

import pytest
import torch

import smex.graph as sg
import smex.graph.function as fn

MODULES = sorted(m.name for m in pkgutil.walk_packages(sg.__path__, "smex.graph."))
PACKAGES = {
    "smex.graph.core.adjacency": ["networkx", "scipy"],
    "smex.graph.creation.convert": ["scipy"],
    "smex.graph.data.adapters": ["networkx"],
    "smex.graph.data.csv_dataset": ["yaml"],
    "smex.graph.data.karate": ["networkx"],
    "smex.graph.data.minigc": ["networkx"],
    "smex.graph.data.synthetic": ["networkx"],
    "smex.graph.creation.interop": ["torch_geometric"],
    "smex.graph.creation.networkx_io": ["networkx"],
    "smex.graph.transforms.partition": ["pymetis"],
    "smex.graph.transforms.paths": ["scipy"],
}


@pytest.mark.parametrize("name", MODULES)
@pytest.mark.filterwarnings("ignore")
def test_examples(name):
    for package in PACKAGES.get(name, []):
        pytest.importorskip(package, reason=f"{package} is not installed")
    importlib.import_module(name)
    names = {"torch": torch, "sg": sg, "fn": fn}
    result = doctest.testmod(
        sys.modules[name],  # a function may have taken the module's place in its package
        extraglobs=names,
        optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE,
    )
    assert result.failed == 0


def test_first_steps(monkeypatch):
    pytest.importorskip("networkx", reason="networkx is not installed")
    examples = Path(__file__).parents[3] / "examples" / "graph"
    monkeypatch.syspath_prepend(str(examples))
    assert importlib.import_module("hello_graph").train() > 0.9
