"""What a network makes of the results of all its layers."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from smex.errors import SmexValueError
from smex.graph.nn.inputs import check_choice

MODES = ("cat", "max", "lstm")


class JumpingKnowledge(nn.Module):
    r"""Jumping knowledge (Xu et al., ICML'18, §4): one row of each node from those of all layers.

    Args:
        mode: ``cat`` (side by side), ``max`` (element by element) or ``lstm``,
            :math:`\sum_t a_v^{(t)} h_v^{(t)}` with weights by a bidirectional LSTM.
        in_feats: features of a row, for ``lstm``.
        num_layers: number of layers, for ``lstm``.

    Raises:
        SmexValueError: an unknown mode, or ``lstm`` without sizes.

    Example:
        >>> sg.nn.JumpingKnowledge()([torch.ones(3, 4), torch.zeros(3, 4)]).shape
        torch.Size([3, 8])
    """

    def __init__(
        self, mode: str = "cat", in_feats: int | None = None, num_layers: int | None = None
    ):
        super().__init__()
        check_choice("JumpingKnowledge", "mode", mode, MODES)
        self.mode = mode
        if mode == "lstm":
            if in_feats is None or num_layers is None:
                raise SmexValueError(
                    "JumpingKnowledge: mode='lstm' needs in_feats and num_layers, found "
                    f"{in_feats} and {num_layers}"
                )
            hidden = num_layers * in_feats // 2
            self.lstm = nn.LSTM(in_feats, hidden, bidirectional=True, batch_first=True)
            self.att = nn.Linear(2 * hidden, 1)

    def reset_parameters(self) -> None:
        """Those of the LSTM and of the linear layer."""
        if self.mode == "lstm":
            self.lstm.reset_parameters()
            self.att.reset_parameters()

    def forward(self, feat_list: Sequence[Tensor]) -> Tensor:
        """Returns the new features ``[num_nodes, features]``, of ``cat`` as wide as all together.

        Args:
            feat_list: ``[num_nodes, features]`` of each layer.
        """
        if self.mode == "cat":
            return torch.cat(list(feat_list), -1)
        stacked = torch.stack(list(feat_list), 1)
        if self.mode == "max":
            return stacked.amax(1)
        weight = self.att(self.lstm(stacked)[0]).softmax(1)
        return (stacked * weight).sum(1)
