"""What the operators mean, one module per family; importing this package fills the registry.

``tensors`` makes, indexes, slices, joins and overwrites tensors, ``math`` has what computes numbers
of numbers, and ``nn`` the layers of networks.
"""

from smex.specs.families import math, nn, tensors

__all__ = ["math", "nn", "tensors"]
