"""Edges drawn by the tags of neighbours."""

import pytest
import torch

import smex
import smex.graph as sg

SORTED = {"in": sg.sort_csc_by_tag, "out": sg.sort_csr_by_tag}


@pytest.mark.parametrize("edge_dir", ["in", "out"])
@pytest.mark.parametrize("tag_type", ["node", "edge"])
def test_offsets_count_the_tags(edge_dir, tag_type):
    torch.manual_seed(0)
    src, dst = torch.randint(6, (40,)), torch.randint(9, (40,))
    g = sg.heterograph({("a", "r", "b"): (src, dst)}, {"a": 6, "b": 9})
    other, own = (src, dst) if edge_dir == "in" else (dst, src)
    size = {"node": {"in": 6, "out": 9}[edge_dir], "edge": 40}[tag_type]
    tag = torch.randint(3, (size,))
    tag[0] = 2
    made = SORTED[edge_dir](g, tag, "offsets", tag_type)
    offsets = (made.dstdata if edge_dir == "in" else made.srcdata)["offsets"]
    of_edge = tag[other] if tag_type == "node" else tag
    for node in range(len(offsets)):
        below = [int(((own == node) & (of_edge < t)).sum()) for t in range(4)]
        assert offsets[node].tolist() == below
    assert not g.edata and torch.equal(made.edges()[0], src)


@pytest.mark.parametrize("edge_dir", ["in", "out"])
def test_edges_are_drawn_by_bias(edge_dir):
    """A node with 2 neighbours of tag 0, 3 of tag 1 and 1 of tag 2, with weights 1, 2 and 0."""
    torch.manual_seed(0)
    ends = (torch.arange(6), torch.full((6,), 6))
    g = sg.graph(ends if edge_dir == "in" else ends[::-1], num_nodes=7)
    g.edata["w"] = torch.arange(6.0)
    made = SORTED[edge_dir](g, torch.tensor([0, 1, 1, 0, 1, 2, 0]))
    bias = torch.tensor([1.0, 2.0, 0.0])
    drawn = sg.sampling.sample_neighbors_biased(made, [6], 8000, bias, edge_dir, replace=True)
    counts = torch.bincount(drawn.edata[sg.EID], minlength=6)
    expected = 8000 * bias[torch.tensor([0, 1, 1, 0, 1, 2])] / 8
    assert counts[5] == 0
    statistic = ((counts - expected)[:5] ** 2 / expected[:5]).sum()
    assert statistic < 23.5  # exceeded once in 10,000 times with 4 degrees of freedom
    assert torch.equal(drawn.edata["w"], drawn.edata[sg.EID].float())
    assert (
        set(drawn.edata) == {"w", f"_{edge_dir.upper()}_TAG", sg.EID} and "_BIAS" not in made.edata
    )
    few = sg.sampling.sample_neighbors_biased(made, [6], 10, bias, edge_dir)
    assert sorted(few.edata[sg.EID].tolist()) == [0, 1, 2, 3, 4]


def test_mistakes():
    g = sg.graph(([0, 1], [1, 2]))
    sample = sg.sampling.sample_neighbors_biased
    for tag in (torch.zeros(2).long(), torch.zeros(3), torch.tensor([0, -1, 0]), [0, 1, 0]):
        with pytest.raises(smex.SmexValueError, match="sort_csc_by_tag: expected a tag from 0 for"):
            sg.sort_csc_by_tag(g, tag)
    with pytest.raises(smex.SmexValueError, match='sort_csr_by_tag: tag_type must be "node" or'):
        sg.sort_csr_by_tag(g, torch.zeros(3).long(), tag_type="graph")
    with pytest.raises(KeyError, match="the graph has no tags .* make it by sort_csc_by_tag first"):
        sample(g, [1], 1, [1.0])
    made = sg.sort_csc_by_tag(g, torch.tensor([0, 1, 0]))
    with pytest.raises(KeyError, match="make it by sort_csr_by_tag first"):
        sample(made, [1], 1, [1.0, 1.0], "out")
    with pytest.raises(smex.SmexValueError, match=r"a bias for each of 2 tags, found shape \[1\]"):
        sample(made, [1], 1, [1.0])
