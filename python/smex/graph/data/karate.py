"""Zachary's karate club (Zachary 1977), whose edges networkx has."""

from __future__ import annotations

import torch

from smex.graph.creation.networkx_io import from_networkx
from smex.graph.data.dataset import DGLDataset, OneGraphMixin, Transform
from smex.graph.packages import optional

__all__ = ["KarateClub", "KarateClubDataset"]


class KarateClubDataset(OneGraphMixin, DGLDataset):
    """The karate club: 34 members, 156 edges, and on whose side each was after the split.

    Node feature ``label``, int64 ``[34]``: 0 on the instructor's side, 1 on the officer's. There is
    an edge in both directions for each friendship. Nothing is downloaded.

    Args:
        transform: applied to the graph each time it is asked for.

    Raises:
        SmexImportError: networkx is not installed.

    Example:
        >>> sg.data.KarateClubDataset()[0].num_edges()
        156
    """

    def __init__(self, transform: Transform = None):
        super().__init__("karate_club", transform=transform)

    def _download(self) -> None:
        pass

    def process(self) -> None:
        """Makes the graph."""
        club = optional("KarateClubDataset", "networkx").karate_club_graph()
        self._g = from_networkx(club)
        sides = [int(side == "Officer") for _, side in club.nodes(data="club")]
        self._g.ndata["label"] = torch.tensor(sides)

    @property
    def num_classes(self) -> int:
        """2."""
        return 2


KarateClub = KarateClubDataset
