"""Layers one after another."""

from __future__ import annotations

from typing import Any

from torch import nn

from smex.errors import SmexValueError


class Sequential(nn.Sequential):
    """Layers of which each takes what the one before it returned, and a graph.

    Example:
        >>> g = sg.add_self_loop(sg.graph(([0, 1], [1, 2])))
        >>> net = sg.nn.Sequential(sg.nn.GraphConv(4, 8), sg.nn.GraphConv(8, 2))
        >>> net(g, torch.ones(3, 4)).shape
        torch.Size([3, 2])
    """

    def forward(self, graph: Any, *feats: Any) -> Any:
        """Returns the last layer's result.

        Args:
            graph: a graph, or a list with one for each layer, such as the blocks of a batch.
            feats: the first layer's arguments after the graph; a tuple that a layer returns is all
                arguments of the next one.

        Raises:
            SmexValueError: a list with more or fewer graphs than layers.
        """
        graphs = list(graph) if isinstance(graph, (list, tuple)) else [graph] * len(self)
        if len(graphs) != len(self):
            raise SmexValueError(
                f"Sequential: expected a graph for each of {len(self)} layers, found {len(graphs)}"
            )
        for layer, own in zip(self, graphs):
            result = layer(own, *feats)
            feats = result if isinstance(result, tuple) else (result,)
        return feats[0] if len(feats) == 1 else feats
