"""Beside what DGL's GraphBolt has made of the same inputs; `cases.py` tells how it was recorded."""

import gzip
import importlib.util
import json
import pathlib

import numpy as np
import pytest

import smex.graph.graphbolt as gb

FOLDER = pathlib.Path(__file__).parent
SPEC = importlib.util.spec_from_file_location("graphbolt_cases", FOLDER / "cases.py")
cases = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(cases)
RECORDED = json.loads(gzip.decompress((FOLDER / "recorded.json.gz").read_bytes()))


def test_all_cases_are_recorded():
    assert RECORDED.keys() == cases.CASES.keys()
    assert {len(each) for each in RECORDED.values()} == {cases.REPEATS}


@pytest.mark.parametrize("number", range(cases.REPEATS))
@pytest.mark.parametrize("name", cases.CASES)
def test_as_recorded(name, number):
    if name == "files":
        pytest.importorskip("yaml", reason="PyYAML is not installed")
    found = cases.CASES[name](gb, np.random.default_rng([number, len(name)]))
    assert json.loads(json.dumps(found)) == RECORDED[name][number]
