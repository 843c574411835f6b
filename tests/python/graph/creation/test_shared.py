"""Graphs in memory with a name."""

import gc
import os
import subprocess
import sys

import pytest
import torch

import smex
import smex.graph as sg

pytestmark = [
    pytest.mark.costly,
    pytest.mark.skipif(not os.path.isdir("/dev/shm"), reason="the system has no /dev/shm"),
]


def name():
    return f"test_{os.getpid()}"


@pytest.mark.parametrize("idtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("formats", ["coo", ["csr"], ["csr", "csc"], ("coo", "csr", "csc")])
def test_structure_is_shared(idtype, formats):
    torch.manual_seed(0)
    ends = {("u", "r", "v"): ([2, 0, 1], [1, 1, 0]), ("v", "s", "v"): ([], [])}
    g = sg.heterograph(ends, {"u": 4, "v": 3}, idtype=idtype)
    g.nodes["u"].data["x"] = torch.ones(4)
    shared = g.shared_memory(name(), formats)
    other = sg.hetero_from_shared_memory(name())
    for h in (shared, other):
        assert h.canonical_etypes == g.canonical_etypes and h.idtype == idtype
        assert h.num_nodes("u") == 4 and not h.nodes["u"].data
        expected = sorted(zip(*(x.tolist() for x in g.edges(etype="r"))))
        assert sorted(zip(*(x.tolist() for x in h.edges(etype="r")))) == expected
        wanted = [formats] if isinstance(formats, str) else list(formats)
        assert h.formats()["created"] == wanted and not h.formats()["not created"]
    with pytest.raises(smex.SmexValueError, match="shared_memory: the name .* is taken by a graph"):
        g.shared_memory(name())
    del shared, h
    gc.collect()
    with pytest.raises(smex.SmexValueError, match="there is no graph of the name"):
        sg.hetero_from_shared_memory(name())
    assert other.num_edges("r") == 3  # who has read it keeps it


def test_blocks_and_other_processes():
    block = sg.create_block(([0, 1, 2], [0, 0, 1]), num_src_nodes=4, num_dst_nodes=2)
    kept = block.shared_memory(name())
    code = (
        "import smex.graph as sg\n"
        f"b = sg.hetero_from_shared_memory({name()!r})\n"
        "print(b.is_block, b.num_src_nodes(), b.num_dst_nodes(), b.edges()[0].tolist())"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=100
    )
    assert found.stdout.split(maxsplit=3) == ["True", "4", "2", "[0, 1, 2]\n"]
    assert kept.is_block


def test_errors():
    g = sg.graph(([0], [1]))
    for wrong in ("", "a/b"):
        with pytest.raises(smex.SmexValueError, match="expected a name without slashes"):
            g.shared_memory(wrong)
    with pytest.raises(smex.SmexValueError, match="expected formats among"):
        g.shared_memory(name(), ["coo", "csx"])
