"""The base of errors and warnings, and reserved names: what DGL's ``base`` module has."""

from __future__ import annotations

import warnings

from smex.graph.constants import ALL, EID, ETYPE, NID, NTYPE, DGLError
from smex.graph.words import is_all

__all__ = [
    "ALL",
    "EID",
    "ETYPE",
    "NID",
    "NTYPE",
    "DGLError",
    "DGLWarning",
    "dgl_warning",
    "is_all",
    "is_internal_column",
]


class DGLWarning(UserWarning):
    """What :func:`dgl_warning` warns of unless it is told otherwise; SMEX itself never does."""


def dgl_warning(message: str, category: type[Warning] = DGLWarning, stacklevel: int = 1) -> None:
    """``warnings.warn`` with :class:`DGLWarning` as its category."""
    warnings.warn(message, category=category, stacklevel=stacklevel + 1)


def is_internal_column(name: str) -> bool:
    """Returns whether a feature's name is one of the reserved ones.

    Example:
        >>> sg.base.is_internal_column(sg.NID), sg.base.is_internal_column("h")
        (True, False)
    """
    return name in (NTYPE, NID, ETYPE, EID)
