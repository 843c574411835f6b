"""Loads the native library ``smex._C``, or remembers why it cannot be loaded.

``import smex`` never fails for want of the library. Where it is missing, a stand-in takes the place
of ``smex._C`` and raises :class:`SmexImportError` with the reason as soon as anything is used.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import sys
import warnings
from pathlib import Path
from types import ModuleType

from smex._version import __version__
from smex.errors import SmexImportError

_HOW_TO_BUILD = (
    "Build it from a checkout of SMEX: pip install --no-build-isolation -e .  (or: make build)"
)


class _Absent(ModuleType):
    """Stands in for ``smex._C`` and raises the reason at first use."""

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):  # what the import system asks of any module
            raise AttributeError(name)
        raise SmexImportError(self.__doc__)


def _read_build_info() -> dict[str, str]:
    """Returns what CMake wrote beside the library; empty where there is none."""
    path = Path(__file__).with_name("_build_info.json")
    try:
        return dict(json.loads(path.read_text()))
    except (OSError, ValueError):
        return {}


def _minor(version: str) -> list[str]:
    return version.split("+")[0].split(".")[:2]


def _series(version: str) -> str:
    """2.15 of 2.15.0+cu132, as wheels are named after it."""
    return ".".join(_minor(version))


def _mark_compiled_code() -> None:
    """Makes what ``torch.compile`` keeps on disk belong to this build of the library.

    A stored graph calls SMEX's operators as they were when it was compiled, and torch's key of it
    knows them by name alone: after an upgrade it would run the gradients of the version before.
    """
    import torch.compiler.config

    build_id = importlib.import_module("smex._C").build_id()
    mark = f"smex-{__version__}-{build_id}"
    tags = [tag for tag in torch.compiler.config.cache_key_tag.split(",") if tag]
    if mark not in tags:
        torch.compiler.config.cache_key_tag = ",".join([*tags, mark])


def _load(build_info: dict[str, str]) -> str | None:
    """Imports ``smex._C``; returns why that failed, or None."""
    try:
        import torch  # its libraries must be loaded before ours
    except ImportError as error:
        return f"torch cannot be imported: {error}"
    if importlib.util.find_spec("smex._C") is None:
        return (
            f"the native library has not been built for Python {sys.version.split()[0]}. "
            + _HOW_TO_BUILD
        )
    built = build_info.get("torch", "an unknown version")
    running = str(torch.__version__)
    if build_info and _minor(built) != _minor(running):
        return (
            f"the native library was built against torch {built}, but torch {running} is running; "
            "torch's C++ interface changes between minor versions. Install torch "
            f"{_series(built)}, or SMEX's wheel for torch {_series(running)}. {_HOW_TO_BUILD}"
        )
    try:
        importlib.import_module("smex._C")
    except ImportError as error:
        return (
            f"the native library does not load: {error} (built against torch {built}, running "
            f"torch {running}). {_HOW_TO_BUILD}"
        )
    _mark_compiled_code()
    if build_info and built != running:
        warnings.warn(
            f"SMEX was built against torch {built} and runs with torch {running}; "
            "rebuild it if anything misbehaves",
            stacklevel=4,
        )
    return None


build_info = _read_build_info()
"""Facts of the native build, by name; empty when it has never been built."""

missing_reason = _load(build_info)
"""Why the native library is not there, or None when it is."""

if missing_reason is not None:
    _absent = _Absent("smex._C", f"SMEX cannot run: {missing_reason}")
    sys.modules["smex._C"] = _absent
    sys.modules["smex"]._C = _absent  # type: ignore[attr-defined]
