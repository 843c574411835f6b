"""Writes what DGL returns for the programs of tests/python/support/dgl_[data_]programs.py.

    python tools/record_dgl.py

With an interpreter that has DGL 2.1; the tests run the same programs with `smex.graph` and compare.
"""

from __future__ import annotations

import json
import os
import pathlib
import sys

import dgl
import torch

ROOT = pathlib.Path(__file__).parents[1]
RESULTS = ROOT / "tests" / "python" / "graph" / "dgl_2_1_results.json"


def main() -> None:
    """Runs the programs and writes the file."""
    sys.path.insert(0, str(ROOT / "tests" / "python"))
    from support import dgl_data_programs  # noqa: F401  (it adds programs)
    from support.dgl_programs import PROGRAMS, plain

    os.environ.pop("DGL_REPO", None)
    # Folders of data sets are those of their names, without a hash of the address.
    dgl.data.DGLDataset._get_hash_url_suffix = lambda self: ""
    results = {}
    for name, program in PROGRAMS.items():
        torch.manual_seed(0)
        results[name] = plain(program(dgl))
    lines = (f"{json.dumps(name)}: {json.dumps(found)}" for name, found in results.items())
    RESULTS.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
