"""The systems of plain torch."""

from __future__ import annotations

from systems.csr import TorchCsr, TorchReduce
from systems.scatter import TorchScatter

SYSTEMS = (TorchCsr, TorchReduce, TorchScatter)
VERSIONS: dict[str, str] = {}
