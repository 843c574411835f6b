"""What the ATen operators mean, one module per family, and the lookup of a call's Spec."""

from smex.specs import (  # noqa: F401  (they fill the registry)
    convolution,
    embedding,
    factory,
    indexing,
    matmul,
    normalization,
    pointwise,
    pooling,
    random,
    reduction,
    view,
)
from smex.specs.lookup import argument_names, definition, instantiate, targets
from smex.specs.strategies import strategies

__all__ = ["argument_names", "definition", "instantiate", "strategies", "targets"]
