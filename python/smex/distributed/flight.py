"""Where a process writes its last instructions when something has failed."""

from __future__ import annotations

import os
import pathlib

from smex._C import Failure, Recorder
from smex._logging import logger
from smex.errors import SmexValueError

__all__ = ["flight_folder", "write_flight"]


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


def write_flight(
    recorder: Recorder, rank: int, size: int, failure: Failure | None = None
) -> pathlib.Path | None:
    """Writes what this process did last to the folder, if there is one, and says so in the log.

    For the way of another error to the user: where the folder cannot be written, the log says that.

    Returns:
        The file, or None.
    """
    folder = flight_folder()
    if folder is None:
        return None
    try:
        path = pathlib.Path(recorder.dump(str(folder), rank, size, failure))
    except SmexValueError as error:
        logger.warning("%s; give another folder as SMEX_FLIGHT_FOLDER", error)
        return None
    logger.warning(
        "rank %d: its last instructions are in %s; smex.diagnose(%r) compares those of all ranks",
        rank,
        path,
        str(folder),
    )
    return path
