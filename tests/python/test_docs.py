"""The examples of the documentation run and print what stands there."""

import doctest
import importlib
import re
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


def test_the_changelog_has_the_version_and_its_day():
    """As the package and CITATION.cff have them."""
    heads = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert heads[0] == "[Unreleased]"
    version, day = re.fullmatch(r"\[([\d.]+)\] - (\d{4}-\d\d-\d\d)", heads[1]).groups()
    project = (ROOT / "pyproject.toml").read_text()
    assert f'version = "{version}"' in project
    cited = (ROOT / "CITATION.cff").read_text()
    assert f"version: {version}\n" in cited and f'date-released: "{day}"' in cited


def test_every_page_is_found_from_the_first():
    """Those of docs/ and docs/reference/, by the lists of docs/index.md."""
    docs = ROOT / "docs"
    listed = set(re.findall(r"^[\w/]+$", (docs / "index.md").read_text(), re.MULTILINE))
    pages = {
        str(path.relative_to(docs).with_suffix(""))
        for pattern in ("*.md", "reference/*.md", "notebooks/*.ipynb")
        for path in docs.glob(pattern)
    }
    assert pages - {"index"} <= listed
