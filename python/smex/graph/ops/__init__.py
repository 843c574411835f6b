"""Message passing as operations on tensors: ``gspmm``, ``gsddmm`` and the names made of them."""

from typing import Any

from smex.graph.ops import sddmm as _sddmm
from smex.graph.ops import spmm as _spmm
from smex.graph.ops.attention import dot_attention, gat_attention, gatv2_attention
from smex.graph.ops.edge_softmax import edge_softmax
from smex.graph.ops.grouped import gather_mm, segment_mm
from smex.graph.ops.sddmm import gsddmm
from smex.graph.ops.segment import segment_reduce, segment_softmax
from smex.graph.ops.spmm import gspmm

globals().update(_spmm.GENERATED)
globals().update(_sddmm.GENERATED)


def __getattr__(name: str) -> Any:  # tells type checkers that there are generated names
    raise AttributeError(f"module 'smex.graph.ops' has no attribute {name!r}")


__all__ = [
    "dot_attention",
    "edge_softmax",
    "gat_attention",
    "gather_mm",
    "gatv2_attention",
    "gsddmm",
    "gspmm",
    "segment_mm",
    "segment_reduce",
    "segment_softmax",
]
__all__ += [*_spmm.GENERATED, *_sddmm.GENERATED]
