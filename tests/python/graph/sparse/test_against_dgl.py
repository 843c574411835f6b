"""What DGL 2.1.0 found for the programs of ``cases.py`` in float64: values, places and gradients."""

import importlib.util
import json
from pathlib import Path

import pytest
import torch

import smex.graph as sg

# DGL's sums and coalesced matrices have no gradients. A diagonal matrix that is not square leaves
# its product with a general one the other's shape there, or fails; products are tested elsewhere.
WITHOUT_GRADIENTS = (" + ", " - ", ".coalesce()")
WRONG_THERE = ("upright.T @ plain", "upright @ tall.T")

FOLDER = Path(__file__).parent
RECORDED = json.loads((FOLDER / "dgl_2_1_sparse.json").read_text())
_SPEC = importlib.util.spec_from_file_location("sparse_cases", FOLDER / "cases.py")
cases = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(cases)


def agree(ours, theirs, where):
    assert type(ours) is type(theirs), where
    if isinstance(ours, dict):
        assert ours.keys() == theirs.keys(), where
        for name in ours:
            agree(ours[name], theirs[name], f"{where}.{name}")
    elif isinstance(ours, list) and not any(isinstance(x, (dict, str)) for x in ours):
        torch.testing.assert_close(
            torch.tensor(ours).double(), torch.tensor(theirs).double(), equal_nan=True,
            rtol=1e-10, atol=1e-12, msg=lambda text: f"{where}: {text}",
        )  # fmt: skip
    elif isinstance(ours, list):
        assert len(ours) == len(theirs), where
        for i, (a, b) in enumerate(zip(ours, theirs)):
            agree(a, b, f"{where}[{i}]")
    else:
        assert ours == theirs, where


@pytest.mark.parametrize("program", [p for p in RECORDED if p not in WRONG_THERE])
def test_as_dgl(program):
    ours = json.loads(json.dumps(cases.found(sg.sparse, program)))
    theirs = RECORDED[program]
    if theirs != "error" and any(part in program for part in WITHOUT_GRADIENTS):
        ours, theirs = ({**each, "grads": None} for each in (ours, theirs))
    agree(ours, theirs, program)


def test_every_program_is_recorded():
    assert set(cases.programs()) == set(RECORDED)
