"""The notebook of unlike devices runs from its first cell to its last."""

import json
from pathlib import Path

NOTEBOOK = Path(__file__).parents[3] / "examples" / "cluster" / "unlike_devices.ipynb"


def cells():
    return json.loads(NOTEBOOK.read_text())["cells"]


def test_notebook(capsys):
    names = {"__name__": "__main__"}
    for cell in cells():
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), cell["id"], "exec"), names)
    seconds = names["seconds"]
    assert seconds["search"] <= min(seconds.values())
    assert seconds["CP-AR"] < seconds["EV-AR"] < seconds["EV-PS"]
    assert names["difference"] < 1e-12
    rows = [hi - lo for _, [(lo, hi), _] in names["net"].plan.tiles("input")]
    assert rows == [48, 32, 0, 16]
    assert (names["folder"] / "both.json").exists()
    assert "critical path" in capsys.readouterr().out


def test_it_is_kept_without_results():
    code = [cell for cell in cells() if cell["cell_type"] == "code"]
    assert code and not any(cell["outputs"] or cell["execution_count"] for cell in code)
