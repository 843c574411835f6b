"""The runner of DGL's own programs, on a checkout that is written here."""

import json
import pathlib
import re
import sys
from collections import Counter

import pytest

ROOT = pathlib.Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "benchmarks" / "programs"))

import run  # noqa: E402 (the folder has just been added)

FORMATS = sorted((ROOT / "benchmarks" / "programs" / "formats").glob("*.py"))


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """Programs that end in different ways; they run with this environment."""
    folder = tmp_path / "checkout" / "examples"
    folder.mkdir(parents=True)
    texts = {
        "good": "import dgl\nprint('Test accuracy 0.75')\nprint(dgl.graph(([0], [1])))\n",
        "bad": "import dgl\nimport other\ndgl.no_such_function()\n",
        "other": "import dgl\nprint(dgl.__name__)\n",
        "old": "import numpy\nprint(numpy.int(3))\n",
        "slow": "import time\nprint('Epoch 1', flush=True)\ntime.sleep(600)\n",
        "own": "raise ValueError('of its own')\n",
    }
    for name, text in texts.items():
        (folder / f"{name}.py").write_text(text)
    notebook = {"cells": [{"cell_type": "code", "source": ["%time\n", "import dgl"]}]}
    (folder / "cells.ipynb").write_text(json.dumps(notebook))
    monkeypatch.setattr(run.environments, "interpreter", lambda name: pathlib.Path(sys.executable))
    return tmp_path / "checkout"


def result(checkout, name, timeout=300, suffix=".py", **entry):
    program = run.Program(f"examples/{name}{suffix}", **entry)
    return run.run_program(program, run.Options(checkout, timeout, checkout.parent / "data"))


def test_programs_that_run(checkout):
    found = result(checkout, "good", accuracy=r"accuracy ([\d.]+)", published=0.8)
    assert (found.outcome, found.missing, found.accuracy) == ("unchanged", (), 0.75)
    assert found.agrees
    changed = result(
        checkout, "old", changes=(("old.py", "numpy.int", "int"),), because="numpy has no int"
    )
    assert (changed.outcome, changed.lines, changed.why) == ("changed", 1, "numpy has no int")
    assert "numpy.int" in (checkout / "examples" / "old.py").read_text()  # the copy was changed
    assert result(checkout, "cells", suffix=".ipynb").outcome == "unchanged"


def test_programs_that_stop(checkout):
    bad = result(checkout, "bad")
    assert bad.outcome == "stopped" and "no_such_function" in bad.why
    assert bad.missing == ("dgl.no_such_function",) and bad.agrees
    own = result(checkout, "own")
    assert (own.outcome, own.why, own.agrees) == ("stopped", "ValueError: of its own", True)
    assert result(checkout, "slow", timeout=3).why == "it does not end in time"
    assert result(checkout, "slow", until=r"Epoch 1").outcome == "unchanged"
    apart = result(checkout, "bad", apart="it needs a GPU")
    assert (apart.outcome, apart.why) == ("apart", "it needs a GPU")


def test_results_are_a_page(checkout, tmp_path):
    results = [
        result(checkout, "good", accuracy=r"accuracy ([\d.]+)", published=0.8),
        result(checkout, "bad"),
        result(checkout, "own", apart="it needs a GPU"),
    ]
    text = run.summary(results, listed=5)
    assert "| listed, not run for this table | 2 | |" in text
    assert "| run as they stand | 1 | 50% |" in text and "agrees on 2 of 2" in text
    assert "| `good.py` | 75.0 % | 80.0 % |" in text and "| `own.py` | it needs a GPU |" in text
    page = tmp_path / "page.md"
    page.write_text(f"before\n{run.BEGIN}\nold\n{run.END}\nafter\n")
    run.write_page(page, text)
    assert page.read_text().startswith("before\n") and page.read_text().endswith("\nafter\n")
    assert text in page.read_text() and "old\n" not in page.read_text()
    page.write_text("none")
    with pytest.raises(SystemExit, match="has no <!-- programs: begin -->"):
        run.write_page(page, text)


def test_the_lists_can_be_read():
    programs = run.programs()
    assert len(programs) > 200
    assert len({program.path for program in programs}) == len(programs)
    for program in programs:
        assert bool(program.changes) == bool(program.because), program.path
        assert not program.published or program.accuracy, program.path


def test_data_have_names_of_their_own():
    synthetic = run.synthetic
    of_programs = re.findall(r'@data\("([^"]+)"\)', "".join(map(pathlib.Path.read_text, FORMATS)))
    assert len(of_programs) > 20
    known = Counter([*of_programs, *synthetic.data_sets.WRITERS])
    assert max(known.values()) == 1
    read = {name for program in run.programs() for name in program.data}
    assert read <= known.keys()


def test_downloads_come_from_a_folder(checkout, monkeypatch, tmp_path):
    formats = run.synthetic.formats

    def place(name, work, home, cache):
        places = formats.Places(tmp_path / "written")
        (places.downloads / "numbers.txt").write_text("1 2 3")
        (places.work / "beside.txt").write_text("4")
        formats.place(tmp_path / "written", work, home)

    monkeypatch.setattr(run.synthetic, "provide", place)
    (checkout / "examples" / "reads.py").write_text(
        "import urllib.request\n"
        "from dgl.data.utils import _get_dgl_url, download\n"
        "download(_get_dgl_url('dataset/numbers.txt'), path='first.txt')\n"
        "urllib.request.urlretrieve('https://data.example/some/numbers.txt?x=1', 'second.txt')\n"
        "print(*(open(name).read() for name in ('first.txt', 'second.txt', 'beside.txt')))\n"
    )
    found = result(checkout, "reads", data=("numbers",))
    assert (found.outcome, found.tail.splitlines()[-1]) == ("unchanged", "1 2 3 1 2 3 4")
