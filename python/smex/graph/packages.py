"""Packages that only some functions need, imported where they are used."""

from __future__ import annotations

import importlib
from typing import Any

from smex.errors import SmexImportError


def optional(op: str, module: str, package: str | None = None) -> Any:
    """Returns a module of a package that need not be installed.

    Raises:
        SmexImportError: it is not.
    """
    package = package or module.partition(".")[0]
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise SmexImportError(
            f"{op}: the package {package} is not installed; pip install {package}"
        ) from error
