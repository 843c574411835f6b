"""The examples of the documentation run and print what stands there."""

import doctest
import importlib
from pathlib import Path

import pytest

from smex import tdl

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "page",
    [
        *("docs/api.md", "docs/graph.md", "docs/how_it_works.md", "docs/message_passing.md"),
        "docs/parallelisms.md",
        *("docs/checkpoints.md", "docs/cluster.md", "docs/initialisation.md", "docs/vertex.md"),
        "benchmarks/README.md",
    ],
)
def test_examples(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # examples write files
    importlib.import_module("smex.specs")  # registers its own, which stay
    before = set(tdl.REGISTRY)
    result = doctest.testfile(str(ROOT / page), module_relative=False, optionflags=doctest.ELLIPSIS)
    for target in set(tdl.REGISTRY) - before:  # an example's own operator
        del tdl.REGISTRY[target]
    assert result.attempted > 10
    assert result.failed == 0
