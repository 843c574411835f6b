"""SMEX: specified tensor operators, mapped to execution."""

from smex import _logging, _native, errors
from smex._version import __version__
from smex.config import Config, show_config
from smex.errors import (
    CaptureError,
    MissingSpecWarning,
    PlanError,
    SmexError,
    SmexImportError,
    SmexRuntimeError,
    SmexTypeError,
    SmexValueError,
    SpecError,
)

__all__ = [
    "CaptureError",
    "Config",
    "MissingSpecWarning",
    "PlanError",
    "SmexError",
    "SmexImportError",
    "SmexRuntimeError",
    "SmexTypeError",
    "SmexValueError",
    "SpecError",
    "__version__",
    "errors",
    "show_config",
]
