"""The exceptions and warnings of SMEX.

Every error is a :class:`SmexError` and also the built-in kind that a caller would catch, so both
``except smex.SmexError`` and ``except ValueError`` work. C++ errors arrive as these classes, but
for those of operators (``torch.ops.smex``), which torch raises: they are the built-in kind alone.
"""

from __future__ import annotations

__all__ = [
    "CaptureError",
    "CaptureWarning",
    "CheckpointError",
    "MissingSpecWarning",
    "MixedRowsWarning",
    "PlanError",
    "RankFailure",
    "SlowPlanWarning",
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


class RankFailure(SmexRuntimeError):  # noqa: N818  (the rank has failed, not the call)
    """Another process, or this one, has failed, and what several run together cannot go on.

    Args:
        message: a sentence with all of the below.
        rank: of the process whose fault it is, or None where nobody knows.
        where: the instruction that failed, or empty.
        original: the text of the error that the rank met, or what was seen of it from outside.
        kind: "raised" (the rank met an error), "gone" (its process is gone without a goodbye),
            "silent" (it is stopped, or its machine cannot be reached), "store" (the store through
            which the ranks speak is gone), "absent" (it has never come), "left" (it has ended in
            good order while others wait for it).
    """

    def __init__(
        self,
        message: str,
        rank: int | None = None,
        where: str = "",
        original: str = "",
        kind: str = "raised",
    ) -> None:
        super().__init__(message)
        self.rank = rank
        self.where = where
        self.original = original
        self.kind = kind

    def __reduce__(self) -> tuple[type[RankFailure], tuple[str, int | None, str, str, str]]:
        message = self.args[0]
        return type(self), (message, self.rank, self.where, self.original, self.kind)


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


class SlowPlanWarning(UserWarning):
    """A plan measured slower than data parallelism."""


class MixedRowsWarning(UserWarning):
    """A vertex function's result for one vertex depends on the others computed with it."""
