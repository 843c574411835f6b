"""What plans are compared with that cut no tensors: estimates of Tofu's baselines (Tofu §7.1).

Each function takes a captured graph and a `smex.Machine` and returns an `Estimate`. An iteration is
forward, backward and the update of the parameters. Its calls run in the captured order, fused where
one device would run them fused, and take the roofline of `smex.Machine`. An update reads the
parameter, its gradient and the optimiser's states and writes the first and the last of these.
"""

from baselines.estimates import Estimate, ideal, largest_fitting, planned, small_batch
from baselines.iteration import op_seconds
from baselines.layers import op_placement
from baselines.swap import swapping
from baselines.tensor_parallel import megatron

__all__ = [
    "Estimate",
    "ideal",
    "largest_fitting",
    "megatron",
    "op_placement",
    "op_seconds",
    "planned",
    "small_batch",
    "swapping",
]
