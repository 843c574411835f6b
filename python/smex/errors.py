"""The exceptions and warnings of SMEX.

Every error is a :class:`SmexError` and also the built-in kind that a caller would catch, so both
``except smex.SmexError`` and ``except ValueError`` work. C++ errors arrive as these classes, but
for those of operators (``torch.ops.smex``), which torch raises: they are the built-in kind alone.
"""

__all__ = [
    "CaptureError",
    "CaptureWarning",
    "CheckpointError",
    "MissingSpecWarning",
    "MixedRowsWarning",
    "PlanError",
    "SmexError",
    "SmexImportError",
    "SmexIndexError",
    "SmexKeyError",
    "SmexRuntimeError",
    "SmexTypeError",
    "SmexValueError",
    "SpecError",
]


class SmexError(Exception):
    """The base of all errors that SMEX raises on purpose."""


class SmexValueError(SmexError, ValueError):
    """An argument has the right type and an impossible value."""


class SmexTypeError(SmexError, TypeError):
    """An argument has the wrong type or dtype."""


class SmexRuntimeError(SmexError, RuntimeError):
    """A program could not run, or SMEX broke one of its own invariants."""


class SmexImportError(SmexError, ImportError):
    """The native library is missing or does not fit this Python and torch."""


class SmexIndexError(SmexError, IndexError):
    """A number is out of range, such as an index into a table."""


class SmexKeyError(SmexError, KeyError):
    """There is nothing of that name; the message lists what there is."""

    def __str__(self) -> str:  # KeyError would print the message's repr
        return str(self.args[0]) if self.args else ""


class CaptureError(SmexError, RuntimeError):
    """A model could not be turned into a semantic graph."""


class CheckpointError(SmexError, RuntimeError):
    """A checkpoint could not be written, or is not what was written."""


class PlanError(SmexError, ValueError):
    """A plan is malformed, or does not fit the model or the number of workers."""


class SpecError(SmexError, ValueError):
    """A specification is malformed or contradicts its operator."""


class CaptureWarning(UserWarning):
    """Something that the model does has no effect, or another one, when it is captured."""


class MissingSpecWarning(UserWarning):
    """An operator has no specification and therefore runs unsplit."""


class MixedRowsWarning(UserWarning):
    """A vertex function's result for one vertex depends on the others computed with it."""
