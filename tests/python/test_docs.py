"""The examples of the documentation run and print what stands there."""

import doctest
from pathlib import Path

import pytest

from smex import tdl

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize(
    "page", ["api.md", "graph.md", "how_it_works.md", "message_passing.md", "vertex.md"]
)
def test_examples(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # examples write files
    before = set(tdl.REGISTRY)
    result = doctest.testfile(str(DOCS / page), module_relative=False, optionflags=doctest.ELLIPSIS)
    for target in set(tdl.REGISTRY) - before:  # an example's own operator
        del tdl.REGISTRY[target]
    assert result.attempted > 10
    assert result.failed == 0
