"""Graphs of either package, whose pickles by DGL 2.1 are recorded (`tools/record_dgl.py pickles`)."""

from __future__ import annotations

import torch


def graphs(dgl):
    """By name graphs of all kinds, with features."""
    plain = dgl.graph(([0, 1, 3], [1, 2, 0]), num_nodes=5)
    plain.ndata["h"] = torch.arange(10.0).view(5, 2)
    plain.edata["w"] = torch.tensor([3, 1, 2], dtype=torch.int16)
    typed = dgl.heterograph(
        {
            ("user", "follows", "user"): ([0, 1, 2, 3, 3], [1, 2, 3, 0, 1]),
            ("dev", "makes", "game"): ([0, 1], [0, 2]),
            ("game", "liked", "user"): ([], []),
        },
        {"user": 5, "game": 3, "dev": 2, "spare": 4},
    )
    typed.nodes["spare"].data["x"] = torch.rand(4, 1, generator=torch.Generator().manual_seed(0))
    typed.edges["follows"].data["since"] = torch.arange(5)
    some = dgl.in_subgraph(plain, [0, 1])
    typed_block = dgl.to_block(dgl.in_subgraph(typed, {"user": [1, 3]}), {"user": [3, 1]})
    typed_block.srcnodes["user"].data["a"] = torch.arange(typed_block.num_src_nodes("user"))
    typed_block.dstnodes["user"].data["b"] = torch.tensor([0.5, 1.5])
    return {
        "plain": plain,
        "int32": plain.int(),
        "empty": dgl.graph(([], [])),
        "by sources": dgl.graph(("csr", ([0, 2, 3, 3], [2, 0, 1], [1, 0, 2]))),
        "by destinations": dgl.graph(("csc", ([0, 0, 1, 3], [2, 1, 0], [2, 1, 0]))),
        "one format": plain.formats("csr"),
        "typed": typed,
        "bipartite": dgl.heterograph({("u", "r", "v"): ([0, 1], [1, 1])}, {"u": 3, "v": 2}),
        "block": dgl.to_block(some, [1, 0]),
        "typed block": typed_block,
        "batch": dgl.batch([plain, dgl.add_self_loop(plain, ["w"])]),
        "typed batch": dgl.batch([typed, typed]),
    }
