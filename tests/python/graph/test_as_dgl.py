"""Programs for DGL, with the results that DGL 2.1 gave (`tools/record_dgl.py`)."""

import json
import pathlib

import pytest
import torch

import smex.graph as sg
from support.dgl_data_programs import NEEDS
from support.dgl_programs import PROGRAMS, plain

RESULTS = json.loads((pathlib.Path(__file__).parent / "dgl_2_1_results.json").read_text())


def close(found, expected):
    """Whether two results are equal, numbers up to the last digits that were written."""
    if isinstance(expected, list):
        return (
            isinstance(found, list)
            and len(found) == len(expected)
            and all(close(a, b) for a, b in zip(found, expected))
        )
    if isinstance(expected, dict):
        return found.keys() == expected.keys() and all(
            close(found[key], part) for key, part in expected.items()
        )
    if isinstance(expected, float) and isinstance(found, (int, float)):
        return found == pytest.approx(expected, abs=2e-4)
    return found == expected


@pytest.mark.parametrize("name", PROGRAMS)
def test_results_are_those_of_dgl(name):
    for package in NEEDS.get(name, ()):
        pytest.importorskip(package, reason=f"{package} is not installed")
    torch.manual_seed(0)
    found = plain(PROGRAMS[name](sg))
    assert close(found, RESULTS[name]), f"found {found}, DGL has {RESULTS[name]}"
