"""Where a process writes its last instructions when something has failed."""

from __future__ import annotations

import os
import pathlib

__all__ = ["flight_folder", "records_hint"]


def flight_folder() -> pathlib.Path | None:
    """Returns the folder of the files that ``smex.diagnose`` reads, or None: nothing is written.

    It is ``SMEX_FLIGHT_FOLDER``, with a folder for each restart below it where there may be some
    (torchrun), or else the folder ``flight`` among torchrun's logs of this attempt.
    """
    given = os.environ.get("SMEX_FLIGHT_FOLDER")
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT")
    if given:
        return pathlib.Path(given) / f"attempt_{attempt}" if attempt else pathlib.Path(given)
    error_file = os.environ.get("TORCHELASTIC_ERROR_FILE", "")
    # torchrun's is <logs>/<run>/attempt_0/<local rank>/error.json, or empty where it keeps no logs.
    return pathlib.Path(error_file).parents[1] / "flight" if error_file else None


def records_hint() -> str:
    """Returns what a failure's message ends with: how to read what ranks did last."""
    folder = flight_folder()
    return "" if folder is None else f" [python -m smex.distributed {folder} lines up the ranks]"
