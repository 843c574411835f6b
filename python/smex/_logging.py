"""The one logging channel of SMEX: the logger ``smex`` and its children.

``SMEX_LOGS=debug`` (or info, warning, error) sets its level and prints to standard error. Without
it the library leaves handlers and levels to the application.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator

logger = logging.getLogger("smex")


def configure(level_name: str | None = None) -> None:
    """Sets the level of the logger ``smex`` and lets it print to standard error.

    Args:
        level_name: A level of :mod:`logging` in any case. By default ``SMEX_LOGS``; where that is
            empty too, nothing changes. An unknown name is reported and otherwise ignored.
    """
    name = (os.environ.get("SMEX_LOGS", "") if level_name is None else level_name).strip()
    if not name:
        return
    level = logging.getLevelName(name.upper())
    if not any(type(handler) is logging.StreamHandler for handler in logger.handlers):
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(asctime)s %(name)s %(levelname)s: %(message)s"))
        logger.addHandler(handler)
        logger.propagate = False
    if isinstance(level, int):
        logger.setLevel(level)
    else:
        logger.warning("SMEX_LOGS=%r is not a level; use debug, info, warning or error", name)


@contextlib.contextmanager
def quiet_fakes() -> Iterator[None]:
    """Without the traceback that fake tensors log for every failing call; it is raised as well."""
    logger = logging.getLogger("torch._subclasses.fake_tensor")
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before


logger.addHandler(logging.NullHandler())
configure()
