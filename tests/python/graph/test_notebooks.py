"""The example notebooks run from their first cell to their last."""

import json
import sys
from pathlib import Path

import pytest
import torch

EXAMPLES = Path(__file__).parents[3] / "examples" / "graph"
LEAST = {"01_first_graph": 0.9, "02_mini_batches": 0.5, "03_heterograph": 0.4}
"""The accuracy that a notebook ends with; guessing gets a half and a fifth, and a fifth."""


@pytest.fixture
def run(monkeypatch):
    """Runs a notebook's cells one after another, as a kernel that starts in its folder would.

    No kernel is needed, so that the tests need no Jupyter; a cell of code is plain Python.
    """
    pytest.importorskip("networkx", reason="networkx is not installed")
    monkeypatch.syspath_prepend(str(EXAMPLES))
    before = set(sys.modules)

    def run(name):
        notebook = json.loads((EXAMPLES / f"{name}.ipynb").read_text())
        names = {"__name__": "__main__"}
        for cell in notebook["cells"]:
            if cell["cell_type"] == "code":
                code = compile("".join(cell["source"]), f"{name}.ipynb, {cell['id']}", "exec")
                exec(code, names)
        return names

    yield run
    for name in set(sys.modules) - before:
        if name.startswith("train_"):
            del sys.modules[name]


@pytest.mark.parametrize("name", LEAST)
def test_notebook(name, run):
    assert run(name)["accuracy"] > LEAST[name]


def test_nets_without_edges_guess(run):
    """They are trained without edges, too: sides are halves of 34 members."""
    names = run("01_first_graph")
    assert 0.3 < names["without"] < 0.7
    assert not torch.equal(names["guesses"], names["nets"])


@pytest.mark.parametrize("name", LEAST)
def test_notebooks_are_kept_without_results(name):
    cells = json.loads((EXAMPLES / f"{name}.ipynb").read_text())["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert code and len(code) < len(cells)
    assert not any(cell["outputs"] or cell["execution_count"] for cell in code)


def test_every_notebook_is_run():
    assert {path.stem for path in EXAMPLES.glob("*.ipynb")} == set(LEAST)
