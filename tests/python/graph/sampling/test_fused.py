"""Blocks of drawn neighbours, beside the draw and then the block."""

import pytest
import torch

import smex
import smex.graph as sg


@pytest.mark.parametrize("edge_dir", ["in", "out"])
def test_blocks_have_the_drawn_edges(edge_dir):
    torch.manual_seed(0)
    g = sg.rand_graph(50, 400)
    g.edata["w"], g.ndata["h"] = torch.arange(400), torch.arange(50)
    nodes = torch.tensor([7, 3, 20])
    torch.manual_seed(1)
    block = sg.sampling.sample_neighbors_fused(g, nodes, 4, edge_dir)
    torch.manual_seed(1)
    drawn = sg.sampling.sample_neighbors(g, nodes, 4, edge_dir)
    assert torch.equal(block.dstdata[sg.NID], nodes) and block.is_block
    assert block.edata[sg.EID].sort()[0].tolist() == drawn.edata[sg.EID].sort()[0].tolist()
    ends = [block.srcdata[sg.NID][block.edges()[0]], block.dstdata[sg.NID][block.edges()[1]]]
    src, dst = g.find_edges(block.edata[sg.EID])
    expected = (src, dst) if edge_dir == "in" else (dst, src)
    assert all(torch.equal(a, b) for a, b in zip(ends, expected))
    assert torch.equal(block.edata["w"], block.edata[sg.EID])
    assert torch.equal(block.srcdata["h"], block.srcdata[sg.NID])
    assert torch.equal(g.sample_neighbors_fused(nodes, -1).in_degrees(), g.in_degrees(nodes))


def test_types_and_mistakes():
    g = sg.heterograph({("u", "f", "u"): ([0, 1], [1, 0]), ("u", "p", "g"): ([0, 1], [0, 0])})
    block = sg.sampling.sample_neighbors_fused(g, {"g": [0]}, 5, exclude_edges={"p": [1]})
    assert block.num_edges("p") == 1 and block.num_edges("f") == 0
    with pytest.raises(smex.SmexValueError, match="must differ, found one twice"):
        sg.sampling.sample_neighbors_fused(sg.graph(([0], [1])), [1, 1], 1)
