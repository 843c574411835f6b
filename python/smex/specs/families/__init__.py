"""What the operators mean, one module per family; importing this package fills the registry.

``tensors`` makes, indexes, slices, joins and overwrites tensors, ``math`` has what computes numbers
of numbers, ``nn`` the layers of networks, and ``graphs`` messages along edges.
"""

from smex.specs.families import graphs, math, nn, tensors

__all__ = ["graphs", "math", "nn", "tensors"]
