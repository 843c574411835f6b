"""Which cases of costly tests run."""

import importlib.util
import itertools
from pathlib import Path
from types import SimpleNamespace

import pytest


@pytest.fixture(scope="module")
def conftest():
    path = Path(__file__).with_name("conftest.py")
    spec = importlib.util.spec_from_file_location("its_conftest", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def case(marks, **params):
    return SimpleNamespace(
        name="-".join(map(str, params.values())),
        callspec=SimpleNamespace(params=params),
        iter_markers=lambda name: [SimpleNamespace(args=(names,), kwargs={}) for names in marks],
    )


def test_each_value_is_seen(conftest):
    cases = [
        case(["letter", "number, word"], letter=letter, number=number, word=word, fixture=fixture)
        for letter, (number, word), fixture in itertools.product(
            "abcde", [(1, "one"), (2, "one"), (2, "two")], ["x", "y"]
        )
    ]
    kept = conftest._with_each_value(cases, 9)
    assert len(kept) == 5  # as many as the longest list has
    values = [item.callspec.params for item in kept]
    assert {v["letter"] for v in values} == {*"abcde"}
    assert {v["fixture"] for v in values} == {*"xy"}
    assert {(v["number"], v["word"]) for v in values} == {(1, "one"), (2, "one"), (2, "two")}
    again = conftest._with_each_value(cases[::-1], 9)
    assert [item.name for item in again] == [item.name for item in kept]


def test_a_list_of_cases_is_kept_whole(conftest):
    cases = [case(["a,b"], a=a, b=b) for a, b in itertools.product("xy", "zw")]
    assert len(conftest._with_each_value(cases, 9)) == 4
    assert len(conftest._with_each_value(cases, 3)) == 3
    assert conftest._with_each_value(cases, 0) == []
    assert len(conftest._with_each_value([case([])], 1)) == 1
