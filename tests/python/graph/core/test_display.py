"""Graphs in print: DGL's text form, and HTML for notebooks."""

import sys
import xml.etree.ElementTree as ElementTree

import pytest
import torch

import smex.graph as sg

HOMO = """Graph(num_nodes=3, num_edges=2,
      ndata_schemes={'h': Scheme(shape=(4,), dtype=torch.float32)}
      edata_schemes={'w': Scheme(shape=(), dtype=torch.int64)})"""

HETERO = """Graph(num_nodes={'dev': 1, 'game': 2, 'user': 3},
      num_edges={('dev', 'makes', 'game'): 1, ('user', 'follows', 'user'): 2, ('user', 'plays', 'game'): 3},
      metagraph=[('dev', 'game', 'makes'), ('user', 'user', 'follows'), ('user', 'game', 'plays')])"""

BLOCK = """Block(num_src_nodes={'u': 2, 'v': 2},
      num_dst_nodes={'v': 3},
      num_edges={('u', 'r', 'v'): 2, ('v', 's', 'v'): 2},
      metagraph=[('u', 'v', 'r'), ('v', 'v', 's')])"""


def hetero():
    return sg.heterograph(
        {
            ("user", "follows", "user"): ([0, 1], [1, 2]),
            ("user", "plays", "game"): ([0, 1, 2], [0, 0, 1]),
            ("dev", "makes", "game"): ([0], [1]),
        }
    )


def parsed(g):
    """The HTML is well-formed and asks for nothing from elsewhere."""
    text = g._repr_html_()
    assert "http" not in text and "<script" not in text and "src=" not in text
    return ElementTree.fromstring(text)


def test_text_in_dgls_form():
    g = sg.graph(([0, 1], [1, 2]))
    g.ndata["h"] = torch.zeros(3, 4)
    g.edata["w"] = torch.zeros(2, dtype=torch.int64)
    assert repr(g) == HOMO
    assert repr(hetero()) == HETERO
    block = sg.create_block({("u", "r", "v"): ([0, 1], [1, 2]), ("v", "s", "v"): ([0, 1], [1, 2])})
    assert repr(block) == BLOCK
    small = sg.create_block(([0, 1], [1, 2]), num_src_nodes=3, num_dst_nodes=4)
    assert repr(small) == "Block(num_src_nodes=3, num_dst_nodes=4, num_edges=2)"


def test_text_orders_the_metagraph_by_source():
    g = sg.heterograph(
        {("a", "x", "b"): ([0], [0]), ("b", "x", "a"): ([0], [0]), ("a", "y", "a"): ([], [])}
    )
    found = repr(g).split("metagraph=")[1]
    edges = [(u, v, key) for u, v, key in g.metagraph().edges(keys=True)]
    assert found == f"{edges})"


def test_html_tells_types_sizes_and_features():
    g = hetero()
    g.nodes["user"].data["h"] = torch.zeros(3, 4)
    rows = ["|".join(cell.text or "" for cell in row) for row in parsed(g).iter("tr")]
    assert rows == [
        "type|number|features",
        "nodes dev|1|",
        "nodes game|2|",
        "nodes user|3|h: float32 [4]",
        "edges dev → makes → game|1|",
        "edges user → follows → user|2|",
        "edges user → plays → game|3|",
    ]


def test_html_escapes_names():
    g = sg.heterograph({("<b>", '"&', "</td>"): ([0], [0])})
    g.edata["<script>"] = torch.zeros(1)
    text = "".join(parsed(g).itertext())
    assert 'edges <b> → "& → </td>' in text and "<script>: float32 []" in text


def test_html_draws_small_graphs():
    g = sg.graph(([0, 1, 1, 2, 2], [1, 2, 2, 2, 0]))
    tree = parsed(g)
    labels = [node.text for node in tree.iter("text")]
    assert labels == ["0", "1", "2"]
    assert len(list(tree.iter("path"))) == 3 and len(list(tree.iter("circle"))) == 4
    assert not list(parsed(sg.rand_graph(301, 10)).iter("svg"))
    assert not list(parsed(sg.rand_graph(200, 1501)).iter("svg"))
    assert len(list(parsed(sg.graph(([], []), num_nodes=1)).iter("circle"))) == 1


def two_groups():
    """Two cliques of 20 nodes and one edge between them."""
    ends = [(u, v) for group in (0, 20) for u in range(group, group + 20) for v in range(group, u)]
    src, dst = zip(*ends, (0, 39))
    return sg.to_bidirected(sg.graph((src, dst)))


def test_more_nodes_lie_where_their_edges_pull_them():
    circles = list(parsed(two_groups()).iter("circle"))
    places = torch.tensor([[float(c.get("cx")), float(c.get("cy"))] for c in circles])
    left, right = places[:20], places[20:]
    apart = (left.mean(0) - right.mean(0)).norm()
    assert apart > 2 * (left - left.mean(0)).norm(dim=1).mean()
    assert places.abs().max() <= 150
    assert [circle.find("title").text for circle in circles] == [str(node) for node in range(40)]


def test_without_networkx_they_are_told_only(monkeypatch):
    monkeypatch.setitem(sys.modules, "networkx", None)
    assert not list(parsed(two_groups()).iter("svg"))
    assert len(list(parsed(sg.graph(([0], [1]))).iter("svg"))) == 1


@pytest.mark.parametrize("name", ["label", "y"])
def test_colours_stand_for_classes(name):
    g = sg.graph(([0, 1, 2], [1, 2, 3]))
    g.ndata[name] = torch.tensor([0, 1, 0, -1])
    fills = [circle.get("fill") for circle in parsed(g).iter("circle")]
    assert fills[0] == fills[2] and len(set(fills)) == 3
    g.ndata[name] = torch.tensor([0, 1, 0, 10**6])  # no class
    assert len({circle.get("fill") for circle in parsed(g).iter("circle")}) == 1
    g.ndata[name] = torch.rand(4, 2)
    assert len({circle.get("fill") for circle in parsed(g).iter("circle")}) == 1


def test_types_of_heterographs_are_drawn():
    tree = parsed(hetero())
    words = [text.text for text in tree.iter("text")]
    assert words == ["makes", "follows", "plays", "1", "dev", "2", "game", "3", "user"]
    assert len(list(tree.iter("path"))) == 2  # and a loop
    assert len(list(tree.iter("circle"))) == 4
    both = sg.heterograph({("a", "x", "b"): ([0], [0]), ("b", "<y>", "a"): ([0], [0])})
    starts = [path.get("d").partition("Q")[2].split()[:2] for path in parsed(both).iter("path")]
    assert len(set(map(tuple, starts))) == 2  # bent apart
    assert "<y>" in [text.text for text in parsed(both).iter("text")]


def test_html_of_batches_blocks_and_many_types():
    batched = sg.batch([sg.graph(([0], [1]))] * 3)
    assert "batch of 3" in "".join(parsed(batched).itertext())
    block = sg.create_block(([0], [1]))
    assert "source nodes _N" in "".join(parsed(block).itertext())
    many = sg.heterograph({("n", f"e{i}", "n"): ([0], [0]) for i in range(70)})
    assert "… 21 types more" in "".join(parsed(many).itertext())
    assert not list(parsed(many).iter("svg"))
    assert "Graph" in "".join(parsed(sg.graph(([], []))).itertext())
