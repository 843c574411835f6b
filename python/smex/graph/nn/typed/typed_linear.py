"""A matrix for each type of rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from smex.errors import SmexValueError
from smex.graph.nn.inputs import check_types
from smex.graph.ops.grouped import gather_mm, is_traced, lengths_of, segment_mm

REGULARIZERS = ("basis", "bdd")


class TypedLinear(nn.Module):
    r"""Multiplies each row by the matrix of its type (Schlichtkrull et al., ESWC'18, §2.2).

    .. math:: y_i = x_i W_{t(i)}

    The matrices are parameters, or are put together by a regularizer: ``basis`` makes them sums of
    shared matrices, :math:`W_t = \sum_b a_{tb} V_b` (eq. 3); with ``bdd`` they are block-diagonal,
    :math:`W_t = \bigoplus_b Q_{tb}` (eq. 4).

    Args:
        in_size: features of an input row.
        out_size: features of an output row.
        num_types: number of types.
        regularizer: None, ``basis`` or ``bdd``.
        num_bases: how many matrices V_b, or blocks Q_tb, there are.

    Raises:
        SmexValueError: an unknown regularizer, no number of bases, or sizes that ``num_bases``
            does not divide.

    Example:
        >>> sg.nn.TypedLinear(4, 2, 3)(torch.ones(5, 4), torch.tensor([0, 2, 1, 0, 0])).shape
        torch.Size([5, 2])
    """

    def __init__(
        self,
        in_size: int,
        out_size: int,
        num_types: int,
        regularizer: str | None = None,
        num_bases: int | None = None,
    ):
        super().__init__()
        if regularizer is not None and regularizer not in REGULARIZERS:
            raise SmexValueError(
                f"TypedLinear: regularizer must be None, 'basis' or 'bdd', found {regularizer!r}"
            )
        if regularizer is not None and num_bases is None:
            raise SmexValueError(
                f"TypedLinear: regularizer {regularizer!r} needs num_bases, found None"
            )
        self.in_size, self.out_size, self.num_types = in_size, out_size, num_types
        self.regularizer = regularizer
        self.num_bases = bases = 1 if num_bases is None else num_bases
        if regularizer == "bdd" and (in_size % bases or out_size % bases):
            raise SmexValueError(
                f"TypedLinear: num_bases must divide both sizes, found sizes {in_size} and "
                f"{out_size} and num_bases={bases}"
            )
        self.submat_in, self.submat_out = in_size // bases, out_size // bases
        shape: tuple[int, ...] = (num_types, in_size, out_size)
        if regularizer == "basis":
            shape = (bases, in_size, out_size)
        elif regularizer == "bdd":
            shape = (num_types, bases * self.submat_in * self.submat_out)
        self.W = nn.Parameter(torch.empty(shape))
        if regularizer == "basis":
            self.coeff = nn.Parameter(torch.empty(num_types, bases))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Uniform weights up to 1 / sqrt(input size of a block), Glorot's uniform coefficients."""
        width = self.submat_in if self.regularizer == "bdd" else self.in_size
        bound = 1 / math.sqrt(width) if width else 0.0
        nn.init.uniform_(self.W, -bound, bound)
        if self.regularizer == "basis":
            nn.init.xavier_uniform_(self.coeff, gain=nn.init.calculate_gain("relu"))

    def get_weight(self) -> Tensor:
        """Returns the matrices ``[num_types, in_size, out_size]``.

        Of ``bdd`` the blocks as they are.
        """
        if self.regularizer == "basis":
            return torch.einsum("tb,bio->tio", self.coeff, self.W)
        return self.W

    def forward(self, x: Tensor, x_type: Any, sorted_by_type: bool = False) -> Tensor:
        """Returns the products ``[num_rows, out_size]``.

        Args:
            x: ``[num_rows, in_size]``.
            x_type: ``[num_rows]`` integers, the rows' types.
            sorted_by_type: whether types do not fall from row to row, so that no row has to move.
        """
        x_type = torch.as_tensor(x_type, device=x.device)
        check_types("TypedLinear", "x_type", x_type, x.shape[0], self.num_types)
        weight = self.get_weight()
        if self.regularizer == "bdd":
            # Each part of a row has a matrix of its own.
            parts = torch.arange(self.num_bases, device=x.device)
            index = (x_type.long().unsqueeze(-1) * self.num_bases + parts).flatten()
            weight = weight.view(-1, self.submat_in, self.submat_out)
            product = gather_mm(x.reshape(-1, self.submat_in), weight, idx_b=index)
            return product.view(-1, self.out_size)
        if sorted_by_type and not is_traced(x_type):
            return segment_mm(x, weight, lengths_of(x_type, self.num_types))
        return gather_mm(x, weight, idx_b=x_type)

    def extra_repr(self) -> str:
        """Returns the sizes and the regularizer."""
        text = f"in_size={self.in_size}, out_size={self.out_size}, num_types={self.num_types}"
        if self.regularizer is None:
            return text
        return f"{text}, regularizer={self.regularizer}, num_bases={self.num_bases}"


class WeightBasis(nn.Module):
    r"""Matrices that are sums of shared ones (Schlichtkrull et al., ESWC'18, eq. 3).

    .. math:: W_t = \sum_b a_{tb} V_b

    Args:
        shape: of each matrix.
        num_bases: how many matrices V_b there are.
        num_outputs: how many matrices W_t.

    Raises:
        SmexValueError: a number is less than 1.

    Example:
        >>> sg.nn.WeightBasis((4, 2), 2, 3)().shape
        torch.Size([3, 4, 2])
    """

    def __init__(self, shape: Sequence[int], num_bases: int, num_outputs: int):
        super().__init__()
        self.shape, self.num_bases, self.num_outputs = tuple(shape), num_bases, num_outputs
        if min(num_bases, num_outputs) < 1:
            raise SmexValueError(
                f"WeightBasis: expected num_bases and num_outputs of 1 at least, found {num_bases} "
                f"and {num_outputs}"
            )
        self.weight = nn.Parameter(torch.empty(num_bases, *self.shape))
        self.w_comp = nn.Parameter(torch.empty(num_outputs, num_bases))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Glorot's uniform numbers times the gain of ReLU."""
        gain = nn.init.calculate_gain("relu")
        nn.init.xavier_uniform_(self.weight, gain=gain)
        nn.init.xavier_uniform_(self.w_comp, gain=gain)

    def forward(self) -> Tensor:
        """Returns the matrices ``[num_outputs, *shape]``."""
        return torch.einsum("tb,b...->t...", self.w_comp, self.weight)
