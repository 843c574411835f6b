"""Data that programs read, by the names that lists gives it.

Each is written once, and copied to where programs look for it: data sets of DGL into its download
folder, those of OGB and GraphBolt into `dataset` and `datasets` beside the program.
"""

from __future__ import annotations

import pathlib
import shutil
import threading

import data_sets
import formats

_lock = threading.Lock()


def provide(name: str, work: pathlib.Path, home: pathlib.Path, cache: pathlib.Path) -> None:
    """Puts data where a program finds it.

    Args:
        name: of the data.
        work: the copy of the program's folder.
        home: the program's home folder, with the download folder in it.
        cache: where what was written is kept.
    """
    if name in data_sets.WRITERS:
        written = _written(cache, "data_sets", name, data_sets.write)
        places = [home / ".cache" / "smex"]
        if name.startswith("ogb"):
            places += [work / "dataset", work / "data" / "OGB"]
        elif name.startswith("gb-"):
            places = [work / "datasets"]
        for place in places:
            shutil.copytree(written, place, dirs_exist_ok=True)
    else:
        formats.place(_written(cache, "formats", name, formats.write), work, home)


def _written(cache: pathlib.Path, kind: str, name: str, write) -> pathlib.Path:
    """The folder with a data set, which is written unless it is there."""
    folder = cache / kind / name
    with _lock:
        if not folder.exists():
            unfinished = folder.with_name(f"{name}.unfinished")
            shutil.rmtree(unfinished, ignore_errors=True)
            write(name, unfinished)
            unfinished.rename(folder)
    return folder
