"""The names in the tables for those who come from DGL or PyG."""

import re
from pathlib import Path

import pytest

from smex.graph import migrate

DOCS = Path(__file__).parents[4] / "docs"


def rows(page):
    """(first cell, second cell) of each row, of tables of names."""
    text, _, _ = (DOCS / page).read_text().partition("\n## DGL's own programs")
    lines = text.splitlines()
    cells = [re.split(r"(?<!\\) \| ", line.strip("| ")) for line in lines if line.startswith("| `")]
    assert len(cells) > 20
    return [(cell[0], cell[1]) for cell in cells]


def names(cell, start):
    return [n for n in re.findall(r"`([\w.]+)`", cell) if n.startswith(f"{start}.")]


@pytest.mark.parametrize("page", ["from_dgl.md", "from_pyg.md"])
def test_every_name_is_there(page):
    text = (DOCS / page).read_text()
    found = set(re.findall(r"`(sg\.[\w.]+)", text))
    missing = [n for n in found if migrate._resolved(n.split(".")[1:]) is None]
    assert len(found) > 40 and not missing
    for _, here in rows(page):
        assert names(here, "sg") or here == "—"


def test_what_the_command_says_of_names_of_dgl():
    for theirs, here in rows("from_dgl.md"):
        for name in names(theirs, "dgl"):
            assert migrate.counterpart(name)[0] == (here != "—"), name
        if here != "—":
            same = [
                name.replace("dgl.", "sg.", 1).replace("DGLGraph", "Graph")
                for name in names(theirs, "dgl")
            ]
            assert same == [n for n in names(here, "sg") if n != "sg.DGLGraph"]
