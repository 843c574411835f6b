"""Programs of graphs, with what DGL 2.1 finds for them (`tools/record_dgl.py`)."""

import gzip
import importlib.util
import json
import math
import pathlib

import pytest

import smex.graph as sg

FOLDER = pathlib.Path(__file__).parent
SPEC = importlib.util.spec_from_file_location("recorded_programs", FOLDER / "programs.py")
programs = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(programs)
DIFFERENT = programs.module("differences").DIFFERENT
NEEDS = {"networkx": "networkx", "scipy": "scipy", "rcmk": "scipy"}  # word of programs: package
RECORDED = json.loads(gzip.decompress((FOLDER / "dgl_2_1_graphs.json.gz").read_bytes()))
AGREED = {
    f"{area}: {program}": (program, theirs)
    for area, recorded in RECORDED.items()
    for program, theirs in recorded.items()
    if program not in DIFFERENT
}
CLOSE = 1e-5


def close(found, expected):
    """Whether two results are equal, numbers up to the digits that were written of float32."""
    if isinstance(found, dict) and isinstance(expected, dict):
        return found.keys() == expected.keys() and all(close(found[k], expected[k]) for k in found)
    if isinstance(found, list) and isinstance(expected, list):
        return len(found) == len(expected) and all(map(close, found, expected))
    if isinstance(found, float) and isinstance(expected, float):
        both_nan = math.isnan(found) and math.isnan(expected)
        return both_nan or math.isclose(found, expected, rel_tol=CLOSE, abs_tol=CLOSE)
    return type(found) is type(expected) and found == expected


def found(program):
    """What a program finds here, as the file has it."""
    for word, package in NEEDS.items():
        if word in program:
            pytest.importorskip(package, reason=f"{package} is not installed")
    return json.loads(json.dumps(programs.found(sg, program)))


def test_every_program_is_recorded():
    assert {area: list(texts) for area, texts in RECORDED.items()} == programs.all_programs()


@pytest.mark.parametrize(("program", "theirs"), AGREED.values(), ids=AGREED)
def test_as_dgl(program, theirs):
    ours = found(program)
    assert close(ours, theirs), f"found {ours}, DGL has {theirs}"


@pytest.mark.parametrize("program", DIFFERENT, ids=DIFFERENT)
def test_differs_from_dgl(program):
    theirs = RECORDED["differences"][program]
    assert not close(found(program), theirs), "it agrees: remove it from DIFFERENT"
