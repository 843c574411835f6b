"""What operators mean, one module per family, and the lookup of a call's Spec."""

from smex.specs import families as families  # fills the registry
from smex.specs.lookup import argument_names, definition, instantiate, signature, targets, told
from smex.specs.strategies import strategies
from smex.specs.verification import verify
from smex.tdl import spec as spec  # with which those of a program replace these: after them

__all__ = [
    "argument_names",
    "definition",
    "instantiate",
    "signature",
    "strategies",
    "targets",
    "told",
    "verify",
]
