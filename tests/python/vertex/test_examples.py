"""The examples in docstrings run and print what stands there; the example programs run."""

import doctest
import importlib
import os
import pkgutil
import sys
from pathlib import Path

import pytest
import torch

import smex
import smex.vertex as sv

ROOT = Path(__file__).parents[3]
DATA = Path(os.environ.get("SMEX_DATA") or ROOT.parent / "shared" / "data")
MODULES = sorted(m.name for m in pkgutil.walk_packages(sv.__path__, "smex.vertex."))


@pytest.fixture(autouse=True)
def examples(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "examples" / "vertex"))
    yield
    for name in [path.stem for path in (ROOT / "examples" / "vertex").glob("*.py")]:
        sys.modules.pop(name, None)


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name):
    importlib.import_module("smex.graph")
    importlib.import_module(name)
    result = doctest.testmod(
        sys.modules[name],  # a function may have taken the module's place in its package
        extraglobs={"smex": smex, "torch": torch},
        optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE,
    )
    assert result.failed == 0


@pytest.mark.parametrize("model", ["nary", "childsum"])
def test_sst(model, capsys):
    if not (DATA / "sst").is_dir():
        pytest.skip(f"no folder sst in $SMEX_DATA or {DATA}")
    import train_sst

    sizes = ["--hidden", "20", "--words", "20", "--limit", "100", "--epochs", "2"]
    right = train_sst.main(["--data", str(DATA), "--model", model, *sizes])
    assert right > 10
    assert f"{model}: " in capsys.readouterr().out


@pytest.mark.parametrize("length", ["0", "7"])
def test_language_model(length):
    import language_model

    assert language_model.main(["--steps", "15", "--length", length]) < 3  # guessing: 10


def test_tree_fc():
    import tree_fc

    assert tree_fc.main(["--leaves", "16", "--steps", "60"]) > 0.8


def test_dag_rnn():
    import dag_rnn

    assert dag_rnn.main(["--steps", "100"]) < 0.1
