"""What the ATen operators mean, one module per family, and the lookup of a call's Spec."""

from smex.specs import (  # noqa: F401  (they fill the registry)
    activation,
    attention,
    batch_norm,
    cells,
    class_loss,
    convolution,
    distance,
    embedding,
    factory,
    fft,
    indexing,
    linalg,
    loss,
    matmul,
    normalization,
    padding,
    pieces,
    pointwise,
    pooling,
    random,
    rearrange,
    reduction,
    resampling,
    selection,
    sorting,
    special,
    statistics,
    view,
)
from smex.specs.lookup import argument_names, definition, instantiate, targets
from smex.specs.strategies import strategies
from smex.specs.verification import verify

__all__ = ["argument_names", "definition", "instantiate", "strategies", "targets", "verify"]
