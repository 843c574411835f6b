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
RECORDED = json.loads(gzip.decompress((FOLDER / "dgl_2_1_graphs.json.gz").read_bytes()))
AGREED = [(area, text) for area in RECORDED for text in RECORDED[area] if text not in DIFFERENT]
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
    return json.loads(json.dumps(programs.found(sg, program)))


def test_every_program_is_recorded():
    assert {area: list(texts) for area, texts in RECORDED.items()} == programs.all_programs()


@pytest.mark.parametrize(("area", "program"), AGREED)
def test_as_dgl(area, program):
    ours, theirs = found(program), RECORDED[area][program]
    assert close(ours, theirs), f"found {ours}, DGL has {theirs}"


@pytest.mark.parametrize("program", DIFFERENT)
def test_differs_from_dgl(program):
    (theirs,) = {json.dumps(texts[program]) for texts in RECORDED.values() if program in texts}
    assert not close(found(program), json.loads(theirs)), "it agrees: remove it from DIFFERENT"
