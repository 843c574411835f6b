"""Runs the notebooks of examples/notebooks and stores what they print and draw.

    pip install nbclient ipykernel matplotlib networkx
    python tools/notebooks.py [NAME ...]       # such as 01_partition; all without names
    python tools/notebooks.py --check          # which have results of other sources; runs nothing

A notebook keeps the hash of the sources whose results it has. Nothing is stored that differs from
run to run or tells of the machine: times, dates, paths, versions of Python, ids of widgets.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import pathlib
import re
import sys
import tempfile
from typing import Any

FOLDER = pathlib.Path(__file__).parents[1] / "examples" / "notebooks"
SECONDS = 600
"""How long a cell may take."""
KEY = "smex_sources"
"""The notebook's metadata with the hash of the sources that were run."""
VOLATILE = (
    (re.compile(r"\b\d{5,}\.py:(?=\d)"), "cell:"),
    (re.compile(r"searched in [0-9.e-]+ s"), "searched in … s"),
    (re.compile(r"\b20\d\d-\d\d-\d\d\b"), "…"),
    (re.compile(rf"{re.escape(tempfile.gettempdir())}/[\w./-]*/"), ""),
    (re.compile(rf"(?:{re.escape(str(FOLDER.parents[1]))}|{re.escape(sys.prefix)})/"), ""),
)
"""What a text of results has in place of cells' files, seconds, dates and folders."""

Notebook = dict[str, Any]


def read(name: str) -> Notebook:
    """Returns the notebook of that name."""
    return json.loads((FOLDER / f"{name}.ipynb").read_text(encoding="utf-8"))


def code(notebook: Notebook) -> list[dict[str, Any]]:
    """Returns the notebook's cells of code."""
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def digest(notebook: Notebook) -> str:
    """Returns a hash of the sources that results follow from."""
    sources = ["".join(cell["source"]) for cell in code(notebook)]
    return hashlib.sha256(json.dumps(sources).encode()).hexdigest()


def is_stored(notebook: Notebook) -> bool:
    """Whether the notebook has the results of the sources that it has."""
    return notebook["metadata"].get(KEY) == digest(notebook)


def run(notebook: Notebook) -> Notebook:
    """Returns the notebook with its results, from a kernel of its own."""
    import nbclient
    import nbformat

    node = nbformat.reads(json.dumps(notebook), as_version=4)
    resources = {"metadata": {"path": str(FOLDER)}}
    nbclient.NotebookClient(
        node, timeout=SECONDS, resources=resources, record_timing=False
    ).execute()
    return stable(json.loads(nbformat.writes(node)))


def stable(notebook: Notebook) -> Notebook:
    """Returns the notebook without what differs from run to run."""
    for cell in notebook["cells"]:
        cell["metadata"] = {}
        for output in cell.get("outputs", ()):
            output.pop("transient", None)
            if "metadata" in output:
                output["metadata"] = {}
            if "text" in output:
                output["text"] = _without_volatile(output["text"])
            for kind, content in output.get("data", {}).items():
                if kind.startswith("text/"):
                    output["data"][kind] = _without_volatile(content)
    notebook["metadata"] = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
        KEY: digest(notebook),
    }
    return notebook


def _without_volatile(text: str | list[str]) -> list[str]:
    joined = "".join(text)
    for pattern, words in VOLATILE:
        joined = pattern.sub(words, joined)
    return joined.splitlines(keepends=True)


def write(name: str, notebook: Notebook) -> None:
    """Writes the notebook of that name."""
    text = json.dumps(notebook, indent=1, ensure_ascii=False)
    (FOLDER / f"{name}.ipynb").write_text(text + "\n", encoding="utf-8")


def main() -> int:
    """Runs the command."""
    known = sorted(path.stem for path in FOLDER.glob("*.ipynb"))
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(known))
    parser.add_argument("--check", action="store_true", help="list notebooks with other results")
    options = parser.parse_args()
    unknown = sorted(set(options.names) - set(known))
    if unknown:
        parser.error(f"expected names of {', '.join(known)}, found {', '.join(unknown)}")
    names = options.names or known
    if options.check:
        old = [name for name in names if not is_stored(read(name))]
        print("\n".join(f"{name}: results of other sources" for name in old))
        return bool(old)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    for name in names:
        write(name, run(read(name)))
        print(name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
