"""Writes what DGL finds for the programs that the tests run with `smex.graph` and compare.

    python tools/record_dgl.py [graphs] [graphbolt] [pickles] [results] [sparse]

With an interpreter that has DGL 2.1 (`benchmarks/peers/environments.py dgl`); all of them unless
some are named. Which files these are, `RECORDINGS` says.
"""

from __future__ import annotations

import argparse
import gzip
import importlib.util
import io
import json
import os
import pathlib
import pickle
import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

import dgl
import dgl.graphbolt
import dgl.sparse
import torch

ROOT = pathlib.Path(__file__).parents[1]
TESTS = ROOT / "tests" / "python"
GRAPH = TESTS / "graph"


def graphs() -> bytes:
    """Of `tests/python/graph/recorded`, by area; DGL's own output is passed over."""
    programs = _module(GRAPH / "recorded" / "programs.py")
    with open(os.devnull, "w") as nowhere:
        stdout, sys.stdout = sys.stdout, nowhere
        results = {
            area: {program: programs.found(dgl, program) for program in texts}
            for area, texts in programs.all_programs().items()
        }
        sys.stdout = stdout
    return _packed(results)


def graphbolt() -> bytes:
    """Of `tests/python/graph/graphbolt/cases.py`."""
    return _packed(_module(GRAPH / "graphbolt" / "cases.py").results(dgl.graphbolt))


def pickles() -> bytes:
    """Of `tests/python/support/dgl_pickled.py`: a pickle, and a file of torch's."""
    kept = _module(TESTS / "support" / "dgl_pickled.py").graphs(dgl)
    file = io.BytesIO()
    torch.save(kept, file)
    pair = (pickle.dumps(kept), file.getvalue())
    return gzip.compress(pickle.dumps(pair), compresslevel=9, mtime=0)


def results() -> bytes:
    """Of `tests/python/support/dgl_[data_]programs.py`."""
    sys.path.insert(0, str(TESTS))
    from support import dgl_data_programs  # noqa: F401  (it adds programs)
    from support.dgl_programs import PROGRAMS, plain

    os.environ.pop("DGL_REPO", None)
    # Folders of data sets are those of their names, without a hash of the address.
    dgl.data.DGLDataset._get_hash_url_suffix = lambda self: ""
    found = {}
    for name, program in PROGRAMS.items():
        torch.manual_seed(0)
        found[name] = plain(program(dgl))
    return _lines(found)


def sparse() -> bytes:
    """Of `tests/python/graph/sparse/cases.py`."""
    cases = _module(GRAPH / "sparse" / "cases.py")
    return _lines({each: cases.found(dgl.sparse, each) for each in dict.fromkeys(cases.programs())})


RECORDINGS: dict[str, tuple[pathlib.Path, Callable[[], bytes]]] = {
    "graphs": (GRAPH / "recorded" / "dgl_2_1_graphs.json.gz", graphs),
    "graphbolt": (GRAPH / "graphbolt" / "recorded.json.gz", graphbolt),
    "pickles": (GRAPH / "creation" / "dgl_2_1_pickles.gz", pickles),
    "results": (GRAPH / "dgl_2_1_results.json", results),
    "sparse": (GRAPH / "sparse" / "dgl_2_1_sparse.json", sparse),
}
"""By name a file and what makes its bytes."""


def _module(path: pathlib.Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"{path.parent.name}_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _lines(found: Mapping[str, Any]) -> bytes:
    """JSON with a line for each program."""
    lines = (f"{json.dumps(name)}: {json.dumps(what)}" for name, what in found.items())
    return ("{\n" + ",\n".join(lines) + "\n}\n").encode()


def _packed(found: Any) -> bytes:
    """JSON without spaces, compressed, the same whenever it is written."""
    text = json.dumps(found, separators=(",", ":"))
    return gzip.compress(text.encode(), compresslevel=9, mtime=0)


def main() -> None:
    """Records and writes each file that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(RECORDINGS)}")
    names = parser.parse_args().names or list(RECORDINGS)
    if unknown := set(names) - RECORDINGS.keys():
        parser.error(f"{', '.join(sorted(unknown))}: expected names of {', '.join(RECORDINGS)}")
    torch.set_num_threads(1)
    for name in names:
        path, make = RECORDINGS[name]
        path.write_bytes(make())
        print(f"{path.relative_to(ROOT)}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
